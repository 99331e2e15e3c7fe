#include "api/hangup.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"

enum {
    LOOK_MS = 10,
    LEFT_MS = 2000, /* for the library to take what the client sent last */
    PASS_MS = 100,  /* and to pass it on */
};

/* True if it was stopped meanwhile. */
static bool pause_for(const struct hangup *h, int ms) {
    struct pollfd p = {.fd = h->stop, .events = POLLIN};
    return poll(&p, 1, ms) > 0;
}

static bool is_taken(int client) {
    char byte;
    return recv(client, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;
}

static void *watch(void *arg) {
    const struct hangup *h = arg;
    struct pollfd p[] = {{.fd = h->client, .events = POLLRDHUP}, {.fd = h->stop, .events = POLLIN}};
    while (p[0].revents == 0 && p[1].revents == 0)
        if (poll(p, ARRAY_LEN(p), -1) < 0 && errno != EINTR)
            return NULL;
    if (p[1].revents != 0)
        return NULL;
    for (int ms = 0; ms < LEFT_MS && !is_taken(h->client); ms += LOOK_MS)
        if (pause_for(h, LOOK_MS))
            return NULL;
    if (!pause_for(h, PASS_MS))
        (void)shutdown(h->ours, SHUT_RD); /* what has arrived can still be read */
    return NULL;
}

int hangup_watch(struct hangup *h, int client, int ours) {
    *h = (struct hangup){.client = client, .ours = ours, .stop = eventfd(0, EFD_CLOEXEC)};
    if (h->stop < 0)
        return -errno;
    int r = pthread_create(&h->thread, NULL, watch, h);
    if (r != 0)
        fd_close(&h->stop);
    return -r;
}

void hangup_end(struct hangup *h) {
    static const uint64_t one = 1;
    if (h->stop < 0)
        return;
    if (write(h->stop, &one, sizeof one) == (ssize_t)sizeof one)
        (void)pthread_join(h->thread, NULL);
    fd_close(&h->stop);
}

void hangup_await(int ours, int64_t deadline_ms) {
    char ignored[4096];
    struct pollfd p = {.fd = ours, .events = POLLIN};
    while (poll(&p, 1, clock_poll_timeout(deadline_ms)) > 0 && !clock_expired(deadline_ms)) {
        ssize_t n = recv(ours, ignored, sizeof ignored, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return;
    }
}
