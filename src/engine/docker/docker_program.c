#include "engine/docker/docker_program.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/log.h"
#include "base/program.h"
#include "base/str.h"
#include "engine/docker/docker_runtime.h"

static const char *const passed[] = {
    "DOCKER_HOST=",    "DOCKER_TLS_VERIFY=", "DOCKER_CERT_PATH=",
    "DOCKER_CONTEXT=", "DOCKER_CONFIG=",     "HOME=",
    "PATH=",
};

/* What says where Docker is, how we log, and the runtime, for which text is room. */
static int choose_environment(const char *runtime, char *text, size_t size, const char **ret) {
    size_t count = 0;
    if (str_format(text, size, DOCKER_RUNTIME_VARIABLE "=%s", runtime) < 0)
        return -ENAMETOOLONG;
    ret[count++] = text;
    if (log_is_json())
        ret[count++] = DOCKER_LOG_VARIABLE "=json";
    for (size_t i = 0; i < ARRAY_LEN(passed); i++)
        for (char **e = environ; *e != NULL; e++)
            if (str_starts(*e, passed[i])) {
                ret[count++] = *e;
                break;
            }
    ret[count] = NULL;
    return 0;
}

void docker_program_ensure(const char *state_dir, const char *config, const char *policy,
                           bool is_quiet, const char *owner, const char *image,
                           const char *argv[static DOCKER_ENSURE_WORDS]) {
    const char *const words[DOCKER_ENSURE_WORDS] = {DOCKER_PROGRAM,
                                                    "ensure",
                                                    state_dir,
                                                    policy,
                                                    is_quiet ? "quiet" : "tell",
                                                    owner[0] != '\0' ? owner : DOCKER_OWNER_NONE,
                                                    image,
                                                    config};
    memcpy(argv, words, sizeof words);
}

int docker_program_start(const char *state_dir, const char *how, const char *const *folders,
                         const char *runtime, int sock, pid_t *ret, struct cay_error *err) {
    char program[PATH_MAX], text[sizeof DOCKER_RUNTIME_VARIABLE + DOCKER_RUNTIME_SIZE];
    const char *env[ARRAY_LEN(passed) + 3];
    if (choose_environment(runtime, text, sizeof text, env) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the name of the runtime is too long");
    int r = program_find(DOCKER_PROGRAM, program, sizeof program, err);
    return r < 0 ? r : link_spawn(program, state_dir, how, folders, env, sock, ret, err);
}
