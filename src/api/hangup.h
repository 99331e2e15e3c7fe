/* With TLS the HTTP library carries the bytes of an upgraded connection between the client and us,
 * but not that the client has gone: it then turns in a circle until we end it. So somebody looks at
 * the client's own socket. */
#pragma once

#include <pthread.h>
#include <stdint.h>

struct hangup {
    int client; /* his socket: looked at, nothing is taken from it */
    int ours;   /* what the library carries his bytes to */
    int stop;   /* an eventfd */
    pthread_t thread;
};

/* Begins to watch: when the client has gone, and all that he sent has arrived, nothing more can be
 * read from `ours`. Both stay the caller's. 0 or -errno. */
int hangup_watch(struct hangup *h, int client, int ours);
/* Ends it; the descriptors may be closed afterwards. */
void hangup_end(struct hangup *h);

/* Waits until the client, who has heard everything, has gone; what he still says is not listened
 * to. To be called before the library is told to close: with input on its way it would forget
 * output. */
void hangup_await(int ours, int64_t deadline_ms);
