/* What only the supervisor can do (images, archives, networks), for the manager and clients. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/build/builds.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/log.h"
#include "daemon/front/describe.h"
#include "daemon/front/internal.h"
#include "daemon/helpers/archives.h"
#include "daemon/helpers/pulls.h"
#include "engine/engines.h"
#include "image/alias.h"

enum { STORE_ANSWER_MAX = 8192 };

/* ---- for the manager ---- */

/* As [images] says just now. */
static int64_t pull_timeout(struct front *f, bool *ret_always) {
    (void)pthread_rwlock_rdlock(&f->config_lock);
    int64_t timeout_ms = f->config->images.pull_timeout_ms;
    *ret_always = str_equal(f->config->images.pull, "always");
    (void)pthread_rwlock_unlock(&f->config_lock);
    return timeout_ms;
}

/* The engine has this image too, or gets it from the store; only what it had before a key came is
 * taken from there, since such an engine knows no owners. */
static int give_engine(struct front *f, const struct image_wish *wish, const char *name,
                       int64_t timeout_ms, char id[static HEX_SIZE], struct cay_error *err) {
    struct image_wish meant = *wish;
    meant.name = name;
    return pulls_ask(f->options->control, &meant, PULL_BY_ENGINE + wish->engine, timeout_ms, id,
                     err);
}

/* What whoever runs the daemon pulls is not charged: it may be pulled before there is a manager. */
static int pull(struct front *f, const struct image_wish *wish, int64_t timeout_ms,
                char id[static HEX_SIZE], struct cay_error *err) {
    bool is_charged = wish->owner[0] != '\0';
    const struct front_client whose = {wish->owner, wish->made_by};
    struct image_wish meant = *wish;
    const char *payer = wish->made_by[0] != '\0' ? wish->made_by : wish->owner;
    int r = is_charged ? manager_budget_take(f->manager, payer, BUDGET_PULLS, err) : 0;
    if (r < 0)
        return r;
    r = front_store_admit(f, &whose, &meant.room, err);
    if (r == 0)
        r = pulls_ask(f->options->control, &meant, PULL_BY_CAY, timeout_ms, id, err);
    if (is_charged)
        manager_budget_give(f->manager, payer, BUDGET_PULLS);
    return r < 0 ? r : front_store_charge(f, &whose, wish->name, err);
}

/* Nor does it know [images] allowed. */
static bool is_allowed(struct front *f, const struct image_wish *wish) {
    struct reference ref;
    struct image_store keys = IMAGE_STORE_NONE;
    (void)snprintf(keys.owner, sizeof keys.owner, "%s", wish->owner);
    (void)pthread_rwlock_rdlock(&f->config_lock);
    keys.allowed = &f->config->images.allowed;
    bool ret = reference_parse(wish->name, &ref, NULL) == 0 && image_store_allows(&keys, &ref);
    (void)pthread_rwlock_unlock(&f->config_lock);
    return ret;
}

/* What is here needs none of the places that pulls have. */
static int find_or_pull(struct front *f, const struct image_wish *wish, char id[static HEX_SIZE],
                        struct cay_error *err) {
    bool is_always, has_images = engine_can(wish->engine, ENGINE_HAS_IMAGES) && !wish->is_local;
    int control = f->options->control;
    int64_t timeout_ms = pull_timeout(f, &is_always);
    if (has_images && wish->owner[0] == '\0')
        return give_engine(f, wish, wish->name, timeout_ms, id, err);
    int r = -CAY_NOT_FOUND;
    if (wish->is_local || !is_always)
        r = pulls_ask(control, wish, PULL_NOT, timeout_ms, id, err);
    if (r == -CAY_NOT_FOUND && has_images && is_allowed(f, wish) &&
        give_engine(f, wish, wish->name, timeout_ms, id, err) == 0)
        return 0;
    if (r == -CAY_NOT_FOUND && !wish->is_local)
        r = pull(f, wish, timeout_ms, id, err);
    if (r < 0 || !has_images)
        return r;
    char found[HEX_SIZE];
    memcpy(found, id, sizeof found);
    return give_engine(f, wish, found, timeout_ms, id, err);
}

int front_ensure(void *user, const struct image_wish *wish, char id[static HEX_SIZE],
                 struct cay_error *err) {
    struct front *f = user;
    struct image_wish meant = *wish;
    char other[REFERENCE_TEXT_SIZE];
    if (builds_is_name(wish->name))
        return builds_run(f->builds, wish->name, wish->cancel_fd, id, err);
    (void)pthread_rwlock_rdlock(&f->config_lock);
    int r = image_alias(&f->config->images.aliases, wish->name, other, err);
    (void)pthread_rwlock_unlock(&f->config_lock);
    if (r == 1)
        meant.name = other;
    return r < 0 ? r : find_or_pull(f, &meant, id, err);
}

