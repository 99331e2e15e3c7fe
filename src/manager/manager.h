/* The manager: what sandboxes there are, what state each is in, and who may do what to it when. It
 * never loses one: every change is in the database before it is promised, and what a crash left in
 * between is found and repaired at the next start. Functions may be called from any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cay/errors.h>

#include "engine/engine.h"
#include "manager/access/budget.h"
#include "manager/files/archive_ops.h"
#include "manager/network_ops.h"
#include "manager/record/audit.h"
#include "manager/record/fields.h"
#include "manager/record/key.h"
#include "manager/record/list.h"
#include "manager/record/record.h"
#include "manager/totals.h"

struct cay_error;
struct manager;

/* What a key may choose that does not see all. Besides, everybody may have what is the default. */
struct manager_policy {
    bool engines[ENGINE_KINDS];
    enum profile profile_max;
    enum tier tier_min; /* TIER_NONE: what a sandbox gets that does not say */
    bool no_host_image; /* unless it is the default image */
    bool no_public_previews;
    int64_t lifetime_max_ms; /* from its creation; 0: without a limit */
};

struct manager_limits {
    int64_t max_sandboxes;
    int64_t creating_max;    /* created and started at a time; 0: by the number of processors */
    int64_t queue_max;       /* creations and starts that wait for it, further ones are refused;
                              * 0: 512 */
    int64_t idle_timeout_ms; /* 0: never */
    int64_t cleanup_interval_ms;
    int64_t stop_grace_ms; /* what is inside gets to end by itself when it is stopped; 0: nothing */
    int64_t transition_ms; /* what takes longer is an error; 0: a minute */
    int64_t recover_ms;    /* between failures and new starts, doubled each time; 0: a second */
    int64_t silence_ms;    /* one that does not say what goes on in it is idle then; 0: 30 s */
    int64_t sample_interval_ms; /* how often the use of running sandboxes is measured; 0: never */
    int64_t warn_after_ms;      /* a warning if it is above 90 % of a limit for so long; 0: never */
    unsigned reserve_percent;   /* of the state folder's file system is kept free, if not 0, */
    uint64_t reserve_max_bytes; /* but at most so much; else just that. 0: nothing is refused */
    uint64_t volume_size_bytes; /* of volumes that do not say; 0: 5 GB */
    struct manager_policy policy;
    struct manager_host_limits host;
    enum network_reach network_max; /* the most that a key may ask for which does not see all */
    int64_t minute_ms; /* of the intervals of sandboxes; 0: 60 s, as all but tests have it */
};

/* An image that shall be there. */
struct image_wish {
    const char *name;         /* not "host" */
    char owner[OWNER_SIZE];   /* who sees it, as of sandboxes; "": whoever sees all */
    char made_by[OWNER_SIZE]; /* the key of the organisation that wants it; "": the owner */
    uint64_t room;            /* bytes that may be fetched for it; 0: any number */
    enum engine_kind engine;  /* of the sandboxes that it is for */
    bool is_local;            /* it is not fetched: -CAY_NOT_FOUND if it is not there */
    int progress_fd;          /* where lines of progress go, or -1 */
    int cancel_fd, client_fd; /* given up when this is readable or that has hung up; or -1 */
};

/* Makes sure that it is there, and tells its id. May take minutes, in the caller's thread. */
typedef int (*ensure_image)(void *user, const struct image_wish *wish, char id[static HEX_SIZE],
                            struct cay_error *err);

/* What commands get by the image of a new sandbox: fills user, work_dir and what is missing in env
 * of its record. */
typedef int (*describe_image)(void *user, struct sandbox_record *r, struct cay_error *err);

struct manager_options {
    const char *folder; /* ours alone: the database and the sandboxes' sockets; it must be the work
                         * folder of the process, since names of sockets are short */
    struct manager_limits limits;
    struct sandbox_record defaults; /* for what a request leaves open */
    enum engine_kind engine;        /* of sandboxes that do not say; 0 is native */
    bool has_left[ENGINE_KINDS];    /* there is something of this engine, whatever is known of it */
    /* What sandboxes of each engine get if tiers are left open. */
    enum tier best_tier[ENGINE_KINDS];
    struct cay_error no_disk_limits; /* why the native engine has none; CAY_OK: it has */
    ensure_image ensure;
    describe_image describe;            /* NULL: images say nothing */
    const struct archive_ops *archives; /* NULL: there are none */
    const struct network_ops *network;  /* NULL: nothing is reached by anybody */
    void (*key_gone)(void *user);       /* a key was removed; NULL: nobody has to know */
    void *user;
};

