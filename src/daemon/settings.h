/* What the daemon was started with. */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include <cay/errors.h>

#include "api/http/tls.h"
#include "config/config.h"
#include "confine/role_ids.h"
#include "engine/spec.h"

enum { ADMIN_KEY_SIZE = 80 };

struct settings {
    char state_dir[PATH_MAX];
    const char *config_file;  /* as given, or NULL */
    const char *config_files; /* in the front: the names of those that were read */
    struct config *config;
    struct tls tls;       /* of TCP */
    bool insecure_listen; /* TCP without TLS beyond this machine is wanted */
    const char *listen;   /* "ADDRESS:PORT" for TCP, or NULL */
    const char *socket;   /* path of the unix socket, relative to the daemon's folder or absolute */
    const char *log_level;    /* as given, or NULL: the configuration's */
    const char *log_format;   /* the same: "text", "json" */
    enum engine_kind engine;  /* of sandboxes that do not say, for as long as the daemon runs */
    bool holds[ENGINE_KINDS]; /* the state folder has something of this engine */
    bool is_root;             /* of the host: the front becomes another user then */
    struct role_ids ids; /* as root: of the processes without privilege, while the daemon runs */
    struct cay_error no_disk_limits; /* why native sandboxes have none; CAY_OK: they have */
    bool in_background;
    char key[ADMIN_KEY_SIZE]; /* for TCP; empty if there is none */
};

/* Logs as the command line (or NULL), or else the configuration, says. */
void settings_apply_level(const char *given, const struct config *config);
void settings_apply_format(const char *given, const struct config *config);

/* The folders of the host below which volumes may lie, as volume_rules has them. 0 or -errno. */
int settings_folders(const struct config *config, bool is_root, struct strv *ret);
/* Decides the engine by the configuration, and looks what there is of each. */
void settings_choose_engine(struct settings *s);
int settings_check_folders(const struct config *config, struct cay_error *err);
