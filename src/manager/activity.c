/* What only the sandbox itself knows: commands of sessions that nobody waits for, and terminals. It
 * is the word of hostile code, so it holds off a stop for idleness and nothing else. An answer that
 * does not come within a second is asked for again, since a busy machine may be what it waits for;
 * silence for longer than machines stand still is taken for "nothing". */
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "manager/internal.h"
#include "wire/client_terminal.h"

enum { ANSWER_MS = 1000 };

/* False if it does not say. *ret_quiet_ms: for how long nothing has been going on there; -1: as
 * long as we know. */
static bool ask(const char *id, int64_t *ret_quiet_ms) {
    struct cay_error err = {0};
    struct wire_activity a;
    int64_t deadline = clock_ms() + ANSWER_MS;
    _cleanup_(closep) int fd = socket_connect(id, ANSWER_MS, &err);
    const struct wire_call call = {.fd = fd, .deadline_ms = deadline};
    if (fd < 0 || wire_activity(&call, &a, &err) < 0)
        return false;
    *ret_quiet_ms = a.commands > 0 || a.viewers > 0 || a.busy > 0 ? 0 : a.quiet_ms;
    return true;
}

bool activity_learn(struct manager *m, struct sandbox *s) {
    int64_t quiet = -1;
    bool told = ask(s->record.id, &quiet);
    (void)pthread_mutex_lock(&m->lock);
    int64_t now = clock_ms();
    if (told)
        s->silent_since = 0;
    else if (s->silent_since == 0)
        s->silent_since = now;
    if (quiet >= 0) {
        s->active_at = MAX(s->active_at, now - quiet);
        s->record.active_ms = MAX(s->record.active_ms, clock_wall_ms() - quiet);
    }
    bool known = told || now - s->silent_since >= m->limits.silence_ms;
    (void)pthread_mutex_unlock(&m->lock);
    return known;
}
