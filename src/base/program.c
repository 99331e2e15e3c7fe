#include "base/program.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"

/* Relative to the running program. */
static const char *const places[] = {"", "../libexec/cay/"};

/* The folder of this program. */
static int own_folder(char *out, size_t size, struct cay_error *err) {
    ssize_t len = readlink("/proc/self/exe", out, size - 1);
    if (len <= 0) {
        (void)error_errno(err, "reading /proc/self/exe");
        return error_remedy(err, "mount /proc");
    }
    out[len] = '\0';
    *strrchr(out, '/') = '\0'; /* it is absolute */
    return 0;
}

int program_find(const char *name, char *out, size_t size, struct cay_error *err) {
    char folder[PATH_MAX];
    int r = own_folder(folder, sizeof folder, err);
    if (r < 0)
        return error_prefix(err, "looking for %s", name);
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        if (str_format(out, size, "%s/%s%s", folder, places[i], name) == 0 &&
            access(out, X_OK) == 0)
            return 0;
    }
    error_set(err, CAY_UNSUPPORTED, "%s is neither in %s nor in ../libexec/cay", name, folder);
    return error_remedy(err, "install all of cay, not its first program alone");
}
