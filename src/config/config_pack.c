/* A configuration as the texts of its values, each ended by a zero byte, in the order of the table.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/toml/toml.h"
#include "config/config_value.h"

int config_pack(const struct config *config, struct cay_error *err) {
    size_t count;
    const struct config_key *keys = config_keys(&count);
    _cleanup_(closep) int fd = memfd_create("cay-config", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : 0;
    for (size_t i = 0; r == 0 && i < count; i++) {
        const char *text = keys[i].secret ? keys[i].fallback : config->values[i].text;
        r = fd_write_all(fd, text, strlen(text) + 1);
    }
    if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
        r = -errno;
    return r < 0 ? error_sys(err, -r, "passing the configuration on") : TAKE_FD(fd);
}

static int unpack(struct config *config, const struct buf *text, struct cay_error *err) {
    size_t count, at = 0;
    const struct config_key *keys = config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        size_t len = strnlen(text->data + at, text->len - at);
        if (at + len >= text->len)
            return error_set(err, CAY_INTERNAL, "the configuration did not come through");
        int r = config_set(config, i, keys[i].name, text->data + at,
                           (struct config_value){.source = CONFIG_FROM_DEFAULT}, err);
        if (r < 0)
            return r;
        at += len + 1;
    }
    return 0;
}

int config_unpack(int fd, struct config **ret, struct cay_error *err) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(2 * (size_t)TOML_SIZE_MAX);
    _cleanup_(config_freep) struct config *config = calloc(1, sizeof *config);
    if (config == NULL)
        return error_sys(err, ENOMEM, "taking over the configuration");
    int r = fd_read_to_end(fd, &text);
    if (r < 0 || text.len == 0)
        return error_set(err, CAY_INTERNAL, "the configuration did not come through");
    r = config_set_defaults(config, err);
    if (r == 0)
        r = unpack(config, &text, err);
    if (r == 0)
        *ret = TAKE_PTR(config);
    return r;
}
