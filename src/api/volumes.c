/* Named volumes, as Daytona has them. */
#include <stdlib.h>

#include "api/call.h"
#include "api/shape.h"
#include "base/error.h"
#include "manager/volume.h"

static const struct volume no_volume;

static void write_volume(struct sheet *s, const void *row) {
    const struct volume *v = row;
    sheet_string(s, "id", v->id);
    sheet_string(s, "name", v->name);
    sheet_string(s, "organizationId", v->owner);
    sheet_string(s, "state", v->passing ? "creating" : "ready");
    sheet_time(s, "createdAt", v->created_ms);
    sheet_time(s, "updatedAt", v->created_ms);
    sheet_optional(s, "errorReason", "");
    sheet_unsigned(s, "size", v->size_bytes);
}

static const struct sheet_kind shape_volume = {write_volume, sizeof(struct volume), &no_volume};

int volume_create_handle(struct call *c, struct cay_error *err) {
    struct volume_request request = {0};
    struct volume v = {0};
    int r = shape_read_volume(&c->body, &request, err);
    if (r == 0)
        r = manager_volume_create(c->manager, &c->caller, &request, &v, err);
    v.passing = false;
    if (r == 0)
        call_answer(c, &shape_volume, &v);
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
        call_answer(c, &shape_volume, &v);
    return r;
}

int volume_list_handle(struct call *c, struct cay_error *err) {
    struct volume *all = NULL;
    size_t count = 0;
    int r = manager_volume_list(c->manager, &c->caller, &all, &count, err);
    if (r == 0)
        sheet_write_all(&c->answer.body, c->wants_tsv, &shape_volume, all, count);
    free(all);
    return r;
}

int volume_get_handle(struct call *c, struct cay_error *err) {
    struct volume v;
    int r = manager_volume_get(c->manager, &c->caller, c->who, &v, err);
    if (r == 0)
        call_answer(c, &shape_volume, &v);
    return r;
}

int volume_remove_handle(struct call *c, struct cay_error *err) {
    c->answer.status = 204;
    return manager_volume_remove(c->manager, &c->caller, c->who, err);
}
