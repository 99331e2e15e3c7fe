/* What changes a sandbox. Each row is written before the engine is asked, and again afterwards. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "manager/access/intent.h"
#include "manager/files/backup.h"
#include "manager/internal.h"
#include "wire/client_shutdown.h"

#define BIT(state) (1U << (state))

/* What leads where. A state of passage is one that a failure left: who has the turn may go on. */
struct verb {
    const char *done; /* as in "it cannot be paused" */
    unsigned from;
    enum sandbox_state to;
};
static const struct verb verb_start = {
    "started",
    BIT(SANDBOX_STOPPED) | BIT(SANDBOX_ERROR) | BIT(SANDBOX_STARTING) | BIT(SANDBOX_STOPPING) |
        BIT(SANDBOX_ARCHIVING) | BIT(SANDBOX_ARCHIVED) | BIT(SANDBOX_RESTORING),
    SANDBOX_STARTED,
};
static const struct verb verb_stop = {
    "stopped",
    BIT(SANDBOX_STARTED) | BIT(SANDBOX_PAUSED) | BIT(SANDBOX_STARTING) | BIT(SANDBOX_STOPPING),
    SANDBOX_STOPPED,
};
static const struct verb verb_pause = {"paused", BIT(SANDBOX_STARTED), SANDBOX_PAUSED};
static const struct verb verb_resume = {"resumed", BIT(SANDBOX_PAUSED), SANDBOX_STARTED};

typedef int (*change)(struct manager *m, struct sandbox *s, struct cay_error *err);

/* Takes its turn, if the verb may begin. *ret_go_on: there is something to do. */
static int begin_verb(struct manager *m, const char *who, const struct verb *verb,
                      struct sandbox **ret, bool *ret_go_on, struct cay_error *err) {
    int r = turn_take(m, who, ret, err);
    if (r < 0)
        return r;
    struct sandbox *s = *ret;
    (void)pthread_mutex_lock(&m->lock); /* the clean-up may call what takes too long an error */
    *ret_go_on = (BIT(s->record.state) & verb->from) != 0;
    if (!*ret_go_on && s->record.state != verb->to)
        r = turn_refuse(s, verb->done, err);
    (void)pthread_mutex_unlock(&m->lock);
    if (r < 0)
        turn_end(m, s);
    return r;
}

static int run_verb(struct manager *m, const char *who, const struct verb *verb, change do_it,
                    struct cay_error *err) {
    struct sandbox *s;
    bool go_on;
    int r = begin_verb(m, who, verb, &s, &go_on, err);
    if (r < 0)
        return r;
    if (go_on)
        r = do_it(m, s, err);
    turn_end(m, s);
    return r;
}

/* ---- images ---- */

int change_copy_out(struct manager *m, const struct sandbox *s, struct sandbox_record *ret,
                    struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    int r = sandbox_record_copy(&s->record, ret);
    (void)pthread_mutex_unlock(&m->lock);
    return r < 0 ? error_sys(err, -r, "answering") : 0;
}

/* Asked without the lock, on a copy: it may have to wait for another process. */
static int take_description(struct manager *m, struct sandbox *s, struct cay_error *err) {
    struct sandbox_record r = {0};
    if (m->describe == NULL)
        return 0;
    int e = change_copy_out(m, s, &r, err);
    if (e == 0)
        e = m->describe(m->user, &r, err);
    if (e == 0) {
        (void)pthread_mutex_lock(&m->lock);
        struct strv before = s->record.env;
        s->record.env = r.env;
        r.env = before;
        memcpy(s->record.user, r.user, sizeof r.user);
        memcpy(s->record.work_dir, r.work_dir, sizeof r.work_dir);
        (void)pthread_mutex_unlock(&m->lock);
    }
    sandbox_record_free(&r);
    return e;
}

