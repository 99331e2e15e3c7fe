/* Sandboxes for interpreters. Those of the host image are thrown away by the engine itself; of
 * other images there are only such as stay, and are removed. Nobody has a row of them, so that the
 * reconciler removes what is left of a daemon that died. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "engine/engine.h"
#include "manager/internal.h"
#include "manager/python/interpreters_internal.h"

static int open_once(const struct interpreters *all, const struct sandbox_spec *spec,
                     struct python_box *ret, struct cay_error *err) {
    struct engine *e = all->options.engine;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making a connection");
    const struct engine_once once = {.spec = spec, .wants_counter = true};
    int r = e->ops->once(e, &once, pair[1], &ret->tag, err);
    (void)close(pair[1]);
    if (r < 0)
        (void)close(pair[0]);
    else
        ret->fd = pair[0];
    return r;
}

static int open_kept(const struct interpreters *all, const struct sandbox_spec *limits,
                     const char *image, struct python_box *ret, struct cay_error *err) {
    struct engine *e = all->options.engine;
    struct sandbox_spec spec = *limits;
    int r = id_new(ret->id, err);
    if (r < 0)
        return r;
    memcpy(spec.id, ret->id, sizeof spec.id);
    memcpy(spec.hostname, ret->id, sizeof ret->id);
    _cleanup_(closep) int listener = socket_listen(ret->id, err);
    r = listener < 0 ? listener : e->ops->start(e, &spec, image, listener, err);
    if (r == 0)
        r = ret->fd = socket_connect(ret->id, CONNECT_MS, err);
    if (r < 0) {
        ret->fd = -1;
        (void)python_box_end(all, ret, NULL, NULL);
    }
    return MIN(r, 0);
}

int python_box_open(const struct interpreters *all, const struct sandbox_spec *spec,
                    const char *image, struct python_box *ret, struct cay_error *err) {
    *ret = (struct python_box){.fd = -1};
    return image[0] == '\0' && all->options.has_once ? open_once(all, spec, ret, err)
                                                     : open_kept(all, spec, image, ret, err);
}

int python_box_end(const struct interpreters *all, struct python_box *box, bool *ret_oom,
                   struct cay_error *err) {
    struct engine *e = all->options.engine;
    struct cay_error here;
    fd_close(&box->fd);
    if (err == NULL)
        err = &here;
    if (box->id[0] == '\0')
        return e->ops->once_end(e, box->tag, ret_oom, err);
    int r = e->ops->remove(e, box->id, err);
    socket_remove(box->id);
    return r;
}
