#include "manager/access/budget.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "manager/internal.h"

enum { CPU_PERIOD_US = 100000 };

#define LIMIT(member) offsetof(struct key, member)

const struct budget_row budget_table[BUDGET_ITEMS] = {
    [BUDGET_SANDBOXES] = {"sandboxes", "maxSandboxes", "number of sandboxes", "--max-sandboxes",
                          BUDGET_COUNT, LIMIT(max_sandboxes)},
    [BUDGET_VOLUMES] = {"volumes", "maxVolumes", "number of volumes", "--max-volumes", BUDGET_COUNT,
                        LIMIT(max_volumes)},
    [BUDGET_MEMORY] = {"memory", "maxMemory", "memory", "--memory", BUDGET_BYTES,
                       LIMIT(max_memory_bytes), .is_of_the_host = true},
    [BUDGET_CPUS] = {"cpus", "maxCpus", "number of processors", "--cpus", BUDGET_QUOTA,
                     LIMIT(max_cpu_quota_us), .is_of_the_host = true},
    [BUDGET_PIDS] = {"pids", "maxPids", "number of processes", "--pids", BUDGET_COUNT,
                     LIMIT(max_pids), .is_of_the_host = true},
    [BUDGET_DISK] = {"disk", "maxDisk", "disk", "--disk", BUDGET_BYTES, LIMIT(max_disk_bytes)},
    [BUDGET_DISK_SANDBOXES] = {.name = "diskSandboxes", .unit = BUDGET_BYTES},
    [BUDGET_DISK_VOLUMES] = {.name = "diskVolumes", .unit = BUDGET_BYTES},
    [BUDGET_DISK_BACKUPS] = {.name = "diskBackups", .unit = BUDGET_BYTES},
    [BUDGET_DISK_ARCHIVES] = {.name = "diskArchives", .unit = BUDGET_BYTES},
    [BUDGET_DISK_IMAGES] = {.name = "diskImages", .unit = BUDGET_BYTES},
    [BUDGET_DISK_UPLOADS] = {.name = "diskUploads", .unit = BUDGET_BYTES},
    [BUDGET_DISK_OUTPUTS] = {.name = "diskOutputs", .unit = BUDGET_BYTES},
    [BUDGET_WAITING] = {"waiting", "maxWaiting", "number of creations that wait", "--max-waiting",
                        BUDGET_COUNT, LIMIT(max_waiting)},
    [BUDGET_COMMANDS] = {"commands", "maxCommands", "number of concurrent commands",
                         "--max-commands", BUDGET_COUNT, LIMIT(max_commands), .pool = 2048},
    [BUDGET_PYTHON] = {"pythonRuns", "maxPythonRuns", "number of concurrent Python programs",
                       "--max-python-runs", BUDGET_COUNT, LIMIT(max_python_runs), .pool = 64},
    [BUDGET_PULLS] = {"pulls", "maxPulls", "number of concurrent pulls", "--max-pulls",
                      BUDGET_COUNT, LIMIT(max_pulls), .pool = 32, .each = 8},
    [BUDGET_BUILDS] = {"builds", "maxBuilds", "number of unfinished builds", "--max-builds",
                       BUDGET_COUNT, LIMIT(max_builds), .pool = 24, .each = 8},
    [BUDGET_CONNECTIONS] = {"connections", "maxConnections", "number of connections",
                            "--max-connections", BUDGET_COUNT, LIMIT(max_connections),
                            .pool = 1024},
    [BUDGET_PROXY] = {"proxyConnections", "maxProxyConnections",
                      "number of connections through the proxy", "--max-proxy-connections",
                      BUDGET_COUNT, LIMIT(max_proxy_connections), .pool = 1024},
    [BUDGET_VIEWERS] = {"eventViewers", "maxEventViewers", "number of event viewers",
                        "--max-event-viewers", BUDGET_COUNT, LIMIT(max_event_viewers), .pool = 512},
};

