/* An engine, as the manager sees it: it makes sandboxes that stay, and knows what exists. Every
 * function may be called from any thread and waits until it is done. An operation on a sandbox that
 * is not there is -CAY_NOT_FOUND.
 *
 * The way in is not the engine's business: the manager makes a listening socket for each sandbox
 * and passes it along; whoever connects to it talks to cay-init (wire.h). The socket has a name in
 * the manager's own folder, so that a manager that was restarted finds it again. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cay/errors.h>

#include "engine/spec.h"
#include "image/reference.h"

struct engine;

/* What is running, as far as the engine can tell from outside. */
enum engine_state { ENGINE_STOPPED, ENGINE_RUNNING, ENGINE_PAUSED };

/* Why a sandbox has ended, as far as the engine knows. */
enum engine_end_cause {
    ENGINE_END_UNASKED,      /* by itself, or killed by somebody else */
    ENGINE_END_ASKED,        /* by stop or remove */
    ENGINE_END_HOST_RESTART, /* with everything else on the host */
    ENGINE_END_UNSEEN,       /* while nobody watched: anything of the above */
    ENGINE_END_CAUSES,
};

struct engine_end {
    char id[ID_SIZE];
    bool oom_killed;
    int status; /* wait status of its PID 1; -1 if not known */
    enum engine_end_cause cause;
};

struct engine_sandbox {
    char id[ID_SIZE];
    char image[HEX_SIZE]; /* id in the store; "" for the host image */
    enum engine_state state;
    uint32_t cpu_quota_us, pids;
    uint64_t memory_bytes, disk_bytes; /* 0: without a limit */
    bool by_stream;                    /* a container that cannot be given descriptors */
    bool has_ended;                    /* it is stopped, and the engine knows how it came to be: */
    struct engine_end end;
};

struct engine_stats {
    uint64_t memory_bytes, memory_limit, memory_peak;
    uint64_t cpu_us;
    uint64_t pids, oom_kills;
    uint64_t disk_bytes; /* what it has written */
    uint64_t disk_limit; /* 0: none */
    int64_t oom_age_ms;  /* since the manager noticed the last of oom_kills; -1: never */
};

/* Whether an engine answers, as far as is known without waiting for it. */
struct engine_health {
    size_t waiting;       /* requests that it has not answered */
    int64_t silent_ms;    /* for how long it has owed an answer and sent nothing; 0: it does not */
    int64_t wait_us;      /* what the last ping took; of one under way, what it has taken so far */
    struct cay_error err; /* of the last ping; CAY_OK: it was answered well, or there was none */
};

/* Hears of a throw-away sandbox, in a thread of the engine, which must not be called from there.
 * started comes once, before ended, with its id and a file with a line "oom_kill N", the number of
 * kills for want of memory; that is -1 if there is none, and not the watcher's to close. ended
 * comes once; err says why it never began, or that the engine died; else its code is CAY_OK.
 * Nothing comes after once_end. */
struct engine_watcher {
    void (*started)(void *user, const char *id, int counter);
    void (*ended)(void *user, bool oom_killed, const struct cay_error *err);
    void *user;
};

/* What a client says about a throw-away sandbox beside its spec. */
struct engine_once {
    const struct sandbox_spec *spec;
    unsigned ready;          /* how many of this kind to keep ready from now on; 0: as it is */
    bool wants_counter;      /* for the watcher */
    const char *fingerprint; /* of the host image that it must have; NULL: any */
};

/* The space for the disks of sandboxes. */
struct engine_space_marks {
    uint64_t floor_bytes; /* sandboxes together leave so much of the file system free */
    uint64_t hold_bytes;  /* when less is left, those that write are reported */
};
struct engine_space {
    uint64_t free_bytes;     /* of the file system that holds the disks, */
    uint64_t promised_bytes; /* of which sandboxes have written so much that is still in memory */
    uint32_t disks, limited; /* of running sandboxes; limited: which may not use all they have */
};

/* News of the disk of a sandbox. */
enum engine_disk_news {
    ENGINE_DISK_WRITES = 1,   /* it writes, and there is less left than hold_bytes */
    ENGINE_DISK_DAMAGED = 2,  /* its file system has errors; it is read-only from then on */
    ENGINE_DISK_REPAIRED = 3, /* it had, and was repaired before it started */
};
struct engine_disk {
    char id[ID_SIZE];
    enum engine_disk_news news;
    uint64_t number; /* of bytes that it has written and that are in memory; of errors */
};

/* One thing that isolates, as `cay doctor` prints it; the texts are the engine's. */
struct engine_wall {
    const char *name, *detail, *remedy;
    enum tier needed_for;
    bool ok;
};

/* A throw-away sandbox of this process, which ends with it. */
struct engine_run {
    int connection; /* the only one to its cay-init; the caller's */
    char id[ID_SIZE];
    int64_t prepare_us, root_us, start_us; /* where the time of its start went */
    void *box;                             /* the engine's */
};

struct image;

/* The operations. Of an engine that engine_type.open made there are run, run_oom_killed, run_end,
 * perhaps walls and tier, and close; of one that the manager has, all others. */
