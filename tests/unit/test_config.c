/* Tests of config: defaults, file, environment, their order, and what is refused with which words.
 * They run in a folder of their own, since ./config/config.toml counts. */
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/toml/toml.h"
#include "config/config.h"

static const char *const no_env[] = {NULL};

static void put_file(const char *path, const char *text) {
    char dir[PATH_MAX];
    struct cay_error err;
    assert_int_equal(str_copy(dir, sizeof dir, path), 0);
    char *slash = strrchr(dir, '/');
    if (slash != NULL) {
        *slash = '\0';
        assert_int_equal(path_make_dirs_trusted(dir, 0755, &err), 0);
    }
    _cleanup_(closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

static size_t row_of(const char *section, const char *name) {
    size_t count;
    const struct config_key *keys = config_keys(&count);
    for (size_t i = 0; i < count; i++)
        if (str_equal(keys[i].section, section) && str_equal(keys[i].name, name))
            return i;
    fail_msg("no key %s.%s", section, name);
    return 0;
}

static struct config *load(const char *path, const char *const *env) {
    struct config *config = NULL;
    struct cay_error err = {0};
    if (config_load(path, env, &config, &err) < 0)
        fail_msg("refused: %s", err.message);
    return config;
}

static void table(void **state) {
    (void)state;
    size_t count;
    const struct config_key *keys = config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        assert_non_null(keys[i].help);
        assert_in_range(keys[i].offset, 0, sizeof(struct config) - 1);
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(keys[i].offset, keys[j].offset);
            assert_false(str_equal(keys[i].section, keys[j].section) &&
                         str_equal(keys[i].name, keys[j].name));
        }
    }
}

static void defaults(void **state) {
    (void)state;
    put_file("empty.toml", "");
    _cleanup_(config_freep) struct config *c = load("empty.toml", no_env);
    assert_true(c->sandbox.use_sandbox);
    assert_false(c->sandbox.allow_host_execution);
    assert_string_equal(c->sandbox.image, "host");
    assert_string_equal(c->sandbox.work_dir, "/workspace");
    assert_int_equal(c->sandbox.memory, 512 << 20);
    assert_true(c->sandbox.cpus == 1.0);
    assert_int_equal(c->sandbox.timeout_ms, 300000);
    assert_false(c->sandbox.network_enabled);
    assert_string_equal(c->sandbox.engine, "native");
    assert_int_equal(c->sandbox.pids, 256);
    assert_true(c->sandbox.disk == UINT64_C(5) << 30);
    assert_int_equal(c->manager.max_sandboxes, 100);
    assert_int_equal(c->manager.idle_timeout_ms, 3600000);
    assert_int_equal(c->manager.auto_delete_minutes, -1);
    assert_string_equal(c->server.listen, "");
    assert_int_equal(c->server.allowed_hosts.len, 0);
    char origin[64];
    assert_string_equal(config_origin(c, 0, origin, sizeof origin), "default");
}

