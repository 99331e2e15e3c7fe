#include "daemon/settings.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/id.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"

void settings_apply_level(const char *given, const struct config *config) {
    enum log_level level;
    if (log_level_from_name(given != NULL ? given : config->server.log_level, &level))
        log_set_level(level);
}

void settings_apply_format(const char *given, const struct config *config) {
    log_set_json(str_equal(given != NULL ? given : config->server.log_format, "json"));
}

/* An ordinary user can show nothing that is not his anyway. */
const char *const *settings_folders(const struct config *config, bool is_root) {
    static const char *const usual[] = {"/home", "/srv", "/mnt",     "/media",
                                        "/opt",  "/tmp", "/var/tmp", NULL};
    static const char *const everything[] = {"/", NULL};
    if (config->manager.volume_folders.len > 0)
        return (const char *const *)config->manager.volume_folders.v;
    return is_root ? usual : everything;
}

int settings_check_folders(const struct config *config, bool is_root, struct cay_error *err) {
    for (const char *const *f = settings_folders(config, is_root); *f != NULL; f++) {
        char normal[PATH_MAX];
        int r = path_normalize("[manager] volume_folders", *f, normal, sizeof normal, err);
        if (r == 0 && !str_equal(normal, *f)) {
            error_set(err, CAY_INVALID_ARGUMENT,
                      "[manager] volume_folders: '%.200s' is not in its "
                      "shortest form",
                      *f);
            r = error_remedy(err, "write '%.200s'", normal);
        }
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- the engines ---- */

/* True if the folder, of the state folder, holds a sandbox. */
static bool holds_sandbox(const char *state_dir, const char *name) {
    char path[PATH_MAX];
    const struct dirent *entry;
    bool found = false;
    DIR *dir = path_join(path, sizeof path, state_dir, name) < 0 ? NULL : opendir(path);
    if (dir == NULL)
        return false;
    while (!found && (entry = readdir(dir)) != NULL)
        found = id_is_valid(entry->d_name);
    (void)closedir(dir);
    return found;
}

void settings_choose_engine(struct settings *s) {
    s->engine = engine_kind_from_name(s->config->sandbox.engine);
    s->holds[ENGINE_NATIVE] = holds_sandbox(s->state_dir, "sandboxes");
    s->holds[ENGINE_DOCKER] = holds_sandbox(s->state_dir, "docker");
}
