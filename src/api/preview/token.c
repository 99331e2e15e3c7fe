#include "api/preview/token.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "api/preview/sign.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "manager/manager.h"
#include "manager/record/secret.h"

/* Those of one sandbox that were revoked before they expired are kept as one text: what follows the
 * id in each, with a space behind it. */
enum { TAIL_LEN = PREVIEW_SIGNED_LEN - ID_LEN, REVOKED_MAX = 256 };
enum { REVOKED_SIZE = REVOKED_MAX * (TAIL_LEN + 1) + 1 };
static const char revoked_kind[] = "revoked";
static pthread_mutex_t revoking = PTHREAD_MUTEX_INITIALIZER;

/* HMAC of a text under a secret of the sandbox's own. */
static int sign(struct manager *m, const char *id, const char *kind, const char *text,
                unsigned char ret[static HASH_SIZE], struct cay_error *err) {
    char secret[SECRET_SIZE];
    int r = manager_secret(m, id, kind, secret, err);
    if (r == 0)
        hash_sign(secret, strlen(secret), text, strlen(text), ret);
    explicit_bzero(secret, sizeof secret);
    return r;
}

int preview_token(struct manager *m, const char *id, enum preview_opens what,
                  char out[static HASH_TEXT_SIZE], struct cay_error *err) {
    unsigned char mac[HASH_SIZE];
    int r = sign(m, id, "preview", what == PREVIEW_TOOLBOX ? "toolbox" : "preview", mac, err);
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

bool preview_token_fits(struct manager *m, const char *id, enum preview_opens what,
                        const char *token, size_t len) {
    char right[HASH_TEXT_SIZE];
    return preview_token(m, id, what, right, NULL) == 0 &&
           is_same(right, strlen(right), token, len);
}

/* ---- signed ones ---- */

int preview_sign(struct manager *m, const char *id, uint16_t port, int64_t expires_s,
                 char out[static PREVIEW_SIGNED_SIZE], struct cay_error *err) {
    char text[128];
    unsigned char mac[HASH_SIZE] = {0};
    (void)snprintf(text, sizeof text, "preview:%s:%u:%lld", id, port, (long long)expires_s);
    int r = sign(m, id, SIGN_KIND, text, mac, err);
    if (r < 0)
        return r;
    (void)snprintf(out, PREVIEW_SIGNED_SIZE, "%.*s%08llx", ID_LEN, id,
                   (unsigned long long)expires_s & 0xffffffffU);
    for (size_t i = 0; i < PREVIEW_MAC_LEN / 2; i++)
        (void)snprintf(out + ID_LEN + 8 + 2 * i, 3, "%02x", mac[i]);
    return 0;
}

/* Of what follows the id in a token. */
static int64_t expiry_of(const char *tail) {
    uint32_t seconds = 0;
    for (size_t i = 0; i < 8; i++)
        seconds = seconds << 4 | (uint32_t)str_hex_digit(tail[i]);
    return seconds;
}

/* What cannot be read opens nothing. */
static bool is_revoked(struct manager *m, const char *id, const char *tail) {
    char text[REVOKED_SIZE];
    return manager_secret_note(m, id, revoked_kind, text, sizeof text, NULL) < 0 ||
           strstr(text, tail) != NULL;
}

bool preview_signed_fits(struct manager *m, const char *token, uint16_t port) {
    char id[ID_SIZE], right[PREVIEW_SIGNED_SIZE];
    memcpy(id, token, ID_LEN);
    id[ID_LEN] = '\0';
    int64_t expires_s = expiry_of(token + ID_LEN);
    return expires_s > clock_wall_ms() / 1000 &&
           preview_sign(m, id, port, expires_s, right, NULL) == 0 &&
           is_same(right, strlen(right), token, strlen(token)) &&
           !is_revoked(m, id, token + ID_LEN);
}

/* Those that expired since then take no place any more. */
static void forget_expired(char *text) {
    int64_t now_s = clock_wall_ms() / 1000;
    char *kept = text;
    for (const char *at = text; strlen(at) > TAIL_LEN; at += TAIL_LEN + 1) {
        if (expiry_of(at) <= now_s)
            continue;
        memmove(kept, at, TAIL_LEN + 1);
        kept += TAIL_LEN + 1;
    }
    *kept = '\0';
}

static int add_revoked(struct manager *m, const char *id, const char *tail, struct cay_error *err) {
    char text[REVOKED_SIZE];
    int r = manager_secret_note(m, id, revoked_kind, text, sizeof text, err);
    if (r < 0)
        return r;
    forget_expired(text);
    size_t len = strlen(text);
    if (len + TAIL_LEN + 1 >= sizeof text) {
        error_set(err, CAY_RESOURCE_EXHAUSTED, "%d signed URLs were revoked already", REVOKED_MAX);
        return error_remedy(err, "wait until some of them have expired, or rotate the signing key");
    }
    (void)snprintf(text + len, sizeof text - len, "%s ", tail);
    return manager_secret_set_note(m, id, revoked_kind, text, err);
}

int preview_revoke(struct manager *m, const char *token, struct cay_error *err) {
    char id[ID_SIZE];
    (void)snprintf(id, sizeof id, "%s", token);
    (void)pthread_mutex_lock(&revoking);
    int r = add_revoked(m, id, token + ID_LEN, err);
    (void)pthread_mutex_unlock(&revoking);
    return r;
}
