/* Images are fetched by another program, which has the libraries for it and fewer rights. */
#include <cay.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/program.h"
#include "base/state.h"
#include "base/str.h"
#include "engine/engines.h"
#include "image/answer.h"
#include "image/store.h"

enum { WORDS_MAX = 12 };

static const char *const policies[] = {"missing", "always", "never"};

/* Looked up here, so that an image that is there costs no other program. */
static int find_here(const char *state_dir, const char *image, char *id, struct cay_error *err) {
    struct image_store store;
    int r = image_store_open(state_dir, false, 0, &store, err);
    if (r < 0)
        return r;
    r = image_store_find(&store, image, id, err);
    image_store_close(&store);
    return r;
}

static int start(const char *program, const char *const *argv, int out, pid_t *ret,
                 struct cay_error *err) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    (void)sigemptyset(&none);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attributes);
    int r = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    /* The caller has blocked what it wants to handle itself; Ctrl-C must end a pull. */
    if (r == 0)
        r = posix_spawnattr_setsigmask(&attributes, &none);
    if (r == 0)
        r = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    if (r == 0)
        r = posix_spawn(ret, program, &actions, &attributes, (char *const *)(uintptr_t)argv,
                        environ);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    return r == 0 ? 0 : error_sys(err, r, "starting %s", program);
}

/* The words of `cay-image ensure`. */
static void put_words(const char *state_dir, const char *config, const char *policy, bool quiet,
                      const char *image, const char *argv[static WORDS_MAX]) {
    const char *const begin[] = {"cay-image", "ensure", "--state-dir", state_dir, "--pull", policy};
    size_t n = ARRAY_LEN(begin);
    memcpy(argv, begin, sizeof begin);
    if (config != NULL) {
        argv[n++] = "--config";
        argv[n++] = config;
    }
    if (quiet)
        argv[n++] = "--quiet";
    argv[n++] = "--";
    argv[n] = image;
}

/* Starts what fetches images (argv[0]), and waits for its answer. */
static int fetch(const char *const *argv, char *id, struct cay_error *err) {
    char program[PATH_MAX];
    int pipe_fds[2];
    int r = program_find(argv[0], program, sizeof program, err);
    if (r < 0)
        return r;
    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return error_errno(err, "making a pipe");
    _cleanup_(closep) int in = pipe_fds[0];
    pid_t pid;
    r = start(program, argv, pipe_fds[1], &pid, err);
    (void)close(pipe_fds[1]);
    if (r < 0)
        return r;
    _cleanup_(buf_free) struct buf answer = BUF_INIT(8192);
    (void)fd_read_to_end(in, &answer); /* what is cut short is no answer */
    (void)buf_putc(&answer, '\n');
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return error_errno(err, "waiting for %s", program);
    if (WIFSIGNALED(status))
        return error_set(err, CAY_INTERNAL, "%s was ended by signal %d", argv[0], WTERMSIG(status));
    return answer.data == NULL ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory")
                               : image_answer(answer.data, id, err);
}

int cay_image_ensure(const char *state_dir, const char *config, const char *image,
                     enum cay_pull pull, bool quiet, char id[CAY_IMAGE_ID_SIZE],
                     struct cay_error *err) {
    return cay_image_ensure_as("native", state_dir, config, image, pull, quiet, id, err);
}

int cay_image_ensure_as(const char *engine, const char *state_dir, const char *config,
                        const char *image, enum cay_pull pull, bool quiet,
                        char id[CAY_IMAGE_ID_SIZE], struct cay_error *err) {
    char path[PATH_MAX];
    const char *argv[WORDS_MAX] = {NULL};
    enum engine_kind kind = engine_kind_from_name(engine);
    bool has_images = kind != ENGINE_KINDS && engine_can(kind, ENGINE_HAS_IMAGES);
    int r = state_dir_make(state_dir, path, sizeof path, err);
    if (r < 0)
        return r;
    if (!has_images && pull != CAY_PULL_ALWAYS && find_here(path, image, id, err) == 0)
        return 0;
    if (has_images)
        engine_ensure_words(kind, path, config, policies[pull], quiet, "", image, argv);
    else
        put_words(path, config, policies[pull], quiet, image, argv);
    return fetch(argv, id, err);
}
