#include "imager/registry/trust.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"

static int append_file(const char *path, struct buf *ret) {
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -errno;
    int r = fd_read_to_end(fd, ret);
    return r < 0 ? r : buf_putc(ret, '\n');
}

static void append_known_folders(const char *registry, struct buf *ret) {
    static const char *const folders[] = {"/etc/containers/certs.d", "/etc/docker/certs.d"};
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        char path[PATH_MAX];
        if (str_format(path, sizeof path, "%s/%s/ca.crt", folders[i], registry) == 0)
            (void)append_file(path, ret); /* mostly there is none */
    }
}

static void append_system(struct buf *ret) {
    const char *bundle = curl_version_info(CURLVERSION_NOW)->cainfo;
    if (bundle != NULL)
        (void)append_file(bundle, ret);
}

int registry_trust(const char *registry, const char *ca_file, const char *ca_pem, struct buf *ret,
                   struct cay_error *err) {
    int r = ca_file != NULL ? append_file(ca_file, ret) : 0;
    if (r < 0) {
        (void)error_sys(err, -r, "reading the CA's certificate '%s'", ca_file);
        return error_remedy(err, "name a readable file with certificates in PEM form");
    }
    if (ca_pem != NULL)
        (void)buf_puts(ret, ca_pem);
    append_known_folders(registry, ret);
    if (ret->len > 0)
        append_system(ret);
    if (ret->failed)
        return error_set(err, CAY_INVALID_ARGUMENT, "the certificates for %s are too long",
                         registry);
    return 0;
}
