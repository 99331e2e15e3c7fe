#include "api/build/build_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"

static const char first_line[] = "cay build 1";
static const char *const states[] = {[BUILD_PENDING] = "pending",
                                     [BUILD_RUNNING] = "running",
                                     [BUILD_DONE] = "done",
                                     [BUILD_FAILED] = "failed"};

void build_note_format(const struct build_note *n, char out[static BUILD_NOTE_SIZE]) {
    char reason[SANDBOX_TEXT_SIZE];
    (void)str_escape(reason, sizeof reason, n->view.reason);
    memset(out, '\n', BUILD_NOTE_SIZE);
    int len = snprintf(out, BUILD_NOTE_SIZE, "%s\n%s\n%s\n%s\n%s\n%" PRId64 "\n%" PRId64 "\n%s\n",
                       first_line, n->view.name, n->owner, n->is_snapshot ? "snapshot" : "sandbox",
                       states[n->view.state], n->view.created_ms, n->view.updated_ms, reason);
    out[MIN(len, BUILD_NOTE_SIZE - 1)] = '\n'; /* in place of the NUL */
}

/* The next line, of at most size - 1 bytes. */
static bool take_line(const char **text, const char *end, char *out, size_t size) {
    const char *stop = memchr(*text, '\n', (size_t)(end - *text));
    if (stop == NULL || (size_t)(stop - *text) >= size ||
        memchr(*text, '\0', (size_t)(stop - *text)) != NULL)
        return false;
    memcpy(out, *text, (size_t)(stop - *text));
    out[stop - *text] = '\0';
    *text = stop + 1;
    return true;
}

static bool read_state(const char *text, enum build_state *ret) {
    for (size_t i = 0; i < ARRAY_LEN(states); i++) {
        if (!str_equal(states[i], text))
            continue;
        *ret = (enum build_state)i;
        return true;
    }
    return false;
}

bool build_note_parse(const char text[static BUILD_NOTE_SIZE], struct build_note *ret) {
    const char *end = text + BUILD_NOTE_SIZE;
    char line[32], kind[16], state[16], created[24], updated[24];
    *ret = (struct build_note){0};
    bool is_whole = take_line(&text, end, line, sizeof line) && str_equal(line, first_line) &&
                    take_line(&text, end, ret->view.name, sizeof ret->view.name) &&
                    take_line(&text, end, ret->owner, sizeof ret->owner) &&
                    take_line(&text, end, kind, sizeof kind) &&
                    take_line(&text, end, state, sizeof state) &&
                    take_line(&text, end, created, sizeof created) &&
                    take_line(&text, end, updated, sizeof updated) &&
                    take_line(&text, end, ret->view.reason, sizeof ret->view.reason);
    ret->is_snapshot = is_whole && str_equal(kind, "snapshot");
    return is_whole && ret->view.name[0] != '\0' && read_state(state, &ret->view.state) &&
           (ret->is_snapshot || str_equal(kind, "sandbox")) &&
           str_to_i64(created, 0, INT64_MAX, &ret->view.created_ms) == 0 &&
           str_to_i64(updated, 0, INT64_MAX, &ret->view.updated_ms) == 0;
}

int build_file_make(int folder, char name[static ID_SIZE]) {
    if (folder < 0 || id_new(name, NULL) < 0)
        return -1;
    return openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

void build_file_note(int file, const struct build_note *n) {
    char text[BUILD_NOTE_SIZE];
    if (file < 0)
        return;
    build_note_format(n, text);
    ssize_t ignored = pwrite(file, text, sizeof text, 0);
    (void)ignored;
}

void build_file_log(int file, size_t at, const char *data, size_t len) {
    ssize_t ignored = file < 0 ? 0 : pwrite(file, data, len, (off_t)(BUILD_NOTE_SIZE + at));
    (void)ignored;
}

int build_file_open(int folder, const char *name, struct build_note *ret, struct buf *log) {
    char text[BUILD_NOTE_SIZE], chunk[4096];
    _cleanup_(closep) int fd = openat(folder, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fd_read_all(fd, text, sizeof text) != 1 || !build_note_parse(text, ret))
        return -1;
    ssize_t n;
    while ((n = TEMP_FAILURE_RETRY(read(fd, chunk, sizeof chunk))) > 0)
        if (buf_append(log, chunk, (size_t)n) < 0)
            return -1;
    return n < 0 ? -1 : TAKE_FD(fd);
}
