#include "imager/build/archive.h"

#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "imager/build/files.h"
#include "imager/build/state.h"
#include "imager/transfer/bundle.h"
#include "imager/unpack/unpack.h"

enum { HEADER_SIZE = 512, SUM_AT = 148, SUM_SIZE = 8 };

/* A header's sum is over its own bytes, with blanks where the sum is. */
static bool is_tar(int fd) {
    unsigned char header[HEADER_SIZE];
    if (pread(fd, header, sizeof header, 0) != HEADER_SIZE)
        return false;
    unsigned sum = 0;
    char text[SUM_SIZE + 1] = "", *end;
    memcpy(text, header + SUM_AT, SUM_SIZE);
    for (size_t i = 0; i < HEADER_SIZE; i++)
        sum += i >= SUM_AT && i < SUM_AT + SUM_SIZE ? ' ' : header[i];
    unsigned long said = strtoul(text, &end, 8);
    return end != text && said == sum && header[0] != '\0';
}

int build_add_archive(const struct build *b, const struct file_tree *tree, const char *path,
                      int root, const char *to, const struct file_look *look,
                      struct cay_error *err) {
    struct stat st;
    struct cay_error why = {0};
    struct unpack_result result;
    _cleanup_(closep) int fd = files_open(tree, path, &st, err);
    if (fd < 0)
        return fd;
    if (!S_ISREG(st.st_mode))
        return 0;
    _cleanup_(closep) int plain = bundle_plain(b->store, fd, false, &why);
    if (plain < 0) {
        build_log(b, " notice: copied as it is: %s", why.message);
        return 0;
    }
    if (!is_tar(plain))
        return 0;
    _cleanup_(closep) int dir = files_open_folder(root, to, look, err);
    if (dir < 0)
        return dir;
    if (lseek(plain, 0, SEEK_SET) < 0)
        return error_errno(err, "reading the archive");
    int r = unpack_layer(plain, dir, NULL, NULL, NULL, &result, err);
    return r < 0 ? r : 1;
}
