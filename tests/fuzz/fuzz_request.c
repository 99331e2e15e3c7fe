/* Requests as the HTTP library hands them on, to the handlers of every route, over a manager whose
 * engine only pretends; what a sandbox answers is hostile too. An input is up to REQUESTS_MAX
 * requests, one behind the other as request_stage.h says, each
 *
 *     METHOD URI, lines "Name: value", an empty line, the body
 *
 * "lab" is a sandbox that is there whatever the requests before did. */
#include "request_ask.h"

enum { REQUESTS_MAX = 8, BOXES_MAX = 20 };

/* ---- images that only pretend ---- */

static int list_images(void *user, const char *owner, struct buf *text, struct cay_error *err) {
    (void)user, (void)owner, (void)err;
    return buf_puts(text, "ok\na:1\tAA\t1073741824\t2026-01-02T03:04:05Z\t\n\n");
}

static int change_image(void *user, const char *owner, const char *made_by, const char *from,
                        const char *name, struct cay_error *err) {
    (void)user, (void)owner, (void)made_by, (void)from;
    return str_equal(name, "taken") ? error_set(err, CAY_CONFLICT, "it is there") : 0;
}

static int forget_image(void *user, const char *owner, const char *name, struct cay_error *err) {
    (void)user, (void)owner;
    return str_equal(name, "a:1") ? 0 : error_set(err, CAY_NOT_FOUND, "no image '%s'", name);
}

/* Fails at once: what is not built has the longer way through the handlers. */
static int build_image(void *user, const struct image_build_order *order, char id[static HEX_SIZE],
                       struct cay_error *err) {
    (void)user, (void)id;
    (void)fd_write_all(order->log, "step 1\n", 7);
    return error_set(err, CAY_CONFLICT, "it cannot be built");
}

static const struct image_ops images = {list_images,  change_image, forget_image,
                                        change_image, build_image,  NULL};

/* ---- one request ---- */

/* Cuts off a part that ends in any of `ends`; the end is kept in *ret_end. */
static char *cut(char **text, const char *ends, char *ret_end) {
    char *part = *text;
    size_t len = strcspn(part, ends);
    *ret_end = part[len];
    *text = part + len + (part[len] != '\0');
    part[len] = '\0';
    return part;
}

static void read_headers(char **text) {
    char end = '\0';
    stage.headers = 0;
    while (**text != '\0') {
        char *line = cut(text, "\n", &end), *value = strstr(line, ": ");
        if (line[0] == '\0')
            return;
        if (value == NULL || stage.headers == HEADERS_MAX)
            continue;
        *value = '\0';
        stage.name[stage.headers] = line;
        stage.value[stage.headers++] = value + 2;
    }
}

static void take_request(char *text, size_t len) {
    _cleanup_(buf_free) struct buf seen = BUF_INIT(STREAM_MAX);
    char end = '\0', *rest = text, *answers = NULL;
    len = take_answers(text, len, &answers);
    const char *method = cut(&rest, " \n", &end);
    const char *uri = end == ' ' ? cut(&rest, "\n", &end) : "";
    read_headers(&rest);
    if (rest <= text + len)
        (void)ask(method, uri, rest, (size_t)(text + len - rest), &seen);
    free(answers);
}

/* ---- the world ---- */

static void tidy(struct world *w) {
    struct sandbox_record *all = NULL;
    size_t count = 0;
    require(manager_list(w->m, &all, &count, NULL) == 0);
    for (size_t i = 0; i < count; i++) {
        if (count > BOXES_MAX)
            (void)manager_remove(w->m, all[i].id, true, NULL);
        sandbox_record_free(&all[i]);
    }
    free(all);
}

static void need_box(struct world *w) {
    struct sandbox_record r = {0};
    int code = manager_get(w->m, "lab", &r, NULL);
    bool runs = code == 0 && r.state == SANDBOX_STARTED;
    sandbox_record_free(&r);
    if (runs)
        return;
    if (code == 0)
        (void)manager_remove(w->m, "lab", true, NULL);
    (void)make_box(w, "lab");
}

static void *user_state;

static void end_world(void) {
    builds_free(stage.builds);
    (void)teardown(&user_state);
}

static void begin_world(void) {
    (void)setup(&user_state);
    stage.world = user_state;
    stage.world->options.limits.stop_grace_ms = 0;
    open_manager(stage.world);
    stage.images = &images;
    stage.caller = (struct key){.name = "admin", .scopes = SCOPE_ADMIN};
    require(builds_new(&images, &stage.builds, NULL) == 0);
    (void)atexit(end_world);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    char *text = malloc(size + 1), *at = text;
    require(text != NULL);
    if (size > 0)
        memcpy(text, input, size);
    text[size] = '\0';
    if (stage.world == NULL)
        begin_world();
    tidy(stage.world);
    for (int i = 0; i < REQUESTS_MAX && at < text + size; i++) {
        char *end = memchr(at, request_end, (size_t)(text + size - at));
        size_t len = end == NULL ? (size_t)(text + size - at) : (size_t)(end - at);
        at[len] = '\0';
        need_box(stage.world);
        take_request(at, len);
        at += len + 1;
    }
    free(text);
    return 0;
}
