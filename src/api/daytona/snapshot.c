/* Snapshots in Daytona's protocol: the images of this machine, by their names. */
#include <stdio.h>
#include <string.h>

#include "api/build/builds.h"
#include "api/call.h"
#include "api/daytona/daytona.h"
#include "api/images.h"
#include "api/shape/daytona_read.h"
#include "api/shape/daytona_shape.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "image/store.h"
#include "manager/manager.h"

enum { LIST_MAX = 4 * 1024 * 1024, LIMIT = 100, LIMIT_MAX = 200, PAGES_MAX = 1000000 };

/* One line of the store's list, taken apart in place. */
struct row {
    const char *name, *id, *created, *owner;
    uint64_t bytes;
};

const char *images_owner(const struct call *c) {
    if (!key_sees_all(&c->caller))
        return key_owner(&c->caller);
    const char *owner = target_query(&c->target, "owner");
    return owner != NULL && image_owner_is_valid(owner) ? owner : "";
}

const char *images_maker(const struct call *c) {
    return c->caller.organization[0] != '\0' ? c->caller.id : "";
}

/* ---- the list ---- */

/* Ends the text at the next such character, and returns what follows. */
static char *cut(char *text, char at) {
    char *end = strchr(text, at);
    if (end == NULL)
        return NULL;
    *end = '\0';
    return end + 1;
}

/* False at the end, or at what is no list. */
static bool next_row(char **text, struct row *ret) {
    char *line = *text, *next = line == NULL ? NULL : cut(line, '\n');
    char *id = next == NULL ? NULL : cut(line, '\t');
    char *bytes = id == NULL ? NULL : cut(id, '\t');
    char *created = bytes == NULL ? NULL : cut(bytes, '\t');
    char *owner = created == NULL ? NULL : cut(created, '\t');
    *text = next;
    if (owner == NULL || str_to_u64(bytes, UINT64_MAX, &ret->bytes) < 0)
        return false;
    if (str_ends(line, ":latest"))
        line[strlen(line) - strlen(":latest")] = '\0';
    ret->name = line;
    ret->id = id;
    ret->created = created;
    ret->owner = owner;
    return true;
}

/* The text that rows are taken from; its first line says "ok". */
static int read_list(const struct call *c, struct buf *text, char **ret, struct cay_error *err) {
    int r = c->images->list(c->images->user, images_owner(c), text, err);
    *ret = r < 0 ? NULL : cut(text->data, '\n');
    return r;
}

/* ---- answers ---- */

/* What is said of a snapshot, whether it is there or being built. */
struct shown {
    const char *name, *id, *state, *reason; /* id NULL: it has no image */
    bool is_public;
    uint64_t bytes;
    int64_t created_ms, updated_ms;
};

static void put_shown(struct jsonw *w, const struct shown *s) {
    jsonw_begin_object(w);
    jsonw_put_string(w, "id", s->name);
    jsonw_put_string(w, "organizationId", DAYTONA_ORGANIZATION);
    jsonw_put_bool(w, "general", s->is_public);
    jsonw_put_string(w, "name", s->name);
    if (s->id != NULL) {
        jsonw_put_string(w, "imageName", s->name);
        jsonw_put_string(w, "ref", s->id);
    }
    jsonw_put_string(w, "state", s->state);
    if (s->id != NULL)
        jsonw_put_number(w, "size", (double)s->bytes / (1 << 30));
    else
        jsonw_put_string(w, "size", NULL);
    jsonw_put_string(w, "entrypoint", NULL);
    jsonw_put_integer(w, "cpu", 0); /* of these, 0 is: as configured */
    jsonw_put_integer(w, "gpu", 0);
    jsonw_put_integer(w, "mem", 0);
    jsonw_put_integer(w, "disk", 0);
    jsonw_put_string(w, "errorReason", s->reason);
    daytona_put_time(w, "createdAt", s->created_ms);
    daytona_put_time(w, "updatedAt", s->updated_ms);
    jsonw_put_string(w, "lastUsedAt", NULL);
    jsonw_put_string(w, "sourceSandboxId", NULL);
    jsonw_put_string(w, "sandboxClass", "container");
    jsonw_end_object(w);
}

static void put_row(struct jsonw *w, const struct row *row, const char *name) {
    struct shown s = {.name = name,
                      .id = row->id,
                      .state = "active",
                      .is_public = row->owner[0] == '\0',
                      .bytes = row->bytes};
    if (clock_from_iso8601(row->created, &s.created_ms) < 0)
        s.created_ms = 0;
    s.updated_ms = s.created_ms;
    put_shown(w, &s);
}

