#include "daemon/supervisor.h"
#include "daemon/capacity.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/program.h"
#include "daemon/confine.h"
#include "daemon/control.h"
#include "daemon/front/describe.h"
#include "daemon/front/exec.h"
#include "daemon/front/figures.h"
#include "daemon/front/reload.h"
#include "daemon/helpers/archives.h"
#include "daemon/helpers/egress.h"
#include "daemon/helpers/imager.h"
#include "daemon/helpers/places.h"
#include "daemon/helpers/pulls.h"
#include "daemon/notify.h"
#include "daemon/oom.h"
#include "daemon/replace.h"
#include "daemon/retired.h"
#include "engine/engines.h"
#include "engine/link/program.h"
#include "image/archives.h"

enum {
    PAUSE_MIN_MS = 50,
    PAUSE_MAX_MS = 2 * 1000, /* clients wait meanwhile */
    LIVED_MS = 10 * 1000,    /* who lived that long was well, and is started again at once */
    FINISH_MS = 12 * 1000,   /* what a front may take to finish, and some more */
    HANG_UP_MS = 10 * 1000,  /* what a launcher may take to go after its front */
    LOG_MAX = 16 << 20,
    LOG_LOOK_MS = 60 * 1000, /* how long a log may be larger */
};

struct child {
    pid_t pid; /* 0: it does not run */
    int64_t born;
    int64_t kill_at; /* 0: never */
};

struct supervisor {
    struct settings *settings;
    struct places_sockets sockets;
    int control; /* to the front */
    struct child front, launcher;
    struct child others[ENGINE_KINDS]; /* programs of other engines that the front has asked for */
    pid_t retired[RETIRED_MAX];        /* fronts before it, as in struct replace_kept */
    pid_t egress;                      /* 0: there is none, or it has ended */
    struct pulls pulls;
    struct archive_jobs archives;
    struct reload reload;       /* which the front has not answered yet */
    unsigned fronts, launchers; /* started so far */
    int64_t pause, start_at;    /* how long, and until when, nothing is started */
    bool has_paused;            /* something has failed before */
    int64_t log_at;             /* when to look at the log's size; 0: it is not ours */
    int report;
    int lock;          /* of the state folder, ours from the start to the end */
    bool is_successor; /* of a program that was replaced */
    bool has_served;   /* once, in which case failures are tried again */
    bool is_stopping;
    int64_t stopped_at; /* when it was told to stop; 0: not yet */
    bool is_replacing;  /* as soon as nothing runs but retired fronts, another program follows */
    bool has_failed;    /* before it ever served: failure says why */
    struct cay_error failure;
};

/* ---- signals ---- */

static int wake[2] = {-1, -1};
static volatile sig_atomic_t wants_end, wants_reload, wants_replacement;
static volatile sig_atomic_t end_sender; /* a process; 0: the kernel, for a terminal */

static void on_signal(int number, siginfo_t *info, void *context) {
    (void)context;
    int saved = errno;
    if ((number == SIGTERM || number == SIGINT) && wants_end == 0) {
        wants_end = number;
        end_sender = info->si_code == SI_USER ? info->si_pid : 0;
    }
    if (number == SIGHUP)
        wants_reload = 1;
    if (number == SIGUSR2)
        wants_replacement = 1;
    ssize_t ignored = write(wake[1], "", 1); /* full: it wakes anyway */
    (void)ignored;
    errno = saved;
}

/* Handlers, not a mask: what is started here must not inherit blocked signals. */
static int catch_signals(struct cay_error *err) {
    static const int caught[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR2, SIGCHLD};
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_RESTART | SA_SIGINFO};
    if (pipe2(wake, O_CLOEXEC | O_NONBLOCK) < 0)
        return error_errno(err, "making a pipe");
    for (size_t i = 0; i < ARRAY_LEN(caught); i++)
        (void)sigaction(caught[i], &action, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    replace_admit_signals();
    return 0;
}

/* ---- starting ---- */

