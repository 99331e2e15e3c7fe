/* The daemon's folder in the state folder, what lies in it, and the sockets it listens on. */
#pragma once

#include <sys/types.h>

#include "daemon/settings.h"

struct cay_error;

/* Makes STATE/daemon, and makes it the work folder. */
int places_make(const struct settings *s, struct cay_error *err);

/* As root, to be called with the lock: leases the ids of the daemon's processes, and gives
 * STATE/daemon to the front. If it was another id's, everything of that id in it changes its owner
 * too. */
int places_give_away(struct settings *s, struct cay_error *err);

/* Takes the lock that one daemon per state folder has, and writes our process id into it. A daemon
 * that is ending, and the front of one that was killed, which may be finishing, are waited for.
 * -CAY_CONFLICT names the process that has it. Returns a descriptor that holds it, also in
 * children. */
int places_lock(struct cay_error *err);
/* Shows who waits for a replacement (replace_ask) that it serves. */
void places_lock_renew(int lock);
/* Notes in it that we are ending, so that the next daemon waits instead of giving up. */
void places_lock_ending(int lock);

/* Sends standard error to STATE/daemon/log, which is appended to. */
int places_log_to_file(struct cay_error *err);

/* If the log at this descriptor, which was opened to append, is larger: what is in it goes to
 * STATE/daemon/log.1, in place of what was there, and it begins anew. Several processes write to it
 * by copies of one descriptor, so it cannot be renamed. */
int places_rotate_log(int log, int64_t max_bytes, struct cay_error *err);

/* Reads STATE/admin.key into s->key; made at the first time. */
int places_read_key(struct settings *s, struct cay_error *err);

/* Sockets to listen on, or -1 where there is none: ours, or those that systemd passed. */
struct places_sockets {
    int local, tcp;
    bool is_ours; /* local has a name that goes with us */
};
/* How many sockets systemd passed to this very process, from PLACES_PASSED_FIRST on. */
enum { PLACES_PASSED_FIRST = 3 };
unsigned places_passed(void);
int places_listen(const struct settings *s, struct places_sockets *ret, struct cay_error *err);
