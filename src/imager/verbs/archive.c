/* `cay-image archive` and `restore`: for the daemon, which has made sure that the sandbox does not
 * run. What touches the files happens in the image store's world; naming the result, so that it is
 * there as a whole or not at all, is left to the process that started, with the caller's rights. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/path.h"
#include "base/state.h"
#include "base/str.h"
#include "engine/disk/disk.h"
#include "engine/native/keep/keep.h"
#include "engine/privileged.h"
#include "image/archives.h"
#include "image/store.h"
#include "imager/transfer/archive.h"
#include "imager/verbs/verbs.h"

enum { TELL_MS = 500 };

/* What one of the two verbs works with. */
struct job {
    const struct verb_common *common;
    const char *id;
    enum archive_kind kind;
    uint64_t max_bytes;
    pid_t starter;
    char state[PATH_MAX];
    int archives, sandboxes; /* folders */
    int folder, disk;        /* of the sandbox */
    int archive;
    bool was_there; /* there was nothing to restore */
    struct archive_note note;
    const char *doing; /* "archiving" */
    int64_t report_at;
};

static void job_close(struct job *j) {
    fd_close(&j->archive);
    fd_close(&j->disk);
    fd_close(&j->folder);
    fd_close(&j->sandboxes);
    fd_close(&j->archives);
}

/* ---- telling ---- */

/* The first line comes at once, so that who waits knows that something is done. */
static void report_progress(void *user, uint64_t bytes) {
    struct job *j = user;
    char line[96], text[32];
    if (j->common->quiet || clock_ms() < j->report_at)
        return;
    j->report_at = clock_ms() + TELL_MS;
    int n = snprintf(line, sizeof line, "%s: %s\n", j->doing, str_bytes(bytes, text));
    (void)fd_write_all(STDERR_FILENO, line, (size_t)n); /* whether or not somebody listens */
}

/* ---- folders ---- */

