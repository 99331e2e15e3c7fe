#include "engine/docker/transport/host.h"

#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/str.h"

#define DEFAULT_SOCKET "/var/run/docker.sock"

enum { PLAIN_PORT = 2375, TLS_PORT = 2376 };

static int refuse(const char *text, const char *why, struct cay_error *err) {
    char shown[200];
    error_set(err, CAY_INVALID_ARGUMENT, "DOCKER_HOST '%s' %s",
              str_escape(shown, sizeof shown, text), why);
    return error_remedy(err, "use unix:///PATH or tcp://HOST:PORT");
}

/* As the docker command does it, a program would have to be run there for each connection. */
static int refuse_ssh(const char *text, struct cay_error *err) {
    char shown[200];
    error_set(err, CAY_INVALID_ARGUMENT, "DOCKER_HOST '%s': Docker is not reached by ssh here",
              str_escape(shown, sizeof shown, text));
    return error_remedy(err, "forward a port: ssh -N -L 2375:/var/run/docker.sock HOST, and use "
                             "tcp://127.0.0.1:2375; whoever is on this machine can use it then");
}

static int use_socket(const char *path, struct docker_host *ret, struct cay_error *err) {
    if (path[0] != '/')
        return refuse(path, "names no socket by its absolute path", err);
    if (str_copy(ret->socket, sizeof ret->socket, path) < 0 ||
        str_copy(ret->url, sizeof ret->url, "http://docker") < 0 ||
        str_format(ret->shown, sizeof ret->shown, "unix://%s", path) < 0)
        return refuse(path, "is too long for a socket", err);
    return 0;
}

/* HOST, HOST:PORT, [V6]:PORT; nothing else, so that no path or user slips into a URL. */
static int split_host(const char *text, char *host, size_t size, unsigned *port) {
    size_t end = strlen(text);
    while (end > 0 && text[end - 1] == '/')
        end--;
    size_t n = text[0] == '[' ? strcspn(text, "]") + 1 : strcspn(text, ":/");
    if (n == 0 || n > end || n >= size)
        return -1;
    memcpy(host, text, n);
    host[n] = '\0';
    if (strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]") != n)
        return -1;
    if (n == end)
        return 0;
    char digits[8];
    uint64_t number;
    if (text[n] != ':' || end - n - 1 >= sizeof digits)
        return -1;
    memcpy(digits, text + n + 1, end - n - 1);
    digits[end - n - 1] = '\0';
    if (str_to_u64(digits, 65535, &number) < 0 || number == 0)
        return -1;
    *port = (unsigned)number;
    return 0;
}

static int find_certs(const struct docker_host_env *env, struct docker_host *ret,
                      struct cay_error *err) {
    int r;
    if (env->cert_path != NULL && env->cert_path[0] != '\0')
        r = str_copy(ret->certs, sizeof ret->certs, env->cert_path);
    else
        r = str_format(ret->certs, sizeof ret->certs, "%s/.docker",
                       env->home != NULL ? env->home : "/root");
    return r < 0 ? error_sys(err, -r, "DOCKER_CERT_PATH") : 0;
}

static int use_tcp(const struct docker_host_env *env, const char *text, bool secure,
                   struct docker_host *ret, struct cay_error *err) {
    char host[256];
    unsigned port = 0;
    const char *address = strstr(text, "://") + 3;
    bool verify = env->tls_verify != NULL && env->tls_verify[0] != '\0';
    if (split_host(address, host, sizeof host, &port) < 0)
        return refuse(text, "is not an address", err);
    secure = secure || verify || port == TLS_PORT;
    if (port == 0)
        port = secure ? TLS_PORT : PLAIN_PORT;
    ret->verify = secure;
    if (str_format(ret->url, sizeof ret->url, "%s://%s:%u", secure ? "https" : "http", host, port) <
            0 ||
        str_format(ret->shown, sizeof ret->shown, "tcp://%s:%u", host, port) < 0)
        return refuse(text, "is too long", err);
    return secure ? find_certs(env, ret, err) : 0;
}

int docker_host_find(const struct docker_host_env *env, struct docker_host *ret,
                     struct cay_error *err) {
    *ret = (struct docker_host){0};
    const char *text = env->host;
    if (text == NULL || text[0] == '\0')
        return use_socket(DEFAULT_SOCKET, ret, err);
    if (str_starts(text, "unix://"))
        return use_socket(text + strlen("unix://"), ret, err);
    if (str_starts(text, "tcp://") || str_starts(text, "http://"))
        return use_tcp(env, text, false, ret, err);
    if (str_starts(text, "https://"))
        return use_tcp(env, text, true, ret, err);
    if (str_starts(text, "ssh://"))
        return refuse_ssh(text, err);
    return refuse(text, "has a form that is not known", err);
}