static int start_engine(const struct settings *c, enum engine_kind kind, int sock,
                        struct child *ret, struct cay_error *err) {
    static const char *const none[] = {NULL};
    _cleanup_(strv_free) struct strv list = {0};
    int r = settings_folders(c->config, c->is_root, &list);
    if (r < 0)
        return error_sys(err, -r, "listing the folders for volumes");
    const char *const *folders = list.len > 0 ? (const char *const *)list.v : none;
    *ret = (struct child){.born = clock_ms()};
    return link_start_program(kind, engine_type(kind)->keep, c->state_dir, folders,
                              c->config->engine, sock, &ret->pid, err);
}

static int start_launcher(struct supervisor *s, int *ret_sock, struct cay_error *err) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making the launcher's socket");
    int r = start_engine(s->settings, s->settings->engine, pair[1], &s->launcher, err);
    (void)close(pair[1]);
    if (r < 0) {
        (void)close(pair[0]);
        return r;
    }
    s->launchers++;
    *ret_sock = pair[0];
    return 0;
}

/* One that there was has lost its client, and ends. */
static void start_other(struct supervisor *s, uint64_t kind, int sock) {
    struct cay_error err;
    if (kind == ENGINE_UNSAID || kind >= ENGINE_KINDS || kind == s->settings->engine)
        return;
    if (start_engine(s->settings, (enum engine_kind)kind, sock, &s->others[kind], &err) < 0)
        log_event(LOG_LEVEL_ERROR, "an engine does not start", "why", "%s; %s", err.message,
                  err.remedy);
}

static int start_front(struct supervisor *s, int launcher, struct cay_error *err) {
    int pair[2];
    pid_t pid;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making the front's socket");
    const struct front_options options = {.settings = s->settings,
                                          .sockets = s->sockets,
                                          .control = pair[1],
                                          .launcher = launcher,
                                          .front_restarts = s->fronts,
                                          .launcher_restarts = s->launchers - 1,
                                          .supervisor = getpid()};
    int r = front_spawn(&options, s->lock, &pid, err);
    (void)close(pair[1]);
    if (r < 0) {
        (void)close(pair[0]);
        return r;
    }
    s->front = (struct child){.pid = pid, .born = clock_ms()};
    s->fronts++;
    s->control = pair[0];
    (void)fd_set_nonblocking(s->control, true); /* whether or not it reads what we send */
    return 0;
}

static int start_both(struct supervisor *s, struct cay_error *err) {
    _cleanup_(closep) int launcher = -1;
    int r = start_launcher(s, &launcher, err);
    return r < 0 ? r : start_front(s, launcher, err);
}

static int replace_launcher(struct supervisor *s, struct cay_error *err) {
    _cleanup_(closep) int launcher = -1;
    struct control_message m = {.op = CONTROL_LAUNCHER};
    int r = start_launcher(s, &launcher, err);
    if (r < 0)
        return r;
    r = control_send(s->control, &m, &launcher, 1);
    return r < 0 ? error_sys(err, -r, "telling the front of its new launcher") : 0;
}

/* ---- reading the configuration again ---- */

static void refuse_reload(struct supervisor *s, const struct cay_error *err) {
    log_event(LOG_LEVEL_ERROR, "the configuration stays as it was", "why", "%s; %s", err->message,
              err->remedy);
    reload_drop(&s->reload);
    notify_send("READY=1\nSTATUS=Serving; the last configuration was refused, see the log");
}

static void begin_reload(struct supervisor *s) {
    notify_reloading();
    struct control_message m = {.op = CONTROL_RELOAD};
    int r = reload_read(s->settings, &s->reload, &m.err);
    if (r == 0) {
        r = reload_send(s->control, &s->reload, &m.err);
        if (r == 0)
            return;
    }
    refuse_reload(s, &m.err);
    (void)control_send(s->control, &m, NULL, 0); /* so that it counts it; gone: nobody asks */
}

