/* Requests of two keys to every route of /openapi.json, in any order. Whatever they send, nothing
 * of one is seen or changed by the other:
 *
 *   - no answer has the other's secret, which is in names, labels, environment variables, images,
 *     volumes and build logs of the other;
 *   - no sandbox of the other is connected to, and images are asked for in the caller's own name;
 *   - what the other has is the same after a request as before it;
 *   - a request that names something of the other's and is refused is refused in the same words if
 *     it names something that nobody has.
 *
 * An input is up to REQUESTS_MAX requests, one behind the other as request_stage.h says, each
 *
 *     a byte of flags, two bytes that choose the route, a byte for each part in braces of its path,
 *     the query up to 0xfb, and the body
 *
 * where a byte for a part chooses one of `handles`, and so do 0x80 to 0x9f in query and body. */
#include "request_ask.h"

#include "api/shape/shape.h"
#include "manager/record/volume.h"

enum {
    REQUESTS_MAX = 6,
    ROUTES_MAX = 512,
    BOXES_MAX = 6, /* of a tenant, besides those that are always there */
    SECRET_SIZE = 24,
    TEXT_MAX = 64 * 1024,
    HANDLES_BEGIN = 0x80,
    HANDLES_END = 0xa0,
    SETTLE_MS = 10 * 1000,
};

enum flag {
    BY_SECOND = 1,
    WANTS_TABLE = 2,
    WANTS_UPGRADE = 4,
    AT_OWN_HOST = 8,
    AT_OTHER_HOST = 16
};

static const char query_end = (char)0xfb;

struct tenant {
    struct key key;
    char secret[SECRET_SIZE];
    char box[ID_SIZE], box_name[NAME_MAX_LEN + 1];
    char volume[ID_SIZE], volume_name[NAME_MAX_LEN + 1];
    char image[NAME_MAX_LEN + 1];
};

static struct tenant tenants[2], nobody; /* nobody has the names that nobody has */
static struct tenant *caller, *other;
static pthread_t requests; /* the thread in which they run */

/* ---- the routes ---- */

static struct {
    char method[8], path[128];
    unsigned hash;
} routes[ROUTES_MAX];
static size_t route_count;

static unsigned hash_route(const char *method, const char *path) {
    uint32_t h = UINT32_C(2166136261);
    for (; *method != '\0'; method++)
        h = (h ^ (unsigned char)*method) * UINT32_C(16777619);
    for (; *path != '\0'; path++)
        h = (h ^ (unsigned char)*path) * UINT32_C(16777619);
    return (h ^ h >> 16) & 0xffff;
}

static void add_routes(const struct json *path) {
    static const char *const methods[][2] = {
        {"get", "GET"}, {"post", "POST"}, {"put", "PUT"}, {"patch", "PATCH"}, {"delete", "DELETE"}};
    struct json method;
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        if (!json_child(path, methods[i][0], &method))
            continue;
        require(route_count < ROUTES_MAX);
        (void)snprintf(routes[route_count].method, sizeof routes[0].method, "%s", methods[i][1]);
        (void)snprintf(routes[route_count].path, sizeof routes[0].path, "%s", path->key);
        routes[route_count].hash = hash_route(methods[i][1], path->key);
        route_count++;
    }
}

static void read_routes(void) {
    _cleanup_(buf_free) struct buf seen = BUF_INIT(16 << 20);
    _cleanup_(json_freep) struct json_document *document = NULL;
    void *iterator = NULL;
    struct json paths, path;
    require(ask("GET", "/openapi.json", "", 0, &seen) == 200);
    require(json_parse("openapi", seen.data, seen.len, &document, NULL) == 0);
    struct json root = json_root(document, "");
    require(json_child(&root, "paths", &paths));
    while (json_next(&paths, &iterator, &path))
        add_routes(&path);
    require(route_count > 100);
}

/* The one whose hash is next: inputs mean the same when there are further routes. */
static size_t choose_route(unsigned number) {
    size_t best = 0;
    for (size_t i = 1; i < route_count; i++)
        if (((routes[i].hash - number) & 0xffff) < ((routes[best].hash - number) & 0xffff))
            best = i;
    return best;
}

/* ---- images, by owner ---- */

static const struct tenant *tenant_of(const char *owner) {
    for (size_t i = 0; i < ARRAY_LEN(tenants); i++)
        if (str_equal(tenants[i].key.id, owner))
            return &tenants[i];
    return NULL;
}