static void put_build(struct jsonw *w, const struct build_view *view, const char *name) {
    static const char *const states[] = {
        [BUILD_PENDING] = "pending", [BUILD_RUNNING] = "building", [BUILD_FAILED] = "build_failed"};
    bool has_failed = view->state == BUILD_FAILED;
    put_shown(w, &(struct shown){.name = name,
                                 .state = states[view->state],
                                 .reason = has_failed ? view->reason : NULL,
                                 .created_ms = view->created_ms,
                                 .updated_ms = view->updated_ms});
}

int daytona_snapshot_name(const char *text, char name[static REFERENCE_TEXT_SIZE],
                          struct cay_error *err) {
    struct reference ref;
    int r = reference_parse(text, &ref, err);
    if (r < 0)
        return r;
    (void)reference_familiar(&ref, name);
    if (str_ends(name, ":latest"))
        name[strlen(name) - strlen(":latest")] = '\0';
    return 0;
}

/* Whoever sees all means public images, and private ones of admins, when he writes a name. */
static bool is_meant(const struct call *c, const struct row *row) {
    return images_owner(c)[0] != '\0' || row->owner[0] == '\0' ||
           str_equal(row->owner, IMAGE_ADMIN);
}

/* The row of an image; 1 if it is there. Its texts are in text. */
static int find_row(const struct call *c, const char *name, struct buf *text, struct row *ret,
                    struct cay_error *err) {
    char *rest = NULL;
    int r = read_list(c, text, &rest, err);
    while (r == 0 && next_row(&rest, ret))
        if (str_equal(ret->name, name) && is_meant(c, ret))
            return 1;
    return r;
}

/* True if it is being built, or could not be. */
static bool answer_build(struct call *c, const char *name, const char *as_asked) {
    _cleanup_(build_unrefp) struct build *build = builds_find(c->builds, &c->caller, name);
    struct build_view view;
    if (build == NULL)
        return false;
    build_look(build, &view);
    if (view.state == BUILD_DONE)
        return false;
    struct jsonw w = JSONW_INIT(&c->answer.body);
    put_build(&w, &view, as_asked);
    return true;
}

/* With the name as the client writes it. */
static int answer_name(struct call *c, const char *as_asked, struct cay_error *err) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(LIST_MAX);
    char name[REFERENCE_TEXT_SIZE];
    struct row row = {0};
    int r = daytona_snapshot_name(as_asked, name, err);
    if (r < 0 || answer_build(c, name, as_asked))
        return r;
    r = find_row(c, name, &text, &row, err);
    if (r < 0)
        return r;
    if (r == 1) {
        struct jsonw w = JSONW_INIT(&c->answer.body);
        put_row(&w, &row, as_asked);
        return 0;
    }
    error_set(err, CAY_NOT_FOUND, "snapshot '%.200s' not found", as_asked);
    return error_remedy(err, "GET /api/snapshots lists them; cay image pull fetches more");
}

/* A page in the making. */
struct page {
    struct jsonw *w;
    const char *part; /* of the names; NULL: any */
    int64_t from, limit, total;
};

/* Counts one more: true if it is on the page. */
static bool is_on(struct page *p, const char *name) {
    if (p->part != NULL && strcasestr(name, p->part) == NULL)
        return false;
    int64_t at = p->total++;
    return at >= p->from && at - p->from < p->limit;
}

static void add_build(void *user, const struct build_view *view) {
    struct page *p = user;
    if (is_on(p, view->name))
        put_build(p->w, view, view->name);
}

static void put_page(struct call *c, char *rest, struct page *p) {
    struct row row = {0};
    jsonw_begin_array(p->w);
    builds_each(c->builds, &c->caller, add_build, p);
    while (next_row(&rest, &row))
        if (is_on(p, row.name))
            put_row(p->w, &row, row.name);
    jsonw_end_array(p->w);
}

/* ---- handlers ---- */

static int list(struct call *c, struct cay_error *err) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(LIST_MAX);
    int64_t page = 1, limit = LIMIT;
    char *rest = NULL;
    int r = daytona_query_number(c, "page", PAGES_MAX, &page, err);
    if (r == 0)
        r = daytona_query_number(c, "limit", LIMIT_MAX, &limit, err);
    if (r == 0)
        r = read_list(c, &text, &rest, err);
    if (r < 0)
        return r;
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_object(&w);
    jsonw_key(&w, "items");
    struct page p = {&w, target_query(&c->target, "name"), (page - 1) * limit, limit, 0};
    put_page(c, rest, &p);
    jsonw_put_integer(&w, "total", p.total);
    jsonw_put_integer(&w, "page", page);
    jsonw_put_integer(&w, "totalPages", (p.total + limit - 1) / limit);
    jsonw_end_object(&w);
    return 0;
}

