#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"
#include "bench.h"

static int bad_line(struct cay_error *err, const char *what) {
    return error_set(err, CAY_INVALID_ARGUMENT, "the peers file has a line with %s", what);
}

/* The next field of a line, cut off it; NULL at its end. */
static char *next_field(char **line) {
    return strsep(line, "\t");
}

static int parse_command(char *line, struct command *ret, struct cay_error *err) {
    size_t count = 0;
    for (char *arg; (arg = next_field(&line)) != NULL; count++) {
        if (count == COMMAND_ARGS_MAX)
            return bad_line(err, "too many arguments");
        ret->argv[count] = strdup(arg);
        if (ret->argv[count] == NULL)
            return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    return count == 0 ? bad_line(err, "no program") : 0;
}

static int parse_peer(char *line, struct peer *p, struct cay_error *err) {
    char *name = next_field(&line), *weight = next_field(&line);
    if (weight == NULL || str_copy(p->name, sizeof p->name, name) < 0 ||
        str_to_double(weight, &p->weight) < 0)
        return bad_line(err, "no name and weight");
    char *rated = next_field(&line);
    if (rated == NULL)
        return bad_line(err, "too few fields");
    if (p->weight <= 0) {
        (void)snprintf(p->why, sizeof p->why, "%s", rated);
        return 0;
    }
    char *ns = next_field(&line);
    if (ns == NULL)
        return bad_line(err, "too few fields");
    p->rated = str_equal(rated, "1");
    p->command.mount_ns = str_equal(ns, "-") ? NULL : strdup(ns);
    return parse_command(line, &p->command, err);
}

int bench_read_peers(struct bench *b, struct cay_error *err) {
    if (b->options.peers == NULL)
        return 0;
    _cleanup_(fclosep) FILE *file = fopen(b->options.peers, "re");
    if (file == NULL)
        return error_errno(err, "opening '%s'", b->options.peers);
    _cleanup_(freep) char *line = NULL;
    size_t size = 0;
    ssize_t n;
    while ((n = getline(&line, &size, file)) > 0) {
        if (line[n - 1] == '\n')
            line[n - 1] = '\0';
        if (b->peer_count == PEERS_MAX)
            return error_set(err, CAY_INVALID_ARGUMENT, "more than %d peers", PEERS_MAX);
        int r = parse_peer(line, &b->peers[b->peer_count++], err);
        if (r < 0)
            return r;
    }
    return 0;
}

int peer_command(const struct peer *p, unsigned worker, struct command *ret,
                 struct cay_error *err) {
    *ret = p->command;
    for (size_t i = 0; ret->argv[i] != NULL; i++) {
        const char *arg = ret->argv[i], *at = strstr(arg, "%w");
        if (at == NULL)
            continue;
        char *made;
        if (asprintf(&made, "%.*s%u%s", (int)(at - arg), arg, worker, at + 2) < 0)
            return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
        ret->argv[i] = made;
    }
    return 0;
}
