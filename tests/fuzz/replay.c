/* Runs a fuzz target over the files of its corpus, so that what fuzzing once found stays found with
 * any compiler. usage: replay_NAME FOLDER */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 16 << 20 };

/* The input is copied to memory of exactly its size, so that a sanitizer sees a read beyond it. */
static int replay(int dirfd, const char *name) {
    _cleanup_(closep) int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
    _cleanup_(buf_free) struct buf input = BUF_INIT(INPUT_MAX);
    if (fd < 0)
        return -errno;
    int r = fd_read_to_end(fd, &input);
    if (r < 0)
        return r;
    _cleanup_(freep) uint8_t *exact = malloc(input.len > 0 ? input.len : 1);
    if (exact == NULL)
        return -ENOMEM;
    if (input.len > 0)
        memcpy(exact, input.data, input.len);
    (void)LLVMFuzzerTestOneInput(exact, input.len);
    return 0;
}

int main(int argc, char **argv) {
    _cleanup_(closedirp) DIR *d = argc == 2 ? opendir(argv[1]) : NULL;
    if (d == NULL) {
        (void)fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    unsigned count = 0;
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        if (e->d_name[0] == '.')
            continue;
        int r = replay(dirfd(d), e->d_name);
        if (r < 0) {
            (void)fprintf(stderr, "%s: %s\n", e->d_name, strerror(-r));
            return 1;
        }
        count++;
    }
    printf("%u inputs\n", count);
    return count > 0 ? 0 : 1;
}