static int find_image(struct manager *m, struct sandbox *s, int progress_fd,
                      struct cay_error *err) {
    char id[HEX_SIZE] = "";
    struct image_wish wish = {.name = s->record.image_name,
                              .engine = s->record.engine,
                              .is_local = s->record.is_local,
                              .progress_fd = progress_fd,
                              .cancel_fd = s->building != NULL ? s->building->cancel : -1,
                              .client_fd = s->building != NULL ? s->building->client : -1};
    policy_image_owner(m, &s->record, &wish);
    (void)pthread_mutex_lock(&m->lock);
    s->deadline = 0; /* a pull takes what it takes */
    (void)pthread_mutex_unlock(&m->lock);
    int r = 0;
    if (!str_equal(s->record.image_name, "host")) {
        queue_step_out(m, s->ticket);
        r = m->ensure(m->user, &wish, id, err);
        queue_step_in(m, s->ticket);
    }
    if (r < 0)
        return r;
    (void)pthread_mutex_lock(&m->lock);
    memcpy(s->record.image, id, sizeof id);
    (void)pthread_mutex_unlock(&m->lock);
    r = take_description(m, s, err);
    return r < 0 ? r : turn_save(m, s, DB_FLUSH_LATER, err);
}

/* One whose creation failed has not found its image yet. */
static bool lacks_image(const struct manager *m, const struct sandbox_record *r) {
    return (r->image[0] == '\0' && !str_equal(r->image_name, "host")) ||
           (m->describe != NULL && r->work_dir[0] == '\0');
}

/* ---- starting ---- */

static int launch(struct manager *m, struct sandbox *s, struct cay_error *err) {
    struct sandbox_spec spec;
    int r = request_spec(m, &s->record, &spec, err);
    _cleanup_(closep) int listener = r < 0 ? r : socket_listen(s->record.id, err);
    if (r == 0)
        r = MIN(listener, 0);
    turn_set_deadline(m, s);
    if (r == 0)
        r = drive_start(m, &spec, s->record.image, listener, err);
    if (r == 0)
        r = network_open(m, s, err);
    spec_free_mounts(&spec);
    return r;
}

/* It runs, and this must be on disk before it is promised. */
static int settle_started(struct manager *m, struct sandbox *s, struct cay_error *err) {
    int r = turn_become(m, s, SANDBOX_STARTED, NULL, err);
    return r < 0 ? error_prefix(err, "recording that sandbox %s runs", s->record.id) : 0;
}

/* Whoever wants it to be given up is heard once more before it lives. */
static int check_wanted(struct manager *m, const struct sandbox *s, struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    bool given_up = s->building->given_up;
    (void)pthread_mutex_unlock(&m->lock);
    return given_up ? error_set(err, CAY_CONFLICT, "sandbox '%s' was removed while it was made",
                                s->record.name)
                    : 0;
}

int change_build(struct manager *m, struct sandbox *s, int progress_fd, struct cay_error *err) {
    int r = find_image(m, s, progress_fd, err);
    if (r == 0)
        r = launch(m, s, err);
    if (r == 0)
        r = check_wanted(m, s, err);
    return r < 0 ? r : settle_started(m, s, err);
}

static int check_volumes(struct manager *m, const struct sandbox *s, struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    int r = volumes_check(m, &s->record, err);
    (void)pthread_mutex_unlock(&m->lock);
    return r;
}

int change_start(struct manager *m, struct sandbox *s, struct cay_error *err) {
    struct cay_error here = {0};
    int r = check_volumes(m, s, err);
    if (r == 0)
        r = quota_wake(m, s, err);
    if (r == 0)
        r = archive_bring_back(m, s, err);
    if (r == 0)
        r = backup_bring_back(m, s, err);
    if (r == 0)
        r = turn_become(m, s, SANDBOX_STARTING, NULL, err);
    if (r < 0)
        return r;
    r = lacks_image(m, &s->record) ? find_image(m, s, -1, &here) : 0;
    if (r == 0)
        r = launch(m, s, &here);
    if (r == 0)
        r = settle_started(m, s, &here);
    if (r == 0) {
        (void)archive_drop(m, s, NULL); /* or the clean-up does */
        return 0;
    }
    /* it may run even so, if only the answer was lost */
    (void)drive_stop(m, s->record.id, NULL);
    turn_fail(m, s, &here);
    if (err != NULL)
        *err = here;
    return r;
}

