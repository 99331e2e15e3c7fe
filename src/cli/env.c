#include "cli/env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"

enum { FILE_MAX = 1 << 20 };

static bool is_name(const char *text) {
    static const char digits[] = "0123456789",
                      all[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    return text[0] != '\0' && strchr(digits, text[0]) == NULL && text[strspn(text, all)] == '\0';
}

static int add(const char *text, struct strv *ret, struct cay_error *err) {
    const char *value = is_name(text) ? getenv(text) : NULL;
    int r = 0;
    if (value != NULL)
        r = strv_pushf(ret, "%s=%s", text, value);
    else if (!is_name(text))
        r = strv_push(ret, text); /* KEY=VALUE, or something that is refused later */
    return r < 0 ? error_sys(err, -r, "collecting environment variables") : 0;
}

static int read_file(const char *path, char *text, size_t size, struct cay_error *err) {
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, "opening the environment file %.200s", path);
    size_t len = 0;
    ssize_t n;
    while (len < size && (n = read(fd, text + len, size - len)) != 0) {
        if (n < 0 && errno != EINTR)
            return error_errno(err, "reading the environment file %.200s", path);
        len += (size_t)MAX(n, (ssize_t)0);
    }
    if (len == size) {
        error_set(err, CAY_INVALID_ARGUMENT, "the environment file %.200s is too large", path);
        return error_remedy(err, "use a file of less than 1 MiB");
    }
    if (memchr(text, '\0', len) != NULL) {
        error_set(err, CAY_INVALID_ARGUMENT, "the environment file %.200s contains a NUL", path);
        return error_remedy(err, "write lines of KEY=VALUE");
    }
    text[len] = '\0';
    return 0;
}

/* A line is KEY=VALUE or KEY, as it stands; empty lines and those with '#' first are comments. */
static int add_file(const char *path, struct strv *ret, struct cay_error *err) {
    _cleanup_(freep) char *text = malloc(FILE_MAX);
    if (text == NULL)
        return error_sys(err, ENOMEM, "reading the environment file");
    int r = read_file(path, text, FILE_MAX, err);
    if (r < 0)
        return r;
    char *rest = text;
    for (unsigned number = 1; rest != NULL; number++) {
        char *line = strsep(&rest, "\n");
        line += strspn(line, " \t");
        size_t len = strlen(line);
        if (len > 0 && line[len - 1] == '\r')
            line[len - 1] = '\0';
        if (line[0] == '\0' || line[0] == '#')
            continue;
        if (line[0] == '=') {
            error_set(err, CAY_INVALID_ARGUMENT, "line %u of %.200s has no name before '='", number,
                      path);
            return error_remedy(err, "write KEY=VALUE");
        }
        r = add(line, ret, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int env_collect(const struct strv *files, const struct strv *given, struct strv *ret,
                struct cay_error *err) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < files->len; i++)
        r = add_file(files->v[i], ret, err);
    for (size_t i = 0; r == 0 && i < given->len; i++)
        r = add(given->v[i], ret, err);
    return r;
}