/* Those that ask for images in the thread of a request ask for its caller's. */
static const struct tenant *owner_of_images(const char *owner) {
    const struct tenant *t = tenant_of(owner);
    require(t != NULL && (t == caller || !pthread_equal(pthread_self(), requests)));
    return t;
}

static int list_images(void *user, const char *owner, struct buf *text, struct cay_error *err) {
    (void)user, (void)err;
    const struct tenant *t = owner_of_images(owner);
    return buf_printf(text,
                      "ok\na:1\tAA\t1073741824\t2026-01-02T03:04:05Z\t\n"
                      "%s\tBB\t1073741824\t2026-01-02T03:04:05Z\t%s\n"
                      "%s:1\tCC\t1\t2026-01-02T03:04:05Z\t%s\n\n",
                      t->image, owner, t->secret, owner);
}

static int name_image(void *user, const char *owner, const char *made_by, const char *from,
                      const char *name, struct cay_error *err) {
    (void)user, (void)made_by, (void)from;
    return str_equal(name, owner_of_images(owner)->image)
               ? error_set(err, CAY_CONFLICT, "it is there")
               : 0;
}

static int unname_image(void *user, const char *owner, const char *name, struct cay_error *err) {
    (void)user;
    return str_equal(name, owner_of_images(owner)->image)
               ? 0
               : error_set(err, CAY_NOT_FOUND, "no image '%s'", name);
}

static int keep_image(void *user, const char *owner, const char *made_by, const char *sandbox,
                      const char *name, struct cay_error *err) {
    require(!str_equal(sandbox, other->box));
    return name_image(user, owner, made_by, sandbox, name, err);
}

static int build_image(void *user, const struct image_build_order *order, char id[static HEX_SIZE],
                       struct cay_error *err) {
    (void)user, (void)id;
    const struct tenant *t = tenant_of(order->owner);
    require(t != NULL);
    (void)fd_write_all(order->log, t->secret, strlen(t->secret));
    return error_set(err, CAY_CONFLICT, "%s cannot be built", t->secret);
}

static const struct image_ops images = {list_images, name_image,  unname_image,
                                        keep_image,  build_image, NULL};

/* An image with the name of a tenant's is that tenant's; every other name is public. */
static int ensure_owned(void *user, const struct image_wish *wish, char id[static HEX_SIZE],
                        struct cay_error *err) {
    (void)user;
    for (size_t i = 0; i < ARRAY_LEN(tenants); i++)
        if (str_equal(wish->name, tenants[i].image) && !str_equal(wish->owner, tenants[i].key.id))
            return error_set(err, CAY_NOT_FOUND, "no image '%s'", wish->name);
    if (str_equal(wish->name, nobody.image))
        return error_set(err, CAY_NOT_FOUND, "no image '%s'", wish->name);
    memset(id, 'c', HEX_SIZE - 1);
    id[HEX_SIZE - 1] = '\0';
    return 0;
}

/* ---- what a request may name ---- */

enum handle {
    OWN_BOX,
    OWN_BOX_NAME,
    OTHER_BOX,
    OTHER_BOX_NAME,
    OTHER_BOX_BEGINNING,
    OWN_VOLUME,
    OWN_VOLUME_NAME,
    OTHER_VOLUME,
    OTHER_VOLUME_NAME,
    OWN_IMAGE,
    OTHER_IMAGE,
    OWN_SECRET,
    HANDLES_OF_TENANTS,
};

static const char *const plain_handles[] = {
    "s1", "1", "3000", "a:1", "host", "public", "22222", "%2e%2e", "main", "0",
};

/* The text of a handle; *is_foreign is set if it is something of the other's. */
static const char *handle(unsigned number, const struct tenant *of, bool *is_foreign) {
    static char beginning[9];
    number %= HANDLES_OF_TENANTS + ARRAY_LEN(plain_handles);
    switch (number) {
    case OWN_BOX:
        return caller->box;
    case OWN_BOX_NAME:
        return caller->box_name;
    case OWN_VOLUME:
        return caller->volume;
    case OWN_VOLUME_NAME:
        return caller->volume_name;
    case OWN_IMAGE:
        return caller->image;
    case OWN_SECRET:
        return caller->secret;
    default:
        break;
    }
    if (number >= HANDLES_OF_TENANTS)
        return plain_handles[number - HANDLES_OF_TENANTS];
    *is_foreign = true;
    switch (number) {
    case OTHER_BOX:
        return of->box;
    case OTHER_BOX_NAME:
        return of->box_name;
    case OTHER_BOX_BEGINNING:
        (void)snprintf(beginning, sizeof beginning, "%.8s", of->box);
        return beginning;
    case OTHER_VOLUME:
        return of->volume;
    case OTHER_VOLUME_NAME:
        return of->volume_name;
    default:
        return of->image;
    }
}

