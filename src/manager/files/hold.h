/* A thread that watches the disk of the state folder. Near its end the engine limits what sandboxes
 * may still write; those that write on are paused until there is space again. It also learns of
 * file systems with errors. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "engine/engine.h"

struct manager;
struct sandbox;
struct sandbox_record;

/* What it knows of the disk of a sandbox. */
struct disk_news {
    bool is_writing;                                       /* in this round */
    bool is_damage_reported;                               /* of errors */
    enum { NOT_REPAIRED, REPAIRED, REPAIRED_HARD } repair; /* that is not noted yet */
    uint64_t errors;
};

/* What it keeps. */
struct hold {
    struct engine_space space; /* as last measured */
    bool is_tight;             /* less is left than sandboxes may need soon */
    bool is_holding;           /* less is left than half of the reserve, and not yet all again; */
    bool holds_all;            /* so little that also those are paused which do not write */
    bool look_now;             /* a sandbox was started */
    bool watching, has_watcher;
    pthread_t watcher;
};

int hold_start(struct manager *m, struct cay_error *err);
/* One that was started may have no limit yet; with the lock held. */
void hold_look(struct manager *m);
/* Whether it is paused for lack of space; with the lock held. */
bool hold_has(const struct sandbox_record *r);
/* It was found paused, although its row does not say so: on a full disk that could not be written.
 */
int hold_adopt(struct manager *m, struct sandbox *s, struct cay_error *err);
/* -CAY_RESOURCE_EXHAUSTED if it is, and there is still too little; with the lock held. */
int hold_check(const struct manager *m, const struct sandbox *s, struct cay_error *err);
/* For engine.h's `disk`. */
void hold_note_disk(void *manager, const struct engine_disk *disk);
