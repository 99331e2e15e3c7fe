/* Runs a program under the sandbox's seccomp filter and nothing else of a sandbox:
 *
 *     seccomp_exec [--ptrace] [--userns] PROGRAM [ARG…]
 *     seccomp_exec --time          how long loading the filter takes, in microseconds */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "confine/seccomp.h"

enum { ROUNDS = 200 };

static int load(const struct seccomp_options *o) {
    static struct sock_filter insns[SECCOMP_MAX_INSNS];
    int n = seccomp_build(o, insns, SECCOMP_MAX_INSNS);
    if (n < 0)
        return n;
    const struct sock_fprog program = {.len = (unsigned short)n, .filter = insns};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : seccomp_load(&program);
}

/* Each load in a child of its own, because filters add up. */
static int print_time(void) {
    static const struct seccomp_options options = {0};
    int64_t best = INT64_MAX;
    for (int i = 0; i < ROUNDS; i++) {
        int pipefd[2];
        if (pipe2(pipefd, O_CLOEXEC) < 0)
            return 1;
        if (fork() == 0) {
            int64_t start = clock_us();
            int r = load(&options);
            int64_t took = clock_us() - start;
            _exit(r < 0 || write(pipefd[1], &took, sizeof took) != sizeof took);
        }
        (void)close(pipefd[1]);
        int64_t took;
        if (read(pipefd[0], &took, sizeof took) == sizeof took && took < best)
            best = took;
        (void)close(pipefd[0]);
        (void)wait(NULL);
    }
    printf("%lld\n", (long long)best);
    return 0;
}

int main(int argc, char **argv) {
    struct seccomp_options options = {0};
    int at = 1;
    for (; at < argc && strncmp(argv[at], "--", 2) == 0; at++) {
        if (strcmp(argv[at], "--time") == 0)
            return print_time();
        options.allow_ptrace = options.allow_ptrace || strcmp(argv[at], "--ptrace") == 0;
        options.allow_userns = options.allow_userns || strcmp(argv[at], "--userns") == 0;
    }
    if (at >= argc) {
        (void)fputs("usage: seccomp_exec [--ptrace] [--userns] PROGRAM [ARG...]\n", stderr);
        return 2;
    }
    int r = load(&options);
    if (r < 0) {
        (void)fprintf(stderr, "seccomp_exec: %s\n", strerror(-r));
        return 125;
    }
    (void)execvp(argv[at], argv + at);
    perror(argv[at]);
    return errno == ENOENT ? 127 : 126;
}
