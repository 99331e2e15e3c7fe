#include "engine/native/keep/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/toml/toml.h"
#include "confine/idrange.h"

#define RECORD     "record"
#define RECORD_NEW ".record-new"

enum { FORMAT = 1 }; /* a launcher that knows only this refuses what a later one would misread */

/* ---- text ---- */

/* An unknown status is omitted. */
static int format_end(const struct keep_record *r, char *out, size_t size) {
    if (!r->has_ended)
        return str_format(out, size, "%s", "");
    char status[32] = "";
    if (r->end_status >= 0)
        (void)snprintf(status, sizeof status, "end_status = %d\n", r->end_status);
    return str_format(out, size, "end = %d\nend_oom = %d\n%s", (int)r->end_cause, r->end_oom,
                      status);
}

int keep_record_format(const struct keep_record *r, char out[static KEEP_RECORD_SIZE]) {
    char end[128];
    if (r->memory_bytes > INT64_MAX || r->disk_bytes > INT64_MAX || r->start > INT64_MAX)
        return -ERANGE;
    int code = format_end(r, end, sizeof end);
    if (code < 0)
        return code;
    return str_format(out, KEEP_RECORD_SIZE,
                      "format = %d\nid = \"%s\"\nimage = \"%s\"\nmemory = %" PRIu64
                      "\ndisk = %" PRIu64 "\ncpu = %" PRIu32 "\npids = %" PRIu32
                      "\npid = %d\nstart = %" PRIu64 "\nboot = \"%s\"\nbase = %u\n%s",
                      FORMAT, r->id, r->image, r->memory_bytes, r->disk_bytes, r->cpu_quota_us,
                      r->pids, r->pid, r->start, r->boot, r->base, end);
}

static int damaged(struct cay_error *err, const char *key) {
    error_set(err, CAY_INTERNAL, "the record of a sandbox is damaged: %s", key);
    return error_remedy(err, "remove the sandbox, or start it again");
}

static int read_number(const struct toml_value *root, const char *key, int64_t max, int64_t *ret,
                       struct cay_error *err) {
    const struct toml_value *v = toml_get(root, key);
    if (v == NULL || v->type != TOML_INTEGER || v->integer < 0 || v->integer > max)
        return damaged(err, key);
    *ret = v->integer;
    return 0;
}

static int read_text(const struct toml_value *root, const char *key, char *to, size_t size,
                     struct cay_error *err) {
    const struct toml_value *v = toml_get(root, key);
    if (v == NULL || v->type != TOML_STRING || strlen(v->text) != v->text_len ||
        str_copy(to, size, v->text) < 0)
        return damaged(err, key);
    return 0;
}

static int read_numbers(const struct toml_value *root, struct keep_record *r,
                        struct cay_error *err) {
    int64_t number[7];
    const struct {
        const char *key;
        int64_t min, max;
    } keys[] = {
        {"format", FORMAT, FORMAT}, {"memory", 0, INT64_MAX}, {"cpu", 0, UINT32_MAX},
        {"pids", 0, UINT32_MAX},    {"pid", 0, INT32_MAX},    {"start", 0, INT64_MAX},
        {"base", 0, UINT32_MAX},
    };
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        int code = read_number(root, keys[i].key, keys[i].max, &number[i], err);
        if (code == 0 && number[i] < keys[i].min)
            code = damaged(err, keys[i].key);
        if (code < 0)
            return code;
    }
    int64_t disk = 0;
    if (toml_get(root, "disk") != NULL && read_number(root, "disk", INT64_MAX, &disk, err) < 0)
        return -CAY_INTERNAL;
    r->disk_bytes = (uint64_t)disk;
    r->memory_bytes = (uint64_t)number[1];
    r->cpu_quota_us = (uint32_t)number[2];
    r->pids = (uint32_t)number[3];
    r->pid = (pid_t)number[4];
    r->start = (uint64_t)number[5];
    r->base = (uid_t)number[6];
    return 0;
}

/* Records of earlier versions have none of these. */
static int read_end(const struct toml_value *root, struct keep_record *r, struct cay_error *err) {
    int64_t cause = 0, oom = 0, status = -1;
    r->has_ended = toml_get(root, "end") != NULL;
    r->end_status = -1;
    if (!r->has_ended)
        return 0;
    int code = read_number(root, "end", ENGINE_END_CAUSES - 1, &cause, err);
    if (code == 0)
        code = read_number(root, "end_oom", 1, &oom, err);
    if (code == 0 && toml_get(root, "end_status") != NULL)
        code = read_number(root, "end_status", INT32_MAX, &status, err);
    r->end_cause = (enum engine_end_cause)cause;
    r->end_oom = oom != 0;
    r->end_status = (int)status;
    return code;
}

static int read_texts(const struct toml_value *root, struct keep_record *r, struct cay_error *err) {
    int code = read_text(root, "id", r->id, sizeof r->id, err);
    if (code == 0)
        code = read_text(root, "image", r->image, sizeof r->image, err);
    if (code == 0)
        code = read_text(root, "boot", r->boot, sizeof r->boot, err);
    if (code < 0)
        return code;
    if (!id_is_valid(r->id))
        return damaged(err, "id");
    return r->image[0] != '\0' && !hex_is_valid(r->image) ? damaged(err, "image") : 0;
}

int keep_record_parse(const char *text, size_t len, struct keep_record *ret,
                      struct cay_error *err) {
    _cleanup_(toml_freep) struct toml_value *root = NULL;
    struct keep_record r = {0};
    int code = len >= KEEP_RECORD_SIZE ? damaged(err, "it is too long")
                                       : toml_parse(RECORD, text, len, &root, err);
    if (code == 0)
        code = read_numbers(root, &r, err);
    if (code == 0)
        code = read_end(root, &r, err);
    if (code == 0)
        code = read_texts(root, &r, err);
    if (code == 0)
        *ret = r;
    return code;
}

/* ---- file ---- */

static int write_new(int folder, const char *text) {
    _cleanup_(closep) int fd =
        openat(folder, RECORD_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int r = fd_write_all(fd, text, strlen(text));
    return r == 0 && fsync(fd) < 0 ? -errno : r;
}

static int replace(int folder, const char *text) {
    int r = write_new(folder, text);
    if (r == 0 && renameat(folder, RECORD_NEW, folder, RECORD) < 0)
        r = -errno;
    if (r == 0 && fsync(folder) < 0)
        r = -errno;
    return r;
}

int keep_record_write(int folder, const struct keep_record *r, struct cay_error *err) {
    char text[KEEP_RECORD_SIZE];
    int code = keep_record_format(r, text);
    if (code == 0)
        code = replace(folder, text);
    if (code == 0)
        return 0;
    return error_storage(err, -code, "writing the record of sandbox %s", r->id);
}

int keep_record_read(int folder, struct keep_record *ret, struct cay_error *err) {
    char text[KEEP_RECORD_SIZE];
    ssize_t n = fd_read_file_at(folder, RECORD, text, sizeof text);
    if (n < 0)
        return error_sys(err, (int)-n, "reading the record of a sandbox");
    return keep_record_parse(text, (size_t)n, ret, err);
}
