/* Keys: in memory, since each request needs one, and in the database. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "manager/access/intent.h"
#include "manager/access/retire.h"
#include "manager/internal.h"

enum { KEYS_MAX = 10000 };

/* ---- scopes ---- */

static const struct {
    enum key_scope scope;
    const char *name;
} scopes[] = {
    {SCOPE_READ, "read"},
    {SCOPE_SANDBOXES, "sandboxes"},
    {SCOPE_IMAGES, "images"},
    {SCOPE_ADMIN, "admin"},
    /* Daytona's */
    {SCOPE_SANDBOXES, "write:sandboxes"},
    {SCOPE_SANDBOXES, "delete:sandboxes"},
    {SCOPE_SANDBOXES, "read:volumes"},
    {SCOPE_SANDBOXES, "write:volumes"},
    {SCOPE_SANDBOXES, "delete:volumes"},
    {SCOPE_IMAGES, "write:snapshots"},
    {SCOPE_IMAGES, "delete:snapshots"},
    {SCOPE_IMAGES, "write:registries"},
    {SCOPE_IMAGES, "delete:registries"},
};

const char *key_scope_name(enum key_scope scope) {
    for (size_t i = 0; i < ARRAY_LEN(scopes); i++)
        if (scopes[i].scope == scope)
            return scopes[i].name;
    return NULL;
}

unsigned key_scope_from_name(const char *name) {
    for (size_t i = 0; i < ARRAY_LEN(scopes); i++)
        if (str_equal(scopes[i].name, name))
            return scopes[i].scope;
    return 0;
}

/* ---- the table; with the lock held ---- */

static size_t find_name(const struct manager *m, const char *name) {
    size_t i = 0;
    while (i < m->key_count && !str_equal(m->keys[i].name, name))
        i++;
    return i;
}

/* One that is a key, or an organisation. */
static const struct key *find(const struct manager *m, const char *name, bool is_organization) {
    size_t i = find_name(m, name);
    return i < m->key_count && m->keys[i].is_organization == is_organization ? &m->keys[i] : NULL;
}

