#include "engine/docker/runtime.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"
#include "engine/docker/parse.h"
#include "engine/engines.h"

#define SHIM_PREFIX "io.containerd." /* of names that containerd knows by itself */

static const struct {
    const char *prefix; /* of its name and of its program */
    enum docker_kernel kernel;
} known[] = {
    {"runsc", DOCKER_KERNEL_GVISOR},
    {"kata", DOCKER_KERNEL_GUEST},
    {"containerd-shim-runsc", DOCKER_KERNEL_GVISOR},
    {"containerd-shim-kata", DOCKER_KERNEL_GUEST},
};

enum docker_kernel docker_runtime_kernel(const char *name) {
    if (str_starts(name, SHIM_PREFIX))
        name += sizeof SHIM_PREFIX - 1;
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (str_starts(name, known[i].prefix))
            return known[i].kernel;
    return DOCKER_KERNEL_HOST;
}

enum tier docker_runtime_tier(const char *name) {
    return docker_runtime_kernel(name) == DOCKER_KERNEL_HOST ? TIER_BASIC : TIER_ROOTLESS;
}

uint32_t docker_runtime_pids(const char *name, uint32_t pids) {
    enum { KERNEL_THREADS = 128 };
    bool counts = pids != 0 && docker_runtime_kernel(name) == DOCKER_KERNEL_GVISOR;
    return counts ? pids + KERNEL_THREADS : pids;
}

const char *docker_runtime_chosen(void) {
    const char *name = getenv(engine_key_variable(ENGINE_KEY_DOCKER_RUNTIME));
    return name == NULL ? "" : name;
}

static int refuse_unknown(const struct docker_info *info, const char *name, struct cay_error *err) {
    char names[DOCKER_TEXT_SIZE] = "", shown[DOCKER_TEXT_SIZE];
    size_t len = 0;
    for (size_t i = 0; i < info->runtime_count; i++) {
        if (str_format(names + len, sizeof names - len, "%s%s", i > 0 ? ", " : "",
                       str_escape(shown, sizeof shown, info->runtimes[i].name)) < 0)
            break;
        len += strlen(names + len);
    }
    error_set(err, CAY_UNSUPPORTED, "Docker has no runtime '%.64s'; it has %s", name,
              names[0] != '\0' ? names : "told of none");
    return error_remedy(err, "choose one of them as runtime in the section [docker], or add it to "
                             "\"runtimes\" in Docker's daemon.json and restart Docker");
}

int docker_runtime_check(const struct docker_info *info, const char *name, struct cay_error *err) {
    if (name[0] == '\0')
        return 0;
    const struct docker_runtime *found = NULL;
    for (size_t i = 0; i < info->runtime_count && found == NULL; i++)
        if (str_equal(info->runtimes[i].name, name))
            found = &info->runtimes[i];
    if (found == NULL)
        return refuse_unknown(info, name, err);
    /* One that is called runsc and is another program would not give what its tier promises. */
    char shown[DOCKER_TEXT_SIZE];
    if (found->program[0] == '\0' || docker_runtime_kernel(name) == DOCKER_KERNEL_HOST ||
        docker_runtime_kernel(found->program) == docker_runtime_kernel(name))
        return 0;
    error_set(err, CAY_UNSUPPORTED, "Docker's runtime '%.64s' is the program '%.64s'", name,
              str_escape(shown, sizeof shown, found->program));
    return error_remedy(err, "correct \"runtimes\" in Docker's daemon.json, or choose another "
                             "runtime in the section [docker]");
}
