/* cay-load: keep-alive clients that create a sandbox, run a command in it and delete it, again and
 * again, through the daemon's unix socket. Prints one line of name=value pairs. It shares the
 * processors with the daemon, so it does as little as possible itself. */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS_MAX = 1000, KEYS_MAX = 16, ANSWER_MAX = 64 * 1024, STATUS_MAX = 600, ID_LEN = 16 };
enum step { CREATE, EXEC, DELETE, CYCLE, STEPS };

static const char *const step_names[STEPS] = {"create", "exec", "delete", "cycle"};

static struct {
    const char *socket, *body, *command;
    const char *keys[KEYS_MAX];
    size_t key_count;
    unsigned clients, seconds, alive;
} options = {.body = "{\"memory\":\"64m\",\"disk\":\"32m\"}",
             .command = "true",
             .clients = 1,
             .seconds = 10};

struct samples {
    uint32_t *us;
    size_t count, room;
};

struct client {
    pthread_t thread;
    const char *key;
    int sock;
    struct samples samples[STEPS];
    unsigned failures[STATUS_MAX]; /* by status; 0: the connection broke */
    char answer[ANSWER_MAX + 1];
};

/* The first failure with each status, as it was told. */
static char first[STATUS_MAX][200];
static pthread_mutex_t first_lock = PTHREAD_MUTEX_INITIALIZER;

static atomic_bool stop;
static atomic_uint left_alive; /* still to be created and kept */

static int64_t now_us(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void note(struct client *c, enum step step, int64_t began) {
    struct samples *s = &c->samples[step];
    if (s->count == s->room) {
        s->room = s->room == 0 ? 1024 : s->room * 2;
        s->us = realloc(s->us, s->room * sizeof *s->us);
        if (s->us == NULL)
            abort();
    }
    s->us[s->count++] = (uint32_t)(now_us() - began);
}

/* ---- HTTP ---- */

static bool connect_client(struct client *c) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(options.socket) >= sizeof address.sun_path)
        return false;
    memcpy(address.sun_path, options.socket, strlen(options.socket) + 1);
    c->sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return c->sock >= 0 && connect(c->sock, (struct sockaddr *)&address, sizeof address) == 0;
}

static void hang_up(struct client *c) {
    if (c->sock >= 0)
        (void)close(c->sock);
    c->sock = -1;
}

/* The end of the head, or NULL as long as it is not there. */
static const char *head_end(const char *text) {
    const char *end = strstr(text, "\r\n\r\n");
    return end == NULL ? NULL : end + 4;
}

/* Reads one answer; its status, or 0 if the connection broke. */
static unsigned read_answer(struct client *c) {
    size_t got = 0, whole = 0;
    c->answer[0] = '\0';
    while (whole == 0 || got < whole) {
        ssize_t n = got < ANSWER_MAX ? read(c->sock, c->answer + got, ANSWER_MAX - got) : 0;
        if (n <= 0)
            return 0;
        got += (size_t)n;
        c->answer[got] = '\0';
        const char *body = whole == 0 ? head_end(c->answer) : NULL;
        if (body == NULL)
            continue;
        const char *length = strcasestr(c->answer, "\r\nContent-Length:");
        size_t more = length != NULL && length < body ? strtoul(length + 17, NULL, 10) : 0;
        whole = (size_t)(body - c->answer) + more;
    }
    unsigned status = (unsigned)strtoul(c->answer + sizeof "HTTP/1.1", NULL, 10);
    if (strcasestr(c->answer, "\r\nConnection: close") != NULL)
        hang_up(c);
    return status < STATUS_MAX ? status : 0;
}

static unsigned ask(struct client *c, const char *method, const char *path, const char *body) {
    char request[2048];
    int n =
        snprintf(request, sizeof request,
                 "%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s%sContent-Length: %zu\r\n\r\n%s", method,
                 path, c->key != NULL ? "Authorization: Bearer " : "", c->key != NULL ? c->key : "",
                 c->key != NULL ? "\r\n" : "", strlen(body), body);
    if ((c->sock < 0 && !connect_client(c)) || n < 0 || (size_t)n >= sizeof request ||
        send(c->sock, request, (size_t)n, MSG_NOSIGNAL) != n) {
        hang_up(c);
        return 0;
    }
    unsigned status = read_answer(c);
    if (status == 0)
        hang_up(c);
    return status;
}

