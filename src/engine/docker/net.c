/* The network of containers that have one: a bridge of Docker's, of ours alone, which is made when
 * it is first needed and stays. What keeps sandboxes from the host, from each other and from
 * private networks are the walls that cay-enter puts up inside (enter/walls.h); here is found out
 * what of this host they have to close. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/ranges.h"
#include "base/str.h"
#include "engine/docker/internal.h"
#include "engine/docker/spec.h"

#define RESOLV_CONF "/etc/resolv.conf"
/* Where systemd has the servers, if the other names its own one on the loopback. */
#define RESOLVED_CONF "/run/systemd/resolve/resolv.conf"

enum { BODY_MAX = 4096, RESOLV_MAX = 16 * 1024, INTERFACE_ID_LEN = 12 };

/* ---- the network ---- */

static int ask_for_it(struct docker_engine *d, struct docker_network *ret, struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    struct docker_call call = {.method = "GET", .path = "/networks/" DOCKER_NETWORK};
    int r = docker_do(d->api, &call, &a, err);
    return r < 0 ? r : docker_parse_network(buf_text(&a.body), a.body.len, ret, err);
}

static int make_it(struct docker_engine *d, struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    _cleanup_(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    int r = docker_spec_network(&body, err);
    if (r < 0)
        return r;
    struct docker_call call = {.method = "POST",
                               .path = "/networks/create",
                               .body = buf_text(&body),
                               .body_len = body.len};
    return docker_do(d->api, &call, &a, err);
}

/* One at a time; another process that makes it at the same moment is answered by a conflict. */
static int have_it(struct docker_engine *d, struct docker_network *ret, struct cay_error *err) {
    (void)pthread_mutex_lock(&d->tools_lock);
    int r = ask_for_it(d, ret, err);
    if (r == -CAY_NOT_FOUND) {
        r = make_it(d, err);
        if (r == 0 || r == -CAY_CONFLICT)
            r = ask_for_it(d, ret, err);
    }
    (void)pthread_mutex_unlock(&d->tools_lock);
    if (r < 0)
        return error_prefix(err, "the network of containers");
    if (ret->is_ours)
        return 0;
    error_set(err, CAY_CONFLICT,
              "Docker has a network '" DOCKER_NETWORK "' that is not as cay makes it");
    return error_remedy(err, "remove it: docker network rm " DOCKER_NETWORK);
}

static int change_member(struct docker_engine *d, const char *verb, const char *id,
                         struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    char path[DOCKER_PATH_SIZE], body[128];
    if (str_format(path, sizeof path, "/networks/" DOCKER_NETWORK "/%s", verb) < 0 ||
        str_format(body, sizeof body, "{\"Container\":\"cay-%s\",\"Force\":true}", id) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "this is not the id of a sandbox");
    struct docker_call call = {
        .method = "POST", .path = path, .body = body, .body_len = strlen(body)};
    return docker_do(d->api, &call, &a, err);
}

int docker_net_connect(struct docker_engine *d, const char *id, struct cay_error *err) {
    int r = change_member(d, "disconnect", id, err);
    return r < 0 ? r : change_member(d, "connect", id, err);
}

/* ---- this host ---- */

static const struct in_addr *address_of(const struct ifaddrs *i) {
    return i->ifa_addr == NULL || i->ifa_addr->sa_family != AF_INET
               ? NULL
               : &((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr;
}

/* What is closed to everybody need not be told. */
static int add_own(struct docker_walls *w, const struct in_addr *v4, struct cay_error *err) {
    struct in6_addr a = address_map_v4(v4);
    if (ranges_hold(&a, 128, &ranges_closed) || ranges_hold(&a, 128, &ranges_private))
        return 0;
    for (uint32_t i = 0; i < w->own_count; i++)
        if (w->own[i] == v4->s_addr)
            return 0;
    if (w->own_count == DOCKER_OWN_MAX) {
        error_set(err, CAY_UNSUPPORTED, "this host has more than %d public addresses",
                  DOCKER_OWN_MAX);
        return error_remedy(err, "use --network 'allow=*'");
    }
    w->own[w->own_count++] = v4->s_addr;
    return 0;
}

/* The bridge must be one of this host: of another (a Docker in a machine or a namespace of its own)
 * the addresses are not known. */
static int look_at_host(const struct docker_network *net, struct docker_walls *w,
                        struct cay_error *err) {
    struct ifaddrs *all = NULL;
    struct in_addr gateway;
    char name[IF_NAMESIZE];
    bool is_here = false;
    int r = 0;
    (void)snprintf(name, sizeof name, "br-%.*s", INTERFACE_ID_LEN, net->id);
    if (inet_pton(AF_INET, net->gateway, &gateway) != 1)
        return error_set(err, CAY_UNSUPPORTED, "Docker does not say which address its bridge has");
    if (getifaddrs(&all) < 0)
        return error_errno(err, "looking for the addresses of this host");
    for (const struct ifaddrs *i = all; r == 0 && i != NULL; i = i->ifa_next) {
        const struct in_addr *v4 = address_of(i);
        if (v4 == NULL)
            continue;
        is_here |= str_equal(i->ifa_name, name) && v4->s_addr == gateway.s_addr;
        r = add_own(w, v4, err);
    }
    freeifaddrs(all);
    if (r < 0 || is_here)
        return r;
    error_set(err, CAY_UNSUPPORTED,
              "the bridge of this Docker is not among the interfaces of this host, whose addresses "
              "would stay open");
    return error_remedy(err, "use --network 'allow=*', or a Docker that runs as root on this host");
}

void docker_net_parse_servers(const char *text, struct docker_walls *w) {
    for (const char *line = text; *line != '\0'; line += *line == '\n') {
        size_t len = strcspn(line, "\n");
        char word[INET_ADDRSTRLEN + 1] = "";
        struct in_addr v4;
        /* NOLINTNEXTLINE(cert-err34-c): a text with a width */
        if (sscanf(line, "nameserver %16[0-9.]", word) == 1 && inet_pton(AF_INET, word, &v4) == 1 &&
            w->server_count < DOCKER_SERVERS_MAX && ntohl(v4.s_addr) >> 24 != IN_LOOPBACKNET)
            w->servers[w->server_count++] = v4.s_addr;
        line += len;
    }
}

static void read_servers(const char *path, struct docker_walls *w) {
    char text[RESOLV_MAX];
    if (fd_read_file_at(AT_FDCWD, path, text, sizeof text) >= 0)
        docker_net_parse_servers(text, w);
}

/* Those that Docker asks, by the files that it reads at every start of a container; one on the
 * loopback it asks from the host. */
static void find_servers(struct docker_walls *w) {
    read_servers(RESOLV_CONF, w);
    if (w->server_count == 0)
        read_servers(RESOLVED_CONF, w);
}

/* ---- both ---- */

const char *docker_net_lacks(const struct docker_info *info, bool is_far, const char *runtime) {
    if (is_far)
        return "it is on another machine, whose own addresses would stay open to its containers";
    if (docker_runtime_kernel(runtime) != DOCKER_KERNEL_HOST)
        return "its runtime has a kernel of its own, in which cay cannot close a network";
    if (info->is_podman)
        return "it is podman, whose containers ask a name server at their gateway, which is closed";
    return NULL;
}

static int check_place(const struct docker_engine *d, struct cay_error *err) {
    const char *why = docker_net_lacks(&d->info, d->is_far, d->runtime);
    if (why == NULL)
        return 0;
    error_set(err, CAY_UNSUPPORTED, "this Docker cannot have the network 'bridge': %s", why);
    return error_remedy(err, DOCKER_NET_REMEDY);
}

int docker_net_prepare(struct docker_engine *d, struct docker_walls *ret, struct cay_error *err) {
    struct docker_network net = {0};
    int r = check_place(d, err);
    if (r == 0)
        r = have_it(d, &net, err);
    if (r == 0)
        r = look_at_host(&net, ret, err);
    if (r < 0)
        return r;
    find_servers(ret);
    ret->wanted = 1;
    return 0;
}
