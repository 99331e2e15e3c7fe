#include "engine/docker/images/image.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/program.h"
#include "base/str.h"
#include "engine/docker/api.h"
#include "image/answer.h"

enum { ANSWER_MAX = 256 * 1024 };

int docker_image_find(struct docker_api *api, const char *name, char id[static HEX_SIZE],
                      struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    char path[DOCKER_PATH_SIZE];
    if (str_format(path, sizeof path, "/images/%s/json", name) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not the name of an image");
    int r = docker_ask(api, &(struct docker_call){.method = "GET", .path = path}, &a, err);
    if (r < 0 || a.status == 404)
        return r;
    if (a.status >= 400)
        return docker_refused(&a, "looking for the image", err);
    r = docker_parse_image_id(buf_text(&a.body), a.body.len, id, err);
    return r < 0 ? r : 1;
}

static int has_image(struct docker_api *api, const char *id, struct cay_error *err) {
    char name[HEX_SIZE + sizeof "sha256:"], found[HEX_SIZE];
    if (str_format(name, sizeof name, "sha256:%s", id) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not the id of an image");
    return docker_image_find(api, name, found, err);
}

int docker_image_remove(struct docker_api *api, const char *name, struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    char path[DOCKER_PATH_SIZE];
    if (str_format(path, sizeof path, "/images/%s", name) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not the name of an image");
    int r = docker_ask(api, &(struct docker_call){.method = "DELETE", .path = path}, &a, err);
    if (r < 0 || a.status == 404)
        return r;
    return a.status < 400 ? 1 : docker_refused(&a, "removing the image", err);
}

/* ---- cay-image ---- */

/* What it gets and what becomes of its messages; -1 is nothing. */
struct streams {
    int in, out, err;
};

static int put_stream(posix_spawn_file_actions_t *actions, int fd, int as) {
    return fd >= 0 ? posix_spawn_file_actions_adddup2(actions, fd, as)
                   : posix_spawn_file_actions_addopen(actions, as, "/dev/null",
                                                      as == STDIN_FILENO ? O_RDONLY : O_WRONLY, 0);
}

/* argv[0] is left for the program's name. */
static int spawn(const char **argv, const char *const *env, const struct streams *s, pid_t *ret,
                 struct cay_error *err) {
    char program[PATH_MAX];
    int r = program_find("cay-image", program, sizeof program, err);
    if (r < 0)
        return r;
    argv[0] = "cay-image";
    posix_spawn_file_actions_t actions;
    (void)posix_spawn_file_actions_init(&actions);
    int e = put_stream(&actions, s->in, STDIN_FILENO);
    if (e == 0)
        e = put_stream(&actions, s->out, STDOUT_FILENO);
    if (e == 0 && s->err < 0) /* else they go where ours go */
        e = put_stream(&actions, s->err, STDERR_FILENO);
    if (e == 0)
        e = posix_spawn(ret, program, &actions, NULL, (char *const *)(uintptr_t)argv,
                        (char *const *)(uintptr_t)env);
    (void)posix_spawn_file_actions_destroy(&actions);
    return e == 0 ? 0 : error_sys(err, e, "starting %s", program);
}

/* It works for this machine's store, and needs nothing of ours. */
static const char *const bare[] = {
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL};

/* Its exit status; 0 if there is none to wait for. */
static int wait_for(pid_t pid) {
    int status = 0;
    while (pid != 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* ---- into Docker ---- */

/* `cay image save` into a pipe; its messages are nobody's. */
static int spawn_save(const char *state_dir, const char *id, int out, pid_t *ret,
                      struct cay_error *err) {
    char name[128];
    if (str_format(name, sizeof name, "sha256:%s", id) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not the id of an image");
    const char *argv[] = {NULL, "save", "--state-dir", state_dir, "-q", name, NULL};
    return spawn(argv, bare, &(struct streams){-1, out, -1}, ret, err);
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
    if (wait_for(pid) != 0 && r == 0)
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

/* ---- into cay's store ---- */

static int pass_on(void *user, const char *data, size_t len) {
    return fd_write_all(*(const int *)user, data, len);
}

static int send_to_store(struct docker_api *api, const char *name, int to, struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    char path[DOCKER_PATH_SIZE];
    if (str_format(path, sizeof path, "/images/%s/get", name) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not the name of an image");
    struct docker_call call = {
        .method = "GET", .path = path, .sink = pass_on, .user = &to, .timeout_ms = DOCKER_SLOW_MS};
    int r = docker_ask(api, &call, &a, err);
    if (r < 0 || a.status < 400)
        return r;
    r = docker_refused(&a, "saving the image", err);
    if (r != -CAY_INTERNAL)
        return r;
    if (err != NULL) /* an image that it cannot save, as podman those with layers of zstd */
        err->code = CAY_UNAVAILABLE;
    return error_remedy(err, "fetch it into cay's store: cay image pull, or cay image load");
}

/* Sends while cay-image reads; what it says afterwards fits into a pipe. */
static int load_into(struct docker_api *api, const char *state_dir, const char *name, int answer,
                     struct cay_error *err) {
    int pair[2];
    pid_t pid = 0;
    if (pipe2(pair, O_CLOEXEC) < 0)
        return error_errno(err, "making a pipe");
    const char *argv[] = {NULL, "load", "--state-dir", state_dir, "-q", NULL};
    int r = spawn(argv, bare, &(struct streams){pair[0], answer, STDERR_FILENO}, &pid, err);
    (void)close(pair[0]);
    if (r == 0)
        r = send_to_store(api, name, pair[1], err);
    (void)close(pair[1]);
    if (wait_for(pid) == 0 || (r < 0 && err != NULL && err->code != CAY_INTERNAL))
        return r;
    /* Nobody read what Docker sent, which is not the reason. */
    error_set(err, CAY_UNAVAILABLE, "the image could not be loaded into cay's store");
    return error_remedy(err, "look for its reason in the lines before, or in the daemon's log");
}

int docker_image_fetch(struct docker_api *api, const char *state_dir, const char *name,
                       char id[static HEX_SIZE], struct cay_error *err) {
    int pair[2];
    _cleanup_(buf_free) struct buf said = BUF_INIT(ANSWER_MAX);
    if (pipe2(pair, O_CLOEXEC) < 0)
        return error_errno(err, "making a pipe");
    _cleanup_(closep) int in = pair[0];
    int r = load_into(api, state_dir, name, pair[1], err);
    (void)close(pair[1]);
    if (r < 0)
        return r;
    (void)fd_read_to_end(in, &said); /* what is cut short is no id */
    char *end = strpbrk(buf_text(&said), " \n");
    if (end != NULL)
        said.data[end - said.data] = '\0';
    return digest_parse(buf_text(&said), id)
               ? 0
               : error_set(err, CAY_INTERNAL, "cay-image did not say what it loaded");
}

void docker_image_forget(const char *state_dir, const char *id) {
    char name[HEX_SIZE + sizeof "sha256:"];
    pid_t pid = 0;
    struct cay_error ignored;
    if (str_format(name, sizeof name, "sha256:%s", id) < 0)
        return;
    const char *argv[] = {NULL, "rm", "--state-dir", state_dir, "-q", name, NULL};
    (void)spawn(argv, bare, &(struct streams){-1, -1, -1}, &pid, &ignored); /* else a prune does */
    (void)wait_for(pid);
}

/* ---- registries ---- */

int docker_image_credential(const char *registry, const char *config, char **ret,
                            struct cay_error *err) {
    int pair[2];
    pid_t pid = 0;
    char none[HEX_SIZE];
    _cleanup_(buf_free) struct buf said = BUF_INIT(ANSWER_MAX);
    const char *argv[] = {NULL, "credential", "--config", config, "--", registry, NULL};
    const char *plain[] = {NULL, "credential", "--", registry, NULL};
    if (pipe2(pair, O_CLOEXEC) < 0)
        return error_errno(err, "making a pipe");
    _cleanup_(closep) int in = pair[0];
    int r = spawn(config[0] != '\0' ? argv : plain, (const char *const *)environ,
                  &(struct streams){-1, pair[1], STDERR_FILENO}, &pid, err);
    (void)close(pair[1]);
    if (r < 0)
        return r;
    (void)fd_read_to_end(in, &said); /* what is cut short is no answer */
    (void)wait_for(pid);
    (void)buf_putc(&said, '\n');
    if (said.failed)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    if (!str_starts(said.data, "ok\n"))
        return image_answer(said.data, none, err);
    const char *value = said.data + strlen("ok\n");
    *ret = strndup(value, strcspn(value, "\n"));
    explicit_bzero(said.data, said.len);
    return *ret == NULL ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory") : 0;
}
