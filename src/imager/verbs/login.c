/* login, logout */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "imager/registry/credentials.h"
#include "imager/registry/registry.h"
#include "imager/verbs/verbs.h"

enum { SECRET_MAX = 64 * 1024, TYPED_MAX = 4096 };

struct login {
    const struct image_login_options *options;
    struct reference ref; /* of anything in the registry */
    struct access access;
    struct credential credential;
};

/* "localhost:5000": what stands before the first slash of image names. */
static int parse_registry(const char *text, struct reference *ret, struct cay_error *err) {
    char shown[80], name[REFERENCE_TEXT_SIZE];
    bool plain = strchr(text, '/') == NULL && str_format(name, sizeof name, "%s/x", text) == 0;
    if (plain && reference_parse(name, ret, err) == 0 &&
        (str_equal(ret->repository, "x") || str_equal(ret->repository, "library/x")))
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "'%s' is not a registry",
              str_escape(shown, sizeof shown, text));
    return error_remedy(err, "use a host with an optional port, such as docker.io or "
                             "registry.example:5000");
}

/* ---- who, and the secret ---- */

static int read_user(struct login *l, struct cay_error *err) {
    char typed[TYPED_MAX];
    const char *user = l->options->user;
    if (user == NULL && (l->options->password_stdin || !isatty(STDIN_FILENO))) {
        error_set(err, CAY_INVALID_ARGUMENT, "no user was given, and there is no terminal to ask");
        return error_remedy(err, "use -u NAME and --password-stdin");
    }
    if (user == NULL) {
        int r = prompt("User: ", true, typed, sizeof typed, err);
        if (r < 0)
            return r;
        user = typed;
    }
    if (user[0] == '\0' || strchr(user, ':') != NULL) {
        error_set(err, CAY_INVALID_ARGUMENT, "the user's name is empty or has a ':'");
        return error_remedy(err, "use -u NAME");
    }
    l->credential.user = strdup(user);
    return l->credential.user == NULL ? error_sys(err, ENOMEM, "logging in") : 0;
}

static int read_piped(struct buf *secret, struct cay_error *err) {
    int r = fd_read_to_end(STDIN_FILENO, secret);
    if (r < 0)
        return error_sys(err, -r, "reading the password from standard input");
    if (secret->len > 0 && secret->data[secret->len - 1] == '\n')
        secret->data[--secret->len] = '\0';
    if (secret->len > 0 && secret->data[secret->len - 1] == '\r')
        secret->data[--secret->len] = '\0';
    if (secret->len > 0 && strlen(secret->data) == secret->len)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "the password on standard input is empty, or no text");
    return error_remedy(err, "pipe the password in");
}

static int read_typed(struct buf *secret, struct cay_error *err) {
    char *place = buf_reserve(secret, TYPED_MAX);
    if (place == NULL)
        return error_sys(err, ENOMEM, "reading the password");
    if (!isatty(STDIN_FILENO)) {
        error_set(err, CAY_INVALID_ARGUMENT, "there is no terminal to ask for the password");
        return error_remedy(err, "use --password-stdin and pipe it in");
    }
    int r = prompt("Password: ", false, place, TYPED_MAX, err);
    if (r == 0)
        buf_commit(secret, strlen(place));
    return r;
}

static int read_secret(struct login *l, struct cay_error *err) {
    struct buf secret = BUF_INIT(SECRET_MAX);
    int r = l->options->password_stdin ? read_piped(&secret, err) : read_typed(&secret, err);
    if (r == 0) {
        l->credential.secret = buf_take(&secret);
        return 0;
    }
    if (secret.data != NULL)
        explicit_bzero(secret.data, secret.cap);
    buf_free(&secret);
    return r;
}

/* ---- login ---- */

/* What the registry answers is read in the world, as in a pull. */
static int try_in_world(void *user) {
    const struct login *l = user;
    struct cay_error err;
    struct world world = WORLD_NONE;
    struct registry_options options;
    struct registry *registry = NULL;
    access_to(&l->access, l->ref.registry, &options);
    int r = verbs_enter(&l->options->registry.common, false, &world, &err);
    if (r == 0)
        r = registry_open(&l->ref, &l->credential, &options, &registry, &err);
    if (r == 0)
        r = registry_check_login(registry, &err);
    registry_close(registry);
    verbs_leave(&world);
    return r < 0 ? verb_fail(&err) : 0;
}

static int prepare(struct login *l, const char *text, struct cay_error *err) {
    int r = parse_registry(text, &l->ref, err);
    if (r == 0)
        r = access_open(&l->options->registry, &l->access, err);
    if (r == 0)
        r = read_user(l, err);
    return r < 0 ? r : read_secret(l, err);
}

int do_login(const void *values, int argc, char **argv) {
    (void)argc;
    struct cay_error err;
    struct login l = {.options = values};
    int code = prepare(&l, argv[0], &err);
    apart_prepare();
    if (code == 0)
        code = apart_run(try_in_world, &l, &err);
    if (code == 0)
        code = credential_save(l.ref.registry, &l.credential, &err);
    if (code < 0)
        code = verb_fail(&err);
    else if (code == 0 && !l.options->registry.common.quiet)
        verb_note("logged in to %s as %s", l.ref.registry, l.credential.user);
    credential_clear(&l.credential);
    access_close(&l.access);
    return code;
}

/* ---- logout ---- */

int do_logout(const void *values, int argc, char **argv) {
    (void)argc;
    const struct verb_common *common = values;
    struct cay_error err;
    struct reference ref;
    int r = parse_registry(argv[0], &ref, &err);
    if (r == 0)
        r = credential_remove(ref.registry, &err);
    if (r < 0)
        return verb_fail(&err);
    if (!common->quiet)
        verb_note(r > 0 ? "logged out of %s" : "there was no login to %s", ref.registry);
    return 0;
}