/* The same for an owner, without a sandbox. */
static int ensure_for(struct front *f, const struct front_client *whose, const char *name,
                      enum engine_kind engine, char id[static HEX_SIZE], struct cay_error *err) {
    struct image_wish wish = {
        .name = name, .engine = engine, .progress_fd = -1, .cancel_fd = -1, .client_fd = -1};
    (void)snprintf(wish.owner, sizeof wish.owner, "%s", whose->owner); /* ids fit */
    (void)snprintf(wish.made_by, sizeof wish.made_by, "%s", whose->made_by);
    return front_ensure(f, &wish, id, err);
}

int front_describe(void *user, struct sandbox_record *r, struct cay_error *err) {
    struct front *f = user;
    int e = r->image[0] == '\0' ? 0 : describe_ask(f->options->control, r, err);
    if (e < 0 || r->work_dir[0] != '\0')
        return e;
    (void)pthread_rwlock_rdlock(&f->config_lock);
    e = str_copy(r->work_dir, sizeof r->work_dir, f->config->sandbox.work_dir);
    (void)pthread_rwlock_unlock(&f->config_lock);
    return e < 0 ? error_set(err, CAY_INVALID_ARGUMENT, "[sandbox] work_dir is too long") : 0;
}

static int write_archive(void *user, const struct sandbox_record *r, int progress,
                         uint64_t *ret_bytes, struct cay_error *err) {
    const struct front *f = user;
    return archives_ask_write(f->options->control, r, progress, ret_bytes, err);
}

static int restore_archive(void *user, const struct sandbox_record *r, int progress,
                           struct cay_error *err) {
    const struct front *f = user;
    bool ignored;
    return archives_ask_restore(f->options->control, ARCHIVE_WHOLE, r, progress, &ignored, err);
}

static int remove_archive(void *user, const char *id, struct cay_error *err) {
    const struct front *f = user;
    return archives_ask_remove(f->options->control, ARCHIVE_WHOLE, id, false, err);
}

static int write_backup(void *user, const struct sandbox_record *r, uint64_t max_bytes,
                        uint64_t *ret_bytes, struct cay_error *err) {
    const struct front *f = user;
    return archives_ask_backup(f->options->control, r, max_bytes, ret_bytes, err);
}

static int restore_backup(void *user, const struct sandbox_record *r, int progress, bool *ret,
                          struct cay_error *err) {
    const struct front *f = user;
    return archives_ask_restore(f->options->control, ARCHIVE_BACKUP, r, progress, ret, err);
}

static int end_backup(void *user, const char *id, struct cay_error *err) {
    const struct front *f = user;
    return archives_ask_remove(f->options->control, ARCHIVE_BACKUP, id, true, err);
}

static int remove_backup(void *user, const char *id, struct cay_error *err) {
    const struct front *f = user;
    return archives_ask_remove(f->options->control, ARCHIVE_BACKUP, id, false, err);
}

const struct archive_ops front_archives = {.write = write_archive,
                                           .restore = restore_archive,
                                           .remove = remove_archive,
                                           .backup = write_backup,
                                           .restore_backup = restore_backup,
                                           .end_backup = end_backup,
                                           .remove_backup = remove_backup};

static int set_network(void *user, const struct egress_wish *wish, struct cay_error *err) {
    struct front *f = user;
    return egress_link_set(&f->egress, wish, err);
}

static void drop_network(void *user, const char *id) {
    struct front *f = user;
    egress_link_drop(&f->egress, id);
}

const struct network_ops front_networks = {.set = set_network, .drop = drop_network};

/* ---- images for clients ---- */

static int change_store(const struct front *f, const struct front_client *whose,
                        enum store_verb verb, const char *name, const char *other,
                        struct cay_error *err) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(STORE_ANSWER_MAX);
    return front_ask_store(f, whose, verb, name, other, &text, err);
}

static int list_images(void *user, const char *owner, struct buf *text, struct cay_error *err) {
    return front_ask_store(user, &(struct front_client){owner, ""}, STORE_LIST, "", "", text, err);
}

