/* Drives a launcher for tests:
 *
 *     launch [OPTION…] -- PROGRAM [ARG…]    runs it in fresh sandboxes
 *     launch [OPTION…] --listen PATH        starts sandboxes that listen at PATH-0, PATH-1, …
 *
 *     --launcher FILE   --state DIR   --ready N   -n COUNT   -j AT-ONCE   --read-only
 *     --memory SIZE[,SIZE…]    in turn    --volume HOST:BOX[:ro]    --pids N
 *
 * Each run finds its number in $RUN. Prints a JSON object per line: {run, exit, stdout, stderr} or
 * {run, broken} when a command has ended, {run, event, …} for each answer of the launcher. Lines on
 * standard input: "end N" kills a sandbox; its end hangs up (with --listen), as does SIGKILL. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json/jsonw.h"
#include "base/str.h"
#include "engine/link/program.h"
#include "wire/client_exec.h"

enum { SIZES_MAX = 8, COUNT_MAX = 2000, CAPTURED = 1024 * 1024 };

struct run {
    unsigned number;
    int fd;
    pthread_t thread;
    bool has_thread;
};

struct launch {
    const char *launcher, *state, *listen;
    const char *const *argv;
    uint64_t ready, count, parallel;
    struct sandbox_spec spec;
    uint64_t sizes[SIZES_MAX];
    size_t size_count;
    struct launcher_client client;
    struct run *runs;
    uint64_t begun, open;
};

static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;

/* ---- printing ---- */

static void print(struct jsonw *w) {
    jsonw_end_object(w);
    (void)buf_putc(w->out, '\n');
    (void)pthread_mutex_lock(&printing);
    (void)fd_write_all(STDOUT_FILENO, buf_text(w->out), w->out->len); /* the test reads it or not */
    (void)pthread_mutex_unlock(&printing);
    buf_free(w->out);
}

static void begin(struct jsonw *w, uint64_t run) {
    jsonw_begin_object(w);
    jsonw_put_unsigned(w, "run", run);
}

static void print_answer(const struct launcher_answer *a) {
    static const char *const events[] = {"?", "started", "failed", "ended"};
    struct buf b = BUF_INIT(65536);
    struct jsonw w = JSONW_INIT(&b);
    begin(&w, a->tag);
    jsonw_put_string(&w, "event", events[a->event < ARRAY_LEN(events) ? a->event : 0]);
    jsonw_put_string(&w, "id", a->id);
    if (a->event == LAUNCHER_STARTED)
        jsonw_put_integer(&w, "pid", a->pid);
    if (a->event == LAUNCHER_ENDED) {
        jsonw_put_integer(&w, "status", a->status);
        jsonw_put_bool(&w, "oom_killed", a->oom_killed != 0);
    }
    if (a->event == LAUNCHER_FAILED) {
        jsonw_put_string(&w, "message", a->err.message);
        jsonw_put_string(&w, "code", cay_code_name(a->err.code));
    }
    print(&w);
}

/* ---- a command ---- */

static void *carry(void *arg) {
    struct run *run = arg;
    struct exec_streams s = {
        .in = -1,
        .out = {-1, -1},
        .captured = {BUF_INIT(CAPTURED), BUF_INIT(CAPTURED)},
        .signals = -1,
    };
    struct exec_outcome outcome;
    struct cay_error err;
    struct buf b = BUF_INIT(8 * CAPTURED);
    struct jsonw w = JSONW_INIT(&b);
    begin(&w, run->number);
    if (exec_carry(run->fd, &s, 0, &outcome, &err) < 0)
        jsonw_put_string(&w, "broken", err.message);
    else
        jsonw_put_integer(&w, "exit", outcome.exit_code);
    jsonw_key(&w, "stdout");
    jsonw_bytes(&w, buf_text(&s.captured[0]), s.captured[0].len);
    jsonw_key(&w, "stderr");
    jsonw_bytes(&w, buf_text(&s.captured[1]), s.captured[1].len);
    print(&w);
    buf_free(&s.captured[0]);
    buf_free(&s.captured[1]);
    fd_close(&run->fd);
    return NULL;
}

static int start_command(struct launch *l, struct run *run, struct cay_error *err) {
    char number[32];
    (void)snprintf(number, sizeof number, "RUN=%u", run->number);
    const char *env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", number, NULL};
    struct exec_request request = {.argv = l->argv, .env = env, .cwd = "/workspace"};
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making a connection");
    run->fd = pair[0];
    int r = exec_send(run->fd, &request, err);
    if (r == 0)
        r = launcher_client_send(&l->client, run->number, &l->spec, pair[1], -1, err);
    (void)close(pair[1]);
    if (r < 0)
        return r;
    run->has_thread = pthread_create(&run->thread, NULL, carry, run) == 0;
    return run->has_thread ? 0 : error_set(err, CAY_RESOURCE_EXHAUSTED, "no thread");
}

static int start_listening(struct launch *l, const struct run *run, struct cay_error *err) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (str_format(address.sun_path, sizeof address.sun_path, "%s-%u", l->listen, run->number) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the path is too long");
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 64) < 0)
        return error_errno(err, "listening at '%s'", address.sun_path);
    return launcher_client_send(&l->client, run->number, &l->spec, -1, fd, err);
}

static int start_next(struct launch *l, struct cay_error *err) {
    struct run *run = &l->runs[l->begun];
    run->number = (unsigned)l->begun;
    if (l->size_count > 0)
        l->spec.memory_bytes = l->sizes[l->begun % l->size_count];
    l->begun++;
    l->open++;
    return l->listen != NULL ? start_listening(l, run, err) : start_command(l, run, err);
}

