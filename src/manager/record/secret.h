/* Secrets of sandboxes: what URLs are signed with, made when they are first asked for, kept in the
 * database, gone with their sandbox. */
#pragma once

#include "manager/record/record.h"

struct cay_error;
struct manager;

enum { SECRET_LEN = 43, SECRET_SIZE = SECRET_LEN + 1 }; /* 32 random bytes in base64url */

/* The secret of a kind ("files", "preview") of the sandbox with this id. */
int manager_secret(struct manager *m, const char *id, const char *kind,
                   char text[static SECRET_SIZE], struct cay_error *err);

/* What else is kept beside them, of a kind of its own: a text, "" if there is none. */
int manager_secret_note(struct manager *m, const char *id, const char *kind, char *text,
                        size_t size, struct cay_error *err);
int manager_secret_set_note(struct manager *m, const char *id, const char *kind, const char *text,
                            struct cay_error *err);

/* A new one in its place: whatever was signed with the old one is void. */
int manager_secret_renew(struct manager *m, const char *id, const char *kind,
                         char text[static SECRET_SIZE], struct cay_error *err);