static int open_state(struct job *j, struct cay_error *err) {
    if (!id_is_valid(j->id))
        return error_set(err, CAY_INVALID_ARGUMENT, "'%.40s' is no id of a sandbox", j->id);
    int r = state_dir_make(j->common->state_dir, j->state, sizeof j->state, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int state = open(j->state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (state < 0)
        return error_errno(err, "opening the state folder");
    j->archives = archives_open(state);
    if (j->archives < 0)
        return error_sys(err, -j->archives, "opening the folder of archives");
    j->sandboxes = openat(state, "sandboxes", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return j->sandboxes < 0 ? error_errno(err, "opening the folder of sandboxes") : 0;
}

static int open_sandbox(struct job *j, struct cay_error *err) {
    j->folder = openat(j->sandboxes, j->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (j->folder < 0)
        return error_errno(err, "opening the files of sandbox %s", j->id);
    int r = keep_record_read(j->folder, &j->note.record, err);
    if (r < 0)
        return r;
    if (j->note.record.pid != 0 && j->kind != ARCHIVE_BACKUP) {
        error_set(err, CAY_CONFLICT, "sandbox %s runs", j->id);
        return error_remedy(err, "stop it first: cay stop %s", j->id);
    }
    j->disk = disk_open(j->folder, err);
    return MIN(j->disk, 0);
}

/* In a child: the world has no way back. The caller's process ends with whoever started it, and so
 * do we. */
static int work(struct job *j, int (*in_world)(struct job *j, struct cay_error *err)) {
    struct cay_error err;
    struct world world = WORLD_NONE;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != j->starter) /* it ended before that */
        return 128 + SIGKILL;
    int r = verbs_enter(j->common, false, &world, &err);
    if (r == 0)
        r = in_world(j, &err);
    verbs_leave(&world);
    return r < 0 ? verbs_answer(r, NULL, &err) : 0;
}

/* 0, or the exit code of a process that has answered, or negative. */
static int run_apart(struct job *j, int (*body)(void *user), struct cay_error *err) {
    apart_prepare();
    return apart_run(body, j, err);
}

/* ---- archive ---- */

static int write_in_world(struct job *j, struct cay_error *err) {
    return archive_write(j->disk, &j->note.record, j->archive, report_progress, j, err);
}

static int write_body(void *user) {
    return work(user, write_in_world);
}

static int check_size(const struct job *j, struct cay_error *err) {
    struct stat st;
    char text[32];
    if (fstat(j->archive, &st) < 0)
        return error_errno(err, "looking at the archive");
    if (j->max_bytes == 0 || (uint64_t)st.st_size <= j->max_bytes)
        return 0;
    return error_set(err, CAY_LIMIT_REACHED, "the archive has %s",
                     str_bytes((uint64_t)st.st_size, text));
}

/* The image has a pin of its own, since that of the sandbox goes with its files. */
static int commit_archive(struct job *j, struct cay_error *err) {
    char name[ARCHIVES_NAME_SIZE], making[ARCHIVES_NAME_SIZE];
    int r = check_size(j, err);
    if (r == 0)
        r = archive_note_read(j->archive, j->id, &j->note, err);
    if (r == 0 && j->note.record.image[0] != '\0')
        r = archives_pin(j->state, j->kind, j->id, j->note.record.image, err);
    if (r < 0)
        return r;
    archives_name(j->kind, j->id, name);
    archives_making_name(j->kind, j->id, making);
    if (fsync(j->archive) < 0 || renameat(j->archives, making, j->archives, name) < 0 ||
        fsync(j->archives) < 0)
        return error_errno(err, "keeping the archive");
    return 0;
}

static int make_archive(struct job *j, int *ret_code, struct cay_error *err) {
    char making[ARCHIVES_NAME_SIZE];
    int r = open_state(j, err);
    if (r == 0)
        r = open_sandbox(j, err);
    if (r < 0)
        return r;
    archives_making_name(j->kind, j->id, making);
    (void)unlinkat(j->archives, making, 0); /* of one that was killed */
    j->archive =
        openat(j->archives, making, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (j->archive < 0)
        return error_errno(err, "making the archive");
    *ret_code = run_apart(j, write_body, err);
    r = *ret_code == 0 ? commit_archive(j, err) : MIN(*ret_code, 0);
    if (r < 0 || *ret_code != 0)
        (void)unlinkat(j->archives, making, 0);
    return r;
}

/* The digest, and how large the archive is; 0 if nothing was done. */
static int answer_archive(const struct job *j, struct cay_error *err) {
    struct stat st;
    char more[32];
    if (fstat(j->archive, &st) < 0)
        return verbs_answer(error_errno(err, "looking at the archive"), NULL, err);
    (void)snprintf(more, sizeof more, "%lld", j->was_there ? 0LL : (long long)st.st_size);
    return verbs_answer(0, (const char *const[]){j->note.digest, more, NULL}, err);
}

#define JOB_OF(options, argv, what)                                                                \
    {                                                                                              \
        .common = &(options)->common, .id = (argv)[0],                                             \
        .kind = (options)->backup ? ARCHIVE_BACKUP : ARCHIVE_WHOLE,                                \
        .max_bytes = (options)->max_bytes, .starter = getpid(), .archives = -1, .sandboxes = -1,   \
        .folder = -1, .disk = -1, .archive = -1, .doing = (what)                                   \
    }

int do_archive(const void *values, int argc, char **argv) {
    (void)argc;
    const struct image_restore_options *o = values;
    struct cay_error err;
    _cleanup_(job_close) struct job j = JOB_OF(o, argv, "archiving");
    int code = 0;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    int r = make_archive(&j, &code, &err);
    if (r < 0)
        return verbs_answer(r, NULL, &err);
    return code != 0 ? code : answer_archive(&j, &err);
}

/* ---- restore ---- */

static int restore_in_world(struct job *j, struct cay_error *err) {
    return archive_restore(j->archive, &j->note, j->disk, report_progress, j, err);
}

static int restore_body(void *user) {
    return work(user, restore_in_world);
}

/* What belongs to ids that only the world has. What is left here the next launcher sweeps. */
static int clear_in_world(struct job *j, struct cay_error *err) {
    (void)err;
    (void)path_remove_tree(j->disk, "fs");
    (void)path_remove_tree(j->disk, "local");
    return 0;
}

static int clear_body(void *user) {
    return work(user, clear_in_world);
}

/* Locked, so that no launcher takes it for what a killed process left. */
static int make_folder(struct job *j, const char *name, uint64_t disk_bytes,
                       struct cay_error *err) {
    if (mkdirat(j->sandboxes, name, 0711) < 0)
        return error_errno(err, "making the folder of sandbox %s", j->id);
    j->folder = openat(j->sandboxes, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (j->folder < 0 || flock(j->folder, LOCK_EX | LOCK_NB) < 0 || fchmod(j->folder, 0711) < 0)
        return error_errno(err, "opening the folder of sandbox %s", j->id);
    int r = disk_make(j->folder, disk_bytes, engine_is_privileged() ? IMAGE_IDS_FIRST : 0, err);
    if (r == 0)
        r = keep_record_write(j->folder, &j->note.record, err);
    if (r < 0)
        return r;
    j->disk = disk_open(j->folder, err);
    return MIN(j->disk, 0);
}

static void unmake_folder(struct job *j, const char *name) {
    struct cay_error err;
    if (j->disk >= 0 && !engine_is_privileged())
        (void)run_apart(j, clear_body, &err);
    fd_close(&j->disk);
    if (j->folder >= 0)
        (void)disk_remove(j->folder, &err);
    (void)path_remove_tree(j->sandboxes, name); /* else the next launcher does */
}

/* Everything is on the disk before it has the name of a sandbox. */
static int commit_folder(struct job *j, const char *name, struct cay_error *err) {
    _cleanup_(closep) int fs = openat(j->disk, "fs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fs < 0 || syncfs(fs) < 0 || syncfs(j->folder) < 0 ||
        renameat(j->sandboxes, name, j->sandboxes, j->id) < 0 || fsync(j->sandboxes) < 0)
        return error_errno(err, "keeping the restored files of sandbox %s", j->id);
    return 0;
}

static int open_archive(struct job *j, struct cay_error *err) {
    char name[ARCHIVES_NAME_SIZE];
    archives_name(j->kind, j->id, name);
    j->archive = openat(j->archives, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (j->archive < 0) {
        error_errno(err, "opening the archive of sandbox %s", j->id);
        return error_remedy(err, "put 'archives/%s' in the state folder back from a backup", name);
    }
    return archive_note_read(j->archive, j->id, &j->note, err);
}

static int fill_folder(struct job *j, uint64_t disk_bytes, int *ret_code, struct cay_error *err) {
    char name[sizeof KEEP_NEW_PREFIX + 2 * ID_SIZE], random[ID_SIZE];
    int r = id_new(random, err);
    if (r < 0)
        return r;
    (void)snprintf(name, sizeof name, KEEP_NEW_PREFIX "%s-%s", j->id, random);
    r = make_folder(j, name, disk_bytes, err);
    if (r == 0)
        *ret_code = run_apart(j, restore_body, err);
    if (r == 0)
        r = *ret_code == 0 ? commit_folder(j, name, err) : MIN(*ret_code, 0);
    if (r < 0 || *ret_code != 0)
        unmake_folder(j, name);
    return r;
}

static int restore(struct job *j, uint64_t disk_bytes, int *ret_code, struct cay_error *err) {
    int r = open_state(j, err);
    if (r == 0)
        r = open_archive(j, err);
    if (r < 0)
        return r;
    j->was_there = faccessat(j->sandboxes, j->id, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    if (j->was_there)
        return 0; /* it was done before, and not told */
    return fill_folder(j, disk_bytes, ret_code, err);
}

int do_restore(const void *values, int argc, char **argv) {
    (void)argc;
    const struct image_restore_options *o = values;
    struct cay_error err;
    _cleanup_(job_close) struct job j = JOB_OF(o, argv, "restoring");
    int code = 0;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    int r = restore(&j, o->disk_bytes, &code, &err);
    if (r < 0)
        return verbs_answer(r, NULL, &err);
    return code != 0 ? code : answer_archive(&j, &err);
}
