/* Any bytes as the tar of a layer, applied to a folder without the walls around that process: the
 * limits hold, and nothing outside of the folder is touched. The first byte says whether checksums
 * are put right, without which few inputs get beyond the first header, and whether the archive is
 * applied twice, as a layer over another is, and whether it is the archive of a sandbox. */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "imager/unpack_internal.h"
#include "init/walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BLOCK = 512, BYTES = 1024 * 1024, ENTRIES = 300, DEPTH = 12 };

static int top = -1; /* holds "root" and "victim" and must hold nothing else */
static char top_path[64];

static void require(bool ok) {
    if (!ok)
        abort();
}

static void remove_top(void) {
    (void)path_remove_tree(top, "root"); /* where an abort left it */
    (void)unlinkat(top, "victim", 0);
    (void)rmdir(top_path);
}

static void make_top(void) {
    if (top >= 0)
        return;
    require(str_copy(top_path, sizeof top_path, "/dev/shm/cay-fuzz-XXXXXX") == 0);
    if (mkdtemp(top_path) == NULL) {
        require(str_copy(top_path, sizeof top_path, "/tmp/cay-fuzz-XXXXXX") == 0);
        require(mkdtemp(top_path) != NULL);
    }
    (void)atexit(remove_top);
    top = open(top_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    require(top >= 0);
    _cleanup_(closep) int victim = openat(top, "victim", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    require(victim >= 0 && write(victim, "safe", 4) == 4);
}

static void fix_checksums(uint8_t *data, size_t size) {
    for (size_t at = 0; at + BLOCK <= size; at += BLOCK) {
        if (data[at] == 0)
            continue; /* the end, or content */
        unsigned sum = 0;
        memset(data + at + 148, ' ', 8);
        for (size_t i = 0; i < BLOCK; i++)
            sum += data[at + i];
        char text[8];
        (void)snprintf(text, sizeof text, "%06o", sum & 0777777);
        memcpy(data + at + 148, text, 7);
    }
}

/* Modes of the archive must not keep an ordinary user from cleaning up. */
static int open_folder(void *arg, const struct walk_entry *e, struct cay_error *err) {
    (void)arg;
    (void)err;
    if (S_ISDIR(e->st->st_mode) && fchmodat(e->dirfd, e->name, 0700, AT_SYMLINK_NOFOLLOW) < 0)
        return WALK_SKIP;
    return WALK_ON;
}

static void check_outside(void) {
    char text[8] = "";
    struct stat st;
    _cleanup_(closep) int victim = openat(top, "victim", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    require(victim >= 0 && read(victim, text, sizeof text) == 4 && memcmp(text, "safe", 4) == 0);
    require(fstat(victim, &st) == 0 && st.st_nlink == 1);
    _cleanup_(closedirp) DIR *d = opendir(top_path);
    require(d != NULL);
    int names = 0;
    while (readdir(d) != NULL)
        names++;
    require(names == 4); /* with "." and ".." */
}

static void apply(const uint8_t *data, size_t size, enum unpack_form form, int root) {
    const struct unpack_limits limits = {.bytes = BYTES, .entries = ENTRIES, .depth = DEPTH};
    struct unpack_result result;
    struct cay_error err = {0};
    _cleanup_(closep) int in = memfd_create("layer", MFD_CLOEXEC);
    require(in >= 0 && fd_write_all(in, data, size) == 0 && lseek(in, 0, SEEK_SET) == 0);
    int r = unpack_apply(in, root, form, &limits, geteuid() != 0, &result, &err);
    require((r < 0) == (err.code != CAY_OK));
    require(result.bytes <= BYTES && result.skipped <= ENTRIES);
    require(result.entries <= (uint64_t)ENTRIES * DEPTH);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[80];
    if (size < 1 || size > 64 * 1024)
        return 0;
    _cleanup_(freep) uint8_t *copy = malloc(size);
    require(copy != NULL);
    memcpy(copy, data + 1, size - 1);
    if ((data[0] & 1) == 0)
        fix_checksums(copy, size - 1);
    make_top();
    (void)umask(0);
    require(mkdirat(top, "root", 0700) == 0);
    _cleanup_(closep) int root = openat(top, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i <= (data[0] & 2) / 2; i++)
        apply(copy, size - 1, (data[0] & 4) != 0 ? UNPACK_RAW : UNPACK_LAYER, root);
    require(str_format(path, sizeof path, "%s/root", top_path) == 0);
    (void)walk_tree(path, path, (struct walk_options){0}, open_folder, NULL, NULL);
    check_outside();
    require(path_remove_tree(top, "root") == 0);
    return 0;
}
