#include "archive_place.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "init/files/walk.h"

enum { BLOCK = 512 };

static int top = -1; /* holds "dest" and "victim" and must hold nothing else */
static char top_path[64];

void require(bool ok) {
    if (!ok)
        abort();
}

void archive_fix_checksums(uint8_t *data, size_t size) {
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

static void remove_top(void) {
    (void)path_remove_tree(top, "dest"); /* where an abort left it */
    (void)unlinkat(top, "victim", 0);
    (void)rmdir(top_path);
}

static void make_top(void) {
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

int archive_place_make(int flags) {
    if (top < 0)
        make_top();
    require(mkdirat(top, "dest", 0700) == 0);
    int dest = openat(top, "dest", flags | O_DIRECTORY | O_CLOEXEC);
    require(dest >= 0);
    return dest;
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

void archive_place_check(void) {
    char path[80];
    require(str_format(path, sizeof path, "%s/dest", top_path) == 0);
    (void)walk_tree(path, path, (struct walk_options){0}, open_folder, NULL, NULL);
    check_outside();
    require(path_remove_tree(top, "dest") == 0);
}
