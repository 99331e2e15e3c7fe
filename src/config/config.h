/* The configuration: one table of keys, read from files and the environment. Each effective value
 * knows where it came from. Loading checks everything: a struct config holds values in range.
 *
 * Files differ in what they may set. One that the user named, and the user's and the system's own,
 * count in full. A limited file is one of the current folder, which may be somebody else's
 * checkout, or one that somebody else owns or can write: it may set what is harmless and narrow
 * what the other files allow. What else it sets is ignored, and listed in config->refusals. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "config/engines.h"

struct cay_error;
struct toml_value;

enum config_kind {
    CONFIG_STRING,   /* const char * */
    CONFIG_BOOL,     /* bool */
    CONFIG_INTEGER,  /* int64_t */
    CONFIG_NUMBER,   /* double */
    CONFIG_SIZE,     /* uint64_t, bytes; written as 1048576 or "512m" */
    CONFIG_DURATION, /* int64_t, milliseconds; written as 300 (seconds) or "5m" */
    CONFIG_LIST,     /* struct strv; an array of strings, in the environment separated by commas */
    CONFIG_MAP,      /* struct strv of "K=V"; a table of strings, in the environment K=V,K=V */
};

/* What a limited file may do with a key. There is no default: a row without it does not compile. */
enum config_trust {
    CONFIG_TRUSTED = 1, /* nothing */
    CONFIG_NARROWS,     /* lower a number, switch off, or what is_narrower says */
    CONFIG_HARMLESS,    /* set it */
};

/* One row of the table. */
struct config_key {
    const char *section, *name;
    enum config_kind kind;
    enum config_trust trust;
    const char *fallback; /* the default, as it would stand in the environment */
    size_t offset;        /* in struct config */
    double min, max;      /* of integers, numbers, sizes (bytes) and durations (milliseconds) */
    int (*check)(const char *what, const char *text,
                 struct cay_error *err);                      /* of strings and elements */
    bool (*is_narrower)(const char *now, const char *wanted); /* of strings that narrow */
    const char *help;
    bool secret; /* not to be shown */
};

/* The layers; a later one overrides those before it. */
enum config_source {
    CONFIG_FROM_DEFAULT,
    CONFIG_FROM_SYSTEM,      /* /etc/cay/config.toml */
    CONFIG_FROM_USER,        /* cay/config.toml in $XDG_CONFIG_HOME or ~/.config */
    CONFIG_FROM_FOLDER,      /* config/config.toml in the current folder */
    CONFIG_FROM_NAMED,       /* --config or $CAY_CONFIG, in place of all other files */
    CONFIG_FROM_ENVIRONMENT, /* CAY_SECTION_KEY */
    CONFIG_SOURCES,
};

/* A file that was read. */
struct config_file {
    char *path;              /* NULL: there is none */
    struct toml_value *tree; /* its content */
    const char *limited;     /* why it is limited; NULL: it counts in full */
};

/* What a limited file set in vain. */
struct config_refusal {
    enum config_source source;
    char name[64]; /* "sandbox.engine", or a section */
    unsigned line;
    bool widens; /* a smaller value would have been taken */
};

/* What is in effect for one row. */
struct config_value {
    char *text; /* as given: "512m" */
    enum config_source source;
    unsigned line; /* in the file */
};

struct config {
    struct {
        bool use_sandbox;
        bool allow_host_execution; /* use_sandbox may be false */
        bool use_daemon;           /* for throw-away sandboxes, where one runs */
        const char *image;
        const char *work_dir;
        uint64_t memory; /* bytes */
        double cpus;
        int64_t timeout_ms;
        bool network_enabled;
        const char *network;
        const char *engine;
        const char *tier; /* "auto": by the daemon's rights */
        int64_t pids;
        uint64_t disk; /* bytes */
    } sandbox;
    struct {
        const char *network_max, *profile_max, *tier_min;
        struct strv engines;
        int64_t max_sandboxes;
        int64_t creating_max; /* 0: by the number of processors */
        int64_t queue_size;
        int64_t idle_timeout_ms; /* 0: never */
        int64_t cleanup_interval_ms;
        int64_t auto_stop_minutes;    /* 0: never */
        int64_t auto_archive_minutes; /* 0: never */
        int64_t auto_delete_minutes;  /* -1: never, 0: when it stops */
        struct strv volume_folders;   /* empty: none as root, else all */
        struct strv volume_root_folders;
        uint64_t volume_size; /* bytes */
        int64_t stop_timeout_ms;
        const char *on_failure; /* "keep", "recreate", "remove" */
        int64_t pool_size;      /* 0: no pool */
        bool public_previews;
        int64_t lifetime_max_ms;                   /* 0: without a limit */
        struct strv pool_images;                   /* empty: the default image */
        int64_t sample_interval_ms;                /* 0: never */
        int64_t warn_after_ms;                     /* 0: never */
        const char *disk_reserve, *memory_reserve; /* see config_parse_reserve */
        int64_t pids_reserve;
        double memory_overcommit, cpu_overcommit, pids_overcommit; /* 0: no limit of sums */
        int64_t audit_rows;                                        /* 0: all */
        int64_t audit_keep_ms;                                     /* 0: for ever */
        uint64_t audit_size;                                       /* bytes */
    } manager;
    struct {
        const char *listen;
        const char *socket;             /* "": in the state folder */
        const char *tls_cert, *tls_key; /* both or none ("") */
        struct strv allowed_hosts, allowed_origins;
        const char *log_level;  /* "error", "warn", "info", "debug" */
        const char *log_format; /* "text", "json" */
        bool metrics_public;
        int64_t client_timeout_ms;
        const char *public_url; /* "": what a request's Host says */
    } server;
    struct {
        const char *pull;    /* "missing", "always", "never" */
        struct strv aliases; /* "NAME=NAME" */
        struct strv prepull, insecure_registries;
        struct strv allowed;    /* for keys, patterns; empty: all */
        struct strv registries; /* for keys; empty or with "*": all with public addresses */
        int64_t build_timeout_ms, pull_timeout_ms;
        struct strv credentials; /* "REGISTRY=USER:PASSWORD" */
        const char *ca_file;     /* "": none */
    } images;
    const char *engine[ENGINE_KEYS]; /* the keys of engines; "": the default */
    struct {
        bool warm;
        struct strv preload;
        const char *index_url, *find_links; /* "": none */
        int64_t waiting;
    } python;

