/* Backups, for the manager's own files. */
#pragma once

#include <stdbool.h>

struct cay_error;
struct manager;
struct sandbox;
struct sandbox_record;

/* What is noted of its backup; nobody else has it yet. */
void backup_load(struct manager *m, struct sandbox *s);
bool backup_is_under_way(const struct sandbox_record *r);
/* Ends one that is under way, which then has failed: nobody waits for it. Without the lock. */
void backup_give_up(struct manager *m, const char *who);
void backup_give_up_all(struct manager *m);
/* For who has the turn: removes it, if it has one. */
int backup_drop(struct manager *m, struct sandbox *s, struct cay_error *err);
/* For who has the turn, before a start: files that are gone come from the backup. */
int backup_bring_back(struct manager *m, struct sandbox *s, struct cay_error *err);
/* For who has the turn, of one that is under way and that nobody makes: it has failed; and what
 * stood still for it goes on. */
void backup_forget(struct manager *m, struct sandbox *s);
int backup_thaw(struct manager *m, struct sandbox *s, struct cay_error *err);
/* Calls those failed that a daemon before was making. */
void backup_settle_all(struct manager *m);
