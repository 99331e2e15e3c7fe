/* What makes a request to the launcher sane. Pure functions: whoever sent it is not trusted. */
#include "engine/link/protocol.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "confine/idrange.h"

size_t launcher_request_size(size_t mounts) {
    return offsetof(struct launcher_request, mounts) + mounts * sizeof(struct mount_spec);
}

static bool is_text(const char *text, size_t size) {
    return memchr(text, '\0', size) != NULL;
}

/* Any other value in a bool is a trap for whoever reads it. */
static bool is_flag(const bool *flag) {
    unsigned char byte;
    memcpy(&byte, flag, sizeof byte);
    return byte <= 1;
}

static bool mount_is_sane(const struct mount_spec *m) {
    return is_text(m->source, sizeof m->source) && is_text(m->target, sizeof m->target) &&
           is_flag(&m->read_only) && is_flag(&m->named) &&
           (m->named ? spec_is_volume(m->source) : m->source[0] == '/') &&
           spec_target_is_allowed(m->target);
}

static bool spec_is_sane(const struct sandbox_spec *s) {
    if (!is_text(s->id, sizeof s->id) || (s->id[0] != '\0' && !id_is_valid(s->id)))
        return false;
    if (!is_text(s->hostname, sizeof s->hostname) ||
        (s->hostname[0] != '\0' && id_check_name("hostname", s->hostname, NULL) < 0))
        return false;
    return (unsigned)s->tier <= TIER_FULL && (unsigned)s->profile <= PROFILE_BUILD &&
           is_text(s->owner, sizeof s->owner) && (s->owner[0] == '\0' || id_is_valid(s->owner)) &&
           is_flag(&s->has_list) && is_flag(&s->has_bridge) && is_flag(&s->read_only) &&
           is_text(s->run_user, sizeof s->run_user) && s->run_uid < IDRANGE_SIZE &&
           s->run_gid < IDRANGE_SIZE;
}

/* START and KEEP. */
static bool start_is_sane(const struct launcher_request *r, size_t len) {
    size_t mounts = (len - launcher_request_size(0)) / sizeof(struct mount_spec);
    if (mounts > SPEC_MOUNTS_MAX || len != launcher_request_size(mounts) || !spec_is_sane(&r->spec))
        return false;
    for (size_t i = 0; i < mounts; i++)
        if (!mount_is_sane(&r->mounts[i]) || (r->mounts[i].named && r->op == LAUNCHER_START))
            return false;
    if (r->op == LAUNCHER_START)
        return r->fds != 0 && r->image[0] == '\0' && r->ready <= LAUNCHER_READY_MAX &&
               r->wants_counter <= 1 && is_text(r->fingerprint, sizeof r->fingerprint);
    return r->fds == LAUNCHER_LISTENER && r->spec.id[0] != '\0' &&
           is_text(r->image, sizeof r->image) && (r->image[0] == '\0' || hex_is_valid(r->image));
}

/* What names a sandbox that stays and brings nothing; LIST may begin anywhere. */
static bool bare_is_sane(const struct launcher_request *r, size_t len) {
    return len == launcher_request_size(0) && r->fds == 0 && spec_is_sane(&r->spec) &&
           (r->spec.id[0] != '\0' || r->op == LAUNCHER_LIST || r->op == LAUNCHER_SPACE);
}

/* The same, with an image. */
static bool image_is_sane(const struct launcher_request *r, size_t len) {
    return bare_is_sane(r, len) && is_text(r->image, sizeof r->image) && hex_is_valid(r->image);
}

int launcher_check(const struct launcher_request *r, size_t len) {
    if (len < launcher_request_size(0) || (r->fds & ~3U) != 0)
        return -EINVAL;
    switch (r->op) {
    case LAUNCHER_START:
    case LAUNCHER_KEEP:
        return start_is_sane(r, len) ? 0 : -EINVAL;
    case LAUNCHER_END:
        return len == launcher_request_size(0) && r->fds == 0 ? 0 : -EINVAL;
    case LAUNCHER_STOP:
    case LAUNCHER_PAUSE:
    case LAUNCHER_RESUME:
    case LAUNCHER_REMOVE:
    case LAUNCHER_RESIZE:
    case LAUNCHER_STATS:
    case LAUNCHER_USAGE:
    case LAUNCHER_LIST:
    case LAUNCHER_SPACE:
    case LAUNCHER_REPAIR:
    case LAUNCHER_VOLUME_MAKE:
    case LAUNCHER_VOLUME_REMOVE:
    case LAUNCHER_VOLUME_GROW:
    case LAUNCHER_UNARCHIVE:
    case LAUNCHER_BACKUP_RESTORE:
    case LAUNCHER_BACKUP_REMOVE:
        return bare_is_sane(r, len) ? 0 : -EINVAL;
    case LAUNCHER_ARCHIVE:
    case LAUNCHER_SNAPSHOT:
    case LAUNCHER_BACKUP:
        return image_is_sane(r, len) ? 0 : -EINVAL;
    default:
        return -EINVAL;
    }
}