    struct {
        const char *host;               /* where sandboxes that stay are; "": in the state folder */
        const char *key_file, *ca_file; /* "": none */
    } remote;
    struct {
        const char *api_key, *server_url, *target;
        const char *image, *entrypoint, *vnc_password; /* of cay_daytona_create; "": none */
    } daytona;

    struct config_file files[CONFIG_SOURCES]; /* by source */
    struct config_value *values;              /* by row */
    struct config_refusal *refusals;
    size_t refusal_count;
};

/* Reads path, or if it is NULL the file that $CAY_CONFIG names; it must exist. Without either the
 * files of the system, the user and the current folder are read, as far as they exist. Then
 * CAY_SECTION_KEY of env (NULL-terminated "K=V") is applied; other variables that start with CAY_
 * are left alone. */
int config_load(const char *path, const char *const *env, struct config **ret,
                struct cay_error *err);
/* The same without the current folder's file: for daemons, and for settings that it may not set. */
int config_load_trusted(const char *path, const char *const *env, struct config **ret,
                        struct cay_error *err);
/* Fails if anything was refused: for programs that must not run with half of a configuration. */
int config_check_refusals(const struct config *config, struct cay_error *err);
/* Whom loading tells of refusals, with a line for people for each file; NULL, the default: nobody.
 * For programs, at their start. */
typedef void config_listener(enum config_source source, const char *note);
void config_listen(config_listener *listener);
/* The line on what the file of a source set in vain; "" if nothing was. */
const char *config_refusal_note(const struct config *config, enum config_source source, char *out,
                                size_t size);

/* Its values through a file of the memory, for a process that may not read the file itself: the
 * descriptor, or a negative code. What is secret is left out. */
int config_pack(const struct config *config, struct cay_error *err);
/* The same values in another process of the same program; where they came from is not known. */
int config_unpack(int fd, struct config **ret, struct cay_error *err);

/* Releases it; NULL is fine. */
void config_free(struct config *config);
void config_freep(struct config **config);

/* A table that another module reads ("llm", "mcp", …), from the last file that has it and is not
 * limited; or NULL. */
const struct toml_value *config_section(const struct config *config, const char *name);

/* The network of sandboxes that do not choose one: "none", "allow=" and a list, or "bridge". */
const char *config_network(const struct config *config);

/* [manager] disk_reserve: the share of the file system, if percent is not 0, but no more than
 * max_bytes; else max_bytes. */
struct config_reserve {
    unsigned percent;
    uint64_t max_bytes;
};
int config_parse_reserve(const char *what, const char *text, struct config_reserve *ret,
                         struct cay_error *err);

/* True if a limited file chose the image: it may then be used, but not downloaded. */
bool config_image_is_limited(const struct config *config);

/* The table of all keys; config->values has the same order. */
const struct config_key *config_keys(size_t *ret_count);

/* The variable that overrides a key: "CAY_SANDBOX_MEMORY_LIMIT". */
const char *config_variable(const struct config_key *key, char out[static 64]);

/* Where the value of a row came from: "default", "config/config.toml:3", "CAY_SANDBOX_IMAGE". */
const char *config_origin(const struct config *config, size_t row, char *out, size_t size);
/* "default", "system", "user", "folder", "named" or "environment". */
const char *config_source_name(enum config_source source);
