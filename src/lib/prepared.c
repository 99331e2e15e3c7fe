#include "lib/prepared.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/state.h"
#include "base/str.h"
#include "engine/spec.h"
#include "image/host_skeleton.h"
#include "version.h"

enum {
    ANSWER_MS = 250, /* a daemon that takes longer is of no use: making one here takes less */
    END_MS = 100,    /* a sandbox ends with its command; one that does not is killed */
    GONE_MS = 10000,
    CPU_PERIOD_US = 100000,
};

/* ---- what it should be ---- */

static int refuse(struct cay_error *why, const char *reason) {
    return error_set(why, CAY_UNSUPPORTED, "%s", reason);
}

/* What the daemon's sandboxes would not have, or could not be told. */
static int check_spec(const struct cay_spec *spec, struct cay_error *why) {
    if (geteuid() != 0)
        return refuse(why, "only root's daemon prepares sandboxes");
    if (!str_equal(spec->image, "host"))
        return refuse(why, "the image is not the host's");
    if (spec->volumes != NULL && spec->volumes[0] != NULL)
        return refuse(why, "it has volumes");
    if (spec->network != NULL && spec->network[0] != '\0' && !str_equal(spec->network, "none"))
        return refuse(why, "it has a network");
    if (!(spec->cpus > 0) || spec->cpus > 4096)
        return refuse(why, "its limits are invalid");
    if (spec->name != NULL && id_check_name("--name", spec->name, why) < 0)
        return -(int)why->code;
    return 0;
}

static int fill_spec(const struct cay_spec *in, struct sandbox_spec *ret, struct cay_error *why) {
    ret->memory_bytes = in->memory_bytes;
    ret->disk_bytes = in->disk_bytes;
    ret->cpu_quota_us = (uint32_t)(in->cpus * CPU_PERIOD_US + 0.5);
    ret->pids = in->pids;
    ret->read_only = in->read_only;
    ret->tier = in->tier != NULL ? tier_from_name(in->tier) : TIER_FULL;
    ret->profile =
        in->profile != NULL && str_equal(in->profile, "build") ? PROFILE_BUILD : PROFILE_STRICT;
    if (in->name != NULL)
        (void)snprintf(ret->hostname, sizeof ret->hostname, "%s", in->name); /* it was checked */
    return ret->tier == TIER_NONE ? refuse(why, "there is no such tier") : 0;
}

static int fill_fingerprint(char out[static HOST_FINGERPRINT_SIZE], struct cay_error *why) {
    struct host_layout layout;
    _cleanup_(closep) int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_errno(why, "opening the root folder");
    (void)snprintf(out, HOST_FINGERPRINT_SIZE, "%016" PRIx64,
                   host_skeleton_fingerprint(root, &layout));
    return 0;
}

static int make_request(const struct cay_spec *spec, const struct prepared_wish *wish,
                        struct prepared_request *ret, struct cay_error *why) {
    memset(ret, 0, sizeof *ret); /* with what lies between its members */
    if (str_copy(ret->version, sizeof ret->version, CAY_VERSION) < 0)
        return refuse(why, "the version's name is too long");
    ret->what = wish != NULL ? PREPARED_PYTHON : PREPARED_COMMAND;
    int r = prepared_look_around(&ret->place, why);
    if (r == 0)
        r = fill_spec(spec, &ret->spec, why);
    if (r == 0)
        r = fill_fingerprint(ret->fingerprint, why);
    if (r < 0 || wish == NULL)
        return r;
    ret->may_wait = wish->may_wait;
    ret->preload = prepared_preload(wish->preload);
    return str_copy(ret->work_dir, sizeof ret->work_dir, wish->work_dir) < 0
               ? refuse(why, "the work folder's path is too long")
               : 0;
}

/* ---- asking ---- */

static int dial(const char *state_dir, struct cay_error *why) {
    char folder[PATH_MAX];
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    int r = state_dir_make(state_dir, folder, sizeof folder, why);
    if (r < 0)
        return r;
    if (str_format(sa.sun_path, sizeof sa.sun_path, "%s/daemon/" PREPARED_SOCKET, folder) < 0)
        return refuse(why, "the path of the daemon's socket is too long");
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_errno(why, "making a socket");
    if (connect(fd, (const struct sockaddr *)&sa, sizeof sa) == 0)
        return TAKE_FD(fd);
    if (errno == ENOENT || errno == ECONNREFUSED)
        return refuse(why, "no daemon that prepares sandboxes is running");
    return error_errno(why, "connecting to the daemon");
}

struct fds {
    int fd[PREPARED_FDS_MAX];
    size_t count;
};

static void close_fds(struct fds *f) {
    for (size_t i = 0; i < f->count; i++)
        fd_close(&f->fd[i]);
    f->count = 0;
}

