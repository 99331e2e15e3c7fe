/* WIRE_OP_ACTIVITY: what goes on in sessions and terminals, for whoever wants to stop a sandbox
 * that is idle. Each keeper is asked; while one does not answer, nothing is known. */
#include <stdint.h>

#include "base/clock.h"
#include "init/files/files.h"
#include "init/session/registry.h"

enum { ANSWER_MS = 800 }; /* the host waits for a second */

struct activity {
    uint64_t commands, viewers, busy;
    uint64_t quiet_ms; /* since the last that ended; UINT64_MAX: there was none */
};

static int add(void *arg, const char *name, const struct wire_message *m) {
    (void)name;
    struct activity *a = arg;
    a->commands += m->number[WIRE_TAG_COMMANDS];
    a->viewers += m->number[WIRE_TAG_VIEWERS];
    a->busy += m->number[WIRE_TAG_BUSY];
    if (m->present[WIRE_TAG_QUIET_MS])
        a->quiet_ms = MIN(a->quiet_ms, m->number[WIRE_TAG_QUIET_MS]);
    return 0;
}

int op_activity(struct op_conn *c, const struct wire_message *request, struct cay_error *err) {
    (void)request;
    struct activity a = {.quiet_ms = UINT64_MAX};
    int64_t deadline = clock_ms() + ANSWER_MS;
    static const struct place_kind *const kinds[] = {&place_session, &place_context,
                                                     &place_terminal};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        int r = place_ask_all(kinds[i], WIRE_OP_ACTIVITY, deadline, add, &a, err);
        if (r < 0)
            return r;
    }
    _cleanup_(buf_free) struct buf b = BUF_INIT(256);
    wire_put_number(&b, WIRE_TAG_COMMANDS, a.commands);
    wire_put_number(&b, WIRE_TAG_VIEWERS, a.viewers);
    wire_put_number(&b, WIRE_TAG_BUSY, a.busy);
    if (a.quiet_ms != UINT64_MAX)
        wire_put_number(&b, WIRE_TAG_QUIET_MS, a.quiet_ms);
    return files_send(c, WIRE_DONE, &b, err);
}
