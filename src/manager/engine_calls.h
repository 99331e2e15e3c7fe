/* The operations of the engines, with patience for one that is away for a moment. That of a sandbox
 * is found by its id; all take the lock. */
#pragma once

#include "engine/engine.h"

struct manager;
struct sandbox_record;

/* The engine of the sandbox in the table with this id. */
struct engine *drive_engine(struct manager *m, const char *id);
int drive_start(struct manager *m, const struct sandbox_spec *spec, const char *image, int listener,
                struct cay_error *err); /* err is not NULL */
int drive_stop(struct manager *m, const char *id, struct cay_error *err);
int drive_pause(struct manager *m, const char *id, struct cay_error *err);
int drive_resume(struct manager *m, const char *id, struct cay_error *err);
int drive_stats(struct manager *m, const char *id, struct engine_stats *ret, struct cay_error *err);
/* What an engine keeps by itself. */
int drive_archive(struct manager *m, const struct sandbox_record *r, uint64_t *ret_bytes,
                  struct cay_error *err);
int drive_unarchive(struct manager *m, const char *id, struct cay_error *err);
/* Of engines that keep backups by themselves. */
int drive_backup(struct manager *m, const struct sandbox_record *r, uint64_t max_bytes,
                 uint64_t *ret_bytes, struct cay_error *err);
int drive_backup_restore(struct manager *m, const char *id, bool *ret, struct cay_error *err);
int drive_backup_remove(struct manager *m, const char *id, struct cay_error *err);
int drive_resize(struct manager *m, const struct sandbox_spec *spec, struct cay_error *err);
/* Named volumes: volume_make or volume_grow of the configured engine, and its volume_remove. */
typedef int (*volume_call)(struct engine *e, const char *id, uint64_t bytes, struct cay_error *err);
int drive_volume_size(struct manager *m, volume_call call, const char *id, uint64_t bytes,
                      struct cay_error *err);
int drive_volume_remove(struct manager *m, const char *id, struct cay_error *err);
int drive_remove(struct manager *m, const char *id, struct cay_error *err);
/* The same of what is in no table. */
int drive_remove_lost(struct manager *m, enum engine_kind kind, const char *id,
                      struct cay_error *err);

/* It is the configured engine, or has sandboxes: only then its program is worth starting. Takes the
 * lock. (manager/engines.c) */
bool engine_is_used(struct manager *m, enum engine_kind kind);
