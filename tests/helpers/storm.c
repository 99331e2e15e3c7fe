/* Throws requests at a real launcher that no client of ours sends, for tests:
 *
 *     storm LAUNCHER STATE SEED COUNT
 *     storm --control-size        bytes of a message to the supervisor
 *
 * Each is a valid one with some of it changed: bytes, length, operation, and which descriptors come
 * along. A launcher has to answer every one, and may start something only for what launcher_check
 * lets pass. Prints a JSON object; exits with 1, and says why, if the launcher hangs or dies. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "daemon/control.h"
#include "engine/link/program.h"

enum { KINDS = 5, FDS_MAX = 6, IDS = 4, ANSWER_MS = 60 * 1000, EXTRA = 4096 };
enum { SETTLE_US = 20 * 1000, SETTLE_TURNS = 500, SPARE = 60 };

union packet {
    struct launcher_request request;
    unsigned char bytes[sizeof(struct launcher_request) + EXTRA];
};

struct storm {
    struct launcher_client client;
    uint64_t random;
    int kinds[KINDS]; /* descriptors of all sorts */
    uint64_t tag, answered, refused, started, wrong;
};

static union packet packet;

static _noreturn_ void give_up(const struct storm *s, const char *what) {
    (void)fprintf(stderr, "storm: %s at request %llu\n", what, (unsigned long long)s->tag);
    exit(1);
}

/* xorshift: the same requests for the same seed, everywhere. */
static uint64_t draw(struct storm *s, uint64_t below) {
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random % below;
}

/* ---- requests ---- */

static void set_id(struct storm *s, struct launcher_request *r) {
    (void)snprintf(r->spec.id, sizeof r->spec.id, "57031157031100%02x", (unsigned)draw(s, IDS));
}

/* A good one; how long it is. */
static size_t make(struct storm *s, struct launcher_request *r) {
    static const uint32_t few[] = {LAUNCHER_KEEP, LAUNCHER_STOP, LAUNCHER_REMOVE, LAUNCHER_START};
    memset(&packet, 0, sizeof packet);
    r->op = draw(s, 2) == 0 ? few[draw(s, ARRAY_LEN(few))] : (uint32_t)(1 + draw(s, 12));
    r->tag = s->tag;
    r->fds = r->op == LAUNCHER_START  ? LAUNCHER_CONNECTION
             : r->op == LAUNCHER_KEEP ? LAUNCHER_LISTENER
                                      : 0;
    if (r->op != LAUNCHER_START && r->op != LAUNCHER_END)
        set_id(s, r);
    r->spec.memory_bytes = 64 << 20;
    r->spec.cpu_quota_us = 100000;
    r->spec.pids = 64;
    r->spec.tier = TIER_BASIC;
    return launcher_request_size(0);
}

static void change_bytes(struct storm *s, size_t len) {
    static const uint64_t odd[] = {0, 1, 255, 65535, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX};
    for (uint64_t i = draw(s, 4); i < 4; i++) {
        uint64_t value = draw(s, 2) == 0 ? odd[draw(s, ARRAY_LEN(odd))] : draw(s, UINT64_MAX);
        size_t size = (size_t)1 << draw(s, 4), at = (size_t)draw(s, len - size);
        memcpy(packet.bytes + (draw(s, 2) == 0 ? at / 8 * 8 : at), &value, size);
    }
}

static size_t change_length(struct storm *s, size_t len) {
    size_t mount = sizeof(struct mount_spec);
    switch (draw(s, 4)) {
    case 0:
        return 1 + (size_t)draw(s, len);
    case 1:
        return len + 1 + (size_t)draw(s, EXTRA / 2);
    case 2: /* with volumes that are none */
        return MIN(len + mount * (1 + (size_t)draw(s, SPEC_MOUNTS_MAX + 1)), sizeof packet);
    default:
        return sizeof packet - (size_t)draw(s, 2 * EXTRA);
    }
}

static size_t spoil(struct storm *s, size_t len) {
    uint64_t how = draw(s, 8);
    if (how == 0)
        packet.request.op = (uint32_t)draw(s, 20);
    if (how == 1)
        packet.request.fds = (uint32_t)draw(s, 6);
    if (how >= 2 && how <= 4)
        change_bytes(s, len);
    return how == 5 ? change_length(s, len) : len;
}

/* As many as announced, of any sort; sometimes more or fewer. */
static size_t choose_descriptors(struct storm *s, int fds[static FDS_MAX]) {
    size_t count = (size_t)__builtin_popcount(packet.request.fds & 3U);
    if (draw(s, 6) == 0)
        count = (size_t)draw(s, FDS_MAX + 1);
    for (size_t i = 0; i < count; i++)
        fds[i] = s->kinds[draw(s, KINDS)];
    return count;
}

/* ---- answers ---- */

static bool is_answer(const struct launcher_answer *a) {
    return a->event != LAUNCHER_ENDED && a->event != LAUNCHER_KEPT_ENDED;
}

static void receive(struct storm *s, struct launcher_answer *a) {
    do {
        struct pollfd p = {.fd = s->client.sock, .events = POLLIN};
        if (poll(&p, 1, ANSWER_MS) != 1)
            give_up(s, "no answer");
        ssize_t n = recv(s->client.sock, a, sizeof *a, 0);
        if (n != (ssize_t)sizeof *a)
            give_up(s, n == 0 ? "the launcher has gone" : "a cut answer");
    } while (!is_answer(a));
    s->answered++;
}

static void ask(struct storm *s, size_t len, const int *fds, size_t count,
                struct launcher_answer *a) {
    if (fd_send(s->client.sock, &packet, len, fds, count) < 0)
        give_up(s, "the launcher does not listen");
    receive(s, a);
}

