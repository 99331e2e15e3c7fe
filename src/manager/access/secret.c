#include <string.h>

#include "base/error.h"
#include "base/id.h"
#include "manager/internal.h"
#include "manager/record/secret.h"

static int make(char text[static SECRET_SIZE], struct cay_error *err) {
    unsigned char random[32];
    int r = id_random(random, sizeof random);
    if (r < 0)
        return error_sys(err, -r, "making a secret");
    hash_text(random, text);
    explicit_bzero(random, sizeof random);
    return 0;
}

/* Two who ask for the first time at once get the same. */
int manager_secret(struct manager *m, const char *id, const char *kind,
                   char text[static SECRET_SIZE], struct cay_error *err) {
    int r = db_secret_get(m->db, id, kind, text, SECRET_SIZE, err);
    if (r != -CAY_NOT_FOUND)
        return r;
    r = make(text, err);
    if (r == 0)
        r = db_secret_set(m->db, id, kind, text, false, err);
    return r < 0 ? r : db_secret_get(m->db, id, kind, text, SECRET_SIZE, err);
}

int manager_secret_renew(struct manager *m, const char *id, const char *kind,
                         char text[static SECRET_SIZE], struct cay_error *err) {
    int r = make(text, err);
    return r < 0 ? r : db_secret_set(m->db, id, kind, text, true, err);
}

int manager_secret_note(struct manager *m, const char *id, const char *kind, char *text,
                        size_t size, struct cay_error *err) {
    text[0] = '\0';
    int r = db_secret_get(m->db, id, kind, text, size, err);
    return r == -CAY_NOT_FOUND ? 0 : r;
}

int manager_secret_set_note(struct manager *m, const char *id, const char *kind, const char *text,
                            struct cay_error *err) {
    return db_secret_set(m->db, id, kind, text, true, err);
}
