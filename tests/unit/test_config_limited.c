/* Tests of what a file may set that somebody else could have written: one of the current folder, of
 * another owner, or that others can write. */
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
#include "config/config_limited.h"

enum { STRANGER = 54321 };

static const char folder[] = "config/config.toml", user[] = "xdg/cay/config.toml";
static char xdg[PATH_MAX]; /* XDG_CONFIG_HOME=… */
static const char *const env[] = {xdg, NULL};
static unsigned notes;
static char last_note[2048];

static void listen(enum config_source source, const char *note) {
    (void)source;
    notes++;
    assert_int_equal(str_copy(last_note, sizeof last_note, note), 0);
}

static void put(const char *path, const char *text) {
    _cleanup_(closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

static struct config *load(void) {
    struct config *config = NULL;
    struct cay_error err = {0};
    if (config_load(NULL, env, &config, &err) < 0)
        fail_msg("refused: %s", err.message);
    return config;
}

/* ---- each key ---- */

/* A value that is valid and not the default: `more` of it, or less. */
static const char *value_of(const struct config_key *key, bool more) {
    static const struct {
        const char *name, *value;
    } strings[] = {
        {"image", "'other'"},
        {"work_dir", "'/w'"},
        {"network", "'allow=a.com'"},
        {"engine", "'docker'"},
        {"tier", "'basic'"},
        {"network_max", "'private'"},
        {"on_failure", "'remove'"},
        {"listen", "'127.0.0.1:1'"},
        {"log_level", "'debug'"},
        {"public_url", "'https://a'"},
        {"pull", "'always'"},
        {"host", "'https://a'"},
        {"daytona_server_url", "'https://a'"},
    };
    switch (key->kind) {
    case CONFIG_BOOL:
        return str_equal(key->fallback, "true") ? "false" : "true";
    case CONFIG_INTEGER:
        return more ? "64" : "3";
    case CONFIG_NUMBER:
        return more ? "2.0" : "0.5";
    case CONFIG_SIZE:
        return more ? "'9g'" : "'16m'";
    case CONFIG_DURATION:
        return more ? "'59m'" : "7";
    case CONFIG_LIST:
        return "['a']";
    case CONFIG_MAP:
        return "{ a = 'b' }";
    case CONFIG_STRING:
        break;
    }
    for (size_t i = 0; i < ARRAY_LEN(strings); i++)
        if (str_equal(strings[i].name, key->name))
            return strings[i].value;
    return "'/some/text'";
}

static void put_key(const char *path, const struct config_key *key, const char *value) {
    char text[256];
    assert_int_equal(
        str_format(text, sizeof text, "[%s]\n%s = %s\n", key->section, key->name, value), 0);
    put(path, text);
}

/* Loads what the file has now, and says whether it counted. */
static bool is_taken(size_t row, enum config_source source) {
    _cleanup_(config_freep) struct config *c = load();
    bool taken = c->values[row].source == source;
    assert_int_equal(c->refusal_count, taken ? 0 : 1);
    struct cay_error err = {0};
    assert_int_equal(config_check_refusals(c, &err), taken ? 0 : -CAY_FORBIDDEN);
    return taken;
}

/* A row without a decision does not compile; this says what the decisions are. */
static void each_key(void **state) {
    (void)state;
    size_t count;
    const struct config_key *keys = config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        const struct config_key *key = &keys[i];
        assert_in_range(key->trust, CONFIG_TRUSTED, CONFIG_HARMLESS);
        put_key(folder, key, value_of(key, false));
        bool is_number = key->kind != CONFIG_BOOL && key->kind != CONFIG_STRING;
        bool may = key->trust == CONFIG_HARMLESS || str_equal(key->name, "image") ||
                   (key->trust == CONFIG_NARROWS && is_number);
        if (is_taken(i, CONFIG_FROM_FOLDER) != may)
            fail_msg("%s.%s", key->section, key->name);
        if (key->trust != CONFIG_NARROWS || !is_number)
            continue;
        put_key(folder, key, "9000000000");
        if (str_equal(key->name, "pids_limit") || str_equal(key->name, "cpu_limit"))
            put_key(folder, key, "4000");
        if (str_equal(key->name, "timeout"))
            put_key(folder, key, "301");
        assert_false(is_taken(i, CONFIG_FROM_FOLDER));
        assert_true(key->min > 0); /* 0 would mean no limit */
    }
    assert_int_equal(unlink(folder), 0);
}

/* The decisions that must never change by accident. */
static void never(void **state) {
    (void)state;
    static const char *const names[] = {
        "sandbox.use_sandbox",
        "sandbox.allow_host_execution",
        "sandbox.engine",
        "sandbox.tier",
        "manager.volume_folders",
        "manager.volume_root_folders",
        "images.aliases",
        "images.credentials",
        "images.insecure_registries",
        "images.ca_file",
        "remote.host",
        "remote.key_file",
        "remote.ca_file",
        "daytona.daytona_api_key",
        "daytona.daytona_server_url",
        "python.index_url",
        "python.find_links",
        "server.listen",
        "server.tls_key",
    };
    size_t count, found = 0;
    const struct config_key *keys = config_keys(&count);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < ARRAY_LEN(names); j++) {
            char name[96];
            assert_int_equal(str_format(name, sizeof name, "%s.%s", keys[i].section, keys[i].name),
                             0);
            if (!str_equal(name, names[j]))
                continue;
            found++;
            assert_int_equal(keys[i].trust, CONFIG_TRUSTED);
        }
    assert_int_equal(found, ARRAY_LEN(names));
}

