#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

struct row {
    const char *name;
    int http;
    int exit;
};

static const struct row table[] = {
#define ROW(id, number, name, http, exit) [number] = {name, http, exit},
    CAY_ERROR_TABLE(ROW)
#undef ROW
};

static const struct row *row_of(enum cay_code code) {
    if ((size_t)code >= ARRAY_LEN(table))
        code = CAY_INTERNAL;
    return &table[code];
}

const char *cay_code_name(enum cay_code code) {
    return row_of(code)->name;
}

int cay_code_http(enum cay_code code) {
    return row_of(code)->http;
}

int cay_code_exit(enum cay_code code) {
    return row_of(code)->exit;
}

enum cay_code error_code_from_name(const char *name) {
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (strcmp(table[i].name, name) == 0)
            return (enum cay_code)i;
    return CAY_INTERNAL;
}

enum cay_code error_class(int sys) {
    switch (sys) {
    case ENOENT:
    case ENOTDIR:
        return CAY_NOT_FOUND;
    case EEXIST:
    case ENOTEMPTY:
    case EBUSY:
    case EISDIR:
    case EXDEV:
        return CAY_CONFLICT;
    case EINVAL:
    case ENAMETOOLONG:
    case ELOOP:
    case E2BIG:
        return CAY_INVALID_ARGUMENT;
    case EACCES:
    case EPERM:
    case EROFS:
        return CAY_FORBIDDEN;
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EFBIG:
        return CAY_RESOURCE_EXHAUSTED;
    case EAGAIN:
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
        return CAY_UNAVAILABLE;
    case ETIMEDOUT:
        return CAY_TIMEOUT;
    case ENOSYS:
    case EOPNOTSUPP:
        return CAY_UNSUPPORTED;
    default:
        return CAY_INTERNAL;
    }
}

/* strerror() is not safe after clone(CLONE_VM); the description tables are. musl has no
 * strerrordesc_np but its strerror returns constant strings. */
static const char *sys_text(int sys) {
#ifdef __GLIBC__
    const char *text = strerrordesc_np(sys);
    return text != NULL ? text : "unknown error";
#else
    return strerror(sys); /* NOLINT(concurrency-mt-unsafe): constant strings in musl */
#endif
}

static int _printf_(4, 0)
    fill(struct cay_error *err, enum cay_code code, int sys, const char *fmt, va_list ap) {
    if (err == NULL)
        return -(int)code;
    err->code = code;
    err->sys = sys;
    err->remedy[0] = '\0';
    int n = vsnprintf(err->message, sizeof err->message, fmt, ap);
    size_t used = n < 0 ? 0 : MIN((size_t)n, sizeof err->message - 1);
    if (sys != 0)
        (void)snprintf(err->message + used, sizeof err->message - used, ": %s", sys_text(sys));
    return -(int)code;
}

int error_set(struct cay_error *err, enum cay_code code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int r = fill(err, code, 0, fmt, ap);
    va_end(ap);
    return r;
}

int error_errno(struct cay_error *err, const char *fmt, ...) {
    int sys = errno;
    va_list ap;
    va_start(ap, fmt);
    int r = fill(err, error_class(sys), sys, fmt, ap);
    va_end(ap);
    return r;
}

int error_sys(struct cay_error *err, int sys, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int r = fill(err, error_class(sys), sys, fmt, ap);
    va_end(ap);
    return r;
}

/* What is wrong with the state folder, by errno; 0 is everything else. */
static const struct storage {
    int sys;
    enum cay_code code;
    const char *remedy;
} storage_table[] = {
#define FULL "free space on the disk of the state folder, or raise its quota; nothing was changed"
    {ENOSPC, CAY_RESOURCE_EXHAUSTED, FULL},
    {EDQUOT, CAY_RESOURCE_EXHAUSTED, FULL},
    {EFBIG, CAY_RESOURCE_EXHAUSTED, FULL},
#undef FULL
    {ENOMEM, CAY_RESOURCE_EXHAUSTED, "free memory, or add some"},
    {EMFILE, CAY_RESOURCE_EXHAUSTED, "raise the daemon's limit of open files (ulimit -n)"},
    {ENFILE, CAY_RESOURCE_EXHAUSTED, "raise the host's limit of open files (fs.file-max)"},
    {EROFS, CAY_UNAVAILABLE,
     "the file system of the state folder is read-only: mount it writable; 'dmesg' says whether "
     "the kernel made it so after an error"},
    {EACCES, CAY_INTERNAL, "give the daemon's user the right to write to the state folder"},
    {EPERM, CAY_INTERNAL, "give the daemon's user the right to write to the state folder"},
    {EIO, CAY_INTERNAL, "the disk of the state folder has errors: look at 'dmesg', and replace it"},
    {EUCLEAN, CAY_INTERNAL, "the file system of the state folder is damaged: check it with fsck"},
    {EBUSY, CAY_UNAVAILABLE, "try again; another process uses it"},
    {0, CAY_INTERNAL, "the state folder must be writable and whole: 'cay doctor' looks at it"},
};

int error_storage(struct cay_error *err, int sys, const char *fmt, ...) {
    const struct storage *row = storage_table;
    while (row->sys != 0 && row->sys != sys)
        row++;
    va_list ap;
    va_start(ap, fmt);
    (void)fill(err, row->code, sys, fmt, ap);
    va_end(ap);
    (void)error_remedy(err, "%s", row->remedy);
    return -(int)row->code;
}

int error_prefix(struct cay_error *err, const char *fmt, ...) {
    if (err == NULL)
        return -CAY_INTERNAL;
    char text[sizeof err->message];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    size_t used = n < 0 ? 0 : MIN((size_t)n, sizeof text - 1);
    size_t room = sizeof text - 1 - used; /* a long cause is cut at its end */
    (void)snprintf(text + used, sizeof text - used, ": %.*s", (int)MAX(room, 2U) - 2, err->message);
    memcpy(err->message, text, sizeof text);
    return -(int)err->code;
}

int error_remedy(struct cay_error *err, const char *fmt, ...) {
    if (err == NULL)
        return -CAY_INTERNAL;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(err->remedy, sizeof err->remedy, fmt, ap);
    va_end(ap);
    return -(int)err->code;
}

void error_try_later(struct cay_error *err) {
    if (err != NULL)
        err->sys = EAGAIN;
}

static void clean_text(char *text, size_t size) {
    text[size - 1] = '\0';
    size_t left = strlen(text);
    for (char *p = text; left > 0;) {
        size_t n = str_printable_length(p, left);
        if (n == 0)
            *p = '?';
        n = MAX(n, (size_t)1);
        p += n;
        left -= n;
    }
}

void error_sanitize(struct cay_error *err) {
    if ((size_t)err->code >= ARRAY_LEN(table) || err->code == CAY_OK)
        err->code = CAY_INTERNAL;
    clean_text(err->message, sizeof err->message);
    clean_text(err->remedy, sizeof err->remedy);
}
