/* A sandbox that ended although nobody asked for it, and what its owner wants to be done then. */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "manager/internal.h"

enum {
    FAILURES_MAX = 5, /* within the window; then it stays in error */
    WINDOW_MS = 10 * 60 * 1000,
};

static void report_end(const struct sandbox *s, const struct engine_end *end,
                       struct cay_error *why) {
    char memory[32];
    if (end->oom_killed) {
        error_set(why, CAY_RESOURCE_EXHAUSTED, "it ran out of memory (limit %s)",
                  str_bytes(s->record.memory_bytes, memory));
        (void)error_remedy(why,
                           "let it use less memory, or give it more: cay update %s --memory SIZE",
                           s->record.id);
    } else if (end->cause == ENGINE_END_HOST_RESTART) {
        error_set(why, CAY_UNAVAILABLE, "the host was restarted");
    } else if (end->cause == ENGINE_END_ASKED) {
        error_set(why, CAY_UNAVAILABLE, "it was stopped");
    } else if (end->cause == ENGINE_END_UNSEEN) {
        error_set(why, CAY_UNAVAILABLE, "it ended while nothing watched it, perhaps with the host");
    } else if (end->status == -1) {
        error_set(why, CAY_INTERNAL, "its first process has ended; how is not known");
    } else if (WIFSIGNALED(end->status)) {
        error_set(why, CAY_INTERNAL, "its first process was killed by signal %d (SIG%s)",
                  WTERMSIG(end->status), sigabbrev_np(WTERMSIG(end->status)));
    } else {
        error_set(why, CAY_INTERNAL, "its first process ended with status %d",
                  WEXITSTATUS(end->status));
    }
}

/* An end that nobody saw may have been the host's, if it is found at the beginning. */
static bool is_failure(const struct engine_end *end, enum on_failure policy, bool first) {
    if (end->oom_killed)
        return true;
    if (end->cause == ENGINE_END_UNSEEN)
        return !first && policy > FAILURE_KEEP;
    return end->cause == ENGINE_END_UNASKED && end->status != 0;
}

/* When it is to be started again, the first time at once; 0 if it has failed too often. With the
 * lock held. */
static int64_t next_start(const struct manager *m, struct sandbox *s) {
    int64_t now = clock_ms();
    struct sandbox_record *r = &s->record;
    if (r->failures == 0 || now - s->first_failure > WINDOW_MS) {
        r->failures = 0;
        r->failed_ms = clock_wall_ms();
        s->first_failure = now;
    }
    if (++r->failures > FAILURES_MAX)
        return 0;
    return r->failures == 1 ? now : now + (m->limits.recover_ms << (r->failures - 2));
}

static int64_t between(int64_t value, int64_t low, int64_t high) {
    return MIN(MAX(value, low), high);
}

/* Clocks jump, so what the row says is taken within reason only. */
void failure_resume(const struct manager *m, struct sandbox *s) {
    const struct sandbox_record *r = &s->record;
    int64_t now = clock_ms(), wall = clock_wall_ms();
    s->first_failure = now - between(wall - r->failed_ms, 0, WINDOW_MS + 1);
    if (r->recover_ms != 0 && r->state == SANDBOX_ERROR && r->failures <= FAILURES_MAX)
        s->recover_at =
            now + between(r->recover_ms - wall, 0, m->limits.recover_ms << FAILURES_MAX);
}

static void give_up(const struct sandbox *s, struct cay_error *why) {
    (void)error_prefix(why, "it failed %d times within %d minutes", FAILURES_MAX + 1,
                       WINDOW_MS / 60000);
    log_event(LOG_LEVEL_WARN, "sandbox is not started again", "why", "%s (%s): %s", s->record.id,
              s->record.name, why->message);
}

static void plan_start(struct manager *m, struct sandbox *s, struct cay_error *why) {
    (void)pthread_mutex_lock(&m->lock);
    int64_t at = next_start(m, s);
    (void)pthread_mutex_unlock(&m->lock);
    if (at == 0)
        give_up(s, why);
    turn_fail_again(m, s, why);
    (void)pthread_mutex_lock(&m->lock);
    s->recover_at = at;
    if (at != 0) { /* nobody has to do anything */
        s->record.recover_ms = clock_wall_ms() + at - clock_ms();
        (void)snprintf(s->record.remedy, sizeof s->record.remedy,
                       "it is started again by itself in a moment");
    }
    (void)pthread_mutex_unlock(&m->lock);
    struct cay_error late;
    if (at != 0 && turn_save(m, s, DB_FLUSH_LATER, &late) < 0)
        log_event(LOG_LEVEL_WARN, "a restart would not start it again", "why", "%s: %s",
                  s->record.id, late.message);
}

void failure_plan(struct manager *m, struct sandbox *s, struct cay_error *why) {
    if (s->record.on_failure == FAILURE_RECREATE)
        plan_start(m, s, why);
    else
        turn_fail_again(m, s, why);
}

int failure_note_end(struct manager *m, struct sandbox *s, bool first, struct cay_error *err) {
    struct cay_error why = {0};
    (void)pthread_mutex_lock(&m->lock);
    struct engine_end end = {.status = -1, .cause = ENGINE_END_UNSEEN};
    if (s->has_end)
        end = s->end;
    enum on_failure policy = s->record.on_failure;
    bool failed = is_failure(&end, policy, first);
    if (failed)
        (*(end.oom_killed ? &m->ended_oom : &m->ended_unasked))++;
    (void)pthread_mutex_unlock(&m->lock);
    report_end(s, &end, &why);
    if (!failed) {
        log_event(LOG_LEVEL_WARN, "sandbox stopped", "why", "%s (%s): %s", s->record.id,
                  s->record.name, why.message);
        return turn_become_because(m, s, SANDBOX_STOPPED, why.message, NULL, err);
    }
    log_event(LOG_LEVEL_WARN, "sandbox ended unasked", "why", "%s (%s): %s; on_failure=%s",
              s->record.id, s->record.name, why.message, on_failure_name(policy));
    if (policy == FAILURE_REMOVE)
        return change_remove(m, s, NULL, err);
    failure_plan(m, s, &why);
    return 0;
}
