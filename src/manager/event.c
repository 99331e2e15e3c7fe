/* What became of sandboxes, for those who ask. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "manager/internal.h"

struct events {
    struct manager_event *v;
    size_t len, cap;
};

static int add(void *user, const struct db_event *e, struct cay_error *err) {
    struct events *all = user;
    if (all->len == all->cap) {
        size_t cap = MAX(2 * all->cap, (size_t)16);
        struct manager_event *v = reallocarray(all->v, cap, sizeof *v);
        if (v == NULL)
            return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
        all->v = v;
        all->cap = cap;
    }
    struct manager_event *to = &all->v[all->len++];
    *to = (struct manager_event){.number = e->number, .time_ms = e->time_ms};
    (void)str_escape(to->state, sizeof to->state, e->state);
    (void)str_escape(to->text, sizeof to->text, e->text);
    return 0;
}

int manager_events(struct manager *m, const char *who, int64_t after, struct manager_event **ret,
                   size_t *ret_count, struct cay_error *err) {
    struct sandbox *s = NULL;
    char id[ID_SIZE] = "";
    struct events all = {0};
    (void)pthread_mutex_lock(&m->lock);
    int r = table_find(m, who, &s, err);
    if (s != NULL)
        memcpy(id, s->record.id, sizeof id);
    (void)pthread_mutex_unlock(&m->lock);
    if (r == 0)
        r = db_event_list(m->db, id, after, add, &all, err);
    if (r < 0) {
        free(all.v);
        return r;
    }
    *ret = all.v;
    *ret_count = all.len;
    return 0;
}

void event_note(struct manager *m, const struct sandbox *s, const char *text) {
    struct cay_error err;
    if (db_event_add(m->db, s->record.id, clock_wall_ms(), text, &err) < 0)
        log_event(LOG_LEVEL_WARN, "event not recorded", "why", "%s: %s", s->record.id, err.message);
}

void manager_note_command(struct manager *m, const char *who, const char *why) {
    struct sandbox *s = NULL;
    (void)pthread_mutex_lock(&m->lock);
    if (table_find(m, who, &s, NULL) == 0)
        (void)sandbox_ref(s);
    (void)pthread_mutex_unlock(&m->lock);
    if (s == NULL)
        return; /* removed meanwhile, with its events */
    char text[SANDBOX_TEXT_SIZE];
    (void)snprintf(text, sizeof text, "a command was ended: %s", why);
    log_event(LOG_LEVEL_INFO, text, "sandbox", "%s", s->record.id);
    event_note(m, s, text);
    (void)pthread_mutex_lock(&m->lock);
    sandbox_unref(s);
    (void)pthread_mutex_unlock(&m->lock);
}
