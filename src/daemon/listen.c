/* The sockets that the daemon listens on. They are the supervisor's: while a front is replaced,
 * clients wait in line and are not refused. The first front begins to listen when it can serve. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/helpers/places.h"

enum { PASSED_FIRST = PLACES_PASSED_FIRST, PASSED_MAX = 2 };

/* ---- the unix socket ---- */

/* What a daemon that was killed left. */
static int remove_old(const char *path, struct cay_error *err) {
    struct stat st;
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : error_errno(err, "looking at %s", path);
    if (!S_ISSOCK(st.st_mode)) {
        error_set(err, CAY_CONFLICT, "%s is there and is no socket", path);
        return error_remedy(err, "remove it, or name another path with --socket");
    }
    return unlink(path) < 0 && errno != ENOENT ? error_errno(err, "removing %s", path) : 0;
}

static int listen_local(const char *path, struct cay_error *err) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (str_copy(address.sun_path, sizeof address.sun_path, path) < 0) {
        error_set(err, CAY_INVALID_ARGUMENT, "the path of the socket is longer than %zu bytes",
                  sizeof address.sun_path - 1);
        return error_remedy(err, "name a shorter one with --socket");
    }
    int r = remove_old(path, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t mask = umask(0177);
    bool bound = sock >= 0 && bind(sock, (const struct sockaddr *)&address, sizeof address) == 0;
    (void)umask(mask);
    if (!bound)
        return error_errno(err, "making the socket %s", path);
    return TAKE_FD(sock);
}

/* ---- TCP ---- */

static int split_address(const char *text, char host[static 64], char port[static 8],
                         struct cay_error *err) {
    const char *colon = strrchr(text, ':');
    uint64_t number;
    size_t len = colon == NULL ? 0 : (size_t)(colon - text);
    bool brackets = len > 2 && text[0] == '[' && text[len - 1] == ']';
    if (len == 0 || len >= 64 || str_to_u64(colon + 1, UINT16_MAX, &number) < 0) {
        error_set(err, CAY_INVALID_ARGUMENT, "listen: '%.60s' is not ADDRESS:PORT", text);
        return error_remedy(err, "use for example 127.0.0.1:3986 or [::1]:3986");
    }
    (void)snprintf(host, 64, "%.*s", (int)(brackets ? len - 2 : len), text + (brackets ? 1 : 0));
    if (str_equal(host, "localhost"))
        (void)snprintf(host, 64, "127.0.0.1");
    (void)snprintf(port, 8, "%u", (unsigned)number);
    return 0;
}

static bool is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)address;
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    }
    const struct sockaddr_in6 *v6 = (const void *)address;
    return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

/* Keys and data would cross the network in clear text. */
static int check_clear_text(const struct settings *s, const struct addrinfo *at,
                            struct cay_error *err) {
    if (is_loopback(at->ai_addr) || s->tls.cert != NULL || s->insecure_listen)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT,
              "listening on %s: anybody on the way could read keys and data", s->listen);
    return error_remedy(err, "set tls_cert and tls_key in [server], listen on 127.0.0.1, or say "
                             "--insecure-listen");
}

static int bind_tcp(const struct addrinfo *at, const char *text, bool has_tls,
                    struct cay_error *err) {
    int on = 1;
    _cleanup_(closep) int sock =
        socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sock < 0 || setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(sock, at->ai_addr, at->ai_addrlen) < 0) {
        (void)error_errno(err, "listening on %s", text);
        return error_remedy(err,
                            "name another address or port with --listen, or in [server] listen");
    }
    if (!is_loopback(at->ai_addr) && !has_tls)
        log_event(LOG_LEVEL_WARN, "keys and data cross the network in clear text", "listen", "%s",
                  text);
    return TAKE_FD(sock);
}

static int listen_tcp(const struct settings *s, struct cay_error *err) {
    const char *text = s->listen;
    char host[64], port[8];
    int r = split_address(text, host, port, err);
    if (r < 0)
        return r;
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, port, &hints, &found) != 0 || found == NULL) {
        error_set(err, CAY_INVALID_ARGUMENT, "listen: '%.60s' is no numeric address", host);
        return error_remedy(err, "use for example 127.0.0.1:3986 or [::1]:3986");
    }
    r = check_clear_text(s, found, err);
    if (r == 0)
        r = bind_tcp(found, text, s->tls.cert != NULL, err);
    freeaddrinfo(found);
    return r;
}

/* ---- systemd ---- */

unsigned places_passed(void) {
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    uint64_t number;
    if (pid == NULL || count == NULL || str_to_u64(pid, INT_MAX, &number) < 0 ||
        number != (uint64_t)getpid() || str_to_u64(count, PASSED_MAX, &number) < 0)
        return 0;
    return (unsigned)number;
}

static void take_passed(struct places_sockets *ret) {
    unsigned count = places_passed();
    for (int fd = PASSED_FIRST; fd < PASSED_FIRST + (int)count; fd++) {
        int family = 0;
        socklen_t len = sizeof family;
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        (void)fcntl(fd, F_SETFL, O_NONBLOCK);
        if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len) < 0)
            continue;
        *(family == AF_UNIX ? &ret->local : &ret->tcp) = fd;
    }
    (void)unsetenv("LISTEN_PID"); /* nobody below us is meant */
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_FDNAMES");
}

int places_listen(const struct settings *s, struct places_sockets *ret, struct cay_error *err) {
    *ret = (struct places_sockets){.local = -1, .tcp = -1};
    take_passed(ret);
    if (ret->local < 0) {
        ret->local = listen_local(s->socket, err);
        if (ret->local < 0)
            return ret->local;
        ret->is_ours = true;
    }
    if (ret->tcp >= 0 || s->listen == NULL)
        return 0;
    ret->tcp = listen_tcp(s, err);
    return ret->tcp < 0 ? ret->tcp : 0;
}
