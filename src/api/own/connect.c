/* A way through to cay-init, with what commands get by default. */
#include "api/call.h"
#include "api/toolbox/command.h"
#include "base/error.h"
#include "lib/python/python.h"
#include "manager/manager.h"
#include "manager/python/interpreters.h"

enum { HEADER_MAX = 192 * 1024 }; /* of all defaults together */

/* Bytes that a header cannot carry, and '%', as %XX. */
static void encode(struct buf *out, const char *text) {
    for (; *text != '\0'; text++) {
        if (*text < '!' || *text > '~' || *text == '%')
            (void)buf_printf(out, "%%%02X", (unsigned)(unsigned char)*text);
        else
            (void)buf_putc(out, *text);
    }
}

static int add_encoded(struct call *c, const char *name, const char *text, size_t *used,
                       struct cay_error *err) {
    _cleanup_(buf_free) struct buf value = BUF_INIT(HEADER_MAX);
    encode(&value, text);
    *used += value.len;
    if (value.failed || *used > HEADER_MAX) {
        error_set(err, CAY_RESOURCE_EXHAUSTED, "the sandbox's environment is too large to pass on");
        return error_remedy(err, "make the sandbox with a smaller one");
    }
    return call_add_header(c, name, buf_text(&value), err);
}

static int add_defaults(struct call *c, const struct sandbox_record *r, struct cay_error *err) {
    size_t used = 0;
    int code = call_add_header(c, "Upgrade", "cay-init", err);
    if (code == 0 && r->user[0] != '\0')
        code = add_encoded(c, "X-Cay-User", r->user, &used, err);
    if (code == 0)
        code = add_encoded(c, "X-Cay-Work-Dir", r->work_dir, &used, err);
    if (code == 0)
        code = add_encoded(c, "X-Cay-Name", r->name, &used, err);
    for (size_t i = 0; code == 0 && i < r->env.len; i++)
        code = add_encoded(c, "X-Cay-Env", r->env.v[i], &used, err);
    return code;
}

/* Wakes the image's interpreter there, for a client who will bring it a program. */
static int wake_python(struct call *c, const struct sandbox_record *r, int fd,
                       struct cay_error *why) {
    const struct strv none = {0};
    const struct command_defaults defaults = {.user = r->user[0] != '\0' ? r->user : NULL,
                                              .hostname = r->name,
                                              .work_dir = r->work_dir,
                                              .env = (const char *const *)r->env.v};
    _cleanup_(closep) int warm = interpreters_find(c->interpreters, r, &none, why);
    return warm < 0 ? warm : python_wake_kept(fd, warm, &defaults, why);
}

static int offer_python(struct call *c, const struct sandbox_record *r, struct cay_error *err) {
    const char *asked = call_header(c, "X-Cay-Python");
    struct cay_error why = {0};
    char text[256];
    size_t used = 0;
    if (asked == NULL || c->interpreters == NULL)
        return 0;
    if (str_equal(asked, "changed"))
        interpreters_note_changed(c->interpreters, r);
    bool wakes = str_equal(asked, "warm") && wake_python(c, r, c->answer.connection, &why) == 0;
    (void)snprintf(text, sizeof text, "%s%.200s", wakes ? "warm" : "cold; ",
                   wakes                         ? ""
                   : str_equal(asked, "changed") ? "the sandbox's Python is another by now"
                                                 : why.message);
    return add_encoded(c, "X-Cay-Python", text, &used, err);
}

static void see_frames(void *user, const char *data, size_t len) {
    struct call *c = user;
    wire_watch_see(&c->answer.frames, data, len);
}

/* As of commands that the daemon runs itself. */
static void note_outcome(struct call *c, int64_t began_ms) {
    struct exec_outcome outcome;
    if (!wire_watch_end(&c->answer.frames, &outcome))
        return;
    toolbox_count(c, 0, &outcome);
    (void)toolbox_ran_out_of_memory(c, outcome.exit_code, began_ms);
}

int connect_handle(struct call *c, struct cay_error *err) {
    if (!c->wants_upgrade) {
        error_set(err, CAY_INVALID_ARGUMENT, "this path needs an upgrade of the connection");
        return error_remedy(err, "send 'Connection: Upgrade' and 'Upgrade: cay-init'");
    }
    struct sandbox_record r = {0};
    int code = manager_begin(c->manager, c->who, &c->answer.operation, &r, err);
    if (code >= 0) {
        c->answer.connection = code;
        c->answer.watch = (struct relay_watch){.see = see_frames, .user = c};
        c->answer.passed = note_outcome;
        code = add_defaults(c, &r, err);
    }
    if (code == 0)
        code = offer_python(c, &r, err);
    sandbox_record_free(&r);
    return code;
}