static void file_and_environment(void **state) {
    (void)state;
    put_file("mine.toml", "[sandbox]\n"
                          "image = \"python\"\n"
                          "memory_limit = 1048576\n"
                          "cpu_limit = +0.5\n"
                          "timeout = 1.5\n"
                          "network_enabled = true\n"
                          "disk_limit = \"1g\"\n"
                          "[manager]\n"
                          "idle_timeout = \"0\"\n"
                          "[server]\n"
                          "allowed_hosts = [\"a.example\", \"b.example\"]\n"
                          "[llm.fast]\n"
                          "model = 'm'\n");
    static const char *const env[] = {
        "CAY_SANDBOX_MEMORY_LIMIT=1g",          "CAY_SANDBOX_NETWORK_ENABLED=0",
        "CAY_SERVER_ALLOWED_ORIGINS= x , y",    "CAY_SANDBOX_UNKNOWN=left alone",
        "CAY_SANDBOX_MEMORY_LIMITS=left alone", NULL};
    _cleanup_(config_freep) struct config *c = load("mine.toml", env);
    assert_string_equal(c->sandbox.image, "python");
    assert_int_equal(c->sandbox.memory, 1 << 30);
    assert_true(c->sandbox.cpus == 0.5);
    assert_int_equal(c->sandbox.timeout_ms, 1500);
    assert_false(c->sandbox.network_enabled);
    assert_int_equal(c->sandbox.disk, 1 << 30);
    assert_int_equal(c->manager.idle_timeout_ms, 0);
    assert_int_equal(c->server.allowed_hosts.len, 2);
    assert_string_equal(c->server.allowed_hosts.v[1], "b.example");
    assert_int_equal(c->server.allowed_origins.len, 2);
    assert_string_equal(c->server.allowed_origins.v[0], "x");
    assert_non_null(toml_get(toml_get(config_section(c, "llm"), "fast"), "model"));
    assert_null(config_section(c, "mcp"));

    static const struct {
        const char *section, *name, *text, *origin;
    } cases[] = {
        {"sandbox", "image", "python", "mine.toml:2"},
        {"sandbox", "memory_limit", "1g", "CAY_SANDBOX_MEMORY_LIMIT"},
        {"sandbox", "pids_limit", "256", "default"},
        {"server", "allowed_hosts", "a.example,b.example", "mine.toml:11"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        size_t row = row_of(cases[i].section, cases[i].name);
        char origin[64];
        assert_string_equal(c->values[row].text, cases[i].text);
        assert_string_equal(config_origin(c, row, origin, sizeof origin), cases[i].origin);
    }
}

static const struct {
    const char *text, *message, *remedy;
} bad_files[] = {
    {"[sandbox]\n memory_limt='1g'",
     "bad.toml:2:2: unknown key in [sandbox]: 'memory_limt'; "
     "did you mean 'memory_limit'?",
     "memory_limit"},
    {"[sandbox]\nwhatever=1", "bad.toml:2:1: unknown key in [sandbox]: 'whatever'", "remove"},
    {"[sandbox]\n[sandbox.x]", "bad.toml:2:10: unknown key in [sandbox]: 'x'", ""},
    {"[sandbx]", "bad.toml:1:2: unknown section 'sandbx'; did you mean 'sandbox'?", "sandbox"},
    {"image='x'", "bad.toml:1:1: 'image' stands outside of its section", "[sandbox]"},
    {"[[sandbox]]", "bad.toml:1:3: 'sandbox' is a section, not a key or an array", "[sandbox]"},
    {"llm = 1", "bad.toml:1:1: 'llm' is a section, not a key or an array", "[llm]"},
    {"sandbox.memory_limit='0'", "bad.toml:1:22: sandbox.memory_limit: '0' must be more", "512m"},
    {"sandbox.memory_limit=-1", "bad.toml:1:22: sandbox.memory_limit: '-1' must be more", ""},
    {"sandbox.memory_limit=true",
     "bad.toml:1:22: sandbox.memory_limit: expected a size such as "
     "\"512m\", found a boolean",
     "memory_limit ="},
    {"sandbox.memory_limit='x'", "bad.toml:1:22: sandbox.memory_limit: 'x' is not a size", ""},
    {"sandbox.cpu_limit=0", "bad.toml:1:19: sandbox.cpu_limit: '0' is out of range", "0.01"},
    {"sandbox.cpu_limit=nan", "bad.toml:1:19: sandbox.cpu_limit: 'nan' is not a number", ""},
    {"sandbox.timeout=0", "bad.toml:1:17: sandbox.timeout: '0' is out of range", "seconds"},
    {"sandbox.pids_limit=0", "bad.toml:1:20: sandbox.pids_limit: '0' is out of range", "from 1"},
    {"sandbox.pids_limit=1.5", "bad.toml:1:20: sandbox.pids_limit: expected a whole", ""},
    {"sandbox.pids_limit='9'", "bad.toml:1:20: sandbox.pids_limit: expected a whole", ""},
    {"sandbox.image=''", "bad.toml:1:15: sandbox.image: must not be empty", "default"},
    {"sandbox.image=\"a\\nb\"", "sandbox.image: 'a\\x0ab' contains a control character", ""},
    {"sandbox.image=\"a\\u0000b\"", "sandbox.image: 'a' contains a NUL character", ""},
    {"sandbox.work_dir='w'", "bad.toml:1:18: sandbox.work_dir: 'w' is not absolute", ""},
    {"sandbox.work_dir='/a/../b'", "bad.toml:1:18: sandbox.work_dir: '/a/../b' contains", ""},
    {"sandbox.engine='kvm'", "bad.toml:1:16: sandbox.engine: no engine is called 'kvm'", "native"},
    {"sandbox.use_sandbox='no'", "expected true or false, found a string", ""},
    {"sandbox.use_sandbox=false", "all rights of who runs cay", "allow_host_execution"},
    {"manager.max_sandboxes=0", "manager.max_sandboxes: '0' is out of range", ""},
    {"manager.auto_delete_interval=-2", "manager.auto_delete_interval: '-2' is out of", "-1"},
    {"server.listen='3986'", "server.listen: '3986' is not ADDRESS:PORT", "127.0.0.1:3986"},
    {"server.listen='a:65536'", "server.listen: 'a:65536' is not ADDRESS:PORT", ""},
    {"server.allowed_hosts=['a,b']", "server.allowed_hosts: 'a,b' is empty or contains", ""},
    {"server.allowed_hosts=[1]", "expected an array of strings, found an integer", ""},
    {"server.tls_cert='/c'", "server.tls_cert is set, but server.tls_key is not", "both"},
    {"images.pull='often'", "images.pull: 'often' is no pull policy", "missing"},
    {"[images]\nalias={}", "unknown key in [images]: 'alias'", ""},
    {"[images]\naliasses={}", "'aliasses'; did you mean 'aliases'?", "aliases"},
    {"images.aliases=['a=b']", "expected a table of strings, found an array", "aliases ="},
    {"images.aliases.a=1", "expected a table of strings, found an integer", ""},
    {"images.aliases.a=''", "images.aliases: 'a' or its value is empty", "KEY"},
    {"images.aliases.''='a'", "images.aliases: '' or its value is empty", ""},
    {"images.aliases.'a=b'='c'", "images.aliases: 'a=b' or its value", ""},
    {"images.aliases.a=\"b\\u0000c\"", "images.aliases: 'a' or its value", ""},
    {"[sandbox", "bad.toml:1:9: expected ']'", ""},
    {"[sandbox]\nnetwork_enabled=true\nnetwork='none'",
     "bad.toml:3: sandbox.network_enabled is true, but sandbox.network is none", "one of the two"},
    {"[sandbox]\nnetwork='allow=*'\nnetwork_enabled=false",
     "network_enabled is false, but sandbox.network opens a network", "one of the two"},
};

static void refused_files(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad_files); i++) {
        struct config *c = NULL;
        struct cay_error err = {0};
        put_file("bad.toml", bad_files[i].text);
        assert_int_equal(config_load("bad.toml", no_env, &c, &err), -CAY_INVALID_ARGUMENT);
        assert_null(c);
        if (strstr(err.message, bad_files[i].message) == NULL)
            fail_msg("%s: '%s'", bad_files[i].text, err.message);
        if (strstr(err.remedy, bad_files[i].remedy) == NULL)
            fail_msg("%s: '%s'", bad_files[i].text, err.remedy);
    }
}

