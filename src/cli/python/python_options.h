/* The options of `cay python` and `cay run-code`. */
#pragma once

#include "cmd/verb.h"

struct python_options {
    struct verb_common common;
    const char *code, *in, *image, *find_links, *network, *workdir, *user, *figures;
    uint64_t memory, disk, output_max, capture;
    double cpus;
    int64_t pids, timeout_ms, idle_output_ms;
    struct strv env, volumes, packages;
    int tier, pull; /* indices into fresh_tiers and fresh_pulls */
    bool cold, svg, no_daemon;
    int type;     /* index into python_types, an enum cay_python_type */
    int language; /* index into language_names */
    int64_t compile_ms;
};

/* Those that only `cay run-code` has come first. */
enum { PYTHON_OPTIONS_OF_CODE = 2 };
extern const struct opt python_options[];
