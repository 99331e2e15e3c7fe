/* cay_manager: what is done inside a sandbox, over connections to its init. */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "client/copy.h"
#include "client/manage.h"
#include "client/oom.h"
#include "client/python.h"
#include "lib/command.h"
#include "lib/python/code.h"
#include "wire/client_files.h"

/* ---- commands ---- */

int cay_manager_run_command(cay_manager *m, const char *who, const struct cay_exec *exec,
                            struct cay_result *result, struct cay_error *err) {
    *result = (struct cay_result){.exit_code = 125};
    _cleanup_(daemon_disconnect) struct daemon_connection c = DAEMON_CONNECTION_INIT;
    int r = daemon_connect(&m->daemon, who, &c, err);
    if (r < 0)
        return r;
    const struct command_defaults defaults = client_defaults(&c);
    int64_t began = clock_us();
    r = command_exec(&c.fd, exec, &defaults, result, err);
    if (r == 0)
        oom_judge(&m->daemon, who, began, result);
    return r;
}

/* ---- programs ---- */

/* What an interpreter that was started before could not take into account. */
static const char *why_cold(const struct cay_python *python, const struct cay_exec *exec) {
    return python->packages != NULL && python->packages[0] != NULL ? "packages"
           : exec->user != NULL                                    ? "user"
           : exec->work_dir != NULL                                ? "work_dir"
           : exec->env != NULL && exec->env[0] != NULL             ? "env"
                                                                   : NULL;
}

int cay_manager_run_python(cay_manager *m, const char *who, const struct cay_python *python,
                           const struct cay_exec *exec, struct cay_python_result *result,
                           struct cay_error *err) {
    *result = (struct cay_python_result){.run = {.exit_code = 125}};
    struct client_python p = {.daemon = &m->daemon,
                              .who = who,
                              .not_warm = why_cold(python, exec),
                              .connection = DAEMON_CONNECTION_INIT};
    int r = client_python_connect(&p, err);
    if (r == 0)
        r = client_python_run(&p, python, exec, result, err);
    daemon_disconnect(&p.connection);
    return r;
}

int cay_manager_run_program(cay_manager *m, const char *who, const struct cay_program *code,
                            const struct cay_exec *exec, struct cay_program_result *result,
                            struct cay_error *err) {
    *result = (struct cay_program_result){.program = {.run = {.exit_code = 125}}};
    _cleanup_(daemon_disconnect) struct daemon_connection c = DAEMON_CONNECTION_INIT;
    int r = daemon_connect(&m->daemon, who, &c, err);
    if (r < 0)
        return r;
    const struct command_defaults defaults = client_defaults(&c);
    int64_t began = clock_us();
    r = code_exec(&c.fd, code, exec, &defaults, result, err);
    if (r == 0)
        oom_judge(&m->daemon, who, began, &result->program.run);
    return r;
}

/* ---- files ---- */

static int begin(const cay_manager *m, const char *who, struct daemon_connection *c,
                 struct wire_call *call, struct cay_error *err) {
    int r = daemon_connect(&m->daemon, who, c, err);
    *call = (struct wire_call){.fd = c->fd, .user = c->user, .cwd = c->work_dir};
    return r;
}

int cay_manager_read_file(cay_manager *m, const char *who, const char *path, size_t max, char **ret,
                          size_t *ret_len, struct cay_error *err) {
    _cleanup_(daemon_disconnect) struct daemon_connection c = DAEMON_CONNECTION_INIT;
    _cleanup_(buf_free) struct buf content = BUF_INIT(max);
    const struct wire_range range = {.max_bytes = max};
    struct wire_call call;
    uint64_t size;
    int r = begin(m, who, &c, &call, err);
    if (r == 0)
        r = wire_read(&call, path, &range, wire_sink_buf, &content, &size, err);
    if (r < 0)
        return r;
    *ret_len = content.len;
    *ret = content.len > 0 ? buf_take(&content) : strdup("");
    return *ret == NULL ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory") : 0;
}

int cay_manager_write_file(cay_manager *m, const char *who, const char *path, const void *data,
                           size_t len, int mode, struct cay_error *err) {
    _cleanup_(daemon_disconnect) struct daemon_connection c = DAEMON_CONNECTION_INIT;
    struct wire_memory memory = {.data = data, .len = len};
    struct wire_call call;
    int r = begin(m, who, &c, &call, err);
    return r < 0 ? r : wire_write(&call, path, mode, true, wire_source_memory, &memory, err);
}

/* "-" is standard input or output for `cay cp`; here it is a file like any other. */
static const char *file_name(const char *path) {
    return strcmp(path, "-") == 0 ? "./-" : path;
}

int cay_manager_copy_to(cay_manager *m, const char *who, const char *from, const char *to,
                        struct cay_error *err) {
    struct copy_totals totals;
    return copy_in(&m->daemon, file_name(from), who, to, NULL, &totals, err);
}

int cay_manager_copy_from(cay_manager *m, const char *who, const char *from, const char *to,
                          struct cay_error *err) {
    struct copy_totals totals;
    return copy_out(&m->daemon, who, from, file_name(to), NULL, &totals, err);
}

/* ---- images ---- */

int cay_manager_ensure_image(cay_manager *m, const char *image, enum cay_pull pull,
                             char id[CAY_IMAGE_ID_SIZE], struct cay_error *err) {
    if (m->daemon.state_dir[0] == '\0') {
        error_set(err, CAY_UNSUPPORTED, "images of another host cannot be fetched ahead");
        return error_remedy(err, "make a sandbox from it: that fetches it");
    }
    return cay_image_ensure(m->daemon.state_dir, m->daemon.config, image, pull, true, id, err);
}