/* ---- the loop ---- */

static int take_answer(struct launch *l, struct cay_error *err) {
    struct launcher_answer a;
    int r = launcher_client_next(&l->client, &a, err);
    if (r < 0)
        return r;
    print_answer(&a);
    l->open -= a.event == LAUNCHER_ENDED || a.event == LAUNCHER_FAILED;
    return 0;
}

/* False when standard input has ended. */
static bool take_line(struct launch *l) {
    char line[64];
    struct cay_error err;
    uint64_t number;
    if (fgets(line, sizeof line, stdin) == NULL)
        return false;
    line[strcspn(line, "\n")] = '\0';
    if (str_starts(line, "end ") && str_to_u64(line + 4, COUNT_MAX, &number) == 0)
        (void)launcher_client_end(&l->client, number, &err); /* its answer tells */
    return true;
}

static int drive(struct launch *l, struct cay_error *err) {
    bool input = true;
    while (l->begun < l->count || l->open > 0) {
        if (l->begun < l->count && l->open < l->parallel) {
            int r = start_next(l, err);
            if (r < 0)
                return r;
            continue;
        }
        struct pollfd fds[] = {{.fd = l->client.sock, .events = POLLIN},
                               {.fd = input ? STDIN_FILENO : -1, .events = POLLIN}};
        if (poll(fds, ARRAY_LEN(fds), -1) < 0)
            return error_errno(err, "waiting");
        int r = fds[0].revents != 0 ? take_answer(l, err) : 0;
        if (r < 0)
            return r;
        if (fds[1].revents != 0)
            input = take_line(l);
        if (!input && l->listen != NULL)
            return 0;
    }
    return 0;
}

/* ---- options ---- */

static int parse_sizes(struct launch *l, char *text, struct cay_error *err) {
    for (char *size; (size = strsep(&text, ",")) != NULL;) {
        if (l->size_count == SIZES_MAX)
            return error_set(err, CAY_INVALID_ARGUMENT, "too many sizes");
        int r = str_to_size("--memory", size, &l->sizes[l->size_count++], err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int parse_option(struct launch *l, int letter, struct cay_error *err) {
    uint64_t number = 0;
    switch (letter) {
    case 'l':
        l->launcher = optarg;
        return 0;
    case 's':
        l->state = optarg;
        return 0;
    case 'L':
        l->listen = optarg;
        return 0;
    case 'R':
        l->spec.read_only = true;
        return 0;
    case 'm':
        return parse_sizes(l, optarg, err);
    case 'v':
        return spec_add_mount(&l->spec, optarg, err);
    default:
        break;
    }
    if (letter == '?' || str_to_u64(optarg, COUNT_MAX, &number) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "usage: see the head of launch.c");
    if (letter == 'p')
        l->spec.pids = (uint32_t)number;
    else
        *(letter == 'n' ? &l->count : letter == 'j' ? &l->parallel : &l->ready) = number;
    return 0;
}

static int parse(struct launch *l, int argc, char **argv, struct cay_error *err) {
    static const struct option options[] = {
        {"launcher", required_argument, NULL, 'l'},
        {"state", required_argument, NULL, 's'},
        {"ready", required_argument, NULL, 'r'},
        {"listen", required_argument, NULL, 'L'},
        {"memory", required_argument, NULL, 'm'},
        {"volume", required_argument, NULL, 'v'},
        {"read-only", no_argument, NULL, 'R'},
        {"pids", required_argument, NULL, 'p'},
        {0},
    };
    int letter, r = 0;
    while (r == 0 && (letter = getopt_long(argc, argv, "+n:j:", options, NULL)) != -1)
        r = parse_option(l, letter, err);
    l->argv = (const char *const *)(uintptr_t)(argv + optind);
    if (r == 0 && (l->launcher == NULL || (l->listen == NULL) == (optind == argc)))
        r = error_set(err, CAY_INVALID_ARGUMENT, "usage: see the head of launch.c");
    return r;
}

/* Of the host, below which volumes may lie. */
static const char *const shown[] = {"/tmp", "root:/tmp", NULL};

int main(int argc, char **argv) {
    struct launch l = {
        .state = "/var/lib/cay",
        .ready = 2,
        .count = 1,
        .parallel = 1,
        .spec = {.memory_bytes = UINT64_C(256) << 20,
                 .cpu_quota_us = 100000,
                 .pids = 64,
                 .tier = TIER_FULL},
        .client = LAUNCHER_CLIENT_NONE,
    };
    struct cay_error err = {0};
    (void)setvbuf(stdin, NULL, _IONBF, 0); /* poll(2) must see what was not read */
    int r = parse(&l, argc, argv, &err);
    l.runs = calloc(l.count + 1, sizeof *l.runs);
    if (r == 0 && l.runs == NULL)
        r = error_set(&err, CAY_RESOURCE_EXHAUSTED, "no memory");
    if (r == 0)
        r = launcher_client_start(l.launcher, l.state, (unsigned)l.ready, shown, &l.client, &err);
    if (r == 0)
        r = drive(&l, &err);
    launcher_client_stop(&l.client);
    for (uint64_t i = 0; i < l.begun; i++)
        if (l.runs[i].has_thread)
            (void)pthread_join(l.runs[i].thread, NULL);
    free(l.runs);
    spec_free_mounts(&l.spec);
    if (r < 0)
        (void)fprintf(stderr, "launch: %s\n", err.message);
    return r < 0;
}
