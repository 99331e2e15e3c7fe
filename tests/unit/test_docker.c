/* The Docker engine without a Docker: where it is, what it answers, what it is asked for, and the
 * way into a container. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json/json.h"
#include "base/path.h"
#include "base/str.h"
#include "engine/docker/internal.h"
#include "engine/docker/parse.h"
#include "engine/docker/spec.h"
#include "engine/docker/transport/handshake.h"
#include "engine/docker/transport/host.h"
#include "image/record.h"

#define ID_A "0123456789abcdef"
#define ID_B "fedcba9876543210"

/* ---- where it is ---- */

static void test_host(void **state) {
    (void)state;
    static const struct {
        const char *host, *verify, *socket, *url, *certs;
    } cases[] = {
        {NULL, NULL, "/var/run/docker.sock", "http://docker", ""},
        {"", NULL, "/var/run/docker.sock", "http://docker", ""},
        {"unix:///run/x.sock", NULL, "/run/x.sock", "http://docker", ""},
        {"tcp://box", NULL, "", "http://box:2375", ""},
        {"tcp://box/", NULL, "", "http://box:2375", ""},
        {"tcp://10.0.0.1:99", NULL, "", "http://10.0.0.1:99", ""},
        {"tcp://[::1]:2376", NULL, "", "https://[::1]:2376", "/home/u/.docker"},
        {"tcp://box", "1", "", "https://box:2376", "/home/u/.docker"},
        {"https://box:1", NULL, "", "https://box:1", "/home/u/.docker"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct docker_host h;
        struct docker_host_env env = {
            .host = cases[i].host, .tls_verify = cases[i].verify, .home = "/home/u"};
        assert_int_equal(docker_host_find(&env, &h, NULL), 0);
        assert_string_equal(h.socket, cases[i].socket);
        assert_string_equal(h.url, cases[i].url);
        assert_string_equal(h.certs, cases[i].certs);
        assert_int_equal(h.verify, cases[i].certs[0] != '\0');
    }
}

static void test_host_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "unix://relative", "unix://",     "ssh://box",      "tcp://",          "tcp://:1",
        "tcp://a:b",       "tcp://a:0",   "tcp://a:65536",  "tcp://a:1/path",  "tcp://u@a:1",
        "tcp://a b",       "tcp://a?x=1", "tcp://[::1",     "/var/run/x.sock", "tcp://a:1:2",
        "npipe://x",       "tcp://a#b",   "tcp://a\r\nb:1", "http://a:-1",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct docker_host h;
        struct cay_error err = {0};
        if (docker_host_find(&(struct docker_host_env){.host = bad[i]}, &h, &err) == 0)
            fail_msg("'%s' was taken for %s", bad[i], h.url);
        assert_int_equal(err.code, CAY_INVALID_ARGUMENT);
        assert_true(err.remedy[0] != '\0');
    }
    char longer[300] = "unix:///";
    memset(longer + strlen(longer), 'x', 200);
    struct docker_host h;
    assert_true(docker_host_find(&(struct docker_host_env){.host = longer}, &h, NULL) < 0);
}

/* ---- what it says ---- */

