/* `cay-image snapshot`: for `cay snapshot create`, which has made sure that the sandbox stands
 * still. */
#include <fcntl.h>
#include <limits.h>

#include "base/error.h"
#include "base/id.h"
#include "base/state.h"
#include "base/str.h"
#include "engine/disk/disk.h"
#include "engine/native/keep/record.h"
#include "imager/transfer/snapshot.h"
#include "imager/verbs/verbs.h"

/* The files of the sandbox and the image that it was started from. */
static int open_sandbox(const struct verb_common *common, const char *id, int *ret_fs,
                        struct keep_record *record, struct cay_error *err) {
    char state[PATH_MAX], path[PATH_MAX];
    if (!id_is_valid(id))
        return error_set(err, CAY_INVALID_ARGUMENT, "'%.40s' is no id of a sandbox", id);
    int r = state_dir_make(common->state_dir, state, sizeof state, err);
    if (r < 0)
        return r;
    if (str_format(path, sizeof path, "%s/sandboxes/%s", state, id) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the state folder's path is too long");
    _cleanup_(closep) int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) {
        error_errno(err, "opening the files of sandbox %s", id);
        return error_remedy(err, "only sandboxes of the native engine can be kept as an image");
    }
    r = keep_record_read(folder, record, err);
    if (r < 0)
        return r;
    if (record->image[0] == '\0') {
        error_set(err, CAY_UNSUPPORTED,
                  "sandbox %s runs on the host image, which is no image that "
                  "could be kept",
                  id);
        return error_remedy(err, "create it from an image: cay create --image NAME");
    }
    _cleanup_(closep) int disk = disk_open(folder, err);
    if (disk < 0)
        return disk;
    *ret_fs = openat(disk, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *ret_fs < 0 ? error_errno(err, "opening the files of sandbox %s", id) : 0;
}

int verbs_snapshot(const struct verb_common *common, const char *sandbox,
                   const struct reference *name, bool is_new, char id[static HEX_SIZE],
                   struct cay_error *err) {
    struct keep_record record;
    struct world world = WORLD_NONE;
    _cleanup_(closep) int fs = -1;
    int r = open_sandbox(common, sandbox, &fs, &record, err);
    if (r == 0)
        r = verbs_enter(common, false, &world, err);
    if (r == 0 && is_new)
        r = verbs_check_new(&world.store, name, err);
    if (r == 0)
        r = image_snapshot(&world.store, fs, record.image, id, err);
    if (r == 0)
        r = image_store_set_name(&world.store, name, id, err);
    verbs_leave(&world);
    return r;
}

int do_snapshot(const void *values, int argc, char **argv) {
    (void)argc;
    struct cay_error err;
    struct reference name;
    char id[HEX_SIZE];
    int r = reference_parse(argv[1], &name, &err);
    if (r == 0)
        r = verbs_snapshot(values, argv[0], &name, false, id, &err);
    return r < 0 ? verb_fail(&err) : verbs_print_id(values, id, &name);
}
