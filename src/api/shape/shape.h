/* What travels as JSON: sandboxes, their figures, errors; and what requests say. */
#pragma once

#include "base/json/jsonw.h"
#include "manager/manager.h"

struct cay_error;
struct volume_request;

/* The native engine, which knows what limits are not kept on this host: none of those is shown.
 * NULL until there is one. */
void shape_use_engine(const struct engine *native);
/* True if the engine does not keep this limit (ENGINE_UNKEPT_…) of a sandbox.
 */
bool shape_is_unkept(const struct sandbox_record *r, uint32_t limit);
/* Which limits are not kept, and why; "" if all are. */
const char *shape_describe_unkept(const struct sandbox_record *r);
/* The limits of a sandbox as far as they are kept; 0: none. */
uint64_t shape_memory(const struct sandbox_record *r);
uint32_t shape_cpu_quota(const struct sandbox_record *r);

/* Members of answers; row is a struct sandbox_record, engine_stats, manager_totals. */
void shape_put_sandbox(struct jsonw *w, const void *row);
void shape_put_stats(struct jsonw *w, const void *row);
void shape_put_status(struct jsonw *w, const void *row);

/* An error as docs/api.md has it. */
void shape_error(struct buf *out, const struct cay_error *err, unsigned status);

/* The bodies of requests. An unknown key is refused with the nearest one. What is left out stays
 * zero; the caller releases ret also after a failure. */
int shape_read_create(const struct buf *body, struct sandbox_record *ret, struct cay_error *err);
/* Limits alone (resize), or everything that can be changed. */
int shape_read_limits(const struct buf *body, struct manager_update *ret, struct cay_error *err);
int shape_read_update(const struct buf *body, struct manager_update *ret, struct cay_error *err);
int shape_read_labels(const struct buf *body, struct strv *ret, struct cay_error *err);
int shape_read_rename(const struct buf *body, char name[static NAME_MAX_LEN + 1],
                      struct cay_error *err);
int shape_read_volume(const struct buf *body, struct volume_request *ret, struct cay_error *err);
/* {"size": SIZE} */
int shape_read_size(const struct buf *body, uint64_t *ret, struct cay_error *err);
/* The name, scopes, limits and expiry of a key, and the name of its organisation; scopes 0 and ""
 * if none is named. */
int shape_read_key(const struct buf *body, struct key *ret,
                   char organization[static NAME_MAX_LEN + 1], struct cay_error *err);
