/* Programs in throw-away sandboxes (POST /api/cay/python) count against the budget of their key as
 * its persistent sandboxes do, and no key can take all of their places. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "manager/manager_internal.h"
#include "manager/program.h"

/* The programs of one key; the manager has a list of those that run any. */
struct program_owner {
    char id[OWNER_SIZE];
    struct program_sums sums;
    struct program_owner *next;
};

static struct program_owner *find(const struct manager *m, const char *owner) {
    struct program_owner *o = m->program_owners;
    while (o != NULL && strcmp(o->id, owner) != 0)
        o = o->next;
    return o;
}

struct program_sums programs_of(const struct manager *m, const char *owner) {
    const struct program_owner *o = find(m, owner);
    return o != NULL ? o->sums : (struct program_sums){0};
}

/* A key may have as many as would be left: then another one always finds some. */
static int check_share(const struct manager *m, const char *owner, struct cay_error *err) {
    uint64_t own = programs_of(m, owner).count;
    uint64_t left = m->programs < PROGRAMS_MAX ? PROGRAMS_MAX - m->programs : 0;
    if (left > 0 && (owner[0] == '\0' || own < left))
        return 0;
    error_set(err, CAY_LIMIT_REACHED, "%llu programs of this key are running, and %llu in all",
              (unsigned long long)own, (unsigned long long)m->programs);
    return error_remedy(err, "try again when one has ended, or use a persistent sandbox");
}

static int admit(struct manager *m, const struct sandbox_record *program, struct cay_error *err) {
    int r = check_share(m, program->owner, err);
    if (r == 0)
        r = quota_check(m, NULL, program, err);
    if (r < 0)
        return r;
    struct program_owner *o = find(m, program->owner);
    if (o == NULL) {
        o = calloc(1, sizeof *o);
        if (o == NULL)
            return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
        memcpy(o->id, program->owner, sizeof o->id);
        o->next = m->program_owners;
        m->program_owners = o;
    }
    m->programs++;
    o->sums.count++;
    o->sums.memory_bytes += program->memory_bytes;
    o->sums.cpu_quota_us += program->cpu_quota_us;
    return 0;
}

static struct sandbox_record as_record(const struct program_use *use) {
    struct sandbox_record r = {.memory_bytes = use->memory_bytes,
                               .cpu_quota_us = use->cpu_quota_us};
    memcpy(r.owner, use->owner, sizeof r.owner);
    return r;
}

int manager_program_begin(struct manager *m, const struct program_use *use, struct cay_error *err) {
    const struct sandbox_record program = as_record(use);
    (void)pthread_mutex_lock(&m->lock);
    int r = admit(m, &program, err);
    (void)pthread_mutex_unlock(&m->lock);
    return r;
}

void manager_program_end(struct manager *m, const struct program_use *use) {
    (void)pthread_mutex_lock(&m->lock);
    struct program_owner **at = &m->program_owners;
    while (*at != NULL && strcmp((*at)->id, use->owner) != 0)
        at = &(*at)->next;
    struct program_owner *o = *at;
    m->programs--;
    o->sums.memory_bytes -= use->memory_bytes;
    o->sums.cpu_quota_us -= use->cpu_quota_us;
    if (--o->sums.count == 0) {
        *at = o->next;
        free(o);
    }
    (void)pthread_mutex_unlock(&m->lock);
}
