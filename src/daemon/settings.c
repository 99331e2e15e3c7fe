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
#include "engine/engines.h"
#include "engine/volume/volume.h"

void settings_apply_level(const char *given, const struct config *config) {
    enum log_level level;
    if (log_level_from_name(given != NULL ? given : config->server.log_level, &level))
        log_set_level(level);
}

void settings_apply_format(const char *given, const struct config *config) {
    log_set_json(str_equal(given != NULL ? given : config->server.log_format, "json"));
}

/* An ordinary user can show nothing that is not his anyway; root shows what the operator names. */
int settings_folders(const struct config *config, bool is_root, struct strv *ret) {
    const struct strv *folders = &config->manager.volume_folders;
    const struct strv *with_root = &config->manager.volume_root_folders;
    int r = 0;
    for (size_t i = 0; r == 0 && i < folders->len; i++)
        r = strv_push(ret, folders->v[i]);
    for (size_t i = 0; r == 0 && i < with_root->len; i++)
        r = strv_pushf(ret, VOLUME_ROOT_PREFIX "%s", with_root->v[i]);
    if (r == 0 && !is_root && ret->len == 0)
        return strv_push(ret, "/");
    /* programs that install packages see it, read-only */
    const char *links = config->python.find_links;
    return r == 0 && links[0] == '/' ? strv_push(ret, links) : r;
}

static int check_folders(const char *key, const struct strv *folders, struct cay_error *err) {
    for (size_t i = 0; i < folders->len; i++) {
        char normal[PATH_MAX];
        int r = path_normalize(key, folders->v[i], normal, sizeof normal, err);
        if (r < 0)
            return r;
        if (str_equal(normal, folders->v[i]))
            continue;
        error_set(err, CAY_INVALID_ARGUMENT, "%s: '%.200s' is not in its shortest form", key,
                  folders->v[i]);
        return error_remedy(err, "write '%.200s'", normal);
    }
    return 0;
}

int settings_check_folders(const struct config *config, struct cay_error *err) {
    int r = check_folders("[manager] volume_folders", &config->manager.volume_folders, err);
    return r < 0 ? r
                 : check_folders("[manager] volume_root_folders",
                                 &config->manager.volume_root_folders, err);
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
    for (enum engine_kind k = ENGINE_UNSAID + 1; k < ENGINE_KINDS; k++)
        s->holds[k] = holds_sandbox(s->state_dir, engine_type(k)->folder);
}
