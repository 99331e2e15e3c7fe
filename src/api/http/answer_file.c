/* A file as an answer. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/call.h"
#include "base/error.h"
#include "base/fd.h"

struct file_stream {
    struct stream stream; /* first */
    int fd;
};

static size_t read_file(struct stream *stream, char *data, size_t size) {
    const struct file_stream *s = (struct file_stream *)stream;
    ssize_t n = TEMP_FAILURE_RETRY(read(s->fd, data, size));
    stream->failed = n < 0;
    return n > 0 ? (size_t)n : 0;
}

static void close_file(struct stream *stream) {
    struct file_stream *s = (struct file_stream *)stream;
    fd_close(&s->fd);
    free(s);
}

int call_answer_file(struct call *c, const char *type, int *fd, uint64_t bytes,
                     struct cay_error *err) {
    struct file_stream *s = calloc(1, sizeof *s);
    if (s == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    *s = (struct file_stream){.stream = {.read = read_file, .close = close_file},
                              .fd = TAKE_FD(*fd)};
    c->answer.type = type;
    c->answer.stream = &s->stream;
    c->answer.stream_bytes = bytes;
    return 0;
}