static void test_version(void **state) {
    (void)state;
    assert_true(docker_api_is_known("1.40") && docker_api_is_known("1.41"));
    static const char *const others[] = {"", "1.39", "1.44", "2.41", "1.41x", "1."};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        assert_false(docker_api_is_known(others[i]));
    static const struct {
        const char *text, *expected; /* NULL: refused */
    } cases[] = {
        {"{\"ApiVersion\":\"1.41\",\"MinAPIVersion\":\"1.12\"}", "1.41"},
        {"{\"ApiVersion\":\"1.40\"}", "1.40"},
        {"{\"ApiVersion\":\"1.52\",\"MinAPIVersion\":\"1.44\"}", "1.44"},
        {"{\"ApiVersion\":\"1.52\",\"MinAPIVersion\":\"1.24\"}", "1.41"},
        {"{\"ApiVersion\":\"1.39\"}", NULL},
        {"{\"ApiVersion\":\"2.0\"}", NULL},
        {"{\"ApiVersion\":\"\"}", NULL},
        {"{\"ApiVersion\":\"1.41/../x\"}", NULL},
        {"{\"ApiVersion\":\"1.41111111111111111111\"}", NULL},
        {"{\"ApiVersion\":41}", NULL},
        {"{}", NULL},
        {"[]", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct docker_version v;
        char api[DOCKER_API_SIZE] = "";
        int r = docker_parse_version(cases[i].text, strlen(cases[i].text), &v, NULL);
        if (r == 0)
            r = docker_choose_api(&v, api, NULL);
        assert_int_equal(r == 0, cases[i].expected != NULL);
        if (r == 0)
            assert_string_equal(api, cases[i].expected);
    }
}

static void test_errors(void **state) {
    (void)state;
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"{\"message\":\"No such container: x\"}\n", "No such container: x"},
        {"{\"message\":\"a\\u001b[31m\"}", "a\\x1b[31m"},
        {"{\"message\":7}", "{\"message\":7}"},
        {"page not found\n", "page not found"},
        {"a\nb\r\n", "a\\x0ab"},
        {"\n", ""},
        {"", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char out[DOCKER_TEXT_SIZE];
        docker_parse_error(cases[i].text, strlen(cases[i].text), out);
        assert_string_equal(out, cases[i].expected);
    }
}

#define LABELS(id, home) "\"Labels\":{\"cay.id\":\"" id "\",\"cay.home\":\"" home "\"}"

static void test_list(void **state) {
    (void)state;
    static const char text[] = "[{\"State\":\"running\"," LABELS(
        ID_A, "/s") "},"
                    "{\"State\":\"exited\"," LABELS(
                        ID_B,
                        "/other") "},"
                                  "{\"State\":\"paused\"," LABELS(
                                      ID_B,
                                      "/s") "},"
                                            "{\"State\":\"running\"," LABELS(
                                                "../../etc",
                                                "/s") "},"
                                                      "{\"State\":\"running\",\"Labels\":null},"
                                                      "{\"State\":\"created\"," LABELS(
                                                          "00000000000000aa", "/s") "}]";
    _cleanup_(freep) struct engine_sandbox *v = NULL;
    size_t count = 0;
    assert_int_equal(docker_parse_list(text, sizeof text - 1, "/s", &v, &count, NULL), 0);
    assert_int_equal(count, 3);
    assert_string_equal(v[0].id, ID_A);
    assert_int_equal(v[0].state, ENGINE_RUNNING);
    assert_string_equal(v[1].id, ID_B);
    assert_int_equal(v[1].state, ENGINE_PAUSED);
    assert_int_equal(v[2].state, ENGINE_STOPPED);
    static const char *const bad[] = {"{}", "[1]", "[{\"State\":1}]", "", "[", "null"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct engine_sandbox *none = NULL;
        assert_true(docker_parse_list(bad[i], strlen(bad[i]), "/s", &none, &count, NULL) < 0);
        assert_null(none);
    }
}