/* What one request leaves, which its answer tells, must not be in the way of the next. */
static void end_started(struct storm *s, const struct launcher_answer *a) {
    if (packet.request.op != LAUNCHER_START)
        return;
    packet.request = (struct launcher_request){.op = LAUNCHER_END, .tag = a->tag};
    if (fd_send(s->client.sock, &packet, launcher_request_size(0), NULL, 0) < 0)
        give_up(s, "the launcher does not listen");
}

static void throw_one(struct storm *s) {
    struct launcher_answer a;
    int fds[FDS_MAX];
    s->tag++;
    size_t len = spoil(s, make(s, &packet.request));
    size_t count = choose_descriptors(s, fds);
    bool good = launcher_check(&packet.request, len) == 0 &&
                count == (size_t)__builtin_popcount(packet.request.fds);
    if (good && packet.request.op == LAUNCHER_END)
        return; /* the one that is not answered */
    ask(s, len, fds, count, &a);
    s->refused += a.event == LAUNCHER_FAILED;
    s->wrong += !good && a.event != LAUNCHER_FAILED;
    if (a.event != LAUNCHER_STARTED)
        return;
    s->started++;
    end_started(s, &a);
}

/* ---- before and after ---- */

static unsigned count_descriptors(pid_t pid) {
    char path[64];
    unsigned count = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    while (folder != NULL && readdir(folder) != NULL)
        count++;
    if (folder != NULL)
        (void)closedir(folder);
    return count;
}

static void remove_all(struct storm *s) {
    struct launcher_answer a, ignored;
    do {
        packet.request = (struct launcher_request){.op = LAUNCHER_LIST};
        ask(s, launcher_request_size(0), NULL, 0, &a);
        for (uint32_t i = 0; a.event == LAUNCHER_HAS_LIST && i < a.list.count; i++) {
            packet.request = (struct launcher_request){.op = LAUNCHER_REMOVE};
            memcpy(packet.request.spec.id, a.list.entries[i].id, ID_SIZE);
            ask(s, launcher_request_size(0), NULL, 0, &ignored);
        }
    } while (a.event == LAUNCHER_HAS_LIST && a.list.count > 0);
}

static int open_kinds(int kinds[static KINDS]) {
    int pair[2], pipes[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 || pipe2(pipes, O_CLOEXEC) < 0)
        return -errno;
    kinds[0] = pair[0];
    kinds[1] = pipes[1];
    kinds[2] = open("/dev/null", O_RDWR | O_CLOEXEC);
    kinds[3] = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    kinds[4] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return 0;
}

/* Some requests asked it to keep up to LAUNCHER_READY_MAX sandboxes ready: from now on it is one.
 */
static void keep_one_ready(struct storm *s) {
    struct launcher_answer a;
    s->tag++;
    (void)make(s, &packet.request);
    memset(&packet.request.spec.id, 0, sizeof packet.request.spec.id);
    packet.request.op = LAUNCHER_START;
    packet.request.fds = LAUNCHER_CONNECTION;
    packet.request.ready = 1;
    ask(s, launcher_request_size(0), &s->kinds[0], 1, &a);
    if (a.event != LAUNCHER_STARTED)
        give_up(s, "no good sandbox starts any more");
    end_started(s, &a);
}

/* What it has once those that it ends are gone, which takes a moment. A few slots stay. */
static unsigned settled_descriptors(const struct storm *s, unsigned before) {
    unsigned count = count_descriptors(s->client.pid);
    for (unsigned i = 0; i < SETTLE_TURNS && count > before + SPARE; i++) {
        (void)usleep(SETTLE_US);
        count = count_descriptors(s->client.pid);
    }
    return count;
}

static int finish(struct storm *s, unsigned before) {
    unsigned after = settled_descriptors(s, before);
    int status = -1;
    (void)close(s->client.sock);
    (void)waitpid(s->client.pid, &status, 0);
    (void)printf("{\"answered\": %llu, \"refused\": %llu, \"started\": %llu, \"wrong\": %llu, "
                 "\"before\": %u, \"after\": %u, \"status\": %d}\n",
                 (unsigned long long)s->answered, (unsigned long long)s->refused,
                 (unsigned long long)s->started, (unsigned long long)s->wrong, before, after,
                 status);
    return 0;
}

/* Of the host, below which volumes may lie. */
static const char *const shown[] = {"/tmp", "root:/tmp", NULL};

int main(int argc, char **argv) {
    struct storm s = {.client = LAUNCHER_CLIENT_NONE};
    struct cay_error err;
    uint64_t count = 0;
    if (argc == 2 && str_equal(argv[1], "--control-size")) {
        (void)printf("%zu\n", sizeof(struct control_message));
        return 0;
    }
    if (argc != 5 || str_to_u64(argv[3], UINT64_MAX, &s.random) < 0 ||
        str_to_u64(argv[4], UINT32_MAX, &count) < 0) {
        (void)fprintf(stderr, "usage: storm LAUNCHER STATE SEED COUNT\n");
        return 2;
    }
    s.random |= 1; /* zero stays zero */
    if (open_kinds(s.kinds) < 0 ||
        launcher_client_start(argv[1], argv[2], 1, shown, &s.client, &err) < 0)
        give_up(&s, "no launcher");
    remove_all(&s); /* the first request about sandboxes that stay opens some */
    for (unsigned i = 0; i < 50; i++)
        throw_one(&s);
    remove_all(&s);
    keep_one_ready(&s);
    unsigned before = count_descriptors(s.client.pid);
    for (uint64_t i = 0; i < count; i++)
        throw_one(&s);
    remove_all(&s);
    keep_one_ready(&s);
    return finish(&s, before);
}
