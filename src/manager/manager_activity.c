/* What only the sandbox itself knows: commands of sessions that nobody waits for, and terminals. It
 * is the word of hostile code, so it holds off a stop for idleness and nothing else, and what does
 * not come within a second is taken for "nothing". */
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "manager/manager_internal.h"
#include "wire/client_terminal.h"

enum { ANSWER_MS = 1000 };

/* For how long nothing has been going on there; -1: as long as we know. */
static int64_t ask(const char *id) {
    struct cay_error err = {0};
    struct wire_activity a;
    int64_t deadline = clock_ms() + ANSWER_MS;
    _cleanup_(closep) int fd = socket_connect(id, ANSWER_MS, &err);
    const struct wire_call call = {.fd = fd, .deadline_ms = deadline};
    if (fd < 0 || wire_activity(&call, &a, &err) < 0)
        return -1;
    return a.commands > 0 || a.viewers > 0 || a.busy > 0 ? 0 : a.quiet_ms;
}

void activity_learn(struct manager *m, struct sandbox *s) {
    int64_t quiet = ask(s->record.id);
    if (quiet < 0)
        return;
    (void)pthread_mutex_lock(&m->lock);
    s->active_at = MAX(s->active_at, clock_ms() - quiet);
    s->record.active_ms = MAX(s->record.active_ms, clock_wall_ms() - quiet);
    (void)pthread_mutex_unlock(&m->lock);
}
