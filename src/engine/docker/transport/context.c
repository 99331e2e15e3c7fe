/* Contexts of the docker command: CONFIG/config.json names the current one, and each is a folder
 * CONFIG/contexts/meta/DIGEST with meta.json; its certificates are in contexts/tls/DIGEST/docker.
 * The digest is that of the name, but the name is in the file too. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "engine/docker/parse.h"
#include "engine/docker/transport/host.h"

#define META "contexts/meta"
#define TLS  "contexts/tls"

enum { FILE_MAX = 1 << 20 };

struct search {
    const char *config, *name;
    struct docker_context found;
    char certs[PATH_MAX]; /* "" if there are none */
    bool has_found;
};

static bool is_given(const char *text) {
    return text != NULL && text[0] != '\0';
}

/* 0, or -errno; -ENOENT is a file that is not there. */
static int read_file(int dir, const char *path, struct buf *out) {
    _cleanup_(closep) int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return fd < 0 ? -errno : fd_read_to_end(fd, out);
}

static int find_certs(struct search *s, const char *digest) {
    char path[PATH_MAX];
    int r = str_format(path, sizeof path, "%s/" TLS "/%s/docker", s->config, digest);
    if (r == 0 && access(path, F_OK) == 0)
        r = str_copy(s->certs, sizeof s->certs, path);
    return r;
}

/* One that cannot be read is another's affair. */
static int look_at(void *user, int dir, const char *digest) {
    struct search *s = user;
    _cleanup_(buf_free) struct buf text = BUF_INIT(FILE_MAX);
    char path[NAME_MAX + 32];
    struct docker_context c;
    if (str_format(path, sizeof path, "%s/meta.json", digest) < 0 ||
        read_file(dir, path, &text) < 0 ||
        docker_parse_context(buf_text(&text), text.len, &c, NULL) < 0 ||
        !str_equal(c.name, s->name))
        return 0;
    s->found = c;
    s->has_found = true;
    return find_certs(s, digest);
}

static int find_context(struct search *s, struct cay_error *err) {
    char path[PATH_MAX], shown[200];
    int r = str_format(path, sizeof path, "%s/" META, s->config);
    _cleanup_(closep) int dir = r < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir >= 0)
        r = path_each(dir, look_at, s);
    if (r == 0 && s->has_found)
        return 0;
    error_set(err, CAY_NOT_FOUND, "the docker command has no context '%s' in %.300s",
              str_escape(shown, sizeof shown, s->name), s->config);
    return error_remedy(err, "look at 'docker context ls', and set DOCKER_CONTEXT or DOCKER_HOST");
}

/* "" for the default one, which is where Docker is without any. */
static int find_name(const struct docker_host_env *env, const char *config,
                     char out[static DOCKER_TEXT_SIZE], struct cay_error *err) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(FILE_MAX);
    char path[PATH_MAX];
    int r = 0;
    out[0] = '\0';
    if (is_given(env->context))
        r = str_copy(out, DOCKER_TEXT_SIZE, env->context);
    else if (str_format(path, sizeof path, "%s/config.json", config) == 0 &&
             read_file(AT_FDCWD, path, &text) == 0) {
        r = docker_parse_current(buf_text(&text), text.len, out, err);
        if (r < 0)
            return error_remedy(err, "mend %.300s, or set DOCKER_CONTEXT or DOCKER_HOST", path);
    }
    if (r == -ENAMETOOLONG || r == -ENOSPC)
        return error_set(err, CAY_INVALID_ARGUMENT, "the name in DOCKER_CONTEXT is too long");
    if (r == 0 && str_equal(out, "default"))
        out[0] = '\0';
    return r;
}

static int use_context(const struct docker_host_env *env, struct search *s, struct docker_host *ret,
                       struct cay_error *err) {
    bool secure = s->certs[0] != '\0';
    struct docker_host_env of_context = {
        .host = s->found.host, .home = env->home, .tls_verify = secure ? "1" : NULL};
    if (secure)
        of_context.cert_path = s->certs;
    int r = docker_host_find(&of_context, ret, err);
    if (r < 0)
        return error_prefix(err, "context '%s' of the docker command", s->name);
    ret->verify = ret->verify && !s->found.skip_verify;
    return 0;
}

int docker_host_look_up(const struct docker_host_env *env, struct docker_host *ret,
                        struct cay_error *err) {
    char config[PATH_MAX], name[DOCKER_TEXT_SIZE];
    int r = is_given(env->config) ? str_copy(config, sizeof config, env->config)
                                  : str_format(config, sizeof config, "%s/.docker",
                                               is_given(env->home) ? env->home : "/root");
    if (r < 0)
        return error_sys(err, -r, "DOCKER_CONFIG");
    if (is_given(env->host))
        return docker_host_find(env, ret, err);
    r = find_name(env, config, name, err);
    if (r < 0)
        return r;
    if (name[0] == '\0')
        return docker_host_find(env, ret, err);
    struct search s = {.config = config, .name = name};
    r = find_context(&s, err);
    return r < 0 ? r : use_context(env, &s, ret, err);
}
