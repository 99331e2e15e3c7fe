/* What a sandbox should be: the input of every engine, checked once, here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/id.h"
#include "config/engines.h"

struct cay_error;

enum {
    SPEC_MOUNTS_MAX = 32,
    SPEC_PATH_SIZE = 1024,
    SPEC_LABELS_MAX = 64,
    SPEC_USER_SIZE = 128,
};

/* How much isolation the user insists on; a sandbox that would get less is refused.
 *   full      every wall, an id range of its own
 *   rootless  every wall that an ordinary user can have: limits by a delegated cgroup, ids shared
 *             with the user's other sandboxes
 *             (containers whose runtime has its own kernel have this tier too)
 *   basic     namespaces, seccomp and disk limit; no cgroup, Landlock or id range promised */
enum tier { TIER_NONE, TIER_BASIC, TIER_ROOTLESS, TIER_FULL };

/* What makes a sandbox (config/engines.h). */
const char *engine_kind_name(enum engine_kind kind); /* "" of ENGINE_UNSAID */
/* ENGINE_KINDS if there is no such name. */
enum engine_kind engine_kind_from_name(const char *name);

/* strict: no capability at all. build: the file-ownership capabilities inside the user namespace
 * that package managers and image builds need. */
enum profile { PROFILE_STRICT, PROFILE_BUILD };

struct mount_spec {
    char source[SPEC_PATH_SIZE]; /* on the host; absolute; or of a named volume */
    char target[SPEC_PATH_SIZE]; /* inside; absolute, normalised, never "/" */
    bool read_only;
    bool named;
};

/* /etc/hosts of every sandbox, for its hostname. */
#define HOSTS_FORMAT "127.0.0.1 localhost\n::1 localhost ip6-localhost\n127.0.1.1 %s\n"

struct sandbox_spec {
    char id[ID_SIZE];
    char hostname[NAME_MAX_LEN + 1];
    uint64_t memory_bytes;
    uint64_t disk_bytes; /* the writable layer; in memory for a throw-away sandbox */
    uint64_t inodes;
    uint32_t cpu_quota_us; /* per 100 ms */
    uint32_t pids;
    uid_t run_uid; /* who owns files on writable volumes inside */
    gid_t run_gid;
    char run_user[SPEC_USER_SIZE]; /* "USER[:GROUP]" of the image: whose these are, if it stays */
    enum tier tier;                /* the least that is acceptable */
    enum profile profile;
    char owner[ID_SIZE]; /* the key that made it, if it stays; "": none */
    bool has_list;       /* it reaches something, by a proxy to which descriptors are passed */
    bool has_bridge;     /* it reaches everything public, by a network of its engine's */
    bool read_only; /* the root file system; /tmp, /run, /dev/shm and the work folder stay writable
                     */
    struct mount_spec *mounts; /* borrowed by all but whoever added them */
    size_t mount_count;
};

const char *tier_name(enum tier tier);
/* TIER_NONE if there is no such name. */
enum tier tier_from_name(const char *name);

/* Parses "HOST:BOX[:ro|:rw]" and adds it. The host path must exist, unless it is hidden from this
 * user; the target may not be "/", lie in /proc, /dev or /sys, or occur twice. */
int spec_add_mount(struct sandbox_spec *spec, const char *text, struct cay_error *err);
/* True for the source of a named volume: its id, or "ID/PATH" for a folder in it, whose path has no
 * empty part, "." or "..". */
bool spec_is_volume(const char *source);
/* The same for a named volume: "ID[/PATH]:BOX[:ro|:rw]". */
int spec_add_volume(struct sandbox_spec *spec, const char *text, struct cay_error *err);
/* True for a target as spec_add_mount leaves it: absolute, normalised, not "/", not in /proc, /dev
 * or /sys. */
bool spec_target_is_allowed(const char *target);
/* True if what is done inside can change files of the host. */
bool spec_has_writable_mount(const struct sandbox_spec *spec);
/* Releases what spec_add_mount made. */
void spec_free_mounts(struct sandbox_spec *spec);

/* Why an engine without ENGINE_HAS_BRIDGE does not start one with a bridge. */
int spec_refuse_bridge(struct cay_error *err);

/* How many files and folders go with a disk of so many bytes. */
uint64_t spec_inodes(uint64_t disk_bytes);
/* The disk limit of a sandbox that stays; its files do not lie in its memory. */
int spec_check_kept_disk(uint64_t bytes, struct cay_error *err);
/* The same of a named volume. */
int spec_check_volume_size(uint64_t bytes, struct cay_error *err);

/* What this host has; it changes rarely enough to be looked up once. */
struct spec_host {
    uint64_t memory_bytes;
    uint32_t cpus;
    uint32_t pids;
};
int spec_look_up_host(struct spec_host *ret, struct cay_error *err);

/* Fills what is derived (inode limit, disk limit where none was asked for) and checks everything
 * against the host: memory, processors, process ids. */
int spec_finish(struct sandbox_spec *spec, const struct spec_host *host, struct cay_error *err);
