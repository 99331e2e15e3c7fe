/* A key, and with it who acts: what he may do, and how much of it.
 *
 * A key may belong to one organisation, for good. Then everything that is made with it belongs to
 * the organisation: its other keys see and use it as their own, and it stays when the key is
 * removed. An organisation is kept as a key without a text: it has a name and limits, which hold
 * for all of its keys together, beside the limits of each. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "manager/record/hash.h"
#include "manager/record/record.h"

struct cay_error;
struct manager;

enum key_scope {
    SCOPE_READ = 1 << 0,      /* looking, no more */
    SCOPE_SANDBOXES = 1 << 1, /* everything on own sandboxes and volumes */
    SCOPE_IMAGES = 1 << 2,
    SCOPE_ADMIN = 1 << 3, /* everything, on everybody's */
};

/* "read", "sandboxes", "images", "admin"; NULL if it is none of them alone. */
const char *key_scope_name(enum key_scope scope);
/* 0 if there is no such name. Daytona's permissions ("write:sandboxes") are known too, where they
 * are not more than ours. */
unsigned key_scope_from_name(const char *name);

enum {
    KEY_TEXT_LEN = 4 + 43, /* "cay_" and 32 random bytes in base64url */
    KEY_TEXT_SIZE = KEY_TEXT_LEN + 1,
};

struct key {
    char id[OWNER_SIZE];           /* "" for the daemon's */
    char organization[OWNER_SIZE]; /* id of its organisation; "": it belongs to none */
    bool is_organization;
    char name[NAME_MAX_LEN + 1]; /* "admin" for admin.key, "uid:N" for users of the socket */
    unsigned char hash[HASH_SIZE];
    unsigned scopes;
    int64_t max_sandboxes, max_volumes; /* of these and the following, 0 is no limit */
    uint64_t max_memory_bytes, max_disk_bytes, max_cpu_quota_us, max_pids;
    uint64_t max_commands, max_python_runs, max_pulls, max_builds;      /* at the same time, */
    uint64_t max_connections, max_proxy_connections, max_event_viewers; /* as these */
    uint64_t max_waiting;                                               /* creations in the queue */
    int64_t created_ms, expires_ms; /* since 1970; expires_ms 0: never */
};

static inline bool key_sees_all(const struct key *k) {
    return (k->scopes & SCOPE_ADMIN) != 0;
}

/* The owner of what is made with the key, which it sees: the id of its organisation, or its own. */
static inline const char *key_owner(const struct key *k) {
    return k->organization[0] != '\0' ? k->organization : k->id;
}

/* Notes who owns what is made with the key, and the key itself if that is its organisation. */
static inline void key_stamp(const struct key *k, char owner[static OWNER_SIZE],
                             char made_by[static OWNER_SIZE]) {
    memcpy(owner, key_owner(k), OWNER_SIZE);
    made_by[0] = '\0';
    if (k->organization[0] != '\0')
        memcpy(made_by, k->id, OWNER_SIZE);
}

/* Makes a key from the name, scopes, organisation, limits and expiry of k, fills in the rest, and
 * writes what its holder must know into text: nobody else keeps it. -CAY_CONFLICT if the name is
 * taken. */
int manager_key_add(struct manager *m, struct key *k, char text[static KEY_TEXT_SIZE],
                    struct cay_error *err);
/* From now on it is unknown, and its connections end. What it made stays: for its organisation, or
 * for whoever sees all. */
int manager_key_remove(struct manager *m, const char *name, struct cay_error *err);
int manager_key_get(struct manager *m, const char *name, struct key *ret, struct cay_error *err);
/* Every key, oldest first; the caller releases the array. */
int manager_key_list(struct manager *m, struct key **ret, size_t *ret_count, struct cay_error *err);
/* Makes an organisation from the name and limits of k. Keys and organisations share their names. */
int manager_organization_add(struct manager *m, struct key *k, struct cay_error *err);
/* -CAY_CONFLICT while it has keys. What belongs to it stays for whoever sees all. */
int manager_organization_remove(struct manager *m, const char *name, struct cay_error *err);
int manager_organization_get(struct manager *m, const char *name, struct key *ret,
                             struct cay_error *err);
/* Every organisation, oldest first; the caller releases the array. */
int manager_organization_list(struct manager *m, struct key **ret, size_t *ret_count,
                              struct cay_error *err);

/* Whose text it is; false if it is nobody's or has expired. */
bool manager_key_match(struct manager *m, const char *text, struct key *ret);

/* The key or organisation with this id; false if there is none, or it has expired. */
bool manager_key_by_id(struct manager *m, const char *id, struct key *ret);

/* A connection on which a key is used. It is shut down when the key is removed or expires. */
struct key_use {
    char id[OWNER_SIZE]; /* of the key; "" for one that cannot be removed */
    int sock;
    int64_t expires_ms; /* the manager's, as what follows */
    struct key_use *next;
};
/* False if the key was removed or has expired. The socket must stay open until manager_key_unuse,
 * which does nothing for a use that was refused. */
bool manager_key_use(struct manager *m, struct key_use *use);
void manager_key_unuse(struct manager *m, struct key_use *use);
/* Shuts down the connections of keys that have expired. To be called often. */
void manager_key_end_expired(struct manager *m);

/* For work that waited: -CAY_UNAUTHORIZED if the key was removed or has expired meanwhile. The id
 * "" is always valid. */
int manager_key_check(struct manager *m, const char *id, struct cay_error *err);
