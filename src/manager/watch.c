#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/auto.h"
#include "base/error.h"
#include "manager/internal.h"

struct watch {
    struct watch *next;
    int fd; /* an eventfd */
    bool sees_all;
    char owner[OWNER_SIZE];
    struct budget_charge charge;
    struct watch_news *first, **last;
    size_t count;
};

static void watch_free(struct watch *w) {
    while (w->first != NULL) {
        struct watch_news *next = w->first->next;
        watch_news_free(w->first);
        w->first = next;
    }
    fd_close(&w->fd);
    free(w);
}

int manager_watch(struct manager *m, const struct key *caller, struct watch **ret,
                  struct cay_error *err) {
    struct watch *w = calloc(1, sizeof *w);
    if (w == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->fd < 0) {
        int r = error_errno(err, "making an event descriptor");
        free(w);
        return r;
    }
    w->last = &w->first;
    w->sees_all = key_sees_all(caller);
    memcpy(w->owner, key_owner(caller), sizeof w->owner);
    memcpy(w->charge.owner, caller->id, sizeof w->charge.owner);
    w->charge.amount[BUDGET_VIEWERS] = 1;
    (void)pthread_mutex_lock(&m->lock);
    int r = table_check_open(m, err);
    if (r == 0)
        r = budget_admit(m, &w->charge, err);
    if (r == 0) {
        w->next = m->watches;
        m->watches = w;
    }
    (void)pthread_mutex_unlock(&m->lock);
    if (r < 0)
        watch_free(w);
    else
        *ret = w;
    return r;
}

void manager_unwatch(struct manager *m, struct watch *w) {
    if (w == NULL)
        return;
    (void)pthread_mutex_lock(&m->lock);
    struct watch **at = &m->watches;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    budget_release(m, &w->charge);
    (void)pthread_mutex_unlock(&m->lock);
    watch_free(w);
}

int watch_fd(const struct watch *w) {
    return w->fd;
}

void watch_news_free(struct watch_news *n) {
    if (n == NULL)
        return;
    sandbox_record_free(&n->record);
    free(n);
}

static struct watch_news *take_first(struct watch *w) {
    struct watch_news *n = w->first;
    if (n == NULL)
        return NULL;
    w->first = n->next;
    if (w->first == NULL)
        w->last = &w->first;
    w->count--;
    return n;
}

struct watch_news *watch_take(struct manager *m, struct watch *w) {
    eventfd_t count;
    (void)pthread_mutex_lock(&m->lock);
    struct watch_news *n = take_first(w);
    if (w->first == NULL)
        (void)eventfd_read(w->fd, &count); /* nothing in it is fine */
    (void)pthread_mutex_unlock(&m->lock);
    return n;
}

bool watch_is_over(struct manager *m) {
    (void)pthread_mutex_lock(&m->lock);
    bool is_over = m->closing;
    (void)pthread_mutex_unlock(&m->lock);
    return is_over;
}

void watch_wake(struct manager *m) {
    for (struct watch *w = m->watches; w != NULL; w = w->next)
        (void)eventfd_write(w->fd, 1); /* full means that it can be read from */
}

static struct watch_news *make_news(const struct sandbox_record *r, const char *old_state,
                                    const char *new_state) {
    struct watch_news *n = calloc(1, sizeof *n);
    if (n == NULL || sandbox_record_copy(r, &n->record) < 0) {
        free(n);
        return NULL;
    }
    n->old_state = old_state;
    n->new_state = new_state;
    return n;
}

/* Without memory there are no news: whoever waits for a state asks for it now and then too. */
void watch_report(struct manager *m, const struct sandbox_record *r, const char *old_state,
                  const char *new_state) {
    for (struct watch *w = m->watches; w != NULL; w = w->next) {
        if (r->pooled || (!w->sees_all && !str_equal(r->owner, w->owner)))
            continue;
        struct watch_news *n = make_news(r, old_state, new_state);
        if (n == NULL)
            continue;
        if (w->count == WATCH_QUEUE_MAX)
            watch_news_free(take_first(w));
        *w->last = n;
        w->last = &n->next;
        w->count++;
        (void)eventfd_write(w->fd, 1); /* full means that it can be read from */
    }
}