static int add(struct manager *m, const struct key *k, struct cay_error *err) {
    if (m->key_count == KEYS_MAX) {
        error_set(err, CAY_LIMIT_REACHED, "Maximum number of keys (%d) reached", KEYS_MAX);
        return error_remedy(err, "remove one with: cay key rm NAME");
    }
    struct key *v = reallocarray(m->keys, m->key_count + 1, sizeof *v);
    if (v == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    m->keys = v;
    m->keys[m->key_count++] = *k;
    return 0;
}

static void drop(struct manager *m, const char *id) {
    for (size_t i = 0; i < m->key_count; i++) {
        if (!str_equal(m->keys[i].id, id))
            continue;
        memmove(&m->keys[i], &m->keys[i + 1], (--m->key_count - i) * sizeof *m->keys);
        return;
    }
}

const struct key *keys_find(const struct manager *m, const char *id) {
    for (size_t i = 0; i < m->key_count; i++)
        if (str_equal(m->keys[i].id, id))
            return &m->keys[i];
    return NULL;
}

static bool is_expired(int64_t expires_ms) {
    return expires_ms != 0 && expires_ms <= clock_wall_ms();
}

int keys_check(const struct manager *m, const char *id, struct cay_error *err) {
    const struct key *k = id[0] == '\0' ? NULL : keys_find(m, id);
    if (id[0] == '\0' || (k != NULL && !is_expired(k->expires_ms)))
        return 0;
    error_set(err, CAY_UNAUTHORIZED, "the key was removed or has expired");
    return error_remedy(err, "use another key; nothing was done");
}

static int load_key(void *user, const struct key *k, struct cay_error *err) {
    return add(user, k, err);
}

int keys_load(struct manager *m, struct cay_error *err) {
    return db_key_list(m->db, load_key, m, err);
}

/* ---- making ---- */

static int make_text(struct key *k, char text[static KEY_TEXT_SIZE], struct cay_error *err) {
    unsigned char random[32];
    int r = id_random(random, sizeof random);
    if (r < 0)
        return error_sys(err, -r, "making a key");
    (void)snprintf(text, KEY_TEXT_SIZE, "cay_");
    hash_text(random, text + 4);
    explicit_bzero(random, sizeof random);
    hash_of(text, KEY_TEXT_LEN, k->hash);
    return 0;
}

/* "admin" and "cay" stand for others in the audit. */
static int check(const struct key *k, struct cay_error *err) {
    int r = id_check_name("name", k->name, err);
    if (r < 0)
        return r;
    if (str_equal(k->name, "admin") || str_equal(k->name, "cay") || str_equal(k->name, "current")) {
        error_set(err, CAY_INVALID_ARGUMENT, "a key cannot have the name '%s'", k->name);
        return error_remedy(err, "choose another name");
    }
    if (k->organization[0] != '\0' && key_sees_all(k)) {
        error_set(err, CAY_INVALID_ARGUMENT,
                  "a key with the scope 'admin' sees everything, and belongs to no organisation");
        return error_remedy(err, "omit the organisation, or the scope 'admin'");
    }
    if (k->scopes == 0 && !k->is_organization) {
        error_set(err, CAY_INVALID_ARGUMENT, "a key without a scope may do nothing");
        return error_remedy(err, "name one of sandboxes, images, read, admin");
    }
    if (k->expires_ms != 0 && k->expires_ms <= clock_wall_ms()) {
        error_set(err, CAY_INVALID_ARGUMENT, "the key would have expired already");
        return error_remedy(err, "give a time that is still to come");
    }
    return 0;
}

static int refuse_taken(const struct key *k, struct cay_error *err) {
    error_set(err, CAY_CONFLICT, "%s with the name '%s' exists",
              k->is_organization ? "an organisation" : "a key", k->name);
    return error_remedy(err, "choose another name, or remove that one with: cay %s rm %s",
                        k->is_organization ? "org" : "key", k->name);
}

/* With the lock held: an organisation is not removed in the moment in which it gets a key. */
static int admit_locked(struct manager *m, const struct key *k, struct cay_error *err) {
    size_t taken = find_name(m, k->name);
    if (taken < m->key_count)
        return refuse_taken(&m->keys[taken], err);
    if (k->organization[0] != '\0' && keys_find(m, k->organization) == NULL)
        return error_set(err, CAY_NOT_FOUND, "the organisation was removed meanwhile");
    return add(m, k, err);
}

static int write_key(struct manager *m, const struct key *k, struct cay_error *err) {
    char detail[AUDIT_DETAIL_SIZE];
    struct intent_write w = intent_open(m, DB_FLUSH, INTENT_KEY);
    int r;
    (void)snprintf(detail, sizeof detail, "id %s", k->id);
    do
        r = db_key_add(m->db, k, err);
    while (intent_again(&w, &r, k->name, detail, err));
    return r;
}

/* Its place in the table is taken before its row is written, so that its name cannot be given
 * twice. Nobody can use it meanwhile: nobody knows it. */
static int admit(struct manager *m, const struct key *k, struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    int r = admit_locked(m, k, err);
    (void)pthread_mutex_unlock(&m->lock);
    if (r < 0)
        return r;
    r = write_key(m, k, err);
    if (r < 0) {
        (void)pthread_mutex_lock(&m->lock);
        drop(m, k->id);
        (void)pthread_mutex_unlock(&m->lock);
    }
    return r;
}

/* Nobody gets the text of an organisation: it is forgotten here, and does not match anyway. */
int manager_organization_add(struct manager *m, struct key *k, struct cay_error *err) {
    char text[KEY_TEXT_SIZE];
    k->is_organization = true;
    k->scopes = 0;
    k->organization[0] = '\0';
    int r = manager_key_add(m, k, text, err);
    explicit_bzero(text, sizeof text);
    return r;
}

int manager_key_add(struct manager *m, struct key *k, char text[static KEY_TEXT_SIZE],
                    struct cay_error *err) {
    _Static_assert((int)OWNER_SIZE == (int)ID_SIZE, "the id of a key is an id");
    int r = check(k, err);
    if (r == 0)
        r = id_new(k->id, err);
    if (r == 0)
        r = make_text(k, text, err);
    k->created_ms = clock_wall_ms();
    return r < 0 ? r : admit(m, k, err);
}

/* ---- looking, removing ---- */

static int refuse_unknown(const char *name, bool is_organization, struct cay_error *err) {
    char shown[80];
    error_set(err, CAY_NOT_FOUND, "there is no %s '%s'", is_organization ? "organisation" : "key",
              str_escape(shown, sizeof shown, name));
    return is_organization ? error_remedy(err, "make it with: cay org create NAME")
                           : error_remedy(err, "list the keys with: cay key ls");
}

static int get(struct manager *m, const char *name, bool is_organization, struct key *ret,
               struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    const struct key *k = find(m, name, is_organization);
    if (k != NULL)
        *ret = *k;
    (void)pthread_mutex_unlock(&m->lock);
    return k != NULL ? 0 : refuse_unknown(name, is_organization, err);
}

int manager_key_get(struct manager *m, const char *name, struct key *ret, struct cay_error *err) {
    return get(m, name, false, ret, err);
}

int manager_organization_get(struct manager *m, const char *name, struct key *ret,
                             struct cay_error *err) {
    return get(m, name, true, ret, err);
}

/* ---- connections that last ---- */

bool manager_key_use(struct manager *m, struct key_use *use) {
    (void)pthread_mutex_lock(&m->lock);
    bool is_valid = keys_check(m, use->id, NULL) == 0;
    if (is_valid) {
        use->expires_ms = use->id[0] == '\0' ? 0 : keys_find(m, use->id)->expires_ms;
        use->next = m->key_uses;
        m->key_uses = use;
    }
    (void)pthread_mutex_unlock(&m->lock);
    return is_valid;
}

void manager_key_unuse(struct manager *m, struct key_use *use) {
    (void)pthread_mutex_lock(&m->lock);
    struct key_use **at = &m->key_uses;
    while (*at != NULL && *at != use)
        at = &(*at)->next;
    if (*at != NULL)
        *at = use->next;
    (void)pthread_mutex_unlock(&m->lock);
}

static void end_uses(struct manager *m, const char *id) {
    for (const struct key_use *u = m->key_uses; u != NULL; u = u->next)
        if (str_equal(u->id, id))
            (void)shutdown(u->sock, SHUT_RDWR); /* gone already is fine */
}

void manager_key_end_expired(struct manager *m) {
    (void)pthread_mutex_lock(&m->lock);
    for (struct key_use *u = m->key_uses; u != NULL; u = u->next) {
        if (!is_expired(u->expires_ms))
            continue;
        (void)shutdown(u->sock, SHUT_RDWR);
        u->expires_ms = 0; /* once is enough */
    }
    (void)pthread_mutex_unlock(&m->lock);
}

int manager_key_check(struct manager *m, const char *id, struct cay_error *err) {
    (void)pthread_mutex_lock(&m->lock);
    int r = keys_check(m, id, err);
    (void)pthread_mutex_unlock(&m->lock);
    return r;
}

void manager_key_end_uses(struct manager *m) {
    (void)pthread_mutex_lock(&m->lock);
    for (const struct key_use *u = m->key_uses; u != NULL; u = u->next)
        if (u->id[0] != '\0')
            (void)shutdown(u->sock, SHUT_RDWR);
    (void)pthread_mutex_unlock(&m->lock);
}

/* With the lock held. */
static int check_empty(const struct manager *m, const struct key *organization,
                       struct cay_error *err) {
    size_t keys = 0;
    for (size_t i = 0; i < m->key_count; i++)
        keys += str_equal(m->keys[i].organization, organization->id);
    if (keys == 0)
        return 0;
    error_set(err, CAY_CONFLICT, "the organisation '%s' has %zu keys", organization->name, keys);
    return error_remedy(err, "remove them first with: cay key rm NAME...");
}

/* Out of the memory first: whatever the disk says, it does not work any more. */
static int remove_it(struct manager *m, const char *name, bool is_organization,
                     struct cay_error *err) {
    struct key k;
    int r = get(m, name, is_organization, &k, err);
    if (r < 0)
        return r;
    (void)pthread_mutex_lock(&m->lock);
    r = check_empty(m, &k, err);
    if (r == 0) {
        drop(m, k.id);
        end_uses(m, k.id);
    }
    (void)pthread_mutex_unlock(&m->lock);
    if (r < 0)
        return r;
    if (m->key_gone != NULL)
        m->key_gone(m->user);
    struct intent_write w = intent_open(m, DB_FLUSH, INTENT_KEY);
    do
        r = db_key_remove(m->db, k.id, err);
    while (intent_again(&w, &r, k.name, "", err));
    return r;
}

int manager_key_remove(struct manager *m, const char *name, struct cay_error *err) {
    return remove_it(m, name, false, err);
}

int manager_organization_remove(struct manager *m, const char *name, struct cay_error *err) {
    return remove_it(m, name, true, err);
}

static int list(struct manager *m, bool is_organization, struct key **ret, size_t *ret_count,
                struct cay_error *err) {
    size_t count = 0;
    (void)pthread_mutex_lock(&m->lock);
    struct key *v = calloc(m->key_count + 1, sizeof *v);
    for (size_t i = 0; v != NULL && i < m->key_count; i++)
        if (m->keys[i].is_organization == is_organization)
            v[count++] = m->keys[i];
    (void)pthread_mutex_unlock(&m->lock);
    *ret = v;
    *ret_count = count;
    return v != NULL ? 0 : error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
}

int manager_key_list(struct manager *m, struct key **ret, size_t *ret_count,
                     struct cay_error *err) {
    return list(m, false, ret, ret_count, err);
}

int manager_organization_list(struct manager *m, struct key **ret, size_t *ret_count,
                              struct cay_error *err) {
    return list(m, true, ret, ret_count, err);
}

/* What is compared are hashes, which tell nothing about the keys; and always all of them. */
bool manager_key_match(struct manager *m, const char *text, struct key *ret) {
    unsigned char hash[HASH_SIZE];
    bool found = false;
    hash_of(text, strlen(text), hash);
    (void)pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < m->key_count; i++) {
        const struct key *k = &m->keys[i];
        if (!hash_equal(k->hash, hash) || k->is_organization || is_expired(k->expires_ms))
            continue;
        *ret = *k;
        found = true;
    }
    (void)pthread_mutex_unlock(&m->lock);
    return found;
}

bool manager_key_by_id(struct manager *m, const char *id, struct key *ret) {
    (void)pthread_mutex_lock(&m->lock);
    const struct key *k = keys_find(m, id);
    bool found = k != NULL && !is_expired(k->expires_ms);
    if (found)
        *ret = *k;
    (void)pthread_mutex_unlock(&m->lock);
    return found;
}
