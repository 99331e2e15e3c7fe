/* Snapshots in Daytona's protocol: the images of this machine, by their names. */
#include <stdio.h>
#include <string.h>

#include "api/call.h"
#include "api/daytona.h"
#include "api/daytona_read.h"
#include "api/daytona_shape.h"
#include "api/images.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "manager/manager.h"

enum { LIST_MAX = 4 * 1024 * 1024, LIMIT = 100, LIMIT_MAX = 200, PAGES_MAX = 1000000 };

/* One line of the store's list, taken apart in place. */
struct row {
    const char *name, *id, *created;
    uint64_t bytes;
};

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
    *text = next;
    if (created == NULL || str_to_u64(bytes, UINT64_MAX, &ret->bytes) < 0)
        return false;
    if (str_ends(line, ":latest"))
        line[strlen(line) - strlen(":latest")] = '\0';
    ret->name = line;
    ret->id = id;
    ret->created = created;
    return true;
}

/* The text that rows are taken from; its first line says "ok". */
static int read_list(const struct call *c, struct buf *text, char **ret, struct cay_error *err) {
    int r = c->images->list(c->images->user, text, err);
    *ret = r < 0 ? NULL : cut(text->data, '\n');
    return r;
}

/* ---- answers ---- */

static void put_row(struct jsonw *w, const struct row *row) {
    int64_t created = 0;
    if (clock_from_iso8601(row->created, &created) < 0)
        created = 0;
    jsonw_begin_object(w);
    jsonw_put_string(w, "id", row->name);
    jsonw_put_string(w, "organizationId", DAYTONA_ORGANIZATION);
    jsonw_put_bool(w, "general", false);
    jsonw_put_string(w, "name", row->name);
    jsonw_put_string(w, "imageName", row->name);
    jsonw_put_string(w, "ref", row->id);
    jsonw_put_string(w, "state", "active");
    jsonw_put_number(w, "size", (double)row->bytes / (1 << 30));
    jsonw_put_string(w, "entrypoint", NULL);
    jsonw_put_integer(w, "cpu", 0); /* of these, 0 is: as configured */
    jsonw_put_integer(w, "gpu", 0);
    jsonw_put_integer(w, "mem", 0);
    jsonw_put_integer(w, "disk", 0);
    jsonw_put_string(w, "errorReason", NULL);
    daytona_put_time(w, "createdAt", created);
    daytona_put_time(w, "updatedAt", created);
    jsonw_put_string(w, "lastUsedAt", NULL);
    jsonw_put_string(w, "sourceSandboxId", NULL);
    jsonw_put_string(w, "sandboxClass", "container");
    jsonw_end_object(w);
}

static bool is_same(const char *name, const struct reference *wanted) {
    struct cay_error ignored;
    struct reference ref;
    char a[REFERENCE_TEXT_SIZE], b[REFERENCE_TEXT_SIZE];
    return reference_parse(name, &ref, &ignored) == 0 &&
           str_equal(reference_format(&ref, a), reference_format(wanted, b));
}

static int answer_name(struct call *c, const char *name, struct cay_error *err) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(LIST_MAX);
    struct reference wanted;
    struct row row;
    char *rest = NULL;
    int r = reference_parse(name, &wanted, err);
    if (r == 0)
        r = read_list(c, &text, &rest, err);
    while (r == 0 && next_row(&rest, &row)) {
        if (!is_same(row.name, &wanted))
            continue;
        struct jsonw w = JSONW_INIT(&c->answer.body);
        row.name = name; /* as the client writes it */
        put_row(&w, &row);
        return 0;
    }
    if (r < 0)
        return r;
    error_set(err, CAY_NOT_FOUND, "snapshot '%.200s' not found", name);
    return error_remedy(err, "GET /api/snapshots lists them; cay image pull fetches more");
}

/* The rows of one page; returns how many there are on all. */
static int64_t put_page(struct jsonw *w, char *rest, const char *part, int64_t from,
                        int64_t limit) {
    struct row row;
    int64_t total = 0;
    jsonw_begin_array(w);
    while (next_row(&rest, &row)) {
        if (part != NULL && strcasestr(row.name, part) == NULL)
            continue;
        if (total >= from && total - from < limit)
            put_row(w, &row);
        total++;
    }
    jsonw_end_array(w);
    return total;
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
    int64_t total = put_page(&w, rest, target_query(&c->target, "name"), (page - 1) * limit, limit);
    jsonw_put_integer(&w, "total", total);
    jsonw_put_integer(&w, "page", page);
    jsonw_put_integer(&w, "totalPages", (total + limit - 1) / limit);
    jsonw_end_object(&w);
    return 0;
}

static int get(struct call *c, struct cay_error *err) {
    return answer_name(c, c->who, err);
}

static int create(struct call *c, struct cay_error *err) {
    struct daytona_snapshot wish;
    struct reference ref;
    int r = daytona_read_snapshot(&c->body, &wish, err);
    if (r == 0)
        r = reference_parse(wish.name, &ref, err);
    (void)str_escape(c->object, sizeof c->object, wish.name);
    if (r == 0)
        r = c->images->name(c->images->user, wish.image, wish.name, err);
    return r < 0 ? r : answer_name(c, wish.name, err);
}

static int remove_it(struct call *c, struct cay_error *err) {
    struct reference ref;
    int r = reference_parse(c->who, &ref, err);
    return r < 0 ? r : c->images->unname(c->images->user, c->who, err);
}

static int check_can_stand(const struct sandbox_record *r, struct cay_error *err) {
    if (r->state == SANDBOX_STARTED || r->state == SANDBOX_STOPPED || r->state == SANDBOX_PAUSED)
        return 0;
    error_set(err, CAY_CONFLICT, "sandbox '%s' is %s", r->name, sandbox_state_name(r->state));
    return error_remedy(err, "wait until it is started, paused or stopped");
}

/* While it stands still. */
static int keep(struct call *c, const char *name, struct cay_error *err) {
    struct sandbox_record r = {0};
    struct cay_error later;
    int code = manager_get(c->manager, c->who, &r, err);
    if (code == 0)
        code = check_can_stand(&r, err);
    bool runs = r.state == SANDBOX_STARTED;
    sandbox_record_free(&r);
    if (code == 0 && runs)
        code = manager_pause(c->manager, c->who, err);
    if (code < 0)
        return code;
    code = c->images->keep(c->images->user, c->who, name, err);
    int back = runs ? manager_resume(c->manager, c->who, &later) : 0;
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
    {"POST", "/api/snapshots", create, NEED_IMAGES},
    {"GET", "/api/snapshots/{name}", get},
    {"DELETE", "/api/snapshots/{name}", remove_it, NEED_IMAGES},
    {"POST", "/api/snapshots/{name}/activate", get},
    {"POST", "/api/sandbox/{who}/snapshot", keep_sandbox, NEED_IMAGES},
};
const struct route_table daytona_snapshot_routes = {routes, ARRAY_LEN(routes)};
