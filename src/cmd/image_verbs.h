/* The verbs of `cay image`: names, options and help, apart from the program that does them
 * (cay-image), so that completion and help need none of its libraries. */
#pragma once

#include "cmd/verb.h"

/* How progress is told; the order of the choices of --progress. */
enum image_progress { IMAGE_PROGRESS_AUTO, IMAGE_PROGRESS_PLAIN, IMAGE_PROGRESS_JSON };

/* "missing", "always", "never": when a registry is asked; NULL-terminated. */
extern const char *const image_policy_names[];

/* What every verb has that may talk to a registry. */
struct image_registry_options {
    struct verb_common common;
    const char *platform, *ca_file;
    int policy;   /* of image_policy_names; -1: as configured */
    int progress; /* enum image_progress */
    bool insecure;
};

struct image_build_options {
    struct image_registry_options registry;
    const char *file, *target;
    struct strv tags, args, labels;
    int network; /* there is one choice: none */
    uint64_t memory;
    double cpus;
    bool pull, no_cache;
};

struct image_login_options {
    struct image_registry_options registry;
    const char *user;
    bool password_stdin;
};

struct image_rm_options {
    struct verb_common common;
    bool force;
};

struct image_public_options {
    struct verb_common common;
    bool is_private;
};

struct image_prune_options {
    struct verb_common common;
    bool all, dry_run;
};

/* load, save, import, export */
struct image_file_options {
    struct verb_common common;
    const char *file;
    int progress; /* enum image_progress */
    struct strv changes;
};

struct image_restore_options {
    struct verb_common common;
    uint64_t disk_bytes; /* of the new disk; 0: without a limit */
    uint64_t max_bytes;  /* of an archive that is made; 0: without a limit */
    bool backup;         /* it is about the backup, not the archive */
};

extern const struct opt_command verb_image_ls, verb_image_inspect, verb_image_rm, verb_image_tag,
    verb_image_public, verb_image_prune, verb_image_pull, verb_image_ensure, verb_image_load,
    verb_image_save, verb_image_import, verb_image_export, verb_image_build, verb_image_login,
    verb_image_logout, verb_image_make, verb_image_snapshot, verb_image_archive, verb_image_restore,
    verb_image_store, verb_image_credential;

/* All of them, NULL-terminated. */
extern const struct opt_command *const verb_image_all[];