static void refused_variables(void **state) {
    (void)state;
    static const char *const cases[] = {
        "CAY_SANDBOX_MEMORY_LIMIT=",     "CAY_SANDBOX_MEMORY_LIMIT=-1g",
        "CAY_SANDBOX_CPU_LIMIT=-1",      "CAY_SANDBOX_USE_SANDBOX=no",
        "CAY_SANDBOX_TIMEOUT=0",         "CAY_SANDBOX_PIDS_LIMIT=1x",
        "CAY_SERVER_ALLOWED_HOSTS=a,,b", "CAY_IMAGES_ALIASES=a=b,c",
        "CAY_IMAGES_ALIASES=a=",         "CAY_IMAGES_PULL=sometimes",
    };
    put_file("empty.toml", "");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *const env[] = {cases[i], NULL};
        struct config *c = NULL;
        struct cay_error err = {0};
        assert_int_equal(config_load("empty.toml", env, &c, &err), -CAY_INVALID_ARGUMENT);
        size_t name = strcspn(cases[i], "=");
        assert_memory_equal(err.message, cases[i], name);
        assert_string_not_equal(err.remedy, "");
    }
}

static void images(void **state) {
    (void)state;
    put_file("images.toml", "[images]\n"
                            "pull = 'never'\n"
                            "prepull = ['cay/python']\n"
                            "insecure_registries = ['reg.example:5000']\n"
                            "ca_file = '/etc/ca.pem'\n"
                            "[images.aliases]\n"
                            "\"python:3.12-slim\" = \"cay/python\"\n"
                            "data = 'cay/data'\n");
    _cleanup_(config_freep) struct config *c = load("images.toml", no_env);
    assert_string_equal(c->images.pull, "never");
    assert_string_equal(c->images.ca_file, "/etc/ca.pem");
    assert_string_equal(c->images.prepull.v[0], "cay/python");
    assert_string_equal(c->images.insecure_registries.v[0], "reg.example:5000");
    assert_int_equal(c->images.aliases.len, 2);
    assert_string_equal(c->images.aliases.v[0], "python:3.12-slim=cay/python");
    assert_string_equal(c->images.aliases.v[1], "data=cay/data");

    static const char *const env[] = {"CAY_IMAGES_ALIASES=a=b, c=d", NULL};
    _cleanup_(config_freep) struct config *other = load("images.toml", env);
    assert_int_equal(other->images.aliases.len, 2);
    assert_string_equal(other->images.aliases.v[1], "c=d");

    put_file("inline.toml", "images.aliases = { a = 'b' }\n");
    _cleanup_(config_freep) struct config *inlined = load("inline.toml", no_env);
    assert_string_equal(inlined->images.aliases.v[0], "a=b");
}

