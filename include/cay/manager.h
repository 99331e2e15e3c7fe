/* Sandboxes that stay, kept by the daemon: part of <cay.h>. */
#pragma once

#include <cay.h>
#include <cay/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A client of the daemon. Everything below may be called from several threads at once, with one
 * manager or with several; each call is a connection of its own. `who` is an id, a unique prefix of
 * one, or a name. */
typedef struct cay_manager cay_manager;

struct cay_manager_options {
    const char *host; /* unix://PATH, http://HOST:PORT, https://HOST, or "daytona" for the remote of
                       * the section [daytona]; NULL: $CAY_HOST, else [remote] host, else the
                       * daemon of the state folder */
    const char *key, *key_file; /* the API key for a host, or a file with it; NULL: $CAY_API_KEY
                                 * ($DAYTONA_API_KEY), else as configured */
    const char *state_dir;      /* NULL: as cay_engine_open */
    const char *config;         /* configuration file; NULL: where `cay` looks for it */
    bool no_start; /* fail with CAY_UNAVAILABLE where there is no daemon, instead of starting
                    * the one of the state folder */
};

/* options NULL: all of them NULL. Nothing of the daemon ends with the manager. */
int cay_manager_open(const struct cay_manager_options *options, cay_manager **ret,
                     struct cay_error *err);
void cay_manager_close(cay_manager *m);

enum { CAY_AS_CONFIGURED = -2 };

/* A sandbox to make. Zeros and NULLs take what the daemon is configured with. Always start from
 * cay_create_init. */
struct cay_create {
    struct cay_spec spec;
    const char *work_dir;         /* where commands start */
    const char *const *env;       /* "K=V" of every command, NULL-terminated */
    const char *const *labels;    /* "K=V", NULL-terminated */
    int64_t auto_stop_minutes;    /* without use; 0: never */
    int64_t auto_archive_minutes; /* after it has stopped; 0: never */
    int64_t auto_delete_minutes;  /* after it has stopped; 0: when it stops, -1: never */
    const char *on_failure;       /* "keep", "recreate" or "remove" if it dies by itself */
    const char *engine;           /* "native" or "docker"; NULL: as configured */
};
void cay_create_init(struct cay_create *create);

/* A sandbox as it is. */
struct cay_info {
    const char *id, *name;
    const char *state; /* "started", "stopped" …: docs/lifecycle.md */
    const char *image, *user, *work_dir, *tier;
    const char *const *labels; /* "K=V", NULL-terminated */
    uint64_t memory_bytes, disk_bytes;
    double cpus;
    uint32_t pids;
    int64_t created_ms, active_ms;           /* since 1970; active: used last */
    const char *error_reason, *error_remedy; /* "" unless the state is "error" */
};
/* One block: also for what cay_manager_list gives. NULL is fine. */
void cay_info_free(struct cay_info *info);

/* Makes it and starts it; an image that is missing is pulled. CAY_LIMIT_REACHED if there are as
 * many as there may be, CAY_CONFLICT if the name is taken. ret may be NULL. */
int cay_manager_create(cay_manager *m, const struct cay_create *create, struct cay_info **ret,
                       struct cay_error *err);
/* CAY_NOT_FOUND if there is none. */
int cay_manager_get(cay_manager *m, const char *who, struct cay_info **ret, struct cay_error *err);
/* All of them, or those with the label "K=V". */
int cay_manager_list(cay_manager *m, const char *label, struct cay_info **ret, size_t *ret_count,
                     struct cay_error *err);
int cay_manager_start(cay_manager *m, const char *who, struct cay_error *err);
int cay_manager_stop(cay_manager *m, const char *who, struct cay_error *err);
int cay_manager_pause(cay_manager *m, const char *who, struct cay_error *err);
int cay_manager_resume(cay_manager *m, const char *who, struct cay_error *err);
int cay_manager_archive(cay_manager *m, const char *who, struct cay_error *err);
/* With all of its files. Without force CAY_CONFLICT while something is done in it. */
int cay_manager_delete(cay_manager *m, const char *who, bool force, struct cay_error *err);

/* Runs a command to its end, as cay_sandbox_exec does, any number of them at a time. CAY_CONFLICT
 * if the sandbox does not run. A command that ran into its time limit is no error:
 * result->timed_out. */
int cay_manager_run_command(cay_manager *m, const char *who, const struct cay_exec *exec,
                            struct cay_result *result, struct cay_error *err);

/* The same for a Python program, as cay_sandbox_python, and for one in any language, as
 * cay_sandbox_program. The daemon's interpreter is used where it is the sandbox's own and exec has
 * no env, work_dir or user: python->warm and python->waits are not looked at. What there is of a
 * result is to be released in any case. */
int cay_manager_run_python(cay_manager *m, const char *who, const struct cay_python *python,
                           const struct cay_exec *exec, struct cay_python_result *result,
                           struct cay_error *err);
int cay_manager_run_program(cay_manager *m, const char *who, const struct cay_program *code,
                            const struct cay_exec *exec, struct cay_program_result *result,
                            struct cay_error *err);

/* Paths inside are relative to the sandbox's work folder unless they begin with a slash. */

/* A regular file of at most max bytes, NUL-terminated; the caller frees *ret. */
int cay_manager_read_file(cay_manager *m, const char *who, const char *path, size_t max, char **ret,
                          size_t *ret_len, struct cay_error *err);
/* Whole or not at all; folders that are missing are made. mode -1: that of the file before, else
 * 0644. */
int cay_manager_write_file(cay_manager *m, const char *who, const char *path, const void *data,
                           size_t len, int mode, struct cay_error *err);
/* Files and folders as `cay cp` copies them: `to` is copied into if it is a folder, "folder/."
 * stands for what is in it; modes, times and links are kept. */
int cay_manager_copy_to(cay_manager *m, const char *who, const char *from, const char *to,
                        struct cay_error *err);
int cay_manager_copy_from(cay_manager *m, const char *who, const char *from, const char *to,
                          struct cay_error *err);

/* As cay_image_ensure, in the manager's state folder; CAY_UNSUPPORTED if a host was named. */
int cay_manager_ensure_image(cay_manager *m, const char *image, enum cay_pull pull,
                             char id[CAY_IMAGE_ID_SIZE], struct cay_error *err);

/* What one sandbox uses. */
struct cay_usage {
    uint64_t memory_bytes, memory_limit, memory_peak, disk_bytes;
    uint64_t cpu_us; /* since it was started */
    uint64_t pids, oom_kills;
};
int cay_manager_usage(cay_manager *m, const char *who, struct cay_usage *ret,
                      struct cay_error *err);

struct cay_manager_stats {
    size_t sandboxes, started;
    size_t operations;               /* commands, copies and terminals under way */
    size_t limit;                    /* of sandboxes */
    size_t pool_ready;               /* made ahead, nobody's yet */
    uint64_t pool_hits, pool_misses; /* creations that found one there, or none */
    bool shutting_down;
    char version[64]; /* of the daemon */
};
int cay_manager_get_stats(cay_manager *m, struct cay_manager_stats *ret, struct cay_error *err);

/* Which sandboxes to remove: those that meet all of it. */
struct cay_cleanup {
    const char *label; /* "K=V"; NULL: any */
    int64_t idle_ms;   /* nothing was done in them for this long; 0: any */
    bool force;        /* also while something is done in them */
};
/* Removes them; goes on after a failure and reports the first one. ret_removed may be NULL. */
int cay_manager_cleanup(cay_manager *m, const struct cay_cleanup *which, size_t *ret_removed,
                        struct cay_error *err);

#ifdef __cplusplus
}
#endif
