/* A worker: what it does for the launcher. */
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "confine/idrange.h"
#include "engine/native/internal.h"
#include "engine/native/keep/worker.h"
#include "image/store.h"

static void start(struct keep *k, struct keep_order *o, int sock) {
    struct keep_report report = {.result = 0};
    struct native_kept box = {.pidfd = -1, .waiting = -1};
    o->r.spec.mounts = o->r.mounts;
    report.result =
        keep_start(k, o->is_new ? NULL : &o->record, &o->r, &report.record, &box, &report.err);
    if (report.result < 0) {
        (void)fd_send(sock, &report, sizeof report, NULL, 0); /* it hung up: seen next */
        return;
    }
    report.has_group = box.group.host != NULL;
    if (report.has_group)
        cgroup_close_door(&box.group);
    int fds[] = {box.pidfd, box.waiting};
    /* Without the launcher the sandbox ends, because nobody holds its socket any more. */
    (void)fd_send(sock, &report, sizeof report, fds, ARRAY_LEN(fds));
    fd_close(&box.pidfd);
    fd_close(&box.waiting);
}

void keep_clean_up(const struct keep *k, const struct keep_record *r) {
    struct keep_record stopped = *r;
    keep_clean_up_host(k, r);
    stopped.pid = 0;
    _cleanup_(closep) int folder = keep_open_folder(k, r->id);
    if (folder >= 0)
        (void)keep_record_write(folder, &stopped, NULL); /* the next launcher sees that it ended */
}

/* All of its processes are gone: the kernel ends the first one last. */
void keep_clean_up_host(const struct keep *k, const struct keep_record *r) {
    if (r->base != 0 && r->pid != 0)
        idrange_unmark(r->base, r->pid);
    (void)cgroup_remove(&k->n->cgroups, r->id, clock_ms() + KEEP_REMOVE_MS, NULL);
}

static int remove_files(const struct keep *k, const struct keep_order *o, struct cay_error *err) {
    keep_clean_up_host(k, &o->record);
    (void)image_store_unpin(k->n->state_path, o->record.id, NULL); /* one too many costs room */
    int r = path_remove_tree(k->folder, o->old);
    return r < 0 ? error_sys(err, -r, "removing the files of sandbox %s", o->record.id) : 0;
}

_Noreturn void keep_worker_run(struct keep *k, int sock) {
    static struct keep_order order;
    k->n->for_parent = true;
    for (;;) {
        size_t count = 0;
        ssize_t n = fd_receive(sock, &order, sizeof order, NULL, 0, &count);
        if (n < (ssize_t)offsetof(struct keep_order, r))
            _exit(0);
        struct keep_report report = {.result = 0};
        switch (order.work) {
        case KEEP_WORK_START:
            start(k, &order, sock);
            continue;
        case KEEP_WORK_CLEAN_UP:
            keep_clean_up(k, &order.record);
            break;
        case KEEP_WORK_REMOVE:
            report.result = remove_files(k, &order, &report.err);
            break;
        }
        (void)fd_send(sock, &report, sizeof report, NULL, 0); /* it hung up: seen next */
    }
}
