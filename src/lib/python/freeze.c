#include "lib/python/freeze.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "freeze/frozen.h"
#include "version.h"

extern const char python_runner[], python_extras[], python_freezer[];
extern const char context_charts[], context_python[];
extern const char python_freeze_begin[], python_freeze_end[];
extern const char python_thaw_begin[], python_thaw_end[];

enum { PRELOAD_MAX = 64, LARGE_PAGE = 2 << 20 };
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* since Linux 6.1 */
#endif
#ifndef MFD_EXEC
#define MFD_EXEC 0x10U
#endif

#define FROZEN_MAX ((uint64_t)1 << 30)

/* ---- what it is made of ---- */

static void mix(uint64_t *h, const void *data, size_t len) {
    for (const unsigned char *p = data; len > 0; p++, len--)
        *h = (*h ^ *p) * UINT64_C(1099511628211);
}

static void mix_text(uint64_t *h, const char *text) {
    mix(h, text, strlen(text) + 1);
}

/* What changes when the host's Python or its modules do. */
static void mix_host(uint64_t *h) {
    static const char *const paths[] = {"/usr/bin/python3", "/usr/lib/python3/dist-packages",
                                        "/usr/lib", "/var/lib/dpkg/status"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        struct stat st;
        if (stat(paths[i], &st) < 0)
            continue;
        mix(h, &st.st_ino, sizeof st.st_ino);
        mix(h, &st.st_size, sizeof st.st_size);
        mix(h, &st.st_mtim, sizeof st.st_mtim);
    }
}

uint64_t python_fingerprint(bool is_host, const char *const *preload) {
    uint64_t h = UINT64_C(14695981039346656037);
    char boot[64] = "";
    /* Another kernel has other code at the places that the C library remembers. */
    (void)fd_read_file_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    mix_text(&h, boot);
    mix_text(&h, CAY_VERSION);
    mix(&h, python_thaw_begin, (size_t)(python_thaw_end - python_thaw_begin));
    mix(&h, python_freeze_begin, (size_t)(python_freeze_end - python_freeze_begin));
    mix_text(&h, python_runner);
    mix_text(&h, python_extras);
    mix_text(&h, python_freezer);
    mix_text(&h, context_charts);
    mix_text(&h, context_python);
    for (const char *const *p = preload; p != NULL && *p != NULL; p++)
        mix_text(&h, *p);
    if (is_host)
        mix_host(&h);
    return h;
}

/* ---- where it is kept ---- */

