/* Settings of git and what it keeps of credentials. */
#include "api/code/toolbox_git.h"

#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/code/git_order.h"
#include "base/error.h"
#include "base/json/jsonw.h"
#include "base/str.h"

/* A setting of one repository needs its path; others are nowhere. */
static const char *scope_option(struct git_order *o, const char *scope, const char *path) {
    static const struct {
        const char *name, *option;
    } scopes[] = {{"global", "--global"}, {"local", "--local"}, {"system", "--system"}};
    o->job.path = NULL;
    if (scope == NULL || scope[0] == '\0')
        scope = "global";
    if (str_equal(scope, "local"))
        o->job.path = path;
    for (size_t i = 0; i < ARRAY_LEN(scopes); i++)
        if (str_equal(scopes[i].name, scope) && (o->job.path != NULL || i != 1))
            return scopes[i].option;
    if (o->result == 0 && str_equal(scope, "local")) {
        error_set(o->err, CAY_INVALID_ARGUMENT, "path: is missing");
        o->result = error_remedy(o->err, "the scope local needs the path of a repository");
    } else if (o->result == 0) {
        error_set(o->err, CAY_INVALID_ARGUMENT, "scope: '%.40s' is not known", scope);
        o->result = error_remedy(o->err, "use global, local or system");
    }
    return NULL;
}

static void write_value(struct call *c, const struct buf *out, bool is_set) {
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "value", is_set ? buf_text(out) : NULL);
    jsonw_end_object(&w);
}

static int config_get(struct call *c, struct cay_error *err) {
    _cleanup_(git_order_free) struct git_order *o = NULL;
    _cleanup_(buf_free) struct buf out = BUF_INIT(GIT_TEXT_MAX);
    const char *key = target_query(&c->target, "key"), *path = target_query(&c->target, "path");
    int code = 0, r = git_order_new(c, &o, err);
    if (r < 0)
        return r;
    if (key == NULL || key[0] == '\0' || key[0] == '-') {
        error_set(err, CAY_INVALID_ARGUMENT, "key: is missing, or no name of a setting");
        return error_remedy(err, "name one, as ?key=user.name");
    }
    const char *scope = scope_option(o, target_query(&c->target, "scope"), path);
    o->job.ret_exit = &code;
    if (GIT_RUN(o, &out, "config", scope, "-z", "--get", key) < 0)
        return o->result;
    write_value(c, &out, code == 0);
    return 0;
}

static int config_set(struct call *c, struct cay_error *err) {
    _cleanup_(git_order_free) struct git_order *o = NULL;
    const char *value = NULL;
    int r = git_order_read(c, &o, err);
    if (r < 0)
        return r;
    const char *key = git_name(o, "key", JSON_REQUIRED);
    if (o->result == 0)
        o->result = json_get_string(&o->root, "value", JSON_REQUIRED, &value, err);
    const char *path = git_text(o, "path", JSON_OPTIONAL),
               *scope = git_text(o, "scope", JSON_OPTIONAL);
    return GIT_RUN(o, NULL, "config", scope_option(o, scope, path), "--replace-all", key, value);
}

static int config_user(struct call *c, struct cay_error *err) {
    _cleanup_(git_order_free) struct git_order *o = NULL;
    int r = git_order_read(c, &o, err);
    if (r < 0)
        return r;
    const char *user = git_text(o, "name", JSON_REQUIRED),
               *email = git_text(o, "email", JSON_REQUIRED);
    const char *path = git_text(o, "path", JSON_OPTIONAL),
               *scope = git_text(o, "scope", JSON_OPTIONAL);
    const char *option = scope_option(o, scope, path);
    (void)GIT_RUN(o, NULL, "config", option, "--replace-all", "user.name", user);
    return GIT_RUN(o, NULL, "config", option, "--replace-all", "user.email", email);
}

/* "key=value" lines are its protocol, so that none may have two. */
static void put_line(struct git_order *o, struct buf *out, const char *key, const char *value) {
    if (o->result == 0 && strpbrk(value, "\r\n") != NULL) {
        error_set(o->err, CAY_INVALID_ARGUMENT, "%s: has a line break", key);
        o->result = error_remedy(o->err, "send it without");
    }
    (void)buf_printf(out, "%s=%s\n", key, value);
}

/* Kept in the sandbox as it is, as Daytona does it: who may run commands there may read it. */
static int credentials(struct call *c, struct cay_error *err) {
    _cleanup_(git_order_free) struct git_order *o = NULL;
    _cleanup_(buf_free) struct buf lines = BUF_INIT(64 * 1024);
    int r = git_order_read(c, &o, err);
    if (r < 0)
        return r;
    const char *user = git_text(o, "username", JSON_REQUIRED);
    const char *password = git_text(o, "password", JSON_REQUIRED);
    const char *host = git_text(o, "host", JSON_OPTIONAL),
               *protocol = git_text(o, "protocol", JSON_OPTIONAL);
    if (o->result < 0)
        return o->result;
    put_line(o, &lines, "protocol", protocol != NULL ? protocol : "https");
    put_line(o, &lines, "host", host != NULL ? host : "github.com");
    put_line(o, &lines, "username", user);
    put_line(o, &lines, "password", password);
    (void)buf_putc(&lines, '\n');
    if (o->result == 0 && lines.failed)
        o->result = error_set(err, CAY_INVALID_ARGUMENT, "the credentials are too long");
    (void)GIT_RUN(o, NULL, "config", "--global", "credential.helper", "store");
    o->job.input = buf_text(&lines);
    r = GIT_RUN(o, NULL, "credential", "approve");
    if (lines.data != NULL)
        explicit_bzero(lines.data, lines.len);
    return r;
}

static const struct route rows[] = {
    {"GET", "/toolbox/{who}/git/config", config_get, NEED_USE},
    {"POST", "/toolbox/{who}/git/config", config_set},
    {"POST", "/toolbox/{who}/git/config/user", config_user},
    {"POST", "/toolbox/{who}/git/credentials", credentials},
};
const struct route_table toolbox_git_config_routes = {rows, ARRAY_LEN(rows)};