static void test_info(void **state) {
    (void)state;
    static const struct {
        const char *text, *cgroup;
        bool disk, seccomp, ids;
    } cases[] = {
        {"{\"Driver\":\"overlay2\",\"DriverStatus\":[[\"Backing Filesystem\",\"extfs\"]],"
         "\"CgroupDriver\":\"cgroupfs\",\"CgroupVersion\":\"1\","
         "\"SecurityOptions\":[\"name=seccomp,profile=default\"]}",
         "v1 by cgroupfs", false, true, false},
        {"{\"Driver\":\"overlay2\",\"DriverStatus\":[[\"Backing Filesystem\",\"xfs\"]],"
         "\"CgroupDriver\":\"systemd\",\"SecurityOptions\":[\"name=userns\",7]}",
         "version not told by systemd", true, false, true},
        {"{\"Driver\":\"btrfs\",\"SecurityOptions\":[\"name=rootless\"]}", "", true, false, true},
        {"{\"Driver\":\"overlay\",\"SecurityOptions\":null}", "", false, false, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct docker_info info;
        assert_int_equal(docker_parse_info(cases[i].text, strlen(cases[i].text), &info, NULL), 0);
        assert_string_equal(info.cgroup, cases[i].cgroup);
        assert_int_equal(info.can_limit_disk, cases[i].disk);
        assert_int_equal(info.has_seccomp, cases[i].seccomp);
        assert_int_equal(info.maps_ids, cases[i].ids);
    }
}

static void test_runtimes(void **state) {
    (void)state;
    static const char text[] =
        "{\"DefaultRuntime\":\"runc\",\"Runtimes\":{\"runc\":{\"path\":\"runc\"},"
        "\"runsc\":{\"path\":\"/usr/bin/runsc\",\"runtimeArgs\":[\"--network=none\"]},"
        "\"kata-runtime\":{\"path\":\"/opt/kata/bin/kata-runtime\"},"
        "\"runsc-false\":{\"path\":\"/usr/bin/crun\"},\"io.containerd.runc.v2\":{},"
        "\"none\":null,\"a-name-that-is-much-longer-than-any-runtime-would-ever-be-called-by-"
        "people\":"
        "{\"path\":\"x\"}}}";
    struct docker_info info;
    assert_int_equal(docker_parse_info(text, sizeof text - 1, &info, NULL), 0);
    assert_string_equal(info.default_runtime, "runc");
    assert_int_equal(info.runtime_count, 6);
    static const char *const good[] = {"", "runc", "runsc", "kata-runtime",
                                       "io.containerd.runc.v2"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_int_equal(docker_runtime_check(&info, good[i], NULL), 0);
    struct cay_error err;
    assert_int_equal(docker_runtime_check(&info, "crun", &err), -CAY_UNSUPPORTED);
    assert_non_null(strstr(err.message, "Docker has no runtime 'crun'; it has "));
    assert_non_null(strstr(err.remedy, "daemon.json"));
    /* It promises more than it is. */
    assert_int_equal(docker_runtime_check(&info, "runsc-false", &err), -CAY_UNSUPPORTED);
    assert_non_null(strstr(err.message, "'runsc-false' is the program 'crun'"));
    static const char *const odd[] = {"{}", "{\"Runtimes\":[]}", "{\"Runtimes\":7}",
                                      "{\"Runtimes\":{\"a\":7}}"};
    for (size_t i = 0; i < ARRAY_LEN(odd); i++)
        assert_int_equal(docker_parse_info(odd[i], strlen(odd[i]), &info, NULL), 0);
}

static void test_kernels(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum docker_kernel kernel;
        enum tier tier;
    } cases[] = {
        {"", DOCKER_KERNEL_HOST, TIER_BASIC},
        {"runc", DOCKER_KERNEL_HOST, TIER_BASIC},
        {"crun", DOCKER_KERNEL_HOST, TIER_BASIC},
        {"io.containerd.runc.v2", DOCKER_KERNEL_HOST, TIER_BASIC},
        {"my-runsc", DOCKER_KERNEL_HOST, TIER_BASIC},
        {"runsc", DOCKER_KERNEL_GVISOR, TIER_ROOTLESS},
        {"runsc-kvm", DOCKER_KERNEL_GVISOR, TIER_ROOTLESS},
        {"io.containerd.runsc.v1", DOCKER_KERNEL_GVISOR, TIER_ROOTLESS},
        {"kata", DOCKER_KERNEL_GUEST, TIER_ROOTLESS},
        {"kata-runtime", DOCKER_KERNEL_GUEST, TIER_ROOTLESS},
        {"io.containerd.kata.v2", DOCKER_KERNEL_GUEST, TIER_ROOTLESS},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(docker_runtime_kernel(cases[i].name), cases[i].kernel);
        assert_int_equal(docker_runtime_tier(cases[i].name), cases[i].tier);
    }
}

static void test_inspect(void **state) {
    (void)state;
    static const char text[] =
        "{\"State\":{\"Status\":\"exited\",\"OOMKilled\":true,"
        "\"ExitCode\":137,\"Error\":\"no\\n\"},\"SizeRw\":4096,\"HostConfig\":"
        "{\"Memory\":7,\"CpuQuota\":8,\"PidsLimit\":-1,\"StorageOpt\":{\"size\":\"77\"}},"
        "\"Config\":{\"Labels\":{\"cay.id\":\"0123456789abcdef\",\"cay.home\":\"/state\"}}}";
    struct docker_container c;
    assert_int_equal(docker_parse_inspect(text, sizeof text - 1, "/other", &c, NULL), 0);
    assert_string_equal(c.owner, "");
    assert_int_equal(docker_parse_inspect(text, sizeof text - 1, "/state", &c, NULL), 0);
    assert_string_equal(c.owner, "0123456789abcdef");
    assert_int_equal(c.state, ENGINE_STOPPED);
    assert_true(c.oom_killed);
    assert_int_equal(c.exit_code, 137);
    assert_int_equal(c.size_rw, 4096);
    assert_int_equal(c.memory_bytes, 7);
    assert_int_equal(c.cpu_quota_us, 8);
    assert_int_equal(c.pids, 0);
    assert_int_equal(c.disk_bytes, 77);
    assert_string_equal(c.error, "no\\x0a");
    static const char *const bad[] = {
        "{}",
        "{\"State\":{}}",
        "{\"State\":{\"Status\":\"x\"},\"SizeRw\":-1}",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_true(docker_parse_inspect(bad[i], strlen(bad[i]), "/state", &c, NULL) < 0);
    static const char bare[] = "{\"State\":{\"Status\":\"running\"},\"Config\":{\"Labels\":null}}";
    assert_int_equal(docker_parse_inspect(bare, sizeof bare - 1, "/state", &c, NULL), 0);
    assert_string_equal(c.owner, "");
}

static void test_stats(void **state) {
    (void)state;
    static const char text[] =
        "{\"memory_stats\":{\"usage\":5,\"limit\":9,\"max_usage\":7},"
        "\"cpu_stats\":{\"cpu_usage\":{\"total_usage\":4000}},\"pids_stats\":{\"current\":3}}";
    static const char stopped[] = "{\"memory_stats\":{},\"cpu_stats\":{\"cpu_usage\":{}},"
                                  "\"pids_stats\":{}}";
    struct engine_stats s;
    assert_int_equal(docker_parse_stats(text, sizeof text - 1, &s, NULL), 0);
    assert_int_equal(s.memory_bytes, 5);
    assert_int_equal(s.memory_limit, 9);
    assert_int_equal(s.memory_peak, 7);
    assert_int_equal(s.cpu_us, 4);
    assert_int_equal(s.pids, 3);
    assert_int_equal(docker_parse_stats(stopped, sizeof stopped - 1, &s, NULL), 0);
    assert_int_equal(s.memory_bytes, 0);
    assert_true(docker_parse_stats("{\"memory_stats\":3}", 18, &s, NULL) < 0);
    static const char below_zero[] =
        "{\"memory_stats\":{\"usage\":5},\"cpu_stats\":{\"cpu_usage\":{\"total_usage\":"
        "18446744073709504492}},\"precpu_stats\":{\"x\":18446744073709504492}}";
    assert_int_equal(docker_parse_stats(below_zero, sizeof below_zero - 1, &s, NULL), 0);
    assert_int_equal(s.memory_bytes, 5);
    assert_int_equal(s.cpu_us, 0);
}

static void test_loaded(void **state) {
    (void)state;
    static const struct {
        const char *text, *expected; /* NULL: an error */
    } cases[] = {
        {"{\"stream\":\"Loaded image ID: sha256:aa\\n\"}\n", "sha256:aa"},
        {"{\"status\":\"Loading layer\"}\r\n{\"stream\":\"Loaded image: a:b\\n\"}", "a:b"},
        {"{\"status\":\"x\"}\n", NULL},
        {"{\"error\":\"no space left on device\"}\n", NULL},
        {"{\"stream\":\"Loaded image: \"}", NULL},
        {"", NULL},
        {"what", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char out[DOCKER_TEXT_SIZE];
        int r = docker_parse_loaded(cases[i].text, strlen(cases[i].text), out, NULL);
        assert_int_equal(r == 0, cases[i].expected != NULL);
        if (r == 0)
            assert_string_equal(out, cases[i].expected);
    }
}

#define EVENT(action, more, id, home)                                                              \
    "{\"Action\":\"" action "\",\"time\":5,\"Actor\":{\"Attributes\":{\"cay.id\":\"" id            \
    "\",\"cay.home\":\"" home "\"" more "}}}"

static void test_events(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int result, exit_code;
    } cases[] = {
        {EVENT("die", ",\"exitCode\":\"137\"", ID_A, "/s"), 0, 137},
        {EVENT("die", "", ID_A, "/s"), 0, -1},
        {EVENT("die", ",\"exitCode\":\"-1\"", ID_A, "/s"), 0, -1},
        {EVENT("die", ",\"exitCode\":\"1e9\"", ID_A, "/s"), 0, -1},
        {EVENT("die", "", ID_A, "/other"), -CAY_NOT_FOUND, -1},
        {EVENT("die", "", "0123456789ABCDEF", "/s"), -CAY_NOT_FOUND, -1},
        {"{}", -CAY_INVALID_ARGUMENT, -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct docker_event e;
        int r = docker_parse_event(cases[i].text, strlen(cases[i].text), "/s", &e, NULL);
        assert_int_equal(r, cases[i].result);
        assert_int_equal(e.exit_code, cases[i].exit_code);
        if (r == 0)
            assert_string_equal(e.id, ID_A);
    }
}

#define HEX_A "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void test_image_ids(void **state) {
    (void)state;
    static const char *const good[] = {"{\"Id\":\"sha256:" HEX_A "\"}", "{\"Id\":\"" HEX_A "\"}"};
    static const char *const bad[] = {"{}",
                                      "{\"Id\":\"\"}",
                                      "{\"Id\":7}",
                                      "{\"Id\":\"sha256:sha256:" HEX_A "\"}",
                                      "{\"Id\":\"sha256:" HEX_A "0\"}",
                                      "{\"Id\":\"sha256:../" HEX_A "\"}",
                                      "nothing"};
    char id[HEX_SIZE];
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_int_equal(docker_parse_image_id(good[i], strlen(good[i]), id, NULL), 0);
        assert_string_equal(id, HEX_A);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_true(docker_parse_image_id(bad[i], strlen(bad[i]), id, NULL) < 0);
}

/* ---- what it is asked for ---- */

static struct json member(const struct json *at, const char *key) {
    struct json found;
    if (!json_child(at, key, &found))
        fail_msg("no %s", key);
    return found;
}

static bool has_word(const struct json *list, const char *word) {
    struct json item;
    const char *text;
    for (size_t i = 0; i < json_count(list) && json_item(list, i, &item); i++)
        if (json_as_string(&item, &text, NULL) == 0 && str_equal(text, word))
            return true;
    return false;
}

static int64_t number(const struct json *at, const char *key) {
    int64_t n = -1;
    (void)json_get_integer(at, key, JSON_OPTIONAL, 0, INT64_MAX, &n, NULL);
    return n;
}

static void test_create(void **state) {
    (void)state;
    struct mount_spec mount = {.source = "/host", .target = "/data", .read_only = true};
    struct sandbox_spec spec = {.id = ID_A,
                                .hostname = "box",
                                .owner = ID_B,
                                .memory_bytes = 64 << 20,
                                .cpu_quota_us = 50000,
                                .pids = 40,
                                .disk_bytes = 32 << 20,
                                .mounts = &mount,
                                .mount_count = 1};
    static const char *const sources[] = {"/host/\"quoted\""};
    struct docker_plan plan = {.runtime = "",
                               .spec = &spec,
                               .image = "sha256:aa",
                               .home = "/s",
                               .version = "1",
                               .door = "/s/docker/x/in",
                               .sources = sources};
    _cleanup_(buf_free) struct buf out = BUF_INIT(65536);
    _cleanup_(json_freep) struct json_document *doc = NULL;
    assert_int_equal(docker_spec_create(&plan, &out, NULL), 0);
    assert_int_equal(json_parse("body", out.data, out.len, &doc, NULL), 0);
    struct json root = json_root(doc, ""), host = member(&root, "HostConfig");
    struct json drop = member(&host, "CapDrop"), add = member(&host, "CapAdd");
    struct json labels = member(&root, "Labels"), storage = member(&host, "StorageOpt");
    struct json security = member(&host, "SecurityOpt"), mounts = member(&host, "Mounts"), item;
    const char *text = NULL;
    bool flag = true;
    assert_int_equal(json_get_string(&labels, "cay.key", JSON_REQUIRED, &text, NULL), 0);
    assert_string_equal(text, ID_B);
    assert_int_equal(json_get_string(&storage, "size", JSON_REQUIRED, &text, NULL), 0);
    assert_string_equal(text, "33554432");
    assert_int_equal(number(&host, "Memory"), 64 << 20);
    assert_int_equal(number(&host, "MemorySwap"), 64 << 20);
    assert_int_equal(number(&host, "CpuQuota"), 50000);
    assert_int_equal(number(&host, "PidsLimit"), 40);
    struct json hidden = member(&host, "MaskedPaths");
    assert_int_equal(json_get_string(&host, "CgroupnsMode", JSON_REQUIRED, &text, NULL), 0);
    assert_string_equal(text, "private");
    assert_true(has_word(&hidden, "/proc/kcore") && has_word(&hidden, "/sys/firmware") &&
                has_word(&hidden, "/proc/vmallocinfo") && has_word(&hidden, "/proc/slabinfo"));
    assert_true(has_word(&drop, "ALL") && has_word(&security, "no-new-privileges"));
    assert_true(has_word(&add, "SETUID") && !has_word(&add, "SYS_ADMIN"));
    assert_false(has_word(&add, "DAC_OVERRIDE"));
    assert_int_equal(json_get_bool(&host, "Privileged", JSON_REQUIRED, &flag, NULL), 0);
    assert_false(flag);
    assert_int_equal(json_get_string(&host, "NetworkMode", JSON_REQUIRED, &text, NULL), 0);
    assert_string_equal(text, "none");
    assert_int_equal(json_count(&mounts), 2);
    assert_true(json_item(&mounts, 1, &item));
    assert_int_equal(json_get_string(&item, "Source", JSON_REQUIRED, &text, NULL), 0);
    assert_string_equal(text, sources[0]);
    assert_int_equal(json_get_bool(&item, "ReadOnly", JSON_REQUIRED, &flag, NULL), 0);
    assert_true(flag);
}

static void test_build_profile(void **state) {
    (void)state;
    struct sandbox_spec spec = {.id = ID_A, .profile = PROFILE_BUILD, .read_only = true};
    struct docker_plan plan = {.runtime = "",
                               .spec = &spec,
                               .image = "i",
                               .home = "/s",
                               .version = "1",
                               .door = "/d",
                               .work = "/w"};
    _cleanup_(buf_free) struct buf out = BUF_INIT(65536);
    _cleanup_(json_freep) struct json_document *doc = NULL;
    assert_int_equal(docker_spec_create(&plan, &out, NULL), 0);
    assert_int_equal(json_parse("body", out.data, out.len, &doc, NULL), 0);
    struct json root = json_root(doc, ""), host = member(&root, "HostConfig");
    struct json add = member(&host, "CapAdd"), tmpfs = member(&host, "Tmpfs");
    assert_true(has_word(&add, "DAC_OVERRIDE") && has_word(&add, "CHOWN"));
    assert_int_equal(json_count(&tmpfs), 2);
    bool disabled = true; /* nobody could write /etc/hosts then */
    assert_int_equal(json_get_bool(&root, "NetworkDisabled", JSON_REQUIRED, &disabled, NULL), 0);
    assert_false(disabled);
    assert_int_equal(number(&host, "Memory"), -1); /* none was asked for */
}

/* ---- one with a network ---- */

static void test_name_servers(void **state) {
    (void)state;
    static const char *const expected[] = {"10.0.0.2", "9.9.9.9", "1.1.1.1"};
    struct docker_walls walls = {.wanted = 1};
    docker_net_parse_servers("# none\nnameserver 127.0.0.53\nnameserver fe80::1\n"
                             "nameserver\t10.0.0.2 # ours\nnameserver 10.0.0.300\nsearch a.com\n"
                             "nameserver 9.9.9.9\nnameserver 1.1.1.1\nnameserver 8.8.8.8",
                             &walls);
    assert_int_equal(walls.server_count, ARRAY_LEN(expected));
    for (size_t i = 0; i < ARRAY_LEN(expected); i++)
        assert_int_equal(walls.servers[i], inet_addr(expected[i]));
}

static void test_bridged(void **state) {
    (void)state;
    struct sandbox_spec spec = {.id = ID_A, .has_bridge = true};
    struct docker_plan plan = {.runtime = "",
                               .spec = &spec,
                               .image = "i",
                               .home = "/s",
                               .version = "1",
                               .door = "/d",
                               .has_network = true};
    _cleanup_(buf_free) struct buf out = BUF_INIT(65536);
    _cleanup_(json_freep) struct json_document *doc = NULL;
    assert_int_equal(docker_spec_create(&plan, &out, NULL), 0);
    assert_int_equal(json_parse("body", out.data, out.len, &doc, NULL), 0);
    struct json root = json_root(doc, ""), host = member(&root, "HostConfig");
    struct json add = member(&host, "CapAdd");
    const char *text = NULL;
    bool flag = true;
    assert_int_equal(json_get_string(&host, "NetworkMode", JSON_REQUIRED, &text, NULL), 0);
    assert_string_equal(text, DOCKER_NETWORK);
    assert_int_equal(json_get_bool(&root, "NetworkDisabled", JSON_REQUIRED, &flag, NULL), 0);
    assert_false(flag);
    assert_true(has_word(&add, "NET_ADMIN") && !has_word(&add, "NET_RAW"));
}

#define NETWORK(driver, labels, icc)                                                               \
    "{\"Id\":\"" HEX_A "\",\"Driver\":\"" driver "\",\"Labels\":" labels                           \
    ",\"Options\":{\"" DOCKER_OPTION_ICC "\":\"" icc                                               \
    "\"},\"IPAM\":{\"Config\":[{\"Subnet\":\"172.18.0.0/16\",\"Gateway\":\"172.18.0.1\"}]}}"
#define OUR_LABEL "{\"" DOCKER_LABEL_NETWORK "\":\"" DOCKER_NETWORK_KIND "\"}"

static void test_network(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int result;
        bool is_ours;
        const char *gateway;
    } cases[] = {
        {NETWORK("bridge", OUR_LABEL, "false"), 0, true, "172.18.0.1"},
        {NETWORK("bridge", OUR_LABEL, "true"), 0, false, "172.18.0.1"},
        {NETWORK("macvlan", OUR_LABEL, "false"), 0, false, "172.18.0.1"},
        {NETWORK("bridge", "null", "false"), 0, false, "172.18.0.1"},
        {"{\"Id\":\"" HEX_A "\"}", 0, false, ""},
        {"{\"Id\":\"" HEX_A "\",\"IPAM\":{\"Config\":[]}}", 0, false, ""},
        {"{\"Id\":\"x\"}", -CAY_INTERNAL, false, ""},
        {"{\"Id\":\"" HEX_A "\",\"Labels\":[]}", -CAY_INVALID_ARGUMENT, false, ""},
        {"{}", -CAY_INVALID_ARGUMENT, false, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct docker_network n;
        int r = docker_parse_network(cases[i].text, strlen(cases[i].text), &n, NULL);
        assert_int_equal(r, cases[i].result);
        if (r < 0)
            continue;
        assert_int_equal(n.is_ours, cases[i].is_ours);
        assert_string_equal(n.gateway, cases[i].gateway);
    }
}

/* A body that does not fit is an error, never a shorter one. */
static void test_create_too_large(void **state) {
    (void)state;
    struct sandbox_spec spec = {.id = ID_A};
    struct docker_plan plan = {
        .runtime = "", .spec = &spec, .image = "i", .home = "/s", .version = "1", .door = "/d"};
    _cleanup_(buf_free) struct buf out = BUF_INIT(100);
    assert_true(docker_spec_create(&plan, &out, NULL) < 0);
}

/* ---- the way in ---- */

struct visitor {
    int folder;
    int sys; /* to report; 0: go without a word */
    int fds[2];
    ssize_t got;
};

static void *visit(void *arg) {
    struct visitor *v = arg;
    static struct docker_orders orders;
    struct docker_report report = {.sys = v->sys, .step = "trying"};
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    size_t count = 0;
    (void)snprintf(name.sun_path, sizeof name.sun_path, "/proc/self/fd/%d/door", v->folder);
    _cleanup_(closep) int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connect(sock, (const struct sockaddr *)&name, sizeof name) < 0)
        return NULL;
    v->got = fd_receive(sock, &orders, sizeof orders, v->fds, 2, &count);
    if (v->sys != 0)
        (void)send(sock, &report, sizeof report, 0);
    return NULL;
}

static void test_door(void **state) {
    (void)state;
    static struct docker_orders orders = {.version = DOCKER_ORDERS_VERSION};
    char path[] = "/tmp/test-docker-XXXXXX";
    assert_non_null(mkdtemp(path));
    _cleanup_(closep) int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 2; i++) {
        struct cay_error err = {0};
        struct visitor v = {.folder = folder, .sys = i == 0 ? 0 : EPERM, .fds = {-1, -1}};
        pthread_t thread;
        int door = docker_door_open(folder, &err);
        assert_true(door >= 0);
        assert_int_equal(pthread_create(&thread, NULL, visit, &v), 0);
        int r = docker_door_serve(door, &orders, folder, folder, 20000, &err);
        (void)pthread_join(thread, NULL);
        assert_int_equal(v.got, sizeof orders);
        assert_true(v.fds[0] >= 0 && v.fds[1] >= 0);
        fd_close(&v.fds[0]);
        fd_close(&v.fds[1]);
        assert_int_equal(r == 0, i == 0);
        if (i == 1)
            assert_non_null(strstr(err.message, "trying"));
        docker_door_close(folder, &door);
        assert_int_equal(faccessat(folder, "door", F_OK, 0), -1);
    }
    assert_int_equal(rmdir(path), 0);
}