/* A request, with what is the other's taken from `foreign`. */
struct request {
    const struct tenant *foreign;
    unsigned flags;
    const char *method;
    char host[NAME_MAX_LEN + 64];
    struct buf uri, body;
    bool is_foreign;
};

static void expand(struct request *q, struct buf *out, const char *text, size_t len) {
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte >= HANDLES_BEGIN && byte < HANDLES_END)
            (void)buf_puts(out, handle(byte - HANDLES_BEGIN, q->foreign, &q->is_foreign));
        else
            (void)buf_append(out, &text[i], 1);
    }
}

/* Puts a handle in place of each part in braces. */
static void put_path(struct request *q, const char *path, const char **text, const char *end) {
    while (*path != '\0') {
        size_t plain = strcspn(path, "{");
        (void)buf_append(&q->uri, path, plain);
        path += plain;
        if (*path == '\0')
            return;
        unsigned choice = *text < end ? (unsigned char)*(*text)++ : 0;
        (void)buf_puts(&q->uri, handle(choice, q->foreign, &q->is_foreign));
        path += strcspn(path, "}");
        path += *path == '}';
    }
}

static void put_host(struct request *q) {
    if ((q->flags & (AT_OWN_HOST | AT_OTHER_HOST)) == 0)
        return;
    bool is_other = (q->flags & AT_OTHER_HOST) != 0;
    q->is_foreign |= is_other;
    (void)snprintf(q->host, sizeof q->host, "3000-%s.localhost",
                   is_other ? q->foreign->box : caller->box);
    stage.name[stage.headers] = "Host";
    stage.value[stage.headers++] = q->host;
}

static void put_headers(struct request *q) {
    stage.headers = 0;
    if ((q->flags & WANTS_TABLE) != 0) {
        stage.name[stage.headers] = "Accept";
        stage.value[stage.headers++] = "text/tab-separated-values";
    }
    if ((q->flags & WANTS_UPGRADE) != 0) {
        stage.name[stage.headers] = "Upgrade";
        stage.value[stage.headers++] = "websocket";
    }
    put_host(q);
}

/* Behind the three bytes that choose it. */
static void make_request(struct request *q, const struct tenant *foreign, const char *text,
                         size_t len) {
    const char *at = text + 3, *end = text + len;
    size_t route = choose_route((unsigned char)text[1] | (unsigned)(unsigned char)text[2] << 8);
    *q = (struct request){.foreign = foreign,
                          .flags = (unsigned char)text[0],
                          .method = routes[route].method,
                          .uri = BUF_INIT(TEXT_MAX),
                          .body = BUF_INIT(TEXT_MAX)};
    put_path(q, routes[route].path, &at, end);
    const char *query = memchr(at, query_end, (size_t)(end - at));
    if (query != NULL && query > at) {
        (void)buf_puts(&q->uri, "?");
        expand(q, &q->uri, at, (size_t)(query - at));
    }
    if (query != NULL)
        at = query + 1;
    expand(q, &q->body, at, (size_t)(end - at));
    put_headers(q);
}

static void free_request(struct request *q) {
    buf_free(&q->uri);
    buf_free(&q->body);
}

/* ---- what must hold ---- */

static bool has(const struct buf *text, const char *what) {
    return text->len > 0 && memmem(text->data, text->len, what, strlen(what)) != NULL;
}

static void require_own(const char *id) {
    if (pthread_equal(pthread_self(), requests) && str_equal(id, other->box))
        abort();
}

static bool is_settled(const struct sandbox_record *r) {
    return r->state == SANDBOX_STARTED || r->state == SANDBOX_STOPPED ||
           r->state == SANDBOX_ERROR || r->state == SANDBOX_PAUSED || r->state == SANDBOX_ARCHIVED;
}

