/* Sandboxes as agents with a desktop use them, on a Daytona or on any other daemon. */
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "client/manage.h"
#include "config/config.h"

enum { AWAIT_MS = 300 * 1000, LOOK_MS = 200, ENTRY_MAX = 256 };

static const char session_name[] = "supervisord-session";

int cay_daytona_open(const char *config, cay_manager **ret, struct cay_error *err) {
    const struct cay_manager_options options = {.host = "daytona", .config = config};
    return cay_manager_open(&options, ret, err);
}

static int load(const cay_manager *m, struct config **ret, struct cay_error *err) {
    const char *path = m->config[0] != '\0' ? m->config : NULL;
    return config_load_trusted(path, (const char *const *)environ, ret, err);
}

/* ---- its session ---- */

/* One that is there from before the sandbox was stopped has ended with it, or is still known. */
static int start_session(cay_manager *m, const char *id, const char *entrypoint,
                         struct cay_error *err) {
    if (entrypoint[0] == '\0')
        return 0;
    int r = cay_manager_session_create(m, id, session_name, err);
    if (r == -CAY_CONFLICT)
        return 0;
    return r < 0 ? r : cay_manager_session_start(m, id, session_name, entrypoint, NULL, err);
}

/* ---- making ---- */

static int put_entry(char out[static ENTRY_MAX], const char *key, const char *value,
                     struct cay_error *err) {
    int r = str_format(out, ENTRY_MAX, "%s=%s", key, value);
    return r < 0 ? error_set(err, CAY_INVALID_ARGUMENT, "%s is too long", key) : 0;
}

static int make(cay_manager *m, const struct config *config, const char *const *env,
                const char *const *labels, struct cay_info **ret, struct cay_error *err) {
    struct cay_create c;
    cay_create_init(&c);
    c.spec.image = config->daytona.image[0] != '\0' ? config->daytona.image : NULL;
    c.spec.cpus = 2;
    c.spec.memory_bytes = UINT64_C(4) << 30;
    c.spec.disk_bytes = UINT64_C(5) << 30;
    c.auto_stop_minutes = 15;
    c.auto_archive_minutes = 24 * 60;
    c.env = env;
    c.labels = labels;
    return cay_manager_create(m, &c, ret, err);
}

int cay_daytona_create_sandbox(cay_manager *m, const char *password, const char *project_id,
                               struct cay_info **ret, struct cay_error *err) {
    _cleanup_(config_freep) struct config *config = NULL;
    char secret[ENTRY_MAX] = "VNC_PASSWORD=", label[ENTRY_MAX];
    struct cay_info *info = NULL;
    struct cay_error ignored;
    int r = load(m, &config, err);
    if (r == 0)
        r = put_entry(secret, "VNC_PASSWORD",
                      password != NULL ? password : config->daytona.vnc_password, err);
    if (r == 0 && project_id != NULL)
        r = put_entry(label, "id", project_id, err);
    if (r < 0)
        return r;
    const char *const env[] = {"CHROME_PERSISTENT_SESSION=true",
                               "RESOLUTION=1024x768x24",
                               "RESOLUTION_WIDTH=1024",
                               "RESOLUTION_HEIGHT=768",
                               "ANONYMIZED_TELEMETRY=false",
                               "CHROME_PATH=",
                               "CHROME_USER_DATA=",
                               "CHROME_CDP=",
                               "CHROME_DEBUGGING_PORT=9222",
                               "CHROME_DEBUGGING_HOST=localhost",
                               secret,
                               NULL};
    const char *const labels[] = {project_id != NULL ? label : NULL, NULL};
    r = make(m, config, env, labels, &info, err);
    if (r < 0)
        return r;
    r = start_session(m, info->id, config->daytona.entrypoint, err);
    if (r < 0)
        (void)cay_manager_delete(m, info->id, true, &ignored); /* nobody would know of it */
    if (r == 0 && ret != NULL)
        *ret = TAKE_PTR(info);
    cay_info_free(info);
    return r;
}

/* ---- coming back to it ---- */

/* 1: it runs; 0: it is on its way, or was started just now. */
static int push(cay_manager *m, const char *who, const struct cay_info *info,
                struct cay_error *err) {
    static const char *const standing[] = {"stopped", "archived", "paused", "error"};
    if (str_equal(info->state, "started"))
        return 1;
    for (size_t i = 0; i < ARRAY_LEN(standing); i++)
        if (str_equal(info->state, standing[i]))
            return cay_manager_start(m, who, err);
    (void)poll(NULL, 0, LOOK_MS);
    return 0;
}

static int await_started(cay_manager *m, const char *who, struct cay_info **ret, bool *ret_fresh,
                         struct cay_error *err) {
    int64_t deadline = clock_ms() + AWAIT_MS;
    for (*ret_fresh = false;; *ret_fresh = true) {
        struct cay_info *info = NULL;
        int r = cay_manager_get(m, who, &info, err);
        if (r == 0)
            r = push(m, who, info, err);
        if (r > 0) {
            *ret = info;
            return 0;
        }
        cay_info_free(info);
        if (r < 0)
            return r;
        if (clock_expired(deadline)) {
            error_set(err, CAY_TIMEOUT, "sandbox '%.100s' does not start", who);
            return error_remedy(err, "see 'cay info %.100s'", who);
        }
    }
}

int cay_daytona_get_or_start_sandbox(cay_manager *m, const char *who, struct cay_info **ret,
                                     struct cay_error *err) {
    _cleanup_(config_freep) struct config *config = NULL;
    struct cay_info *info = NULL;
    bool fresh;
    int r = load(m, &config, err);
    if (r == 0)
        r = await_started(m, who, &info, &fresh, err);
    if (r == 0 && fresh)
        r = start_session(m, info->id, config->daytona.entrypoint, err);
    if (r == 0 && ret != NULL)
        *ret = TAKE_PTR(info);
    cay_info_free(info);
    return r;
}

int cay_daytona_delete_sandbox(cay_manager *m, const char *who, struct cay_error *err) {
    return cay_manager_delete(m, who, true, err);
}