static void note_failure(const struct client *c, enum step which, unsigned status) {
    const char *text = status == 0 ? "the connection broke" : head_end(c->answer);
    (void)pthread_mutex_lock(&first_lock);
    if (first[status][0] == '\0')
        (void)snprintf(first[status], sizeof first[status], "%s: %u %s", step_names[which], status,
                       text != NULL ? text : "");
    (void)pthread_mutex_unlock(&first_lock);
}

/* Asks, and waits as long as a 429 or 503 says. */
static bool step(struct client *c, enum step which, const char *method, const char *path,
                 const char *body) {
    int64_t began = now_us();
    unsigned status = ask(c, method, path, body);
    if (status >= 200 && status < 300) {
        note(c, which, began);
        return true;
    }
    if (c->failures[status]++ == 0)
        note_failure(c, which, status);
    const char *after =
        status == 429 || status == 503 ? strcasestr(c->answer, "\r\nRetry-After:") : NULL;
    if (after != NULL) {
        unsigned long s = strtoul(after + 14, NULL, 10);
        (void)nanosleep(&(struct timespec){.tv_sec = (time_t)(s > 5 ? 5 : s), .tv_nsec = 1000000},
                        NULL);
    }
    return false;
}

/* ---- clients ---- */

static bool create(struct client *c, char id[static ID_LEN + 1]) {
    if (!step(c, CREATE, "POST", "/api/cay/sandbox", options.body))
        return false;
    const char *found = strstr(c->answer, "\"id\":");
    found = found == NULL ? NULL : strchr(found + 5, '"');
    if (found == NULL)
        return false;
    memcpy(id, found + 1, ID_LEN);
    id[ID_LEN] = '\0';
    return true;
}

static void cycle(struct client *c) {
    char id[ID_LEN + 1], path[128], body[256];
    int64_t began = now_us();
    if (!create(c, id))
        return;
    (void)snprintf(path, sizeof path, "/toolbox/%s/process/execute", id);
    (void)snprintf(body, sizeof body, "{\"command\":\"%s\"}", options.command);
    bool ran = step(c, EXEC, "POST", path, body);
    (void)snprintf(path, sizeof path, "/api/cay/sandbox/%s?force=true", id);
    while (!step(c, DELETE, "DELETE", path, ""))
        if (atomic_load(&stop))
            return;
    if (ran)
        note(c, CYCLE, began);
}

static void *run_client(void *arg) {
    struct client *c = arg;
    char id[ID_LEN + 1];
    unsigned left;
    while ((left = atomic_load(&left_alive)) > 0 && !atomic_load(&stop))
        if (atomic_compare_exchange_weak(&left_alive, &left, left - 1) && !create(c, id))
            (void)atomic_fetch_add(&left_alive, 1);
    while (options.seconds > 0 && !atomic_load(&stop))
        cycle(c);
    hang_up(c);
    return NULL;
}

/* ---- the report ---- */

static int compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void report_step(struct client *all, enum step step) {
    size_t count = 0;
    for (unsigned i = 0; i < options.clients; i++)
        count += all[i].samples[step].count;
    uint32_t *us = calloc(count + 1, sizeof *us);
    if (us == NULL)
        abort();
    size_t at = 0;
    for (unsigned i = 0; i < options.clients; i++) {
        const struct samples *s = &all[i].samples[step];
        if (s->count > 0)
            memcpy(us + at, s->us, s->count * sizeof *us);
        at += s->count;
    }
    qsort(us, count, sizeof *us, compare);
    printf(" %s_p50_ms=%.1f %s_p99_ms=%.1f", step_names[step], us[count / 2] / 1e3,
           step_names[step], us[count > 0 ? (count * 99) / 100 : 0] / 1e3);
    free(us);
}

