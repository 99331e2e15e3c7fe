/* Drives sandboxes that stay, over the native engine, for tests:
 *
 *     keep LAUNCHER STATE FOLDER
 *
 * Reads a request per line, and does each in a thread of its own:
 *
 *     NUMBER start|stop|pause|resume|remove|resize|stats|list [ID] [KEY=VALUE …]
 *     NUMBER restart                      a new launcher in place of the one that was killed
 *
 * with the keys image, memory, disk, cpus, pids, volume and tier. A sandbox listens at
 * FOLDER/ID.sock. Prints a JSON object per line: {number, ok, …} for each request, {ended, …} for
 * each end, and {launcher} with the pid of each launcher. The end of the input hangs up; sandboxes
 * live on. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json/jsonw.h"
#include "base/str.h"
#include "engine/link/client.h"
#include "engine/link/program.h"

enum { LINE_SIZE = 4096, WORDS_MAX = 16, PRINTED_MAX = 1024 * 1024 };

static struct {
    const char *launcher, *state, *folder;
    struct launcher_client client;
    struct engine *engine;
    enum tier tier;
} drive;

static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;

struct request {
    char line[LINE_SIZE];
    char *words[WORDS_MAX];
    size_t count;
};

/* ---- printing ---- */

static void print(struct jsonw *w) {
    jsonw_end_object(w);
    (void)buf_putc(w->out, '\n');
    (void)pthread_mutex_lock(&printing);
    (void)fd_write_all(STDOUT_FILENO, buf_text(w->out), w->out->len); /* the test reads it or not */
    (void)pthread_mutex_unlock(&printing);
    buf_free(w->out);
}

static void print_ended(void *user, const struct engine_end *end) {
    (void)user;
    struct buf b = BUF_INIT(PRINTED_MAX);
    struct jsonw w = JSONW_INIT(&b);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "ended", end->id);
    jsonw_put_integer(&w, "status", end->status);
    jsonw_put_bool(&w, "oom_killed", end->oom_killed);
    print(&w);
}

static void print_launcher(void) {
    struct buf b = BUF_INIT(PRINTED_MAX);
    struct jsonw w = JSONW_INIT(&b);
    jsonw_begin_object(&w);
    jsonw_put_integer(&w, "launcher", drive.client.pid);
    print(&w);
}

/* ---- requests ---- */

static int set_field(struct sandbox_spec *spec, const char **image, const char *key,
                     const char *value, struct cay_error *err) {
    uint64_t number = 0;
    if (str_equal(key, "image"))
        *image = value;
    else if (str_equal(key, "tier"))
        spec->tier = tier_from_name(value);
    else if (str_equal(key, "disk"))
        return str_to_size("disk", value, &spec->disk_bytes, err);
    else if (str_equal(key, "memory"))
        return str_to_size("memory", value, &spec->memory_bytes, err);
    else if (str_equal(key, "volume"))
        return spec_add_mount(spec, value, err);
    else if (str_to_u64(value, UINT32_MAX, &number) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "%s is not a number", key);
    else if (str_equal(key, "cpu"))
        spec->cpu_quota_us = (uint32_t)number;
    else
        spec->pids = (uint32_t)number;
    return 0;
}

static int read_fields(const struct request *r, struct sandbox_spec *spec, const char **image,
                       struct cay_error *err) {
    int code = r->count < 3 ? error_set(err, CAY_INVALID_ARGUMENT, "no id") : 0;
    if (code == 0 && str_copy(spec->id, sizeof spec->id, r->words[2]) < 0)
        code = error_set(err, CAY_INVALID_ARGUMENT, "the id is too long");
    for (size_t i = 3; code == 0 && i < r->count; i++) {
        char *value = strchr(r->words[i], '=');
        if (value == NULL)
            return error_set(err, CAY_INVALID_ARGUMENT, "'%s' is not KEY=VALUE", r->words[i]);
        *value++ = '\0';
        code = set_field(spec, image, r->words[i], value, err);
    }
    return code;
}

