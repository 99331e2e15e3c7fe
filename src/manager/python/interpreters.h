/* Python in the daemon: frozen interpreters of images, each in memory once, and sandboxes in which
 * one waits for its program.
 *
 * An interpreter is frozen (lib/python/freeze.h) in a sandbox of its own when somebody could have
 * used it; until then programs start cold. Nothing here waits for it. */
#pragma once

#include <cay.h>

#include "base/str.h"
#include "engine/spec.h"
#include "manager/manager.h"

struct engine;
struct buf;
struct interpreters;

struct interpreters_options {
    struct engine *engine;
    bool has_once;                     /* the engine's own throw-away sandboxes can be had */
    describe_image describe;           /* what an image says of its commands */
    const struct network_ops *network; /* NULL: programs reach nothing */
    void *user;                        /* of both */
};

/* What may change at any time. */
struct interpreters_rules {
    bool warm;
    const struct strv *preload; /* modules */
    size_t waiting;             /* sandboxes in which one waits; 0: none */
    struct sandbox_spec spec;   /* of throw-away sandboxes: their limits */
    const char *work_dir;
    const char *index_url, *find_links; /* where packages come from; "": not said */
};

int interpreters_new(const struct interpreters_options *options, struct interpreters **ret,
                     struct cay_error *err);
int interpreters_set_rules(struct interpreters *all, const struct interpreters_rules *rules,
                           struct cay_error *err);
/* Makes no more of them. Those that wait end with the launcher. */
void interpreters_close(struct interpreters *all);
/* Ends what waits. Nobody may be in here any more. */
void interpreters_free(struct interpreters *all);

/* A frozen interpreter for a program with these variables ("K=V") in a sandbox that stays: a
 * descriptor, the caller's to close. Negative, with the reason in why, if the program has to start
 * cold. Inside it finds out by itself whether it is the sandbox's own (python_kept_argv). */
int interpreters_find(struct interpreters *all, const struct sandbox_record *box,
                      const struct strv *env, struct cay_error *why);

/* It was found out there that this sandbox has another Python by now: until its image's interpreter
 * is frozen anew it is not tried again. */
void interpreters_note_changed(struct interpreters *all, const struct sandbox_record *box);

/* Where packages come from; "": not said. */
void interpreters_index(struct interpreters *all, char *ret, size_t size);

/* What a program in a fresh sandbox takes of a budget; the owner is left alone. */
void interpreters_charge(struct interpreters *all, struct budget_charge *ret);

/* Whose program it is. */
struct interpreters_caller {
    int socket;               /* if he hangs up there, it is given up; 0: nobody can */
    const char *network;      /* as of --network, and his to have; NULL: none */
    const char *owner;        /* id of his key; "": of whoever runs the daemon */
    uint32_t connections_max; /* of the key through the proxy; 0: no limit of its own */
    /* Hears output beyond exec->capture_max, as exec_streams.more; NULL: it is dropped. */
    void (*more)(void *arg, int stream, const struct buf *captured, const char *data, size_t len);
    void *more_arg;
};

/* Runs a program in a fresh sandbox of the host image, with every wall, that is gone afterwards; as
 * cay_sandbox_python. Where its packages come from is said by the rules. why_cold is why it was not
 * warm, or empty. */
int interpreters_run(struct interpreters *all, const struct cay_python *program,
                     const struct cay_exec *exec, const struct interpreters_caller *caller,
                     struct cay_python_result *ret, char why_cold[static 200],
                     struct cay_error *err);

/* What a client who speaks to the sandbox himself wants. */
struct interpreters_wish {
    const struct sandbox_spec *spec;
    bool may_wait; /* one that has been woken in work_dir with no variables of its own will do */
    const char *work_dir;
    uint64_t preload; /* prepared_preload() of the modules that it must have */
};

/* One interpreter: a connection to the sandbox where it waits, which is the caller's to end by the
 * tag, or one that is frozen, a descriptor. */
struct interpreters_loan {
    bool waits;
    int fd;
    uint64_t tag;
};
int interpreters_lend(struct interpreters *all, const struct interpreters_wish *wish,
                      struct interpreters_loan *ret, struct cay_error *why);

struct interpreters_totals {
    size_t frozen;                  /* images of which there is one */
    size_t waiting, target;         /* sandboxes */
    uint64_t hits, misses, dropped; /* of programs that could have had one that waits */
};
void interpreters_total(struct interpreters *all, struct interpreters_totals *ret);