/* An image of a container starts what the sandbox's image does, and nobody takes it for ours. */
static void test_commit(void **state) {
    (void)state;
    char *entry[] = {(char[]){"/run"}, (char[]){"-x"}, NULL};
    struct image_record from = {.entrypoint = {.v = entry, .len = 2}, .user = "ann"};
    _cleanup_(buf_free) struct buf out = BUF_INIT(65536);
    _cleanup_(json_freep) struct json_document *doc = NULL;
    assert_int_equal(docker_spec_commit(&from, &out, NULL), 0);
    assert_int_equal(json_parse("body", out.data, out.len, &doc, NULL), 0);
    struct json root = json_root(doc, ""), words = member(&root, "Entrypoint");
    struct json labels = member(&root, "Labels"), none = member(&root, "Cmd");
    const char *text = NULL;
    assert_true(has_word(&words, "/run") && has_word(&words, "-x"));
    assert_int_equal(json_count(&none), 0);
    assert_int_equal(json_get_string(&root, "User", JSON_REQUIRED, &text, NULL), 0);
    assert_string_equal(text, "ann");
    assert_int_equal(json_get_string(&root, "WorkingDir", JSON_REQUIRED, &text, NULL), 0);
    assert_string_equal(text, "/workspace");
    assert_int_equal(json_get_string(&labels, "cay.id", JSON_REQUIRED, &text, NULL), 0);
    assert_string_equal(text, "");
}