/* All that a stranger's folder may touch. A new key is not among them until somebody adds it here,
 * having thought about what a stranger would write there. */
static void only_these(void **state) {
    (void)state;
    static const char *const names[] = {
        "sandbox.use_daemon",      "sandbox.image",     "sandbox.work_dir",
        "sandbox.memory_limit",    "sandbox.cpu_limit", "sandbox.timeout",
        "sandbox.network_enabled", "sandbox.network",   "sandbox.pids_limit",
        "sandbox.disk_limit",      "python.warm",       "python.preload",
    };
    size_t count, found = 0;
    const struct config_key *keys = config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        char name[96];
        bool is_listed = false;
        assert_int_equal(str_format(name, sizeof name, "%s.%s", keys[i].section, keys[i].name), 0);
        for (size_t j = 0; j < ARRAY_LEN(names); j++)
            is_listed |= str_equal(name, names[j]);
        if (is_listed == (keys[i].trust == CONFIG_TRUSTED))
            fail_msg("%s", name);
        found += is_listed;
    }
    assert_int_equal(found, ARRAY_LEN(names));
}

/* ---- a hostile folder ---- */

static void hostile_folder(void **state) {
    (void)state;
    put(user, "[sandbox]\nmemory_limit = '256m'\nnetwork = 'allow=*'\n[llm]\nkey = 'mine'\n");
    put(folder, "[sandbox]\n"
                "use_sandbox = false\n"
                "allow_host_execution = true\n"
                "image = 'host'\n"
                "memory_limit = '300m'\n"
                "pids_limit = 10\n"
                "network = 'allow=10.0.0.0/8'\n"
                "[remote]\n"
                "host = 'https://stranger.example'\n"
                "[llm]\n"
                "base_url = 'https://stranger.example'\n"
                "[mcp]\n"
                "command = 'sh'\n");
    config_listen(listen);
    notes = 0;
    _cleanup_(config_freep) struct config *c = load();
    config_listen(NULL);
    assert_true(c->sandbox.use_sandbox);
    assert_false(c->sandbox.allow_host_execution);
    assert_string_equal(c->sandbox.image, "host"); /* by default, and so not refused */
    assert_int_equal(c->sandbox.memory, 256 << 20);
    assert_int_equal(c->sandbox.pids, 10);
    assert_string_equal(c->sandbox.network, "allow=*");
    assert_string_equal(c->remote.host, "");
    assert_non_null(toml_get(config_section(c, "llm"), "key"));
    assert_null(config_section(c, "mcp"));
    assert_int_equal(c->refusal_count, 7);
    assert_int_equal(notes, 1);
    static const char *const said[] = {
        "ignored in config/config.toml: sandbox.use_sandbox (line 2), ",
        "sandbox.memory_limit (line 5, would widen)",
        "remote.host (line 9)",
        "llm (line 10)",
        "it is the current folder's",
        "--config config/config.toml"};
    for (size_t i = 0; i < ARRAY_LEN(said); i++)
        if (strstr(last_note, said[i]) == NULL)
            fail_msg("'%s' does not say '%s'", last_note, said[i]);

    struct config *named = NULL; /* as the note says */
    struct cay_error err = {0};
    assert_int_equal(config_load(folder, env, &named, &err), 0);
    assert_false(named->sandbox.use_sandbox);
    assert_string_equal(named->remote.host, "https://stranger.example");
    assert_non_null(config_section(named, "mcp"));
    config_free(named);

    struct config *daemons = NULL;
    assert_int_equal(config_load_trusted(NULL, env, &daemons, &err), 0);
    assert_int_equal(daemons->sandbox.pids, 256);
    config_free(daemons);
    assert_int_equal(unlink(folder), 0);
    put(user, "");
}