static void end_reload(struct supervisor *s, const struct control_message *m) {
    if (s->reload.config == NULL || m->number != s->reload.number)
        return;
    if (m->op != CONTROL_RELOADED) {
        refuse_reload(s, &m->err);
        return;
    }
    reload_finish(&s->reload, s->settings);
    notify_send("READY=1\nSTATUS=Serving");
}

/* Not the reason for its end, perhaps; but it is not tried with the next one unasked. */
static void lose_reload(struct supervisor *s) {
    struct cay_error err;
    if (s->reload.config == NULL)
        return;
    error_set(&err, CAY_UNAVAILABLE, "the front ended before it had taken it over");
    (void)error_remedy(&err, "send SIGHUP again");
    refuse_reload(s, &err);
}

/* ---- ends ---- */

static void tell(const struct supervisor *s, const struct cay_error *err) {
    if (s->report >= 0)
        (void)fd_write_all(s->report, err, sizeof *err);
}

static void fail(struct supervisor *s, const struct cay_error *err) {
    if (s->has_served || s->has_failed) {
        log_event(LOG_LEVEL_ERROR, "the daemon does not start again", "why", "%s", err->message);
        return;
    }
    s->has_failed = s->is_stopping = true;
    s->failure = *err;
}

/* At once after the first failure; then after 50, 100, 200 ms and so on. */
static void grow_pause(struct supervisor *s, const struct child *c) {
    bool was_well = clock_ms() - c->born > LIVED_MS;
    if (was_well || !s->has_paused)
        s->pause = 0;
    else
        s->pause = MIN(MAX(2 * s->pause, (int64_t)PAUSE_MIN_MS), (int64_t)PAUSE_MAX_MS);
    s->has_paused = true;
    s->start_at = clock_ms() + s->pause;
}

/* Nothing that worked for it may work beside the next one. */
static void let_front_go(struct supervisor *s) {
    s->front.pid = 0;
    fd_close(&s->control);
    lose_reload(s);
    archive_jobs_kill(&s->archives); /* what the next front finds must not change under it */
    s->launcher.kill_at = clock_ms() + HANG_UP_MS;
    for (size_t k = 0; k < ENGINE_KINDS; k++)
        s->others[k].kill_at = s->launcher.kill_at;
}

static void front_ended(struct supervisor *s, int status) {
    struct cay_error err;
    if (!s->is_stopping && !(s->is_replacing && status == 0)) {
        notify_send("STATUS=Starting the front again");
        log_event(LOG_LEVEL_WARN, "the front has ended", "status", "%#x", (unsigned)status);
    }
    if (!s->is_replacing)
        grow_pause(s, &s->front);
    let_front_go(s);
    if (s->has_served || s->is_stopping)
        return;
    error_set(&err, CAY_INTERNAL, "the front ended before it served (status %#x)",
              (unsigned)status);
    (void)error_remedy(&err, "its log may say why");
    fail(s, &err);
}

static void launcher_ended(struct supervisor *s, int status) {
    if (!s->is_stopping && !s->is_replacing && s->front.pid != 0)
        log_event(LOG_LEVEL_WARN, "the launcher has ended", "status", "%#x", (unsigned)status);
    if (s->front.pid != 0 &&
        !s->is_replacing) /* else it followed its front, which has been counted */
        grow_pause(s, &s->launcher);
    s->launcher.pid = 0;
}

/* It has let go of everything that the next front needs. */
static void retire(struct supervisor *s) {
    if (!s->is_replacing || s->front.pid == 0)
        return;
    retired_add(s->retired, s->front.pid);
    let_front_go(s);
}

static bool other_ended(struct supervisor *s, pid_t pid) {
    for (size_t k = 0; k < ENGINE_KINDS; k++)
        if (s->others[k].pid == pid) {
            s->others[k].pid = 0;
            return true;
        }
    return false;
}

/* True if a process of an engine other than the configured one runs. */
static bool others_run(const struct supervisor *s) {
    bool runs = false;
    for (size_t k = 0; k < ENGINE_KINDS; k++)
        runs = runs || s->others[k].pid != 0;
    return runs;
}