static void set_ticket(struct manager *m, struct sandbox *s, struct queue_ticket *t) {
    (void)pthread_mutex_lock(&m->lock);
    s->ticket = t;
    (void)pthread_mutex_unlock(&m->lock);
}

/* In the queue, for clients. What is archived takes long to restore, and archives have a limit of
 * their own. */
static int start_in_turn(struct manager *m, struct sandbox *s, struct cay_error *err) {
    struct queue_ticket ticket;
    if (s->record.state == SANDBOX_ARCHIVED || s->record.state == SANDBOX_RESTORING)
        return change_start(m, s, err);
    int r = queue_join(m, QUEUE_CLIENT, sandbox_record_key(&s->record), &ticket, err);
    if (r < 0)
        return r;
    set_ticket(m, s, &ticket);
    r = queue_wait(m, &ticket, err);
    if (r == 0)
        r = change_start(m, s, err);
    set_ticket(m, s, NULL);
    queue_leave(m, &ticket);
    return r;
}

int manager_start_with_progress(struct manager *m, const char *who, int progress_fd,
                                struct cay_error *err) {
    struct sandbox *s;
    bool go_on;
    int r = begin_verb(m, who, &verb_start, &s, &go_on, err);
    if (r < 0)
        return r;
    turn_report(m, s, &progress_fd);
    if (go_on)
        r = start_in_turn(m, s, err);
    turn_end(m, s);
    return r;
}

int manager_start_sandbox(struct manager *m, const char *who, struct cay_error *err) {
    return manager_start_with_progress(m, who, -1, err);
}

/* ---- stopping, pausing ---- */

enum { LAST_WORDS_MS = 100 }; /* for how a command ended to reach who waits for it */

static void wait_for_operations(struct manager *m, struct sandbox *s, int64_t until) {
    (void)pthread_mutex_lock(&m->lock);
    m->awaiting++;
    while (s->operations > 0 && clock_ms() < until)
        table_wait(m, until);
    m->awaiting--;
    (void)pthread_mutex_unlock(&m->lock);
}

/* Everything inside is asked to end, and operations under way are waited for. What does not end,
 * or does not even answer, is killed afterwards. */
static void ask_to_end(struct manager *m, struct sandbox *s, int64_t grace_ms) {
    int64_t until = clock_ms() + grace_ms;
    (void)pthread_mutex_lock(&m->lock);
    s->deadline = clock_deadline(m->limits.transition_ms + grace_ms);
    (void)pthread_mutex_unlock(&m->lock);
    struct cay_error ignored;
    _cleanup_(closep) int fd = socket_connect(s->record.id, CONNECT_MS, &ignored);
    struct wire_call call = {.fd = fd, .deadline_ms = until + MIN(grace_ms, LAST_WORDS_MS)};
    if (fd >= 0)
        (void)wire_shutdown(&call, grace_ms, &ignored);
    wait_for_operations(m, s, MAX(until, clock_ms() + MIN(grace_ms, LAST_WORDS_MS)));
}

int change_stop(struct manager *m, struct sandbox *s, const char *why, permission may,
                int64_t grace_ms, struct cay_error *err) {
    struct cay_error here = {0};
    int r = turn_become_because(m, s, SANDBOX_STOPPING, why, may, err);
    if (r < 0)
        return r;
    if (grace_ms > 0)
        ask_to_end(m, s, grace_ms);
    r = drive_stop(m, s->record.id, &here);
    if (r == 0)
        return turn_become_because(m, s, SANDBOX_STOPPED, why, NULL, err);
    turn_fail(m, s, &here);
    if (err != NULL)
        *err = here;
    return r;
}

