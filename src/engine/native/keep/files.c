/* The folders of sandboxes that stay. Removing and measuring may take long and are done by
 * processes of their own, which end with the launcher. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "engine/disk/disk.h"
#include "engine/native/internal.h"
#include "engine/native/keep/internal.h"
#include "engine/native/keep/worker.h"
#include "image/store.h"

enum {
    MEASURE_MS = 2000, /* what is counted until then is the answer */
    MEASURE_DEPTH_MAX = 128,
    JOBS_MAX = 64, /* with which measuring begins no more */
};

/* ---- making ---- */

int keep_open_folder(const struct keep *k, const char *id) {
    int fd = openat(k->folder, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* The kernel looks into the folder as the sandbox's root, who is nobody to it; and nobody else
 * reaches it, since the one above is closed. */
int keep_make_folder(const struct keep *k, const char *id, bool *ret_new, struct cay_error *err) {
    *ret_new = mkdirat(k->folder, id, 0700) == 0;
    if (!*ret_new && errno != EEXIST)
        return error_storage(err, errno, "making the folder of sandbox %s", id);
    _cleanup_(closep) int folder = keep_open_folder(k, id);
    if (folder >= 0 && fchmod(folder, 0711) == 0)
        return TAKE_FD(folder);
    int sys = folder < 0 ? -folder : errno;
    if (*ret_new)
        keep_unmake_folder(k, id);
    return error_storage(err, sys, "making the folder of sandbox %s", id);
}

void keep_unmake_folder(const struct keep *k, const char *id) {
    (void)image_store_unpin(k->n->state_path, id, NULL); /* a pin too many only costs room */
    (void)path_remove_tree(k->folder, id);               /* then it is a sandbox that is stopped */
}

/* ---- jobs ---- */

pid_t keep_fork_job(struct keep *k, const uint64_t *tags, size_t count) {
    struct keep_job job = {.tags = calloc(count + 1, sizeof *tags), .tag_count = count};
    if (k->job_count == k->job_room) {
        size_t room = MAX(k->job_room * 2, (size_t)16);
        struct keep_job *more = reallocarray(k->jobs, room, sizeof *more);
        if (more != NULL) {
            k->jobs = more;
            k->job_room = room;
        }
    }
    if (job.tags == NULL || k->job_count == k->job_room) {
        free(job.tags);
        return -1;
    }
    if (count > 0)
        memcpy(job.tags, tags, count * sizeof *tags);
    pid_t launcher = getpid();
    job.pid = fork();
    if (job.pid == 0) {
        (void)prctl(PR_SET_NAME, "cay-job", 0, 0, 0);
        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != launcher)
            _exit(1);
        return 0;
    }
    if (job.pid > 0)
        k->jobs[k->job_count++] = job;
    else
        free(job.tags);
    return job.pid;
}

void keep_fail_tags(const struct keep *k, const uint64_t *tags, size_t count) {
    struct cay_error err;
    error_set(&err, CAY_RESOURCE_EXHAUSTED, "a process of the launcher did not end well");
    (void)error_remedy(&err, "the host may be short of memory: try again");
    for (size_t i = 0; i < count; i++)
        keep_answer_error(k, tags[i], &err);
}

bool keep_job_ended(struct keep *k, pid_t pid, int status) {
    for (size_t i = 0; i < k->job_count; i++) {
        struct keep_job job = k->jobs[i];
        if (job.pid != pid)
            continue;
        k->jobs[i] = k->jobs[--k->job_count];
        if (status != 0)
            keep_fail_tags(k, job.tags, job.tag_count);
        free(job.tags);
        return true;
    }
    return false;
}

/* ---- removing ---- */

static int rename_old(const struct keep *k, const char *id, char old[static KEEP_OLD_SIZE],
                      struct cay_error *err) {
    char random[ID_SIZE];
    int r = id_new(random, err);
    if (r < 0)
        return r;
    (void)snprintf(old, KEEP_OLD_SIZE, KEEP_OLD_PREFIX "%s-%s", id, random);
    if (renameat(k->folder, id, k->folder, old) < 0 && errno != ENOENT)
        return error_errno(err, "removing sandbox %s", id);
    return 0;
}

bool keep_remove(struct keep *k, struct kept *s, const uint64_t *tags, size_t count) {
    struct cay_error err;
    char old[KEEP_OLD_SIZE] = "";
    struct keep_record record = s->record;
    if (rename_old(k, record.id, old, &err) < 0) {
        for (size_t i = 0; i < count; i++)
            keep_answer_error(k, tags[i], &err);
        return false;
    }
    struct keep_deferred *deferred = TAKE_PTR(s->deferred);
    keep_drop(k, s);
    keep_begin_remove(k, &record, old, tags, count);
    keep_replay(k, deferred);
    return true;
}

static void sweep_one(const struct keep *k, const char *name) {
    char id[ID_SIZE] = "";
    if (strlen(name) < sizeof KEEP_OLD_PREFIX + ID_LEN)
        return;
    memcpy(id, name + sizeof KEEP_OLD_PREFIX - 1, ID_LEN);
    if (keep_find(k, id) == NULL) {
        (void)image_store_unpin(k->n->state_path, id, NULL); /* a pin too many only costs room */
        (void)cgroup_remove(&k->n->cgroups, id, clock_ms() + KEEP_REMOVE_MS, NULL);
    }
    (void)path_remove_tree(k->folder, name); /* the next launcher tries again */
}

/* Of a restore that was killed; one that goes on has it locked. */
static void sweep_new(const struct keep *k, const char *name) {
    _cleanup_(closep) int folder = keep_open_folder(k, name);
    if (folder >= 0 && flock(folder, LOCK_EX | LOCK_NB) == 0)
        (void)path_remove_tree(k->folder, name); /* the next launcher tries again */
}

void keep_sweep(struct keep *k) {
    if (keep_fork_job(k, NULL, 0) != 0)
        return;
    int fd = openat(k->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_(closedirp) DIR *d = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;
    while (d != NULL && (e = readdir(d)) != NULL) /* NOLINT(concurrency-mt-unsafe): own stream */
        if (str_starts(e->d_name, KEEP_OLD_PREFIX))
            sweep_one(k, e->d_name);
        else if (str_starts(e->d_name, KEEP_NEW_PREFIX))
            sweep_new(k, e->d_name);
    keep_sweep_volumes(k);
    _exit(0);
}

/* ---- measuring ---- */

struct measure {
    uint64_t bytes;
    int64_t deadline;
    unsigned depth;
};

static void measure_folder(struct measure *m, int fd);

/* A file that is linked n times counts n times one nth. */
static void measure_entry(struct measure *m, int folder, const char *name) {
    struct stat st;
    if (str_equal(name, ".") || str_equal(name, "..") ||
        fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    bool is_folder = S_ISDIR(st.st_mode);
    m->bytes += (uint64_t)st.st_blocks * 512 / (is_folder ? 1 : MAX(st.st_nlink, (nlink_t)1));
    if (!is_folder || m->depth >= MEASURE_DEPTH_MAX)
        return;
    m->depth++;
    measure_folder(m, openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    m->depth--;
}

/* The descriptor becomes its own. */
static void measure_folder(struct measure *m, int fd) {
    _cleanup_(closedirp) DIR *d = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;
    while (d != NULL && !clock_expired(m->deadline) &&
           (e = readdir(d)) != NULL) /* NOLINT(concurrency-mt-unsafe): own stream */
        measure_entry(m, dirfd(d), e->d_name);
}

static void measure_by_job(struct keep *k, const char *id, const struct launcher_answer *stats) {
    if (k->job_count >= JOBS_MAX) {
        struct cay_error err;
        error_set(&err, CAY_LIMIT_REACHED, "%d sandboxes are being measured already", JOBS_MAX);
        (void)error_remedy(&err, "ask again in a moment");
        keep_answer_error(k, stats->tag, &err);
        return;
    }
    pid_t pid = keep_fork_job(k, &stats->tag, 1);
    if (pid < 0)
        keep_fail_tags(k, &stats->tag, 1);
    if (pid != 0)
        return;
    struct launcher_answer a = *stats;
    struct measure m = {.deadline = clock_deadline(MEASURE_MS)};
    int folder = keep_open_folder(k, id);
    if (folder >= 0) {
        measure_entry(&m, folder, "fs");
        measure_entry(&m, folder, "local");
    }
    a.stats.disk_bytes = m.bytes;
    keep_answer(k, &a);
    _exit(0);
}

void keep_measure(struct keep *k, const struct kept *s, const struct launcher_answer *stats) {
    struct launcher_answer a = *stats;
    _cleanup_(closep) int folder = keep_open_folder(k, s->record.id);
    if (folder < 0 || !disk_used(folder, s->record.pid, &a.stats.disk_bytes))
        measure_by_job(k, s->record.id, stats);
    else
        keep_answer(k, &a);
}