/* Under another name until it is a sandbox's: one that runs already must not lose its own. */
static int make_listener(struct sockaddr_un *address, const char *id, struct cay_error *err) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (str_format(address->sun_path, sizeof address->sun_path, "%s/%s.new", drive.folder, id) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the path is too long");
    (void)unlink(address->sun_path);
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)address, sizeof *address) < 0 || listen(fd, 64) < 0)
        return error_errno(err, "listening at '%s'", address->sun_path);
    return TAKE_FD(fd);
}

static bool is_served(const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && str_copy(address.sun_path, sizeof address.sun_path, name) == 0 &&
           connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
}

/* A launcher that died may have started it all the same, unless it ran before. */
static void name_listener(const struct sockaddr_un *address, const char *id, int code) {
    char name[sizeof address->sun_path];
    if (str_format(name, sizeof name, "%s/%s.sock", drive.folder, id) < 0)
        return;
    if (code == 0 || (code == -CAY_UNAVAILABLE && !is_served(name)))
        (void)rename(address->sun_path, name);
    else
        (void)unlink(address->sun_path);
}

static int do_start(const struct request *r, struct cay_error *err) {
    struct sandbox_spec spec = {.memory_bytes = UINT64_C(256) << 20,
                                .cpu_quota_us = 100000,
                                .pids = 64,
                                .tier = drive.tier};
    const char *image = "";
    int code = read_fields(r, &spec, &image, err);
    struct sockaddr_un address;
    _cleanup_(closep) int listener = code < 0 ? -1 : make_listener(&address, spec.id, err);
    if (code == 0)
        code = MIN(listener, 0);
    if (code == 0) {
        code = drive.engine->ops->start(drive.engine, &spec, image, listener, err);
        name_listener(&address, spec.id, code);
    }
    spec_free_mounts(&spec);
    return code;
}

static int do_resize(const struct request *r, struct cay_error *err) {
    struct sandbox_spec spec = {0};
    const char *image = "";
    int code = read_fields(r, &spec, &image, err);
    return code < 0 ? code : drive.engine->ops->resize(drive.engine, &spec, err);
}

static int do_list(struct jsonw *w, struct cay_error *err) {
    static const char *const states[] = {"stopped", "running", "paused"};
    _cleanup_(freep) struct engine_sandbox *all = NULL;
    size_t count = 0;
    int code = drive.engine->ops->list(drive.engine, &all, &count, err);
    if (code < 0)
        return code;
    jsonw_key(w, "list");
    jsonw_begin_object(w);
    for (size_t i = 0; i < count; i++)
        jsonw_put_string(w, all[i].id, states[all[i].state]);
    jsonw_end_object(w);
    return 0;
}

static int do_stats(const char *id, struct jsonw *w, struct cay_error *err) {
    struct engine_stats s;
    int code = drive.engine->ops->stats(drive.engine, id, &s, err);
    if (code < 0)
        return code;
    jsonw_put_unsigned(w, "memory", s.memory_bytes);
    jsonw_put_unsigned(w, "limit", s.memory_limit);
    jsonw_put_unsigned(w, "peak", s.memory_peak);
    jsonw_put_unsigned(w, "cpu_us", s.cpu_us);
    jsonw_put_unsigned(w, "pids", s.pids);
    jsonw_put_unsigned(w, "oom_kills", s.oom_kills);
    jsonw_put_unsigned(w, "disk", s.disk_bytes);
    jsonw_put_unsigned(w, "disk_limit", s.disk_limit);
    return 0;
}

/* Of the host, below which volumes may lie. */
static const char *const shown[] = {"/tmp", "root:/tmp", NULL};

static int start_launcher(struct launcher_client *ret, struct cay_error *err) {
    return launcher_client_start(drive.launcher, drive.state, 0, shown, ret, err);
}

