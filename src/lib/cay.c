/* The public API on the engines. */
#include <cay.h>

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/state.h"
#include "base/str.h"
#include "egress/network.h"
#include "engine/engine.h"
#include "engine/engines.h"
#include "engine/spec.h"
#include "image/host.h"
#include "image/image.h"
#include "image/store.h"
#include "lib/command.h"
#include "lib/egress.h"
#include "lib/engine.h"
#include "lib/prepared.h"
#include "lib/python/code.h"
#include "lib/python/python.h"
#include "version.h"

enum { CPU_PERIOD_US = 100000, WALLS_MAX = 64 };

struct cay_engine {
    char state_dir[PATH_MAX];
    enum engine_kind kind;
    struct engine *engine;
    bool is_root;     /* outside */
    enum tier wanted; /* what a sandbox gets at least, where the spec does not say */
};

struct cay_sandbox {
    struct engine *engine;    /* that made it, or NULL: */
    struct engine_run run;    /* as it said */
    struct prepared prepared; /* one of the daemon's */
    struct image image;       /* of the store; IMAGE_NONE: the host image */
    struct cay_image_config config;
    struct sandbox_spec spec;
    char user[64];
    int connection;
    struct egress_proxy proxy;
    const char *tier;
};

const char *cay_version(void) {
    return CAY_VERSION;
}

/* What helps against a failed system call, where nobody nearer to it knew better. */
static int advise(struct cay_error *err) {
    if (err->remedy[0] != '\0')
        return -(int)err->code;
    switch (err->sys) {
    case ENOSYS:
        return error_remedy(err, "this kernel lacks the call: Linux 5.13 or later is needed");
    case EPERM:
    case EACCES:
        return error_remedy(err, "a container, a security module or a filter forbids it here: see "
                                 "'cay doctor', or run cay on the host itself");
    case ENOMEM:
    case ENOSPC:
    case EDQUOT:
        return error_remedy(err, "free memory and disk space, or raise the limits of this service");
    case EMFILE:
    case ENFILE:
    case EAGAIN:
        return error_remedy(err, "raise the limits of files and processes: ulimit -n, ulimit -u");
    default:
        return error_remedy(err, "see 'cay doctor' for what this host allows");
    }
}

/* ---- the engine ---- */

static enum tier best_tier(const cay_engine *engine) {
    const char *keys[ENGINE_KEYS];
    engine_keys_read(keys);
    return engine_type(engine->kind)->best_tier(engine->is_root, keys);
}

int cay_engine_open(const char *state_dir, cay_engine **ret, struct cay_error *err) {
    return cay_engine_open_as("native", state_dir, ret, err);
}

int cay_engine_open_as(const char *name, const char *state_dir, cay_engine **ret,
                       struct cay_error *err) {
    enum engine_kind kind = engine_kind_from_name(name);
    if (kind == ENGINE_UNSAID || kind == ENGINE_KINDS) {
        error_set(err, CAY_UNSUPPORTED, "there is no engine '%.40s'", name);
        return error_remedy(err, "use " ENGINE_CHOICES);
    }
    _cleanup_(freep) cay_engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    int r = state_dir_make(state_dir, engine->state_dir, sizeof engine->state_dir, err);
    if (r < 0)
        return r;
    /* Before opening, which makes root of an ordinary user. */
    engine->is_root = geteuid() == 0;
    engine->kind = kind;
    engine->wanted = best_tier(engine);
    r = engine_type(kind)->open(engine->state_dir, &engine->engine, err);
    if (r < 0)
        return advise(err);
    *ret = TAKE_PTR(engine);
    return 0;
}

void cay_engine_close(cay_engine *engine) {
    if (engine == NULL)
        return;
    engine->engine->ops->close(engine->engine);
    free(engine);
}

const char *engine_state_dir(const cay_engine *engine) {
    return engine->state_dir;
}

size_t cay_engine_walls(const cay_engine *engine, struct cay_wall *walls, size_t max) {
    struct engine_wall found[WALLS_MAX];
    if (engine->engine->ops->walls == NULL)
        return 0;
    size_t count = engine->engine->ops->walls(engine->engine, found, WALLS_MAX);
    for (size_t i = 0; i < MIN(MIN(count, max), (size_t)WALLS_MAX); i++)
        walls[i] = (struct cay_wall){found[i].name, found[i].detail, found[i].remedy,
                                     tier_name(found[i].needed_for), found[i].ok};
    return count;
}

const char *cay_engine_tier(const cay_engine *engine) {
    return tier_name(engine->engine->ops->tier != NULL ? engine->engine->ops->tier(engine->engine)
                                                       : best_tier(engine));
}

