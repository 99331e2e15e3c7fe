#include "engine/disk/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"
#include "confine/seccomp.h"
#include "confine/syscalls.h"

#define FILE_PATH "/proc/self/fd/3"

enum { FILE_FD = 3, WORDS_MAX = 32, NOT_STARTED = 127 };

static const char *const folders[] = {"/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin"};

static bool find(const char *name, char path[static PATH_MAX]) {
    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        if (str_format(path, PATH_MAX, "%s/%s", folders[i], name) == 0 && access(path, X_OK) == 0)
            return true;
    return false;
}

int disk_tool_find(const char *name, struct cay_error *err) {
    char path[PATH_MAX];
    if (find(name, path))
        return 0;
    error_set(err, CAY_UNSUPPORTED, "%s was not found", name);
    return error_remedy(err, "install e2fsprogs");
}

static _noreturn_ void become(const char *path, const char *const *argv, int file) {
    static const char *const env[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C",
                                      "MKE2FS_CONFIG=/dev/null", NULL};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0 && dup2(null, 0) == 0 && dup2(null, 1) == 1 && dup2(null, 2) == 2 &&
        dup2(file, FILE_FD) == FILE_FD && close_range(FILE_FD + 1, ~0U, 0) == 0)
        (void)syscall(SYS_execve, path, argv, env);
    _exit(NOT_STARTED);
}

/* ---- confinement ---- */

enum { CPU_SECONDS = 300 };
static const rlim_t memory_bytes = UINT64_C(4) << 30;

static bool set_limit(int which, rlim_t most) {
    return setrlimit(which, &(struct rlimit){most, most}) == 0;
}

/* It cannot make the file larger, start anything that counts, or reach anybody. */
static bool confine(int file, uid_t uid) {
    struct stat st;
    return fstat(file, &st) == 0 && set_limit(RLIMIT_FSIZE, (rlim_t)st.st_size) &&
           set_limit(RLIMIT_CPU, CPU_SECONDS) && set_limit(RLIMIT_AS, memory_bytes) &&
           set_limit(RLIMIT_CORE, 0) && unshare(CLONE_NEWNET | CLONE_NEWIPC) == 0 &&
           setgroups(0, NULL) == 0 && setresgid(uid, uid, uid) == 0 &&
           setresuid(uid, uid, uid) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 &&
           seccomp_confine(&(struct seccomp_options){.whose = SECCOMP_SANDBOX}, NULL) == 0;
}

/* ---- running ---- */

/* The wait status; uid 0 is without confinement. */
static int run(const char *path, const char *const *argv, int file, uid_t uid,
               struct cay_error *err) {
    pid_t pid = fork();
    if (pid == 0 && uid != 0 && !confine(file, uid))
        _exit(NOT_STARTED);
    if (pid == 0)
        become(path, argv, file);
    if (pid < 0)
        return error_errno(err, "starting %s", argv[0]);
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status & INT_MAX;
}

static int start(const char *name, const char *const *words, int file, uid_t uid,
                 struct cay_error *err) {
    char path[PATH_MAX];
    const char *argv[WORDS_MAX] = {name};
    size_t count = 1;
    for (; *words != NULL && count < WORDS_MAX - 2; words++)
        argv[count++] = *words;
    argv[count] = FILE_PATH;
    _cleanup_(closep) int copy = fcntl(file, F_DUPFD_CLOEXEC, FILE_FD + 1); /* never that one */
    if (copy < 0)
        return error_errno(err, "starting %s", name);
    return find(name, path) ? run(path, argv, copy, uid, err) : disk_tool_find(name, err);
}

int disk_tool_run(const char *name, const char *const *words, int file, struct cay_error *err) {
    int status = start(name, words, file, 0, err);
    if (status <= 0)
        return status;
    error_set(err, CAY_INTERNAL, "%s failed (status 0x%x)", name, (unsigned)status);
    return error_remedy(err, "the state folder needs room, and e2fsprogs 1.43 or later");
}

int disk_tool_run_confined(const char *name, const char *const *words, int file, uid_t uid,
                           struct cay_error *err) {
    struct stat before;
    if (fstat(file, &before) < 0 || fchown(file, uid, uid) < 0)
        return error_errno(err, "preparing the file of a disk for %s", name);
    int status = start(name, words, file, uid, err);
    if (fchown(file, before.st_uid, before.st_gid) < 0 && status >= 0)
        return error_errno(err, "taking the file of a disk back from %s", name);
    if (status < 0)
        return status;
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_STARTED)
        return error_set(err, CAY_INTERNAL, "%s could not be confined and started", name);
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    error_set(err, CAY_INTERNAL, "%s was killed by signal %d", name, WTERMSIG(status));
    return error_remedy(err, "the file system may be too damaged to be repaired");
}
