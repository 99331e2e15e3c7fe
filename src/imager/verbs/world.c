#include "imager/verbs/world.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "confine/userns.h"
#include "engine/native/native.h"
#include "engine/privileged.h"
#include "imager/runner.h"
#include "imager/verbs/runner_serve.h"

/* What the parent has when it splits. */
struct split {
    struct runner_server server;
    struct image_store store;
    int userns;  /* -1: we are root of our own already */
    int pair[2]; /* child's end second */
};

/* ---- the child ---- */

/* Without a way back: the namespace has no id of the host but those of the store. */
static int enter_ids(int userns, struct cay_error *err) {
    if (setns(userns, CLONE_NEWUSER) < 0)
        return error_errno(err, "entering the user namespace of the image store");
    if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return error_errno(err, "becoming root of the image store's namespace");
    return 0;
}

/* Overlays are made of what was opened in the same mount namespace. The way to the store is closed
 * to these ids, but the working directory comes along. */
static int enter_mounts(struct image_store *store, struct cay_error *err) {
    if (fchdir(store->dir) < 0 || unshare(CLONE_NEWNS) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return error_errno(err, "making a mount namespace");
    int dir = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || chdir("/") < 0)
        return error_errno(err, "opening the image store in its mount namespace");
    (void)close(store->dir);
    store->dir = dir;
    return 0;
}

static int become_child(struct split *s, struct world *ret, struct cay_error *err) {
    (void)close(s->pair[0]);
    int r = s->userns >= 0 ? enter_ids(s->userns, err) : 0;
    if (r == 0 && s->userns >= 0)
        r = enter_mounts(&s->store, err);
    if (r < 0)
        return r;
    fd_close(&s->userns);
    (void)umask(022);
    /* After the ids have changed, which clears it. If the parent is gone already, so are we. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return error_errno(err, "asking to end with the parent process");
    ret->runner = runner_new(s->pair[1]);
    if (ret->runner == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    ret->store = s->store;
    return 0;
}

/* ---- the parent ---- */

static _noreturn_ void stay_outside(struct split *s, pid_t child) {
    int status;
    (void)close(s->pair[1]);
    image_store_close(&s->store);
    runner_serve(&s->server, s->pair[0]);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            _exit(125);
    (void)native_close(s->server.native);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

/* ---- splitting ---- */

static int open_as_root(struct split *s, struct cay_error *err) {
    struct id_map map = {0, IMAGE_IDS_FIRST, IMAGE_IDS_COUNT};
    s->userns = userns_create(&map, &map, err);
    if (s->userns < 0)
        return s->userns;
    return image_store_open(s->server.state_dir, true, IMAGE_IDS_FIRST, &s->store, err);
}

/* The engine, if it is needed, makes the namespace: what it knows of control groups it must find
 * out before. */
static int open_as_user(struct split *s, bool builds, struct cay_error *err) {
    struct userns_self self;
    int r = builds ? native_open(s->server.state_dir, false, &s->server.native, err)
                   : userns_become_root(&self, err);
    return r < 0 ? r : image_store_open(s->server.state_dir, true, 0, &s->store, err);
}

int world_enter(const char *state_dir, bool builds, struct world *ret, struct cay_error *err) {
    struct split s = {.server = {.state_dir = state_dir}, .store = IMAGE_STORE_NONE, .userns = -1};
    int r = engine_is_privileged() ? open_as_root(&s, err) : open_as_user(&s, builds, err);
    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s.pair) < 0)
        return error_errno(err, "making a socket pair");
    pid_t pid = fork();
    if (pid < 0)
        return error_errno(err, "making a child process");
    if (pid > 0)
        stay_outside(&s, pid);
    return become_child(&s, ret, err);
}