/* The environment is the user's, over all files. */
static void environment(void **state) {
    (void)state;
    put(folder, "[sandbox]\nmemory_limit = '64m'\n");
    const char *const more[] = {xdg, "CAY_SANDBOX_MEMORY_LIMIT=2g", "CAY_REMOTE_HOST=http://a",
                                NULL};
    struct config *c = NULL;
    struct cay_error err = {0};
    assert_int_equal(config_load(NULL, more, &c, &err), 0);
    assert_true(c->sandbox.memory == UINT64_C(2) << 30);
    assert_string_equal(c->remote.host, "http://a");
    assert_int_equal(c->refusal_count, 0);
    config_free(c);
    assert_int_equal(unlink(folder), 0);
}

static void images(void **state) {
    (void)state;
    _cleanup_(config_freep) struct config *none = load();
    assert_false(config_image_is_limited(none));
    put(user, "[sandbox]\nimage = 'mine'\n");
    _cleanup_(config_freep) struct config *own = load();
    assert_false(config_image_is_limited(own));
    put(folder, "[sandbox]\nimage = 'theirs'\n");
    _cleanup_(config_freep) struct config *theirs = load();
    assert_string_equal(theirs->sandbox.image, "theirs");
    assert_true(config_image_is_limited(theirs));
    put(folder, "[sandbox]\nimage = 'host'\n");
    _cleanup_(config_freep) struct config *host = load();
    assert_string_equal(host->sandbox.image, "mine");
    assert_int_equal(host->refusal_count, 1);
    assert_int_equal(unlink(folder), 0);
    put(user, "");
}

