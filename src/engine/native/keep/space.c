/* Keeping the disks of running sandboxes, and their named volumes, from taking more than the host
 * has: a job, since it looks at every disk, and may wait for data to be written. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "engine/disk/disk.h"
#include "engine/disk/share.h"
#include "engine/native/internal.h"
#include "engine/native/keep/internal.h"
#include "engine/volume/named.h"

/* More than all sandboxes together can write from one round to the next, which come sooner the less
 * is left. Above it nothing is limited. */
static const uint64_t plenty = UINT64_C(1) << 30;

struct round {
    const struct keep *k;
    struct engine_space_marks marks;
    struct engine_space space;
    int volumes; /* the folder of their disks */
    struct disk_share *all;
    size_t count;
};

static void report(const struct keep *k, const char *id, enum engine_disk_news news,
                   uint64_t number) {
    struct launcher_answer a = {.event = LAUNCHER_DISK};
    a.disk = (struct engine_disk){.news = news, .number = number};
    memcpy(a.disk.id, id, ID_SIZE);
    keep_answer(k, &a);
}

static int look(struct round *r) {
    struct statvfs fs;
    if (fstatvfs(r->k->folder, &fs) < 0)
        return -errno;
    r->space.free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    int code = disk_share_list(r->k->folder, &r->all, &r->count);
    if (code == 0)
        code = disk_share_list(r->volumes, &r->all, &r->count);
    r->space.disks = (uint32_t)r->count;
    for (size_t i = 0; code == 0 && i < r->count; i++)
        if (r->all[i].errors > 0)
            report(r->k, r->all[i].id, ENGINE_DISK_DAMAGED, r->all[i].errors);
    return code;
}

static uint64_t left_above(const struct round *r, uint64_t mark) {
    uint64_t taken = r->space.promised_bytes + mark;
    return r->space.free_bytes > taken ? r->space.free_bytes - taken : 0;
}

static void limit(struct round *r) {
    for (size_t i = 0; i < r->count; i++)
        if (disk_share_measure(&r->all[i]))
            r->space.promised_bytes += r->all[i].promised_bytes;
    disk_share_divide(r->all, r->count, left_above(r, r->marks.floor_bytes) / 2);
    for (size_t i = 0; i < r->count; i++) {
        bool limited = false;
        (void)disk_share_apply(&r->all[i], &limited); /* one that ends just now */
        r->space.limited += limited;
    }
}

/* What they have written gets its place while there is some: others write too, and are bound by
 * nothing. Those who write are reported first, so that they are held. */
static void press(struct round *r) {
    bool is_held = left_above(r, r->marks.hold_bytes) == 0;
    for (size_t i = 0; is_held && i < r->count; i++)
        if (disk_share_is_writing(&r->all[i]))
            report(r->k, r->all[i].id, ENGINE_DISK_WRITES, r->all[i].promised_bytes);
    for (size_t i = 0; i < r->count; i++)
        if (disk_share_is_writing(&r->all[i]))
            (void)disk_share_flush(&r->all[i]); /* its errors are counted by its file system */
}

static int divide(struct round *r) {
    int code = look(r);
    if (code < 0)
        return code;
    if (r->marks.floor_bytes > 0 && left_above(r, r->marks.floor_bytes) < plenty) {
        limit(r);
        press(r);
        return 0;
    }
    for (size_t i = 0; i < r->count; i++)
        disk_share_lift(&r->all[i]);
    return 0;
}

static void run(const struct keep *k, const struct launcher_request *request) {
    struct round r = {.k = k,
                      .marks = {.floor_bytes = request->spec.disk_bytes,
                                .hold_bytes = request->spec.memory_bytes}};
    struct launcher_answer a = {.event = LAUNCHER_HAS_SPACE, .tag = request->tag};
    _cleanup_(closep) int volumes = volume_open_disks(&k->n->volumes, &a.err);
    r.volumes = volumes;
    int code = volumes < 0 ? -a.err.sys : divide(&r);
    if (code < 0) {
        a.event = LAUNCHER_FAILED;
        error_sys(&a.err, -code, "measuring the disks of sandboxes");
    } else {
        a.space = r.space;
    }
    keep_answer(k, &a);
    free(r.all);
}

void keep_divide_space(struct keep *k, const struct launcher_request *r) {
    pid_t pid = keep_fork_job(k, &r->tag, 1);
    if (pid < 0)
        keep_fail_tags(k, &r->tag, 1);
    if (pid != 0)
        return;
    run(k, r);
    _exit(0);
}

/* ---- repairing ---- */

static void repair(const struct keep *k, const struct launcher_request *r) {
    struct launcher_answer a = {.event = LAUNCHER_DONE, .tag = r->tag};
    bool is_thorough = false;
    _cleanup_(closep) int folder = keep_open_folder(k, r->spec.id);
    int code = folder < 0 ? error_sys(&a.err, -folder, "opening the folder of a sandbox")
                          : disk_repair(folder, &is_thorough, &a.err);
    if (code < 0)
        a.event = LAUNCHER_FAILED;
    else
        report(k, r->spec.id, ENGINE_DISK_REPAIRED, is_thorough);
    keep_answer(k, &a);
}

void keep_repair(struct keep *k, const struct launcher_request *r) {
    pid_t pid = keep_fork_job(k, &r->tag, 1);
    if (pid < 0)
        keep_fail_tags(k, &r->tag, 1);
    if (pid != 0)
        return;
    repair(k, r);
    _exit(0);
}
