#include "engine/docker/docker_program.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/program.h"
#include "base/str.h"

static const char *const passed[] = {
    "DOCKER_HOST=",    "DOCKER_TLS_VERIFY=", "DOCKER_CERT_PATH=",
    "DOCKER_CONTEXT=", "DOCKER_CONFIG=",     "HOME=",
    "PATH=",
};

static void choose_environment(const char **ret) {
    size_t count = 0;
    for (size_t i = 0; i < ARRAY_LEN(passed); i++)
        for (char **e = environ; *e != NULL; e++)
            if (str_starts(*e, passed[i])) {
                ret[count++] = *e;
                break;
            }
    ret[count] = NULL;
}

void docker_program_ensure(const char *state_dir, const char *config, const char *policy,
                           bool is_quiet, const char *image,
                           const char *argv[static DOCKER_ENSURE_WORDS]) {
    const char *const words[DOCKER_ENSURE_WORDS] = {
        DOCKER_PROGRAM, "ensure", state_dir, policy, is_quiet ? "quiet" : "tell", image, config};
    memcpy(argv, words, sizeof words);
}

int docker_program_start(const char *state_dir, const char *how, const char *const *folders,
                         int sock, pid_t *ret, struct cay_error *err) {
    char program[PATH_MAX];
    const char *env[ARRAY_LEN(passed) + 1];
    choose_environment(env);
    int r = program_find(DOCKER_PROGRAM, program, sizeof program, err);
    return r < 0 ? r : launcher_spawn(program, state_dir, how, folders, env, sock, ret, err);
}
