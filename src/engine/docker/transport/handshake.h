/* The way into a container. No descriptor can be given to a container when it is started, so its
 * first process asks for what it needs: cay-enter, which the container is started with, connects to
 * a socket in a folder that is bind-mounted read-only, and gets cay-init in a sealed memfd, the
 * socket that cay-init serves, and orders. It gives up its rights as the native engine's first
 * process does and becomes cay-init. Then the socket is gone, and nothing inside leads out. */
#pragma once

#include <linux/filter.h>
#include <stdint.h>

#include "confine/seccomp.h"
#include "engine/spec.h"

struct cay_error;

#define DOCKER_DOOR_NAME  "door"
#define DOCKER_ENTER_NAME "enter"
#define DOCKER_INIT_NAME  "init" /* where no descriptor can be passed */

enum { DOCKER_ORDERS_VERSION = 4, DOCKER_SERVERS_MAX = 3, DOCKER_OWN_MAX = 64 };

/* What must be found at a place inside: the container engine opens folders of the host by their
 * names, after we have checked them, and somebody could have changed what a name stands for. */
struct docker_volume {
    uint64_t device, inode;
    char target[SPEC_PATH_SIZE];
};

/* What a container with a network must not reach beside what nobody does. Addresses of IPv4, as
 * they are on the wire. */
struct docker_walls {
    uint32_t wanted;       /* 0: it has no network, and cay-enter looks whether that is so */
    uint32_t server_count; /* name servers, of which port 53 is open wherever they are */
    uint32_t servers[DOCKER_SERVERS_MAX];
    uint32_t own_count; /* public addresses of the host */
    uint32_t own[DOCKER_OWN_MAX];
};

#define DOCKER_WALLS_STEP "closing the network" /* the step that puts them up, in a report */

struct docker_orders {
    uint32_t version;
    uint32_t build;                 /* profile */
    uint32_t set_file_capabilities; /* of files, in the profile build */
    uint32_t work_uid, work_gid;    /* whose the work folder is */
    uint32_t is_gvisor;             /* whose kernel lacks some of what we do (enter/main.c) */
    uint32_t write_hosts;           /* /etc/hosts is the container's, and can be written */
    uint32_t volume_count;
    struct docker_volume volumes[SPEC_MOUNTS_MAX];
    struct docker_walls walls;
    uint32_t filter_count;
    struct sock_filter filter[SECCOMP_MAX_INSNS];
};

/* What comes back if it could not be done; nothing comes if it was. */
struct docker_report {
    int32_t sys;
    char step[60];
};

/* The error that a report is. */
int docker_report_error(struct docker_report *report, struct cay_error *err);

/* Listens in the folder; what a start before has left there is removed. A descriptor. */
int docker_door_open(int folder, struct cay_error *err);

/* Waits for the one who comes, at most so long, and makes it become cay-init. */
int docker_door_serve(int door, const struct docker_orders *orders, int init, int listener,
                      int timeout_ms, struct cay_error *err);

/* Removes the socket from the folder. */
void docker_door_close(int folder, int *door);
