/* `cayd`: the daemon. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "base/state.h"
#include "base/str.h"
#include "cmd/verb.h"
#include "daemon/front/exec.h"
#include "daemon/helpers/places.h"
#include "daemon/replace.h"
#include "daemon/settings.h"
#include "daemon/supervisor.h"
#include "engine/disk/disk.h"

enum { BACKGROUND_MS = 60 * 1000 };

struct daemon_options {
    struct verb_common common;
    const char *listen;
    const char *socket;
    const char *log_level;
    const char *log_format;
    bool insecure_listen;
    bool background;
    bool replace;
    bool check;
};

static const struct opt options[] = {
    {.name = "listen",
     OPT_TO_STRING(struct daemon_options, listen),
     .arg = "ADDRESS:PORT",
     .help = "serve TCP too, for who has the key in admin.key of the state folder"},
    {.name = "socket",
     OPT_TO_STRING(struct daemon_options, socket),
     .arg = "PATH",
     .help = "unix socket; default: daemon/cay.sock in the state folder",
     .complete = OPT_COMPLETE_FILE},
    {.name = "log-level",
     OPT_TO_STRING(struct daemon_options, log_level),
     .arg = "LEVEL",
     .help = "error, warn, info or debug; default: log_level in [server]"},
    {.name = "log-format",
     OPT_TO_STRING(struct daemon_options, log_format),
     .arg = "FORMAT",
     .help = "text or json; default: log_format in [server]"},
    {.name = "insecure-listen",
     OPT_TO_FLAG(struct daemon_options, insecure_listen),
     .help = "let --listen name an address that others reach, without TLS"},
    {.name = "background",
     OPT_TO_FLAG(struct daemon_options, background),
     .help = "return as soon as it serves; log to daemon/log in the state folder"},
    {.name = "replace",
     OPT_TO_FLAG(struct daemon_options, replace),
     .help = "make a daemon that runs restart as the installed version, with its own options and "
             "without refusing anybody, and return when it serves; without one, run"},
    {.name = "check",
     OPT_TO_FLAG(struct daemon_options, check),
     .help = "only read options and configuration, and say what is wrong with them"},
    {0},
};

/* ---- settings ---- */

/* Of the file that was named: we leave the folder in which its name was found. */
static int keep_file(struct settings *s, char path[static PATH_MAX], struct cay_error *err) {
    const char *named = s->config->files[CONFIG_FROM_NAMED].path;
    if (named == NULL)
        return 0;
    if (realpath(named, path) == NULL)
        return error_errno(err, "finding %s", named);
    s->config_file = path;
    return 0;
}

static int keep_socket(struct settings *s, const char *given, char path[static PATH_MAX],
                       struct cay_error *err) {
    if (given == NULL && s->config->server.socket[0] != '\0')
        given = s->config->server.socket;
    s->socket = "cay.sock";
    if (given == NULL)
        return 0;
    char folder[PATH_MAX], whole[PATH_MAX];
    if (given[0] != '/' && (getcwd(folder, sizeof folder) == NULL ||
                            path_join(whole, sizeof whole, folder, given) < 0))
        return error_set(err, CAY_INVALID_ARGUMENT, "--socket: the path is too long");
    s->socket = path;
    return path_normalize("--socket", given[0] == '/' ? given : whole, path, PATH_MAX, err);
}

/* A copy: the configuration is another one when it has been read again. */
static int keep_listen(struct settings *s, struct cay_error *err) {
    static char address[80];
    if (s->listen != NULL || s->config->server.listen[0] == '\0')
        return 0;
    s->listen = address;
    return str_copy(address, sizeof address, s->config->server.listen) < 0
               ? error_set(err, CAY_INVALID_ARGUMENT, "[server] listen is too long")
               : 0;
}

/* What the command line says counts more than the configuration, also when that is read again. */
static int keep_level(struct settings *s, const struct daemon_options *o, struct cay_error *err) {
    s->log_level = o->log_level != NULL ? o->log_level : o->common.verbose ? "debug" : NULL;
    if (s->log_level == NULL || log_level_from_name(s->log_level, &(enum log_level){0}))
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "--log-level: '%.40s' is no level of the log",
              s->log_level);
    return error_remedy(err, "use error, warn, info or debug");
}

static int keep_format(struct settings *s, const struct daemon_options *o, struct cay_error *err) {
    s->log_format = o->log_format;
    if (s->log_format == NULL || str_equal(s->log_format, "text") ||
        str_equal(s->log_format, "json"))
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "--log-format: '%.40s' is not a format of the log",
              s->log_format);
    return error_remedy(err, "use text or json");
}

