#include "api/preview/sign.h"

#include <string.h>

#include "api/call.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json/jsonw.h"
#include "manager/manager.h"
#include "manager/record/secret.h"

/* ---- requests ---- */

bool sign_admit(struct manager *m, const char *method, const struct target *target,
                struct key *ret) {
    struct sign_claim claim;
    char secret[SECRET_SIZE];
    struct sandbox_record r = {0};
    if (!sign_read(method, target, &claim) || manager_get(m, claim.id, &r, NULL) < 0)
        return false;
    /* a name could look like an id */
    bool admitted = str_equal(r.id, claim.id) &&
                    manager_secret(m, r.id, SIGN_KIND, secret, NULL) == 0 &&
                    sign_is_valid(&claim, secret, clock_wall_ms() / 1000);
    explicit_bzero(secret, sizeof secret);
    if (admitted) {
        *ret = (struct key){.name = "signed-url", .scopes = SCOPE_SANDBOXES};
        memcpy(ret->id, r.owner, sizeof ret->id);
    }
    sandbox_record_free(&r);
    return admitted;
}

/* ---- the key itself ---- */

static void answer_secret(struct call *c, char secret[static SECRET_SIZE]) {
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_string(&w, secret);
    explicit_bzero(secret, SECRET_SIZE);
}

static int get_key(struct call *c, struct cay_error *err) {
    char secret[SECRET_SIZE];
    int r = manager_secret(c->manager, c->who, SIGN_KIND, secret, err);
    if (r == 0)
        answer_secret(c, secret);
    return r;
}

static int rotate_key(struct call *c, struct cay_error *err) {
    char secret[SECRET_SIZE];
    int r = manager_secret_renew(c->manager, c->who, SIGN_KIND, secret, err);
    if (r == 0)
        answer_secret(c, secret);
    return r;
}

static const struct route routes[] = {
    {"GET", "/api/sandbox/{who}/signing-key", get_key, NEED_USE},
    {"POST", "/api/sandbox/{who}/signing-key/rotate", rotate_key},
};

const struct route_table sign_routes = {routes, ARRAY_LEN(routes)};
