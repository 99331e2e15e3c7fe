/* The sorted arrays of the table. A search looks at as many rows as the number of rows has digits
 * in base two; rows are put in and taken out by moving pointers. With the manager's lock held. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "manager/record/table.h"

/* What a row is searched by; only what the order needs is looked at. */
struct index_key {
    const char *id, *name, *owner;
    int64_t created_ms;
};

struct table_rows index_rows(const struct manager *m, enum table_order order);
/* Where the first row is that does not come before the key; the number of rows if there is none. */
size_t index_search(const struct table_rows *rows, enum table_order order,
                    const struct index_key *key);
/* Room for so many rows in each; 0 or -ENOMEM. */
int index_reserve(struct manager *m, size_t room);
void index_free(struct manager *m);
