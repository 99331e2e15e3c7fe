#include "client/python.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "client/oom.h"
#include "lib/python/python.h"

struct command_defaults client_defaults(const struct daemon_connection *c) {
    return (struct command_defaults){
        .user = c->user, .hostname = c->name, .work_dir = c->work_dir, .env = c->env};
}

static bool is_waiting(const struct client_python *p) {
    return p->connection.python != NULL && str_equal(p->connection.python, "warm");
}

static int connect_to(struct client_python *p, bool is_changed, struct cay_error *err) {
    const char *why = p->not_warm;
    int r = why != NULL ? daemon_connect(p->daemon, p->who, &p->connection, err)
                        : daemon_connect_python(p->daemon, p->who, is_changed, &p->connection, err);
    const char *told = p->connection.python;
    if (why == NULL && told != NULL && str_starts(told, "cold; "))
        why = told + strlen("cold; ");
    (void)snprintf(p->why_cold, sizeof p->why_cold, "%.199s",
                   why != NULL ? why : "the daemon has no warm interpreters");
    return r;
}

int client_python_connect(struct client_python *p, struct cay_error *err) {
    return connect_to(p, false, err);
}

static int run_once(struct client_python *p, const struct cay_python *program,
                    const struct cay_exec *exec, bool *ret_asleep, struct cay_python_result *ret,
                    struct cay_error *err) {
    const struct command_defaults defaults = client_defaults(&p->connection);
    struct cay_python one = *program;
    one.warm = -1;
    one.waits = is_waiting(p);
    return python_exec_woken(&p->connection.fd, &one, exec, &defaults,
                             one.waits ? ret_asleep : NULL, ret, err);
}

int client_python_run(struct client_python *p, const struct cay_python *program,
                      const struct cay_exec *exec, struct cay_python_result *ret,
                      struct cay_error *err) {
    int64_t began = clock_us();
    bool asleep = false;
    int r = run_once(p, program, exec, &asleep, ret, err);
    if (asleep) {
        /* It was not the sandbox's own any more, and nothing was run. */
        cay_python_result_free(ret);
        daemon_disconnect(&p->connection);
        r = connect_to(p, true, err);
        if (r == 0)
            r = run_once(p, program, exec, &asleep, ret, err);
    }
    if (r == 0)
        oom_judge(p->daemon, p->who, began, &ret->run);
    return r;
}