/* Appends the sandboxes of a tenant; false if one of them is about to change by itself. */
static bool put_boxes(const struct tenant *t, struct buf *out) {
    struct sandbox_record *all = NULL;
    size_t count = 0;
    bool settled = true;
    require(manager_list(stage.world->m, &all, &count, NULL) == 0);
    for (size_t i = 0; i < count; i++) {
        if (str_equal(all[i].owner, t->key.id)) {
            settled &= is_settled(&all[i]);
            jsonw_write_object(out, shape_put_sandbox, &all[i]);
            (void)buf_puts(out, fake_state(&stage.world->fake, all[i].id));
        }
        sandbox_record_free(&all[i]);
    }
    free(all);
    return settled;
}

static void put_volumes(const struct tenant *t, struct buf *out) {
    _cleanup_(freep) struct volume *all = NULL;
    size_t count = 0;
    require(manager_volume_list(stage.world->m, &t->key, &all, &count, NULL) == 0);
    for (size_t i = 0; i < count; i++)
        (void)buf_printf(out, "%s %s %llu %d\n", all[i].id, all[i].name,
                         (unsigned long long)all[i].size_bytes, all[i].is_made);
}

static void put_build(void *user, const struct build_view *view) {
    (void)buf_printf(user, "%s\n", view->name);
}

/* All that a tenant has, as soon as nothing of it is about to change. */
static void describe(const struct tenant *t, struct buf *out) {
    int64_t until = clock_ms() + SETTLE_MS;
    while (!put_boxes(t, out)) {
        require(clock_ms() < until);
        buf_clear(out);
        sleep_ms(1);
    }
    put_volumes(t, out);
    builds_each(stage.builds, &t->key, put_build, out);
    struct key now = {0};
    require(manager_key_by_id(stage.world->m, t->key.id, &now));
    (void)buf_append(out, (const char *)&now.scopes, sizeof now.scopes);
    (void)buf_puts(out, now.name);
}

/* Ids, times and sizes are not compared. */
static void blur(struct buf *text) {
    for (size_t i = 0; i < text->len; i++)
        if (text->data[i] >= '0' && text->data[i] <= '9')
            text->data[i] = '0';
}

static void replace_all(struct buf *text, const char *from, const char *to) {
    _cleanup_(buf_free) struct buf out = BUF_INIT(STREAM_MAX);
    const char *at = text->data, *end = text->data + text->len, *hit;
    if (text->len == 0)
        return;
    while ((hit = memmem(at, (size_t)(end - at), from, strlen(from))) != NULL) {
        (void)buf_append(&out, at, (size_t)(hit - at));
        (void)buf_puts(&out, to);
        at = hit + strlen(from);
    }
    (void)buf_append(&out, at, (size_t)(end - at));
    buf_free(text);
    *text = out;
    out = BUF_INIT(0);
}

/* What the other has reads as what nobody has. */
static void anonymize(struct buf *text) {
    char beginning[9], nobodys[9];
    (void)snprintf(beginning, sizeof beginning, "%.8s", other->box);
    (void)snprintf(nobodys, sizeof nobodys, "%.8s", nobody.box);
    replace_all(text, other->box_name, nobody.box_name);
    replace_all(text, other->volume_name, nobody.volume_name);
    replace_all(text, other->volume, nobody.volume);
    replace_all(text, other->image, nobody.image);
    replace_all(text, other->box, nobody.box);
    replace_all(text, beginning, nobodys);
    blur(text);
}

static unsigned send_request(struct request *q, char *answers, size_t answers_len,
                             struct buf *seen) {
    stage.answers = answers;
    stage.answers_len = answers_len;
    put_headers(q);
    unsigned status = ask(q->method, buf_text(&q->uri), buf_text(&q->body), q->body.len, seen);
    require(!has(seen, other->secret));
    return status;
}

/* The caller may use the same names, and is then told of what is the caller's. */
static bool has_names_of_other(void) {
    char id[ID_SIZE];
    struct volume v;
    _cleanup_(build_unrefp) struct build *build =
        builds_find(stage.builds, &caller->key, other->image);
    return build != NULL ||
           manager_find(stage.world->m, &caller->key, other->box_name, id, NULL) == 0 ||
           manager_volume_get(stage.world->m, &caller->key, other->volume_name, &v, NULL) == 0;
}

