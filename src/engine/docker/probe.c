#include "engine/docker/probe.h"

#include <stdio.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/json/jsonw.h"
#include "base/str.h"
#include "engine/docker/internal.h"
#include "engine/docker/runtime.h"

static void put_row(struct jsonw *out, const char *name, bool ok, const char *detail,
                    const char *remedy) {
    jsonw_begin_object(out);
    jsonw_put_string(out, "name", name);
    jsonw_put_bool(out, "ok", ok);
    jsonw_put_string(out, "detail", detail);
    jsonw_put_string(out, "remedy", ok ? "" : remedy);
    jsonw_end_object(out);
}

static void put_limit(struct jsonw *out, const char *name, bool ok) {
    put_row(out, name, ok, ok ? "by control groups" : "this Docker has no control group for it",
            "give Docker the cgroup controllers memory, cpu and pids");
}

/* What this Docker can run containers with, and the one that is chosen. */
static void put_runtimes(struct jsonw *out, const struct docker_info *info) {
    static const char *const kernels[] = {[DOCKER_KERNEL_HOST] = "",
                                          [DOCKER_KERNEL_GVISOR] = " (gVisor)",
                                          [DOCKER_KERNEL_GUEST] = " (a virtual machine)"};
    _cleanup_(buf_free) struct buf text = BUF_INIT(DOCKER_TEXT_SIZE * 2);
    const char *chosen = docker_runtime_chosen();
    for (size_t i = 0; i < info->runtime_count; i++) {
        const char *name = info->runtimes[i].name;
        (void)buf_printf(&text, "%s%s%s%s", i > 0 ? ", " : "", name,
                         kernels[docker_runtime_kernel(name)],
                         str_equal(name, info->default_runtime) ? " (default)" : "");
    }
    put_row(out, "runtimes", info->runtime_count > 0,
            info->runtime_count > 0 ? buf_text(&text) : "not told", "ask docker info");
    struct cay_error err;
    if (chosen[0] == '\0')
        return;
    bool ok = docker_runtime_check(info, chosen, &err) == 0;
    char used[DOCKER_TEXT_SIZE];
    (void)snprintf(used, sizeof used, "%s, tier %s", chosen,
                   tier_name(docker_runtime_tier(chosen)));
    put_row(out, "runtime", ok, ok ? used : err.message, ok ? "" : err.remedy);
}

static void put_info(struct jsonw *out, const struct docker_host *host, const char *api,
                     const struct docker_info *info) {
    char text[DOCKER_TEXT_SIZE * 4];
    (void)snprintf(text, sizeof text, "version %s, API %s, at %s", info->version, api, host->shown);
    put_row(out, "docker", true, text, "");
    put_row(out, "place", true,
            host->socket[0] != '\0' ? "this machine"
                                    : "another machine: no folders of this one inside",
            "");
    put_limit(out, "memory limit", info->can_limit_memory);
    put_limit(out, "cpu limit", info->can_limit_cpu);
    put_limit(out, "process limit", info->can_limit_pids);
    (void)snprintf(text, sizeof text, "%s (Docker keeps files by %s on %s)",
                   info->can_limit_disk ? "where it is asked for" : "none", info->driver,
                   info->backing[0] != '\0' ? info->backing : "its own disk");
    put_row(out, "disk limit", info->can_limit_disk, text,
            "let Docker keep its data on btrfs, or on xfs mounted with pquota; or use engine = "
            "\"native\"");
    const char *closed = docker_net_lacks(info, host->socket[0] == '\0', docker_runtime_chosen());
    put_row(out, "network bridge", closed == NULL,
            closed == NULL ? "to public addresses, where it is asked for" : closed,
            DOCKER_NET_REMEDY);
    put_row(out, "control groups", info->cgroup[0] != '\0',
            info->cgroup[0] != '\0' ? info->cgroup : "not told", "ask docker info");
    put_runtimes(out, info);
    put_row(out, "seccomp", info->has_seccomp,
            info->has_seccomp ? "Docker's filter, and cay's on top" : "cay's filter alone",
            "use a Docker that was built with seccomp");
    put_row(out, "own ids", info->maps_ids,
            info->maps_ids ? "root inside is not root of the machine"
                           : "root inside has id 0 of the machine, without its rights",
            "set userns-remap in Docker's daemon.json, or run Docker without root");
}

static int ask(const struct docker_host *host, struct docker_api *api, struct docker_info *info,
               struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    struct docker_call call = {
        .method = "GET", .path = "/info", .timeout_ms = docker_first_ms(host)};
    int r = docker_do(api, &call, &a, err);
    return r < 0 ? r : docker_parse_info(buf_text(&a.body), a.body.len, info, err);
}

int docker_probe(const struct docker_host *host, const struct cay_error *unusable, struct buf *out,
                 struct cay_error *err) {
    struct docker_api *api = NULL;
    struct docker_info info = {0};
    struct cay_error why;
    char version[DOCKER_API_SIZE] = "";
    int r = docker_api_new(host, unusable, &api, err);
    if (r < 0)
        return r;
    struct jsonw w = JSONW_INIT(out);
    jsonw_begin_array(&w);
    r = ask(host, api, &info, &why);
    if (r == 0)
        r = docker_api_version(api, version, &why);
    if (r == 0)
        put_info(&w, host, version, &info);
    else
        put_row(&w, "docker", false, why.message, why.remedy);
    jsonw_end_array(&w);
    (void)buf_putc(out, '\n');
    docker_api_free(api);
    return 0;
}