/* All limits are 64 bits wide and not negative; some of them have a sign. */
uint64_t budget_limit(const struct key *k, enum budget_item item) {
    uint64_t limit;
    if (budget_is_part(item))
        return 0;
    memcpy(&limit, (const char *)k + budget_table[item].limit, sizeof limit);
    return limit;
}

void budget_set_limit(struct key *k, enum budget_item item, uint64_t limit) {
    if (budget_is_part(item))
        return;
    memcpy((char *)k + budget_table[item].limit, &limit, sizeof limit);
}

/* ---- accounts ---- */

/* What one key holds, or all keys of an organisation together. It exists while that is more than
 * nothing. */
struct budget_account {
    char owner[OWNER_SIZE];
    char organization[OWNER_SIZE]; /* what the key holds is in that account, too; "": in none */
    bool is_sum;                   /* of the keys of an organisation */
    uint64_t used[BUDGET_ITEMS], running[BUDGET_ITEMS];
    struct budget_account *next;
};

static size_t bucket_of(const char *owner) {
    uint32_t sum = 2166136261; /* FNV-1a; ids of keys are random */
    for (const char *c = owner; *c != '\0'; c++)
        sum = (sum ^ (unsigned char)*c) * 16777619;
    return sum % BUDGET_BUCKETS;
}

static struct budget_account **place_of(struct manager *m, const char *owner) {
    struct budget_account **at = &m->budget.buckets[bucket_of(owner)];
    while (*at != NULL && strcmp((*at)->owner, owner) != 0)
        at = &(*at)->next;
    return at;
}

static const struct budget_account *account_of(const struct manager *m, const char *owner) {
    static const struct budget_account nothing;
    const struct budget_account *a = m->budget.buckets[bucket_of(owner)];
    while (a != NULL && strcmp(a->owner, owner) != 0)
        a = a->next;
    return a != NULL ? a : &nothing;
}

uint64_t budget_used(const struct manager *m, const char *owner, enum budget_item item) {
    return account_of(m, owner)->used[item];
}

static bool is_empty(const struct budget_account *a) {
    for (size_t i = 0; i < BUDGET_ITEMS; i++)
        if (a->used[i] > 0)
            return false;
    return true;
}

/* The organisation that pays as well; "": none. */
static const char *organization_of(const struct manager *m, const struct budget_charge *c) {
    if (c->organization[0] != '\0' || c->owner[0] == '\0')
        return c->organization;
    const struct key *k = keys_find(m, c->owner);
    return k == NULL ? "" : k->organization;
}

/* The owner's account, made if there is none; NULL without memory. */
static struct budget_account *open_account(struct manager *m, const char *owner) {
    struct budget_account **at = place_of(m, owner);
    if (*at != NULL)
        return *at;
    *at = calloc(1, sizeof **at);
    if (*at != NULL)
        (void)snprintf((*at)->owner, sizeof(*at)->owner, "%s", owner); /* ids fit */
    return *at;
}

static void close_if_empty(struct manager *m, const char *owner) {
    struct budget_account **at = place_of(m, owner), *a = *at;
    if (a == NULL || !is_empty(a))
        return;
    *at = a->next;
    free(a);
}

static void add_to(struct budget_account *a, const struct budget_charge *c) {
    for (size_t i = 0; i < BUDGET_ITEMS; i++) {
        a->used[i] += c->amount[i];
        a->running[i] += c->runs ? c->amount[i] : 0;
    }
}

static void take_from(struct budget_account *a, const struct budget_charge *c) {
    for (size_t i = 0; i < BUDGET_ITEMS; i++) {
        a->used[i] -= c->amount[i];
        a->running[i] -= c->runs ? c->amount[i] : 0;
    }
}

