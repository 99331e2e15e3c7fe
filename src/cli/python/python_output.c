#include "cli/python/python_output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/id.h"
#include "base/str.h"

int python_output_open(struct python_output *o, const char *stream, struct cay_error *err) {
    const char *folder = getenv("TMPDIR"); /* NOLINT(concurrency-mt-unsafe): one thread */
    char id[ID_SIZE];
    int r = id_new(id, err);
    if (r < 0)
        return r;
    if (folder == NULL || folder[0] != '/')
        folder = "/tmp";
    r = str_format(o->path, sizeof o->path, "%s/cay-%s.%s", folder, id, stream);
    if (r == 0) {
        o->fd = open(o->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        r = o->fd < 0 ? -errno : 0;
    }
    if (r == 0)
        return 0;
    o->path[0] = '\0';
    error_sys(err, -r, "making a file for the output in '%s'", folder);
    return error_remedy(err, "make room there, or name another folder in TMPDIR");
}

static int read_part(int fd, struct buf *b, uint64_t offset, size_t len) {
    while (len > 0) {
        char *to = buf_reserve(b, len);
        if (to == NULL)
            return -ENOMEM;
        ssize_t n = pread(fd, to, len, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        buf_commit(b, (size_t)n);
        offset += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

static int read_text(const struct python_output *o, uint64_t size, size_t max, struct buf *b) {
    if (size <= max)
        return read_part(o->fd, b, 0, (size_t)size);
    size_t half = max / 2;
    int r = read_part(o->fd, b, 0, half);
    (void)buf_printf(b, "\n[cay: %" PRIu64 " bytes left out here; all of it is in %s]\n",
                     size - 2 * (uint64_t)half, o->path);
    return r < 0 ? r : read_part(o->fd, b, size - half, half);
}

int python_output_take(struct python_output *o, size_t max, char **ret, size_t *ret_len,
                       struct cay_error *err) {
    struct stat st;
    if (fstat(o->fd, &st) < 0)
        return error_errno(err, "looking at the output");
    uint64_t size = (uint64_t)st.st_size;
    _cleanup_(buf_free) struct buf b = BUF_INIT(max + PATH_MAX + 128);
    (void)buf_append(&b, "", 0);
    int r = read_text(o, size, max, &b);
    if (r < 0)
        return error_sys(err, -r, "reading the output again");
    *ret_len = b.len;
    *ret = buf_take(&b);
    if (*ret == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory for the output");
    fd_close(&o->fd);
    if (size <= max)
        python_output_close(o);
    return 0;
}

void python_output_close(struct python_output *o) {
    fd_close(&o->fd);
    if (o->path[0] != '\0')
        (void)unlink(o->path); /* gone already is fine */
    o->path[0] = '\0';
}