/* ---- a sandbox ---- */

void cay_spec_init(struct cay_spec *spec) {
    *spec = (struct cay_spec){
        .image = "host",
        .network = "none",
        .memory_bytes = UINT64_C(512) << 20,
        .cpus = 1.0,
        .pids = 256,
    };
}

/* Whose volumes are, as far as it can be told outside: what is unknown here cay-init refuses. */
static void run_ids(const cay_sandbox *box, struct sandbox_spec *spec) {
    const struct image *image = box->image.record != NULL ? &box->image : NULL;
    (void)image_run_ids(image, box->user, &spec->run_uid, &spec->run_gid); /* else root */
}

static int take_choices(const struct cay_spec *in, struct sandbox_spec *spec,
                        struct cay_error *err) {
    if (in->profile != NULL && str_equal(in->profile, "build"))
        spec->profile = PROFILE_BUILD;
    else if (in->profile != NULL && !str_equal(in->profile, "strict"))
        return error_set(err, CAY_INVALID_ARGUMENT, "no profile '%.40s': strict or build",
                         in->profile);
    if (in->tier != NULL)
        spec->tier = tier_from_name(in->tier);
    if (spec->tier == TIER_NONE)
        return error_set(err, CAY_INVALID_ARGUMENT, "no tier '%.40s': full, rootless or basic",
                         in->tier);
    return 0;
}

static int take_limits(const struct cay_spec *in, struct sandbox_spec *spec,
                       struct cay_error *err) {
    if (!(in->cpus > 0) || in->cpus > 4096)
        return error_set(err, CAY_INVALID_ARGUMENT, "--cpus must be more than zero");
    spec->memory_bytes = in->memory_bytes;
    spec->disk_bytes = in->disk_bytes;
    spec->cpu_quota_us = (uint32_t)(in->cpus * CPU_PERIOD_US + 0.5);
    spec->pids = in->pids;
    spec->read_only = in->read_only;
    return 0;
}

/* on_disk: what it writes does not lie in its memory, and is limited otherwise. */
static int make_spec(const struct cay_spec *in, bool on_disk, cay_sandbox *box,
                     struct cay_error *err) {
    struct sandbox_spec *spec = &box->spec;
    int r = id_new(spec->id, err);
    if (r == 0 && in->name != NULL)
        r = id_check_name("--name", in->name, err);
    if (r < 0)
        return r;
    (void)snprintf(spec->hostname, sizeof spec->hostname, "%s",
                   in->name != NULL ? in->name : spec->id);
    if (box->user[0] != '\0')
        run_ids(box, spec);
    r = take_choices(in, spec, err);
    if (r == 0)
        r = take_limits(in, spec, err);
    for (const char *const *v = in->volumes; r == 0 && v != NULL && *v != NULL; v++)
        r = spec_add_mount(spec, *v, err);
    struct spec_host host = {0};
    if (on_disk)
        spec->disk_bytes = 0;
    if (r == 0)
        r = spec_look_up_host(&host, err);
    return r < 0 ? r : spec_finish(spec, &host, err);
}

static void sandbox_freep(cay_sandbox **box) {
    if (*box != NULL) {
        egress_proxy_stop(&(*box)->proxy);
        spec_free_mounts(&(*box)->spec);
        image_close(&(*box)->image);
    }
    free(*box);
}

static int open_image(const cay_engine *engine, const char *name, struct image *ret,
                      struct cay_error *err) {
    char id[HEX_SIZE];
    struct image_store store;
    int r = 0;
    if (str_copy(id, sizeof id, name) < 0 || !hex_is_valid(id)) {
        r = image_store_open(engine->state_dir, false, 0, &store, err);
        if (r == 0) {
            r = image_store_find(&store, name, id, err);
            image_store_close(&store);
        }
    }
    if (r == 0)
        r = image_open(engine->state_dir, id, ret, err);
    return r == -CAY_NOT_FOUND ? error_remedy(err, "fetch it with: cay image pull %.200s", name)
                               : r;
}

static const char *const *words(const struct strv *v) {
    static const char *const none[] = {NULL};
    return v->v != NULL ? (const char *const *)v->v : none;
}

/* The host image has an empty configuration. */
static const struct image_record *record_of(const cay_sandbox *box) {
    static const struct image_record none;
    return box->image.record != NULL ? box->image.record : &none;
}

