/* Images that Docker has for a moment only: what was committed, on its way into cay's store. Each
 * has a name that nobody else gives (cay-passing:TOKEN), and a file of ours that says so
 * (STATE/docker/passing-TOKEN), which is locked by the process that makes it for as long as that
 * lives. Whose lock is free has lost its maker, and its image is removed. Docker ends a commit also
 * for one who is gone, so a file whose image is not there yet stays for a while. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"
#include "engine/docker/images/image.h"
#include "engine/docker/internal.h"

#define MARK "passing-" /* in STATE/docker, with the token */

enum {
    MARK_SIZE = sizeof MARK + ID_SIZE,
    NAME_SIZE = sizeof DOCKER_PASSING_REPOSITORY ":" + ID_SIZE,
    LATE_S = 24 * 60 * 60, /* no commit takes so long */
};

static void name_both(const char *token, char mark[static MARK_SIZE], char name[static NAME_SIZE]) {
    (void)snprintf(mark, MARK_SIZE, MARK "%.*s", ID_LEN, token);
    (void)snprintf(name, NAME_SIZE, DOCKER_PASSING_REPOSITORY ":%.*s", ID_LEN, token);
}

int docker_passing_begin(const struct docker_engine *d, struct docker_passing *ret,
                         struct cay_error *err) {
    char mark[MARK_SIZE], name[NAME_SIZE];
    int r = id_new(ret->token, err);
    if (r < 0)
        return r;
    name_both(ret->token, mark, name);
    _cleanup_(closep) int fd =
        openat(d->folder, mark, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, "noting that Docker gets an image");
    /* One who looks for what is left may have it for a moment, and leaves it. */
    while (flock(fd, LOCK_EX) < 0)
        if (errno != EINTR)
            return error_errno(err, "locking the note of an image");
    if (fsync(d->folder) < 0)
        return error_errno(err, "noting that Docker gets an image");
    ret->lock = TAKE_FD(fd);
    return 0;
}

/* May Docker still bring it, if it is not there? */
static bool is_awaited(int fd) {
    struct stat st;
    return fstat(fd, &st) == 0 && time(NULL) - st.st_mtime < LATE_S;
}

/* The name goes, and with it the image, unless it has got another. Then the file; or the next one
 * tries again. True if there was an image. */
static bool settle(const struct docker_engine *d, const char *token, bool may_come) {
    char mark[MARK_SIZE], name[NAME_SIZE];
    name_both(token, mark, name);
    int r = docker_image_remove(d->api, name, NULL);
    if (r > 0 || (r == 0 && !may_come))
        (void)unlinkat(d->folder, mark, 0);
    return r > 0;
}

void docker_passing_end(const struct docker_engine *d, struct docker_passing *p) {
    if (p->lock < 0)
        return;
    (void)settle(d, p->token, p->may_come);
    fd_close(&p->lock);
}

static int look_at(void *user, int dir, const char *mark) {
    const struct docker_engine *d = user;
    const char *token = mark + strlen(MARK);
    if (!str_starts(mark, MARK) || !id_is_valid(token))
        return 0;
    _cleanup_(closep) int fd = openat(dir, mark, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return 0; /* it has an owner */
    if (settle(d, token, is_awaited(fd)))
        log_event(LOG_LEVEL_INFO, "an image whose maker is gone was removed", "name", "%s",
                  DOCKER_PASSING_REPOSITORY);
    return 0;
}

void docker_passing_sweep(struct docker_engine *d) {
    int r = path_each(d->folder, look_at, d);
    if (r < 0)
        log_event(LOG_LEVEL_WARN, "images that are left were not looked for", "why", "%s",
                  strerror(-r));
}