static int read_settings(const struct daemon_options *o, struct settings *ret,
                         struct cay_error *err) {
    static char config_path[PATH_MAX], socket_path[PATH_MAX];
    ret->listen = o->listen;
    ret->insecure_listen = o->insecure_listen;
    ret->is_root = geteuid() == 0;
    ret->ids = ROLE_IDS_EMPTY;
    ret->no_disk_limits = (struct cay_error){.code = CAY_OK};
    (void)disk_probe(&ret->no_disk_limits); /* without limits then */
    ret->in_background = o->background;
    int r = state_dir_make(o->common.state_dir, ret->state_dir, sizeof ret->state_dir, err);
    if (r == 0)
        r = config_load_trusted(o->common.config, (const char *const *)environ, &ret->config, err);
    if (r == 0)
        r = config_check_refusals(ret->config, err);
    if (r == 0)
        settings_choose_engine(ret);
    if (r == 0)
        r = keep_file(ret, config_path, err);
    if (r == 0)
        r = keep_level(ret, o, err);
    if (r == 0)
        r = keep_format(ret, o, err);
    if (r == 0) {
        settings_apply_level(ret->log_level, ret->config);
        settings_apply_format(ret->log_format, ret->config);
    }
    if (r == 0)
        r = keep_listen(ret, err);
    return r < 0 ? r : keep_socket(ret, o->socket, socket_path, err);
}

/* ---- in the background ---- */

static bool accepts(const struct settings *s) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    _cleanup_(closep) int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return sock >= 0 && str_copy(to.sun_path, sizeof to.sun_path, s->socket) == 0 &&
           connect(sock, (const struct sockaddr *)&to, sizeof to) == 0;
}

/* Somebody else started one at the same time: that is as good. */
static bool another_serves(const struct settings *s) {
    char folder[PATH_MAX];
    int64_t deadline = clock_deadline(BACKGROUND_MS / 4);
    if (path_join(folder, sizeof folder, s->state_dir, "daemon") < 0 || chdir(folder) < 0)
        return false;
    while (!accepts(s)) {
        if (clock_expired(deadline))
            return false;
        (void)usleep(20 * 1000);
    }
    return true;
}

/* What the daemon tells when it serves, or does not. */
static int await(const struct settings *s, int report, struct cay_error *err) {
    struct pollfd p = {.fd = report, .events = POLLIN};
    int64_t deadline = clock_deadline(BACKGROUND_MS);
    int n;
    do
        n = poll(&p, 1, clock_poll_timeout(deadline));
    while (n < 0 && errno == EINTR);
    if (n == 0) {
        error_set(err, CAY_TIMEOUT, "the daemon does not serve after %d s", BACKGROUND_MS / 1000);
        return error_remedy(err, "see daemon/log in %s", s->state_dir);
    }
    if (n < 0 || fd_read_all(report, err, sizeof *err) != 1) {
        error_set(err, CAY_INTERNAL, "the daemon ended without a word");
        return error_remedy(err, "see daemon/log in %s", s->state_dir);
    }
    if (err->code == CAY_CONFLICT && another_serves(s))
        return 0;
    return -(int)err->code;
}

/* Returns in the parent when the daemon serves; 1 in the daemon itself. */
static int detach(const struct settings *s, int *ret_report, struct cay_error *err) {
    int report[2];
    if (pipe2(report, O_CLOEXEC) < 0)
        return error_errno(err, "making a pipe");
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(report[0]);
        (void)setsid();
        *ret_report = report[1];
        return 1;
    }
    int sys = errno;
    (void)close(report[1]);
    _cleanup_(closep) int in = report[0];
    return pid < 0 ? error_sys(err, sys, "starting the daemon") : await(s, in, err);
}

/* ---- running ---- */

static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc, (void)argv;
    const struct daemon_options *o = values;
    static struct settings settings;
    struct cay_error err;
    struct replace_kept kept;
    int report = -1;
    bool is_next = replace_inherit(&kept);
    int r = read_settings(o, &settings, &err);
    bool is_daemon = r == 0 && !o->check;
    if (is_daemon && o->replace && !is_next) {
        r = replace_ask(settings.state_dir, &err);
        is_daemon = r == 1;
    }
    if (is_daemon && o->background && !is_next) {
        r = detach(&settings, &report, &err);
        is_daemon = r == 1;
    }
    if (is_daemon)
        r = supervisor_run(&settings, report, is_next ? &kept : NULL, &err);
    config_free(settings.config);
    /* who waits for a background daemon tells what went wrong */
    return r >= 0 ? 0 : report >= 0 ? cay_code_exit(err.code) : verb_fail(&err);
}

static const struct opt_command command = {
    .name = "cayd",
    .path = "cayd",
    .synopsis = "[OPTIONS]",
    .summary = "the daemon of cay",
    .options = options,
    .values_size = sizeof(struct daemon_options),
    .run = run,
};

static const struct verb_program program = {.path = "cayd"};

int main(int argc, char **argv) {
    if (fd_open_standard() < 0)
        return 1;
    if (front_is_meant(argc, argv))
        return front_main();
    /* What the caller forgot to close would stay open in all of our processes. */
    if (!replace_is_begun())
        (void)close_range(PLACES_PASSED_FIRST + places_passed(), ~0U, 0);
    (void)prctl(PR_SET_NAME, "cayd", 0, 0, 0);
    replace_remember(argv);
    return verb_run(&program, &command, argc - 1, argv + 1);
}
