#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "imager/build/files.h"

enum { DATABASE_MAX = 1024 * 1024, ID_MAX = 65535, NAME_SIZE = 256 };

/* A database that is missing, huge or no file counts as empty. */
static void read_database(int root, const char *path, struct buf *b) {
    struct stat st;
    _cleanup_(closep) int at = path_open_in_root(root, path, O_PATH | O_CLOEXEC, 0);
    if (at < 0 || fstat(at, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    _cleanup_(closep) int fd = path_open_in_root(root, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
    if (fd < 0 || fd_read_to_end(fd, b) < 0)
        buf_clear(b);
}

static bool parse_id(const char *text, size_t len, unsigned *ret) {
    char digits[16];
    uint64_t v;
    if (len == 0 || len >= sizeof digits)
        return false;
    memcpy(digits, text, len);
    digits[len] = '\0';
    if (str_to_u64(digits, ID_MAX, &v) < 0)
        return false;
    *ret = (unsigned)v;
    return true;
}

/* The third and, if ret_fourth is not NULL, the fourth field of the line that begins with name. */
static bool find_line(const char *text, const char *name, unsigned *ret_third,
                      unsigned *ret_fourth) {
    size_t len = strlen(name);
    for (const char *line = text; *line != '\0';) {
        const char *end = strchrnul(line, '\n');
        if (strncmp(line, name, len) == 0 && line[len] == ':') {
            const char *third = memchr(line + len + 1, ':', (size_t)(end - line) - len - 1);
            if (third != NULL && parse_id(third + 1, strcspn(third + 1, ":\n"), ret_third)) {
                const char *fourth = third + 1 + strcspn(third + 1, ":\n");
                if (ret_fourth == NULL)
                    return true;
                if (*fourth == ':' && parse_id(fourth + 1, strcspn(fourth + 1, ":\n"), ret_fourth))
                    return true;
            }
        }
        line = *end == '\n' ? end + 1 : end;
    }
    return false;
}

static int refuse(const char *what, const char *name, struct cay_error *err) {
    char shown[120];
    (void)error_set(err, CAY_INVALID_ARGUMENT, "the image has no %s '%s'", what,
                    str_escape(shown, sizeof shown, name));
    return error_remedy(err, "make it in an earlier RUN, or give a number from 0 to %d", ID_MAX);
}

int files_owner(int root, const char *text, unsigned *uid, unsigned *gid, struct cay_error *err) {
    char user[NAME_SIZE];
    const char *colon = strchr(text, ':');
    size_t len = colon != NULL ? (size_t)(colon - text) : strlen(text);
    if (len == 0 || len >= sizeof user)
        return refuse("user", text, err);
    memcpy(user, text, len);
    user[len] = '\0';
    if (parse_id(user, len, uid)) {
        *gid = *uid; /* as Docker: a number stands for both */
    } else {
        _cleanup_(buf_free) struct buf passwd = BUF_INIT(DATABASE_MAX);
        read_database(root, "/etc/passwd", &passwd);
        if (!find_line(buf_text(&passwd), user, uid, gid))
            return refuse("user", user, err);
    }
    if (colon == NULL || colon[1] == '\0' || parse_id(colon + 1, strlen(colon + 1), gid))
        return 0;
    _cleanup_(buf_free) struct buf group = BUF_INIT(DATABASE_MAX);
    read_database(root, "/etc/group", &group);
    return find_line(buf_text(&group), colon + 1, gid, NULL) ? 0 : refuse("group", colon + 1, err);
}
