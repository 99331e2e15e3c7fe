#include "api/preview_token.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "manager/manager.h"
#include "manager/secret.h"

enum { REVOKED_MAX = 4096 };

/* Tokens that were revoked before they expired. It needs no place on disk, since no signed token
 * outlives the process: see nonce. */
static struct {
    pthread_mutex_t lock;
    bool has_nonce;
    unsigned char nonce[16];
    char (*tokens)[PREVIEW_SIGNED_SIZE];
    size_t count;
} revoked = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int get_nonce(char out[static 33], struct cay_error *err) {
    (void)pthread_mutex_lock(&revoked.lock);
    int r = revoked.has_nonce ? 0 : id_random(revoked.nonce, sizeof revoked.nonce);
    revoked.has_nonce = r == 0;
    for (size_t i = 0; i < sizeof revoked.nonce; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", revoked.nonce[i]);
    (void)pthread_mutex_unlock(&revoked.lock);
    return r < 0 ? error_sys(err, -r, "making a token") : 0;
}

/* HMAC of a text under the sandbox's own secret. */
static int sign(struct manager *m, const char *id, const char *text,
                unsigned char ret[static HASH_SIZE], struct cay_error *err) {
    char secret[SECRET_SIZE];
    int r = manager_secret(m, id, "preview", secret, err);
    if (r == 0)
        hash_sign(secret, strlen(secret), text, strlen(text), ret);
    explicit_bzero(secret, sizeof secret);
    return r;
}

int preview_token(struct manager *m, const char *id, char out[static HASH_TEXT_SIZE],
                  struct cay_error *err) {
    unsigned char mac[HASH_SIZE];
    int r = sign(m, id, "preview", mac, err);
    if (r == 0)
        hash_text(mac, out);
    return r;
}

/* In a time that does not tell where they differ. */
static bool is_same(const char *a, size_t a_len, const char *b, size_t b_len) {
    unsigned char one[HASH_SIZE], other[HASH_SIZE];
    hash_of(a, a_len, one);
    hash_of(b, b_len, other);
    return hash_equal(one, other);
}

bool preview_token_fits(struct manager *m, const char *id, const char *token, size_t len) {
    char right[HASH_TEXT_SIZE];
    return preview_token(m, id, right, NULL) == 0 && is_same(right, strlen(right), token, len);
}

/* ---- signed ones ---- */

int preview_sign(struct manager *m, const char *id, uint16_t port, int64_t expires_s,
                 char out[static PREVIEW_SIGNED_SIZE], struct cay_error *err) {
    char nonce[33] = "", text[128];
    unsigned char mac[HASH_SIZE] = {0};
    int r = get_nonce(nonce, err);
    (void)snprintf(text, sizeof text, "signed:%s:%s:%u:%lld", nonce, id, port,
                   (long long)expires_s);
    if (r == 0)
        r = sign(m, id, text, mac, err);
    if (r < 0)
        return r;
    (void)snprintf(out, PREVIEW_SIGNED_SIZE, "%.*s%08llx", ID_LEN, id,
                   (unsigned long long)expires_s & 0xffffffffU);
    for (size_t i = 0; i < PREVIEW_MAC_LEN / 2; i++)
        (void)snprintf(out + ID_LEN + 8 + 2 * i, 3, "%02x", mac[i]);
    return 0;
}

static int64_t expiry_of(const char *token) {
    uint32_t seconds = 0;
    for (size_t i = ID_LEN; i < ID_LEN + 8; i++)
        seconds = seconds << 4 | (uint32_t)str_hex_digit(token[i]);
    return seconds;
}

static bool is_revoked(const char *token) {
    bool found = false;
    (void)pthread_mutex_lock(&revoked.lock);
    for (size_t i = 0; i < revoked.count && !found; i++)
        found = str_equal(revoked.tokens[i], token);
    (void)pthread_mutex_unlock(&revoked.lock);
    return found;
}

bool preview_signed_fits(struct manager *m, const char *token, uint16_t port) {
    char id[ID_SIZE], right[PREVIEW_SIGNED_SIZE];
    memcpy(id, token, ID_LEN);
    id[ID_LEN] = '\0';
    int64_t expires_s = expiry_of(token);
    return expires_s > clock_wall_ms() / 1000 &&
           preview_sign(m, id, port, expires_s, right, NULL) == 0 &&
           is_same(right, strlen(right), token, strlen(token)) && !is_revoked(token);
}

/* Those that expired since then take no place any more. */
static void forget_expired(void) {
    size_t kept = 0;
    int64_t now_s = clock_wall_ms() / 1000;
    for (size_t i = 0; i < revoked.count; i++)
        if (expiry_of(revoked.tokens[i]) > now_s)
            memcpy(revoked.tokens[kept++], revoked.tokens[i], PREVIEW_SIGNED_SIZE);
    revoked.count = kept;
}

int preview_revoke(const char *token, struct cay_error *err) {
    int r = 0;
    (void)pthread_mutex_lock(&revoked.lock);
    if (revoked.tokens == NULL)
        revoked.tokens = calloc(REVOKED_MAX, sizeof *revoked.tokens);
    forget_expired();
    if (revoked.tokens == NULL) {
        r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    } else if (revoked.count == REVOKED_MAX) {
        error_set(err, CAY_RESOURCE_EXHAUSTED, "%d signed URLs were revoked already", REVOKED_MAX);
        r = error_remedy(err, "wait until some of them have expired");
    } else {
        memcpy(revoked.tokens[revoked.count++], token, PREVIEW_SIGNED_SIZE);
    }
    (void)pthread_mutex_unlock(&revoked.lock);
    return r;
}