/* The same refusal as for what nobody has. */
static void check_refusal(const char *text, size_t len, char *answers, size_t answers_len,
                          unsigned status, struct buf *seen) {
    _cleanup_(buf_free) struct buf twin = BUF_INIT(STREAM_MAX);
    struct request q;
    make_request(&q, &nobody, text, len);
    unsigned nobodys = send_request(&q, answers, answers_len, &twin);
    free_request(&q);
    anonymize(seen);
    blur(&twin);
    if (status == nobodys && seen->len == twin.len &&
        (seen->len == 0 || memcmp(seen->data, twin.data, seen->len) == 0))
        return;
    (void)fprintf(stderr, "foreign: %u %.*s\nunknown: %u %.*s\n", status, (int)seen->len,
                  seen->len > 0 ? seen->data : "", nobodys, (int)twin.len,
                  twin.len > 0 ? twin.data : "");
    abort();
}

static void check_unchanged(const struct buf *before, const struct request *q) {
    _cleanup_(buf_free) struct buf after = BUF_INIT(STREAM_MAX);
    describe(other, &after);
    if (before->len == after.len && memcmp(before->data, after.data, after.len) == 0)
        return;
    (void)fprintf(stderr, "%s %s\nbefore: %.*s\nafter: %.*s\n", q->method, q->uri.data,
                  (int)before->len, before->data, (int)after.len, after.data);
    abort();
}

static void take_request(char *text, size_t len) {
    _cleanup_(buf_free) struct buf before = BUF_INIT(STREAM_MAX), seen = BUF_INIT(STREAM_MAX);
    char *answers = NULL;
    struct request q;
    len = take_answers(text, len, &answers);
    size_t answers_len = stage.answers_len;
    if (len < 3) {
        free(answers);
        return;
    }
    caller = &tenants[(unsigned char)text[0] & BY_SECOND];
    other = &tenants[1 - ((unsigned char)text[0] & BY_SECOND)];
    stage.caller = caller->key;
    describe(other, &before);
    make_request(&q, other, text, len);
    /* libFuzzer learns what is compared, and would send it. */
    if (!has(&q.uri, other->secret) && !has(&q.body, other->secret)) {
        unsigned status = send_request(&q, answers, answers_len, &seen);
        if (q.is_foreign && status >= 400 && !has_names_of_other())
            check_refusal(text, len, answers, answers_len, status, &seen);
        check_unchanged(&before, &q);
    }
    free_request(&q);
    free(answers);
}

/* ---- the world ---- */

static void make_secret(struct tenant *t) {
    static const char digits[] = "bcdfghjklmnpqrstvwxz"; /* no digit: they are blurred */
    unsigned char random[SECRET_SIZE - 1];
    require(id_random(random, sizeof random) == 0);
    for (size_t i = 0; i < sizeof random; i++)
        t->secret[i] = digits[random[i] % (sizeof digits - 1)];
    t->secret[sizeof random] = '\0';
}

static void make_tenant(struct tenant *t, const char *name) {
    char text[KEY_TEXT_SIZE];
    make_secret(t);
    (void)snprintf(t->box_name, sizeof t->box_name, "box-of-%s", name);
    (void)snprintf(t->volume_name, sizeof t->volume_name, "volume-of-%s", name);
    (void)snprintf(t->image, sizeof t->image, "image-of-%s:1", name);
    t->key.scopes = SCOPE_SANDBOXES | SCOPE_IMAGES;
    (void)snprintf(t->key.name, sizeof t->key.name, "%s-%s", name, t->secret);
    require(manager_key_add(stage.world->m, &t->key, text, NULL) == 0);
}

/* Of a tenant, with the secret wherever a text can be. */
static void need_box_of(struct tenant *t, const char *name, char *ret_id) {
    struct sandbox_record wish = {0}, made = {0};
    char pair[2 * SECRET_SIZE];
    (void)snprintf(pair, sizeof pair, "k=%s", t->secret);
    if (manager_find(stage.world->m, &t->key, name, made.id, NULL) == 0) {
        require(manager_get(stage.world->m, made.id, &wish, NULL) == 0);
        bool runs = wish.state == SANDBOX_STARTED;
        sandbox_record_free(&wish);
        if (ret_id != NULL)
            memcpy(ret_id, made.id, ID_SIZE);
        if (runs)
            return;
        (void)manager_remove(stage.world->m, made.id, true, NULL);
    }
    wish = (struct sandbox_record){0};
    (void)snprintf(wish.name, sizeof wish.name, "%s", name);
    (void)snprintf(wish.owner, sizeof wish.owner, "%s", t->key.id);
    require(strv_push(&wish.labels, pair) == 0 && strv_push(&wish.env, pair) == 0);
    require(manager_create(stage.world->m, &wish, -1, &made, NULL) == 0);
    if (ret_id != NULL)
        memcpy(ret_id, made.id, ID_SIZE);
    sandbox_record_free(&wish);
    sandbox_record_free(&made);
}

