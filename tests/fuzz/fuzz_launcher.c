/* Any bytes as a request to the launcher: what launcher_check lets pass must be safe to act on. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "confine/idrange.h"
#include "engine/link/protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
    if (!ok)
        abort();
}

static void check_mount(const struct mount_spec *m) {
    require(strlen(m->source) < SPEC_PATH_SIZE && m->source[0] == '/');
    require(strlen(m->target) < SPEC_PATH_SIZE && spec_target_is_allowed(m->target));
    size_t len = strlen(m->target);
    require(m->target[len - 1] != '/' && strstr(m->target, "/../") == NULL);
    require(len < 3 || strcmp(m->target + len - 3, "/..") != 0);
    require(m->read_only || !m->read_only); /* reads it, for the sanitizer */
}

/* The input is shorter than a request, so it says where its bytes go: offset, length, bytes. */
static size_t build(const uint8_t *data, size_t size, struct launcher_request *r) {
    size_t len = launcher_request_size(size > 0 ? data[0] % (SPEC_MOUNTS_MAX + 2) : 0);
    *r = (struct launcher_request){.op = LAUNCHER_START, .fds = LAUNCHER_CONNECTION};
    memset(r->mounts, 0, sizeof r->mounts);
    for (size_t i = 0; i < SPEC_MOUNTS_MAX; i++)
        r->mounts[i].source[0] = r->mounts[i].target[0] = '/';
    for (size_t at = 1; at + 4 <= size;) {
        uint32_t word;
        memcpy(&word, data + at, sizeof word);
        at += 4;
        size_t to = word % sizeof *r, count = MIN((size_t)(word >> 24), size - at);
        count = MIN(count, sizeof *r - to);
        memcpy((char *)r + to, data + at, count);
        at += count;
    }
    return len;
}

/* Its id becomes a name of folders, its image's too. */
static void check_kept(const struct launcher_request *r, size_t len) {
    require(r->op >= LAUNCHER_KEEP && r->op <= LAUNCHER_LIST);
    require(id_is_valid(r->spec.id) || (r->op == LAUNCHER_LIST && r->spec.id[0] == '\0'));
    if (r->op != LAUNCHER_KEEP)
        require(r->fds == 0 && len == launcher_request_size(0));
    else
        require(r->fds == LAUNCHER_LISTENER && (r->image[0] == '\0' || hex_is_valid(r->image)));
}

static void check(const struct launcher_request *r, size_t len) {
    if (launcher_check(r, len) < 0)
        return;
    require(len >= launcher_request_size(0) && len <= sizeof *r);
    if (r->op == LAUNCHER_END)
        return;
    if (r->op == LAUNCHER_START)
        require(r->fds >= 1 && r->fds <= 3 && r->image[0] == '\0');
    else
        check_kept(r, len);
    require(strlen(r->spec.id) < ID_SIZE && strlen(r->spec.hostname) <= NAME_MAX_LEN);
    require(strchr(r->spec.hostname, '/') == NULL && strchr(r->spec.id, '/') == NULL);
    require(r->spec.run_uid < IDRANGE_SIZE && r->spec.run_gid < IDRANGE_SIZE);
    require(r->spec.read_only || !r->spec.read_only);
    for (size_t i = 0; launcher_request_size(i) < len; i++)
        check_mount(&r->mounts[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct launcher_request r;
    memset(&r, 0, sizeof r);
    memcpy(&r, data, MIN(size, sizeof r));
    check(&r, size);
    size_t len = build(data, size, &r);
    check(&r, len);
    return 0;
}
