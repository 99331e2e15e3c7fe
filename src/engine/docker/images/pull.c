#include "engine/docker/images/pull.h"

#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"
#include "engine/docker/api.h"
#include "image/progress.h"

enum { LINE_MAX_BYTES = 256 * 1024, LAYERS_MAX = 512, SILENCE_S = 5 * 60 };

struct layer {
    char id[64];
    unsigned item;
};

struct pull {
    struct progress *progress;
    struct buf line;
    struct layer layers[LAYERS_MAX];
    size_t count;
    char error[DOCKER_TEXT_SIZE]; /* "": none */
};

/* ---- progress ---- */

/* In cay's own words, as pulls into its store tell it. */
static const struct {
    const char *status, *state;
} states[] = {
    {"Downloading", "downloading"}, {"Verifying Checksum", "verifying"},
    {"Extracting", "unpacking"},    {"Pull complete", "done"},
    {"Already exists", "exists"},
};

static const char *state_of(const struct docker_progress *line) {
    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        if (str_equal(line->status, states[i].status))
            return states[i].state;
    return NULL;
}

/* The layer's own item, which it gets with its first line; NULL if there are too many. */
static const struct layer *find_layer(struct pull *p, const struct docker_progress *line) {
    for (size_t i = 0; i < p->count; i++)
        if (str_equal(p->layers[i].id, line->id))
            return &p->layers[i];
    if (p->count == LAYERS_MAX)
        return NULL;
    struct layer *l = &p->layers[p->count++];
    memcpy(l->id, line->id, sizeof l->id);
    l->item = progress_item(p->progress, line->id, line->total);
    return l;
}

/* Lines that are not understood tell nothing, and break nothing. */
static void take_line(struct pull *p, const char *text, size_t len) {
    struct docker_progress line;
    if (docker_parse_progress(text, len, &line, NULL) < 0)
        return;
    if (line.error[0] != '\0')
        memcpy(p->error, line.error, sizeof p->error);
    const char *state = state_of(&line);
    const struct layer *l = state != NULL && line.id[0] != '\0' ? find_layer(p, &line) : NULL;
    if (l != NULL)
        progress_update(p->progress, l->item, state, line.done);
}

static int on_data(void *user, const char *data, size_t len) {
    struct pull *p = user;
    if (buf_append(&p->line, data, len) < 0)
        return -1;
    for (;;) {
        const char *end = memchr(buf_text(&p->line), '\n', p->line.len);
        if (end == NULL)
            return 0;
        size_t n = (size_t)(end - p->line.data);
        take_line(p, p->line.data, n);
        buf_consume(&p->line, n + 1);
    }
}

/* ---- failures ---- */

enum remedy { ROOM, LOGIN, TRUST, NAME, REACH };

/* What registries and Docker say, the more telling before the less. */
static const struct {
    const char *part;
    enum cay_code code;
    enum remedy remedy;
} failures[] = {
    {"no space left on device", CAY_RESOURCE_EXHAUSTED, ROOM},
    {"x509:", CAY_UNAVAILABLE, TRUST},
    {"server gave HTTP response to HTTPS client", CAY_UNAVAILABLE, TRUST},
    {"certificate", CAY_UNAVAILABLE, TRUST},
    {"toomanyrequests", CAY_LIMIT_REACHED, LOGIN},
    {"unauthorized", CAY_UNAUTHORIZED, LOGIN},
    {"authentication required", CAY_UNAUTHORIZED, LOGIN},
    {"no basic auth credentials", CAY_UNAUTHORIZED, LOGIN},
    {"incorrect username or password", CAY_UNAUTHORIZED, LOGIN},
    {"may require 'docker login'", CAY_NOT_FOUND, LOGIN},
    {"denied", CAY_FORBIDDEN, LOGIN},
    {"manifest unknown", CAY_NOT_FOUND, NAME},
    {"not found", CAY_NOT_FOUND, NAME},
    {"no matching manifest", CAY_NOT_FOUND, NAME},
};

static int remedy(enum remedy which, const char *registry, struct cay_error *err) {
    switch (which) {
    case ROOM:
        return error_remedy(err, DOCKER_MAKE_ROOM);
    case LOGIN:
        return error_remedy(err, "check the name, and log in: cay image login %.200s", registry);
    case TRUST:
        return error_remedy(err,
                            "give Docker its certificate (/etc/docker/certs.d), or name %.200s "
                            "in insecure-registries of its daemon.json (podman: registries.conf)",
                            registry);
    case NAME:
        return error_remedy(err, "check the image's name and its tag");
    default:
        return error_remedy(err,
                            "look whether Docker's machine reaches %.200s, or fetch the image "
                            "elsewhere and use cay image load",
                            registry);
    }
}

int docker_pull_failed(const struct reference *ref, const char *message, struct cay_error *err) {
    char name[REFERENCE_TEXT_SIZE];
    enum cay_code code = CAY_UNAVAILABLE;
    enum remedy what = REACH;
    for (size_t i = 0; i < ARRAY_LEN(failures); i++)
        if (strstr(message, failures[i].part) != NULL) {
            code = failures[i].code;
            what = failures[i].remedy;
            break;
        }
    error_set(err, code, "Docker could not pull %.200s: %s", reference_familiar(ref, name),
              message);
    return remedy(what, ref->registry, err);
}

/* ---- the pull ---- */

static int make_path(const struct reference *ref, char out[static DOCKER_PATH_SIZE],
                     struct cay_error *err) {
    bool by_digest = ref->digest[0] != '\0';
    if (str_format(out, DOCKER_PATH_SIZE, "/images/create?fromImage=%s/%s&tag=%s%s", ref->registry,
                   ref->repository, by_digest ? "sha256:" : "",
                   by_digest ? ref->digest : ref->tag) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the image's name is too long");
    return 0;
}

int docker_pull(struct docker_api *api, const struct reference *ref, const char *auth,
                struct progress *progress, struct cay_error *err) {
    _cleanup_(docker_answer_free) struct docker_answer a = DOCKER_ANSWER_INIT;
    char path[DOCKER_PATH_SIZE], name[REFERENCE_TEXT_SIZE];
    struct pull p = {.progress = progress, .line = BUF_INIT(LINE_MAX_BYTES)};
    int r = make_path(ref, path, err);
    if (r < 0)
        return r;
    progress_note(progress, "%s: pulled by Docker", reference_familiar(ref, name));
    struct docker_call call = {.method = "POST",
                               .path = path,
                               .auth = auth,
                               .timeout_ms = -1,       /* it takes what it takes, */
                               .silence_s = SILENCE_S, /* and tells how far it is */
                               .sink = on_data,
                               .user = &p};
    r = docker_ask(api, &call, &a, err);
    take_line(&p, buf_text(&p.line), p.line.len); /* the last may have no end */
    if (r == 0 && a.status >= 400)
        docker_parse_error(buf_text(&a.body), a.body.len, p.error);
    if (p.error[0] != '\0') /* which tells more than a connection that broke off then */
        r = docker_pull_failed(ref, p.error, err);
    else if (r < 0)
        error_prefix(err, "Docker's pull of %.200s", reference_familiar(ref, name));
    buf_free(&p.line);
    return r;
}
