#include "remote/far.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "client/daemon.h"

enum {
    URL_MAX = 64 * 1024,
    PAGE = 100,
    PAGES_MAX = 1000,
    FIRST_LOOK_MS = 100, /* then twice as long each time, up to: */
    LOOK_MS = 1000,
    AWAIT_MS = 30 * 60 * 1000, /* an image may be built meanwhile */
    CALL_SECONDS = 15 * 60,    /* some answer when it is done */
};

int far_call(struct world *w, const struct far_call *call, struct json_document **ret,
             struct cay_error *err) {
    _cleanup_(buf_free) struct buf url = BUF_INIT(URL_MAX);
    world_put_api(w, &url, call->before);
    if (call->who != NULL)
        daemon_put_escaped(&url, call->who);
    (void)buf_puts(&url, call->after != NULL ? call->after : "");
    if (url.failed)
        return error_set(err, CAY_INVALID_ARGUMENT, "the name is longer than any sandbox's");
    const struct rest_request req = {
        .method = call->method, .url = buf_text(&url), .body = call->body, .seconds = CALL_SECONDS};
    return ret != NULL ? rest_call_json(w, &req, ret, err) : rest_call(w, &req, err);
}

int far_get(struct world *w, const char *who, struct json_document **ret, struct cay_error *err) {
    const struct far_call call = {.method = "GET", .before = "/sandbox/", .who = who};
    int r = far_call(w, &call, ret, err);
    struct json root = r == 0 ? json_root(*ret, "") : (struct json){0};
    if (r < 0 || far_string(&root, "id", "")[0] != '\0')
        return r;
    return error_set(err, CAY_UNAVAILABLE, "%s answered against the protocol", w->host);
}

/* ---- lists ---- */

static int no_memory(struct cay_error *err) {
    return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
}

static int add_items(struct far_list *list, const struct json *items, struct cay_error *err) {
    size_t more = json_count(items);
    struct json *grown = reallocarray(list->item, list->count + more + 1, sizeof *grown);
    if (grown == NULL)
        return no_memory(err);
    list->item = grown;
    for (size_t i = 0; i < more; i++) {
        struct json *one = &list->item[list->count];
        if (!json_item(items, i, one) || json_kind(one) != JSON_KIND_OBJECT)
            continue;
        *one = (struct json){.value = one->value, .key = ""}; /* its parent is gone after this */
        list->count++;
    }
    return 0;
}

/* An array in the early protocol is all there is. */
static int add_page(struct far_list *list, struct json_document *doc, const char **ret_next,
                    struct cay_error *err) {
    struct json_document **grown =
        reallocarray(list->page, list->pages + 1, sizeof(struct json_document *));
    if (grown == NULL) {
        json_free(doc);
        return no_memory(err);
    }
    list->page = grown;
    list->page[list->pages++] = doc;
    struct json root = json_root(doc, ""), items = root;
    *ret_next = NULL;
    if (json_kind(&root) == JSON_KIND_OBJECT) {
        items = (struct json){0};
        (void)json_get_array(&root, "items", JSON_OPTIONAL, &items, NULL);
        *ret_next = far_string(&root, "nextCursor", NULL);
    }
    return items.value == NULL ? 0 : add_items(list, &items, err);
}

static int ask_page(struct world *w, const char *labels, const char *cursor,
                    struct json_document **ret, struct cay_error *err) {
    _cleanup_(buf_free) struct buf query = BUF_INIT(URL_MAX);
    (void)buf_printf(&query, "?limit=%d", PAGE);
    if (labels != NULL) {
        (void)buf_puts(&query, "&labels=");
        daemon_put_escaped(&query, labels);
    }
    if (cursor != NULL) {
        (void)buf_puts(&query, "&cursor=");
        daemon_put_escaped(&query, cursor);
    }
    const struct far_call call = {.method = "GET", .before = "/sandbox", .after = buf_text(&query)};
    return query.failed ? error_set(err, CAY_INVALID_ARGUMENT, "the labels are too long")
                        : far_call(w, &call, ret, err);
}

int far_list(struct world *w, const char *labels, struct far_list *ret, struct cay_error *err) {
    const char *cursor = NULL;
    *ret = (struct far_list){0};
    do {
        struct json_document *doc = NULL;
        int r = ask_page(w, labels, cursor, &doc, err);
        if (r == 0)
            r = add_page(ret, doc, &cursor, err);
        if (r < 0)
            return r;
    } while (cursor != NULL && cursor[0] != '\0' && ret->pages < PAGES_MAX);
    return 0;
}

void far_list_free(struct far_list *list) {
    for (size_t i = 0; i < list->pages; i++)
        json_free(list->page[i]);
    free(list->page);
    free(list->item);
}

/* ---- states ---- */

static int has_failed(const struct json *at, struct cay_error *err) {
    error_set(err, CAY_UNAVAILABLE, "sandbox '%.100s' is in the state %s: %.200s",
              far_string(at, "name", "?"), far_string(at, "state", "?"),
              far_string(at, "errorReason", "the remote does not say why"));
    (void)error_remedy(err, "see 'cay info'; remove it with 'cay rm'");
    error_sanitize(err);
    return -(int)err->code;
}

/* 1: it is there; 0: not yet; negative: it never will be. */
static int look(struct world *w, const char *who, const char *wanted, struct json_document **ret,
                struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    bool to_end = str_equal(wanted, "destroyed");
    int r = far_get(w, who, &doc, err);
    if (r == -CAY_NOT_FOUND && to_end)
        return 1;
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    const char *state = far_string(&root, "state", "");
    if (str_equal(state, "error") || str_equal(state, "build_failed"))
        return to_end ? 0 : has_failed(&root, err);
    if (!str_equal(state, wanted))
        return 0;
    if (ret != NULL)
        *ret = TAKE_PTR(doc);
    return 1;
}

int far_await(struct world *w, const char *who, const char *state, struct json_document **ret,
              struct cay_error *err) {
    int64_t deadline = clock_ms() + AWAIT_MS;
    int pause = FIRST_LOOK_MS, r;
    while ((r = look(w, who, state, ret, err)) == 0) {
        if (clock_expired(deadline)) {
            error_set(err, CAY_TIMEOUT, "sandbox '%.100s' does not become %s", who, state);
            return error_remedy(err, "see 'cay info %.100s'", who);
        }
        (void)poll(NULL, 0, pause);
        pause = MIN(pause * 2, (int)LOOK_MS);
    }
    return MIN(r, 0);
}
