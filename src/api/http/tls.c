#include "api/http/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"

enum { TEXT_MAX = 1024 * 1024 };

static int check_file(int fd, const char *path, bool is_secret, struct cay_error *err) {
    struct stat st;
    if (fstat(fd, &st) < 0)
        return error_errno(err, "looking at '%s'", path);
    if (!S_ISREG(st.st_mode)) {
        error_set(err, CAY_INVALID_ARGUMENT, "'%s' is no file", path);
        return error_remedy(err, "name a file with PEM text");
    }
    if (!is_secret || (st.st_mode & S_IRWXO) == 0)
        return 0;
    error_set(err, CAY_FORBIDDEN, "everybody may read the private key '%s'", path);
    return error_remedy(err, "take that right away with: chmod o= '%s'", path);
}

static int read_text(const char *path, const char *what, bool is_secret, char **ret,
                     struct cay_error *err) {
    struct buf text = BUF_INIT(TEXT_MAX);
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        (void)error_errno(err, "opening '%s' ([server] %s)", path, what);
        return error_remedy(err, "name a file that exists, or remove tls_cert and tls_key");
    }
    int r = check_file(fd, path, is_secret, err);
    if (r == 0 && fd_read_to_end(fd, &text) < 0)
        r = error_set(err, CAY_INVALID_ARGUMENT, "'%s' cannot be read, or is too large", path);
    if (r == 0 && (text.len == 0 || memchr(text.data, '\0', text.len) != NULL)) {
        error_set(err, CAY_INVALID_ARGUMENT, "'%s' is not PEM", path);
        r = error_remedy(err, "convert it with openssl");
    }
    if (r == 0)
        *ret = buf_take(&text);
    if (r == 0 && *ret == NULL)
        r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    buf_free(&text);
    return r;
}

int tls_read(const struct config *c, struct tls *ret, struct cay_error *err) {
    *ret = (struct tls){0};
    if (c->server.tls_cert[0] == '\0')
        return 0;
    int r = read_text(c->server.tls_cert, "tls_cert", false, &ret->cert, err);
    if (r == 0)
        r = read_text(c->server.tls_key, "tls_key", true, &ret->key, err);
    if (r < 0)
        tls_free(ret);
    return r;
}

void tls_free(struct tls *t) {
    if (t->key != NULL)
        explicit_bzero(t->key, strlen(t->key));
    free(t->key);
    free(t->cert);
    *t = (struct tls){0};
}

/* ---- through a file of the memory ---- */

static int write_text(int fd, const char *text) {
    return text == NULL ? 0 : fd_write_all(fd, text, strlen(text) + 1);
}

int tls_pack(const struct tls *t, struct cay_error *err) {
    _cleanup_(closep) int fd = memfd_create("cay-tls", MFD_CLOEXEC);
    if (fd < 0 || write_text(fd, t->cert) < 0 || write_text(fd, t->key) < 0 ||
        lseek(fd, 0, SEEK_SET) < 0)
        return error_errno(err, "passing the certificate on");
    return TAKE_FD(fd);
}

int tls_unpack(int fd, struct tls *ret, struct cay_error *err) {
    struct buf text = BUF_INIT(2 * (size_t)TEXT_MAX);
    *ret = (struct tls){0};
    int r = fd_read_to_end(fd, &text);
    size_t cert = r == 0 && text.len > 0 ? strnlen(text.data, text.len) + 1 : 0;
    if (cert > 0 && cert < text.len && text.data[text.len - 1] == '\0') {
        ret->cert = strdup(text.data);
        ret->key = strdup(text.data + cert);
    }
    bool whole = r == 0 && (text.len == 0 || (ret->cert != NULL && ret->key != NULL));
    if (text.len > 0)
        explicit_bzero(text.data, text.len);
    buf_free(&text);
    if (whole)
        return 0;
    tls_free(ret);
    return error_set(err, CAY_INTERNAL, "the certificate did not come through");
}
