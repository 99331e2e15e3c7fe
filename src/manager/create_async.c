/* Creations that nobody waits for: a thread makes the sandbox, another one hears how far it is. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "manager/internal.h"

enum { LINE_SIZE = 256 };

struct later {
    struct manager *m;
    struct sandbox *s;
    struct building building;
    struct queue_ticket ticket;
    int progress[2]; /* a pipe; -1: nobody listens */
};

static void later_free(struct later *l) {
    fd_close(&l->building.cancel);
    fd_close(&l->progress[0]);
    fd_close(&l->progress[1]);
    free(l);
}

/* ---- progress ---- */

static void note_line(const struct later *l, const char *line) {
    (void)pthread_mutex_lock(&l->m->lock);
    if (line[0] != '\0' && l->s->record.state == SANDBOX_CREATING)
        (void)str_escape(l->s->record.reason, sizeof l->s->record.reason, line);
    (void)pthread_mutex_unlock(&l->m->lock);
}

static void *hear_progress(void *arg) {
    const struct later *l = arg;
    char line[LINE_SIZE], chunk[LINE_SIZE];
    size_t len = 0;
    ssize_t n;
    while ((n = TEMP_FAILURE_RETRY(read(l->progress[0], chunk, sizeof chunk))) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            bool ends = chunk[i] == '\n' || chunk[i] == '\r';
            if (!ends && len < sizeof line - 1)
                line[len++] = chunk[i];
            if (!ends)
                continue;
            line[len] = '\0';
            note_line(l, line);
            len = 0;
        }
    }
    return NULL;
}

/* ---- making ---- */

static void finish(const struct later *l, int result, struct cay_error *why) {
    (void)pthread_mutex_lock(&l->m->lock);
    bool given_up = l->building.given_up;
    (void)pthread_mutex_unlock(&l->m->lock);
    if (result == 0)
        return;
    if (given_up || result == -CAY_UNAUTHORIZED) {
        (void)change_remove(l->m, l->s, NULL, NULL); /* the clean-up tries again */
        return;
    }
    (void)drive_stop(l->m, l->s->record.id, NULL); /* it may run, if only the answer was lost */
    turn_fail(l->m, l->s, why);
}

static void *make_later(void *arg) {
    struct later *l = arg;
    struct cay_error why = {0};
    pthread_t listener;
    bool heard = l->progress[0] >= 0 && pthread_create(&listener, NULL, hear_progress, l) == 0;
    int r = queue_wait(l->m, &l->ticket, &why);
    if (r == 0)
        r = manager_key_check(l->m, sandbox_record_key(&l->s->record), &why);
    if (r == 0)
        r = change_build(l->m, l->s, heard ? l->progress[1] : -1, &why);
    if (r == 0)
        r = manager_key_check(l->m, sandbox_record_key(&l->s->record), &why);
    fd_close(&l->progress[1]); /* which ends what the listener waits for */
    if (heard)
        (void)pthread_join(listener, NULL);
    finish(l, r, &why);
    change_end_creation(l->m, l->s);
    queue_leave(l->m, &l->ticket);
    later_free(l);
    return NULL;
}

static struct later *later_new(struct manager *m) {
    struct later *l = malloc(sizeof *l);
    if (l == NULL)
        return NULL;
    *l = (struct later){.m = m, .progress = {-1, -1}};
    l->building.cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->building.client = -1;
    if (pipe2(l->progress, O_CLOEXEC) < 0) /* then there is no progress to see */
        l->progress[0] = l->progress[1] = -1;
    return l;
}

int manager_create_later(struct manager *m, const struct sandbox_record *request,
                         struct sandbox_record *ret, struct cay_error *err) {
    struct later *l = later_new(m);
    pthread_t maker;
    if (l == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    int r = queue_join(m, QUEUE_PROMISED, sandbox_record_key(request), &l->ticket, err);
    if (r == 0)
        r = change_admit(m, request, "waiting for its image", &l->building, &l->ticket, &l->s, err);
    if (r < 0) {
        queue_leave(m, &l->ticket);
        later_free(l);
        return r;
    }
    r = turn_save(m, l->s, DB_FLUSH, err); /* it is promised */
    if (r == 0)
        r = change_copy_out(m, l->s, ret, err);
    if (r == 0 && pthread_create(&maker, NULL, make_later, l) != 0) {
        sandbox_record_free(ret);
        r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no thread for the new sandbox");
    }
    if (r == 0) {
        (void)pthread_detach(maker);
        return 0;
    }
    (void)change_remove(m, l->s, NULL, NULL);
    change_end_creation(m, l->s);
    queue_leave(m, &l->ticket);
    later_free(l);
    return r;
}