static int get(struct call *c, struct cay_error *err) {
    return answer_name(c, c->who, err);
}

/* In the background; clients ask until it is there, and see the log meanwhile. */
static int build(struct call *c, const char *name, const char *as_asked,
                 const struct daytona_build *wish, struct cay_error *err) {
    struct build_view view;
    _cleanup_(buf_free) struct buf text = BUF_INIT(LIST_MAX);
    _cleanup_(build_unrefp) struct build *one = NULL;
    struct row row = {0};
    int r = find_row(c, name, &text, &row, err);
    if (r == 1 && (images_owner(c)[0] == '\0' || row.owner[0] != '\0')) {
        error_set(err, CAY_CONFLICT, "there is a snapshot '%.200s' already", name);
        return error_remedy(err, "choose another name, or delete it first");
    }
    if (r >= 0)
        r = daytona_add_build(c, name, wish, &one, err);
    if (r == 0)
        r = builds_start(one, &view, err);
    if (r != 0)
        return r;
    struct jsonw w = JSONW_INIT(&c->answer.body);
    put_build(&w, &view, as_asked);
    return 0;
}

/* A digest is what an image is, not what it shall be called. */
static int check_name(const char *text, char name[static REFERENCE_TEXT_SIZE],
                      struct cay_error *err) {
    int r = daytona_snapshot_name(text, name, err);
    if (r < 0 || strchr(text, '@') == NULL)
        return r;
    error_set(err, CAY_INVALID_ARGUMENT, "name: '%.200s' has a digest", text);
    return error_remedy(err, "write NAME or NAME:TAG");
}

static int make(struct call *c, const struct daytona_snapshot *wish, struct cay_error *err) {
    int r = c->images->name(c->images->user, images_owner(c), images_maker(c), wish->image,
                            wish->name, err);
    return r < 0 ? r : answer_name(c, wish->name, err);
}

static int create(struct call *c, struct cay_error *err) {
    struct daytona_snapshot wish = {0};
    char name[REFERENCE_TEXT_SIZE];
    int r = daytona_read_snapshot(&c->body, &wish, err);
    (void)str_escape(c->object, sizeof c->object, wish.name);
    if (r == 0)
        r = check_name(wish.name, name, err);
    if (r == 0 && wish.build.dockerfile != NULL)
        r = build(c, name, wish.name, &wish.build, err);
    else if (r == 0)
        r = make(c, &wish, err);
    daytona_build_free(&wish.build);
    return r;
}

/* One that is being built is given up; it may have come to its end in this moment. */
static int remove_it(struct call *c, struct cay_error *err) {
    char name[REFERENCE_TEXT_SIZE];
    int r = daytona_snapshot_name(c->who, name, err);
    if (r < 0)
        return r;
    _cleanup_(build_unrefp) struct build *one = builds_find(c->builds, &c->caller, name);
    if (one != NULL && builds_drop(one) != BUILD_DONE)
        return 0;
    return c->images->unname(c->images->user, images_owner(c), c->who, err);
}

/* While it stands still. */
static int keep(struct call *c, const char *name, struct cay_error *err) {
    struct cay_error later;
    bool held;
    int code = manager_hold(c->manager, c->who, &held, err);
    if (code < 0)
        return code;
    code = c->images->keep(c->images->user, images_owner(c), images_maker(c), c->who, name, err);
    int back = held ? manager_release(c->manager, c->who, &later) : 0;
    if (code == 0 && back < 0)
        *err = later;
    return code < 0 ? code : back;
}

int snapshot_make(struct call *c, struct cay_error *err) {
    char name[REFERENCE_TEXT_SIZE];
    struct reference ref;
    int r = daytona_read_keep(&c->body, name, err);
    if (r == 0)
        r = reference_parse(name, &ref, err);
    if (r == 0) {
        (void)str_escape(c->detail, sizeof c->detail, name);
        r = keep(c, name, err);
    }
    return r;
}

static int keep_sandbox(struct call *c, struct cay_error *err) {
    int r = snapshot_make(c, err);
    return r < 0 ? r : daytona_answer_sandbox(c, err);
}

static const struct route routes[] = {
    {"GET", "/api/snapshots", list},
    {"POST", "/api/snapshots", create, NEED_IMAGES, .needs_space = true},
    {"GET", "/api/snapshots/{name}", get},
    {"DELETE", "/api/snapshots/{name}", remove_it, NEED_IMAGES},
    {"POST", "/api/snapshots/{name}/activate", get},
    {"POST", "/api/sandbox/{who}/snapshot", keep_sandbox, NEED_IMAGES, .needs_space = true},
};
const struct route_table daytona_snapshot_routes = {routes, ARRAY_LEN(routes)};
