/* The launcher under test. */
#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "bench.h"

enum { PATH_SIZE = 256 };

/* Of the host: no volumes here. */
static const char *const nothing[] = {NULL};

int bench_launcher(const struct bench_options *o, unsigned ready, struct launcher_client *ret,
                   struct cay_error *err) {
    char program[PATH_SIZE], state[PATH_SIZE];
    if (str_format(program, sizeof program, "%s/cay-launcher", o->programs) < 0 ||
        str_format(state, sizeof state, "%s/state", o->scratch) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the folder names are too long");
    int r = path_make_dirs_trusted(state, 0700, err);
    return r < 0 ? r : launcher_client_start(program, state, ready, nothing, ret, err);
}
