#include "client/copy_path.h"

#include <string.h>

#include "base/error.h"
#include "base/str.h"

static int too_long(const char *path, struct cay_error *err) {
    error_set(err, CAY_INVALID_ARGUMENT, "'%.60s…' is longer than a path may be", path);
    return error_remedy(err, "name it from a folder nearer to it");
}

int copy_path_parse(const char *path, struct copy_path *ret, struct cay_error *err) {
    *ret = (struct copy_path){.folder = "."};
    char whole[PATH_MAX];
    if (str_copy(whole, sizeof whole, path[0] != '\0' ? path : ".") < 0)
        return too_long(path, err);
    size_t len = strlen(whole);
    while (len > 1 && whole[len - 1] == '/') {
        whole[--len] = '\0';
        ret->is_folder = true;
    }
    char *slash = strrchr(whole, '/');
    const char *name = slash != NULL ? slash + 1 : whole;
    ret->content = name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
    ret->is_folder = ret->is_folder || ret->content;
    if (ret->content) /* nothing to split: it stands for itself */
        return str_copy(ret->folder, sizeof ret->folder, whole) < 0 ? too_long(path, err) : 0;
    if (str_copy(ret->name, sizeof ret->name, name) < 0)
        return too_long(path, err);
    if (slash != NULL) {
        size_t end = slash == whole ? 1 : (size_t)(slash - whole);
        memcpy(ret->folder, whole, end);
        ret->folder[end] = '\0';
    }
    return 0;
}