static int name_image(void *user, const char *owner, const char *made_by, const char *image,
                      const char *name, struct cay_error *err) {
    const struct front_client whose = {owner, made_by};
    char id[HEX_SIZE];
    int r = ensure_for(user, &whose, image, ENGINE_NATIVE, id, err);
    if (r == 0)
        r = change_store(user, &whose, STORE_NAME, id, name, err);
    return r < 0 ? r : front_store_charge(user, &whose, name, err);
}

static int unname_image(void *user, const char *owner, const char *name, struct cay_error *err) {
    const struct front_client whose = {owner, ""};
    int r = change_store(user, &whose, STORE_UNNAME, name, "", err);
    if (r == 0)
        front_store_settle(user);
    return r;
}

static int take_snapshot(struct front *f, const struct front_client *whose, const char *sandbox,
                         const char *name, struct cay_error *err) {
    struct sandbox_record r;
    char image[HEX_SIZE];
    int e = manager_get(f->manager, sandbox, &r, err);
    if (e < 0)
        return e;
    bool by_engine = engine_can(r.engine, ENGINE_HAS_ARCHIVES);
    e = by_engine ? manager_snapshot(f->manager, &r, image, err) : 0;
    sandbox_record_free(&r);
    if (e < 0)
        return e;
    return by_engine ? change_store(f, whose, STORE_ADOPT, image, name, err)
                     : change_store(f, whose, STORE_KEEP, sandbox, name, err);
}

static int keep_sandbox(void *user, const char *owner, const char *made_by, const char *sandbox,
                        const char *name, struct cay_error *err) {
    const struct front_client whose = {owner, made_by};
    uint64_t room; /* the disk of the sandbox bounds it */
    int r = front_store_admit(user, &whose, &room, err);
    if (r == 0)
        r = take_snapshot(user, &whose, sandbox, name, err);
    return r < 0 ? r : front_store_charge(user, &whose, name, err);
}

/* One that fails leaves the steps that it could do, in the cache. */
static int build_image(void *user, const struct image_build_order *order, char id[static HEX_SIZE],
                       struct cay_error *err) {
    struct front *f = user;
    const struct front_client whose = {order->owner, order->made_by};
    struct image_build_order meant = *order;
    (void)pthread_rwlock_rdlock(&f->config_lock);
    int64_t timeout_ms = f->config->images.build_timeout_ms;
    (void)pthread_rwlock_unlock(&f->config_lock);
    int r = front_store_admit(f, &whose, &meant.room, err);
    if (r < 0)
        return r;
    r = pulls_ask_build(f->options->control, &meant, timeout_ms, id, err);
    if (r < 0 && order->owner[0] != '\0')
        front_store_settle(f);
    return r < 0 ? r
                 : front_store_charge(f, &whose, order->name[0] != '\0' ? order->name : id, err);
}

struct image_ops front_image_ops(struct front *f) {
    return (struct image_ops){.list = list_images,
                              .name = name_image,
                              .unname = unname_image,
                              .keep = keep_sandbox,
                              .build = build_image,
                              .take_build = front_take_build,
                              .give_build = front_give_build,
                              .user = f};
}

/* ---- images ahead of time ---- */

struct fetching {
    struct front *front;
    struct strv names;
};

static void fetching_free(struct fetching *a) {
    strv_free(&a->names);
    free(a);
}

/* One after the other. */
static void *fetch_ahead(void *user) {
    struct fetching *a = user;
    for (size_t i = 0; i < a->names.len; i++) {
        struct cay_error err;
        char id[HEX_SIZE];
        if (ensure_for(a->front, &(struct front_client){"", ""}, a->names.v[i],
                       a->front->options->settings->engine, id, &err) == 0)
            log_event(LOG_LEVEL_INFO, "image is ready", "image", "%s", a->names.v[i]);
        else
            log_event(LOG_LEVEL_WARN, "image could not be fetched", "why", "%s; %s", err.message,
                      err.remedy);
    }
    fetching_free(a);
    return NULL;
}

int front_fetch_ahead(struct front *f, const struct strv *names, struct cay_error *err) {
    pthread_t thread;
    if (names->len == 0)
        return 0;
    struct fetching *a = calloc(1, sizeof *a);
    int r = a == NULL ? ENOMEM : 0;
    for (size_t i = 0; r == 0 && i < names->len; i++)
        r = -strv_push(&a->names, names->v[i]);
    if (r == 0) {
        a->front = f;
        r = pthread_create(&thread, NULL, fetch_ahead, a);
    }
    if (r == 0)
        return -pthread_detach(thread);
    if (a != NULL)
        fetching_free(a);
    return error_sys(err, r, "starting to fetch images ahead");
}
