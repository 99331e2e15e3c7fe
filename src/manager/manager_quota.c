/* How much the sandboxes of one key may take together. */
#include "base/error.h"
#include "base/str.h"
#include "manager/manager_internal.h"

struct sums {
    uint64_t count, memory_bytes, disk_bytes, cpu_quota_us;
};

/* What is archived takes a place and disk, but neither memory nor processors. */
static void add(struct sums *sums, const struct sandbox_record *r, bool is_awake) {
    sums->count++;
    sums->disk_bytes += r->disk_bytes + (uint64_t)r->backup_bytes;
    if (!is_awake)
        return;
    sums->memory_bytes += r->memory_bytes;
    sums->cpu_quota_us += r->cpu_quota_us;
}

static struct sums sum_others(const struct manager *m, const struct sandbox *but,
                              const char *owner) {
    const struct program_sums programs = programs_of(m, owner);
    struct sums sums = {.count = programs.count,
                        .memory_bytes = programs.memory_bytes,
                        .cpu_quota_us = programs.cpu_quota_us};
    struct table_rows rows = table_rows_of_owner(m, owner);
    for (size_t i = 0; i < rows.count; i++) {
        const struct sandbox *s = rows.v[i];
        if (s != but)
            add(&sums, &s->record, s->record.state != SANDBOX_ARCHIVED || s->waking);
    }
    return sums;
}

static int refuse(const char *what, const char *limit, const char *option, const struct key *k,
                  struct cay_error *err) {
    error_set(err, CAY_LIMIT_REACHED, "Maximum %s (%s) of key '%s' reached", what, limit, k->name);
    return error_remedy(err, "remove or shrink a sandbox first, or ask for a key with a higher %s",
                        option);
}

static int check(const struct key *k, const struct sums *sums, struct cay_error *err) {
    char text[32];
    if (k->max_sandboxes > 0 && sums->count > (uint64_t)k->max_sandboxes) {
        (void)snprintf(text, sizeof text, "%lld", (long long)k->max_sandboxes);
        return refuse("number of sandboxes", text, "--max-sandboxes", k, err);
    }
    if (k->max_memory_bytes > 0 && sums->memory_bytes > k->max_memory_bytes)
        return refuse("memory", str_bytes(k->max_memory_bytes, text), "--memory", k, err);
    if (k->max_disk_bytes > 0 && sums->disk_bytes > k->max_disk_bytes)
        return refuse("disk", str_bytes(k->max_disk_bytes, text), "--disk", k, err);
    if (k->max_cpu_quota_us > 0 && sums->cpu_quota_us > k->max_cpu_quota_us) {
        (void)snprintf(text, sizeof text, "%g", (double)k->max_cpu_quota_us / 100000);
        return refuse("number of processors", text, "--cpus", k, err);
    }
    return 0;
}

int quota_check(const struct manager *m, const struct sandbox *s,
                const struct sandbox_record *wanted, struct cay_error *err) {
    const struct key *k = wanted->owner[0] == '\0' ? NULL : keys_find(m, wanted->owner);
    if (k == NULL)
        return 0;
    struct sums sums = sum_others(m, s, wanted->owner);
    add(&sums, wanted, true);
    return check(k, &sums, err);
}

uint64_t quota_disk_left(struct manager *m, const struct sandbox *s) {
    uint64_t left = INT64_MAX;
    (void)pthread_mutex_lock(&m->lock);
    const struct key *k = s->record.owner[0] == '\0' ? NULL : keys_find(m, s->record.owner);
    if (k != NULL && k->max_disk_bytes > 0) {
        uint64_t used = sum_others(m, s, s->record.owner).disk_bytes + s->record.disk_bytes;
        left = used < k->max_disk_bytes ? k->max_disk_bytes - used : 0;
    }
    (void)pthread_mutex_unlock(&m->lock);
    return left;
}

int quota_wake(struct manager *m, struct sandbox *s, struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    int r = quota_check(m, s, &s->record, err);
    s->waking = r == 0;
    (void)pthread_mutex_unlock(&m->lock);
    return r;
}