static int do_stop(struct manager *m, struct sandbox *s, int64_t grace_ms, struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    bool frozen = s->record.state == SANDBOX_PAUSED; /* what is frozen does not end by waiting */
    (void)pthread_mutex_unlock(&m->lock);
    return change_stop(m, s, "", NULL, frozen ? 0 : grace_ms, err);
}

int manager_stop_within(struct manager *m, const char *who, int64_t grace_ms,
                        struct cay_error *err) {
    struct sandbox *s;
    bool go_on;
    int r = begin_verb(m, who, &verb_stop, &s, &go_on, err);
    if (r < 0)
        return r;
    if (go_on)
        r = do_stop(m, s, grace_ms >= 0 ? grace_ms : settings_grace(m), err);
    turn_end(m, s);
    return r;
}

int manager_stop_sandbox(struct manager *m, const char *who, struct cay_error *err) {
    return manager_stop_within(m, who, -1, err);
}

int change_pause(struct manager *m, struct sandbox *s, const char *reason, const char *remedy,
                 struct cay_error *err) {
    int r = drive_pause(m, s->record.id, err);
    return r < 0 ? r : turn_become_for(m, s, SANDBOX_PAUSED, reason, remedy, err);
}

static int do_pause(struct manager *m, struct sandbox *s, struct cay_error *err) {
    return change_pause(m, s, "", "", err);
}

int manager_pause(struct manager *m, const char *who, struct cay_error *err) {
    return run_verb(m, who, &verb_pause, do_pause, err);
}

int change_resume(struct manager *m, struct sandbox *s, struct cay_error *err) {
    int r = drive_resume(m, s->record.id, err);
    if (r == 0)
        r = network_open(m, s, err); /* its list may have come while it stood still */
    return r < 0 ? r : turn_become(m, s, SANDBOX_STARTED, NULL, err);
}

static int do_resume(struct manager *m, struct sandbox *s, struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    int r = hold_check(m, s, err);
    (void)pthread_mutex_unlock(&m->lock);
    return r < 0 ? r : change_resume(m, s, err);
}

int manager_resume(struct manager *m, const char *who, struct cay_error *err) {
    return run_verb(m, who, &verb_resume, do_resume, err);
}

/* ---- standing still for a snapshot ---- */

static const char held_reason[] = "a snapshot is being made of it";

bool change_is_held(const struct sandbox *s) {
    return s->record.state == SANDBOX_PAUSED && str_equal(s->record.reason, held_reason);
}

static void set_held(struct manager *m, struct sandbox *s, bool held) {
    (void)pthread_mutex_lock(&m->lock);
    s->held = held;
    (void)pthread_mutex_unlock(&m->lock);
}

/* The row says for what it is paused before the work begins. */
static int do_hold(struct manager *m, struct sandbox *s, struct cay_error *err) {
    int r = drive_pause(m, s->record.id, err);
    if (r == -CAY_UNSUPPORTED)
        return error_remedy(err, "stop it first: cay stop %s", s->record.name);
    if (r < 0)
        return r;
    set_held(m, s, true);
    r = turn_become_because(m, s, SANDBOX_PAUSED, held_reason, NULL, err);
    if (r < 0) {
        set_held(m, s, false);
        (void)drive_resume(m, s->record.id, NULL);
    }
    return r;
}

static int check_can_stand(const struct sandbox *s, struct cay_error *err) {
    const struct sandbox_record *r = &s->record;
    if (change_is_held(s))
        error_set(err, CAY_CONFLICT, "of sandbox '%s' a snapshot is being made", r->name);
    else if (r->state == SANDBOX_STARTED || r->state == SANDBOX_STOPPED ||
             r->state == SANDBOX_PAUSED)
        return 0;
    else
        error_set(err, CAY_CONFLICT, "sandbox '%s' is %s", r->name, sandbox_state_name(r->state));
    return error_remedy(err, "wait until it is started, paused or stopped");
}

