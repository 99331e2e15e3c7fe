/* Frozen interpreters: STATE/python/KEY, where KEY says what they were made of. The host writes and
 * passes on bytes that came from a sandbox, and never reads them. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/state.h"
#include "base/str.h"
#include "lib/engine.h"
#include "lib/python/freeze.h"

enum {
    REFUSED_S = 600, /* what could not be frozen is not tried again for so long */
    SWEEP_S = 24 * 3600,
};

struct warm {
    cay_engine *engine; /* NULL: none is made */
    const char *state_dir;
    const struct cay_spec *spec;
    enum python_kind kind;
    const char *const *preload;
    int folder;
    char key[96], refusal[100];
    char temporary[128];
};

static int make_key(struct warm *w, struct cay_error *err) {
    uint64_t h = python_fingerprint(str_equal(w->spec->image, "host"), w->preload);
    if (str_format(w->key, sizeof w->key, "%.64s-%016" PRIx64 "%s", w->spec->image, h,
                   w->kind == PYTHON_WHOLE ? "-whole" : "") < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "no image has such an id");
    (void)snprintf(w->refusal, sizeof w->refusal, "%s.no", w->key);
    return 0;
}

/* ---- the folder ---- */

static int open_folder(struct warm *w, struct cay_error *err) {
    _cleanup_(closep) int state = open(w->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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

/* The file of one that is fresh; -1: there is none. */
static int open_fresh(const struct warm *w, uint64_t *ret_size) {
    struct stat st;
    _cleanup_(closep) int fd = openat(w->folder, w->key, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !is_younger(&st, PYTHON_AGE_MAX_S))
        return -1;
    *ret_size = (uint64_t)st.st_size;
    return TAKE_FD(fd);
}

static int find(const struct warm *w, int *ret, struct cay_error *err) {
    uint64_t size;
    _cleanup_(closep) int fd = open_fresh(w, &size);
    if (fd < 0)
        return 0;
    int copy = python_copy_sealed(fd, size, err);
    if (copy < 0)
        return copy;
    *ret = copy;
    return 1;
}

/* ---- making it ---- */

static int begin_file(struct warm *w, struct cay_error *err) {
    char id[ID_SIZE];
    int r = id_new(id, err);
    if (r < 0)
        return r;
    (void)snprintf(w->temporary, sizeof w->temporary, "new-%s", id);
    int fd = openat(w->folder, w->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd < 0 ? error_errno(err, "making a file for the frozen interpreter") : fd;
}

static struct cay_spec freezer_spec(const struct warm *w) {
    struct cay_spec spec;
    cay_spec_init(&spec);
    spec.image = w->spec->image;
    spec.tier = w->spec->tier;
    spec.memory_bytes = MAX(spec.memory_bytes, w->spec->memory_bytes);
    return spec;
}

static int exec_in(void *box, const struct cay_exec *exec, struct cay_result *ret,
                   struct cay_error *err) {
    return cay_sandbox_exec(box, exec, ret, err);
}

static int run_freezer(const struct warm *w, int out, struct cay_error *err) {
    struct cay_spec spec = freezer_spec(w);
    cay_sandbox *box;
    int r = cay_sandbox_create(w->engine, &spec, &box, err);
    if (r < 0)
        return r;
    r = python_freeze(exec_in, box, w->kind, w->preload, out, err);
    cay_sandbox_destroy(box);
    return r;
}

/* Wakes it once, before anybody relies on it. */
static int prove(const struct warm *w, int file, struct cay_error *err) {
    struct stat st;
    if (fstat(file, &st) < 0)
        return error_errno(err, "looking at the frozen interpreter");
    _cleanup_(closep) int copy = python_copy_sealed(file, (uint64_t)st.st_size, err);
    if (copy < 0)
        return copy;
    struct cay_spec spec = freezer_spec(w);
    cay_sandbox *box;
    int r = cay_sandbox_create(w->engine, &spec, &box, err);
    if (r < 0)
        return r;
    const struct cay_python proof = python_proof(copy);
    struct cay_exec exec = CAY_EXEC_INIT;
    exec.timeout_ms = PYTHON_FREEZE_MS;
    struct cay_python_result result;
    r = cay_sandbox_python(box, &proof, &exec, &result, err);
    r = python_judge_proof(r, &result, file, err);
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
    return python_warm(engine, spec, PYTHON_LEAN, preload, ret, err);
}

int python_warm(cay_engine *engine, const struct cay_spec *spec, enum python_kind kind,
                const char *const *preload, int *ret, struct cay_error *err) {
    struct warm w = {.engine = engine,
                     .state_dir = engine_state_dir(engine),
                     .spec = spec,
                     .kind = kind,
                     .preload = preload,
                     .folder = -1};
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

/* ---- copying it meanwhile ---- */

static _noreturn_ void copy_and_exit(int file, int memory, uint64_t size) {
    struct cay_error ignored; /* the caller tries again, and has its own */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    _exit(python_copy(file, memory, size, &ignored) < 0);
}

static bool begin_copy(const struct warm *w, struct python_copy *ret) {
    uint64_t size;
    struct cay_error ignored;
    _cleanup_(closep) int file = open_fresh(w, &size);
    _cleanup_(closep) int memory = file < 0 ? -1 : python_memory(&ignored);
    if (memory < 0)
        return false;
    pid_t pid = fork();
    if (pid == 0)
        copy_and_exit(file, memory, size);
    if (pid > 0)
        *ret = (struct python_copy){.pid = pid, .memory = TAKE_FD(memory)};
    return pid > 0;
}

bool python_copy_begin(const char *state_dir, const struct cay_spec *spec,
                       const char *const *preload, struct python_copy *ret) {
    struct cay_error ignored; /* whoever makes one has it too */
    char path[PATH_MAX];
    struct warm w = {.state_dir = path, .spec = spec, .preload = preload, .folder = -1};
    if (state_dir_make(state_dir, path, sizeof path, &ignored) < 0 || make_key(&w, &ignored) < 0 ||
        open_folder(&w, &ignored) < 0)
        return false;
    bool begun = begin_copy(&w, ret);
    fd_close(&w.folder);
    return begun;
}

int python_copy_end(struct python_copy *c, int *ret, struct cay_error *err) {
    int status = 0;
    pid_t pid;
    _cleanup_(closep) int memory = TAKE_FD(c->memory);
    do
        pid = waitpid(c->pid, &status, 0);
    while (pid < 0 && errno == EINTR);
    c->pid = 0;
    if (pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return error_set(err, CAY_UNAVAILABLE, "the frozen interpreter could not be copied");
    int sealed = python_seal(memory, err);
    if (sealed >= 0)
        *ret = sealed;
    return MIN(sealed, 0);
}

void python_copy_drop(struct python_copy *c) {
    if (c->pid == 0)
        return;
    (void)kill(c->pid, SIGKILL);
    while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    fd_close(&c->memory);
    c->pid = 0;
}
