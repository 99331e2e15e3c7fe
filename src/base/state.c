#include "base/state.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/path.h"
#include "base/str.h"

static int default_dir(char *out, size_t size, struct cay_error *err) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int r;
    if (geteuid() == 0)
        r = str_copy(out, size, "/var/lib/cay");
    else if (state != NULL && state[0] == '/')
        r = path_join(out, size, state, "cay");
    else if (home != NULL && home[0] == '/')
        r = path_join(out, size, home, ".local/state/cay");
    else {
        error_set(err, CAY_INVALID_ARGUMENT,
                  "no state folder: neither HOME nor XDG_STATE_HOME is set");
        return error_remedy(err, "name one with --state-dir");
    }
    return r < 0 ? error_set(err, CAY_INVALID_ARGUMENT, "the state folder's path is too long") : 0;
}

/* The front of root's daemon has another id and must pass the folders above. */
static int make_parents(const char *path, struct cay_error *err) {
    char parent[PATH_MAX];
    const char *end = strrchr(path, '/');
    if (end == NULL || end == path)
        return 0;
    (void)snprintf(parent, sizeof parent, "%.*s", (int)(end - path), path);
    return path_make_dirs_trusted(parent, geteuid() == 0 ? 0755 : 0700, err);
}

int state_dir_make(const char *given, char *out, size_t size, struct cay_error *err) {
    const char *variable = getenv("CAY_STATE_DIR");
    int r;
    if (given != NULL)
        r = path_normalize("--state-dir", given, out, size, err);
    else if (variable != NULL && variable[0] != '\0')
        r = path_normalize("CAY_STATE_DIR", variable, out, size, err);
    else
        r = default_dir(out, size, err);
    if (r < 0)
        return r;
    r = make_parents(out, err);
    if (r == 0)
        r = path_make_dirs_trusted(out, 0700, err);
    return r < 0 ? error_remedy(err, "name a folder that you may write to with --state-dir") : 0;
}
