/* What opens a preview: a token of the sandbox for all its ports, which lasts as long as it does;
 * another one for its toolbox, since who may look at a page may not run commands; or a signed one
 * for one port and a time, which also ends when the sandbox's signing key is rotated. All outlive
 * the daemon's process. */
#pragma once

#include "api/preview/place.h"
#include "manager/record/hash.h"

struct cay_error;
struct manager;

enum { PREVIEW_EXPIRES_MAX_S = 24 * 60 * 60, PREVIEW_EXPIRES_S = 60 };

enum preview_opens { PREVIEW_PORTS, PREVIEW_TOOLBOX };

int preview_token(struct manager *m, const char *id, enum preview_opens what,
                  char out[static HASH_TEXT_SIZE], struct cay_error *err);
/* True if it is that, of len bytes. */
bool preview_token_fits(struct manager *m, const char *id, enum preview_opens what,
                        const char *token, size_t len);

int preview_sign(struct manager *m, const char *id, uint16_t port, int64_t expires_s,
                 char out[static PREVIEW_SIGNED_SIZE], struct cay_error *err);
/* True if it is a token for this port of the sandbox that it names, neither expired nor revoked. */
bool preview_signed_fits(struct manager *m, const char *token, uint16_t port);
/* From now on it, which fits, opens nothing. -CAY_RESOURCE_EXHAUSTED if too many of its sandbox
 * were revoked lately. */
int preview_revoke(struct manager *m, const char *token, struct cay_error *err);
