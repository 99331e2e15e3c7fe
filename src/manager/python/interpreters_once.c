/* Programs in fresh sandboxes of the host image, and those sandboxes made ahead, in which an
 * interpreter has been woken and waits. Each is used once. */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"
#include "egress/control.h"
#include "engine/engine.h"
#include "lib/prepared_wire.h"
#include "lib/python/choice.h"
#include "lib/python/python.h"
#include "manager/python/interpreters_internal.h"

enum {
    QUIET_MS = 2, /* after a program was begun, until one is made: it needs the processor more */
    RETRY_MS = 5000,
};

/* What a throw-away sandbox is, and what commands get there. */
struct once_kind {
    struct sandbox_spec spec;
    char work_dir[PATH_MAX], find_links[PATH_MAX], index_url[1024];
    struct command_defaults defaults;
};

/* With the lock held. */
static void take_kind(const struct interpreters *all, struct once_kind *ret) {
    ret->spec = all->spec;
    (void)snprintf(ret->work_dir, sizeof ret->work_dir, "%s", all->work_dir);
    (void)snprintf(ret->find_links, sizeof ret->find_links, "%s", all->find_links);
    (void)snprintf(ret->index_url, sizeof ret->index_url, "%s", all->index_url);
    ret->defaults = (struct command_defaults){.hostname = "python", .work_dir = ret->work_dir};
}

/* ---- those that wait ---- */

static struct python_box take_at(struct interpreters *all, size_t i) {
    struct python_box box = all->waiting[i];
    all->waiting_count--;
    memmove(&all->waiting[i], &all->waiting[i + 1],
            (all->waiting_count - i) * sizeof all->waiting[0]);
    return box;
}

void once_empty(struct interpreters *all) {
    while (all->waiting_count > 0) {
        struct python_box box = take_at(all, 0);
        (void)python_box_end(all, &box, NULL, NULL); /* nobody waits for its end */
        all->dropped++;
    }
}

static bool is_dead(const struct python_box *box) {
    struct pollfd p = {.fd = box->fd};
    return poll(&p, 1, 0) != 0; /* hung up: nothing else was asked for */
}

/* The oldest that lives, and is of the interpreter that counts now. */
static bool take_waiting(struct interpreters *all, uint64_t made_of, struct python_box *ret) {
    while (all->waiting_count > 0) {
        *ret = take_at(all, 0);
        if (ret->made_of == made_of && !is_dead(ret))
            return true;
        (void)python_box_end(all, ret, NULL, NULL);
        all->dropped++;
    }
    return false;
}

bool once_is_missing(const struct interpreters *all, int64_t *ret_at) {
    int64_t now = clock_ms();
    if (!all->is_used || all->waiting_count >= all->target) {
        *ret_at = 0;
        return false;
    }
    *ret_at = MAX(all->retry_at, all->waiting_count > 0 ? all->asked_at + QUIET_MS : 0);
    return now >= *ret_at;
}

/* What it will find in HOSTNAME is the sandbox's own. */
static int open_waiting(struct interpreters *all, struct once_kind *kind, int frozen,
                        struct python_box *ret, struct cay_error *err) {
    const struct engine_ops *ops = all->options.engine->ops;
    char name[ID_SIZE];
    int r = python_box_open(all, &kind->spec, "", ret, err);
    if (r < 0)
        return r;
    memcpy(name, ret->id, sizeof name);
    if (name[0] == '\0')
        r = ops->once_wait(all->options.engine, ret->tag, name, err);
    kind->defaults.hostname = name;
    if (r == 0)
        r = python_wake(ret->fd, frozen, &kind->defaults, err);
    if (r < 0)
        (void)python_box_end(all, ret, NULL, NULL);
    return r;
}

void once_fill(struct interpreters *all) {
    struct cay_error err = {0};
    _cleanup_(closep) int fd = -1;
    struct python_box box = {.fd = -1};
    uint64_t made_of = 0;
    (void)pthread_mutex_lock(&all->lock);
    struct once_kind kind;
    take_kind(all, &kind);
    uint64_t rules = all->rules;
    int r = frozen_get(all, "", &fd, &made_of, &err);
    bool soon = r < 0 && frozen_next(all) != NULL; /* it is made next */
    (void)pthread_mutex_unlock(&all->lock);
    if (r == 0)
        r = open_waiting(all, &kind, fd, &box, &err);
    (void)pthread_mutex_lock(&all->lock);
    if (r == 0 && rules == all->rules && all->waiting_count < all->target) {
        box.made_of = made_of;
        all->waiting[all->waiting_count++] = box;
    } else if (r == 0) {
        (void)python_box_end(all, &box, NULL, NULL);
    } else if (!soon) {
        all->retry_at = clock_ms() + RETRY_MS;
        log_event(LOG_LEVEL_WARN, "no interpreter waits", "why", "%s", err.message);
    }
    (void)pthread_mutex_unlock(&all->lock);
}