int manager_hold(struct manager *m, const char *who, bool *ret_held, struct cay_error *err) {
    struct sandbox *s;
    int r = turn_take(m, who, &s, err);
    if (r < 0)
        return r;
    r = check_can_stand(s, err);
    *ret_held = r == 0 && s->record.state == SANDBOX_STARTED;
    if (*ret_held)
        r = do_hold(m, s, err);
    turn_end(m, s);
    return r;
}

/* If it cannot be resumed now, the clean-up does it when the engine is back. */
int manager_release(struct manager *m, const char *who, struct cay_error *err) {
    struct sandbox *s;
    int r = turn_take(m, who, &s, err);
    if (r < 0)
        return r;
    set_held(m, s, false);
    if (change_is_held(s))
        r = change_resume(m, s, err);
    turn_end(m, s);
    return r;
}

int manager_wake(struct manager *m, const char *who, struct cay_error *err) {
    struct sandbox_record r = {0};
    int code = manager_get(m, who, &r, err);
    bool is_paused = r.state == SANDBOX_PAUSED;
    sandbox_record_free(&r);
    if (code < 0)
        return code;
    return is_paused ? manager_resume(m, who, err) : manager_start_sandbox(m, who, err);
}

/* ---- removing ---- */

static bool has_no_operation(const struct manager *m, const struct sandbox *s) {
    (void)m;
    return s->operations == 0;
}

/* With `saving` held. */
static int drop_row(struct manager *m, struct sandbox *s, struct cay_error *err) {
    struct intent_write w = intent_open(m, DB_FLUSH_LATER, INTENT_REMOVAL);
    int r;
    do
        r = db_remove(m->db, s->record.id, DB_FLUSH_LATER, err);
    while (intent_again(&w, &r, s->record.id, "", err));
    if (r < 0 && r != -CAY_NOT_FOUND)
        return r;
    (void)pthread_mutex_lock(&m->lock);
    table_drop(m, s);
    watch_report(m, &s->record, sandbox_state_name(s->record.state), "destroyed");
    (void)pthread_mutex_unlock(&m->lock);
    return 0;
}

/* Where the row on the disk says that it is being removed, the rest may come there later. */
static int forget(struct manager *m, struct sandbox *s, struct cay_error *err) {
    (void)pthread_mutex_lock(&m->saving); /* under which `unsaved` changes */
    bool unsaved = s->unsaved;
    int r = drop_row(m, s, err);
    (void)pthread_mutex_unlock(&m->saving);
    return r == 0 && unsaved ? db_flush(m->db, err) : r;
}

/* If it fails half-way, the row says so, and the clean-up tries again. */
int change_remove(struct manager *m, struct sandbox *s, permission may, struct cay_error *err) {
    int r = turn_become(m, s, SANDBOX_DESTROYING, may, err);
    if (r == 0)
        r = drive_remove(m, s->record.id, err);
    if (r == 0)
        r = archive_drop(m, s, err);
    if (r == 0)
        r = backup_drop(m, s, err);
    if (r < 0)
        return r;
    socket_remove(s->record.id);
    return forget(m, s, err);
}

/* True if it was being made: whoever does that removes it. A start that waits in the queue is given
 * up too: a removal waits for no other sandbox. */
static bool give_up_creation(struct manager *m, const char *who) {
    struct sandbox *s = NULL;
    (void)pthread_mutex_lock(&m->lock);
    struct building *b = table_find(m, who, &s, NULL) == 0 ? s->building : NULL;
    if (s != NULL)
        queue_give_up(m, s->ticket);
    if (b != NULL) {
        b->given_up = true;
        if (b->cancel >= 0)
            (void)eventfd_write(b->cancel, 1); /* it cannot be full */
    }
    (void)pthread_mutex_unlock(&m->lock);
    return b != NULL;
}

