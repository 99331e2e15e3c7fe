#include "imager/verbs/runner_serve.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "confine/syscalls.h"
#include "engine/native/native.h"
#include "engine/privileged.h"
#include "image/image.h"
#include "image/store.h"
#include "imager/registry/credentials.h"
#include "imager/runner_ops.h"
#include "wire/client_exec.h"
#include "wire/wire.h"

enum {
    CPU_PERIOD_US = 100000,
    BUILD_PIDS = 4096,
    WATCH_PAUSE_US = 100000,
    WATCH_STRUCK = 3, /* exit code of a watcher that ended the sandbox */
};
static const uint64_t default_memory = UINT64_C(2) << 30;
static const uint64_t default_disk = UINT64_C(20) << 30;

/* One command of a build. */
struct job {
    const struct wire_message *request;
    const char **argv, **env;
    int output;
    struct image_store store;
    struct image image;
    int disk; /* the layer in the making */
    struct sandbox_spec spec;
    struct native_box *box;
    pid_t watcher;
};

/* ---- what is asked for ---- */

static int malformed(struct cay_error *err, const char *what) {
    return error_set(err, CAY_INVALID_ARGUMENT, "a build command with a malformed %s", what);
}

/* Holds the layers below, and makes an image of them. */
static int hold_layers(struct job *j, struct cay_error *err) {
    const struct wire_message *m = j->request;
    size_t count = m->count[WIRE_TAG_PATHS];
    if (count > RECORD_LAYERS_MAX)
        return error_set(err, CAY_INVALID_ARGUMENT, "more than %d layers", RECORD_LAYERS_MAX);
    j->image.record = record_new();
    j->image.locks = calloc(count + 1, sizeof *j->image.locks);
    j->image.layers = openat(j->store.dir, "layers", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (j->image.record == NULL || j->image.locks == NULL || j->image.layers < 0)
        return error_errno(err, "opening the layers below");
    const char *chain = NULL;
    while ((chain = wire_next_string(m, WIRE_TAG_PATHS, chain)) != NULL) {
        struct record_layer *layer = hex_is_valid(chain) ? record_add_layer(j->image.record) : NULL;
        if (layer == NULL)
            return malformed(err, "layer");
        memcpy(layer->chain, chain, HEX_SIZE);
        size_t i = j->image.record->layer_count - 1;
        j->image.locks[i] = -1;
        _cleanup_(closep) int fs = image_store_open_layer(&j->store, chain, &j->image.locks[i]);
        if (fs < 0)
            return error_sys(err, -fs, "opening layer %.12s", chain);
    }
    return 0;
}

static int open_work(struct job *j, struct cay_error *err) {
    char path[64];
    const char *name = j->request->string[WIRE_TAG_TARGET];
    if (name == NULL || strchr(name, '/') != NULL || name[0] == '.' ||
        str_format(path, sizeof path, "work/%s", name) < 0)
        return malformed(err, "work folder");
    j->disk = path_open_no_symlinks(j->store.dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    return j->disk < 0 ? error_sys(err, -j->disk, "opening the layer in the making") : 0;
}

static int make_spec(struct job *j, enum tier tier, struct cay_error *err) {
    const struct wire_message *m = j->request;
    struct spec_host host = {0};
    int r = spec_look_up_host(&host, err);
    if (r == 0)
        r = id_new(j->spec.id, err);
    if (r < 0)
        return r;
    if (!str_equal(m->string[WIRE_TAG_TEXT], "none")) {
        error_set(err, CAY_UNSUPPORTED, "network '%.40s' for a build: only 'none' is available",
                  m->string[WIRE_TAG_TEXT] != NULL ? m->string[WIRE_TAG_TEXT] : "");
        return error_remedy(err, "leave --network away, and COPY in what the build needs");
    }
    uint64_t memory = m->number[WIRE_TAG_SIZE], cpus = m->number[WIRE_TAG_COUNT];
    (void)snprintf(j->spec.hostname, sizeof j->spec.hostname, "build");
    j->spec.memory_bytes = memory != 0 ? memory : MIN(default_memory, host.memory_bytes / 2);
    j->spec.cpu_quota_us =
        cpus != 0 ? (uint32_t)MIN(cpus * (CPU_PERIOD_US / RUNNER_CPU_SCALE), (uint64_t)UINT32_MAX)
                  : host.cpus * CPU_PERIOD_US;
    j->spec.pids = MIN(BUILD_PIDS, host.pids / 2);
    j->spec.profile = PROFILE_BUILD;
    j->spec.tier = tier;
    return spec_finish(&j->spec, &host, err);
}

static int take_words(struct job *j, struct cay_error *err) {
    j->argv = wire_string_array(j->request, WIRE_TAG_ARG);
    j->env = wire_string_array(j->request, WIRE_TAG_ENV);
    const char *cwd = j->request->string[WIRE_TAG_CWD];
    if (j->argv == NULL || j->env == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    if (j->argv[0] == NULL || cwd == NULL || cwd[0] != '/' || j->output < 0)
        return malformed(err, "command");
    return 0;
}

/* ---- the disk ---- */

static uint64_t free_bytes(int dir) {
    struct statvfs st;
    return fstatvfs(dir, &st) < 0 ? 0 : (uint64_t)st.f_bavail * st.f_frsize;
}

/* A layer lies on the host's disk, where no quota may be: a process of its own looks how much is
 * left, and ends the sandbox when it has taken too much or little is left for the host. */
static _noreturn_ void watch(int disk, int pidfd, uint64_t limit) {
    uint64_t begin = free_bytes(disk), reserve = begin / 20;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    for (;;) {
        (void)usleep(WATCH_PAUSE_US);
        uint64_t now = free_bytes(disk);
        if (now >= reserve && begin - MIN(now, begin) <= limit)
            continue;
        (void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
        _exit(WATCH_STRUCK);
    }
}

static int start_watching(struct job *j, struct cay_error *err) {
    uint64_t limit = j->request->number[WIRE_TAG_LIMIT];
    j->watcher = fork();
    if (j->watcher == 0)
        watch(j->disk, native_box_pidfd(j->box), limit != 0 ? limit : default_disk);
    return j->watcher < 0 ? error_errno(err, "starting to watch the disk") : 0;
}

/* True if it had to end the sandbox. */
static bool stop_watching(struct job *j) {
    int status = 0;
    if (j->watcher <= 0)
        return false;
    (void)kill(j->watcher, SIGKILL); /* without effect on one that has exited */
    while (waitpid(j->watcher, &status, 0) < 0 && errno == EINTR)
        ;
    j->watcher = 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == WATCH_STRUCK;
}

/* ---- running ---- */

static int execute(struct job *j, int *exit_code, struct cay_error *err) {
    const struct wire_message *m = j->request;
    const char *user = m->string[WIRE_TAG_USER];
    struct exec_request req = {
        .argv = j->argv,
        .env = j->env,
        .cwd = m->string[WIRE_TAG_CWD],
        .user = user != NULL && user[0] != '\0' ? user : NULL,
        .timeout_ms = (int64_t)m->number[WIRE_TAG_TIMEOUT_MS],
    };
    _cleanup_(closep) int connection = native_box_take_connection(j->box);
    int r = exec_send(connection, &req, err);
    if (r < 0)
        return r;
    struct exec_streams s = {.in = -1, .out = {j->output, j->output}, .signals = -1};
    struct exec_outcome outcome = {0};
    r = exec_carry(connection, &s, 0, &outcome, err);
    bool struck = stop_watching(j);
    bool oom = native_box_oom_killed(j->box);
    if (struck) {
        error_set(err, CAY_RESOURCE_EXHAUSTED, "the command filled the disk");
        return error_remedy(err, "free space in the state folder, or write less");
    }
    if (r == 0 && outcome.exit_code != 0 && oom) {
        error_set(err, CAY_RESOURCE_EXHAUSTED, "the command needed more memory than it may have");
        return error_remedy(err, "give it more with --memory");
    }
    if (r < 0 && outcome.exit_code != 126 && outcome.exit_code != 127)
        return r;
    *exit_code = outcome.exit_code;
    return 0;
}

static int run_job(struct runner_server *s, struct job *j, int *exit_code, struct cay_error *err) {
    /* Before opening, which makes root of an ordinary user. */
    enum tier tier = engine_is_privileged() ? TIER_FULL : TIER_ROOTLESS;
    int r = s->native == NULL ? native_open(s->state_dir, false, &s->native, err) : 0;
    if (r == 0)
        r = image_store_open(s->state_dir, false, 0, &j->store, err);
    if (r == 0)
        r = take_words(j, err);
    if (r == 0)
        r = hold_layers(j, err);
    if (r == 0)
        r = open_work(j, err);
    if (r == 0)
        r = make_spec(j, tier, err);
    if (r < 0)
        return r;
    struct native_root root = {.image = &j->image, .disk = j->disk};
    r = native_start(s->native, &j->spec, &root, &j->box, err);
    if (r == 0)
        r = start_watching(j, err);
    return r < 0 ? r : execute(j, exit_code, err);
}

static int run(struct runner_server *s, const struct wire_message *m, int output, int *exit_code,
               struct cay_error *err) {
    struct job j = {
        .request = m,
        .output = output,
        .store = IMAGE_STORE_NONE,
        .image = IMAGE_NONE,
        .disk = -1,
    };
    int r = run_job(s, &j, exit_code, err);
    (void)stop_watching(&j);
    (void)native_box_destroy(j.box);
    fd_close(&j.disk);
    image_close(&j.image);
    image_store_close(&j.store);
    free(j.argv);
    free(j.env);
    return r;
}

/* ---- answering ---- */

static int answer_run(struct runner_server *s, int sock, const struct wire_message *m, int output) {
    struct cay_error err;
    int exit_code = 0;
    if (run(s, m, output, &exit_code, &err) < 0)
        return wire_send_error(sock, &err);
    _cleanup_(buf_free) struct buf b = BUF_INIT(64);
    wire_put_number(&b, WIRE_TAG_EXIT, (uint64_t)exit_code);
    return wire_send(sock, WIRE_DONE, &b);
}

static void put_if(struct buf *b, enum wire_tag tag, const char *text) {
    if (text != NULL)
        wire_put_string(b, tag, text);
}

static int answer_credential(int sock, const struct wire_message *m) {
    struct cay_error err;
    struct credential c = CREDENTIAL_NONE;
    const char *registry = m->string[WIRE_TAG_TEXT];
    if (registry == NULL)
        return -EPROTO;
    if (credential_find(registry, &c, &err) < 0)
        return wire_send_error(sock, &err);
    struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    put_if(&b, WIRE_TAG_USER, c.user);
    put_if(&b, WIRE_TAG_TEXT, c.secret);
    put_if(&b, WIRE_TAG_TARGET, c.identity_token);
    int r = wire_send(sock, WIRE_DONE, &b);
    if (b.data != NULL)
        explicit_bzero(b.data, b.cap);
    buf_free(&b);
    credential_clear(&c);
    return r;
}

static int answer(struct runner_server *s, int sock, const struct wire_frame *f, int fd) {
    struct wire_message m;
    if (f->type != WIRE_REQUEST || wire_parse(f->data, f->len, &m) < 0)
        return -EPROTO;
    switch (m.number[WIRE_TAG_OP]) {
    case RUNNER_RUN:
        return answer_run(s, sock, &m, fd);
    case RUNNER_CREDENTIAL:
        return answer_credential(sock, &m);
    default:
        return -EPROTO;
    }
}

void runner_serve(struct runner_server *s, int sock) {
    for (int r = 0; r == 0;) {
        _cleanup_(wire_reader_free) struct wire_reader in = WIRE_READER_INIT;
        _cleanup_(closep) int fd = -1;
        struct wire_frame f;
        char mark;
        size_t count = 0;
        if (fd_receive(sock, &mark, 1, &fd, 1, &count) != 1 || mark != RUNNER_MARK ||
            wire_receive(&in, sock, &f) <= 0)
            return;
        r = answer(s, sock, &f, fd);
    }
}