static int take_image(const cay_engine *engine, const char *name, cay_sandbox *box,
                      struct cay_error *err) {
    box->image = IMAGE_NONE;
    int r = str_equal(name, "host") ? 0 : open_image(engine, name, &box->image, err);
    if (r < 0)
        return r;
    const struct image_record *record = record_of(box);
    box->config = (struct cay_image_config){
        .entrypoint = words(&record->entrypoint),
        .cmd = words(&record->cmd),
        .working_dir = record->working_dir,
        .user = record->user,
        .volumes = words(&record->volumes),
    };
    return 0;
}

static int take_user(const char *user, cay_sandbox *box, struct cay_error *err) {
    if (user != NULL && user[0] == '\0') {
        error_set(err, CAY_INVALID_ARGUMENT, "--user is empty");
        return error_remedy(err, "name a user, or leave it away");
    }
    if (str_copy(box->user, sizeof box->user, user != NULL ? user : box->config.user) == 0)
        return 0;
    return error_set(err, CAY_INVALID_ARGUMENT, "%s is longer than any user's name",
                     user != NULL ? "--user" : "the image's user");
}

/* Before the sandbox, which is not made if its network cannot be had. */
static int start_proxy(const cay_engine *engine, const char *network, cay_sandbox *box,
                       struct cay_error *err) {
    struct network list;
    int r = network_parse(network, &list, err);
    box->spec.has_bridge = r == 0 && list.is_bridge;
    if (box->spec.has_bridge && !engine_can(engine->kind, ENGINE_HAS_BRIDGE))
        return spec_refuse_bridge(err);
    if (r < 0 || list.count == 0)
        return r;
    box->spec.has_list = true;
    return egress_proxy_start(box->spec.id, network, engine->is_root, &box->proxy, err);
}

/* disk_bytes is what was asked for. Where its files do not lie in its memory they are limited only
 * then, and if the engine can. */
static int start_run(const cay_engine *engine, uint64_t disk_bytes, cay_sandbox *box,
                     struct cay_error *err) {
    bool on_disk = engine_can(engine->kind, ENGINE_LIMITS_AT_START);
    if (on_disk && disk_bytes != 0) {
        int r = spec_check_kept_disk(disk_bytes, err);
        if (r < 0)
            return r;
    }
    if (on_disk)
        box->spec.disk_bytes = disk_bytes;
    const struct image *image = box->image.record != NULL ? &box->image : NULL;
    int r = engine->engine->ops->run(engine->engine, &box->spec, image, &box->run, err);
    if (r < 0)
        return r;
    box->engine = engine->engine;
    box->connection = box->run.connection;
    return 0;
}

