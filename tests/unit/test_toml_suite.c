/* Runs the public TOML test suite over toml_parse(): every valid file must give the values of its
 * JSON companion, every invalid one an error that names line and column. The suite is test data
 * that may be absent (CAY_TOML_SUITE names its archive); then the test is skipped. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "base/toml/toml.h"

enum { EXIT_SKIP = 77, FILE_MAX = 1024 * 1024 };

static int read_file(int dirfd, const char *path, struct buf *b) {
    _cleanup_(closep) int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd_read_to_end(fd, b);
}

/* ---- comparing ---- */

/* Drops the zeros at the end of a fraction: ".600Z" and ".6Z" are the same time. */
static void trim_fraction(const char *in, char *out, size_t size) {
    const char *dot = strchr(in, '.');
    size_t len = dot != NULL ? strspn(dot + 1, "0123456789") : 0;
    const char *rest = dot != NULL ? dot + 1 + len : "";
    while (len > 0 && dot[len] == '0')
        len--;
    size_t head = dot != NULL ? (size_t)(dot - in) : strlen(in);
    if (str_format(out, size, "%.*s%.*s%s", (int)head, in, len > 0 ? (int)len + 1 : 0,
                   dot != NULL ? dot : "", rest) < 0)
        abort();
}

static bool same_time(const char *a, const char *b) {
    char x[128], y[128];
    trim_fraction(a, x, sizeof x);
    trim_fraction(b, y, sizeof y);
    return strcmp(x, y) == 0;
}

static bool same_float(double a, const char *text) {
    double b = strtod(text, NULL);
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

static bool same_scalar(const struct toml_value *v, const json_t *expected) {
    static const char *const tags[] = {
        [TOML_STRING] = "string",         [TOML_INTEGER] = "integer",
        [TOML_FLOAT] = "float",           [TOML_BOOL] = "bool",
        [TOML_DATETIME] = "datetime",     [TOML_LOCAL_DATETIME] = "datetime-local",
        [TOML_LOCAL_DATE] = "date-local", [TOML_LOCAL_TIME] = "time-local",
    };
    const char *tag = json_string_value(json_object_get(expected, "type"));
    const json_t *value = json_object_get(expected, "value");
    const char *text = json_string_value(value);
    if (tag == NULL || text == NULL || strcmp(tag, tags[v->type]) != 0)
        return false;
    switch (v->type) {
    case TOML_STRING:
        return v->text_len == json_string_length(value) && memcmp(v->text, text, v->text_len) == 0;
    case TOML_INTEGER:
        return v->integer == strtoll(text, NULL, 10);
    case TOML_FLOAT:
        return same_float(v->number, text);
    case TOML_BOOL:
        return v->boolean == (strcmp(text, "true") == 0);
    default:
        return same_time(v->text, text);
    }
}

/* jansson refuses a NUL in a key, so the one such key of the suite ("\0") is looked up, and written
 * in its JSON, as a private-use character instead. */
static void hide_nul_key(struct buf *json) {
    static const char key[] = "\"\\u0000\":", instead[] = "\"\\uf8ff\":";
    char *at = memmem(json->data, json->len, key, strlen(key));
    if (at != NULL)
        memcpy(at, instead, strlen(instead));
}

static const json_t *expected_child(const json_t *expected, const struct toml_value *v) {
    if (v->key_len == 1 && v->key[0] == '\0')
        return json_object_get(expected, "\xef\xa3\xbf");
    return json_object_getn(expected, v->key, v->key_len);
}

static bool same(const struct toml_value *v, const json_t *expected) {
    if (v->line == 0 || v->column == 0)
        return false;
    if (v->type == TOML_TABLE) {
        bool ok = json_is_object(expected) && json_object_size(expected) == v->count;
        for (const struct toml_value *c = v->first; ok && c != NULL; c = c->next) {
            const json_t *e = expected_child(expected, c);
            ok = e != NULL && same(c, e);
        }
        return ok;
    }
    if (v->type == TOML_ARRAY) {
        bool ok = json_is_array(expected) && json_array_size(expected) == v->count;
        size_t i = 0;
        for (const struct toml_value *c = v->first; ok && c != NULL; c = c->next)
            ok = same(c, json_array_get(expected, i++));
        return ok;
    }
    return same_scalar(v, expected);
}

/* ---- one file ---- */

static bool check_valid(int dirfd, const char *path, const struct toml_value *root) {
    char json_path[512];
    _cleanup_(buf_free) struct buf text = BUF_INIT(FILE_MAX);
    size_t stem = strlen(path) - strlen(".toml");
    if (str_format(json_path, sizeof json_path, "%.*s.json", (int)stem, path) < 0)
        abort();
    json_error_t why;
    if (read_file(dirfd, json_path, &text) < 0)
        return false;
    hide_nul_key(&text);
    json_t *expected = json_loadb(buf_text(&text), text.len, JSON_ALLOW_NUL, &why);
    bool ok = expected != NULL && same(root, expected);
    json_decref(expected);
    return ok;
}

/* "suite:LINE:COLUMN: " with both from 1. */
static bool names_place(const char *message) {
    unsigned line = 0, column = 0;
    return sscanf(message, "suite:%u:%u: ", &line, &column) == 2 && line > 0 && column > 0;
}

static bool check_file(int dirfd, const char *path) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(FILE_MAX);
    _cleanup_(toml_freep) struct toml_value *root = NULL;
    struct cay_error err = {0};
    if (read_file(dirfd, path, &text) < 0) {
        printf("%s: cannot be read\n", path);
        return false;
    }
    int r = toml_parse("suite", buf_text(&text), text.len, &root, &err);
    bool ok = str_starts(path, "valid/") ? r == 0 && check_valid(dirfd, path, root)
                                         : r == -CAY_INVALID_ARGUMENT && names_place(err.message);
    if (!ok)
        printf("FAILED %s: %s\n", path, r < 0 ? err.message : "accepted, or with other values");
    return ok;
}

