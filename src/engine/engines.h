/* What the rest of cay knows of an engine: one descriptor each. A new engine is a row in
 * config/engines.h, a folder with its descriptor and its program, and nothing else here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "config/engines.h"
#include "engine/spec.h"

struct cay_error;
struct engine;

/* What an engine can do by itself. */
enum engine_ability {
    ENGINE_HAS_BRIDGE = 1,   /* the network 'bridge' */
    ENGINE_HAS_IMAGES = 2,   /* it keeps images; its program fetches them (engine_ensure_words) */
    ENGINE_HAS_ARCHIVES = 4, /* archives, backups and snapshots: the operations of engine.h */
    ENGINE_LIMITS_AT_START = 8, /* only a start shows whether it can limit a disk */
    ENGINE_HAS_PROBE = 16,      /* `PROGRAM probe` reports what it found, for `cay doctor` */
    ENGINE_HAS_ONCE = 32,       /* throw-away sandboxes for a daemon that is root */
};

struct engine_type {
    const char *program; /* that serves it (engine/link) */
    const char *role;    /* of that process in health reports and metrics */
    const char *title;   /* for `cay doctor` */
    const char *folder;  /* of the state folder: has a folder for each sandbox */
    const char *keep;    /* second argument of the program that serves a daemon */
    /* Variables that the program gets beside its keys, "NAME="; NULL-terminated. NULL: it gets an
     * empty environment. */
    const char *const *variables;
    unsigned abilities;   /* enum engine_ability */
    unsigned ping_rounds; /* a ping costs it something: only every so many rounds */
    /* The best tier that it gives; keys as in the configuration. */
    enum tier (*best_tier)(bool is_root, const char *const keys[static ENGINE_KEYS]);
    /* An engine for throw-away sandboxes of this process (engine_ops.run). */
    int (*open)(const char *state_dir, struct engine **ret, struct cay_error *err);
};

/* The descriptor of an engine other than ENGINE_UNSAID. */
const struct engine_type *engine_type(enum engine_kind kind);
bool engine_can(enum engine_kind kind, enum engine_ability ability);

/* The keys of engines as the environment has them; "" for what is not there. */
void engine_keys_read(const char *keys[static ENGINE_KEYS]);
/* Puts them there, for the engines that this process opens. Not for processes with threads. */
void engine_keys_export(const char *const keys[static ENGINE_KEYS]);
/* The variable of a key, and whether it belongs to this engine. */
const char *engine_key_variable(enum engine_key key);
bool engine_key_is_of(enum engine_key key, enum engine_kind kind);

/* The words of `PROGRAM ensure`, which answers as `cay-image ensure` does; owner is that of images,
 * config may be NULL. They point to what was given. */
#define ENGINE_OWNER_NONE "-"
enum { ENGINE_ENSURE_WORDS = 9 };
void engine_ensure_words(enum engine_kind kind, const char *state_dir, const char *config,
                         const char *policy, bool is_quiet, const char *owner, const char *image,
                         const char *argv[static ENGINE_ENSURE_WORDS]);
