/* cay-docker probe: what `cay doctor` says of Docker.
 * cay-docker ensure STATE_DIR POLICY quiet|tell IMAGE [CONFIG]: what `cay-image ensure` is for the
 * native engine, with the same answer.
 * cay-docker STATE_DIR keep|run [FOLDER...]: what cay-launcher is for the native engine, for
 * Docker's. Serves the client whose socket is descriptor 3; with "run", one sandbox that ends with
 * it. Whoever may use Docker is root on its host, so it
 * is this process that talks to it, and not the one that reads from the network. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "confine/capabilities.h"
#include "confine/privilege.h"
#include "engine/docker/api.h"
#include "engine/docker/engine.h"
#include "engine/docker/images/ensure.h"
#include "engine/docker/probe.h"
#include "engine/docker/runtime.h"
#include "engine/docker/transport/host.h"
#include "engine/link/program.h"
#include "engine/link/server.h"
#include "image/answer.h"
#include "image/progress.h"
#include "image/store.h"

enum { CLIENT_FD = 3, PROBE_MAX = 16 * 1024, ANSWER_MAX = 8192 };

static int fail(const struct cay_error *err) {
    (void)fprintf(stderr, "cay-docker: %s; %s\n", err->message, err->remedy);
    return 1;
}

static int usage(void) {
    (void)fputs("usage: cay-docker STATE_DIR keep|run [FOLDER...], with the client on fd 3\n"
                "       cay-docker ensure STATE_DIR missing|always|never quiet|tell OWNER|- IMAGE "
                "[CONFIG]\n"
                "       cay-docker probe\n",
                stderr);
    return 2;
}

static int find_host(struct docker_host *ret, struct cay_error *err) {
    struct docker_host_env env = {.host = getenv("DOCKER_HOST"),
                                  .tls_verify = getenv("DOCKER_TLS_VERIFY"),
                                  .cert_path = getenv("DOCKER_CERT_PATH"),
                                  .home = getenv("HOME"),
                                  .context = getenv("DOCKER_CONTEXT"),
                                  .config = getenv("DOCKER_CONFIG")};
    return docker_host_look_up(&env, ret, err);
}

/* For `cay doctor`. */
static int probe(void) {
    _cleanup_(buf_free) struct buf found = BUF_INIT(PROBE_MAX);
    struct docker_host host;
    struct cay_error unusable, err;
    bool usable = find_host(&host, &unusable) == 0;
    if (docker_probe(&host, usable ? NULL : &unusable, &found, &err) < 0)
        return fail(&err);
    return fd_write_all(STDOUT_FILENO, buf_text(&found), found.len) < 0 ? 1 : 0;
}

/* Whoever reads its answer may be gone: then this is for nobody, and Docker is let go. */
static int answer(int r, const char *id, struct cay_error *err) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(ANSWER_MAX);
    if (r < 0)
        image_answer_error(&text, err, "");
    else
        (void)buf_printf(&text, "%s\n", id);
    (void)fd_write_all(STDOUT_FILENO, buf_text(&text), text.len);
    return r < 0 ? cay_code_exit(err->code) : 0;
}

static int ensure(int argc, char **argv) {
    struct docker_host host;
    struct cay_error unusable, err;
    struct docker_api *api = NULL;
    char id[HEX_SIZE] = "";
    struct docker_wish wish = {.state_dir = argv[2],
                               .owner = str_equal(argv[5], ENGINE_OWNER_NONE) ? "" : argv[5],
                               .name = argv[6],
                               .config = argc > 7 ? argv[7] : ""};
    if (!docker_policy_parse(argv[3], &wish.policy) || !image_owner_is_valid(wish.owner) ||
        fd_open_standard() < 0)
        return usage();
    (void)signal(SIGPIPE, SIG_IGN);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    _cleanup_(progress_freep) struct progress *progress =
        str_equal(argv[4], "quiet") ? NULL
                                    : progress_new(progress_mode_for(STDERR_FILENO), STDERR_FILENO);
    wish.progress = progress;
    bool usable = find_host(&host, &unusable) == 0;
    int r = docker_api_new(&host, usable ? NULL : &unusable, &api, &err);
    if (r == 0)
        r = docker_ensure(api, &wish, id, &err);
    docker_api_free(api);
    return answer(r, id, &err);
}

int main(int argc, char **argv) {
    struct cay_error err;
    struct docker_host host;
    struct engine *e = NULL;
    if (geteuid() == 0 &&
        privilege_keep_capabilities(CAPABILITIES_DAEMON, CAPABILITIES_DOCKER) < 0) {
        error_set(&err, CAY_INTERNAL, "capabilities cannot be given up");
        return fail(&err);
    }
    if (argc == 2 && str_equal(argv[1], "probe"))
        return probe();
    if ((argc == 7 || argc == 8) && str_equal(argv[1], "ensure"))
        return ensure(argc, argv);
    bool is_run = argc >= 3 && str_equal(argv[2], LINK_RUN);
    if (argc < 3 || argv[1][0] != '/' ||
        (!is_run && !str_equal(argv[2], engine_type(ENGINE_DOCKER)->keep)) ||
        fd_open_standard() < 0 || fcntl(CLIENT_FD, F_SETFD, FD_CLOEXEC) < 0)
        return usage();
    (void)signal(SIGPIPE, SIG_IGN);
    (void)setsid(); /* a terminal's signals are for the daemon */
    (void)prctl(PR_SET_NAME, "cay-docker", 0, 0, 0);
    const char *format = getenv(LINK_LOG_VARIABLE);
    log_set_json(format != NULL && str_equal(format, "json"));
    struct cay_error unusable;
    bool usable = find_host(&host, &unusable) == 0;
    struct docker_engine_options options = {.host = &host,
                                            .unusable = usable ? NULL : &unusable,
                                            .state_dir = argv[1],
                                            .runtime = docker_runtime_chosen(),
                                            .is_run = is_run,
                                            .folders = (const char *const *)(argv + 3),
                                            .ended = link_serve_ended,
                                            .user = (void *)(intptr_t)CLIENT_FD};
    if (docker_engine_open(&options, &e, &err) < 0)
        return fail(&err);
    int r = link_serve(e, CLIENT_FD, &err);
    if (r < 0)
        (void)fail(&err);
    if (is_run) {
        link_serve_wait();
        docker_runs_end(e);
    }
    /* Threads may still wait for Docker. What they do is whole or found again by the next. */
    _exit(r < 0 ? 1 : 0);
}
