/* Starts the program of an engine. Benchmarks and tests also ask it for throw-away sandboxes here,
 * with one thread and without client.h. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "engine/engines.h"
#include "engine/link/protocol.h"

struct launcher_client {
    pid_t pid;
    int sock;
};

#define LAUNCHER_CLIENT_NONE ((struct launcher_client){.sock = -1})

/* Starts `program` (cay-launcher) with this state folder, to keep `ready` slots ready, and to show
 * inside what lies below these folders (absolute, NULL-terminated). */
int launcher_client_start(const char *program, const char *state_dir, unsigned ready,
                          const char *const *folders, struct launcher_client *ret,
                          struct cay_error *err);
/* Starts the program of an engine, as the one that serves `sock`, which stays open here; how it
 * shall work is its second argument. env NULL is an empty environment. */
int link_spawn(const char *program, const char *state_dir, const char *how,
               const char *const *folders, const char *const *env, int sock, pid_t *ret,
               struct cay_error *err);

/* Starts the program of an engine by its descriptor: with LINK_RUN for throw-away sandboxes of this
 * process, else as the descriptor's `keep` says. keys are those of the configuration. */
#define LINK_RUN "run"
/* "json" in the environment of the program: it logs JSON. */
#define LINK_LOG_VARIABLE "CAY_ENGINE_LOG"
int link_start_program(enum engine_kind kind, const char *how, const char *state_dir,
                       const char *const *folders, const char *const keys[static ENGINE_KEYS],
                       int sock, pid_t *ret, struct cay_error *err);

/* Asks for a sandbox; connection and listener (or -1) become its cay-init's and stay open here. The
 * answer comes by launcher_client_next. */
int launcher_client_send(const struct launcher_client *c, uint64_t tag,
                         const struct sandbox_spec *spec, int connection, int listener,
                         struct cay_error *err);

/* Asks to kill a sandbox. */
int launcher_client_end(const struct launcher_client *c, uint64_t tag, struct cay_error *err);

/* Waits for the next answer, checked. */
int launcher_client_next(const struct launcher_client *c, struct launcher_answer *ret,
                         struct cay_error *err);

/* Hangs up and waits until the launcher has ended everything. */
void launcher_client_stop(struct launcher_client *c);