static void reap(struct supervisor *s) {
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == s->front.pid)
            front_ended(s, status);
        else if (pid == s->launcher.pid)
            launcher_ended(s, status);
        else if (other_ended(s, pid))
            continue;
        else if (pid == s->egress)
            s->egress = 0;
        else if (retired_ended(s->retired, pid))
            continue;
        else if (pulls_ended(&s->pulls, pid))
            imager_sweep_after(status, s->settings->state_dir);
        else
            (void)archive_jobs_ended(&s->archives, pid);
    }
}

/* ---- messages ---- */

static void served(struct supervisor *s) {
    struct cay_error none = {.code = CAY_OK};
    s->has_served = true;
    notify_send("READY=1\nSTATUS=Serving");
    if (s->is_successor)
        places_lock_renew(s->lock);
    tell(s, &none);
    fd_close(&s->report);
}

static void send_figures(const struct supervisor *s, int sock) {
    struct figures_of of[3 + ENGINE_KINDS] = {
        {"supervisor", getpid()}, {"front", s->front.pid}, {"egress", s->egress}};
    size_t count = 3;
    for (enum engine_kind k = ENGINE_UNSAID + 1; k < ENGINE_KINDS; k++)
        of[count++] = (struct figures_of){
            engine_type(k)->role, k == s->settings->engine ? s->launcher.pid : s->others[k].pid};
    figures_send(sock, of, count);
}

static void take_message(struct supervisor *s) {
    struct control_message m;
    int fds[CONTROL_FDS_MAX];
    int r = control_receive(s->control, &m, fds);
    if (r == -EINTR || r == -EAGAIN)
        return;
    if (r <= 0) { /* it has gone, or has lost its mind */
        fd_close(&s->control);
        (void)kill(s->front.pid, SIGKILL);
        return;
    }
    if (m.op == CONTROL_READY)
        served(s);
    else if (m.op == CONTROL_FAILED)
        fail(s, &m.err);
    else if (m.op == CONTROL_RELEASED)
        retire(s);
    else if (m.op == CONTROL_KEY_GONE)
        retired_end_keys(s->retired);
    else if (m.op == CONTROL_ALIVE)
        notify_send("WATCHDOG=1");
    else if ((m.op == CONTROL_PULL || m.op == CONTROL_STORE || m.op == CONTROL_BUILD) &&
             fds[0] >= 0)
        pulls_start(&s->pulls, s->settings, &m, fds);
    else if (m.op >= CONTROL_ARCHIVE && m.op <= CONTROL_UNARCHIVE && fds[0] >= 0)
        archive_jobs_handle(&s->archives, s->settings, &m, fds[0], fds[1]);
    else if (m.op == CONTROL_RELOADED || m.op == CONTROL_REFUSED)
        end_reload(s, &m);
    else if (m.op == CONTROL_EGRESS && fds[0] >= 0)
        egress_replace(s->settings, fds[0], &s->egress);
    else if (m.op == CONTROL_FIGURES && fds[0] >= 0)
        send_figures(s, fds[0]);
    else if (m.op == CONTROL_ENGINE && fds[0] >= 0)
        start_other(s, m.number, fds[0]);
    else if (m.op == CONTROL_RECORD && fds[0] >= 0)
        describe_send(s->settings->state_dir, m.name, fds[0]);
    for (size_t i = 0; i < CONTROL_FDS_MAX; i++)
        fd_close(&fds[i]);
}

/* ---- the loop ---- */

static void begin_stop(struct supervisor *s) {
    struct control_message m = {.op = CONTROL_DRAIN,
                                .number = s->sockets.is_ours ? DRAIN_STOP : DRAIN_LEAVE};
    char sender[16];
    (void)snprintf(sender, sizeof sender, "%d", (int)end_sender);
    const struct log_field fields[] = {{"signal", wants_end == SIGINT ? "SIGINT" : "SIGTERM"},
                                       {"sender", sender}};
    log_line(LOG_LEVEL_INFO, "stopping", fields, ARRAY_LEN(fields));
    s->stopped_at = clock_ms();
    s->is_stopping = true;
    s->is_replacing = false;
    places_lock_ending(s->lock);
    notify_send("STOPPING=1\nSTATUS=Finishing requests");
    pulls_cancel(&s->pulls);
    if (s->front.pid == 0)
        return;
    s->front.kill_at = clock_ms() + FINISH_MS;
    if (control_send(s->control, &m, NULL, 0) < 0)
        (void)kill(s->front.pid, SIGKILL);
}

