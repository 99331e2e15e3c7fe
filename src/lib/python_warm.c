/* Frozen interpreters: STATE/python/KEY, where KEY says what they were made of. The host writes and
 * passes on bytes that came from a sandbox, and never reads them. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "freeze/frozen.h"
#include "lib/engine.h"
#include "version.h"

extern const char python_runner[], python_extras[], python_freezer[];
extern const char python_freeze_begin[], python_freeze_end[];
extern const char python_thaw_begin[], python_thaw_end[];

enum {
    AGE_MAX_S = 3600, /* the layout of memory and the seed of hashes are its own */
    REFUSED_S = 600,  /* what could not be frozen is not tried again for so long */
    SWEEP_S = 24 * 3600,
    FREEZE_MS = 60 * 1000,
    PRELOAD_MAX = 64,
};
#ifndef MFD_EXEC
#define MFD_EXEC 0x10U
#endif

#define FROZEN_MAX ((uint64_t)1 << 30)

struct warm {
    cay_engine *engine;
    const struct cay_spec *spec;
    const char *const *preload;
    int folder;
    char key[96], refusal[100];
    char temporary[128];
};

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

static int make_key(struct warm *w, struct cay_error *err) {
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
    for (const char *const *p = w->preload; p != NULL && *p != NULL; p++)
        mix_text(&h, *p);
    if (str_equal(w->spec->image, "host"))
        mix_host(&h);
    if (str_format(w->key, sizeof w->key, "%.64s-%016" PRIx64, w->spec->image, h) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "no image has such an id");
    (void)snprintf(w->refusal, sizeof w->refusal, "%s.no", w->key);
    return 0;
}

/* ---- the folder ---- */