/* ---- for a client who runs his program himself ---- */

static bool is_same(const struct interpreters *all, const struct interpreters_wish *wish) {
    const struct sandbox_spec *a = &all->spec, *b = wish->spec;
    return a->memory_bytes == b->memory_bytes && a->cpu_quota_us == b->cpu_quota_us &&
           a->pids == b->pids && a->disk_bytes == b->disk_bytes && a->profile == b->profile &&
           !b->read_only && b->hostname[0] == '\0' && str_equal(all->work_dir, wish->work_dir);
}

static int find_loan(struct interpreters *all, const struct interpreters_wish *wish,
                     struct interpreters_loan *ret, struct cay_error *why) {
    uint64_t made_of = 0;
    struct python_box box;
    if (wish->preload != prepared_preload((const char *const *)all->preload.v))
        return error_set(why, CAY_UNSUPPORTED, "the daemon preloads other modules");
    all->is_used = true;
    all->asked_at = clock_ms();
    int r = frozen_get(all, "", &ret->fd, &made_of, why);
    if (r < 0 || all->target == 0 || !wish->may_wait || !is_same(all, wish))
        return r;
    ret->waits = take_waiting(all, made_of, &box);
    all->hits += ret->waits;
    all->misses += !ret->waits;
    if (!ret->waits)
        return 0;
    fd_close(&ret->fd);
    ret->fd = box.fd;
    ret->tag = box.tag;
    return 0;
}

int interpreters_lend(struct interpreters *all, const struct interpreters_wish *wish,
                      struct interpreters_loan *ret, struct cay_error *why) {
    *ret = (struct interpreters_loan){.fd = -1};
    (void)pthread_mutex_lock(&all->lock);
    int r = find_loan(all, wish, ret, why);
    (void)pthread_cond_broadcast(&all->changed); /* one may be missing now */
    (void)pthread_mutex_unlock(&all->lock);
    return r;
}

/* ---- a program ---- */

/* What is asked for. */
struct ask {
    const struct cay_python *program;
    const struct cay_exec *exec;
    const struct interpreters_caller *caller;
};

/* What it gets: a sandbox with one that waits, a frozen one, or neither, and why. */
struct share {
    struct python_box box;
    bool waits;
    int warm;
    struct once_kind kind;
};

static bool has_packages(const struct ask *ask) {
    return ask->program->packages != NULL && ask->program->packages[0] != NULL;
}

static bool is_plain(const struct ask *ask) {
    const struct cay_exec *exec = ask->exec;
    return (exec->env == NULL || exec->env[0] == NULL) && exec->work_dir == NULL &&
           exec->user == NULL && ask->caller->network == NULL;
}

static bool env_matters(const struct cay_exec *exec) {
    struct strv env = {.v = (char **)(uintptr_t)exec->env};
    while (exec->env != NULL && exec->env[env.len] != NULL)
        env.len++;
    return python_env_matters(&env);
}

static void take_share(struct interpreters *all, const struct ask *ask, struct share *s,
                       struct cay_error *why) {
    uint64_t made_of = 0;
    all->is_used = true;
    all->asked_at = clock_ms();
    take_kind(all, &s->kind);
    int r = has_packages(ask) ? error_set(why, CAY_UNSUPPORTED, "packages are installed for it")
            : env_matters(ask->exec)
                ? error_set(why, CAY_UNSUPPORTED, "envs change how the interpreter starts")
                : frozen_get(all, "", &s->warm, &made_of, why);
    if (r == 0 && all->target > 0 && is_plain(ask)) {
        s->waits = take_waiting(all, made_of, &s->box);
        all->hits += s->waits;
        all->misses += !s->waits;
    }
    (void)pthread_cond_broadcast(&all->changed); /* one is missing now */
}

static int begin(struct interpreters *all, const struct ask *ask, struct share *s,
                 struct cay_error *why, struct cay_error *err) {
    (void)pthread_mutex_lock(&all->lock);
    bool full = all->running >= INTERPRETERS_RUNNING_MAX;
    if (!full) {
        all->running++;
        take_share(all, ask, s, why);
    }
    (void)pthread_mutex_unlock(&all->lock);
    if (!full)
        return 0;
    error_set(err, CAY_LIMIT_REACHED, "%d programs are running at once", INTERPRETERS_RUNNING_MAX);
    return error_remedy(err, "try again when one has ended, or use sandboxes that stay");
}

/* How it was ended from outside is known once it has gone; nobody waits for one that ended well. */
static int finish(struct interpreters *all, struct share *s, int r, struct cay_python_result *ret,
                  struct cay_error *err) {
    struct cay_error failure = {0};
    bool well = r == 0 && ret->run.exit_code == 0;
    if (python_box_end(all, &s->box, well ? NULL : &ret->run.oom_killed, &failure) < 0 && r < 0)
        *err = failure; /* the launcher knows better why */
    ret->run.tier = tier_name(s->kind.spec.tier);
    return r < 0 ? -(int)err->code : r;
}

