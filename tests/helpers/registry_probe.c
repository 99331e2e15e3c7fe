/* Drives the registry client for tests, without a store.
 *     registry_probe [OPTION...] manifest REFERENCE [TAG_OR_DIGEST]
 *     registry_probe [OPTION...] blob REFERENCE HEX SIZE OFFSET
 *     registry_probe [OPTION...] clones REFERENCE HEX SIZE     four threads, the same blob
 *     registry_probe [OPTION...] login REGISTRY
 *     registry_probe find|save|remove REGISTRY                 credentials; save takes --user
 * Options: --ca FILE --insecure --stall MS --attempts N --user NAME:SECRET --identity TOKEN
 *          --login (as credential_find finds it)
 * A manifest or blob goes to standard output, "restart" lines and a manifest's digest and type to
 * standard error. An error is one line there, and the exit code that a verb would have. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "imager/layer/digest.h"
#include "imager/registry/credentials.h"
#include "imager/registry/registry.h"

struct probe {
    struct registry_options options;
    struct credential credential;
    bool find;
    struct registry *registry;
    struct descriptor blob;
};

static int take_bytes(void *user, const void *data, size_t len, struct cay_error *err) {
    (void)user;
    int r = fd_write_all(STDOUT_FILENO, data, len);
    return r < 0 ? error_sys(err, -r, "the probe's own output") : 0;
}

static int begin_again(void *user, struct cay_error *err) {
    (void)user, (void)err;
    (void)fprintf(stderr, "restart\n");
    return 0;
}

static int open_registry(struct probe *p, const char *name, struct cay_error *err) {
    struct reference ref;
    int r = reference_parse(name, &ref, err);
    if (r == 0 && p->find)
        r = credential_find(ref.registry, &p->credential, err);
    return r < 0 ? r : registry_open(&ref, &p->credential, &p->options, &p->registry, err);
}

static int get_manifest(struct probe *p, char **argv, struct cay_error *err) {
    struct registry_document document;
    struct reference ref;
    char digest[HEX_SIZE + 8];
    int r = open_registry(p, argv[0], err);
    if (r < 0)
        return r;
    (void)reference_parse(argv[0], &ref, err);
    (void)snprintf(digest, sizeof digest, "sha256:%s", ref.digest);
    const char *asked = argv[1] != NULL ? argv[1] : ref.digest[0] != '\0' ? digest : ref.tag;
    r = registry_get_manifest(p->registry, asked, &document, err);
    if (r < 0)
        return r;
    (void)fprintf(stderr, "%s %s\n", document.hex, document.media_type);
    r = fd_write_all(STDOUT_FILENO, document.body.data, document.body.len);
    buf_free(&document.body);
    return r;
}

static int set_blob(struct probe *p, char **argv, struct cay_error *err) {
    if (argv[1] == NULL || argv[2] == NULL || str_copy(p->blob.hex, HEX_SIZE, argv[1]) < 0 ||
        str_to_u64(argv[2], INT64_MAX, &p->blob.size) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "blob: REFERENCE HEX SIZE");
    return open_registry(p, argv[0], err);
}

static int get_blob(struct probe *p, char **argv, struct cay_error *err) {
    struct blob_sink sink = {.write = take_bytes, .restart = begin_again};
    uint64_t offset = 0;
    int r = set_blob(p, argv, err);
    if (r < 0)
        return r;
    if (argv[3] != NULL && str_to_u64(argv[3], INT64_MAX, &offset) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "blob: bad OFFSET");
    return registry_get_blob(p->registry, &p->blob, offset, &sink, err);
}

/* ---- clones ---- */

static int hash_bytes(void *user, const void *data, size_t len, struct cay_error *err) {
    (void)err;
    digest_update(user, data, len);
    return 0;
}

static int no_restart(void *user, struct cay_error *err) {
    (void)user;
    return error_set(err, CAY_INTERNAL, "unexpected restart");
}

struct worker {
    pthread_t thread;
    struct probe *probe;
    struct cay_error err;
    int result;
};

static void *fetch_in_thread(void *user) {
    struct worker *w = user;
    _cleanup_(registry_closep) struct registry *mine = NULL;
    _cleanup_(digest_freep) struct digest *digest = digest_new();
    struct blob_sink sink = {.write = hash_bytes, .restart = no_restart, .user = digest};
    char hex[HEX_SIZE];
    w->result = registry_clone(w->probe->registry, &mine, &w->err);
    if (w->result == 0)
        w->result = registry_get_blob(mine, &w->probe->blob, 0, &sink, &w->err);
    digest_finish(digest, hex);
    if (w->result == 0 && !str_equal(hex, w->probe->blob.hex))
        w->result = error_set(&w->err, CAY_INTERNAL, "wrong digest");
    return NULL;
}

