/* The limits of keys and organisations, on command lines and in requests; and what is used of them.
 */
#pragma once

#include <stdint.h>

#include "base/json/jsonw.h"
#include "cli/cli.h"

struct limit_options {
    int64_t max_sandboxes, max_volumes, pids, max_commands, max_python_runs, max_pulls, max_builds;
    int64_t max_connections, max_proxy_connections, max_event_viewers, max_waiting;
    uint64_t memory, disk;
    double cpus;
};

/* Rows for a type with a member `limits`. */
#define LIMIT_OPTIONS(type)                                                                        \
    {.name = "max-sandboxes",                                                                      \
     OPT_TO_INTEGER(type, limits.max_sandboxes),                                                   \
     .arg = "N",                                                                                   \
     .min = 1,                                                                                     \
     .max = 1000000,                                                                               \
     .help = "limit of the number of its sandboxes"},                                              \
        {.name = "max-volumes",                                                                    \
         OPT_TO_INTEGER(type, limits.max_volumes),                                                 \
         .arg = "N",                                                                               \
         .min = 1,                                                                                 \
         .max = 1000000,                                                                           \
         .help = "the same of its named volumes"},                                                 \
        {.letter = 'm',                                                                            \
         .name = "memory",                                                                         \
         OPT_TO_SIZE(type, limits.memory),                                                         \
         .arg = "SIZE",                                                                            \
         .help = "limit of the memory of all its sandboxes together"},                             \
        {.name = "cpus",                                                                           \
         OPT_TO_NUMBER(type, limits.cpus),                                                         \
         .arg = "N",                                                                               \
         .min = 0.01,                                                                              \
         .max = 1000000,                                                                           \
         .help = "the same of processors"},                                                        \
        {.name = "disk",                                                                           \
         OPT_TO_SIZE(type, limits.disk),                                                           \
         .arg = "SIZE",                                                                            \
         .help = "the same of disk"},                                                              \
        {.name = "pids",                                                                           \
         OPT_TO_INTEGER(type, limits.pids),                                                        \
         .arg = "N",                                                                               \
         .min = 1,                                                                                 \
         .max = 100000000,                                                                         \
         .help = "the same of processes and threads"},                                             \
        {.name = "max-waiting",                                                                    \
         OPT_TO_INTEGER(type, limits.max_waiting),                                                 \
         .arg = "N",                                                                               \
         .min = 1,                                                                                 \
         .max = 1000000,                                                                           \
         .help = "limit of creations and starts that wait for their turn"},                        \
        {.name = "max-commands",                                                                   \
         OPT_TO_INTEGER(type, limits.max_commands),                                                \
         .arg = "N",                                                                               \
         .min = 1,                                                                                 \
         .max = 1000000,                                                                           \
         .help = "limit of concurrent commands in its sandboxes"},                                 \
        {.name = "max-python-runs",                                                                \
         OPT_TO_INTEGER(type, limits.max_python_runs),                                             \
         .arg = "N",                                                                               \
         .min = 1,                                                                                 \
         .max = 1000000,                                                                           \
         .help = "limit of concurrent Python programs (POST /api/cay/python)"},                    \
        {.name = "max-pulls",                                                                      \
         OPT_TO_INTEGER(type, limits.max_pulls),                                                   \
         .arg = "N",                                                                               \
         .min = 1,                                                                                 \
         .max = 1000000,                                                                           \
         .help = "limit of images that are pulled at the same time"},                              \
        {.name = "max-builds",                                                                     \
         OPT_TO_INTEGER(type, limits.max_builds),                                                  \
         .arg = "N",                                                                               \
         .min = 1,                                                                                 \
         .max = 1000000,                                                                           \
         .help = "limit of builds that wait or run"},                                              \
        {.name = "max-connections",                                                                \
         OPT_TO_INTEGER(type, limits.max_connections),                                             \
         .arg = "N",                                                                               \
         .min = 1,                                                                                 \
         .max = 1000000,                                                                           \
         .help = "limit of connections to the daemon"},                                            \
        {.name = "max-proxy-connections",                                                          \
         OPT_TO_INTEGER(type, limits.max_proxy_connections),                                       \
         .arg = "N",                                                                               \
         .min = 1,                                                                                 \
         .max = 1000000,                                                                           \
         .help = "limit of connections of its sandboxes through the proxy"},                       \
    {                                                                                              \
        .name = "max-event-viewers", OPT_TO_INTEGER(type, limits.max_event_viewers), .arg = "N",   \
        .min = 1, .max = 1000000, .help = "limit of viewers of events"                             \
    }

/* Adds those that were given to an object. */
void limits_put(struct jsonw *w, const struct limit_options *o);

/* Prints what GET /api/cay/usage answers to this query ("?key="), of who; NULL: without both. */
int limits_print_usage(const struct verb_common *common, const char *query, const char *who);
