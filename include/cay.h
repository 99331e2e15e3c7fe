/* libcay: sandboxes for untrusted code. There are two ways to them:
 *
 * - cay_engine and cay_sandbox: one that is thrown away, made by this process, without a daemon;
 * - cay_manager: sandboxes that stay, kept by the daemon. Any thread, any process.
 *
 * Functions return 0, or the negative of an enum cay_code with *err filled; err is never NULL.
 * docs/library.md has more, docs/examples/ whole programs.
 *
 *     struct cay_error err;
 *     cay_engine *engine;
 *     cay_sandbox *box;
 *     struct cay_spec spec;
 *     struct cay_exec exec = CAY_EXEC_INIT;
 *     struct cay_result result;
 *
 *     cay_spec_init(&spec);
 *     exec.argv = (const char *const[]){"python3", "-c", "print(6*7)", NULL};
 *     if (cay_engine_open(NULL, &engine, &err) == 0 &&
 *         cay_sandbox_create(engine, &spec, &box, &err) == 0 &&
 *         cay_sandbox_exec(box, &exec, &result, &err) == 0)
 *         …
 *
 * The engine must be used from one thread, in a process without others: it clones. As an ordinary
 * user, opening it puts the process into a user namespace of its own, for good. The manager has
 * neither condition. */
#pragma once

#include <cay/errors.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cay_engine cay_engine;
typedef struct cay_sandbox cay_sandbox;

/* The version of the library, as `cay version` prints it. */
const char *cay_version(void);

/* ---- the engine ---- */

/* Opens the native engine. state_dir NULL: /var/lib/cay as root, $XDG_STATE_HOME/cay otherwise; it
 * is made if missing. */
int cay_engine_open(const char *state_dir, cay_engine **ret, struct cay_error *err);
/* The same of an engine by its name: "native", or "docker", whose sandboxes are containers of the
 * Docker that the environment names (docs/engines.md): it clones nothing, changes nothing of this
 * process, has one sandbox, and starts the program cay-docker beside this one. */
int cay_engine_open_as(const char *name, const char *state_dir, cay_engine **ret,
                       struct cay_error *err);
void cay_engine_close(cay_engine *engine);

/* One thing that isolates on this host. */
struct cay_wall {
    const char *name;
    const char *detail;
    const char *remedy;     /* "" when ok */
    const char *needed_for; /* the lowest tier that needs it */
    bool ok;
};
/* Fills up to max walls and returns how many there are. Texts live as long as the engine. */
size_t cay_engine_walls(const cay_engine *engine, struct cay_wall *walls, size_t max);
/* "full", "rootless", "basic" or "none". */
const char *cay_engine_tier(const cay_engine *engine);

/* ---- images ---- */

enum cay_pull { CAY_PULL_MISSING, CAY_PULL_ALWAYS, CAY_PULL_NEVER };

enum { CAY_IMAGE_ID_SIZE = 65 };

/* Makes sure that an image is in the store, pulling it from its registry if that is needed and
 * allowed: the program cay-image does it, beside this program or in ../libexec/cay. Progress and
 * what an alias stands for go to standard error unless quiet. config is its configuration file, or
 * NULL. To be called before the engine is opened. */
int cay_image_ensure(const char *state_dir, const char *config, const char *image,
                     enum cay_pull pull, bool quiet, char id[CAY_IMAGE_ID_SIZE],
                     struct cay_error *err);

/* The same for the sandboxes of an engine by its name: "native", or "docker", where Docker's own
 * images come first and Docker does the pull (docs/engines.md); the program is cay-docker then. */
int cay_image_ensure_as(const char *engine, const char *state_dir, const char *config,
                        const char *image, enum cay_pull pull, bool quiet,
                        char id[CAY_IMAGE_ID_SIZE], struct cay_error *err);

/* What the makers of an image meant it to do; empty for the host image. */
struct cay_image_config {
    const char *const *entrypoint; /* NULL-terminated, never NULL */
    const char *const *cmd;
    const char *working_dir; /* "" if it has none */
    const char *user;
    const char *const *volumes;
};

/* ---- a sandbox ---- */