struct engine_ops {
    /* Starts a throw-away sandbox; image NULL is the host image. Borrows both until run_end. */
    int (*run)(struct engine *e, const struct sandbox_spec *spec, const struct image *image,
               struct engine_run *ret, struct cay_error *err);
    /* Whether something in it was killed for want of memory; was_killed: its command was. */
    bool (*run_oom_killed)(struct engine *e, const struct engine_run *run, bool was_killed);
    void (*run_end)(struct engine *e, struct engine_run *run);
    /* Up to max walls of this host; how many there are. And the best tier that they make. NULL
     * where the engine cannot tell. */
    size_t (*walls)(struct engine *e, struct engine_wall *walls, size_t max);
    enum tier (*tier)(struct engine *e);
    /* Starts a sandbox that stays: spec->id names it. Its files are made if it has none yet. image
     * is the id of an image in the store, "" for the host image. listener stays open here. */
    int (*start)(struct engine *e, const struct sandbox_spec *spec, const char *image, int listener,
                 struct cay_error *err);
    /* Kills every process of it; files stay. Stopped already is fine. */
    int (*stop)(struct engine *e, const char *id, struct cay_error *err);
    int (*pause)(struct engine *e, const char *id, struct cay_error *err);
    int (*resume)(struct engine *e, const char *id, struct cay_error *err);
    /* Kills it and removes all that there is of it. Gone already is fine. */
    int (*remove)(struct engine *e, const char *id, struct cay_error *err);
    /* New limits: memory_bytes, cpu_quota_us and pids of spec for one that runs, disk_bytes, which
     * can only grow, for any. 0 leaves one as it is. */
    int (*resize)(struct engine *e, const struct sandbox_spec *spec, struct cay_error *err);
    int (*stats)(struct engine *e, const char *id, struct engine_stats *ret, struct cay_error *err);
    /* As stats, without what takes long to find out: disk_bytes is 0. May be NULL. */
    int (*usage)(struct engine *e, const char *id, struct engine_stats *ret, struct cay_error *err);
    /* Named volumes, each with its own id. Made empty, for so many bytes (0: without a limit);
     * there already is fine. Grown, whether or not sandboxes use it. Removed with all that is in
     * it; gone already is fine. */
    int (*volume_make)(struct engine *e, const char *id, uint64_t bytes, struct cay_error *err);
    int (*volume_grow)(struct engine *e, const char *id, uint64_t bytes, struct cay_error *err);
    int (*volume_remove)(struct engine *e, const char *id, struct cay_error *err);
    /* A throw-away sandbox of the host image with every wall: its cay-init serves the other end of
     * connection, which stays open here, and ends with it. Does not wait; *ret_tag is to be given
     * to once_end. Both are NULL where an engine has none. */
    int (*once)(struct engine *e, const struct engine_once *once, int connection, uint64_t *ret_tag,
                struct cay_error *err);
    /* Has the watcher hear of it, also of what happened before. It is copied. */
    void (*once_watch)(struct engine *e, uint64_t tag, const struct engine_watcher *watcher);
    /* Waits until it runs: its id. */
    int (*once_wait)(struct engine *e, uint64_t tag, char ret_id[static ID_SIZE],
                     struct cay_error *err);
    /* Kills it and does not wait; once_end is still needed. */
    void (*once_kill)(struct engine *e, uint64_t tag);
    /* Ends it, if it has not. With ret_oom it waits until everything is gone, and tells whether it
     * ran out of memory; fails with the reason if it was never started. */
    int (*once_end)(struct engine *e, uint64_t tag, bool *ret_oom, struct cay_error *err);
    /* For an engine that keeps by itself what sandboxes have written; NULL where it does not. Of
     * one that does not run, made from this image: kept, so that after it was removed start makes
     * it again with that. */
    int (*archive)(struct engine *e, const char *id, const char *image, uint64_t *ret_bytes,
                   struct cay_error *err);
    /* Forgets that; of one that has been removed. None is fine. */
    int (*unarchive)(struct engine *e, const char *id, struct cay_error *err);
    /* The same of one that stands still, as an image of the store. */
    int (*snapshot)(struct engine *e, const char *id, const char *image, char ret[static HEX_SIZE],
                    struct cay_error *err);
    /* The same, kept for the sandbox in place of the last one: -CAY_LIMIT_REACHED, with which the
     * last one stays, if it has written more than max_bytes; */
    int (*backup)(struct engine *e, const char *id, const char *image, uint64_t max_bytes,
                  uint64_t *ret_bytes, struct cay_error *err);
    /* *ret: there was nothing left of it, and start makes it again with what was kept; */
    int (*backup_restore)(struct engine *e, const char *id, bool *ret, struct cay_error *err);
    /* forgotten. None is fine. */
    int (*backup_remove)(struct engine *e, const char *id, struct cay_error *err);
    /* Everything that exists, for recovery. The caller frees the array. */
    int (*list)(struct engine *e, struct engine_sandbox **ret, size_t *ret_count,
                struct cay_error *err);
    /* Keeps the disks of running sandboxes from taking more than there is, and measures that. News
     * come by `disk` before it returns. NULL where an engine has no such disks. */
    int (*space)(struct engine *e, const struct engine_space_marks *marks, struct engine_space *ret,
                 struct cay_error *err);
    /* For how long it has not been able to do anything; 0: it is well. May be NULL. */
    int64_t (*gone_ms)(struct engine *e);
    /* Sends a request whose only purpose is its answer, unless one is under way or the engine is
     * gone. Neither of these two waits for the engine. Both may be NULL. */
    void (*ping)(struct engine *e);
    void (*health)(struct engine *e, struct engine_health *ret);
    void (*close)(struct engine *e);
};

/* Limits that an engine cannot keep on this host. */
enum { ENGINE_UNKEPT_MEMORY = 1, ENGINE_UNKEPT_CPUS = 2 };

/* Implementations embed it first. */
struct engine {
    const struct engine_ops *ops;
    uint32_t unkept; /* ENGINE_UNKEPT_…, as the last list told; read and written atomically */
    /* Called by a thread of the engine when a sandbox has ended; must not wait for the engine. */
    void (*ended)(void *user, const struct engine_end *end);
    /* The same, of the disk of a sandbox; NULL: nobody wants to know. */
    void (*disk)(void *user, const struct engine_disk *disk);
    void *user;
};
