#include "manager/record/index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "manager/internal.h"

_Thread_local size_t table_looks;

static int compare_ages(const struct index_key *k, const struct sandbox_record *r) {
    if (k->created_ms != r->created_ms)
        return k->created_ms < r->created_ms ? -1 : 1;
    return strcmp(k->id, r->id);
}

static int compare(enum table_order order, const struct index_key *k,
                   const struct sandbox_record *r) {
    int c = 0;
    switch (order) {
    case TABLE_BY_ID:
        return strcmp(k->id, r->id);
    case TABLE_BY_NAME:
        c = strcmp(k->name, r->name);
        return c != 0 ? c : strcmp(k->owner, r->owner);
    case TABLE_BY_OWNER:
        c = strcmp(k->owner, r->owner);
        return c != 0 ? c : compare_ages(k, r);
    case TABLE_BY_AGE:
    case TABLE_POOLED:
    case TABLE_ORDERS:
        break;
    }
    return compare_ages(k, r);
}

struct table_rows index_rows(const struct manager *m, enum table_order order) {
    return (struct table_rows){m->indexes[order].v, m->indexes[order].count};
}

size_t index_search(const struct table_rows *rows, enum table_order order,
                    const struct index_key *key) {
    size_t from = 0, to = rows->count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        table_looks++;
        if (compare(order, key, &rows->v[middle]->record) > 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

int index_reserve(struct manager *m, size_t room) {
    for (size_t i = 0; i < TABLE_ORDERS; i++) {
        struct sandbox **v = reallocarray(m->indexes[i].v, room, sizeof(struct sandbox *));
        if (v == NULL)
            return -ENOMEM;
        m->indexes[i].v = v;
    }
    return 0;
}

void index_free(struct manager *m) {
    for (size_t i = 0; i < TABLE_ORDERS; i++)
        free(m->indexes[i].v);
}

static bool is_in(enum table_order order, const struct sandbox_record *r) {
    if (order == TABLE_POOLED)
        return r->pooled;
    return !r->pooled || order == TABLE_BY_ID || order == TABLE_BY_NAME;
}

static size_t place_of(const struct manager *m, enum table_order order,
                       const struct sandbox_record *r) {
    struct table_rows rows = index_rows(m, order);
    return index_search(&rows, order, &(struct index_key){r->id, r->name, r->owner, r->created_ms});
}

void table_in(struct manager *m, struct sandbox *s) {
    for (enum table_order i = 0; i < TABLE_ORDERS; i++) {
        struct index *x = &m->indexes[i];
        if (!is_in(i, &s->record))
            continue;
        size_t at = place_of(m, i, &s->record);
        memmove(&x->v[at + 1], &x->v[at], (x->count - at) * sizeof(struct sandbox *));
        x->v[at] = s;
        x->count++;
    }
}

void table_out(struct manager *m, struct sandbox *s) {
    for (enum table_order i = 0; i < TABLE_ORDERS; i++) {
        struct index *x = &m->indexes[i];
        if (!is_in(i, &s->record))
            continue;
        size_t at = place_of(m, i, &s->record);
        while (at < x->count && x->v[at] != s) /* of rows that compare equal */
            at++;
        if (at == x->count)
            continue;
        x->count--;
        memmove(&x->v[at], &x->v[at + 1], (x->count - at) * sizeof(struct sandbox *));
    }
}
