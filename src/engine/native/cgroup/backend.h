/* What the files of the cgroup module share; nobody else includes it. */
#pragma once

#include <sys/types.h>

#include "base/auto.h"
#include "engine/native/cgroup/cgroup.h"

#define CGROUP_BIT(controller) (1U << (controller))

/* The operations in which v1 and v2 differ. Those without `err` return 0 or -errno. */
struct cgroup_backend {
    /* Opens what later steps need, on success of all. */
    int (*open)(struct cgroup *cgroup, struct cay_error *err);
    /* Each writes one limit; 0 means none. */
    int (*set_memory)(const struct cgroup *cgroup, uint64_t bytes, struct cay_error *err);
    int (*set_cpu)(const struct cgroup *cgroup, uint64_t quota_us, struct cay_error *err);
    /* Asks for the state; is_frozen says 1 when it is reached. */
    int (*set_frozen)(const struct cgroup_host *host, const char *id, bool frozen);
    int (*is_frozen)(const struct cgroup_host *host, const char *id);
    /* 1, 0 or -errno. */
    int (*is_empty)(const struct cgroup_host *host, const char *id);
    /* Kills all at once; -EOPNOTSUPP if only one by one is possible. */
    int (*kill_all)(const struct cgroup_host *host, const char *id);
    int (*stats)(const struct cgroup_host *host, const char *id, struct cgroup_stats *ret);
    const char *oom_file; /* of the memory controller, with a line "oom_kill N" */
};

/* From the backend's oom_file; 0 where memory is not limited. 0 or -errno. */
int cgroup_read_oom_kills(const struct cgroup_host *host, const char *id, uint64_t *ret);

extern const struct cgroup_backend cgroup_v1_backend;
extern const struct cgroup_backend cgroup_v2_backend;
const struct cgroup_backend *cgroup_backend_of(const struct cgroup_host *host);

/* The controllers of our mounts, found in the text of /proc/self/mountinfo. */
struct cgroup_mount {
    unsigned controllers;
    bool cpuset; /* mounted together with cpuset, which wants values before tasks */
    char path[CGROUP_PATH_SIZE];
};
struct cgroup_mounts {
    struct cgroup_mount v1[CGROUP_CONTROLLERS];
    size_t v1_count;
    char v2[CGROUP_PATH_SIZE]; /* "" if not mounted */
};
void cgroup_parse_mounts(const char *mountinfo, struct cgroup_mounts *ret);

/* v2 or v1 or nothing: a controller is in one of them only, so those that we need decide. */
enum cgroup_version cgroup_choose(const struct cgroup_mounts *mounts);

/* Fill host's hierarchies, or the reasons why a controller is missing. */
void cgroup_v1_probe(const struct cgroup_mounts *mounts, const char *parent,
                     struct cgroup_host *host);
void cgroup_v2_probe(const char *mount, const char *parent, struct cgroup_host *host);

const char *cgroup_controller_name(enum cgroup_controller controller);

/* Records that controllers are usable in a hierarchy, or why they are not. */
void cgroup_usable(struct cgroup_host *host, size_t hierarchy, unsigned controllers);
void cgroup_missing(struct cgroup_host *host, unsigned controllers, const char *remedy,
                    const char *reason, ...) _printf_(4, 5);

/* Opens the folder `path` of a cgroup file system of the given kind: fd or -errno. */
int cgroup_open_folder(const char *path, long magic);

/* Opens a file of the sandbox's group: fd or -errno. */
int cgroup_open_file(const struct cgroup_hierarchy *hierarchy, const char *id, const char *file,
                     int flags);

/* Reads or writes a file of the group in the controller's hierarchy. -ENODEV if it is not usable.
 */
ssize_t cgroup_read(const struct cgroup_host *host, enum cgroup_controller controller,
                    const char *id, const char *file, char *text, size_t size);
int cgroup_write(const struct cgroup_host *host, enum cgroup_controller controller, const char *id,
                 const char *file, const char *text);

/* The same for a file that holds one number. */
int cgroup_read_number(const struct cgroup_host *host, enum cgroup_controller controller,
                       const char *id, const char *file, uint64_t *ret);

/* The number after `key` in lines of "key number"; -ENOENT if there is no such line. */
int cgroup_field(const char *text, const char *key, uint64_t *ret);

/* True if the space-separated list has the word. */
bool cgroup_has_word(const char *list, const char *word);

/* Kills every process, frozen or not, and waits until none is left. The group need not be open, nor
 * complete. It is of no use afterwards: kernels since 6.14 remember cgroup.kill for good and kill
 * whatever clone3(CLONE_INTO_CGROUP) puts there later. 0 or -errno. */
int cgroup_kill_all(const struct cgroup_host *host, const char *id, int64_t deadline_ms);

/* Sleeps, longer each time; *us is 0 at first. */
void cgroup_pause(unsigned *us);

/* The device nodes that a sandbox may open; minor -1 is any. */
struct cgroup_device {
    int major;
    int minor;
};
extern const struct cgroup_device cgroup_devices[];
extern const size_t cgroup_device_count;

/* Sees to it that the device policy sits on the folder; 0 or -errno. */
int cgroup_devices_v1(int folder);
int cgroup_devices_v2(int folder);
