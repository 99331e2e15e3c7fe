#include "base/program.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"

/* Relative to the folder of a program of cay. */
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

static bool find_near(const char *folder, const char *name, char *out, size_t size) {
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (str_format(out, size, "%s/%s%s", folder, places[i], name) == 0 &&
            access(out, X_OK) == 0)
            return true;
    return false;
}

/* The folder of `cay` if it is in this entry of PATH, whatever link it is there. */
static bool cay_folder(const char *entry, size_t len, char folder[static PATH_MAX]) {
    char path[PATH_MAX];
    if (len == 0 || entry[0] != '/' ||
        str_format(path, sizeof path, "%.*s/cay", (int)MIN(len, (size_t)PATH_MAX), entry) < 0 ||
        access(path, X_OK) < 0 || realpath(path, folder) == NULL)
        return false;
    *strrchr(folder, '/') = '\0';
    return true;
}

static bool find_by_path(const char *name, char *out, size_t size) {
    char folder[PATH_MAX];
    const char *entry = getenv("PATH");
    while (entry != NULL) {
        size_t len = strcspn(entry, ":");
        if (cay_folder(entry, len, folder))
            return find_near(folder, name, out, size);
        entry = entry[len] == ':' ? entry + len + 1 : NULL;
    }
    return false;
}

int program_find(const char *name, char *out, size_t size, struct cay_error *err) {
    char folder[PATH_MAX];
    int r = own_folder(folder, sizeof folder, err);
    if (r < 0)
        return error_prefix(err, "looking for %s", name);
    if (find_near(folder, name, out, size) || find_by_path(name, out, size))
        return 0;
    error_set(err, CAY_UNSUPPORTED, "%s is neither in %s nor in ../libexec/cay", name, folder);
    return error_remedy(err, "install all of cay, with 'cay' in PATH");
}
