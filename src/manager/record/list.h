/* Lists of sandboxes, whole or by pages. Only rows of the caller are looked at, and of a page only
 * as many as it takes to fill it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "manager/record/record.h"

struct cay_error;
struct key;
struct manager;

struct manager_page {
    const struct key *caller; /* whose sandboxes; NULL: all */
    bool newest_first;
    bool has_after; /* only those behind this one, which may be gone: */
    int64_t after_ms;
    char after_id[ID_SIZE];
    size_t limit; /* at most so many; 0: all */
    /* Which are wanted; NULL: all. Called with the manager's lock held. */
    bool (*wanted)(void *user, const struct sandbox_record *r);
    void *user;
};

struct manager_listing {
    struct sandbox_record *v;
    size_t count;
    bool has_more; /* there are wanted ones behind the last */
};

int manager_list_page(struct manager *m, const struct manager_page *page,
                      struct manager_listing *ret, struct cay_error *err);
void manager_listing_free(struct manager_listing *l);

/* Every sandbox, oldest first; the caller releases each and the array. */
int manager_list(struct manager *m, struct sandbox_record **ret, size_t *ret_count,
                 struct cay_error *err);
