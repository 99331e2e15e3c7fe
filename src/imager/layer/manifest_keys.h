/* The one order in which the sets and maps of a configuration stand, read or written: a JSON object
 * has none of its own. Each returns 0 or -ENOMEM. */
#pragma once

struct strv;

/* Sorts the texts; of equal ones, one stays. */
int manifest_sort_set(struct strv *list);

/* Sorts "KEY=VALUE" by key; of several with one key, the last stays. */
int manifest_sort_labels(struct strv *list);