/* Opens the database and compares it with what the engine has: what runs is adopted, what should
 * run and does not is stopped, what nobody knows is removed; a creation that was never answered is
 * undone. A database that was never used is refused if the engine has sandboxes: it is not theirs.
 * The engine's `ended` must be manager_ended with the manager as its user; the engine stays the
 * caller's, to be closed between manager_drain and manager_close. */
int manager_open(const struct manager_options *options, struct manager **ret,
                 struct cay_error *err);
/* Another engine, beside the one that manager_start is given; to be called before that. It may be
 * away: then its sandboxes stay as they are. */
void manager_add_engine(struct manager *m, enum engine_kind kind, struct engine *engine);
int manager_start(struct manager *m, struct engine *engine, struct cay_error *err);
void manager_ended(void *manager, const struct engine_end *end);
/* Refuses whatever is new with -CAY_UNAVAILABLE, and waits for what is under way (at most wait_ms);
 * sandboxes stay. */
void manager_drain(struct manager *m, int64_t wait_ms);
/* As manager_drain; then releases everything, unless something is under way even so: a program that
 * ends does not need it. */
void manager_close(struct manager *m, int64_t wait_ms);

/* A new sandbox from what is set in request (zeros and empty texts take the defaults; a negative
 * interval means never), started. It is in the state "creating" until it runs, and gone again if
 * that fails. -CAY_LIMIT_REACHED "Maximum number of sandboxes (N) reached"; the same class with
 * err->sys EAGAIN if too many others wait to be created. *ret is a copy, to be released. */
int manager_create(struct manager *m, const struct sandbox_record *request, int progress_fd,
                   struct sandbox_record *ret, struct cay_error *err);
/* The same for a client, whose hanging up ends the pull of its image for it alone. */
int manager_create_for(struct manager *m, const struct sandbox_record *request, int progress_fd,
                       int client_fd, struct sandbox_record *ret, struct cay_error *err);
/* In how many seconds one who was refused with EAGAIN has a chance. */
int64_t manager_retry_after(struct manager *m);

/* The id of the sandbox that a caller means by an id, a unique prefix of one, or a name, among
 * those that he sees: his own, or all. What he does not see is not found, as if it were not there.
 */
int manager_find(struct manager *m, const struct key *caller, const char *who,
                 char id[static ID_SIZE], struct cay_error *err);

/* The same without waiting: *ret is in the state "creating", and its reason tells how far it is. If
 * it cannot be made it stays, in error. */
int manager_create_later(struct manager *m, const struct sandbox_record *request,
                         struct sandbox_record *ret, struct cay_error *err);

/* Limits and defaults of what is done from now on; transition_ms, recover_ms,
 * silence_ms and minute_ms stay. */
int manager_configure(struct manager *m, const struct manager_limits *limits,
                      const struct sandbox_record *defaults, struct cay_error *err);

/* -CAY_UNAVAILABLE if the database was damaged, and nothing may be changed until somebody has
 * looked at what could be saved. */
int manager_check_rescue(struct manager *m, struct cay_error *err);

/* How many sandboxes of each of these images are made ahead; without images, of the default one.
 * May be changed at any time. */
int manager_set_pool(struct manager *m, size_t per_image, const struct strv *images,
                     struct cay_error *err);

/* All take an id, a unique prefix of one, or a name; an ambiguous prefix lists the candidates. They
 * look at every sandbox: who has a caller asks manager_find first. */
int manager_get(struct manager *m, const char *who, struct sandbox_record *ret,
                struct cay_error *err);
int manager_start_sandbox(struct manager *m, const char *who, struct cay_error *err);
/* The same, with lines that tell how far an archive is restored. */
int manager_start_with_progress(struct manager *m, const char *who, int progress_fd,
                                struct cay_error *err);
/* Starts it, or lets it go on if it is paused. */
int manager_wake(struct manager *m, const char *who, struct cay_error *err);
/* Stops it and moves what it has written into an archive, from which a start restores it. */
int manager_archive(struct manager *m, const char *who, int progress_fd, struct cay_error *err);
/* Begins to copy what it has written, for a start after its files were lost. It stands still
 * meanwhile; its record says what becomes of it. -CAY_CONFLICT if that is under way already. */