static void networks(void **state) {
    (void)state;
    static const struct {
        const char *now, *wanted;
        bool narrower;
    } cases[] = {
        {"none", "none", true},
        {"allow=*", "none", true},
        {"bridge", "none", true},
        {"bridge", "bridge", true},
        {"none", "allow=a.com", false},
        {"none", "allow=", false},
        {"bridge", "allow=a.com", false},
        {"allow=*", "bridge", false},
        {"allow=*", "allow=a.com", true},
        {"allow=*", "allow=a.com,*.B.com", true},
        {"allow=*", "allow=a.com:22", false},
        {"allow=*", "allow=*:*", false},
        {"allow=*", "allow=10.0.0.1", false},
        {"allow=*", "allow=10.0.0.0/8", false},
        {"allow=*", "allow=a.com,10.0.0.1", false},
        {"allow=*", "allow=[::1]", false},
        {"allow=*", "allow=fe80::a", false},
        {"allow=*", "allow=a.com/8", false},
        {"allow=*.a.com", "allow=b.a.com", true},
        {"allow=*.a.com", "allow=*.b.A.com", true},
        {"allow=*.a.com", "allow=a.com", false},
        {"allow=*.a.com", "allow=ba.com", false},
        {"allow=*.a.com:8080", "allow=b.a.com", false},
        {"allow=*.a.com", "allow=*", false},
        {"allow=a.com,b.com:22,10.0.0.0/8", "allow=10.0.0.0/8, b.com:22", true},
        {"allow=a.com,b.com", "allow=A.com", true},
        {"allow=a.com", "allow=a.com:*", false},
        {"allow=a.com", "allow=xa.com", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (config_network_is_narrower(cases[i].now, cases[i].wanted) != cases[i].narrower)
            fail_msg("%s, %s", cases[i].now, cases[i].wanted);
}

static void network_off(void **state) {
    (void)state;
    put(user, "[sandbox]\nnetwork = 'allow=*'\n");
    put(folder, "[sandbox]\nnetwork_enabled = false\n");
    _cleanup_(config_freep) struct config *off = load();
    assert_string_equal(config_network(off), "none");
    put(user, "[sandbox]\nnetwork = 'none'\n");
    put(folder, "[sandbox]\nnetwork_enabled = true\n");
    _cleanup_(config_freep) struct config *on = load();
    assert_string_equal(config_network(on), "none");
    assert_int_equal(on->refusal_count, 1);
    assert_int_equal(unlink(folder), 0);
    put(user, "");
}

/* ---- whose file it is ---- */

static const char engine[] = "[sandbox]\nengine = 'docker'\nmemory_limit = '64m'\n";

/* Whether the user's file counts in full, and why not. */
static void expect(const char *why) {
    _cleanup_(config_freep) struct config *c = load();
    const char *limited = c->files[CONFIG_FROM_USER].limited;
    if (why == NULL)
        assert_null(limited);
    else
        assert_string_equal(limited, why);
    assert_string_equal(c->sandbox.engine, why == NULL ? "docker" : "native");
    assert_int_equal(c->sandbox.memory, 64 << 20);
}

static void modes(void **state) {
    (void)state;
    static const struct {
        mode_t file, dir;
        const char *why;
    } cases[] = {
        {0644, 0755, NULL},
        {0600, 0700, NULL},
        {0664, 0755, "others can write to it"},
        {0646, 0755, "others can write to it"},
        {0644, 0775, "others can write to its folder"},
        {0644, 0757, "others can write to its folder"},
        {0644, 01777, NULL},
        {0666, 01777, "others can write to it"},
    };
    put(user, engine);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(chmod(user, cases[i].file), 0);
        assert_int_equal(chmod("xdg/cay", cases[i].dir), 0);
        expect(cases[i].why);
    }
    assert_int_equal(chmod(user, 0644), 0);
    assert_int_equal(chmod("xdg/cay", 0755), 0);
}

static void owners(void **state) {
    (void)state;
    if (geteuid() != 0)
        skip(); /* cannot give files away */
    put(user, engine);
    assert_int_equal(chown(user, STRANGER, STRANGER), 0);
    expect("another user owns it");
    assert_int_equal(chown(user, 0, 0), 0);
    assert_int_equal(chown("xdg/cay", STRANGER, STRANGER), 0);
    expect("another user owns its folder");
    assert_int_equal(chown("xdg/cay", 0, 0), 0);
    expect(NULL);
}

/* Then it does not follow a stranger's link in a sticky folder. */
static bool kernel_protects_links(void) {
    FILE *f = fopen("/proc/sys/fs/protected_symlinks", "re");
    int c = f != NULL ? fgetc(f) : '0';
    if (f != NULL)
        (void)fclose(f);
    return c == '1';
}

static void symlinks(void **state) {
    const char *dir = *state;
    char target[PATH_MAX];
    assert_int_equal(str_format(target, sizeof target, "%s/elsewhere/mine.toml", dir), 0);
    assert_int_equal(mkdir("elsewhere", 0755), 0);
    put("elsewhere/mine.toml", engine);
    assert_int_equal(unlink(user), 0);
    assert_int_equal(symlink(target, user), 0);
    expect(NULL);
    assert_int_equal(chmod("elsewhere", 0777), 0);
    expect("others can write to its folder");
    assert_int_equal(chmod("elsewhere", 0755), 0);
    assert_int_equal(chmod("elsewhere/mine.toml", 0666), 0);
    expect("others can write to it");
    assert_int_equal(chmod("elsewhere/mine.toml", 0644), 0);
    if (geteuid() == 0 &&
        !kernel_protects_links()) { /* somebody else's link to our file, in a sticky folder */
        assert_int_equal(chmod("xdg/cay", 01777), 0);
        assert_int_equal(lchown(user, STRANGER, STRANGER), 0);
        expect("another user owns it");
        assert_int_equal(chmod("xdg/cay", 0755), 0);
    }
    assert_int_equal(unlink(user), 0);
    put(user, "");
    assert_int_equal(symlink(target, folder),
                     0); /* a link from the folder to the user's own file */
    _cleanup_(config_freep) struct config *c = load();
    assert_string_equal(c->sandbox.engine, "native");
    assert_int_equal(unlink(folder), 0);
}

static void odd_files(void **state) {
    (void)state;
    static const char *const places[] = {folder, user};
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        struct config *c = NULL;
        struct cay_error err = {0};
        (void)unlink(places[i]);
        assert_int_equal(mkfifo(places[i], 0644), 0);
        assert_int_equal(config_load(NULL, env, &c, &err), -CAY_CONFLICT); /* at once */
        assert_non_null(strstr(err.message, "is not a regular file"));
        assert_int_equal(unlink(places[i]), 0);
        assert_int_equal(mkdir(places[i], 0755), 0);
        assert_int_equal(config_load(NULL, env, &c, &err), -CAY_CONFLICT);
        assert_int_equal(rmdir(places[i]), 0);
        assert_int_equal(symlink("/dev/zero", places[i]), 0);
        assert_int_equal(config_load(NULL, env, &c, &err), -CAY_CONFLICT);
        assert_int_equal(unlink(places[i]), 0);
        put(places[i], "");
        assert_int_equal(truncate(places[i], TOML_SIZE_MAX + 1), 0);
        assert_int_equal(config_load(NULL, env, &c, &err), -CAY_INVALID_ARGUMENT);
        assert_non_null(strstr(err.message, "larger than"));
        put(places[i], "[sandbox]\nmemory_limt = 1\n");
        assert_int_equal(config_load(NULL, env, &c, &err), -CAY_INVALID_ARGUMENT);
        assert_int_equal(unlink(places[i]), 0);
        assert_null(c);
    }
}

