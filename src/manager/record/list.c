#include "manager/record/list.h"

#include <stdlib.h>

#include "base/error.h"
#include "manager/internal.h"

enum { ROOM_MIN = 16 };

void manager_listing_free(struct manager_listing *l) {
    for (size_t i = 0; i < l->count; i++)
        sandbox_record_free(&l->v[i]);
    free(l->v);
    *l = (struct manager_listing){0};
}

static int add(struct manager_listing *l, size_t *room, const struct sandbox_record *r) {
    if (l->count == *room) {
        size_t more = MAX(2 * *room, (size_t)ROOM_MIN);
        struct sandbox_record *v = reallocarray(l->v, more, sizeof *v);
        if (v == NULL)
            return -1;
        l->v = v;
        *room = more;
    }
    if (sandbox_record_copy(r, &l->v[l->count]) < 0)
        return -1;
    l->count++;
    return 0;
}

/* Those behind the cursor, in the same order. */
static struct table_rows behind(struct table_rows rows, const struct manager_page *page) {
    if (!page->has_after)
        return rows;
    size_t until = table_rows_until(&rows, page->after_ms, page->after_id);
    if (!page->newest_first)
        return (struct table_rows){rows.v + until, rows.count - until};
    bool is_there = until > 0 && str_equal(rows.v[until - 1]->record.id, page->after_id);
    return (struct table_rows){rows.v, until - is_there};
}

static int fill(struct manager *m, const struct manager_page *page, struct manager_listing *l) {
    struct table_rows rows = behind(table_rows_of(m, page->caller), page);
    size_t room = 0;
    for (size_t i = 0; i < rows.count && !l->has_more; i++) {
        const struct sandbox *s = rows.v[page->newest_first ? rows.count - 1 - i : i];
        table_looks++;
        if (page->wanted != NULL && !page->wanted(page->user, &s->record))
            continue;
        l->has_more = page->limit > 0 && l->count == page->limit;
        if (!l->has_more && add(l, &room, &s->record) < 0)
            return -1;
    }
    return 0;
}

int manager_list_page(struct manager *m, const struct manager_page *page,
                      struct manager_listing *ret, struct cay_error *err) {
    *ret = (struct manager_listing){0};
    (void)pthread_mutex_lock(&m->lock);
    int r = fill(m, page, ret);
    (void)pthread_mutex_unlock(&m->lock);
    if (r == 0)
        return 0;
    manager_listing_free(ret);
    return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
}

int manager_list(struct manager *m, struct sandbox_record **ret, size_t *ret_count,
                 struct cay_error *err) {
    struct manager_listing l;
    int r = manager_list_page(m, &(struct manager_page){0}, &l, err);
    if (r < 0)
        return r;
    *ret = l.v;
    *ret_count = l.count;
    return 0;
}