/* The front is told to let go of everything; what follows is in `follow`. */
static void begin_replacement(struct supervisor *s) {
    struct control_message m = {.op = CONTROL_DRAIN, .number = DRAIN_HAND_OVER};
    int r = replace_check(&m.err);
    if (r < 0) {
        log_event(LOG_LEVEL_ERROR, "the daemon is not replaced", "why", "%s; %s", m.err.message,
                  m.err.remedy);
        return;
    }
    log_event(LOG_LEVEL_INFO, "the daemon is being replaced", "process", "%d", (int)getpid());
    s->is_replacing = true;
    if (s->front.pid == 0)
        return;
    s->front.kill_at = clock_ms() + FINISH_MS;
    if (control_send(s->control, &m, NULL, 0) < 0)
        (void)kill(s->front.pid, SIGKILL);
}

/* Becomes the next program once nothing is left that it would not know of. If it cannot, this one
 * goes on. */
static void follow(struct supervisor *s) {
    struct replace_kept kept = {.lock = s->lock,
                                .sockets = s->sockets,
                                .fronts = s->fronts - 1, /* not a restart that would count */
                                .launchers = s->launchers - 1};
    struct cay_error err;
    if (s->front.pid != 0 || s->launcher.pid != 0 || others_run(s) ||
        archive_jobs_are_busy(&s->archives))
        return;
    pulls_cancel(&s->pulls);
    memcpy(kept.retired, s->retired, sizeof kept.retired);
    (void)replace_exec(&kept, &err);
    log_event(LOG_LEVEL_ERROR, "the daemon goes on as it was", "why", "%s; %s", err.message,
              err.remedy);
    s->is_replacing = false;
}

static void kill_late(struct child *c) {
    if (c->pid == 0 || c->kill_at == 0 || clock_ms() < c->kill_at)
        return;
    log_event(LOG_LEVEL_WARN, "a process that did not end in time is killed", "process", "%d",
              (int)c->pid);
    (void)kill(c->pid, SIGKILL);
    c->kill_at = 0;
}

static void start_missing(struct supervisor *s) {
    struct cay_error err;
    int r = 0;
    if (s->is_stopping || s->is_replacing || clock_ms() < s->start_at)
        return;
    if (s->front.pid == 0 && s->launcher.pid == 0 && !others_run(s) &&
        !archive_jobs_are_busy(&s->archives))
        r = start_both(s, &err);
    else if (s->front.pid != 0 && s->launcher.pid == 0)
        r = replace_launcher(s, &err);
    if (r == 0)
        return;
    grow_pause(s, &(struct child){.born = clock_ms()});
    fail(s, &err);
}

static int64_t next_deadline(const struct supervisor *s) {
    int64_t at = 0;
    if (!s->is_stopping && !s->is_replacing && s->launcher.pid == 0 &&
        !archive_jobs_are_busy(&s->archives))
        at = s->start_at;
    if (s->launcher.pid != 0)
        at = clock_earlier(at, s->launcher.kill_at);
    for (size_t k = 0; k < ENGINE_KINDS; k++)
        if (s->others[k].pid != 0)
            at = clock_earlier(at, s->others[k].kill_at);
    if (s->front.pid != 0)
        at = clock_earlier(at, s->front.kill_at);
    return clock_earlier(at, s->log_at);
}