int cay_sandbox_create(cay_engine *engine, const struct cay_spec *in, cay_sandbox **ret,
                       struct cay_error *err) {
    _cleanup_(sandbox_freep) cay_sandbox *box = calloc(1, sizeof *box);
    if (box == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    box->proxy = EGRESS_PROXY_NONE;
    box->prepared = PREPARED_NONE;
    int r = take_image(engine, in->image, box, err);
    if (r == 0)
        r = take_user(in->user, box, err);
    box->spec.tier = engine->wanted;
    if (r == 0)
        r = make_spec(in, engine_can(engine->kind, ENGINE_LIMITS_AT_START), box, err);
    if (r == 0)
        r = start_proxy(engine, in->network, box, err);
    if (r < 0)
        return r;
    r = start_run(engine, in->disk_bytes, box, err);
    if (r < 0)
        return advise(err);
    box->tier = cay_engine_tier(engine);
    *ret = TAKE_PTR(box);
    return 0;
}

/* It has no proxy, no volume and no image of the store. */
int sandbox_take_prepared(const char *state_dir, const struct cay_spec *spec,
                          const struct prepared_wish *wish, cay_sandbox **ret,
                          struct cay_error *why) {
    _cleanup_(freep) cay_sandbox *box = calloc(1, sizeof *box);
    if (box == NULL)
        return error_set(why, CAY_RESOURCE_EXHAUSTED, "no memory");
    box->proxy = EGRESS_PROXY_NONE;
    box->prepared = PREPARED_NONE;
    box->connection = -1;
    int r = take_image(NULL, "host", box, why);
    if (r == 0)
        r = take_user(spec->user, box, why);
    if (r == 0)
        r = prepared_take(state_dir, spec, wish, &box->prepared, why);
    if (r < 0)
        return r;
    box->connection = TAKE_FD(box->prepared.connection);
    memcpy(box->spec.id, box->prepared.id, sizeof box->spec.id);
    (void)snprintf(box->spec.hostname, sizeof box->spec.hostname, "%s",
                   spec->name != NULL ? spec->name : box->spec.id);
    box->tier = tier_name(TIER_FULL);
    *ret = TAKE_PTR(box);
    return 0;
}

const struct prepared *sandbox_prepared(const cay_sandbox *box) {
    return box->prepared.control >= 0 ? &box->prepared : NULL;
}

const struct cay_image_config *cay_sandbox_image(const cay_sandbox *box) {
    return &box->config;
}

const char *cay_sandbox_id(const cay_sandbox *box) {
    return box->spec.id;
}

void cay_sandbox_destroy(cay_sandbox *box) {
    if (box == NULL)
        return;
    fd_close(&box->connection);
    prepared_drop(&box->prepared);
    if (box->engine != NULL)
        box->engine->ops->run_end(box->engine, &box->run);
    sandbox_freep(&box);
}

/* ---- a command ---- */

static const char *work_dir_of(const cay_sandbox *box) {
    return box->config.working_dir[0] == '/' ? box->config.working_dir : "/workspace";
}

static struct command_defaults defaults_of(const cay_sandbox *box) {
    return (struct command_defaults){
        .user = box->user[0] != '\0' ? box->user : NULL,
        .hostname = box->spec.hostname,
        .work_dir = work_dir_of(box),
        .env = words(&record_of(box)->env),
        .door = MAX(box->proxy.door, 0),
    };
}

static int check_unused(const cay_sandbox *box, struct cay_error *err) {
    return box->connection < 0 ? error_set(err, CAY_CONFLICT, "this sandbox has run its command")
                               : 0;
}

/* What only the sandbox's maker knows of a command that was run. */
static void fill_result(const cay_sandbox *box, struct cay_result *ret) {
    ret->tier = box->tier;
    if (box->connection >= 0)
        return;
    if (box->engine == NULL) {
        ret->phases.start_us = box->prepared.start_us;
        return;
    }
    ret->phases.prepare_us = box->run.prepare_us;
    ret->phases.root_us = box->run.root_us;
    ret->phases.start_us = box->run.start_us;
    ret->oom_killed =
        box->engine->ops->run_oom_killed(box->engine, &box->run, ret->signal == SIGKILL);
}

/* A command that ended leaves its prepared sandbox to the daemon to remove. One that was not found
 * keeps its error; one that was cut off gets that of the daemon. */
static int finish(cay_sandbox *box, int r, struct cay_result *ret, struct cay_error *err) {
    struct cay_error failure;
    fill_result(box, ret);
    if (box->prepared.control < 0 || box->connection >= 0)
        return r;
    if (ret->exit_code != 125 && prepared_oom_killed(&box->prepared, &ret->oom_killed) == 0)
        return r;
    int ended = prepared_wait(&box->prepared, &ret->oom_killed, &failure);
    if (r < 0 && ended < 0 && ret->exit_code == 125) {
        *err = failure;
        return ended;
    }
    return r;
}

int cay_sandbox_exec(cay_sandbox *box, const struct cay_exec *exec, struct cay_result *ret,
                     struct cay_error *err) {
    *ret = (struct cay_result){.exit_code = 125, .tier = box->tier};
    int r = check_unused(box, err);
    if (r < 0)
        return r;
    const struct command_defaults defaults = defaults_of(box);
    r = command_exec(&box->connection, exec, &defaults, ret, err);
    return finish(box, r, ret, err);
}

int cay_sandbox_python(cay_sandbox *box, const struct cay_python *python,
                       const struct cay_exec *exec, struct cay_python_result *ret,
                       struct cay_error *err) {
    *ret = (struct cay_python_result){.run = {.exit_code = 125, .tier = box->tier}};
    int r = check_unused(box, err);
    if (r < 0)
        return r;
    const struct command_defaults defaults = defaults_of(box);
    bool asleep; /* the caller finds it in *ret */
    r = box->prepared.waits
            ? python_exec_woken(&box->connection, python, exec, &defaults, &asleep, ret, err)
            : python_exec(&box->connection, python, exec, &defaults, ret, err);
    return finish(box, r, &ret->run, err);
}

int cay_sandbox_program(cay_sandbox *box, const struct cay_program *code,
                        const struct cay_exec *exec, struct cay_program_result *ret,
                        struct cay_error *err) {
    *ret = (struct cay_program_result){.program = {.run = {.exit_code = 125, .tier = box->tier}}};
    int r = check_unused(box, err);
    if (r < 0)
        return r;
    const struct command_defaults defaults = defaults_of(box);
    r = code_exec(&box->connection, code, exec, &defaults, ret, err);
    return finish(box, r, &ret->program.run, err);
}

void cay_result_free(struct cay_result *result) {
    free(result->out);
    free(result->err);
    result->out = result->err = NULL;
}
