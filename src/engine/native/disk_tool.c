#include "engine/native/disk_tool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"
#include "engine/native/syscalls.h"

#define FILE_PATH "/proc/self/fd/3"

enum { FILE_FD = 3, WORDS_MAX = 32 };

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
    _exit(127);
}

static int run(const char *path, const char *const *argv, int file, struct cay_error *err) {
    pid_t pid = fork();
    if (pid == 0)
        become(path, argv, file);
    if (pid < 0)
        return error_errno(err, "starting %s", argv[0]);
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status == 0)
        return 0;
    error_set(err, CAY_INTERNAL, "%s failed (status 0x%x)", argv[0], (unsigned)status);
    return error_remedy(err, "the state folder needs room, and e2fsprogs 1.43 or later");
}

int disk_tool_run(const char *name, const char *const *words, int file, struct cay_error *err) {
    char path[PATH_MAX];
    const char *argv[WORDS_MAX] = {name};
    size_t count = 1;
    for (; *words != NULL && count < WORDS_MAX - 2; words++)
        argv[count++] = *words;
    argv[count] = FILE_PATH;
    _cleanup_(closep) int copy = fcntl(file, F_DUPFD_CLOEXEC, FILE_FD + 1); /* never that one */
    if (copy < 0)
        return error_errno(err, "starting %s", name);
    return find(name, path) ? run(path, argv, copy, err) : disk_tool_find(name, err);
}
