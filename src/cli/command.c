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

void command_put_ms(struct jsonw *w, const char *key, int64_t us) {
    jsonw_put_number(w, key, (double)us / 1000);
}

static void put_bytes(struct jsonw *w, const char *key, const char *data, size_t len) {
    jsonw_key(w, key);
    jsonw_bytes(w, data != NULL ? data : "", len);
}

void command_put_result(struct jsonw *w, const struct cay_result *s, int exit_code) {
    jsonw_put_integer(w, "exit_code", exit_code);
    put_bytes(w, "stdout", s->out, s->out_len);
    put_bytes(w, "stderr", s->err, s->err_len);
    jsonw_put_bool(w, "timed_out", s->timed_out);
    jsonw_put_bool(w, "oom_killed", s->oom_killed);
    jsonw_put_bool(w, "output_truncated", s->output_truncated);
    command_put_ms(w, "duration_ms", s->duration_us);
}

void command_put_error(struct jsonw *w, const struct cay_error *err) {
    jsonw_key(w, "error");
    jsonw_begin_object(w);
    jsonw_put_string(w, "code", cay_code_name(err->code));
    jsonw_put_string(w, "message", err->message);
    jsonw_put_string(w, "remedy", err->remedy);
    jsonw_end_object(w);
}

int command_print(struct buf *b, int exit_code) {
    (void)buf_putc(b, '\n');
    return verb_print(b) != 0 ? 125 : exit_code;
}