static int open_folder(struct warm *w, struct cay_error *err) {
    _cleanup_(closep) int state =
        open(engine_state_dir(w->engine), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (state < 0)
        return error_errno(err, "opening the state folder");
    if (mkdirat(state, "python", 0700) < 0 && errno != EEXIST)
        return error_errno(err, "making the folder of frozen interpreters");
    w->folder = openat(state, "python", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return w->folder < 0 ? error_errno(err, "opening the folder of frozen interpreters") : 0;
}

static bool is_younger(const struct stat *st, int64_t seconds) {
    int64_t age = (int64_t)time(NULL) - (int64_t)st->st_mtime;
    return age >= 0 && age < seconds;
}

static void sweep(int folder) {
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_(closedirp) DIR *d = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *e;
    struct stat st;
    while (d != NULL && (e = readdir(d)) != NULL) /* NOLINT(concurrency-mt-unsafe): own stream */
        if (fstatat(folder, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            !is_younger(&st, SWEEP_S))
            (void)unlinkat(folder, e->d_name, 0); /* somebody else may have been quicker */
}

/* A copy in memory that nobody can write to: what runs from it may belong to whoever owns the
 * file. It also has no path, and lies outside of every tree, where Landlock lets it be executed. */
static int copy_sealed(int file, uint64_t size, struct cay_error *err) {
    _cleanup_(closep) int copy = memfd_create("python", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (copy < 0 && errno == EINVAL) /* before 6.3 every one can be executed */
        copy = memfd_create("python", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (copy < 0)
        return error_errno(err, "making a file in memory");
    off_t at = 0;
    while ((uint64_t)at < size) {
        ssize_t n = sendfile(copy, file, &at, (size_t)(size - (uint64_t)at));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 ? error_set(err, CAY_UNAVAILABLE, "the frozen interpreter is cut off")
                          : error_errno(err, "copying the frozen interpreter");
    }
    if (fcntl(copy, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return error_errno(err, "sealing the frozen interpreter");
    /* A file that is open for writing cannot be executed. */
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", copy);
    int ro = open(path, O_RDONLY | O_CLOEXEC);
    return ro < 0 ? error_errno(err, "opening the frozen interpreter again") : ro;
}

/* Why this image could not be frozen a while ago; 0 if it was not tried. */
static int find_refusal(const struct warm *w, struct cay_error *err) {
    struct stat st;
    char why[256], shown[256];
    if (fstatat(w->folder, w->refusal, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        !is_younger(&st, REFUSED_S) || fd_read_file_at(w->folder, w->refusal, why, sizeof why) < 0)
        return 0;
    return error_set(err, CAY_UNSUPPORTED, "%s", str_escape(shown, sizeof shown, why));
}

static void keep_refusal(const struct warm *w, const char *why) {
    _cleanup_(closep) int fd =
        openat(w->folder, w->refusal, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0)
        (void)fd_write_all(fd, why, MIN(strlen(why), (size_t)255)); /* else it is tried again */
}

static int find(const struct warm *w, int *ret, struct cay_error *err) {
    struct stat st;
    _cleanup_(closep) int fd = openat(w->folder, w->key, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return 0;
    if (!is_younger(&st, AGE_MAX_S))
        return 0;
    int copy = copy_sealed(fd, (uint64_t)st.st_size, err);
    if (copy < 0)
        return copy;
    *ret = copy;
    return 1;
}

/* ---- making it ---- */

static int begin_file(struct warm *w, struct cay_error *err) {
    static const char padding[FROZEN_THAW_SIZE];
    size_t thaw = (size_t)(python_thaw_end - python_thaw_begin);
    char id[ID_SIZE];
    if (thaw > sizeof padding)
        return error_set(err, CAY_INTERNAL, "the beginning of a frozen interpreter is too long");
    int r = id_new(id, err);
    if (r < 0)
        return r;
    (void)snprintf(w->temporary, sizeof w->temporary, "new-%s", id);
    _cleanup_(closep) int fd =
        openat(w->folder, w->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, "making a file for the frozen interpreter");
    r = fd_write_all(fd, python_thaw_begin, thaw);
    if (r == 0)
        r = fd_write_all(fd, padding, sizeof padding - thaw);
    return r < 0 ? error_sys(err, -r, "writing the frozen interpreter") : TAKE_FD(fd);
}

static struct cay_spec freezer_spec(const struct warm *w) {
    struct cay_spec spec;
    cay_spec_init(&spec);
    spec.image = w->spec->image;
    spec.tier = w->spec->tier;
    spec.memory_bytes = MAX(spec.memory_bytes, w->spec->memory_bytes);
    return spec;
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

static int freeze_in(cay_sandbox *box, const char *const *argv, int out, struct cay_error *err) {
    _cleanup_(buf_free) struct buf input = BUF_INIT(1 << 20);
    if (put_input(&input) < 0)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    struct cay_exec exec = CAY_EXEC_INIT;
    exec.argv = argv;
    exec.input = input.data;
    exec.input_len = input.len;
    exec.stdout_fd = out;
    exec.timeout_ms = FREEZE_MS;
    exec.output_max = FROZEN_MAX;
    exec.work_dir = "/workspace";
    struct cay_result result;
    int r = cay_sandbox_exec(box, &exec, &result, err);
    if (r == 0)
        r = judge(&result, err);
    cay_result_free(&result);
    return r;
}

static int run_freezer(const struct warm *w, int out, struct cay_error *err) {
    _cleanup_(freep) char *text = NULL;
    if (asprintf(&text, "%s%s%s\n_cay_run(_cay_end)\n", python_runner, python_extras,
                 python_freezer) < 0)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    const char *argv[PRELOAD_MAX + 5] = {"python3", "-u", "-c", text};
    for (size_t i = 0; w->preload != NULL && w->preload[i] != NULL; i++) {
        if (i == PRELOAD_MAX)
            return error_set(err, CAY_INVALID_ARGUMENT, "more than %d modules to preload",
                             PRELOAD_MAX);
        argv[4 + i] = w->preload[i];
    }
    struct cay_spec spec = freezer_spec(w);
    cay_sandbox *box;
    int r = cay_sandbox_create(w->engine, &spec, &box, err);
    if (r < 0)
        return r;
    r = freeze_in(box, argv, out, err);
    cay_sandbox_destroy(box);
    return r;
}

/* Wakes it once, before anybody relies on it. */
static int prove(const struct warm *w, int file, struct cay_error *err) {
    struct stat st;
    if (fstat(file, &st) < 0)
        return error_errno(err, "looking at the frozen interpreter");
    _cleanup_(closep) int copy = copy_sealed(file, (uint64_t)st.st_size, err);
    if (copy < 0)
        return copy;
    struct cay_spec spec = freezer_spec(w);
    cay_sandbox *box;
    int r = cay_sandbox_create(w->engine, &spec, &box, err);
    if (r < 0)
        return r;
    const struct cay_python nothing = {.name = "-c", .code = "", .warm = copy};
    struct cay_exec exec = CAY_EXEC_INIT;
    exec.timeout_ms = FREEZE_MS;
    struct cay_python_result result;
    r = cay_sandbox_python(box, &nothing, &exec, &result, err);
    if (r < 0 || result.run.exit_code != 0)
        r = error_set(err, CAY_UNSUPPORTED, "the image's Python cannot be woken (%d)",
                      result.run.exit_code);
    cay_python_result_free(&result);
    cay_sandbox_destroy(box);
    return r;
}

static int make(struct warm *w, struct cay_error *err) {
    sweep(w->folder);
    _cleanup_(closep) int fd = begin_file(w, err);
    if (fd < 0)
        return fd;
    int r = run_freezer(w, fd, err);
    if (r == 0)
        r = prove(w, fd, err);
    if (r == 0 && renameat(w->folder, w->temporary, w->folder, w->key) < 0)
        return error_errno(err, "naming the frozen interpreter");
    if (r < 0) {
        (void)unlinkat(w->folder, w->temporary, 0);
        if (err->code == CAY_UNSUPPORTED) /* what else went wrong may go well next time */
            keep_refusal(w, err->message);
    }
    return r;
}

int cay_python_warm(cay_engine *engine, const struct cay_spec *spec, const char *const *preload,
                    int *ret, struct cay_error *err) {
    struct warm w = {.engine = engine, .spec = spec, .preload = preload, .folder = -1};
    int r = make_key(&w, err);
    if (r == 0)
        r = open_folder(&w, err);
    if (r < 0)
        return r;
    r = find(&w, ret, err);
    if (r == 0)
        r = find_refusal(&w, err);
    if (r == 0)
        r = make(&w, err);
    if (r == 0) {
        r = find(&w, ret, err);
        r = r == 0 ? error_set(err, CAY_UNAVAILABLE, "the frozen interpreter vanished") : r;
    }
    fd_close(&w.folder);
    return MIN(r, 0);
}