static void need_volume_of(struct tenant *t, const char *name, char *ret_id) {
    struct volume_request wish = {0};
    struct volume v;
    (void)snprintf(wish.name, sizeof wish.name, "%s", name);
    if (manager_volume_get(stage.world->m, &t->key, name, &v, NULL) < 0)
        require(manager_volume_create(stage.world->m, &t->key, &wish, &v, NULL) == 0);
    if (ret_id != NULL)
        memcpy(ret_id, v.id, ID_SIZE);
}

/* What requests made of it goes, and what they removed is there again. */
static void tidy(struct tenant *t) {
    struct sandbox_record *all = NULL;
    size_t count = 0, own = 0;
    require(manager_list(stage.world->m, &all, &count, NULL) == 0);
    for (size_t i = 0; i < count; i++) {
        if (str_equal(all[i].owner, t->key.id) && ++own > BOXES_MAX)
            (void)manager_remove(stage.world->m, all[i].id, true, NULL);
        sandbox_record_free(&all[i]);
    }
    free(all);
    _cleanup_(freep) struct volume *volumes = NULL;
    require(manager_volume_list(stage.world->m, &t->key, &volumes, &count, NULL) == 0);
    for (size_t i = 0; i < count && count > BOXES_MAX; i++)
        (void)manager_volume_remove(stage.world->m, &t->key, volumes[i].id, NULL);
    need_box_of(t, t->box_name, t->box);
    need_box_of(t, t->secret, NULL);
    need_volume_of(t, t->volume_name, t->volume);
    need_volume_of(t, t->secret, NULL);
}

static void *user_state;

static void end_world(void) {
    builds_free(stage.builds);
    contexts_free(stage.contexts);
    outputs_free(stage.outputs);
    (void)teardown(&user_state);
}

static void begin_world(void) {
    (void)setup(&user_state);
    stage.world = user_state;
    stage.world->options.limits.stop_grace_ms = 0;
    stage.world->options.ensure = ensure_owned;
    open_manager(stage.world);
    stage.images = &images;
    requests = pthread_self();
    require(builds_new(&images, &stage.builds, NULL) == 0);
    require(contexts_open("contexts", &stage.contexts, NULL) == 0);
    require(outputs_open("outputs", &outputs_rules, &stage.outputs, NULL) == 0);
    /* Names so different that none is offered in place of another ("did you mean"). */
    make_tenant(&tenants[0], "hippopotamus");
    make_tenant(&tenants[1], "crocodile");
    nobody = tenants[1];
    require(id_new(nobody.box, NULL) == 0 && id_new(nobody.volume, NULL) == 0);
    (void)snprintf(nobody.box_name, sizeof nobody.box_name, "box-of-flamingo-queen");
    (void)snprintf(nobody.volume_name, sizeof nobody.volume_name, "volume-of-flamingo-queen");
    (void)snprintf(nobody.image, sizeof nobody.image, "image-of-flamingo-queen:1");
    stage.caller = tenants[0].key;
    read_routes();
    stage.connects = require_own;
    (void)atexit(end_world);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    _cleanup_(freep) char *text = malloc(size + 1);
    char *at = text;
    require(text != NULL);
    if (size > 0)
        memcpy(text, input, size);
    text[size] = '\0';
    if (stage.world == NULL)
        begin_world();
    for (int i = 0; i < REQUESTS_MAX && at < text + size; i++) {
        char *end = memchr(at, request_end, (size_t)(text + size - at));
        size_t len = end == NULL ? (size_t)(text + size - at) : (size_t)(end - at);
        at[len] = '\0';
        tidy(&tenants[0]);
        tidy(&tenants[1]);
        take_request(at, len);
        at += len + 1;
    }
    return 0;
}