static void test_door_that_nobody_uses(void **state) {
    (void)state;
    static struct docker_orders orders;
    char path[] = "/tmp/test-docker-XXXXXX";
    struct cay_error err = {0};
    assert_non_null(mkdtemp(path));
    _cleanup_(closep) int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int door = docker_door_open(folder, &err);
    assert_int_equal(docker_door_serve(door, &orders, folder, folder, 20, &err), -CAY_TIMEOUT);
    docker_door_close(folder, &door);
    assert_int_equal(rmdir(path), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host),         cmocka_unit_test(test_host_refused),
        cmocka_unit_test(test_version),      cmocka_unit_test(test_errors),
        cmocka_unit_test(test_info),         cmocka_unit_test(test_list),
        cmocka_unit_test(test_runtimes),     cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_inspect),      cmocka_unit_test(test_stats),
        cmocka_unit_test(test_loaded),       cmocka_unit_test(test_events),
        cmocka_unit_test(test_create),       cmocka_unit_test(test_build_profile),
        cmocka_unit_test(test_name_servers), cmocka_unit_test(test_bridged),
        cmocka_unit_test(test_network),      cmocka_unit_test(test_create_too_large),
        cmocka_unit_test(test_image_ids),    cmocka_unit_test(test_commit),
        cmocka_unit_test(test_door),         cmocka_unit_test(test_door_that_nobody_uses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
