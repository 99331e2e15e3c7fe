/* Reading what a Docker Engine answers. Nothing here does I/O; whatever is not understood is an
 * error, and what is kept is bounded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/docker/runtime.h"
#include "engine/engine.h"

struct cay_error;

enum { DOCKER_API_SIZE = 16, DOCKER_TEXT_SIZE = 256, DOCKER_EXEC_SIZE = 129 };

/* Labels of our containers. */
#define DOCKER_LABEL_ID      "cay.id"
#define DOCKER_LABEL_HOME    "cay.home"    /* the state folder that it belongs to */
#define DOCKER_LABEL_KEY     "cay.key"     /* the id of the key that made it */
#define DOCKER_LABEL_VERSION "cay.version" /* of cay, that made it */
#define DOCKER_LABEL_WAY     "cay.way"     /* DOCKER_WAY_STREAM: operations go in by streams */
#define DOCKER_WAY_STREAM    "stream"
#define DOCKER_LABEL_NETWORK "cay.network" /* of a network; its kind */

/* The network of containers that have one. */
#define DOCKER_NETWORK      "cay-bridge"
#define DOCKER_NETWORK_KIND "bridge"
#define DOCKER_OPTION_ICC   "com.docker.network.bridge.enable_icc" /* talk between containers */

struct docker_version {
    char api[DOCKER_API_SIZE]; /* the newest that it speaks, "1.41" */
    char min[DOCKER_API_SIZE]; /* the oldest; "" if it does not say */
};

enum { DOCKER_RUNTIMES_MAX = 16 };

/* What containers can be run with; its program is empty if Docker does not say it. */
struct docker_runtime {
    char name[DOCKER_RUNTIME_SIZE];
    char program[DOCKER_RUNTIME_SIZE]; /* without its folder */
};

struct docker_info {
    bool can_limit_memory, can_limit_cpu, can_limit_pids;
    bool can_limit_disk; /* as far as it says; without quotas it refuses later */
    bool is_podman;
    bool has_seccomp, maps_ids;     /* a filter of its own; root inside is not root of its host */
    char cgroup[DOCKER_TEXT_SIZE];  /* "v1 by cgroupfs" */
    char version[DOCKER_TEXT_SIZE]; /* of Docker itself */
    char driver[DOCKER_TEXT_SIZE];  /* how it keeps files, */
    char backing[DOCKER_TEXT_SIZE]; /* and on which file system; "" if it does not say */
    char default_runtime[DOCKER_RUNTIME_SIZE];
    struct docker_runtime runtimes[DOCKER_RUNTIMES_MAX];
    size_t runtime_count;
};

/* A network of Docker's. */
struct docker_network {
    char id[HEX_SIZE];
    bool is_ours;                   /* has our label, and keeps containers apart */
    char gateway[DOCKER_TEXT_SIZE]; /* the first; "" if it is not told */
};

struct docker_container {
    bool by_stream;      /* how operations go in */
    char owner[ID_SIZE]; /* the sandbox of this state folder whose it is; "": it is of none */
    enum engine_state state;
    bool oom_killed;
    int exit_code;
    char error[DOCKER_TEXT_SIZE];              /* why it did not start */
    uint64_t memory_bytes, cpu_quota_us, pids; /* its limits; 0: none, or not told */
    uint64_t disk_bytes;                       /* the limit of its disk; 0: none */
    uint64_t size_rw;                          /* what it has written, if that was asked for */
};

/* One line of what Docker tells while it fetches an image. */
struct docker_progress {
    char id[64];     /* of a layer; "" if it is about no one */
    char status[64]; /* in Docker's words: "Downloading" */
    char error[DOCKER_TEXT_SIZE];
    uint64_t done, total; /* bytes; 0 if not told */
};

struct docker_event {
    char id[ID_SIZE]; /* of the sandbox */
    char action[32];
    int64_t time; /* seconds since 1970 */
    int exit_code;
};

/* What a context of the docker command says of its Docker. */
struct docker_context {
    char name[DOCKER_TEXT_SIZE];
    char host[512]; /* "" if it says nothing */
    bool skip_verify;
};

int docker_parse_version(const char *text, size_t len, struct docker_version *ret,
                         struct cay_error *err);
/* Whether a version is one that we speak, so that no other has to be chosen. */
bool docker_api_is_known(const char *api);
/* The version to speak with it: the newest that both know. -CAY_UNSUPPORTED if it is too old. */
int docker_choose_api(const struct docker_version *v, char out[static DOCKER_API_SIZE],
                      struct cay_error *err);
int docker_parse_info(const char *text, size_t len, struct docker_info *ret, struct cay_error *err);
/* The "message" of an error, made printable; the bare text if it is no such JSON. */
void docker_parse_error(const char *text, size_t len, char out[static DOCKER_TEXT_SIZE]);
/* Whether an error of Docker's says that its disk is full, and what to do then. */
bool docker_is_full(const char *message);
#define DOCKER_MAKE_ROOM "make room where Docker keeps its data, e.g. docker system prune"
/* Those of our containers that belong to this state folder. The caller frees the array. */
int docker_parse_list(const char *text, size_t len, const char *home, struct engine_sandbox **ret,
                      size_t *ret_count, struct cay_error *err);
int docker_parse_inspect(const char *text, size_t len, const char *home,
                         struct docker_container *ret, struct cay_error *err);
/* Fills everything but the disk. */
int docker_parse_stats(const char *text, size_t len, struct engine_stats *ret,
                       struct cay_error *err);
/* The name or id that the answer to a load tells; the answer is lines of JSON. */
int docker_parse_loaded(const char *text, size_t len, char out[static DOCKER_TEXT_SIZE],
                        struct cay_error *err);
int docker_parse_progress(const char *line, size_t len, struct docker_progress *ret,
                          struct cay_error *err);
/* One line of the events; -CAY_NOT_FOUND if it is about no container of this state folder. */
int docker_parse_event(const char *line, size_t len, const char *home, struct docker_event *ret,
                       struct cay_error *err);
/* The "Id" of an image, without its "sha256:". */
int docker_parse_image_id(const char *text, size_t len, char out[static HEX_SIZE],
                          struct cay_error *err);
int docker_parse_network(const char *text, size_t len, struct docker_network *ret,
                         struct cay_error *err);
/* The id of an exec: letters and digits. */
int docker_parse_exec(const char *text, size_t len, char out[static DOCKER_EXEC_SIZE],
                      struct cay_error *err);
/* meta.json of a context. */
int docker_parse_context(const char *text, size_t len, struct docker_context *ret,
                         struct cay_error *err);
/* The context that config.json of the docker command names; "" if it names none. */
int docker_parse_current(const char *text, size_t len, char out[static DOCKER_TEXT_SIZE],
                         struct cay_error *err);
