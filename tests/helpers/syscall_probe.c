/* Runs inside a sandbox and calls every system call by number, each in a child of its own, with
 * arguments that are all ones: no pointer, no descriptor, no valid flags. Prints what came back:
 *
 *     native 17 EFAULT        the call failed
 *     native 39 ok            it succeeded
 *     native 34 hang          it did not return
 *     native 60 exit          the child ended in it
 *     i386 5 killed:SIGSYS    the child was killed
 *
 * Not for use outside of a sandbox: some calls do something even so (sync, a message queue). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LAST_NATIVE = 600,
    LAST_I386 = 460,
    X32_BIT = 0x40000000,
    MAX_ERRNO = 4095,
    HANG_MS = 300,
    ROUNDS = 50, /* of HANG_MS, for a child that does not get a processor to come to its call */
};

/* Shared with the child. */
struct result {
    volatile bool returned;
    volatile long value;
};

enum abi { NATIVE, I386, X32 };
static const char *const abi_names[] = {"native", "i386", "x32"};

/* The calls are part of their caller: after vfork the child may not return from a function. */
#define INLINE static inline __attribute__((always_inline))

INLINE long call_native(long nr) {
    register long r10 __asm__("r10") = -1;
    register long r8 __asm__("r8") = -1;
    register long r9 __asm__("r9") = -1;
    long ret;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "0"(nr), "D"(-1L), "S"(-1L), "d"(-1L), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
}

/* The old gate takes five arguments in other registers; the sixth is in the frame pointer, which
 * stays as it is. Kernels clear r8 to r11 on the way. */
INLINE long call_i386(long nr) {
    int ret;
    __asm__ volatile("int $0x80"
                     : "=a"(ret)
                     : "0"((int)nr), "b"(-1), "c"(-1), "d"(-1), "S"(-1), "D"(-1)
                     : "r8", "r9", "r10", "r11", "memory");
    return ret;
}

/* A call that forks comes back twice; only the child that was asked may report. */
static void run_child(enum abi abi, long nr, struct result *result) {
    const struct rlimit no_core = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &no_core);
    long self = syscall(SYS_getpid);
    if (abi == X32)
        nr |= X32_BIT;
    long value = abi == I386 ? call_i386(nr) : call_native(nr);
    if (syscall(SYS_getpid) != self)
        _exit(0);
    result->value = value;
    result->returned = true;
    _exit(0);
}

/* Whether the child waits for something. It may also have ended, or not get a processor. */
static bool is_asleep(pid_t pid) {
    char path[32], text[64] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    (void)close(fd);
    const char *name_end = n < 0 ? NULL : strrchr(text, ')');
    return name_end == NULL || strchr("RDZ", name_end[2]) == NULL;
}

/* Waits for the child and kills it if it takes too long. Returns whether it did. */
static bool wait_child(pid_t pid, int *status) {
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    bool hangs = true;
    for (int round = 0; hangs && round < ROUNDS; round++) {
        hangs = poll(&p, 1, HANG_MS) == 0;
        if (hangs && is_asleep(pid))
            break;
    }
    if (hangs)
        (void)kill(pid, SIGKILL);
    (void)close(fd);
    while (waitpid(pid, status, 0) < 0 && errno == EINTR) {
    }
    return hangs;
}

static void print_result(enum abi number, long nr, const struct result *r, bool hangs, int status) {
    const char *abi = abi_names[number];
    if (r->returned && (r->value >= 0 || r->value < -MAX_ERRNO))
        printf("%s %ld ok\n", abi, nr);
    else if (r->returned && strerrorname_np((int)-r->value) != NULL)
        printf("%s %ld %s\n", abi, nr, strerrorname_np((int)-r->value));
    else if (r->returned)
        printf("%s %ld errno:%ld\n", abi, nr, -r->value);
    else if (hangs)
        printf("%s %ld hang\n", abi, nr);
    else if (WIFSIGNALED(status))
        printf("%s %ld killed:SIG%s\n", abi, nr, sigabbrev_np(WTERMSIG(status)));
    else
        printf("%s %ld exit\n", abi, nr);
}

static int probe(enum abi abi, long last, struct result *result) {
    for (long nr = 0; nr <= last; nr++) {
        *result = (struct result){0};
        (void)fflush(stdout);
        pid_t pid = fork();
        if (pid < 0) {
            perror("fork");
            return -1;
        }
        if (pid == 0)
            run_child(abi, nr, result);
        int status = 0;
        bool hangs = wait_child(pid, &status);
        print_result(abi, nr, result, hangs, status);
    }
    return 0;
}

int main(void) {
    struct result *result =
        mmap(NULL, sizeof *result, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (result == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    if (probe(NATIVE, LAST_NATIVE, result) < 0 || probe(I386, LAST_I386, result) < 0 ||
        probe(X32, LAST_NATIVE, result) < 0)
        return 1;
    puts("done");
    return 0;
}
