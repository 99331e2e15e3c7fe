/* What images take of the disk of keys. cay-image counts, since only it reads the store; the sum is
 * noted at the start and after every change, so that a killed daemon leaves nothing to repair. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/daytona/s3.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/front/internal.h"
#include "daemon/helpers/pulls.h"

enum { USAGE_MAX = 4 * 1024 * 1024, ANSWER_MAX = 64 * 1024 };

int front_ask_store(const struct front *f, const struct front_client *whose, enum store_verb verb,
                    const char *name, const char *other, struct buf *text, struct cay_error *err) {
    struct control_message m = {.op = CONTROL_STORE, .number = verb};
    if (str_copy(m.owner, sizeof m.owner, whose->owner) < 0 ||
        str_copy(m.made_by, sizeof m.made_by, whose->made_by) < 0 ||
        str_copy(m.name, sizeof m.name, name) < 0 || str_copy(m.other, sizeof m.other, other) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the image's name is too long");
    uint64_t left = verb == STORE_UNNAME
                        ? manager_disk_left(f->manager, whose->owner, whose->made_by)
                        : UINT64_MAX;
    m.room = left == UINT64_MAX ? 0 : MAX(left, (uint64_t)1);
    return pulls_ask_store(f->options->control, &m, text, err);
}

/* ---- how much there is ---- */

/* OWNER, key and bytes, separated by tabs. */
static bool read_line(char *line, struct budget_disk *ret) {
    char *made_by = strchr(line, '\t');
    char *bytes = made_by == NULL ? NULL : strchr(made_by + 1, '\t');
    if (bytes == NULL)
        return false;
    *made_by++ = '\0';
    *bytes++ = '\0';
    return str_copy(ret->owner, sizeof ret->owner, line) == 0 &&
           str_copy(ret->made_by, sizeof ret->made_by, made_by) == 0 &&
           str_to_u64(bytes, INT64_MAX, &ret->bytes) == 0;
}

static size_t count_lines(const char *text) {
    size_t lines = 1;
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

/* The first line is "ok". */
static int note_lines(struct front *f, char *text, struct cay_error *err) {
    size_t count = 0;
    char *save = NULL;
    _cleanup_(freep) struct budget_disk *rows = calloc(count_lines(text), sizeof *rows);
    if (rows == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    (void)strtok_r(text, "\n", &save);
    for (char *line; (line = strtok_r(NULL, "\n", &save)) != NULL;)
        if (!read_line(line, &rows[count++]))
            return error_set(err, CAY_INTERNAL, "the store's answer makes no sense");
    (void)pthread_mutex_lock(&f->budget_lock);
    if (!f->is_over)
        manager_disk_note_all(f->manager, BUDGET_DISK_IMAGES, rows, count);
    (void)pthread_mutex_unlock(&f->budget_lock);
    return 0;
}

/* One at a time: what was asked later is noted later. */
void front_store_settle(struct front *f) {
    static const struct front_client everybody = {"", ""};
    struct cay_error err;
    _cleanup_(buf_free) struct buf text = BUF_INIT(USAGE_MAX);
    (void)pthread_mutex_lock(&f->store_lock);
    int r = front_ask_store(f, &everybody, STORE_USAGE, "", "", &text, &err);
    if (r == 0)
        r = note_lines(f, text.data, &err);
    (void)pthread_mutex_unlock(&f->store_lock);
    if (r < 0)
        log_event(LOG_LEVEL_WARN, "the sizes of images are not known", "why", "%s", err.message);
}

void front_store_begin(struct front *f) {
    _cleanup_(freep) struct key *keys = NULL;
    struct cay_error ignored; /* then the first change notes them */
    size_t count = 0;
    s3_note_uploads(f->contexts, f->manager);
    if (manager_key_list(f->manager, &keys, &count, &ignored) == 0 && count > 0)
        front_store_settle(f);
}

/* ---- what may be made ---- */

/* An image may have been removed behind our back: it is counted again before a key is refused. */
int front_store_admit(struct front *f, const struct front_client *whose, uint64_t *ret_room,
                      struct cay_error *err) {
    *ret_room = 0;
    if (whose->owner[0] == '\0')
        return 0;
    if (manager_disk_check(f->manager, whose->owner, whose->made_by, 1, err) < 0)
        front_store_settle(f);
    int r = manager_disk_check(f->manager, whose->owner, whose->made_by, 1, err);
    uint64_t left = manager_disk_left(f->manager, whose->owner, whose->made_by);
    *ret_room = left == UINT64_MAX ? 0 : left;
    return r;
}

int front_store_charge(struct front *f, const struct front_client *whose, const char *name,
                       struct cay_error *err) {
    struct cay_error ignored;
    _cleanup_(buf_free) struct buf text = BUF_INIT(ANSWER_MAX);
    if (whose->owner[0] == '\0')
        return 0;
    uint64_t before =
        manager_disk_noted(f->manager, BUDGET_DISK_IMAGES, whose->owner, whose->made_by);
    front_store_settle(f);
    if (manager_disk_noted(f->manager, BUDGET_DISK_IMAGES, whose->owner, whose->made_by) <= before)
        return 0;
    int r = manager_disk_check(f->manager, whose->owner, whose->made_by, 0, err);
    if (r == 0)
        return 0;
    if (front_ask_store(f, whose, STORE_UNNAME, name, "", &text, &ignored) < 0)
        log_event(LOG_LEVEL_WARN, "an image beyond the limit of a key stays", "why", "%s",
                  ignored.message);
    front_store_settle(f);
    return r;
}
