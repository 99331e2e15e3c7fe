#include "cli/fresh.h"

#include "base/str.h"
#include "image/alias.h"

const char *const fresh_tiers[] = {"auto", "full", "rootless", "basic", NULL};
const char *const fresh_pulls[] = {"auto", "missing", "always", "never", NULL};

bool fresh_is_host(const char *image) {
    return str_equal(image, "host");
}

const char *fresh_tier(int chosen, const struct config *config) {
    const char *tier = chosen != 0 ? fresh_tiers[chosen] : config->sandbox.tier;
    return str_equal(tier, fresh_tiers[0]) ? NULL : tier;
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
    const char *policy = str_equal(pull, "auto") ? config->images.pull : pull;
    enum cay_pull when = str_equal(policy, "always")  ? CAY_PULL_ALWAYS
                         : str_equal(policy, "never") ? CAY_PULL_NEVER
                                                      : CAY_PULL_MISSING;
    return cay_image_ensure_as(engine, common->state_dir, common->config, r > 0 ? other : image,
                               when, common->quiet, id, err);
}