/* The old one is gone, or has ended with its socket. */
static int do_restart(struct cay_error *err) {
    pid_t old = drive.client.pid;
    int code = start_launcher(&drive.client, err);
    if (code < 0)
        return code;
    code = link_reconnect(drive.engine, drive.client.sock, err);
    while (waitpid(old, NULL, 0) < 0 && errno == EINTR)
        ;
    print_launcher();
    return code;
}

static int do_one(const struct request *r, struct jsonw *w, struct cay_error *err) {
    const struct engine_ops *ops = drive.engine->ops;
    const struct {
        const char *name;
        int (*run)(struct engine *e, const char *id, struct cay_error *err);
    } simple[] = {{"stop", ops->stop},
                  {"pause", ops->pause},
                  {"resume", ops->resume},
                  {"remove", ops->remove}};
    const char *op = r->words[1], *id = r->count > 2 ? r->words[2] : "";
    for (size_t i = 0; i < ARRAY_LEN(simple); i++)
        if (str_equal(simple[i].name, op))
            return simple[i].run(drive.engine, id, err);
    if (str_equal(op, "start"))
        return do_start(r, err);
    if (str_equal(op, "resize"))
        return do_resize(r, err);
    if (str_equal(op, "stats"))
        return do_stats(id, w, err);
    if (str_equal(op, "list"))
        return do_list(w, err);
    return str_equal(op, "restart") ? do_restart(err)
                                    : error_set(err, CAY_INVALID_ARGUMENT, "unknown request");
}

static void *serve(void *arg) {
    struct request *r = arg;
    struct cay_error err = {0};
    struct buf b = BUF_INIT(PRINTED_MAX);
    struct jsonw w = JSONW_INIT(&b);
    uint64_t number = 0;
    (void)str_to_u64(r->words[0], UINT32_MAX, &number); /* 0 is nobody's */
    jsonw_begin_object(&w);
    jsonw_put_unsigned(&w, "number", number);
    int code = do_one(r, &w, &err);
    jsonw_put_bool(&w, "ok", code >= 0);
    if (code < 0) {
        jsonw_put_string(&w, "code", cay_code_name(err.code));
        jsonw_put_string(&w, "message", err.message);
        jsonw_put_string(&w, "remedy", err.remedy);
    }
    print(&w);
    free(r);
    return NULL;
}

/* False at the end of the input. */
static bool take_line(void) {
    struct request *r = calloc(1, sizeof *r);
    if (r == NULL || fgets(r->line, sizeof r->line, stdin) == NULL) {
        free(r);
        return false;
    }
    char *rest = r->line + strcspn(r->line, "\n");
    *rest = '\0';
    rest = r->line;
    for (char *word; r->count < WORDS_MAX && (word = strsep(&rest, " ")) != NULL;)
        r->words[r->count++] = word;
    pthread_t thread;
    if (r->count < 2 || pthread_create(&thread, NULL, serve, r) != 0)
        free(r);
    else
        (void)pthread_detach(thread);
    return true;
}

int main(int argc, char **argv) {
    struct cay_error err = {0};
    if (argc != 4) {
        (void)fprintf(stderr, "usage: keep LAUNCHER STATE FOLDER\n");
        return 2;
    }
    drive.launcher = argv[1];
    drive.state = argv[2];
    drive.folder = argv[3];
    drive.tier = geteuid() == 0 ? TIER_FULL : TIER_BASIC;
    int r = start_launcher(&drive.client, &err);
    if (r == 0)
        r = link_open(drive.client.sock, print_ended, NULL, &drive.engine, &err);
    if (r < 0) {
        (void)fprintf(stderr, "keep: %s\n", err.message);
        return 1;
    }
    print_launcher();
    while (take_line())
        ;
    drive.engine->ops->close(drive.engine);
    while (waitpid(drive.client.pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return 0;
}
