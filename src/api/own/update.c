/* Changes of what a sandbox is: as Daytona asks for them, and all in one. */
#include "api/call.h"
#include "api/shape/shape.h"
#include "base/error.h"
#include "manager/manager.h"

typedef int (*reader)(const struct buf *body, struct manager_update *ret, struct cay_error *err);

static int answer_changed(struct call *c, const struct manager_update *u, struct cay_error *err) {
    struct sandbox_record r = {0};
    int code = manager_update(c->manager, c->who, u, err);
    if (code == 0)
        code = manager_get(c->manager, c->who, &r, err);
    if (code == 0)
        call_answer(c, shape_put_sandbox, &r);
    sandbox_record_free(&r);
    return code;
}

static int update(struct call *c, reader read, struct cay_error *err) {
    struct manager_update u = MANAGER_UPDATE_INIT;
    int r = read(&c->body, &u, err);
    if (r == 0)
        r = answer_changed(c, &u, err);
    manager_update_free(&u);
    return r;
}

int resize_handle(struct call *c, struct cay_error *err) {
    return update(c, shape_read_limits, err);
}

int update_handle(struct call *c, struct cay_error *err) {
    return update(c, shape_read_update, err);
}

/* …/{who}/autostop/{minutes}; only a removal can be "never" by a negative one. */
int interval_read(const struct call *c, struct manager_update *ret, struct cay_error *err) {
    const char *kind = c->target.segment[c->target.segments - 2], *minutes = c->args.v[1];
    bool deletes = str_equal(kind, "autodelete");
    int64_t value;
    if (str_to_i64(minutes, deletes ? -1 : 0, INT32_MAX, &value) == 0) {
        if (deletes)
            UPDATE_SET(ret, auto_delete_minutes, value);
        else if (str_equal(kind, "autoarchive"))
            UPDATE_SET(ret, auto_archive_minutes, value);
        else
            UPDATE_SET(ret, auto_stop_minutes, value);
        return 0;
    }
    error_set(err, CAY_INVALID_ARGUMENT, "'%.40s' is no number of minutes", minutes);
    return error_remedy(err, deletes ? "give a number; 0 is at once, -1 is never"
                                     : "give a number; 0 is never");
}

int interval_handle(struct call *c, struct cay_error *err) {
    struct manager_update u = MANAGER_UPDATE_INIT;
    int r = interval_read(c, &u, err);
    return r < 0 ? r : answer_changed(c, &u, err);
}