int python_memory(struct cay_error *err) {
    int fd = memfd_create("python", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (fd < 0 && errno == EINVAL) /* before 6.3 every one can be executed */
        fd = memfd_create("python", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd < 0 ? error_errno(err, "making a file in memory") : fd;
}

int python_seal(int memory, struct cay_error *err) {
    if (fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return error_errno(err, "sealing the frozen interpreter");
    /* A file that is open for writing cannot be executed. */
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
    int ro = open(path, O_RDONLY | O_CLOEXEC);
    return ro < 0 ? error_errno(err, "opening the frozen interpreter again") : ro;
}

int python_copy(int file, int to, uint64_t size, struct cay_error *err) {
    off_t at = 0;
    while ((uint64_t)at < size) {
        ssize_t n = sendfile(to, file, &at, (size_t)(size - (uint64_t)at));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 ? error_set(err, CAY_UNAVAILABLE, "the frozen interpreter is cut off")
                          : error_errno(err, "copying the frozen interpreter");
    }
    return 0;
}

int python_copy_sealed(int file, uint64_t size, struct cay_error *err) {
    _cleanup_(closep) int copy = python_memory(err);
    int r = copy < 0 ? copy : python_copy(file, copy, size, err);
    return r < 0 ? r : python_seal(copy, err);
}

void python_gather(int sealed) {
    struct stat st;
    if (fstat(sealed, &st) < 0)
        return;
    size_t len = (size_t)st.st_size & ~((size_t)LARGE_PAGE - 1);
    /* Its place must begin where a large page can. */
    char *room = len == 0 ? MAP_FAILED
                          : mmap(NULL, len + LARGE_PAGE, PROT_NONE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return;
    char *at = room + (-(uintptr_t)room & (LARGE_PAGE - 1));
    if (mmap(at, len, PROT_READ, MAP_SHARED | MAP_FIXED, sealed, 0) != MAP_FAILED)
        (void)madvise(at, len, MADV_COLLAPSE); /* else they stay small */
    (void)munmap(room, len + LARGE_PAGE);
}

/* ---- making it ---- */

static int begin(int out, struct cay_error *err) {
    static const char padding[FROZEN_THAW_SIZE];
    size_t thaw = (size_t)(python_thaw_end - python_thaw_begin);
    if (thaw > sizeof padding)
        return error_set(err, CAY_INTERNAL, "the beginning of a frozen interpreter is too long");
    int r = fd_write_all(out, python_thaw_begin, thaw);
    if (r == 0)
        r = fd_write_all(out, padding, sizeof padding - thaw);
    return r < 0 ? error_sys(err, -r, "writing the frozen interpreter") : 0;
}

static int put_input(struct buf *b) {
    size_t len = (size_t)(python_freeze_end - python_freeze_begin);
    uint32_t n = (uint32_t)len; /* little endian, as all that we run on */
    (void)buf_append(b, &n, sizeof n);
    return buf_append(b, python_freeze_begin, len);
}

static int judge(const struct cay_result *result, struct cay_error *err) {
    if (result->exit_code == 0)
        return 0;
    char shown[200];
    const char *last = result->err != NULL ? strrchr(result->err, '\n') : NULL;
    while (last != NULL && last > result->err && last[-1] != '\n')
        last--;
    (void)str_escape(shown, sizeof shown, last != NULL ? last : "");
    error_set(err, CAY_UNSUPPORTED, "the image's Python cannot be frozen (%d) %s",
              result->exit_code, shown);
    return error_remedy(err, "check the modules in python.preload, or set python.warm to false");
}

static int freeze_by(python_exec_fn *run, void *arg, const char *const *argv, int out,
                     struct cay_error *err) {
    _cleanup_(buf_free) struct buf input = BUF_INIT(1 << 20);
    if (put_input(&input) < 0)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    struct cay_exec exec = CAY_EXEC_INIT;
    exec.argv = argv;
    exec.input = input.data;
    exec.input_len = input.len;
    exec.stdout_fd = out;
    exec.timeout_ms = PYTHON_FREEZE_MS;
    exec.output_max = FROZEN_MAX;
    exec.work_dir = "/workspace";
    struct cay_result result;
    int r = run(arg, &exec, &result, err);
    if (r == 0)
        r = judge(&result, err);
    cay_result_free(&result);
    return r;
}

int python_freeze(python_exec_fn *run, void *arg, enum python_kind kind, const char *const *preload,
                  int out, struct cay_error *err) {
    int r = begin(out, err);
    if (r < 0)
        return r;
    _cleanup_(freep) char *text = NULL;
    if (asprintf(&text, "%s%s%s%s%s\n(_cay_context if _cay_end.context else _cay_run)(_cay_end)\n",
                 python_runner, python_extras, context_charts, context_python, python_freezer) < 0)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    /* What it loads to be frozen. */
    const char *how = kind == PYTHON_WHOLE ? "cay_freeze_whole" : "cay_freeze";
    const char *argv[PRELOAD_MAX + 6] = {"python3", "-u", "-c", text, how};
    for (size_t i = 0; preload != NULL && preload[i] != NULL; i++) {
        if (i == PRELOAD_MAX)
            return error_set(err, CAY_INVALID_ARGUMENT, "more than %d modules to preload",
                             PRELOAD_MAX);
        argv[5 + i] = preload[i];
    }
    return freeze_by(run, arg, argv, out, err);
}

/* ---- waking it once, before anybody relies on it ---- */

struct cay_python python_proof(int warm) {
    return (struct cay_python){.name = "/", .code = "", .warm = warm};
}

int python_judge_proof(int ran, const struct cay_python_result *result, int file,
                       struct cay_error *err) {
    const struct cay_result *run = &result->run;
    if (ran < 0 || run->exit_code != 0)
        return error_set(err, CAY_UNSUPPORTED, "the image's Python cannot be woken (%d)",
                         run->exit_code);
    uint64_t count = MIN(run->out_len / sizeof(struct frozen_hot), (size_t)FROZEN_HOT_MAX);
    size_t len = (size_t)count * sizeof(struct frozen_hot);
    off_t at = FROZEN_THAW_SIZE;
    if (pwrite(file, &count, sizeof count, at + (off_t)offsetof(struct frozen, hot_count)) !=
            (ssize_t)sizeof count ||
        pwrite(file, run->out, len, at + (off_t)offsetof(struct frozen, hot)) != (ssize_t)len)
        return error_errno(err, "writing the frozen interpreter");
    return 0;
}
