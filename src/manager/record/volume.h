/* Named volumes: disks of the daemon that sandboxes share and that outlive them; without a limit
 * where the engine can keep none, and where they were made before there were any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "manager/record/key.h"
#include "manager/record/record.h"

struct cay_error;
struct manager;

struct volume {
    char id[ID_SIZE];
    char owner[OWNER_SIZE];      /* as of sandboxes, */
    char made_by[OWNER_SIZE];    /* and this */
    char name[NAME_MAX_LEN + 1]; /* unique for its owner */
    int64_t created_ms;          /* since 1970 */
    uint64_t size_bytes;         /* 0: without a limit */
    bool is_made;
    uint64_t errors;    /* of its file system that were logged; not kept */
    bool passing;       /* being made or removed: nobody can use it; not kept */
    bool growing;       /* being resized; not kept */
    bool is_unfinished; /* its creation was cut short, and is to be undone; not kept */
};

struct volume_request {
    char name[NAME_MAX_LEN + 1];
    uint64_t size_bytes; /* 0: the configured size */
};

/* Makes one for the caller. -CAY_CONFLICT if the caller has one with this name;
 * -CAY_LIMIT_REACHED if its size is more than is left of the key's disk; -CAY_UNSUPPORTED for a
 * size, and for any volume of a key with a disk limit, where volumes have no limit. */
int manager_volume_create(struct manager *m, const struct key *caller,
                          const struct volume_request *request, struct volume *ret,
                          struct cay_error *err);
/* Makes it larger, whether or not sandboxes use it; the size that it has already is fine. */
int manager_volume_resize(struct manager *m, const struct key *caller, const char *who,
                          uint64_t size_bytes, struct volume *ret, struct cay_error *err);
/* By id or name, of those that the caller sees. */
int manager_volume_get(struct manager *m, const struct key *caller, const char *who,
                       struct volume *ret, struct cay_error *err);
/* With all that is in it. -CAY_CONFLICT while a sandbox has it, running or not. */
int manager_volume_remove(struct manager *m, const struct key *caller, const char *who,
                          struct cay_error *err);
/* All that the caller sees, oldest first; the caller releases the array. */
int manager_volume_list(struct manager *m, const struct key *caller, struct volume **ret,
                        size_t *ret_count, struct cay_error *err);
