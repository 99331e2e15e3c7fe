/* The end of the sandbox, as the host wants it. */
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "init/files/tree.h"
#include "init/op.h"

enum { PAUSE_MIN_MS = 2, PAUSE_MAX_MS = 40 };

static void pause_ms(int64_t ms) {
    (void)nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* Until none is left, or the time is over. What is started meanwhile is asked too. */
static void ask_to_end(int64_t ms) {
    int64_t deadline = clock_ms() + ms, pause = PAUSE_MIN_MS;
    _cleanup_(tree_free) struct tree before = {0};
    for (;;) {
        struct tree now = tree_take_commands();
        tree_ask_to_end(&now, &before);
        tree_free(&before);
        before = now;
        if (now.count == 0 || clock_ms() >= deadline)
            return;
        pause_ms(pause);
        pause = MIN(2 * pause, (int64_t)PAUSE_MAX_MS);
    }
}

/* With a time the host sees to the rest when it has the answer; so those who serve commands can
 * still tell how these ended. */
int op_shutdown(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    uint64_t grace = request->number[WIRE_TAG_TIMEOUT_MS];
    if (grace > 0)
        ask_to_end((int64_t)MIN(grace, (uint64_t)INT32_MAX));
    int r = wire_send(c->fd, WIRE_DONE, NULL);
    if (r < 0)
        return error_sys(err, -r, "answering");
    if (grace > 0 || c->tell < 0) /* alone, PID 1 ends with the operation */
        return 0;
    const struct init_news news = {.ends = true};
    r = fd_write_all(c->tell, &news, sizeof news);
    return r < 0 ? error_sys(err, -r, "stopping the init process") : 0;
}