int manager_backup(struct manager *m, const char *who, struct cay_error *err);
/* Everything inside gets SIGTERM, is given the configured grace, and is killed. */
int manager_stop_sandbox(struct manager *m, const char *who, struct cay_error *err);
/* The same with a grace of its own: 0 kills at once, a negative one is the configured. */
int manager_stop_within(struct manager *m, const char *who, int64_t grace_ms,
                        struct cay_error *err);
int manager_pause(struct manager *m, const char *who, struct cay_error *err);
int manager_resume(struct manager *m, const char *who, struct cay_error *err);
/* Pauses it for a snapshot if it runs (*ret_held), until manager_release. A daemon that ends in
 * between leaves a sandbox that the next one resumes. */
int manager_hold(struct manager *m, const char *who, bool *ret_held, struct cay_error *err);
int manager_release(struct manager *m, const char *who, struct cay_error *err);
/* With force it is ended whatever it does; without, -CAY_CONFLICT while operations are under way.
 * One that is being made is given up. */
int manager_remove(struct manager *m, const char *who, bool force, struct cay_error *err);
/* The same once no operation is under way any more, however long that takes. */
int manager_remove_when_idle(struct manager *m, const char *who, struct cay_error *err);
int manager_rename(struct manager *m, const char *who, const char *name, struct cay_error *err);
int manager_label(struct manager *m, const char *who, const struct strv *labels,
                  struct cay_error *err);
/* What commands that begin later get by default: without the names in `unset`, and with the entries
 * "K=V" in `set`. */
int manager_change_env(struct manager *m, const char *who, const struct strv *set,
                       const struct strv *unset, struct cay_error *err);
/* What is to be changed of a sandbox: the members of `to` that are in `set`. */
struct manager_update {
    struct sandbox_record to; /* its labels are set beside those that are there */
    struct field_set set;
    struct strv unlabel; /* keys of labels that are removed */
};
#define MANAGER_UPDATE_INIT ((struct manager_update){0})
#define UPDATE_SET(u, member, value)                                                               \
    ((void)((u)->to.member = (value)), (void)(FIELD_IN(&(u)->set, member) = true))
void manager_update_free(struct manager_update *u); /* its strings */

/* The proxy was started anew, and knows nothing: tells it of every sandbox, in a thread. */
void manager_network_again(struct manager *m);
/* Whether the key with this id ("": nobody's) may have this network for a native sandbox. */
int manager_check_network(struct manager *m, const char *owner, const char *network,
                          struct cay_error *err);

/* It counts as in use from now on, as if something had been done in it. */
int manager_touch(struct manager *m, const char *who, struct cay_error *err);
/* All of it or nothing. Limits of one that runs change at once, others count from its next start;
 * they are checked as those of a new one. */
int manager_update(struct manager *m, const char *who, const struct manager_update *update,
                   struct cay_error *err);
int manager_stats(struct manager *m, const char *who, struct engine_stats *ret,
                  struct cay_error *err);

/* An operation: a connection to cay-init of a running sandbox, which is not idle and is not stopped
 * by the clean-up until manager_end(). Returns the connection, the caller's to close. A sandbox
 * that is stopped is -CAY_CONFLICT with the remedy. */
struct operation; /* opaque */
int manager_begin(struct manager *m, const char *who, struct operation **ret_operation,
                  struct sandbox_record *ret, struct cay_error *err);
void manager_end(struct manager *m, struct operation *operation);

/* An image of the store from a sandbox that stands still, of an engine that keeps by itself what is
 * written. */
int manager_snapshot(struct manager *m, const struct sandbox_record *r, char image[static HEX_SIZE],
                     struct cay_error *err);

/* What became of a sandbox: its states, why, and what was done to it in between. */
struct manager_event {
    int64_t number; /* ever growing */
    int64_t time_ms;
    char state[16];
    char text[SANDBOX_TEXT_SIZE];
};
/* Those behind the number `after`, oldest first; the caller frees the array. */
int manager_events(struct manager *m, const char *who, int64_t after, struct manager_event **ret,
                   size_t *ret_count, struct cay_error *err);
/* Adds one that is not a state: a command of the sandbox was ended, and why. Logs it as well. */
void manager_note_command(struct manager *m, const char *who, const char *why);
