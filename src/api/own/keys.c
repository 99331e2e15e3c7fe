/* Keys and organisations: made, listed, removed. The text of a key is in one answer, and nowhere
 * else. */
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/shape/shape.h"
#include "base/auto.h"
#include "base/error.h"
#include "manager/manager.h"

/* What is shown of a key. */
struct shown_key {
    struct key key;
    char organization[NAME_MAX_LEN + 1]; /* its name; "": it belongs to none */
    char value[KEY_TEXT_SIZE];
};

static void write_scopes(struct jsonw *w, unsigned scopes) {
    struct strv names = {0};
    for (unsigned bit = SCOPE_READ; bit <= SCOPE_ADMIN; bit <<= 1)
        if ((scopes & bit) != 0)
            w->failed |= strv_push(&names, key_scope_name(bit)) < 0;
    jsonw_put_strings(w, "permissions", &names);
    strv_free(&names);
}

static void write_limits(struct jsonw *w, const struct key *k) {
    for (enum budget_item i = 0; i < BUDGET_ITEMS; i++) {
        uint64_t limit = budget_limit(k, i);
        if (budget_is_part(i))
            continue;
        if (budget_table[i].unit == BUDGET_QUOTA)
            jsonw_put_number(w, budget_table[i].limit_name, (double)limit / 100000);
        else
            jsonw_put_unsigned(w, budget_table[i].limit_name, limit);
    }
}

static void write_key(struct jsonw *w, const void *row) {
    const struct shown_key *k = row;
    jsonw_put_string(w, "id", k->key.id);
    jsonw_put_string(w, "name", k->key.name);
    jsonw_put_string(w, "value", k->value[0] != '\0' ? k->value : "cay_********");
    write_scopes(w, k->key.scopes);
    jsonw_put_time(w, "createdAt", k->key.created_ms);
    jsonw_put_optional_time(w, "expiresAt", k->key.expires_ms);
    jsonw_put_optional(w, "organization", k->organization);
    write_limits(w, &k->key);
}

int key_make(struct call *c, struct key *k, char organization[static NAME_MAX_LEN + 1],
             char value[static KEY_TEXT_SIZE], struct cay_error *err) {
    struct key org = {0};
    int r = shape_read_key(&c->body, k, organization, err);
    if (r == 0 && organization[0] != '\0')
        r = manager_organization_get(c->manager, organization, &org, err);
    if (r < 0)
        return r;
    memcpy(k->organization, org.id, sizeof k->organization);
    if (k->scopes == 0)
        k->scopes = SCOPE_SANDBOXES;
    return manager_key_add(c->manager, k, value, err);
}

static void name_organization(const struct call *c, struct shown_key *k) {
    struct key org;
    if (k->key.organization[0] != '\0' && manager_key_by_id(c->manager, k->key.organization, &org))
        memcpy(k->organization, org.name, sizeof org.name);
}

int key_create_handle(struct call *c, struct cay_error *err) {
    struct shown_key k = {0};
    int r = key_make(c, &k.key, k.organization, k.value, err);
    if (r == 0) {
        call_answer(c, write_key, &k);
        c->answer.status = 201;
        (void)snprintf(c->detail, sizeof c->detail, "id %s", k.key.id);
    }
    memcpy(c->object, k.key.name, sizeof k.key.name);
    explicit_bzero(k.value, sizeof k.value);
    return r;
}

int key_list_handle(struct call *c, struct cay_error *err) {
    _cleanup_(freep) struct key *keys = NULL;
    size_t count = 0;
    int r = manager_key_list(c->manager, &keys, &count, err);
    _cleanup_(freep) struct shown_key *rows = r < 0 ? NULL : calloc(count + 1, sizeof *rows);
    if (rows == NULL)
        return r < 0 ? r : error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    for (size_t i = 0; i < count; i++) {
        rows[i].key = keys[i];
        name_organization(c, &rows[i]);
    }
    call_answer_all(c, write_key, rows, count, sizeof *rows);
    return 0;
}

int key_get_handle(struct call *c, struct cay_error *err) {
    struct shown_key k = {0};
    int r = manager_key_get(c->manager, c->who, &k.key, err);
    name_organization(c, &k);
    if (r == 0)
        call_answer(c, write_key, &k);
    return r;
}

int key_current_handle(struct call *c, struct cay_error *err) {
    (void)err;
    struct shown_key k = {.key = c->caller};
    name_organization(c, &k);
    call_answer(c, write_key, &k);
    return 0;
}

int key_remove_handle(struct call *c, struct cay_error *err) {
    c->answer.status = 204;
    if (c->caller.id[0] != '\0' && str_equal(c->who, c->caller.name))
        call_forget_key(c);
    return manager_key_remove(c->manager, c->who, err);
}

/* ---- organisations ---- */

static void write_organization(struct jsonw *w, const void *row) {
    const struct key *k = row;
    jsonw_put_string(w, "id", k->id);
    jsonw_put_string(w, "name", k->name);
    jsonw_put_time(w, "createdAt", k->created_ms);
    write_limits(w, k);
}

static int refuse_field(const char *name, struct cay_error *err) {
    error_set(err, CAY_INVALID_ARGUMENT, "%s: an organisation has a name and limits only", name);
    return error_remedy(err, "give it to the keys of the organisation");
}

int organization_create_handle(struct call *c, struct cay_error *err) {
    struct key k = {0};
    char organization[NAME_MAX_LEN + 1];
    int r = shape_read_key(&c->body, &k, organization, err);
    if (r < 0)
        return r;
    if (k.scopes != 0 || k.expires_ms != 0 || organization[0] != '\0')
        return refuse_field(k.scopes != 0       ? "permissions"
                            : k.expires_ms != 0 ? "expiresAt"
                                                : "organization",
                            err);
    r = manager_organization_add(c->manager, &k, err);
    if (r < 0)
        return r;
    call_answer(c, write_organization, &k);
    c->answer.status = 201;
    memcpy(c->object, k.name, sizeof k.name);
    (void)snprintf(c->detail, sizeof c->detail, "id %s", k.id);
    return 0;
}

int organization_list_handle(struct call *c, struct cay_error *err) {
    _cleanup_(freep) struct key *rows = NULL;
    size_t count = 0;
    int r = manager_organization_list(c->manager, &rows, &count, err);
    if (r == 0)
        call_answer_all(c, write_organization, rows, count, sizeof *rows);
    return r;
}

int organization_get_handle(struct call *c, struct cay_error *err) {
    struct key k = {0};
    int r = manager_organization_get(c->manager, c->who, &k, err);
    if (r == 0)
        call_answer(c, write_organization, &k);
    return r;
}

int organization_remove_handle(struct call *c, struct cay_error *err) {
    c->answer.status = 204;
    return manager_organization_remove(c->manager, c->who, err);
}