static void wait_for_news(struct supervisor *s) {
    struct pollfd p[2 + PULLS_MAX] = {{.fd = wake[0], .events = POLLIN},
                                      {.fd = s->control, .events = POLLIN}};
    char ignored[64];
    pulls_watch(&s->pulls, p + 2);
    if (poll(p, ARRAY_LEN(p), clock_poll_timeout(next_deadline(s))) < 0)
        return;
    while (read(wake[0], ignored, sizeof ignored) > 0)
        ;
    pulls_tend(&s->pulls, p + 2);
    if (p[1].revents != 0)
        take_message(s); /* before its sender is found dead */
    reap(s);
}

static void tend_log(struct supervisor *s) {
    struct cay_error err;
    if (s->log_at == 0)
        return;
    s->log_at = clock_ms() + LOG_LOOK_MS;
    if (places_rotate_log(STDERR_FILENO, LOG_MAX, &err) < 0)
        log_event(LOG_LEVEL_WARN, "the older part of the log is lost", "why", "%s", err.message);
}

static void loop(struct supervisor *s) {
    while (!s->is_stopping || s->front.pid != 0 || s->launcher.pid != 0 || others_run(s)) {
        start_missing(s);
        wait_for_news(s);
        if (wants_end && !s->is_stopping)
            begin_stop(s);
        if (wants_reload && s->control >= 0 && !s->is_stopping) {
            wants_reload = 0;
            begin_reload(s);
        }
        if (wants_replacement && s->has_served && !s->is_stopping && !s->is_replacing) {
            wants_replacement = 0;
            begin_replacement(s);
        }
        if (s->is_replacing)
            follow(s);
        tend_log(s);
        kill_late(&s->front);
        kill_late(&s->launcher);
        for (size_t k = 0; k < ENGINE_KINDS; k++)
            kill_late(&s->others[k]);
    }
    if (s->stopped_at != 0)
        log_event(LOG_LEVEL_INFO, "stopped", "ms", "%lld", (long long)(clock_ms() - s->stopped_at));
}

static int prepare(struct supervisor *s, struct cay_error *err) {
    int r = settings_check_folders(s->settings->config, err);
    if (r == 0 && s->settings->engine == ENGINE_NATIVE)
        r = capacity_check_config(s->settings->config, s->settings->is_root, err);
    if (r == 0)
        r = places_make(s->settings, err);
    if (r < 0)
        return r;
    if (!s->is_successor) {
        s->lock = places_lock(err);
        if (s->lock < 0)
            return s->lock;
    }
    r = places_give_away(s->settings, err);
    if (r < 0)
        return r;
    archives_sweep(s->settings->state_dir);
    imager_sweep(s->settings->state_dir);
    if (s->settings->in_background) {
        r = places_log_to_file(err);
        s->log_at = clock_ms();
    }
    if (r == 0)
        r = places_read_key(s->settings, err);
    if (r == 0)
        r = tls_read(s->settings->config, &s->settings->tls, err);
    if (r == 0 && !s->is_successor)
        r = places_listen(s->settings, &s->sockets, err);
    return r < 0 ? r : catch_signals(err);
}

static void take_over(struct supervisor *s, const struct replace_kept *kept) {
    s->is_successor = s->has_served = true;
    s->lock = kept->lock;
    s->sockets = kept->sockets;
    s->fronts = kept->fronts;
    s->launchers = kept->launchers;
    memcpy(s->retired, kept->retired, sizeof s->retired);
}

int supervisor_run(struct settings *settings, int report, const struct replace_kept *kept,
                   struct cay_error *err) {
    struct supervisor s = {.settings = settings,
                           .sockets = {.local = -1, .tcp = -1},
                           .control = -1,
                           .report = report,
                           .lock = -1};
    if (kept != NULL)
        take_over(&s, kept);
    int r = prepare(&s, err);
    if (r == 0) {
        oom_protect();
        r = confine_supervisor(settings, err);
    }
    if (r == 0) {
        loop(&s);
        if (s.has_failed) {
            *err = s.failure;
            r = -(int)err->code;
        }
    }
    reload_drop(&s.reload);
    if (s.sockets.is_ours)
        (void)unlink(settings->socket);
    if (r < 0)
        tell(&s, err);
    fd_close(&s.report);
    fd_close(&s.lock);
    return r;
}