static int get_by_clones(struct probe *p, char **argv, struct cay_error *err) {
    struct worker workers[4] = {0};
    int r = set_blob(p, argv, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < ARRAY_LEN(workers); i++) {
        workers[i].probe = p;
        if (pthread_create(&workers[i].thread, NULL, fetch_in_thread, &workers[i]) != 0)
            return error_set(err, CAY_INTERNAL, "no thread");
    }
    for (size_t i = 0; i < ARRAY_LEN(workers); i++) {
        (void)pthread_join(workers[i].thread, NULL);
        if (workers[i].result < 0)
            *err = workers[i].err, r = workers[i].result;
    }
    return r;
}

/* ---- credentials ---- */

static int check_login(struct probe *p, char **argv, struct cay_error *err) {
    char name[REFERENCE_TEXT_SIZE];
    (void)snprintf(name, sizeof name, "%s/login/login", argv[0]);
    int r = open_registry(p, name, err);
    return r < 0 ? r : registry_check_login(p->registry, err);
}

static int find(struct probe *p, char **argv, struct cay_error *err) {
    int r = credential_find(argv[0], &p->credential, err);
    if (r == 0)
        (void)printf("%s|%s|%s\n", p->credential.user != NULL ? p->credential.user : "",
                     p->credential.secret != NULL ? p->credential.secret : "",
                     p->credential.identity_token != NULL ? p->credential.identity_token : "");
    return r;
}

static int save(struct probe *p, char **argv, struct cay_error *err) {
    return credential_save(argv[0], &p->credential, err);
}

static int forget(struct probe *p, char **argv, struct cay_error *err) {
    (void)p;
    int r = credential_remove(argv[0], err);
    if (r >= 0)
        (void)printf("%d\n", r);
    return MIN(r, 0);
}

/* ---- arguments ---- */

static bool set_user(struct probe *p, const char *text) {
    const char *colon = strchr(text, ':');
    if (colon == NULL)
        return false;
    p->credential.user = strndup(text, (size_t)(colon - text));
    p->credential.secret = strdup(colon + 1);
    return true;
}

/* Takes one option with its value; how many words that were, 0 if it is none. */
static int take_option(struct probe *p, char **argv) {
    int64_t number = 0;
    if (str_equal(argv[0], "--insecure") || str_equal(argv[0], "--login")) {
        *(argv[0][2] == 'i' ? &p->options.insecure : &p->find) = true;
        return 1;
    }
    if (!str_starts(argv[0], "--") || argv[1] == NULL)
        return 0;
    if (str_equal(argv[0], "--ca"))
        p->options.ca_file = argv[1];
    else if (str_equal(argv[0], "--user"))
        return set_user(p, argv[1]) ? 2 : 0;
    else if (str_equal(argv[0], "--identity"))
        p->credential.identity_token = strdup(argv[1]);
    else if (str_to_i64(argv[1], 1, 1 << 30, &number) < 0)
        return 0;
    else if (str_equal(argv[0], "--stall"))
        p->options.stall_ms = number;
    else if (str_equal(argv[0], "--attempts"))
        p->options.attempts = (unsigned)number;
    return 2;
}

static int run(struct probe *p, char **argv, struct cay_error *err) {
    static const struct {
        const char *name;
        int (*run)(struct probe *p, char **argv, struct cay_error *err);
    } verbs[] = {{"manifest", get_manifest}, {"blob", get_blob}, {"clones", get_by_clones},
                 {"login", check_login},     {"find", find},     {"save", save},
                 {"remove", forget}};
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        if (argv[0] != NULL && argv[1] != NULL && str_equal(argv[0], verbs[i].name))
            return verbs[i].run(p, argv + 1, err);
    return error_set(err, CAY_INVALID_ARGUMENT, "usage: see registry_probe.c");
}

int main(int argc, char **argv) {
    (void)argc;
    struct cay_error err = {0};
    struct probe p = {0};
    argv++;
    for (int n; *argv != NULL && (n = take_option(&p, argv)) > 0;)
        argv += n;
    int r = run(&p, argv, &err);
    registry_close(p.registry);
    credential_clear(&p.credential);
    if (r < 0)
        (void)fprintf(stderr, "%s: %s [%s]\n", cay_code_name(err.code), err.message, err.remedy);
    return r < 0 ? cay_code_exit(err.code) : 0;
}
