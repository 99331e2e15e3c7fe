/* Names of rows that the goals are about. */
#pragma once

#define ROW_PLAIN        "plain vfork+exec: busybox true"
#define ROW_PLAIN_GAP    "plain, after 25 ms of idling"
#define ROW_LAUNCHER     "launcher: sandbox runs busybox true"
#define ROW_LAUNCHER_GAP "launcher, after 25 ms of idling"
#define ROW_GONE         "launcher, until everything is gone"
#define ROW_EXEC         "exec in a running sandbox"
#define ROW_VERSION      "cay version"
#define ROW_RUN          "cay run -- /bin/true"
#define ROW_RUN_BUSYBOX  "cay run -- busybox true"
#define ROW_DAEMON       "cay run -- /bin/true, with a daemon"
#define ROW_DAEMON_GAP   "the same, after 25 ms of idling"

/* As bench/run names the peers. */
#define PEER_BWRAP       "bwrap --unshare-all /bin/true"
#define PEER_RUNC        "runc run"
#define PEER_DOCKER      "docker run --network none"
#define PEER_DOCKER_EXEC "docker exec"

#define BUSYBOX "/usr/bin/busybox"
