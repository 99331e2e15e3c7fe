/* Named volumes: folders of the daemon's own that sandboxes share and that outlive them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "manager/key.h"
#include "manager/record.h"

struct cay_error;
struct manager;

struct volume {
    char id[ID_SIZE];
    char owner[OWNER_SIZE];      /* as of sandboxes */
    char name[NAME_MAX_LEN + 1]; /* unique for its owner */
    int64_t created_ms;          /* since 1970 */
    bool passing;                /* being made or removed: nobody can use it; not kept */
};

/* Makes one for the caller. -CAY_CONFLICT if he has one with this name. */
int manager_volume_create(struct manager *m, const struct key *caller, const char *name,
                          struct volume *ret, struct cay_error *err);
/* By id or name, of those that the caller sees. */
int manager_volume_get(struct manager *m, const struct key *caller, const char *who,
                       struct volume *ret, struct cay_error *err);
/* With all that is in it. -CAY_CONFLICT while a sandbox has it, running or not. */
int manager_volume_remove(struct manager *m, const struct key *caller, const char *who,
                          struct cay_error *err);
/* All that the caller sees, oldest first; the caller releases the array. */
int manager_volume_list(struct manager *m, const struct key *caller, struct volume **ret,
                        size_t *ret_count, struct cay_error *err);