int manager_remove(struct manager *m, const char *who, bool force, struct cay_error *err) {
    struct sandbox *s;
    bool given_up = give_up_creation(m, who);
    if (force)
        backup_give_up(m, who);
    int r = turn_take(m, who, &s, err);
    if (r == -CAY_NOT_FOUND && given_up)
        return 0;
    if (r < 0)
        return r;
    /* A client knows that its command has ended a moment before we do, and may be quick. */
    if (!force)
        wait_for_operations(m, s, clock_ms() + LAST_WORDS_MS);
    r = change_remove(m, s, force ? NULL : has_no_operation, err);
    turn_end(m, s);
    return r;
}

/* True if there were any; id is what it found. */
static bool await_no_operation(struct manager *m, const char *who, char id[static ID_SIZE]) {
    struct sandbox *s = NULL;
    bool waited = false;
    (void)pthread_mutex_lock(&m->lock);
    if (table_find(m, who, &s, NULL) == 0) {
        (void)sandbox_ref(s);
        memcpy(id, s->record.id, ID_SIZE);
        m->awaiting++;
        for (; s->operations > 0 && !s->gone && !m->closing; waited = true)
            table_wait(m, 0);
        m->awaiting--;
        sandbox_unref(s);
    }
    (void)pthread_mutex_unlock(&m->lock);
    return waited;
}

int manager_remove_when_idle(struct manager *m, const char *who, struct cay_error *err) {
    char id[ID_SIZE] = "";
    int r;
    do {
        (void)await_no_operation(m, who, id);
        r = manager_remove(m, id[0] != '\0' ? id : who, false, err);
    } while (r == -CAY_CONFLICT && await_no_operation(m, who, id)); /* others came meanwhile */
    return r;
}

/* ---- names and labels ---- */

/* With the lock held. */
static int set_name(struct manager *m, struct sandbox *s, const char *name) {
    table_out(m, s);
    int r = str_copy(s->record.name, sizeof s->record.name, name);
    table_in(m, s);
    return r;
}

static int rename_to(struct manager *m, struct sandbox *s, const char *name,
                     struct cay_error *err) {
    char before[sizeof s->record.name];
    (void)pthread_mutex_lock(&m->lock);
    int r = str_equal(name, s->record.name) ? 0 : table_check_name(m, s->record.owner, name, err);
    memcpy(before, s->record.name, sizeof before);
    if (r == 0)
        r = set_name(m, s, name);
    s->record.updated_ms = clock_wall_ms();
    (void)pthread_mutex_unlock(&m->lock);
    if (r < 0)
        return r;
    r = turn_save(m, s, DB_FLUSH, err);
    if (r < 0) {
        (void)pthread_mutex_lock(&m->lock);
        (void)set_name(m, s, before);
        (void)pthread_mutex_unlock(&m->lock);
    }
    return r;
}

int manager_rename(struct manager *m, const char *who, const char *name, struct cay_error *err) {
    struct sandbox *s = NULL;
    int r = request_name(name, err);
    if (r == 0)
        r = turn_take(m, who, &s, err);
    if (r < 0 || s == NULL)
        return r;
    r = rename_to(m, s, name, err);
    turn_end(m, s);
    return r;
}

static void swap_labels(struct manager *m, struct sandbox *s, struct strv *labels) {
    (void)pthread_mutex_lock(&m->lock);
    struct strv before = s->record.labels;
    s->record.labels = *labels;
    s->record.updated_ms = clock_wall_ms();
    *labels = before;
    (void)pthread_mutex_unlock(&m->lock);
}

int manager_label(struct manager *m, const char *who, const struct strv *labels,
                  struct cay_error *err) {
    struct sandbox *s = NULL;
    _cleanup_(strv_free) struct strv sorted = {0};
    int r = request_labels(labels, &sorted, err);
    if (r == 0)
        r = turn_take(m, who, &s, err);
    if (r < 0 || s == NULL)
        return r;
    swap_labels(m, s, &sorted);
    r = turn_save(m, s, DB_FLUSH, err);
    if (r < 0)
        swap_labels(m, s, &sorted);
    turn_end(m, s);
    return r;
}