/* The folder of wheels, for a sandbox that is made. */
static int add_wheels(const struct share *s, struct cay_python *program, struct sandbox_spec *spec,
                      struct cay_error *err) {
    char text[PATH_MAX + 64];
    program->index_url = s->kind.index_url;
    if (s->kind.find_links[0] == '\0')
        return 0;
    program->find_links = PYTHON_WHEELS;
    (void)snprintf(text, sizeof text, "%s:" PYTHON_WHEELS ":ro", s->kind.find_links);
    return spec_add_mount(spec, text, err);
}

/* The way to the proxy; id names the list there. */
static int open_network(const struct interpreters *all, const struct interpreters_caller *caller,
                        const char *id, int *ret, struct cay_error *err) {
    const struct interpreters_options *o = &all->options;
    int pair[2];
    if (o->network == NULL || !o->has_once) {
        error_set(err, CAY_UNSUPPORTED, "programs in fresh sandboxes have no network here");
        return error_remedy(err, "make a sandbox with a network, and run it there");
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making a socket");
    const struct egress_wish wish = {.id = id,
                                     .network = caller->network,
                                     .owner = caller->owner,
                                     .owner_max = caller->connections_max,
                                     .door = pair[1]};
    int r = o->network->set(o->user, &wish, err);
    (void)close(pair[1]);
    if (r < 0)
        (void)close(pair[0]);
    else
        *ret = pair[0];
    return r;
}

static int run_in(struct interpreters *all, struct share *s, const struct ask *ask,
                  struct cay_python_result *ret, struct cay_error *err) {
    struct cay_python program = *ask->program;
    _cleanup_(spec_free_mounts) struct sandbox_spec spec = s->kind.spec;
    program.waits = s->waits;
    program.warm = s->waits ? 0 : s->warm;
    *ret = (struct cay_python_result){.run = {.exit_code = 125}};
    int r = has_packages(ask) ? add_wheels(s, &program, &spec, err) : 0;
    if (r == 0 && !s->waits)
        r = python_box_open(all, &spec, "", &s->box, err);
    if (r < 0)
        return r;
    r = python_exec(&s->box.fd, &program, ask->exec, &s->kind.defaults, ret, err);
    return finish(all, s, r, ret, err);
}

/* As run_in, with the network that was asked for, for as long as it runs. */
static int run_reaching(struct interpreters *all, struct share *s, const struct ask *ask,
                        struct cay_python_result *ret, struct cay_error *err) {
    char id[ID_SIZE];
    if (ask->caller->network == NULL)
        return run_in(all, s, ask, ret, err);
    _cleanup_(closep) int door = -1;
    int r = id_new(id, err);
    if (r == 0)
        r = open_network(all, ask->caller, id, &door, err);
    if (r < 0)
        return r;
    s->kind.defaults.door = door;
    r = run_in(all, s, ask, ret, err);
    all->options.network->drop(all->options.user, id);
    return r;
}

static bool has_hung_up(const struct interpreters_caller *caller) {
    struct pollfd p = {.fd = caller->socket > 0 ? caller->socket : -1, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0;
}

int interpreters_run(struct interpreters *all, const struct cay_python *program,
                     const struct cay_exec *exec, const struct interpreters_caller *caller,
                     struct cay_python_result *ret, char why_cold[static 200],
                     struct cay_error *err) {
    struct cay_error why = {0};
    struct share s = {.box = {.fd = -1}, .warm = -1};
    const struct ask ask = {program, exec, caller};
    *ret = (struct cay_python_result){.run = {.exit_code = 125}};
    int r = begin(all, &ask, &s, &why, err);
    if (r < 0)
        return r;
    s.kind.defaults.client = caller->socket;
    s.kind.defaults.more = caller->more;
    s.kind.defaults.more_arg = caller->more_arg;
    r = run_reaching(all, &s, &ask, ret, err);
    if (r == -CAY_UNAVAILABLE && ret->warm && ret->version == NULL && !has_hung_up(caller)) {
        /* Nothing was run: what was frozen does not fit any more. */
        why = *err;
        (void)pthread_mutex_lock(&all->lock);
        frozen_drop(all, "");
        (void)pthread_mutex_unlock(&all->lock);
        cay_python_result_free(ret);
        fd_close(&s.warm);
        s.waits = false;
        r = run_reaching(all, &s, &ask, ret, err);
    }
    fd_close(&s.warm);
    (void)snprintf(why_cold, 200, "%.199s", ret->warm ? "" : why.message);
    (void)pthread_mutex_lock(&all->lock);
    all->running--;
    (void)pthread_mutex_unlock(&all->lock);
    return r;
}