static int enter_folder(void **state) {
    static char dir[] = "/tmp/cay-test-limited.XXXXXX";
    struct cay_error err;
    *state = dir;
    return mkdtemp(dir) == NULL || chdir(dir) < 0 || mkdir("config", 0755) < 0 ||
                   path_make_dirs_trusted("xdg/cay", 0755, &err) < 0 ||
                   str_format(xdg, sizeof xdg, "XDG_CONFIG_HOME=%s/xdg", dir) < 0
               ? -1
               : 0;
}

static int leave_folder(void **state) {
    return chdir("/") < 0 ? -1 : path_remove_tree(AT_FDCWD, *state);
}

int main(void) {
    if (access("/etc/cay/config.toml", F_OK) == 0)
        return 77; /* this machine has a configuration, which would be read */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_key),    cmocka_unit_test(never),
        cmocka_unit_test(only_these),  cmocka_unit_test(hostile_folder),
        cmocka_unit_test(environment), cmocka_unit_test(images),
        cmocka_unit_test(networks),    cmocka_unit_test(network_off),
        cmocka_unit_test(modes),       cmocka_unit_test(owners),
        cmocka_unit_test(symlinks),    cmocka_unit_test(odd_files),
    };
    return cmocka_run_group_tests_name("config_limited", tests, enter_folder, leave_folder);
}
