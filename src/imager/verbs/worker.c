/* What the verbs share: entering the world, work beside it, and telling. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/state.h"
#include "config/config.h"
#include "image/answer.h"
#include "imager/registry/policy.h"
#include "imager/verbs/runner_serve.h"
#include "imager/verbs/verbs.h"

/* [images] allowed, until the process ends. */
static struct strv allowed;

static int load_allowed(const struct verb_common *common, struct cay_error *err) {
    _cleanup_(config_freep) struct config *config = NULL;
    int r = config_load_trusted(common->config, (const char *const *)environ, &config, err);
    for (size_t i = 0; r == 0 && i < config->images.allowed.len; i++)
        if (strv_push(&allowed, config->images.allowed.v[i]) < 0)
            r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    return r;
}

int verbs_enter(const struct verb_common *common, bool builds, struct world *ret,
                struct cay_error *err) {
    char state_dir[PATH_MAX];
    const char *owner = common->owner != NULL ? common->owner : "";
    const char *made_by = common->made_by != NULL ? common->made_by : "";
    if (!image_owner_is_valid(owner) || !image_owner_is_valid(made_by)) {
        error_set(err, CAY_INVALID_ARGUMENT, "--owner: '%.40s' is not the id of a key", owner);
        return error_remedy(err, "'cay key ls -o json' shows the ids of keys");
    }
    int r = state_dir_make(common->state_dir, state_dir, sizeof state_dir, err);
    if (r == 0 && owner[0] != '\0')
        r = load_allowed(common, err);
    if (r == 0)
        r = world_enter(state_dir, builds, ret, err);
    if (r == 0) {
        ret->store.allowed = owner[0] != '\0' ? &allowed : NULL;
        ret->store = image_store_as(&ret->store, owner);
        (void)snprintf(ret->store.made_by, sizeof ret->store.made_by, "%s", made_by);
        ret->store.room = common->room;
    }
    return r;
}

void verbs_leave(struct world *world) {
    image_store_close(&world->store);
    runner_free(world->runner);
    world->runner = NULL;
}

int verbs_find(const struct image_store *store, const char *text, char id[static HEX_SIZE],
               struct cay_error *err) {
    int r = image_store_find(store, text, id, err);
    return r == -CAY_NOT_FOUND ? error_remedy(err, "see 'cay image ls' for what there is") : r;
}

/* ---- apart ---- */

static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
static volatile sig_atomic_t apart_child, apart_signal;

/* The child ends by it, and then so do we, after cleaning up. */
static void pass_on(int sig) {
    int saved = errno;
    apart_signal = sig;
    if (apart_child > 0)
        (void)kill((pid_t)apart_child, sig);
    errno = saved;
}

/* Signals that the caller ignores stay so. */
static void handle_signals(void (*from)(int), void (*to)(int)) {
    struct sigaction act;
    for (size_t i = 0; i < ARRAY_LEN(caught); i++) {
        if (sigaction(caught[i], NULL, &act) < 0 || act.sa_handler != from)
            continue;
        act = (struct sigaction){.sa_handler = to, .sa_flags = SA_RESTART};
        (void)sigaction(caught[i], &act, NULL);
    }
}

void apart_prepare(void) {
    handle_signals(SIG_DFL, pass_on);
}

static int wait_for(pid_t pid, struct cay_error *err) {
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return error_errno(err, "waiting for a child process");
    apart_child = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int apart_run(int (*work)(void *user), void *user, struct cay_error *err) {
    sigset_t all, before;
    (void)fflush(NULL);
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before); /* none may come before the child is known */
    pid_t pid = apart_signal == 0 ? fork() : 0;
    if (pid == 0 && apart_signal == 0) {
        handle_signals(pass_on, SIG_DFL);
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        exit(work(user));
    }
    int failed = errno;
    apart_child = pid;
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    if (pid == 0)
        return 128 + apart_signal;
    return pid < 0 ? error_sys(err, failed, "making a child process") : wait_for(pid, err);
}

/* ---- telling ---- */

struct progress *verbs_progress(const struct verb_common *common, int choice) {
    enum progress_mode mode = progress_mode_for(STDERR_FILENO);
    if (choice == IMAGE_PROGRESS_JSON)
        mode = PROGRESS_JSON;
    else if (common->quiet)
        mode = PROGRESS_QUIET;
    else if (choice == IMAGE_PROGRESS_PLAIN)
        mode = PROGRESS_LINES;
    return progress_new(mode, STDERR_FILENO);
}

void verbs_put_digest(struct jsonw *w, const char *key, const char *hex) {
    char text[HEX_SIZE + 8];
    (void)snprintf(text, sizeof text, "sha256:%s", hex);
    jsonw_put_string(w, key, hex[0] != '\0' ? text : NULL);
}

int verbs_print_id(const struct verb_common *common, const char *id, const struct reference *name) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(8192);
    if (common->output == OUTPUT_JSON) {
        struct jsonw w = JSONW_INIT(&b);
        char text[REFERENCE_TEXT_SIZE];
        jsonw_begin_object(&w);
        verbs_put_digest(&w, "id", id);
        jsonw_put_string(&w, "name", name != NULL ? reference_format(name, text) : NULL);
        jsonw_end_object(&w);
        (void)buf_putc(&b, '\n');
    } else {
        (void)buf_printf(&b, "sha256:%s\n", id);
    }
    return verb_print(&b);
}

int verbs_answer(int r, const char *const *lines, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
    if (r < 0)
        image_answer_error(&b, err, registry_hidden_reason());
    for (size_t i = 0; r >= 0 && lines[i] != NULL; i++)
        (void)buf_printf(&b, "%s\n", lines[i]);
    int code = verb_print(&b);
    return r < 0 ? cay_code_exit(err->code) : code;
}
