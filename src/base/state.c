#include "base/state.h"

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

int state_dir_make(const char *given, char *out, size_t size, struct cay_error *err) {
    int r = given != NULL ? path_normalize("--state-dir", given, out, size, err)
                          : default_dir(out, size, err);
    if (r < 0)
        return r;
    r = path_make_dirs_trusted(out, 0700, err);
    return r < 0 ? error_remedy(err, "name a folder that you may write to with --state-dir") : 0;
}
