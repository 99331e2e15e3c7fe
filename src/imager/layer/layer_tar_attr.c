#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/auto.h"
#include "base/str.h"
#include "imager/layer/base64.h"
#include "imager/layer/layer_tar_parts.h"

#define ACL_DEFAULT "system.posix_acl_default"

/* Other security.* and trusted.* are this host's. An image has no user.overlay.*, and no name with
 * "=", for which other readers of PAX have no form. */
static bool is_kept(const char *name, enum attr_choice choice) {
    if (strcmp(name, "security.capability") == 0)
        return true;
    if (choice == ATTR_OF_LAYER)
        return str_starts(name, "user.") && !str_starts(name, "user.overlay.") &&
               strchr(name, '=') == NULL;
    if (choice == ATTR_RAW_WITHOUT_DEFAULT && strcmp(name, ACL_DEFAULT) == 0)
        return false;
    return str_starts(name, "user.") || str_starts(name, "system.posix_acl_");
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* libarchive's own form: the name as in an URL, the value in base64. */
static int put_encoded(const char *name, const void *value, size_t len, struct buf *out) {
    _cleanup_(buf_free) struct buf key = BUF_INIT(4096);
    _cleanup_(freep) char *text = base64_encode(value, len);
    (void)buf_puts(&key, "LIBARCHIVE.xattr.");
    for (const char *p = name; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        if (c <= ' ' || c >= 127 || c == '%' || c == '=')
            (void)buf_printf(&key, "%%%02X", c);
        else
            (void)buf_putc(&key, *p);
    }
    if (text == NULL || key.failed)
        return -ENOMEM;
    ustar_put_record(out, buf_text(&key), text, strlen(text));
    return 0;
}

int attr_put(const char *name, const void *value, size_t len, struct buf *out) {
    char key[XATTR_NAME_MAX + sizeof "SCHILY.xattr."];
    int r = strchr(name, '=') != NULL ? put_encoded(name, value, len, out)
                                      : str_format(key, sizeof key, "SCHILY.xattr.%s", name);
    if (r == 0 && strchr(name, '=') == NULL)
        ustar_put_record(out, key, value, len);
    return out->failed ? -E2BIG : r;
}

static int put_of(int fd, const char *name, struct buf *out) {
    _cleanup_(freep) char *value = malloc(XATTR_SIZE_MAX);
    if (value == NULL)
        return -ENOMEM;
    ssize_t n = fgetxattr(fd, name, value, XATTR_SIZE_MAX);
    if (n < 0)
        return errno == ENODATA ? 0 : -errno;
    return attr_put(name, value, (size_t)n, out);
}

/* The names in list (len bytes, each ended by NUL), sorted; the count. */
static size_t sort_kept(const char *list, size_t len, enum attr_choice choice, const char **names) {
    size_t count = 0;
    for (size_t at = 0; at < len; at += strlen(list + at) + 1)
        if (is_kept(list + at, choice))
            names[count++] = list + at;
    qsort(names, count, sizeof *names, compare_names);
    return count;
}

int attr_put_all(int fd, enum attr_choice choice, struct buf *out) {
    ssize_t len = flistxattr(fd, NULL, 0);
    if (len <= 0)
        return len == 0 || errno == ENOTSUP ? 0 : -errno;
    _cleanup_(freep) char *list = calloc(1, XATTR_LIST_MAX + 1);
    _cleanup_(freep) const char **names = calloc(XATTR_LIST_MAX / 2, sizeof *names);
    if (list == NULL || names == NULL)
        return -ENOMEM;
    len = flistxattr(fd, list, XATTR_LIST_MAX);
    if (len < 0)
        return -errno;
    size_t count = sort_kept(list, (size_t)len, choice, names);
    int r = 0;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = put_of(fd, names[i], out);
    return r;
}

bool attr_has_default(int folder) {
    return fgetxattr(folder, ACL_DEFAULT, NULL, 0) > 0;
}

/* Before 1970 too the fraction counts upwards, as in a struct timespec: so it is read back. */
static void put_time(const char *key, const struct timespec *t, struct buf *out) {
    char text[48];
    (void)snprintf(text, sizeof text, "%lld.%09ld", (long long)t->tv_sec, t->tv_nsec);
    ustar_put_record(out, key, text, strlen(text));
}

void attr_put_times(const struct stat *st, struct buf *out) {
    put_time("mtime", &st->st_mtim, out);
    put_time("atime", &st->st_atim, out);
}
