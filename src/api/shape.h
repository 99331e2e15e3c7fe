/* What travels as JSON or as a table: sandboxes, their figures, errors; and what requests say. */
#pragma once

#include "api/sheet.h"
#include "manager/manager.h"

struct cay_error;

extern const struct sheet_kind shape_sandbox; /* struct sandbox_record */
extern const struct sheet_kind shape_stats;   /* struct engine_stats */
extern const struct sheet_kind shape_status;  /* struct manager_totals */

/* An error as docs/api.md has it. */
void shape_error(struct buf *out, bool is_tsv, const struct cay_error *err, unsigned status);

/* The bodies of requests. An unknown key is refused with the nearest one. What is left out stays
 * zero; the caller releases ret also after a failure. */
int shape_read_create(const struct buf *body, struct sandbox_record *ret, struct cay_error *err);
/* Limits alone (resize), or everything that can be changed. */
int shape_read_limits(const struct buf *body, struct manager_update *ret, struct cay_error *err);
int shape_read_update(const struct buf *body, struct manager_update *ret, struct cay_error *err);
int shape_read_labels(const struct buf *body, struct strv *ret, struct cay_error *err);
int shape_read_rename(const struct buf *body, char name[static NAME_MAX_LEN + 1],
                      struct cay_error *err);
/* The name, scopes, limits and expiry of a key; scopes 0 if none is named. */
int shape_read_key(const struct buf *body, struct key *ret, struct cay_error *err);
