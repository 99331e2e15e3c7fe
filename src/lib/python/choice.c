#include "lib/python/choice.h"

#include <string.h>

#include "base/auto.h"
#include "base/str.h"

bool python_env_matters(const struct strv *env) {
    static const char *const read_at_start[] = {"PYTHON", "LD_",      "LC_",   "LANG",
                                                "GLIBC_", "MALLOC_",  "OMP_",  "OPENBLAS_",
                                                "MKL_",   "NUMEXPR_", "HOME=", "PATH="};
    for (size_t i = 0; i < env->len; i++)
        for (size_t k = 0; k < ARRAY_LEN(read_at_start); k++)
            if (str_starts(env->v[i], read_at_start[k]))
                return true;
    return false;
}

/* Where programs keep their own data, and interpreters nothing. */
static bool is_for_data(const char *target) {
    static const char *const folders[] = {"/workspace", "/mnt", "/data", "/srv", "/home", "/tmp"};
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        size_t len = strlen(folders[i]);
        if (strncmp(target, folders[i], len) == 0 &&
            (target[len] == '/' || target[len] == ':' || target[len] == '\0'))
            return strstr(target, "..") == NULL;
    }
    return false;
}

bool python_volumes_matter(const struct strv *volumes) {
    for (size_t i = 0; i < volumes->len; i++) {
        const char *colon = strchr(volumes->v[i], ':');
        if (colon == NULL || !is_for_data(colon + 1))
            return true;
    }
    return false;
}
