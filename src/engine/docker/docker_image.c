#include "engine/docker/docker_image.h"

#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/program.h"
#include "base/str.h"
#include "engine/docker/docker_api.h"

static int has_image(struct docker_api *api, const char *id, struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    char path[DOCKER_PATH_SIZE];
    if (str_format(path, sizeof path, "/images/sha256:%s/json", id) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not the id of an image");
    int r = docker_ask(api, &(struct docker_call){.method = "GET", .path = path}, &a, err);
    if (r < 0 || a.status == 404)
        return r;
    return a.status < 400 ? 1 : docker_refused(&a, "looking for the image", err);
}

/* `cay image save` into a pipe; its messages are nobody's. */
static int spawn_save(const char *state_dir, const char *id, int out, pid_t *ret,
                      struct cay_error *err) {
    char program[PATH_MAX], name[128];
    int r = program_find("cay-image", program, sizeof program, err);
    if (r < 0)
        return r;
    if (str_format(name, sizeof name, "sha256:%s", id) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not the id of an image");
    const char *argv[] = {program, "save", "--state-dir", state_dir, "-q", name, NULL};
    const char *env[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    posix_spawn_file_actions_t actions;
    (void)posix_spawn_file_actions_init(&actions);
    int e = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (e == 0)
        e = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (e == 0)
        e = posix_spawn(ret, program, &actions, NULL, (char *const *)(uintptr_t)argv,
                        (char *const *)(uintptr_t)env);
    (void)posix_spawn_file_actions_destroy(&actions);
    return e == 0 ? 0 : error_sys(err, e, "starting %s", program);
}

static int send_image(struct docker_api *api, int from, struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    char loaded[DOCKER_TEXT_SIZE];
    struct docker_call call = {.method = "POST",
                               .path = "/images/load?quiet=1",
                               .type = "application/x-tar",
                               .upload = from,
                               .timeout_ms = DOCKER_SLOW_MS};
    int r = docker_do(api, &call, &a, err);
    return r < 0 ? r : docker_parse_loaded(buf_text(&a.body), a.body.len, loaded, err);
}

static int load(struct docker_api *api, const char *state_dir, const char *id,
                struct cay_error *err) {
    int pair[2];
    pid_t pid = 0;
    if (pipe2(pair, O_CLOEXEC) < 0)
        return error_errno(err, "making a pipe");
    int r = spawn_save(state_dir, id, pair[1], &pid, err);
    (void)close(pair[1]);
    if (r == 0)
        r = send_image(api, pair[0], err);
    (void)close(pair[0]); /* which ends it, if it is not done */
    int status = 0;
    if (pid != 0)
        (void)waitpid(pid, &status, 0);
    if (r == 0 && status != 0)
        r = error_set(err, CAY_NOT_FOUND, "the image could not be saved from cay's store");
    return r < 0 ? error_prefix(err, "giving the image to Docker") : 0;
}

int docker_image_name(struct docker_api *api, const char *id, struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    char path[DOCKER_PATH_SIZE];
    if (str_format(path, sizeof path, "/images/sha256:%s/tag?repo=cay&tag=%.12s", id, id) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not the id of an image");
    return docker_do(api, &(struct docker_call){.method = "POST", .path = path}, &a, err);
}

int docker_image_ensure(struct docker_api *api, const char *state_dir, const char *id,
                        struct cay_error *err) {
    int r = has_image(api, id, err);
    if (r != 0)
        return r < 0 ? r : 0;
    r = load(api, state_dir, id, err);
    return r < 0 ? r : docker_image_name(api, id, err);
}
