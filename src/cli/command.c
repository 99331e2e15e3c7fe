#include "cli/command.h"

#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/error.h"
#include "config/config.h"

int command_catch_signals(int *ret, struct cay_error *err) {
    static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(forwarded); i++)
        (void)sigaddset(&set, forwarded[i]);
    (void)signal(SIGPIPE, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return error_errno(err, "blocking signals");
    *ret = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return *ret < 0 ? error_errno(err, "making a signalfd") : 0;
}

int command_find_timeout(const struct verb_common *common, int64_t given_ms, int64_t *ret_ms,
                         struct cay_error *err) {
    _cleanup_(config_freep) struct config *config = NULL;
    *ret_ms = given_ms;
    if (given_ms >= 0)
        return 0;
    int r = config_load(common->config, (const char *const *)environ, &config, err);
    if (r == 0)
        *ret_ms = config->sandbox.timeout_ms;
    return r;
}

int command_check_tty(bool tty, struct cay_error *err) {
    if (!tty || isatty(STDIN_FILENO))
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "-t needs a terminal on standard input");
    return error_remedy(err, "leave -t away");
}

void command_explain(const struct cay_result *s) {
    const char *why = s->idle_output        ? "ended: it printed nothing for --idle-output-timeout"
                      : s->timed_out        ? "ended: it ran longer than --timeout"
                      : s->output_truncated ? "ended: it printed more than --output-max"
                      : s->oom_killed       ? "a process was killed: out of memory (--memory)"
                                            : NULL;
    if (why != NULL)
        (void)fprintf(stderr, "cay: %s\n", why);
}

int command_print(struct buf *b, int exit_code) {
    (void)buf_putc(b, '\n');
    return verb_print(b) != 0 ? 125 : exit_code;
}
