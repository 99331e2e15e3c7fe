#include "engine/docker/images/ensure.h"

#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"
#include "engine/docker/api.h"
#include "engine/docker/images/image.h"
#include "engine/docker/images/pull.h"
#include "image/progress.h"
#include "image/store.h"

bool docker_policy_parse(const char *word, enum docker_policy *ret) {
    static const char *const words[] = {[DOCKER_PULL_MISSING] = "missing",
                                        [DOCKER_PULL_ALWAYS] = "always",
                                        [DOCKER_PULL_NEVER] = "never"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (str_equal(word, words[i])) {
            *ret = (enum docker_policy)i;
            return true;
        }
    return false;
}

/* Archives of other people's sandboxes are among them. */
bool docker_is_own_name(const struct reference *ref) {
    return str_equal(ref->registry, "docker.io") && (str_equal(ref->repository, "library/cay") ||
                                                     str_starts(ref->repository, "library/cay-"));
}

/* 1 with the id if cay's store has it for this owner, by a name or an id; else 0. */
static int find_in_store(const struct docker_wish *w, const char *owner, const char *text,
                         char id[static HEX_SIZE]) {
    struct image_store store;
    struct cay_error ignored; /* what is not there is looked for elsewhere */
    if (image_store_open(w->state_dir, false, 0, &store, &ignored) < 0)
        return 0;
    struct image_store its = image_store_as(&store, owner);
    int r = image_store_find(&its, text, id, &ignored);
    image_store_close(&store);
    return r == 0;
}

/* An image of Docker's, which has this id there. It comes with its name unless the store has an
 * image of that name already: what Docker calls so must not change what the name means to cay. */
static int take(struct docker_api *api, const struct docker_wish *w, const char *name,
                char id[static HEX_SIZE], struct cay_error *err) {
    char known[HEX_SIZE], by_id[HEX_SIZE + sizeof "sha256:"];
    if (find_in_store(w, "", id, known) != 0)
        return 0;
    if (str_format(by_id, sizeof by_id, "sha256:%s", id) < 0)
        return error_set(err, CAY_INTERNAL, "Docker gave no id");
    bool is_free = find_in_store(w, "", name, known) == 0;
    progress_note(w->progress, "%s: taken over from Docker", w->name);
    return docker_image_fetch(api, w->state_dir, is_free ? name : by_id, id, err);
}

/* An image of cay's store, given to Docker. */
static int give(struct docker_api *api, const struct docker_wish *w, const char *id,
                struct cay_error *err) {
    char name[HEX_SIZE + sizeof "sha256:"], found[HEX_SIZE];
    if (str_format(name, sizeof name, "sha256:%s", id) < 0)
        return error_set(err, CAY_INTERNAL, "the store gave no id");
    int r = docker_image_find(api, name, found, err);
    if (r != 0)
        return MIN(r, 0);
    progress_note(w->progress, "%s: given to Docker", w->name);
    return docker_image_ensure(api, w->state_dir, id, err);
}

static int pull(struct docker_api *api, const struct docker_wish *w, const struct reference *ref,
                struct cay_error *err) {
    _cleanup_(freep) char *auth = NULL;
    int r = docker_image_credential(ref->registry, w->config, &auth, err);
    if (r == 0)
        r = docker_pull(api, ref, auth, w->progress, err);
    if (auth != NULL)
        explicit_bzero(auth, strlen(auth));
    return r;
}

static int is_missing(const struct docker_wish *w, struct cay_error *err) {
    error_set(err, CAY_NOT_FOUND, "image '%.200s' is neither in Docker nor in cay's store",
              w->name);
    return error_remedy(err, "pull it (docker pull, cay image pull), or allow it: [images] pull");
}

/* Names in full are no ids, of which Docker would take the beginning. */
static int ensure_name(struct docker_api *api, const struct docker_wish *w,
                       const struct reference *ref, char id[static HEX_SIZE],
                       struct cay_error *err) {
    char name[REFERENCE_TEXT_SIZE];
    struct reference exact = *ref;
    if (exact.digest[0] != '\0')
        exact.tag[0] = '\0';
    (void)reference_format(&exact, name);
    bool is_own = docker_is_own_name(ref);
    bool look = w->policy != DOCKER_PULL_ALWAYS;
    int r = look && !is_own ? docker_image_find(api, name, id, err) : 0;
    if (r != 0)
        return r < 0 ? r : take(api, w, name, id, err);
    if ((look || is_own) && find_in_store(w, w->owner, w->name, id) != 0)
        return give(api, w, id, err);
    if (w->policy == DOCKER_PULL_NEVER || is_own)
        return is_missing(w, err);
    r = pull(api, w, ref, err);
    if (r == 0)
        r = docker_image_find(api, name, id, err);
    if (r == 0)
        return error_set(err, CAY_INTERNAL, "Docker pulled '%.200s', and does not have it", name);
    return r < 0 ? r : take(api, w, name, id, err);
}

int docker_ensure(struct docker_api *api, const struct docker_wish *w, char id[static HEX_SIZE],
                  struct cay_error *err) {
    struct reference ref;
    if (reference_is_id(w->name))
        return find_in_store(w, w->owner, w->name, id) != 0 ? give(api, w, id, err)
                                                            : is_missing(w, err);
    int r = reference_parse(w->name, &ref, err);
    return r < 0 ? r : ensure_name(api, w, &ref, id, err);
}