/* 1: an answer, with its descriptors; 0: it has not come in time; negative: the daemon is gone. */
static int next_answer(int control, int64_t timeout_ms, struct prepared_answer *ret,
                       struct fds *ret_fds) {
    struct pollfd p = {.fd = control, .events = POLLIN};
    int64_t deadline = clock_deadline(timeout_ms);
    int n;
    do
        n = poll(&p, 1, clock_poll_timeout(deadline));
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return n;
    close_fds(ret_fds);
    ssize_t len =
        fd_receive(control, ret, sizeof *ret, ret_fds->fd, ARRAY_LEN(ret_fds->fd), &ret_fds->count);
    return len == (ssize_t)sizeof *ret ? 1 : -EPIPE;
}

static int read_kills(int counter, uint64_t *ret) {
    char text[512];
    if (counter < 0 || fd_read_again(counter, text, sizeof text) <= 0)
        return -ENODATA;
    for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (str_starts(line, "oom_kill ")) {
            *ret = strtoull(line + strlen("oom_kill "), NULL, 10);
            return 0;
        }
    }
    return -ENODATA;
}

/* Reading must not wait for anybody: the daemon's front is not trusted that far. */
static void take_counter(int fd, struct prepared *p) {
    struct stat st;
    p->counter = fd;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || read_kills(fd, &p->kills) < 0)
        fd_close(&p->counter);
}

/* Descriptors are those that the answer names, or it makes no sense. */
static int take_answer(const struct prepared_answer *a, struct fds *fds, struct prepared *p,
                       struct cay_error *why) {
    if (a->event == PREPARED_REFUSED) {
        *why = a->err;
        error_sanitize(why);
        return -(int)why->code;
    }
    size_t connection = a->has_connection != 0, counter = a->has_counter != 0;
    size_t frozen = a->python == PREPARED_FROZEN;
    bool waits = a->python == PREPARED_WAITING;
    if (a->event != PREPARED_STARTED || memchr(a->id, '\0', sizeof a->id) == NULL ||
        fds->count != connection + frozen + counter || (waits && connection == 0))
        return refuse(why, "the daemon's answer makes no sense");
    memcpy(p->id, a->id, sizeof p->id);
    p->waits = waits;
    if (connection > 0) {
        fd_close(&p->connection);
        p->connection = TAKE_FD(fds->fd[0]);
    }
    if (frozen > 0)
        p->frozen = TAKE_FD(fds->fd[connection]);
    if (counter > 0)
        take_counter(TAKE_FD(fds->fd[connection + frozen]), p);
    return 0;
}

static int ask(const struct prepared_request *req, struct prepared *p, struct cay_error *why) {
    int pair[2];
    struct prepared_answer a;
    _cleanup_(close_fds) struct fds fds = {0};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(why, "making a socket pair");
    p->connection = pair[0];
    int r = fd_send(p->control, req, sizeof *req, &pair[1], 1);
    (void)close(pair[1]);
    if (r < 0)
        return error_sys(why, -r, "asking the daemon");
    r = next_answer(p->control, ANSWER_MS, &a, &fds);
    if (r == 0)
        return refuse(why, "the daemon does not answer");
    return r < 0 ? refuse(why, "the daemon hung up") : take_answer(&a, &fds, p, why);
}

int prepared_take(const char *state_dir, const struct cay_spec *spec,
                  const struct prepared_wish *wish, struct prepared *ret, struct cay_error *why) {
    struct prepared_request req;
    struct prepared p = PREPARED_NONE;
    int64_t begin = clock_us();
    int r = check_spec(spec, why);
    if (r == 0)
        r = p.control = dial(state_dir, why);
    if (r >= 0)
        r = make_request(spec, wish, &req, why);
    if (r == 0)
        r = ask(&req, &p, why);
    if (r < 0) {
        prepared_drop(&p);
        return r;
    }
    p.start_us = clock_us() - begin;
    *ret = p;
    return 0;
}

/* ---- its end ---- */

static int lost(struct cay_error *err) {
    error_set(err, CAY_UNAVAILABLE, "the daemon ended, and with it the sandbox");
    return error_remedy(err, "run it again; with --no-daemon it does not depend on the daemon");
}

int prepared_oom_killed(const struct prepared *p, bool *ret) {
    uint64_t kills = 0;
    int r = read_kills(p->counter, &kills);
    *ret = r == 0 && kills > p->kills;
    return r;
}

int prepared_wait(struct prepared *p, bool *ret_oom, struct cay_error *err) {
    struct prepared_answer a;
    _cleanup_(close_fds) struct fds none = {0};
    *ret_oom = false;
    int r = next_answer(p->control, END_MS, &a, &none);
    if (r == 0) {
        (void)shutdown(p->control, SHUT_WR);
        r = next_answer(p->control, GONE_MS, &a, &none);
    }
    if (r <= 0 || a.event != PREPARED_ENDED)
        return lost(err);
    *ret_oom = a.oom_killed != 0;
    if (a.err.code == CAY_OK)
        return 0;
    error_sanitize(&a.err);
    return a.err.code == CAY_UNAVAILABLE ? lost(err) : (*err = a.err, -(int)a.err.code);
}

void prepared_drop(struct prepared *p) {
    fd_close(&p->connection);
    fd_close(&p->frozen);
    fd_close(&p->counter);
    fd_close(&p->control);
}
