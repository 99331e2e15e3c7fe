/* Starting with a damaged database. */
#pragma once

struct cay_error;
struct manager;

/* Opens the database in the folder, or what can be saved of it. */
int rescue_open(struct manager *m, const char *folder, struct cay_error *err);

/* In place of the reconciler, which would remove what has lost its row: rows for all that exists.
 */
int rescue_adopt(struct manager *m, struct cay_error *err);
