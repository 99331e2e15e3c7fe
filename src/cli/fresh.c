#include "cli/fresh.h"

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "image/alias.h"
#include "lib/engine.h"

enum { WALLS_MAX = 32 };

const char *const fresh_tiers[] = {"auto", "full", "rootless", "basic", NULL};
const char *const fresh_pulls[] = {"auto", "missing", "always", "never", NULL};

bool fresh_is_host(const char *image) {
    return str_equal(image, "host");
}

const char *fresh_tier(int chosen, const struct config *config) {
    const char *tier = chosen != 0 ? fresh_tiers[chosen] : config->sandbox.tier;
    return str_equal(tier, fresh_tiers[0]) ? NULL : tier;
}

bool fresh_take_prepared(const struct verb_common *common, const struct config *config,
                         const char *engine, bool no_daemon, const struct cay_spec *spec,
                         const struct prepared_wish *wish, cay_sandbox **ret) {
    struct cay_error why = {0};
    int r = no_daemon ? error_set(&why, CAY_UNSUPPORTED, "--no-daemon")
            : !config->sandbox.use_daemon
                ? error_set(&why, CAY_UNSUPPORTED, "sandbox.use_daemon is false")
            : !str_equal(engine, "native")
                ? error_set(&why, CAY_UNSUPPORTED, "the engine is not native")
                : sandbox_take_prepared(common->state_dir, spec, wish, ret, &why);
    if (r == 0)
        log_event(LOG_LEVEL_DEBUG, "sandbox prepared by the daemon", "id", "%s",
                  cay_sandbox_id(*ret));
    else
        log_event(LOG_LEVEL_DEBUG, "sandbox made by this process", "why", "%s", why.message);
    return r == 0;
}

static void report_unkept(const struct cay_wall *wall, const char *option) {
    if (!wall->ok)
        verb_note("%s has no effect in this tier: %s; %s", option, wall->detail, wall->remedy);
}

void fresh_report_unkept(const cay_engine *engine, bool has_memory, bool has_cpus) {
    struct cay_wall walls[WALLS_MAX];
    size_t count = MIN(cay_engine_walls(engine, walls, WALLS_MAX), (size_t)WALLS_MAX);
    for (size_t i = 0; i < count; i++) {
        if (has_memory && str_equal(walls[i].name, "memory limit"))
            report_unkept(&walls[i], "--memory");
        if (has_cpus && str_equal(walls[i].name, "cpu limit"))
            report_unkept(&walls[i], "--cpus");
    }
}

int fresh_ensure_image(const struct verb_common *common, const struct config *config,
                       const char *engine, const char *image, const char *pull,
                       char id[static CAY_IMAGE_ID_SIZE], struct cay_error *err) {
    if (fresh_is_host(image))
        return 0;
    char other[REFERENCE_TEXT_SIZE];
    int r = image_alias(&config->images.aliases, image, other, err);
    if (r < 0)
        return r;
    if (r > 0 && !common->quiet)
        verb_note("%s is an alias of %s here", image, other);
    /* A file of the current folder may choose an image, but not where we download from. */
    bool is_limited = image == config->sandbox.image && config_image_is_limited(config);
    const char *policy = !str_equal(pull, "auto") ? pull
                         : is_limited             ? "never"
                                                  : config->images.pull;
    enum cay_pull when = str_equal(policy, "always")  ? CAY_PULL_ALWAYS
                         : str_equal(policy, "never") ? CAY_PULL_NEVER
                                                      : CAY_PULL_MISSING;
    r = cay_image_ensure_as(engine, common->state_dir, common->config, r > 0 ? other : image, when,
                            common->quiet, id, err);
    if (r == -CAY_NOT_FOUND && is_limited)
        return error_remedy(err, "a file of the current folder names it and may not start a "
                                 "download; use --pull missing, or name it with --image");
    return r;
}
