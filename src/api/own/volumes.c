/* Named volumes, as Daytona has them. */
#include <stdlib.h>

#include "api/call.h"
#include "api/shape/shape.h"
#include "base/error.h"
#include "manager/record/volume.h"

static void write_volume(struct jsonw *w, const void *row) {
    const struct volume *v = row;
    jsonw_put_string(w, "id", v->id);
    jsonw_put_string(w, "name", v->name);
    jsonw_put_string(w, "organizationId", v->owner);
    jsonw_put_string(w, "state", v->passing ? "creating" : "ready");
    jsonw_put_time(w, "createdAt", v->created_ms);
    jsonw_put_time(w, "updatedAt", v->created_ms);
    jsonw_put_optional(w, "errorReason", "");
    jsonw_put_unsigned(w, "size", v->size_bytes);
}

int volume_create_handle(struct call *c, struct cay_error *err) {
    struct volume_request request = {0};
    struct volume v = {0};
    int r = shape_read_volume(&c->body, &request, err);
    if (r == 0)
        r = manager_volume_create(c->manager, &c->caller, &request, &v, err);
    v.passing = false;
    if (r == 0)
        call_answer(c, write_volume, &v);
    return r;
}

int volume_resize_handle(struct call *c, struct cay_error *err) {
    uint64_t size = 0;
    struct volume v = {0};
    int r = manager_volume_get(c->manager, &c->caller, c->who, &v, err); /* 404 before all else */
    if (r == 0)
        r = shape_read_size(&c->body, &size, err);
    if (r == 0)
        r = manager_volume_resize(c->manager, &c->caller, c->who, size, &v, err);
    if (r == 0)
        call_answer(c, write_volume, &v);
    return r;
}

int volume_list_handle(struct call *c, struct cay_error *err) {
    struct volume *all = NULL;
    size_t count = 0;
    int r = manager_volume_list(c->manager, &c->caller, &all, &count, err);
    if (r == 0)
        call_answer_all(c, write_volume, all, count, sizeof *all);
    free(all);
    return r;
}

int volume_get_handle(struct call *c, struct cay_error *err) {
    struct volume v;
    int r = manager_volume_get(c->manager, &c->caller, c->who, &v, err);
    if (r == 0)
        call_answer(c, write_volume, &v);
    return r;
}

int volume_remove_handle(struct call *c, struct cay_error *err) {
    c->answer.status = 204;
    return manager_volume_remove(c->manager, &c->caller, c->who, err);
}
