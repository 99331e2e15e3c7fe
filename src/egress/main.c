/* cay-egress: the proxy between sandboxes and what they may reach. It reads what programs in
 * sandboxes send, so it gives up every right that it does not need (jail.h) before it reads. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "egress/control.h"
#include "egress/jail.h"
#include "egress/serve.h"

enum { MEMORY_MAX = 1 << 30, FILES_MAX = 8192 };

static int fail(const struct cay_error *err) {
    (void)fprintf(stderr, "cay-egress: %s\n", err->message);
    return 1;
}

static void set_limits(void) {
    struct rlimit files = {0}, memory = {MEMORY_MAX, MEMORY_MAX}, none = {0};
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = MIN(files.rlim_max, (rlim_t)FILES_MAX);
        (void)setrlimit(RLIMIT_NOFILE, &files); /* fewer connections then */
    }
    (void)setrlimit(RLIMIT_CORE, &none);
#ifndef __SANITIZE_ADDRESS__ /* which maps terabytes */
    (void)setrlimit(RLIMIT_AS, &memory);
#endif
    (void)memory;
}

/* A terminal's Ctrl-C reaches us too; the end of the control socket is what ends us. */
static void ignore_signals(void) {
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGPIPE};
    for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
        (void)signal(ignored[i], SIG_IGN);
}

int main(int argc, char **argv) {
    struct cay_error err;
    enum log_level level;
    uint64_t as;
    if (argc != 4 || !log_level_from_name(argv[2], &level) ||
        str_to_u64(argv[1], UINT32_MAX - 1, &as) < 0 || fd_open_standard() < 0 ||
        fcntl(EGRESS_CONTROL_FD, F_SETFD, FD_CLOEXEC) < 0) {
        (void)fprintf(stderr, "usage: cay-egress UID LEVEL FORMAT, with its socket on fd 3\n");
        return 2;
    }
    (void)prctl(PR_SET_NAME, "cay-egress", 0, 0, 0);
    log_set_level(level);
    log_set_json(str_equal(argv[3], "json"));
    ignore_signals();
    set_limits();
    int code = jail_enter((uid_t)as, &err) < 0 || egress_serve(EGRESS_CONTROL_FD, &err) < 0
                   ? fail(&err)
                   : 0;
    _exit(code); /* threads are under way */
}
