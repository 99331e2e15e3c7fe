/* Replacing text in files. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "init/files/files.h"

enum { FILE_MAX = 64 * 1024 * 1024, RESULT_MAX = 4 * FILE_MAX };

static int read_whole(const char *path, struct buf *b, struct cay_error *err) {
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return files_error(err, errno, "reading", path);
    if (S_ISDIR(st.st_mode))
        return files_error(err, EISDIR, "reading", path);
    if (!S_ISREG(st.st_mode))
        return error_set(err, CAY_CONFLICT, "reading '%.256s': not a regular file", path);
    int r = fd_read_to_end(fd, b);
    if (r == -ENOBUFS) {
        error_set(err, CAY_RESOURCE_EXHAUSTED, "'%.256s' is larger than %d MiB", path,
                  FILE_MAX / (1024 * 1024));
        return error_remedy(err, "replace in a file of that size with a command, such as sed");
    }
    return r < 0 ? files_error(err, -r, "reading", path) : 0;
}

/* Copies in to out with every occurrence of pattern replaced: how many there were. */
static uint64_t substitute(const struct buf *in, const char *pattern, const char *text,
                           struct buf *out) {
    size_t pattern_len = strlen(pattern), text_len = strlen(text), left = in->len;
    const char *at = buf_text(in);
    uint64_t count = 0;
    for (;;) {
        const char *hit = memmem(at, left, pattern, pattern_len);
        if (hit == NULL || out->failed)
            break;
        (void)buf_append(out, at, (size_t)(hit - at)); /* failures are sticky */
        (void)buf_append(out, text, text_len);
        left -= (size_t)(hit - at) + pattern_len;
        at = hit + pattern_len;
        count++;
    }
    (void)buf_append(out, at, left);
    return count;
}

static int write_whole(const char *path, const struct buf *b, struct cay_error *err) {
    _cleanup_(files_writer_abort) struct files_writer w = FILES_WRITER_INIT;
    int r = files_writer_open(&w, path, 0644, err);
    if (r < 0)
        return r;
    r = fd_write_all(w.fd, buf_text(b), b->len);
    if (r == 0)
        r = files_writer_commit(&w);
    return r < 0 ? files_error(err, -r, "writing", path) : 0;
}

static int replace_in(const char *path, const char *pattern, const char *text, uint64_t *ret_count,
                      struct cay_error *err) {
    _cleanup_(buf_free) struct buf in = BUF_INIT(FILE_MAX);
    _cleanup_(buf_free) struct buf out = BUF_INIT(RESULT_MAX);
    int r = read_whole(path, &in, err);
    if (r < 0)
        return r;
    *ret_count = substitute(&in, pattern, text, &out);
    if (out.failed)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "'%.256s' would grow beyond %d MiB", path,
                         RESULT_MAX / (1024 * 1024));
    return *ret_count > 0 ? write_whole(path, &out, err) : 0;
}

/* One file: an entry with COUNT, or with the fields of an error, so that the others go on. */
static int answer_for(const struct op_conn *c, const struct wire_message *request, const char *name,
                      struct cay_error *err) {
    char path[PATH_MAX];
    struct cay_error failure = {0};
    uint64_t count = 0;
    int r = files_path_of(c, request, name, path, &failure);
    if (r == 0)
        r = replace_in(path, request->string[WIRE_TAG_PATTERN], request->string[WIRE_TAG_TEXT],
                       &count, &failure);
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    wire_put_string(&b, WIRE_TAG_PATH, name);
    wire_put_number(&b, WIRE_TAG_COUNT, r == 0 ? count : 0);
    if (r < 0) {
        wire_put_number(&b, WIRE_TAG_CODE, (uint64_t)failure.code);
        wire_put_number(&b, WIRE_TAG_ERRNO, (uint64_t)failure.sys);
        wire_put_string(&b, WIRE_TAG_MESSAGE, failure.message);
        wire_put_string(&b, WIRE_TAG_REMEDY, failure.remedy);
    }
    return files_send(c, WIRE_ENTRY, &b, err);
}

int op_replace(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    const char *pattern = request->string[WIRE_TAG_PATTERN];
    if (pattern == NULL || pattern[0] == '\0' || request->string[WIRE_TAG_TEXT] == NULL) {
        error_set(err, CAY_INVALID_ARGUMENT, "nothing to replace, or nothing to put in its place");
        return error_remedy(err, "give a text to look for; the replacement may be empty");
    }
    for (const char *name = wire_next_string(request, WIRE_TAG_PATHS, NULL); name != NULL;
         name = wire_next_string(request, WIRE_TAG_PATHS, name)) {
        int r = answer_for(c, request, name, err);
        if (r < 0)
            return r;
    }
    return files_send(c, WIRE_DONE, NULL, err);
}