int budget_charge(struct manager *m, const struct budget_charge *c, struct cay_error *err) {
    const char *organization = organization_of(m, c);
    struct budget_account *sum = organization[0] == '\0' ? NULL : open_account(m, organization);
    struct budget_account *a = open_account(m, c->owner);
    if (a == NULL || (sum == NULL && organization[0] != '\0')) {
        close_if_empty(m, c->owner);
        close_if_empty(m, organization);
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    add_to(a, c);
    if (sum != NULL) {
        add_to(sum, c);
        sum->is_sum = true;
        memcpy(a->organization, sum->owner, sizeof a->organization);
    }
    for (size_t i = 0; i < BUDGET_ITEMS; i++) {
        m->budget.total[i] += c->amount[i];
        m->budget.running[i] += c->runs ? c->amount[i] : 0;
    }
    return 0;
}

/* The account knows its organisation also when the key was removed. */
void budget_release(struct manager *m, const struct budget_charge *c) {
    struct budget_account *a = *place_of(m, c->owner);
    if (a == NULL)
        return;
    char organization[OWNER_SIZE];
    memcpy(organization, a->organization, sizeof organization);
    take_from(a, c);
    if (organization[0] != '\0') {
        take_from(*place_of(m, organization), c);
        close_if_empty(m, organization);
    }
    close_if_empty(m, c->owner);
    for (size_t i = 0; i < BUDGET_ITEMS; i++) {
        m->budget.total[i] -= c->amount[i];
        m->budget.running[i] -= c->runs ? c->amount[i] : 0;
    }
}

struct budget_charge budget_charge_for(const char *owner, const char *made_by) {
    struct budget_charge c = {0};
    (void)snprintf(c.owner, sizeof c.owner, "%s", made_by[0] != '\0' ? made_by : owner);
    if (made_by[0] != '\0')
        (void)snprintf(c.organization, sizeof c.organization, "%s", owner); /* ids fit */
    return c;
}

void budget_add_disk(struct budget_charge *c, enum budget_item part, uint64_t bytes) {
    c->amount[part] += bytes;
    c->amount[BUDGET_DISK] += bytes;
}

void budget_free(struct manager *m) {
    disk_free(m);
    for (size_t i = 0; i < BUDGET_BUCKETS; i++)
        while (m->budget.buckets[i] != NULL) {
            struct budget_account *next = m->budget.buckets[i]->next;
            free(m->budget.buckets[i]);
            m->budget.buckets[i] = next;
        }
}

/* ---- the key's own limits ---- */

static const char *show(enum budget_unit unit, uint64_t amount, char out[static 32]) {
    if (unit == BUDGET_BYTES)
        return str_bytes(amount, out);
    if (unit == BUDGET_QUOTA)
        (void)snprintf(out, 32, "%g", (double)amount / CPU_PERIOD_US);
    else
        (void)snprintf(out, 32, "%llu", (unsigned long long)amount);
    return out;
}

static int refuse_limit(const struct budget_row *row, const struct key *k, uint64_t limit,
                        struct cay_error *err) {
    char text[32];
    error_set(err, CAY_LIMIT_REACHED, "Maximum %s (%s) of %s '%s' reached", row->what,
              show(row->unit, limit, text), k->is_organization ? "organisation" : "key", k->name);
    error_try_later(err);
    if (row == &budget_table[BUDGET_DISK])
        return error_remedy(err, "remove a sandbox, volume, image or snapshot first, or ask for a "
                                 "higher --disk");
    if (row == &budget_table[BUDGET_WAITING])
        return error_remedy(err, "wait until one was made, or ask for a higher --max-waiting");
    if (row->pool > 0)
        return error_remedy(err, "wait until one has ended, or ask for a higher %s", row->option);
    return error_remedy(err, "remove or shrink a sandbox first, or ask for a higher %s",
                        row->option);
}

int budget_refuse(const struct key *k, enum budget_item item, struct cay_error *err) {
    return refuse_limit(&budget_table[item], k, budget_limit(k, item), err);
}

static int refuse_share(const struct budget_row *row, uint64_t own, struct cay_error *err) {
    const char *what = str_starts(row->what, "number of ") ? row->what + 10 : row->what;
    error_set(err, CAY_LIMIT_REACHED,
              "this key has %llu of the %llu %s that all keys share, and gets no more now",
              (unsigned long long)own, (unsigned long long)row->pool, what);
    error_try_later(err);
    return error_remedy(err, "wait until one has ended");
}

/* A key may hold as many as would be left, so that another one always finds some. */
static bool exceeds_share(const struct budget_row *row, bool is_bound, uint64_t total,
                          uint64_t own) {
    if (total > row->pool)
        return true;
    return is_bound && (own > row->pool - total + 1 || (row->each > 0 && own > row->each));
}

/* ---- the host ---- */

static uint64_t less(uint64_t all, uint64_t reserve) {
    return all > reserve ? all - reserve : 0;
}

/* What one sandbox may have at most. */
static uint64_t host_rest(const struct manager *m, enum budget_item item) {
    const struct manager_host_limits *l = &m->limits.host;
    uint64_t memory = m->host.memory_bytes;
    uint64_t share =
        l->memory_reserve_percent == 0 ? UINT64_MAX : memory / 100 * l->memory_reserve_percent;
    switch (item) {
    case BUDGET_MEMORY:
        return less(memory, MIN(share, l->memory_reserve_bytes));
    case BUDGET_CPUS:
        return (uint64_t)m->host.cpus * CPU_PERIOD_US;
    default:
        return less(m->host.pids, l->pids_reserve);
    }
}

/* What all of them may have together; UINT64_MAX: that is not checked. */
static uint64_t host_sum(const struct manager *m, enum budget_item item) {
    const struct manager_host_limits *l = &m->limits.host;
    double factor = item == BUDGET_MEMORY ? l->memory_overcommit
                    : item == BUDGET_CPUS ? l->cpu_overcommit
                                          : l->pids_overcommit;
    return factor <= 0 ? UINT64_MAX : (uint64_t)((double)host_rest(m, item) * factor);
}

static const char *const host_settings[BUDGET_ITEMS] = {[BUDGET_MEMORY] = "memory_reserve",
                                                        [BUDGET_CPUS] = "the processors",
                                                        [BUDGET_PIDS] = "pids_reserve"};
static const char *const host_factors[BUDGET_ITEMS] = {[BUDGET_MEMORY] = "memory_overcommit",
                                                       [BUDGET_CPUS] = "cpu_overcommit",
                                                       [BUDGET_PIDS] = "pids_overcommit"};

static int refuse_single(enum budget_item item, uint64_t amount, uint64_t rest,
                         struct cay_error *err) {
    const struct budget_row *row = &budget_table[item];
    char want[32], have[32];
    error_set(err, CAY_INVALID_ARGUMENT,
              "%s %s is more than a sandbox can have on this host: %s, without the reserve",
              row->name, show(row->unit, amount, want), show(row->unit, rest, have));
    return error_remedy(err, "ask for at most %s; the reserve is %s in the section [manager]", have,
                        host_settings[item]);
}

/* The sums are not told: they are what others do. */
static int refuse_sum(enum budget_item item, struct cay_error *err) {
    error_set(err, CAY_RESOURCE_EXHAUSTED,
              "the share of this key in the host's %s is used up by sandboxes that run",
              budget_table[item].name);
    return error_remedy(err,
                        "stop or shrink one first, or ask whoever runs the daemon: %s in the "
                        "section [manager]",
                        host_factors[item]);
}

/* One change of what an owner holds of an item. */
struct step {
    enum budget_item item;
    const struct key *key; /* NULL: of whoever runs the daemon */
    bool is_bound;         /* by shares and sums */
    uint64_t amount;       /* wanted */
    uint64_t held, ran;    /* of that its owner has already, and the part of it that runs */
    uint64_t ran_for_all;  /* the same, whoever's it is: a pooled sandbox changes hands */
};

static int check_host(const struct manager *m, const struct step *s, const struct budget_account *a,
                      struct cay_error *err) {
    uint64_t rest = host_rest(m, s->item), most = host_sum(m, s->item);
    if (s->amount > rest)
        return refuse_single(s->item, s->amount, rest, err);
    if (!s->is_bound || most == UINT64_MAX)
        return 0;
    uint64_t total = m->budget.running[s->item] - s->ran_for_all + s->amount;
    uint64_t own = a->running[s->item] - s->ran + s->amount;
    return total > most || own > most - total + s->amount - s->ran ? refuse_sum(s->item, err) : 0;
}

/* ---- admitting ---- */

static int check_item(const struct manager *m, const struct step *s, const struct budget_account *a,
                      bool runs, struct cay_error *err) {
    const struct budget_row *row = &budget_table[s->item];
    uint64_t limit = s->key == NULL ? 0 : budget_limit(s->key, s->item);
    uint64_t used = a->used[s->item] - s->held + s->amount;
    if (s->amount > s->held && limit > 0 && used > limit)
        return refuse_limit(row, s->key, limit, err);
    if (s->amount > 0 && row->pool > 0 &&
        exceeds_share(row, s->is_bound, m->budget.total[s->item] + s->amount, used))
        return refuse_share(row, used - s->amount, err);
    if (runs && row->is_of_the_host && s->amount > s->ran)
        return check_host(m, s, a, err);
    return 0;
}

/* The limits of an organisation hold for what its keys hold together; shares and the host are for
 * each key. */
static int check_organization(const struct manager *m, const char *id,
                              const struct budget_charge *wanted,
                              const struct budget_charge *before, struct cay_error *err) {
    const struct key *k = id[0] == '\0' ? NULL : keys_find(m, id);
    const struct budget_account *a = account_of(m, id);
    bool is_own = k != NULL && str_equal(organization_of(m, before), id);
    for (enum budget_item i = 0; k != NULL && i < BUDGET_ITEMS; i++) {
        uint64_t limit = budget_limit(k, i), held = is_own ? before->amount[i] : 0;
        if (limit > 0 && wanted->amount[i] > held && a->used[i] - held + wanted->amount[i] > limit)
            return refuse_limit(&budget_table[i], k, limit, err);
    }
    return 0;
}

int budget_check(const struct manager *m, const struct budget_charge *wanted,
                 const struct budget_charge *held, struct cay_error *err) {
    static const struct budget_charge nothing;
    const struct budget_account *a = account_of(m, wanted->owner);
    const struct key *k = wanted->owner[0] == '\0' ? NULL : keys_find(m, wanted->owner);
    const struct budget_charge *before = held != NULL ? held : &nothing;
    const char *organization = organization_of(m, wanted);
    bool is_own = strcmp(before->owner, wanted->owner) == 0;
    int r = check_organization(m, organization, wanted, before, err);
    for (enum budget_item i = 0; r == 0 && i < BUDGET_ITEMS; i++) {
        uint64_t ran = before->runs ? before->amount[i] : 0;
        const struct step step = {.item = i,
                                  .key = k,
                                  .is_bound =
                                      k != NULL ? !key_sees_all(k) : organization[0] != '\0',
                                  .amount = wanted->amount[i],
                                  .held = is_own ? before->amount[i] : 0,
                                  .ran = is_own ? ran : 0,
                                  .ran_for_all = ran};
        r = check_item(m, &step, a, wanted->runs, err);
    }
    return r;
}

int budget_admit(struct manager *m, const struct budget_charge *c, struct cay_error *err) {
    int r = budget_check(m, c, NULL, err);
    return r < 0 ? r : budget_charge(m, c, err);
}

int manager_budget_admit(struct manager *m, const struct budget_charge *c, struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    int r = budget_admit(m, c, err);
    (void)pthread_mutex_unlock(&m->lock);
    return r;
}

void manager_budget_release(struct manager *m, const struct budget_charge *c) {
    (void)pthread_mutex_lock(&m->lock);
    budget_release(m, c);
    (void)pthread_mutex_unlock(&m->lock);
}

static struct budget_charge one_of(const char *owner, enum budget_item item) {
    struct budget_charge c = {0};
    (void)snprintf(c.owner, sizeof c.owner, "%s", owner); /* ids fit */
    c.amount[item] = 1;
    return c;
}

int manager_budget_take(struct manager *m, const char *owner, enum budget_item item,
                        struct cay_error *err) {
    const struct budget_charge c = one_of(owner, item);
    return manager_budget_admit(m, &c, err);
}

void manager_budget_give(struct manager *m, const char *owner, enum budget_item item) {
    const struct budget_charge c = one_of(owner, item);
    manager_budget_release(m, &c);
}

uint64_t manager_budget_limit(struct manager *m, const char *owner, enum budget_item item) {
    (void)pthread_mutex_lock(&m->lock);
    const struct key *k = owner[0] == '\0' ? NULL : keys_find(m, owner);
    const struct key *org =
        k == NULL || k->organization[0] == '\0' ? NULL : keys_find(m, k->organization);
    uint64_t limit = k == NULL ? 0 : budget_limit(k, item);
    uint64_t all = org == NULL ? 0 : budget_limit(org, item);
    (void)pthread_mutex_unlock(&m->lock);
    return limit == 0 || (all > 0 && all < limit) ? all : limit;
}

static void set_used(struct manager *m, const char *owner, enum budget_item item, uint64_t count) {
    struct budget_charge c = one_of(owner, item);
    uint64_t before = budget_used(m, owner, item);
    c.amount[item] = count > before ? count - before : before - count;
    if (count < before)
        budget_release(m, &c);
    else if (count > before)
        (void)budget_charge(m, &c, NULL); /* without memory it is noted the next time */
}

void manager_budget_note(struct manager *m, const char *owner, enum budget_item item,
                         uint64_t count) {
    (void)pthread_mutex_lock(&m->lock);
    if (count == 0 || owner[0] == '\0' || keys_find(m, owner) != NULL)
        set_used(m, owner, item, count);
    (void)pthread_mutex_unlock(&m->lock);
}

/* A release may close accounts: the search begins again. */
static struct budget_account *find_holder(struct manager *m, enum budget_item item) {
    for (size_t i = 0; i < BUDGET_BUCKETS; i++)
        for (struct budget_account *a = m->budget.buckets[i]; a != NULL; a = a->next)
            if (a->used[item] > 0 && !a->is_sum)
                return a;
    return NULL;
}

void manager_budget_forget(struct manager *m, enum budget_item item) {
    struct budget_account *a;
    (void)pthread_mutex_lock(&m->lock);
    while ((a = find_holder(m, item)) != NULL) {
        char owner[OWNER_SIZE];
        memcpy(owner, a->owner, sizeof owner);
        set_used(m, owner, item, 0);
    }
    (void)pthread_mutex_unlock(&m->lock);
}

/* ---- what is left ---- */

static uint64_t left_of(const struct manager *m, const struct key *k,
                        const struct budget_account *a, enum budget_item item) {
    const struct budget_row *row = &budget_table[item];
    uint64_t limit = budget_limit(k, item), left = UINT64_MAX;
    bool is_bound = k->id[0] != '\0' && !key_sees_all(k) && !k->is_organization;
    uint64_t pool = row->pool > 0                     ? row->pool
                    : row->is_of_the_host && is_bound ? host_sum(m, item)
                                                      : UINT64_MAX;
    uint64_t total = row->pool > 0 ? m->budget.total[item] : m->budget.running[item];
    uint64_t own = row->pool > 0 ? a->used[item] : a->running[item];
    if (limit > 0)
        left = less(limit, a->used[item]);
    if (pool != UINT64_MAX)
        left = MIN(left, less(less(pool, total), is_bound ? own : 0));
    if (row->each > 0 && is_bound)
        left = MIN(left, less(row->each, own));
    const struct key *org = k->organization[0] == '\0' ? NULL : keys_find(m, k->organization);
    uint64_t all = org == NULL ? 0 : budget_limit(org, item);
    return all == 0 ? left : MIN(left, less(all, budget_used(m, org->id, item)));
}

void manager_budget_usage(struct manager *m, const struct key *k,
                          struct budget_usage ret[static BUDGET_ITEMS]) {
    (void)pthread_mutex_lock(&m->lock);
    const struct budget_account *a = account_of(m, k->id);
    for (enum budget_item i = 0; i < BUDGET_ITEMS; i++)
        ret[i] = (struct budget_usage){
            .used = a->used[i], .limit = budget_limit(k, i), .left = left_of(m, k, a, i)};
    (void)pthread_mutex_unlock(&m->lock);
}
