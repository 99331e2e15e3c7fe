/* A sandbox as the manager knows it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "egress/network.h"
#include "engine/spec.h"
#include "image/reference.h"

/* Daytona's states, and "paused". */
#define SANDBOX_STATES(X)                                                                          \
    X(SANDBOX_CREATING, "creating")                                                                \
    X(SANDBOX_STARTING, "starting")                                                                \
    X(SANDBOX_STARTED, "started")                                                                  \
    X(SANDBOX_STOPPING, "stopping")                                                                \
    X(SANDBOX_STOPPED, "stopped")                                                                  \
    X(SANDBOX_PAUSED, "paused")                                                                    \
    X(SANDBOX_ARCHIVING, "archiving")                                                              \
    X(SANDBOX_ARCHIVED, "archived")                                                                \
    X(SANDBOX_RESTORING, "restoring")                                                              \
    X(SANDBOX_DESTROYING, "destroying")                                                            \
    X(SANDBOX_ERROR, "error")

enum sandbox_state {
#define SANDBOX_STATE_ENUM(id, name) id,
    SANDBOX_STATES(SANDBOX_STATE_ENUM)
#undef SANDBOX_STATE_ENUM
        SANDBOX_STATE_COUNT,
};
const char *sandbox_state_name(enum sandbox_state state);
/* SANDBOX_STATE_COUNT if there is no such name. */
enum sandbox_state sandbox_state_from_name(const char *name);

/* What becomes of a sandbox that ended although nobody asked for it. */
enum on_failure {
    FAILURE_DEFAULT, /* in a request; as good as keep elsewhere */
    FAILURE_KEEP,
    FAILURE_RECREATE,
    FAILURE_REMOVE,
    FAILURE_COUNT,
};
const char *on_failure_name(enum on_failure f); /* "keep", "recreate", "remove" */
/* FAILURE_COUNT if there is no such name. */
enum on_failure on_failure_from_name(const char *name);

/* Daytona's states of backups. */
enum backup_state {
    BACKUP_NONE,
    BACKUP_PENDING,
    BACKUP_IN_PROGRESS,
    BACKUP_COMPLETED,
    BACKUP_ERROR,
};
const char *backup_state_name(enum backup_state state);

/* In a request, where 0 takes the default: auto_delete_minutes, when it stops. */
#define INTERVAL_AT_ONCE INT64_MAX

enum { OWNER_SIZE = 17 }; /* the id of a key or an organisation */

enum { SANDBOX_TEXT_SIZE = 512, SANDBOX_PATH_SIZE = 1024 };

/* Each member has a row in fields.c. */
struct sandbox_record {
    char id[ID_SIZE];
    char owner[OWNER_SIZE];      /* a key or an organisation; "" for who may do everything */
    char made_by[OWNER_SIZE];    /* the key of the organisation that made it; "": the owner */
    char name[NAME_MAX_LEN + 1]; /* unique for its owner; the id if none was given */
    enum sandbox_state state;
    char reason[SANDBOX_TEXT_SIZE];       /* why it is in error or was stopped; "": asked for */
    char remedy[SANDBOX_TEXT_SIZE];       /* and what to do */
    char image_name[REFERENCE_TEXT_SIZE]; /* as asked for: "host", "python:3.12-slim" */
    char image[HEX_SIZE];                 /* id in the store; "" for the host image */
    char user[128];                       /* default user of commands, "" for the image's */
    char work_dir[SANDBOX_PATH_SIZE];
    char network[NETWORK_TEXT_SIZE]; /* what it reaches: "none", or "allow=" and a list */
    uint64_t memory_bytes;
    uint64_t disk_bytes; /* 0: without a limit */
    uint32_t cpu_quota_us, pids;
    enum engine_kind engine;
    enum tier tier;
    enum profile profile;
    bool read_only;
    bool pooled;    /* made ahead, nobody's yet: not to be seen */
    bool is_public; /* its previews need no token */
    bool is_local;  /* its image is taken from the store, and never fetched; not kept on disk */
    enum on_failure on_failure;
    struct strv env;                                /* "K=V" of every command */
    struct strv labels;                             /* "K=V", sorted */
    struct strv volumes;                            /* "HOST:BOX[:ro]" */
    int64_t created_ms, updated_ms, active_ms;      /* since 1970 */
    int64_t auto_stop_minutes, auto_delete_minutes; /* 0, -1: never */
    int64_t auto_archive_minutes;                   /* after it has stopped; 0: never */
    int64_t destroy_ms;    /* since 1970: removed then, whatever it does; 0: never */
    uint32_t failures;     /* how often it ended unasked since failed_ms; see manager/failure.c */
    int64_t failed_ms;     /* since 1970, as the next: */
    int64_t recover_ms;    /* of SANDBOX_ERROR: when it is started again by itself; 0: it is not */
    int64_t archive_bytes; /* how large its archive is; 0: it has none; else there may be one */
    enum backup_state backup; /* what became of its last backup; kept beside the row, */
    int64_t backup_ms,
        backup_bytes; /* and of when, and how large, the one is that there is; 0: none */
};

/* The key whose limits and rules hold for it. */
static inline const char *sandbox_record_key(const struct sandbox_record *r) {
    return r->made_by[0] != '\0' ? r->made_by : r->owner;
}

void sandbox_record_free(struct sandbox_record *r); /* its strings, not itself */
/* Forgets its lists, which are another record's. */
void sandbox_record_disown(struct sandbox_record *r);
int sandbox_record_copy(const struct sandbox_record *from, struct sandbox_record *to);
