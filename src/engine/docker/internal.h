/* What the files of the Docker engine share; not for others. */
#pragma once

#include <pthread.h>

#include "engine/docker/api.h"
#include "engine/docker/engine.h"
#include "engine/docker/spec.h"
#include "engine/docker/transport/handshake.h"
#include "engine/volume/named.h"

struct docker_bridge;
struct docker_stream;

struct docker_engine {
    struct engine engine; /* first */
    struct docker_api *api;
    char home[PATH_MAX]; /* the state folder */
    char
        label[PATH_MAX + ID_SIZE + 8]; /* of our containers: which state folder, of which machine */
    bool is_far; /* Docker is on another machine: no folder or descriptor of ours is there */
    char runtime[DOCKER_RUNTIME_SIZE]; /* of containers that are made; "": Docker's default */
    int state_dir;
    const char *folder_name;
    int folder;  /* STATE/docker, or docker-run */
    bool is_run; /* see docker/oneshot.c */
    int held;    /* the folder of its sandbox, locked; else -1 */
    char held_id[ID_SIZE];
    int init; /* memfd with cay-init */
    struct volume_rules volumes;
    pthread_t listener; /* of events */
    bool listening;
    bool closing;            /* read and written atomically */
    bool is_able;            /* Docker can limit what we limit; the same */
    struct docker_info info; /* what it can besides; valid once it is */
    pthread_mutex_t bridges_lock;
    struct docker_bridge *bridges; /* ways into sandboxes, if it is far (docker/bridge.h) */
    pthread_rwlock_t opening; /* read: while a stream is opened; written: while one is paused */
    pthread_mutex_t tools_lock;
    bool has_tools; /* what containers are started with is there (transport/remote.c) */
};

static inline struct docker_engine *docker_of(struct engine *e) {
    return (struct docker_engine *)e;
}

/* "/containers/cay-ID" and what follows. */
int docker_path(char out[static DOCKER_PATH_SIZE], const char *id, const char *rest,
                struct cay_error *err);
/* -CAY_NOT_FOUND if there is no container, -CAY_CONFLICT if it is not ours. rest may ask for its
 * size. */
int docker_inspect(struct docker_engine *d, const char *id, const char *rest,
                   struct docker_container *ret, struct cay_error *err);
int docker_list(struct docker_engine *d, struct engine_sandbox **ret, size_t *ret_count,
                struct cay_error *err);

/* docker/start.c */
int docker_start(struct engine *e, const struct sandbox_spec *spec, const char *image, int listener,
                 struct cay_error *err);

/* docker/net.c: why this Docker cannot give containers a network; NULL if it can. */
const char *docker_net_lacks(const struct docker_info *info, bool is_far, const char *runtime);
#define DOCKER_NET_REMEDY "use --network none or 'allow=LIST', or a Docker on this machine"
/* Sees to it that the network of containers is there, and finds what the walls of one
 * that has it must close. */
int docker_net_prepare(struct docker_engine *d, struct docker_walls *ret, struct cay_error *err);
/* Connects a container that does not run to it anew. */
int docker_net_connect(struct docker_engine *d, const char *id, struct cay_error *err);
/* The name servers of a resolv.conf, without those on the loopback. */
void docker_net_parse_servers(const char *text, struct docker_walls *w);

/* images/commit.c: see engine.h. */
int docker_archive(struct engine *e, const char *id, const char *image, uint64_t *ret_bytes,
                   struct cay_error *err);
int docker_unarchive(struct engine *e, const char *id, struct cay_error *err);
int docker_snapshot(struct engine *e, const char *id, const char *image, char ret[static HEX_SIZE],
                    struct cay_error *err);
/* An image of the store, without one of Docker's that stays. The container stands still. */
int docker_commit_to_store(struct docker_engine *d, const char *id, const char *image,
                           char ret[static HEX_SIZE], struct cay_error *err);
/* Makes an image that Docker has the archive of a sandbox. */
int docker_archive_from(struct docker_engine *d, const char *id, const char *image,
                        struct cay_error *err);
enum { DOCKER_ARCHIVE_SIZE = 64 };
/* 1 if the sandbox has an archive, 0 if not; name is that of its image. */
int docker_archive_find(struct docker_engine *d, const char *id,
                        char name[static DOCKER_ARCHIVE_SIZE], struct cay_error *err);

/* images/tmp_image.c: images that Docker has for a moment only, on their way into cay's store. */
#define DOCKER_PASSING_REPOSITORY "cay-passing"
struct docker_passing {
    char token[ID_SIZE]; /* the tag of its name */
    int lock;            /* on the file that says so; -1: none */
    bool may_come;       /* Docker was asked to make it, and has not answered */
};
#define DOCKER_PASSING_INIT ((struct docker_passing){.lock = -1})
/* Before it is made. */
int docker_passing_begin(const struct docker_engine *d, struct docker_passing *ret,
                         struct cay_error *err);
/* The image goes, unless it has got another name. */
void docker_passing_end(const struct docker_engine *d, struct docker_passing *p);
/* Removes what has lost its maker. */
void docker_passing_sweep(struct docker_engine *d);

/* images/backup.c: see engine.h. */
int docker_backup(struct engine *e, const char *id, const char *image, uint64_t max_bytes,
                  uint64_t *ret_bytes, struct cay_error *err);
int docker_backup_restore(struct engine *e, const char *id, bool *ret, struct cay_error *err);
int docker_backup_remove(struct engine *e, const char *id, struct cay_error *err);
/* In the folder of a sandbox, inside "in": there was a container. */
#define DOCKER_MADE_NAME "made"

/* docker/oneshot.c: sandboxes that go with the process that made them. */

/* Excludes others from making and judging folders until it is closed. */
int docker_runs_lock(const struct docker_engine *d, struct cay_error *err);
/* Makes the folder of the one sandbox that this process may have. */
int docker_runs_own(struct docker_engine *d, const char *id, struct cay_error *err);
/* Removes what has lost its owner. */
void docker_runs_sweep(struct docker_engine *d);

/* transport/remote.c: what there is instead of folders, where Docker is on another machine. */

/* The label of our containers, with an id that this state folder gets once. */
int docker_far_label(struct docker_engine *d, struct cay_error *err);
void docker_far_tools_name(const struct docker_engine *d, char out[static DOCKER_VOLUME_SIZE]);
/* Sees to it that the volume with cay-enter and cay-init is there, by help of an image that is. */
int docker_far_tools(struct docker_engine *d, const char *image, struct cay_error *err);
/* Gives the first process of a container that was started its orders, and waits until it is
 * cay-init. */
int docker_far_enter(struct docker_engine *d, const char *id, const struct docker_orders *orders,
                     int timeout_ms, struct cay_error *err);
/* Opens a stream, while nothing is being paused: a process that Docker starts in a container that
 * freezes meanwhile hangs, and Docker with it. */
int docker_far_open(struct docker_engine *d, const char *id, struct docker_stream **ret,
                    struct cay_error *err);
int docker_far_volume_make(struct docker_engine *d, const char *id, struct cay_error *err);
int docker_far_volume_remove(struct docker_engine *d, const char *id, struct cay_error *err);

/* docker/events.c: tells of ends, by a thread of its own. */
int docker_events_start(struct docker_engine *d, struct cay_error *err);
/* How often something in it was killed for want of memory, as far as Docker remembers. */
uint64_t docker_events_oom(struct docker_engine *d, const char *id);
void docker_events_stop(struct docker_engine *d);
