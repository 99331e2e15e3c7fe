/* Starting a sandbox that stays. The order matters to a launcher that is killed on the way: the
 * folder first, so that everything else has a name to be found by; the record with the process
 * before the sandbox may live. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/disk/disk.h"
#include "engine/native/internal.h"
#include "engine/native/keep/internal.h"
#include "image/image.h"
#include "image/store.h"

enum { BUSY_MS = 500 };

/* What has been made so far, and is unmade if the rest fails. */
struct starting {
    struct keep *k;
    struct sandbox_spec spec;
    struct keep_record record;
    uint64_t disk_bytes; /* what was asked for */
    int folder;
    bool new_folder;
    struct image image;
    struct native_kept box;
};

static int check_image(const struct keep_record *had, const char *image, struct cay_error *err) {
    if (had == NULL || strcmp(had->image, image) == 0)
        return 0;
    error_set(err, CAY_CONFLICT, "sandbox %s was made from another image", had->id);
    return error_remedy(err, "start it with the image it was made from");
}

/* The writable layer lies on the disk; in memory there is only what must not be kept. */
static int finish_spec(struct starting *st, const struct launcher_request *r,
                       struct cay_error *err) {
    st->spec = r->spec;
    st->disk_bytes = r->spec.disk_bytes;
    int code = st->disk_bytes == 0 ? 0 : spec_check_kept_disk(st->disk_bytes, err);
    if (code < 0)
        return code;
    st->spec.disk_bytes = st->spec.inodes = 0;
    if (st->spec.hostname[0] == '\0')
        memcpy(st->spec.hostname, st->spec.id, ID_SIZE);
    code = spec_finish(&st->spec, st->k->host, err);
    st->record.memory_bytes = st->spec.memory_bytes;
    st->record.cpu_quota_us = st->spec.cpu_quota_us;
    st->record.pids = st->spec.pids;
    memcpy(st->record.id, r->spec.id, ID_SIZE);
    memcpy(st->record.image, r->image, HEX_SIZE);
    return code;
}

/* A sandbox that was started before has a disk: what is lost is not replaced by an empty one. */
static int refuse_lost(const char *id, struct cay_error *err) {
    error_set(err, CAY_INTERNAL, "the disk of sandbox %s is missing: its files are lost", id);
    return error_remedy(err, "put the file 'disk' back into its folder in the state folder, or "
                             "remove the sandbox");
}

/* One that has a disk keeps it; what was made without a limit stays so. */
static int prepare_disk(struct starting *st, const struct keep_record *old, struct cay_error *err) {
    uid_t owner = st->k->n->own_userns ? 0 : IMAGE_IDS_FIRST;
    uint64_t had = old != NULL ? old->disk_bytes : 0;
    enum disk_kind kind = disk_look(st->folder);
    int r = 0;
    if (kind == DISK_NONE && old != NULL && old->memory_bytes != 0)
        r = refuse_lost(old->id, err);
    else if (kind == DISK_NONE)
        r = disk_make(st->folder, st->disk_bytes, owner, err);
    else if (kind == DISK_BOUNDED)
        r = disk_check(st->folder, err);
    if (r == 0 && kind == DISK_BOUNDED && st->disk_bytes > had)
        r = disk_grow(st->folder, st->disk_bytes, err);
    st->record.disk_bytes = kind == DISK_PLAIN ? 0 : MAX(st->disk_bytes, had);
    return r;
}

/* The image is held before it is pinned, so that no prune comes between. */
static int prepare(struct starting *st, const struct keep_record *had, struct cay_error *err) {
    const char *state = st->k->n->state_path, *image = st->record.image;
    int r = image[0] == '\0' ? 0 : image_open(state, image, &st->image, err);
    if (r < 0)
        return r;
    if (st->spec.run_user[0] != '\0') /* one that is unknown cay-init refuses */
        (void)image_run_ids(image[0] == '\0' ? NULL : &st->image, st->spec.run_user,
                            &st->spec.run_uid, &st->spec.run_gid);
    st->folder = keep_make_folder(st->k, st->record.id, &st->new_folder, err);
    if (st->folder < 0)
        return st->folder;
    r = prepare_disk(st, had, err);
    return r < 0 || image[0] == '\0' ? r : image_store_pin(state, st->record.id, image, err);
}

/* Some kernels refuse a writable layer for the moment that the last overlay on it takes to go. */
static int start_box(struct starting *st, struct cay_error *err) {
    struct native_root root = {.image = st->record.image[0] == '\0' ? NULL : &st->image,
                               .disk_is_mount = disk_look(st->folder) == DISK_BOUNDED};
    int64_t deadline = clock_deadline(BUSY_MS);
    for (;;) {
        _cleanup_(closep) int disk = disk_open(st->folder, err);
        if (disk < 0)
            return disk;
        root.disk = disk;
        int r = native_start_kept(st->k->n, &st->spec, &root, &st->box, err);
        if (r == 0 || err->sys != EBUSY || clock_expired(deadline))
            return r;
        (void)nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL);
    }
}

/* Until here the sandbox ends with us; afterwards the next launcher finds it. Once the id range is
 * marked, the lease is not needed any more: the mark holds as long as the process lives. */
static int write_down(struct starting *st, struct cay_error *err) {
    struct keep_record *r = &st->record;
    r->pid = st->box.pid;
    r->base = st->box.ids.lock >= 0 ? st->box.ids.base : 0;
    int code = process_start_time(r->pid, &r->start);
    if (code == 0)
        code = process_boot_id(r->boot);
    if (code < 0)
        return error_sys(err, -code, "looking at the sandbox's first process");
    code = r->base == 0 ? 0 : idrange_mark(&st->box.ids, r->pid, r->start, err);
    if (code == 0)
        idrange_release(&st->box.ids);
    return code < 0 ? code : keep_record_write(st->folder, r, err);
}

static void unmake(struct starting *st) {
    if (st->box.pid > 0)
        native_abandon(st->k->n, &st->box);
    st->record.pid = 0;
    if (st->new_folder)
        keep_unmake_folder(st->k, st->record.id);
    else if (st->folder >= 0)
        (void)keep_record_write(st->folder, &st->record, NULL); /* names a process that is gone */
}

int keep_start(struct keep *k, const struct keep_record *had, const struct launcher_request *r,
               struct keep_record *ret, struct native_kept *box, struct cay_error *err) {
    struct starting st = {.k = k, .folder = -1, .image = IMAGE_NONE, .box = {.pidfd = -1}};
    int code = check_image(had, r->image, err);
    if (code == 0)
        code = finish_spec(&st, r, err);
    if (code < 0)
        return code;
    code = prepare(&st, had, err);
    if (code == 0)
        code = start_box(&st, err);
    if (code == 0)
        code = write_down(&st, err);
    if (code < 0)
        unmake(&st);
    image_close(&st.image); /* its pin keeps it */
    fd_close(&st.folder);
    *ret = st.record;
    *box = st.box;
    return code;
}