/* What a sandbox should be. Strings are borrowed for the call. Always start from cay_spec_init. */
struct cay_spec {
    const char *name;  /* its hostname too; NULL: generated */
    const char *image; /* "host", or the name or id of an image in the store */
    const char
        *network; /* "none", "allow=" and a list of what is reached through a proxy, or "bridge" */
    uint64_t memory_bytes;
    uint64_t disk_bytes; /* 0: half of the memory */
    double cpus;
    uint32_t pids;
    bool read_only;
    const char *tier;    /* least isolation that is acceptable; NULL: full as root, else rootless */
    const char *profile; /* "strict" (default) or "build" */
    const char *user;    /* default user of commands; NULL: root inside */
    const char *const *volumes; /* "HOST:BOX[:ro]", NULL-terminated; NULL: none */
};
void cay_spec_init(struct cay_spec *spec);

/* Where the time went, in microseconds. */
struct cay_phases {
    int64_t prepare_us; /* ids, namespaces, control group */
    int64_t root_us;    /* image and file tree */
    int64_t start_us;   /* first process and cay-init */
    int64_t exec_us;    /* until the command was executed */
    int64_t run_us;     /* the command itself */
};

/* A running sandbox; it dies with this process. */
int cay_sandbox_create(cay_engine *engine, const struct cay_spec *spec, cay_sandbox **ret,
                       struct cay_error *err);
/* Lives as long as the sandbox. */
const struct cay_image_config *cay_sandbox_image(const cay_sandbox *box);
/* 16 hexadecimal digits. */
const char *cay_sandbox_id(const cay_sandbox *box);
/* Ends every process in it and removes all that was made for it. NULL is fine. */
void cay_sandbox_destroy(cay_sandbox *box);

/* ---- a command ---- */

struct cay_exec {
    const char *const *argv;            /* NULL-terminated */
    const char *const *env;             /* "K=V" over the image's own, NULL-terminated; or NULL */
    const char *work_dir;               /* absolute, made if missing; NULL: the sandbox's */
    const char *user;                   /* "name", "uid" or "uid:gid"; NULL: the sandbox's, else
                                         * the image's, else root */
    bool tty;                           /* a terminal; stdin_fd should be one too, in raw mode */
    int stdin_fd, stdout_fd, stderr_fd; /* streamed; -1: `input` is the input, captured output */
    const void *input;                  /* bytes for standard input; NULL: it is empty */
    size_t input_len;
    size_t capture_max;             /* bytes of captured output for each stream */
    int signal_fd;                  /* a signalfd whose signals go to the command; -1: none */
    int64_t timeout_ms;             /* 0: none */
    int64_t idle_output_timeout_ms; /* 0: none */
    uint64_t output_max;            /* bytes of both streams together; 0: none */
};
#define CAY_EXEC_INIT                                                                              \
    ((struct cay_exec){.stdin_fd = -1,                                                             \
                       .stdout_fd = -1,                                                            \
                       .stderr_fd = -1,                                                            \
                       .capture_max = 16 * 1024 * 1024,                                            \
                       .signal_fd = -1})

struct cay_result {
    int exit_code; /* the command's; 128+n after signal n; 124 when a limit struck */
    int signal;
    bool timed_out; /* wall limit, or no output for too long */
    bool idle_output;
    bool output_truncated;
    bool oom_killed;
    int64_t duration_us;
    char *out, *err; /* captured, NUL-terminated, of out_len and err_len bytes; NULL if streamed */
    size_t out_len, err_len;
    struct cay_phases phases;
    const char *tier;
};

/* Runs a command to its end. A sandbox from cay_sandbox_create runs one. Fails if the command could
 * not be started: then result->exit_code is 127 (not found), 126 (not executable) or 125. What
 * there is of its output is in result even so, which is to be released in any case. */
int cay_sandbox_exec(cay_sandbox *box, const struct cay_exec *exec, struct cay_result *result,
                     struct cay_error *err);
void cay_result_free(struct cay_result *result);

#ifdef __cplusplus
}
#endif

#include <cay/manager.h>
#include <cay/program.h>
#include <cay/python.h>
#include <cay/remote.h>