/* Loads without --config and compares the last file that was read (NULL: none). */
static void expect_file(const char *const *env, const char *file) {
    _cleanup_(config_freep) struct config *c = load(NULL, env);
    const char *last = NULL;
    for (size_t i = 0; i < CONFIG_SOURCES; i++)
        if (c->files[i].path != NULL)
            last = c->files[i].path;
    if (file == NULL)
        assert_null(last);
    else
        assert_string_equal(last, file);
}

static void search_order(void **state) {
    const char *dir = *state;
    char home[PATH_MAX], xdg[PATH_MAX], named[PATH_MAX], at_home[PATH_MAX], at_xdg[PATH_MAX];
    if (access("/etc/cay/config.toml", F_OK) == 0)
        skip(); /* this machine has one, and it would be found */
    assert_int_equal(str_format(home, sizeof home, "HOME=%s/home", dir), 0);
    assert_int_equal(str_format(xdg, sizeof xdg, "XDG_CONFIG_HOME=%s/xdg", dir), 0);
    assert_int_equal(str_format(named, sizeof named, "CAY_CONFIG=%s/named.toml", dir), 0);
    assert_int_equal(str_format(at_home, sizeof at_home, "%s/home/.config/cay/config.toml", dir),
                     0);
    assert_int_equal(str_format(at_xdg, sizeof at_xdg, "%s/xdg/cay/config.toml", dir), 0);
    const char *const by_home[] = {home, "XDG_CONFIG_HOME=", "CAY_CONFIG=", NULL};
    const char *const by_xdg[] = {home, xdg, NULL};
    const char *const by_name[] = {home, xdg, named, NULL};

    expect_file(no_env, NULL);
    expect_file(by_home, NULL);
    put_file(at_home, "");
    expect_file(by_home, at_home);
    expect_file(by_xdg, NULL); /* another XDG folder replaces ~/.config */
    put_file(at_xdg, "");
    expect_file(by_xdg, at_xdg);
    put_file("config/config.toml", "");
    expect_file(by_xdg, "config/config.toml");

    struct config *c = NULL;
    struct cay_error err = {0};
    assert_int_equal(config_load(NULL, by_name, &c, &err), -CAY_NOT_FOUND);
    assert_non_null(strstr(err.message, "$CAY_CONFIG"));
    put_file("named.toml", "");
    expect_file(by_name, named + strlen("CAY_CONFIG="));
    assert_int_equal(config_load("missing.toml", by_name, &c, &err), -CAY_NOT_FOUND);
    assert_non_null(strstr(err.message, "'missing.toml' (--config)"));
    assert_int_equal(unlink("config/config.toml"), 0);
}

static void odd_files(void **state) {
    (void)state;
    struct config *c = NULL;
    struct cay_error err = {0};
    assert_int_equal(config_load(".", no_env, &c, &err), -CAY_CONFLICT); /* a folder */
    _cleanup_(closep) int fd = open("big.toml", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(ftruncate(fd, TOML_SIZE_MAX + 1), 0);
    assert_int_equal(config_load("big.toml", no_env, &c, &err), -CAY_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "larger than"));
}