/* ---- the suite ---- */

static int unpack(const char *archive, const char *dir) {
    const char *argv[] = {"tar", "-xzf", archive, "-C", dir, NULL};
    pid_t pid;
    int status;
    if (posix_spawnp(&pid, "tar", NULL, NULL, (char *const *)(uintptr_t)argv, environ) != 0 ||
        waitpid(pid, &status, 0) != pid)
        return -errno;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

static int run_list(int dirfd) {
    _cleanup_(buf_free) struct buf list = BUF_INIT(FILE_MAX);
    unsigned valid = 0, invalid = 0, failed = 0;
    if (read_file(dirfd, "files-toml-1.0.0", &list) < 0 || list.len == 0)
        return EXIT_FAILURE;
    char *rest = list.data;
    for (char *path = strsep(&rest, "\n"); path != NULL; path = strsep(&rest, "\n")) {
        if (!str_ends(path, ".toml"))
            continue;
        *(str_starts(path, "valid/") ? &valid : &invalid) += 1;
        failed += !check_file(dirfd, path);
    }
    printf("toml suite: %u valid and %u invalid files, %u failed\n", valid, invalid, failed);
    return failed == 0 && valid > 100 && invalid > 100 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(void) {
    const char *archive = getenv("CAY_TOML_SUITE");
    if (archive == NULL || access(archive, R_OK) < 0) {
        printf("skipped: the TOML test suite is not here (CAY_TOML_SUITE=%s)\n",
               archive != NULL ? archive : "");
        return EXIT_SKIP;
    }
    char dir[] = "/tmp/cay-toml-suite.XXXXXX", tests[64];
    if (mkdtemp(dir) == NULL || str_format(tests, sizeof tests, "%s/tests", dir) < 0)
        return EXIT_FAILURE;
    int result = EXIT_FAILURE;
    if (unpack(archive, dir) == 0) {
        _cleanup_(closep) int fd = open(tests, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        result = fd < 0 ? EXIT_FAILURE : run_list(fd);
    }
    return path_remove_tree(AT_FDCWD, dir) < 0 ? EXIT_FAILURE : result;
}
