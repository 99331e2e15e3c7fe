#include "imager/registry/error.h"

#include "base/error.h"
#include "base/json/json.h"
#include "base/str.h"

/* {"errors": [{"code": …, "message": …}]} of registries; token servers have other words for it. */
static void find_words(const struct json *root, const char **code, const char **message) {
    static const char *const keys[] = {"details", "error_description", "message", "error"};
    struct json errors, first;
    if (json_child(root, "errors", &errors) && json_item(&errors, 0, &first)) {
        (void)json_get_string(&first, "code", JSON_OPTIONAL, code, NULL);
        (void)json_get_string(&first, "message", JSON_OPTIONAL, message, NULL);
    }
    for (size_t i = 0; i < ARRAY_LEN(keys) && *message == NULL; i++)
        (void)json_get_string(root, keys[i], JSON_OPTIONAL, message, NULL);
}

const char *registry_said(const struct http_response *response,
                          char out[static REGISTRY_SAID_SIZE]) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    const char *code = NULL, *message = NULL;
    char text[REGISTRY_SAID_SIZE];
    out[0] = '\0';
    if (json_parse("answer", buf_text(&response->error_body), response->error_body.len, &doc,
                   NULL) < 0)
        return out;
    struct json root = json_root(doc, "");
    find_words(&root, &code, &message);
    if (code == NULL && message == NULL)
        return out;
    (void)snprintf(text, sizeof text, "%s%s%s", code != NULL ? code : "",
                   code != NULL && message != NULL ? ": " : "", message != NULL ? message : "");
    return str_escape(out, REGISTRY_SAID_SIZE, text);
}

static enum cay_code code_of(long status) {
    switch (status) {
    case 401:
        return CAY_UNAUTHORIZED;
    case 403:
        return CAY_FORBIDDEN;
    case 404:
        return CAY_NOT_FOUND;
    case 429:
        return CAY_LIMIT_REACHED;
    case 408:
    case 504:
        return CAY_TIMEOUT;
    default:
        return CAY_UNAVAILABLE;
    }
}

static const char *meaning_of(long status, bool known) {
    switch (status) {
    case 401:
        return known ? "the registry does not accept these credentials for it"
                     : "it does not exist, or one has to log in for it";
    case 403:
        return "the registry denies it";
    case 404:
        return "the registry has no such name, tag or digest";
    case 429:
        return "the registry allows no more requests for now";
    default:
        return status >= 500 ? "the registry fails" : "the registry's answer makes no sense";
    }
}

static void set_remedy(long status, const char *registry, struct cay_error *err) {
    switch (status) {
    case 401:
    case 403:
        (void)error_remedy(err, "check the name, and log in: cay image login %s", registry);
        return;
    case 404:
        (void)error_remedy(err,
                           "check the name and the tag; if the image is private, log in: "
                           "cay image login %s",
                           registry);
        return;
    case 429:
        (void)error_remedy(err, "wait, or log in for a higher limit: cay image login %s", registry);
        return;
    default:
        (void)error_remedy(err, "try again later, or check that %s is a registry", registry);
    }
}

int registry_refusal(const struct http_response *response, const char *registry, bool known,
                     struct cay_error *err) {
    char said[REGISTRY_SAID_SIZE];
    (void)registry_said(response, said);
    int r = error_set(err, code_of(response->status), "%s (HTTP %ld%s%s)",
                      meaning_of(response->status, known), response->status,
                      said[0] != '\0' ? ", " : "", said);
    set_remedy(response->status, registry, err);
    return r;
}
