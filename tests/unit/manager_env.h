/* What the tests of the manager share: an engine in memory that can fail, dawdle and kill, and a
 * folder for a manager over it. Each program includes it once. */
#pragma once

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "fake_engine.h"

_unused_ static void set_knob(struct fake *f, int *knob, int value) {
    (void)pthread_mutex_lock(&f->lock);
    *knob = value;
    (void)pthread_mutex_unlock(&f->lock);
}

/* "stopped", "running", "paused", or "nothing". */
_unused_ static const char *fake_state(struct fake *f, const char *id) {
    static const char *const names[] = {"stopped", "running", "paused"};
    (void)pthread_mutex_lock(&f->lock);
    const struct fake_box *b = fake_find(f, id);
    const char *name = b == NULL ? "nothing" : names[b->state];
    (void)pthread_mutex_unlock(&f->lock);
    return name;
}

/* ---- a manager over it ---- */

struct world {
    char folder[64];
    struct fake fake;
    struct manager_options options;
    struct manager *m;
};

/* "slow:MS", "held" (until there is a file "go"), "bad", or any other name. */
static int ensure_fake(void *user, const struct image_wish *wish, char id[static HEX_SIZE],
                       struct cay_error *err) {
    (void)user;
    const char *name = wish->name;
    int progress_fd = wish->progress_fd, cancel_fd = wish->cancel_fd;
    int64_t ms = 0;
    if (str_equal(name, "bad"))
        return error_set(err, CAY_NOT_FOUND, "no such image");
    if (str_starts(name, "slow:") && str_to_i64(name + 5, 0, 60000, &ms) == 0 && progress_fd >= 0)
        (void)fd_write_all(progress_fd, "layer 1 of 7\n", 13);
    if (ms > 0 && poll(&(struct pollfd){.fd = cancel_fd, .events = POLLIN}, 1, (int)ms) > 0)
        return error_set(err, CAY_CONFLICT, "given up");
    while (str_equal(name, "held") && access("go", F_OK) < 0)
        sleep_ms(2);
    memset(id, 'c', HEX_SIZE - 1);
    id[HEX_SIZE - 1] = '\0';
    return 0;
}

static void open_manager(struct world *w) {
    struct cay_error err = {0};
    if (manager_open(&w->options, &w->m, &err) < 0)
        fail_msg("%s", err.message);
    w->fake.engine.ended = manager_ended;
    w->fake.engine.user = w->m;
    if (manager_start(w->m, &w->fake.engine, &err) < 0)
        fail_msg("%s", err.message);
}

static void close_manager(struct world *w) {
    manager_close(w->m, 5000);
    w->m = NULL;
    w->fake.engine.ended = NULL;
}

/* A daemon that was restarted. */
_unused_ static void reopen_manager(struct world *w) {
    close_manager(w);
    open_manager(w);
}

static int setup(void **state) {
    struct world *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                           0); /* what a child does to the engine outlives it */
    assert_true(w != MAP_FAILED);
    assert_int_equal(str_copy(w->folder, sizeof w->folder, "/tmp/cay-manager-test-XXXXXX"), 0);
    assert_non_null(mkdtemp(w->folder));
    assert_int_equal(chdir(w->folder), 0);
    w->fake.engine.ops = &fake_ops;
    (void)pthread_mutex_init(&w->fake.lock, NULL);
    w->options = (struct manager_options){
        .folder = w->folder,
        .limits = {.max_sandboxes = 100,
                   .cleanup_interval_ms = 3600 * 1000,
                   .stop_grace_ms = 20,
                   .silence_ms = 1}, /* nobody answers in these sandboxes */
        .defaults = {.memory_bytes = 64 * MEGABYTE,
                     .cpu_quota_us = 100000,
                     .pids = 64,
                     .auto_delete_minutes = -1},
        .ensure = ensure_fake,
    };
    *state = w;
    return 0;
}

static int teardown(void **state) {
    struct world *w = *state;
    if (w->m != NULL)
        close_manager(w);
    for (size_t i = 0; i < FAKE_MAX; i++)
        if (w->fake.boxes[i].id[0] != '\0')
            fd_close(&w->fake.boxes[i].listener);
    int r = chdir("/");
    r |= path_remove_tree(AT_FDCWD, w->folder);
    return r | munmap(w, sizeof *w);
}

/* A sandbox with this name; its id is returned in a text that lives until 16 more were made. */
_unused_ static const char *make_box(struct world *w, const char *name) {
    static char ids[16][ID_SIZE];
    static unsigned next;
    struct sandbox_record request = {0}, made = {0};
    struct cay_error err = {0};
    char *id = ids[next++ % 16];
    assert_int_equal(str_copy(request.name, sizeof request.name, name), 0);
    if (manager_create(w->m, &request, -1, &made, &err) < 0)
        fail_msg("%s", err.message);
    memcpy(id, made.id, ID_SIZE);
    sandbox_record_free(&made);
    return id;
}

/* The state's name, "gone" if there is no such sandbox. */
static const char *state_of(struct world *w, const char *who) {
    struct sandbox_record r = {0};
    if (manager_get(w->m, who, &r, NULL) < 0)
        return "gone";
    const char *name = sandbox_state_name(r.state);
    sandbox_record_free(&r);
    return name;
}

_unused_ static void await_state(struct world *w, const char *who, const char *state) {
    int64_t until = clock_ms() + 30000; /* on the busiest machine */
    while (!str_equal(state_of(w, who), state)) {
        if (clock_ms() > until)
            fail_msg("%s is %s, not %s", who, state_of(w, who), state);
        sleep_ms(5);
    }
}

/* An operation: the connection. */
_unused_ static int begin(struct world *w, const char *who, struct operation **op) {
    struct sandbox_record r = {0};
    struct cay_error err = {0};
    int fd = manager_begin(w->m, who, op, &r, &err);
    if (fd < 0)
        fail_msg("%s", err.message);
    sandbox_record_free(&r);
    return fd;
}

_unused_ static void end(struct world *w, int fd, struct operation *op) {
    (void)close(fd);
    manager_end(w->m, op);
}