/* Two keys choose the network; the layer that says something later decides for both. */
static void network(void **state) {
    (void)state;
    static const struct {
        const char *file, *variable, *network, *origin;
    } cases[] = {
        {"", NULL, "none", "default"},
        {"network_enabled=true", NULL, "allow=*", "net.toml:2"},
        {"network='allow=a.com'", NULL, "allow=a.com", "net.toml:2"},
        {"network_enabled=true\nnetwork='allow=a.com'", NULL, "allow=a.com", "net.toml:3"},
        {"network_enabled=false\nnetwork='none'", NULL, "none", "net.toml:3"},
        {"network='allow=a.com'", "CAY_SANDBOX_NETWORK_ENABLED=0", "none",
         "CAY_SANDBOX_NETWORK_ENABLED"},
        {"network_enabled=true", "CAY_SANDBOX_NETWORK=none", "none", "CAY_SANDBOX_NETWORK"},
        {"network='none'", "CAY_SANDBOX_NETWORK_ENABLED=1", "allow=*",
         "CAY_SANDBOX_NETWORK_ENABLED"},
        {"network_enabled=false", "CAY_SANDBOX_NETWORK=allow=a.com", "allow=a.com",
         "CAY_SANDBOX_NETWORK"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *const env[] = {cases[i].variable, NULL};
        char text[128], origin[64];
        assert_int_equal(str_format(text, sizeof text, "[sandbox]\n%s\n", cases[i].file), 0);
        put_file("net.toml", text);
        _cleanup_(config_freep) struct config *c = load("net.toml", env);
        assert_string_equal(config_network(c), cases[i].network);
        assert_int_equal(c->sandbox.network_enabled, !str_equal(cases[i].network, "none"));
        (void)config_origin(c, row_of("sandbox", "network"), origin, sizeof origin);
        if (strncmp(origin, "CAY_SANDBOX_NETWORK", 19) != 0)
            assert_string_equal(origin, cases[i].origin);
    }
    static const char *const both[] = {"CAY_SANDBOX_NETWORK=none", "CAY_SANDBOX_NETWORK_ENABLED=1",
                                       NULL};
    struct config *c = NULL;
    struct cay_error err = {0};
    assert_int_equal(config_load("net.toml", both, &c, &err), -CAY_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "network_enabled is true"));
}

/* In another process it is the same but for what is secret. */
static void packed(void **state) {
    (void)state;
    struct config *c = NULL, *other = NULL;
    struct cay_error err = {0};
    size_t count;
    const struct config_key *keys = config_keys(&count);
    put_file("packed.toml", "[sandbox]\nmemory_limit = \"96m\"\n[manager]\nidle_timeout = \"5m\"\n"
                            "pool_images = [\"a\", \"b\"]\n[server]\nallowed_hosts = [\"x.org\"]\n"
                            "[images]\naliases = { p = \"python:3\" }\n"
                            "credentials = { \"r.example\" = \"me:secret\" }\n");
    c = load("packed.toml", no_env);
    _cleanup_(closep) int fd = config_pack(c, &err);
    assert_true(fd >= 0);
    assert_int_equal(config_unpack(fd, &other, &err), 0);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(other->values[i].text,
                            keys[i].secret ? keys[i].fallback : c->values[i].text);
    assert_int_equal(other->sandbox.memory, 96 << 20);
    assert_int_equal(other->manager.idle_timeout_ms, 300000);
    assert_int_equal(other->manager.pool_images.len, 2);
    assert_string_equal(other->server.allowed_hosts.v[0], "x.org");
    assert_string_equal(other->images.aliases.v[0], c->images.aliases.v[0]);
    assert_int_equal(other->images.credentials.len, 0);
    config_free(other);
    config_free(c);
}

static void packed_badly(void **state) {
    (void)state;
    struct config *c = load("packed.toml", no_env), *other = NULL;
    struct cay_error err = {0};
    _cleanup_(closep) int fd = config_pack(c, &err);
    off_t len = lseek(fd, 0, SEEK_END);
    for (off_t n = len - 1; n >= 0; n -= n > 16 ? 7 : 1) { /* cut off anywhere */
        assert_int_equal(ftruncate(fd, n), 0);
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        assert_true(config_unpack(fd, &other, &err) < 0);
    }
    assert_null(other);
    config_free(c);
}

static int enter_folder(void **state) {
    static char dir[] = "/tmp/cay-test-config.XXXXXX";
    *state = dir;
    return mkdtemp(dir) == NULL || chdir(dir) < 0 ? -1 : 0;
}

static int leave_folder(void **state) {
    return chdir("/") < 0 ? -1 : path_remove_tree(AT_FDCWD, *state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(defaults),
        cmocka_unit_test(file_and_environment),
        cmocka_unit_test(images),
        cmocka_unit_test(refused_files),
        cmocka_unit_test(refused_variables),
        cmocka_unit_test(search_order),
        cmocka_unit_test(odd_files),
        cmocka_unit_test(network),
        cmocka_unit_test(packed),
        cmocka_unit_test(packed_badly),
    };
    return cmocka_run_group_tests_name("config", tests, enter_folder, leave_folder);
}
