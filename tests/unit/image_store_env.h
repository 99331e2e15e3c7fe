/* What the tests of the image store share: a state folder of their own, short ways to put things
 * into the store, and children that use it at the same time. Each program includes it once. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "image/store.h"

struct place {
    char state[64];
    struct image_store store;
};

static struct image_store open_store(const struct place *p) {
    struct image_store store = IMAGE_STORE_NONE;
    struct cay_error err = {0};
    if (image_store_open(p->state, true, geteuid(), &store, &err) < 0)
        fail_msg("%s", err.message);
    return store;
}

static int setup(void **state) {
    struct place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    assert_int_equal(str_copy(p->state, sizeof p->state, "/tmp/cay-store-test-XXXXXX"), 0);
    assert_non_null(mkdtemp(p->state));
    p->store = open_store(p);
    *state = p;
    return 0;
}

static int teardown(void **state) {
    struct place *p = *state;
    image_store_close(&p->store);
    int r = path_remove_tree(AT_FDCWD, p->state);
    free(p);
    return r;
}

/* 64 times the same digit: a digest that is easy to tell. */
_unused_ static const char *hex(char digit) {
    static char texts[16][HEX_SIZE];
    char *text = texts[digit <= '9' ? digit - '0' : digit - 'a' + 10];
    memset(text, digit, HEX_SIZE - 1);
    return text;
}

_unused_ static struct reference ref(const char *text) {
    struct reference r;
    if (reference_parse(text, &r, NULL) < 0)
        fail_msg("bad name %s", text);
    return r;
}

_unused_ static bool exists(const struct place *p, const char *path) {
    struct stat st;
    return fstatat(p->store.dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The number of entries of a folder of the store. */
_unused_ static int entries(const struct place *p, const char *path) {
    int fd = openat(p->store.dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_(closedirp) DIR *d = fd < 0 ? NULL : fdopendir(fd);
    int count = 0;
    assert_non_null(d);
    while (d != NULL && readdir(d) != NULL)
        count++;
    return count - 2;
}

_unused_ static void put_file(int dir, const char *name, const char *content) {
    _cleanup_(closep) int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, content, strlen(content)), 0);
}

/* Puts text over a file that is there, such as "layers/…/boot". */
_unused_ static void overwrite(const struct place *p, const char *folder, const char *name,
                               const char *content) {
    char path[PATH_MAX];
    assert_int_equal(path_join(path, sizeof path, folder, name), 0);
    put_file(p->store.dir, path, content);
}

_unused_ static struct layer_work begin_layer(const struct place *p) {
    struct layer_work work = LAYER_WORK_NONE;
    struct cay_error err = {0};
    if (image_store_begin_layer(&p->store, &work, &err) < 0)
        fail_msg("%s", err.message);
    return work;
}

/* A layer with the file "mark", which holds content. */
_unused_ static void add_layer(const struct place *p, const char *chain, const char *content) {
    struct cay_error err = {0};
    struct layer_work work = begin_layer(p);
    put_file(work.dir, "fs/mark", content);
    if (image_store_commit_layer(&p->store, &work, chain, &err) < 0)
        fail_msg("%s", err.message);
}

/* An image of one layer: id, chain, and blob are given by one digit each. */
_unused_ static void add_image(const struct place *p, char id, char chain, char blob) {
    struct cay_error err = {0};
    _cleanup_(record_freep) struct image_record *record = record_new();
    assert_non_null(record);
    struct record_layer *layer = record_add_layer(record);
    assert_non_null(layer);
    memcpy(record->id, hex(id), HEX_SIZE);
    memcpy(layer->chain, hex(chain), HEX_SIZE);
    memcpy(layer->blob, hex(blob), HEX_SIZE);
    if (!image_store_has_layer(&p->store, hex(chain)))
        add_layer(p, hex(chain), "");
    assert_int_equal(image_store_put_blob(&p->store, hex(id), "config", 6, NULL), 0);
    assert_int_equal(image_store_put_blob(&p->store, hex(blob), "layer", 5, NULL), 0);
    if (image_store_write_record(&p->store, record, &err) < 0)
        fail_msg("%s", err.message);
}

/* Runs work in a child that has its own open store; its result is the exit code. */
_unused_ static pid_t child(const struct place *p, int (*work)(struct place *p)) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    struct place own = *p;
    own.store = IMAGE_STORE_NONE;
    if (image_store_open(p->state, false, 0, &own.store, NULL) < 0)
        _exit(99);
    _exit(work(&own));
}

_unused_ static int result_of(pid_t pid) {
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
