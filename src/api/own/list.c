/* Lists of sandboxes, whole or by pages. */
#include <stdio.h>
#include <string.h>

#include "api/call.h"
#include "api/shape/shape.h"
#include "base/error.h"
#include "manager/manager.h"

enum { LIMIT_MAX = 1000 };

static bool is_wanted(void *user, const struct sandbox_record *r) {
    const struct target *t = user;
    for (size_t i = 0; i < t->queries; i++)
        if (str_equal(t->query[i].key, "label") && !strv_has(&r->labels, t->query[i].value))
            return false;
    return true;
}

static int read_limit(const struct target *t, size_t *ret, struct cay_error *err) {
    const char *text = target_query(t, "limit");
    int64_t limit = 0;
    if (text != NULL && str_to_i64(text, 1, LIMIT_MAX, &limit) < 0) {
        error_set(err, CAY_INVALID_ARGUMENT, "limit: '%.40s' is not a number from 1 to %d", text,
                  LIMIT_MAX);
        return error_remedy(err, "correct it, or omit it for all sandboxes");
    }
    *ret = (size_t)limit;
    return 0;
}

/* TIME:ID of the last sandbox of the page before. */
static int read_cursor(const struct target *t, struct manager_page *page, struct cay_error *err) {
    const char *text = target_query(t, "cursor");
    char number[24] = "";
    if (text == NULL)
        return 0;
    size_t digits = strcspn(text, ":");
    if (digits < sizeof number && text[digits] == ':' && id_is_valid(text + digits + 1)) {
        memcpy(number, text, digits);
        memcpy(page->after_id, text + digits + 1, sizeof page->after_id);
        page->has_after = str_to_i64(number, INT64_MIN, INT64_MAX, &page->after_ms) == 0;
    }
    if (page->has_after)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "cursor: '%.60s' is not a cursor", text);
    return error_remedy(err, "use the header X-Cay-Next-Cursor of the page before, or omit it");
}

static int answer_page(struct call *c, const struct manager_listing *l, struct cay_error *err) {
    char cursor[48];
    call_answer_all(c, shape_put_sandbox, l->v, l->count, sizeof *l->v);
    if (!l->has_more)
        return 0;
    const struct sandbox_record *last = &l->v[l->count - 1];
    (void)snprintf(cursor, sizeof cursor, "%lld:%s", (long long)last->created_ms, last->id);
    return call_add_header(c, "X-Cay-Next-Cursor", cursor, err);
}

int list_handle(struct call *c, struct cay_error *err) {
    struct manager_listing l = {0};
    struct manager_page page = {.caller = &c->caller, .user = &c->target};
    if (target_query(&c->target, "label") != NULL)
        page.wanted = is_wanted;
    int r = read_limit(&c->target, &page.limit, err);
    if (r == 0)
        r = read_cursor(&c->target, &page, err);
    if (r == 0)
        r = manager_list_page(c->manager, &page, &l, err);
    if (r == 0)
        r = answer_page(c, &l, err);
    manager_listing_free(&l);
    return r;
}