/* Jain's index of what each key got done: 1 if all got the same. */
static double fairness(const struct client *all) {
    double sum = 0, squares = 0;
    for (size_t k = 0; k < options.key_count; k++) {
        double own = 0;
        for (unsigned i = 0; i < options.clients; i++)
            if (all[i].key == options.keys[k])
                own += (double)all[i].samples[CYCLE].count;
        sum += own;
        squares += own * own;
    }
    return squares > 0 ? sum * sum / ((double)options.key_count * squares) : 0;
}

static void report(struct client *all, double seconds) {
    size_t cycles = 0, starving = 0;
    for (unsigned i = 0; i < options.clients; i++) {
        cycles += all[i].samples[CYCLE].count;
        starving += all[i].samples[CYCLE].count == 0;
    }
    printf("clients=%u alive=%u seconds=%.1f cycles=%zu rate=%.1f starving=%zu", options.clients,
           options.alive, seconds, cycles, (double)cycles / seconds, starving);
    for (enum step s = CREATE; s < STEPS; s++)
        report_step(all, s);
    if (options.key_count > 1)
        printf(" jain=%.3f", fairness(all));
    for (unsigned status = 0; status < STATUS_MAX; status++) {
        unsigned count = 0;
        for (unsigned i = 0; i < options.clients; i++)
            count += all[i].failures[status];
        if (count > 0)
            printf(" failed_%u=%u", status, count);
    }
    printf("\n");
    for (unsigned status = 0; status < STATUS_MAX; status++)
        if (first[status][0] != '\0')
            (void)fprintf(stderr, "first failure: %s\n", first[status]);
}

static int usage(void) {
    (void)fprintf(stderr,
                  "usage: cay-load -s SOCKET [-c CLIENTS] [-t SECONDS] [-a ALIVE] [-b BODY] [-x "
                  "COMMAND] [-k KEY]...\n"
                  "  -a  create so many sandboxes first, and leave them; -t 0 does no more\n"
                  "  -b  JSON of the sandboxes, -x command that runs in each\n"
                  "  -k  clients take turns with these keys\n");
    return 2;
}

static bool read_options(int argc, char **argv) {
    for (int o; (o = getopt(argc, argv, "s:c:t:a:b:x:k:")) != -1;)
        switch (o) {
        case 's':
            options.socket = optarg;
            break;
        case 'c':
            options.clients = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 't':
            options.seconds = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'a':
            options.alive = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'b':
            options.body = optarg;
            break;
        case 'x':
            options.command = optarg;
            break;
        case 'k':
            if (options.key_count == KEYS_MAX)
                return false;
            options.keys[options.key_count++] = optarg;
            break;
        default:
            return false;
        }
    return optind == argc && options.socket != NULL && options.clients > 0 &&
           options.clients <= CLIENTS_MAX;
}

int main(int argc, char **argv) {
    if (!read_options(argc, argv))
        return usage();
    struct client *all = calloc(options.clients, sizeof *all);
    if (all == NULL)
        return 1;
    atomic_store(&left_alive, options.alive);
    int64_t began = now_us();
    for (unsigned i = 0; i < options.clients; i++) {
        all[i].sock = -1;
        all[i].key = options.key_count > 0 ? options.keys[i % options.key_count] : NULL;
        if (pthread_create(&all[i].thread, NULL, run_client, &all[i]) != 0)
            return 1;
    }
    while (atomic_load(&left_alive) > 0)
        (void)usleep(10000);
    int64_t filled = now_us();
    (void)sleep(options.seconds);
    atomic_store(&stop, options.seconds > 0);
    for (unsigned i = 0; i < options.clients; i++)
        (void)pthread_join(all[i].thread, NULL);
    if (options.alive > 0)
        (void)fprintf(stderr, "%u created in %.1f s\n", options.alive,
                      (double)(filled - began) / 1e6);
    report(all, (double)(now_us() - filled) / 1e6);
    for (unsigned i = 0; i < options.clients; i++)
        for (size_t step = 0; step < STEPS; step++)
            free(all[i].samples[step].us);
    free(all);
    return 0;
}
