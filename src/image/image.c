#include "image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/passwd.h"
#include "base/path.h"
#include "base/str.h"
#include "image/host.h"
#include "image/store_files.h"

enum {
    DATABASE_MAX = 1024 * 1024,
    NAME_SIZE = 256,
    PASSWD_NEEDED = 4, /* of the fields of a line: up to the group */
    GROUP_NEEDED = 3,  /* up to the id */
};

/* ---- opening ---- */

void image_close(struct image *image) {
    size_t count = image->record != NULL && image->locks != NULL ? image->record->layer_count : 0;
    for (size_t i = 0; i < count; i++)
        fd_close(&image->locks[i]);
    free(image->locks);
    record_free(image->record);
    fd_close(&image->layers);
    *image = IMAGE_NONE;
}

static int not_whole(const char *id, const char *chain, struct cay_error *err) {
    int r = error_set(err, CAY_NOT_FOUND, "image %.12s: its layer %.12s is not in the store", id,
                      chain);
    (void)error_remedy(err, "pull, load or build the image again");
    return r;
}

static int lock_layers(struct image *image, struct cay_error *err) {
    const struct image_record *record = image->record;
    image->locks = malloc((record->layer_count + 1) * sizeof *image->locks);
    if (image->locks == NULL)
        return error_sys(err, ENOMEM, "opening image %.12s", record->id);
    for (size_t i = 0; i < record->layer_count; i++)
        image->locks[i] = -1;
    for (size_t i = 0; i < record->layer_count; i++) {
        const char *chain = record->layers[i].chain;
        _cleanup_(closep) int fs = store_open_layer_at(image->layers, chain, &image->locks[i]);
        if (fs == -ENOENT || fs == -ENOTDIR)
            return not_whole(record->id, chain, err);
        if (fs < 0)
            return store_fail(err, -fs, "opening the layer", chain);
    }
    return 0;
}

int image_open_from(const struct image_store *store, const char *id, struct image *ret,
                    struct cay_error *err) {
    struct image image = IMAGE_NONE;
    int r = image_store_read_record(store, id, &image.record, err);
    if (r < 0)
        return r;
    image.layers = path_open_no_symlinks(store->dir, "layers", O_PATH | O_DIRECTORY, 0);
    if (image.layers < 0)
        r = store_fail(err, -image.layers, "opening the folder", "layers");
    else
        r = lock_layers(&image, err);
    if (r < 0)
        image_close(&image);
    else
        *ret = image;
    return r;
}

int image_open(const char *state_dir, const char *id, struct image *ret, struct cay_error *err) {
    _cleanup_(closep) int dir = store_open_folder(state_dir);
    if (dir == -ENOENT)
        return error_set(err, CAY_NOT_FOUND, "there are no images in the state folder '%s' yet",
                         state_dir);
    if (dir < 0)
        return store_fail(err, -dir, "opening it in the state folder", state_dir);
    /* the locks of the layers are enough: a start does not wait for a prune */
    struct image_store store = {.dir = dir, .lock = -1};
    return image_open_from(&store, id, ret, err);
}

/* ---- users ---- */

/* Opens `name` of the folder etc of one layer. -ENOENT: it is not there and may be below. Any other
 * -errno: it is hidden by a whiteout or a link, or is no file. */
static int open_in_layer(const struct image *image, const char *chain, const char *name) {
    char path[HEX_SIZE + 16];
    if (str_format(path, sizeof path, "%s/fs/etc", chain) < 0)
        return -ENAMETOOLONG;
    _cleanup_(closep) int etc = path_open_no_symlinks(image->layers, path, O_PATH | O_DIRECTORY, 0);
    if (etc < 0)
        return etc;
    return store_open_file(etc, name, O_RDONLY);
}

/* The file as the overlay of the layers shows it; an fd or -errno. */
static int open_database(const struct image *image, const char *name) {
    for (size_t i = image->record->layer_count; i > 0; i--) {
        int fd = open_in_layer(image, image->record->layers[i - 1].chain, name);
        if (fd != -ENOENT)
            return fd;
    }
    return -ENOENT;
}

static bool read_database(const struct image *image, const char *name, struct buf *b) {
    _cleanup_(closep) int fd = open_database(image, name);
    return fd >= 0 && fd_read_to_end(fd, b) == 0 && b->len > 0;
}

/* A user by name or number; a number needs no entry, and its group is root's then. */
static bool find_user(const struct image *image, const char *text, unsigned *uid, unsigned *gid) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(DATABASE_MAX);
    char *fields[PASSWD_FIELDS];
    bool is_number = passwd_id(text, uid);
    char *at = read_database(image, "passwd", &b) ? b.data : NULL;
    while (at != NULL && passwd_next(&at, fields, PASSWD_NEEDED)) {
        unsigned id, group;
        if (!passwd_id(fields[2], &id) || !passwd_id(fields[3], &group))
            continue;
        if (is_number ? id != *uid : strcmp(fields[0], text) != 0)
            continue;
        *uid = id;
        *gid = group;
        return true;
    }
    *gid = 0;
    return is_number;
}

static bool find_group(const struct image *image, const char *text, unsigned *gid) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(DATABASE_MAX);
    char *fields[PASSWD_FIELDS];
    if (passwd_id(text, gid))
        return true;
    char *at = read_database(image, "group", &b) ? b.data : NULL;
    while (at != NULL && passwd_next(&at, fields, GROUP_NEEDED))
        if (strcmp(fields[0], text) == 0 && passwd_id(fields[2], gid))
            return true;
    return false;
}

bool image_user(const struct image *image, const char *text, unsigned *uid, unsigned *gid) {
    char name[NAME_SIZE];
    unsigned user, group;
    size_t len = strcspn(text, ":");
    if (len == 0 || len >= sizeof name)
        return false;
    memcpy(name, text, len);
    name[len] = '\0';
    if (!find_user(image, name, &user, &group))
        return false;
    if (text[len] == ':' && !find_group(image, text + len + 1, &group))
        return false;
    *uid = user;
    *gid = group;
    return true;
}

bool image_run_ids(const struct image *image, const char *user, uid_t *uid, gid_t *gid) {
    unsigned u, g;
    bool known = image != NULL ? image_user(image, user, &u, &g) : host_image_user(user, &u, &g);
    if (!known || u >= IMAGE_IDS_COUNT || g >= IMAGE_IDS_COUNT)
        return false;
    *uid = u;
    *gid = g;
    return true;
}
