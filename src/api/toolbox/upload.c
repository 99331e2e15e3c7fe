/* Files into a sandbox, while their bytes arrive: nothing is kept here but a piece. Each file is
 * written whole or not at all; who hangs up in the middle of one leaves it as it was. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/http/multipart.h"
#include "api/toolbox/files.h"
#include "base/error.h"
#include "base/json/jsonw.h"
#include "wire/client_content.h"

enum {
    WAITING_MAX = 4096, /* paths whose files have not come yet */
    INDEX_MAX = 1000 * 1000,
    ERRORS_MAX = 1000, /* that are told one by one */
};

enum part { PART_OTHER, PART_PATH, PART_FILE, PART_FAILED };

/* A path whose file is to come. */
struct waiting {
    uint64_t index;
    char *path;
};

struct upload {
    struct sink sink; /* first */
    struct call *call;
    bool is_multipart;
    struct multipart multipart;
    const char *path; /* of a single file; NULL: parts tell the paths */
    enum part part;   /* the one at hand, */
    uint64_t index;   /* and its number */
    struct buf text;  /* of a path */
    struct waiting waiting[WAITING_MAX];
    size_t waiting_len;
    struct toolbox toolbox; /* of the file that is being written */
    bool is_writing;
    size_t files; /* that were written */
    /* Of several, one that cannot be written keeps none of the others from it. */
    char *path_now;         /* of the file at hand */
    size_t failed;          /* files, */
    struct cay_error first; /* what was wrong with the first of them, */
    struct jsonw list;      /* and with each, in the call's list */
};

/* ---- what fails ---- */

static void list_error(struct upload *u, const struct cay_error *err) {
    unsigned status;
    const char *code = toolbox_file_code(err, &status);
    struct cay_error shown = *err;
    error_sanitize(&shown);
    jsonw_begin_object(&u->list);
    jsonw_put_string(&u->list, "path", u->path_now);
    jsonw_put_integer(&u->list, "statusCode", status);
    jsonw_put_string(&u->list, "code", code != NULL ? code : toolbox_code_of(status));
    toolbox_write_message(&u->list, &shown);
    jsonw_end_object(&u->list);
}

/* Keeps what is wrong with one file for the end, and goes on with the next. A sandbox that does not
 * answer, and a single file, are the end. */
static int fail_file(struct upload *u, int r, const struct cay_error *err) {
    bool is_over = u->path_now == NULL || r == -CAY_UNAVAILABLE || r == -CAY_TIMEOUT;
    if (r >= 0 || is_over)
        return r;
    if (u->failed == 0) {
        u->first = *err;
        jsonw_begin_array(&u->list);
    }
    if (u->failed++ < ERRORS_MAX)
        list_error(u, err);
    toolbox_end(&u->toolbox);
    u->is_writing = false;
    u->part = PART_FAILED;
    (void)toolbox_fault(u->call, NULL, 0, err); /* not that of the answer, yet */
    return 0;
}

/* One file has its own error; of several, the first is told, and all are listed. */
static int report_failures(struct upload *u, struct cay_error *err) {
    unsigned status;
    *err = u->first;
    jsonw_end_array(&u->list);
    if (u->failed + u->files > 1)
        error_prefix(err, "%zu of %zu files could not be written, the first", u->failed,
                     u->failed + u->files);
    const char *code = toolbox_file_code(&u->first, &status);
    return toolbox_fault(u->call, code, status, err);
}

/* ---- one file ---- */

static int open_file(struct upload *u, const char *path, struct cay_error *err) {
    char whole[PATH_MAX];
    int r = toolbox_begin(u->call, &u->toolbox, err);
    if (r < 0)
        return r;
    r = toolbox_absolute(&u->toolbox, path, whole, err);
    if (r < 0)
        return fail_file(u, r, err);
    u->is_writing = true;
    toolbox_hurry(&u->toolbox);
    r = wire_write_begin(&u->toolbox.wire, whole, WIRE_MODE_DEFAULT, true, err);
    return fail_file(u, toolbox_file_result(u->call, r, err), err);
}

static int write_piece(struct upload *u, const char *data, size_t len, struct cay_error *err) {
    toolbox_hurry(&u->toolbox);
    int r = wire_call_send_data(&u->toolbox.wire, data, len, err);
    return fail_file(u, toolbox_file_result(u->call, r, err), err);
}

static int close_file(struct upload *u, struct cay_error *err) {
    toolbox_hurry(&u->toolbox);
    int r = wire_write_end(&u->toolbox.wire, err);
    toolbox_end(&u->toolbox);
    u->is_writing = false;
    if (r == 0)
        u->files++;
    return fail_file(u, toolbox_file_result(u->call, r, err), err);
}

/* ---- parts ---- */

/* "files[7].path", "files[7].file" */
static enum part read_name(const char *name, uint64_t *ret_index) {
    char digits[24] = "";
    const char *end = strchr(name, ']');
    size_t len = end != NULL ? (size_t)(end - name) : 0;
    if (!str_starts(name, "files[") || len <= 6 || len - 6 >= sizeof digits)
        return PART_OTHER;
    memcpy(digits, name + 6, len - 6);
    if (str_to_u64(digits, INDEX_MAX, ret_index) < 0)
        return PART_OTHER;
    if (str_equal(end, "].path"))
        return PART_PATH;
    return str_equal(end, "].file") ? PART_FILE : PART_OTHER;
}

static int refuse_order(uint64_t index, struct cay_error *err) {
    error_set(err, CAY_INVALID_ARGUMENT, "files[%llu].file came without its path",
              (unsigned long long)index);
    return error_remedy(err, "send the part files[%llu].path before it", (unsigned long long)index);
}

/* Hands the path over; NULL if there is none. */
static char *take_path(struct upload *u, uint64_t index) {
    for (size_t i = 0; i < u->waiting_len; i++) {
        if (u->waiting[i].index != index)
            continue;
        char *path = u->waiting[i].path;
        u->waiting[i] = u->waiting[--u->waiting_len];
        return path;
    }
    return NULL;
}

static int begin_file(struct upload *u, struct cay_error *err) {
    if (u->path != NULL && u->files == 0)
        return open_file(u, u->path, err);
    if (u->path != NULL) {
        error_set(err, CAY_INVALID_ARGUMENT, "more than one file for one path");
        return error_remedy(err, "use /files/bulk-upload for several files");
    }
    free(u->path_now);
    u->path_now = take_path(u, u->index);
    return u->path_now == NULL ? refuse_order(u->index, err) : open_file(u, u->path_now, err);
}

static int begin_part(void *user, const struct multipart_part *part, struct cay_error *err) {
    struct upload *u = user;
    if (u->path != NULL)
        u->part = str_equal(part->name, "file") ? PART_FILE : PART_OTHER;
    else
        u->part = read_name(part->name, &u->index);
    buf_clear(&u->text);
    return u->part == PART_FILE ? begin_file(u, err) : 0;
}

static int take_data(void *user, const char *data, size_t len, struct cay_error *err) {
    struct upload *u = user;
    if (u->part == PART_FILE)
        return write_piece(u, data, len, err);
    if (u->part != PART_PATH || buf_append(&u->text, data, len) == 0)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "files[%llu].path is longer than %d bytes",
              (unsigned long long)u->index, PATH_MAX - 1);
    return error_remedy(err, "use a shorter path");
}

static int keep_path(struct upload *u, struct cay_error *err) {
    const char *text = buf_text(&u->text);
    if (u->text.len == 0 || strlen(text) != u->text.len) {
        error_set(err, CAY_INVALID_ARGUMENT, "files[%llu].path is empty or has a zero byte",
                  (unsigned long long)u->index);
        return error_remedy(err, "send the path of the file as the content of that part");
    }
    if (u->waiting_len == WAITING_MAX) {
        error_set(err, CAY_LIMIT_REACHED, "more than %d paths without their files", WAITING_MAX);
        return error_remedy(err, "send fewer files at once");
    }
    char *path = strdup(text);
    if (path == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    free(take_path(u, u->index)); /* the last one counts */
    u->waiting[u->waiting_len++] = (struct waiting){u->index, path};
    return 0;
}

static int end_part(void *user, struct cay_error *err) {
    struct upload *u = user;
    if (u->part == PART_FILE)
        return close_file(u, err);
    return u->part == PART_PATH ? keep_path(u, err) : 0;
}

static const struct multipart_handler parts = {begin_part, take_data, end_part};

/* ---- the body ---- */

static int take_body(struct sink *s, const char *data, size_t len, struct cay_error *err) {
    struct upload *u = (struct upload *)s;
    if (u->is_multipart)
        return multipart_feed(&u->multipart, data, len, err);
    int r = u->is_writing ? 0 : open_file(u, u->path, err);
    return r < 0 ? r : write_piece(u, data, len, err);
}

/* A file that is being written is given up: cay-init finds no end of it. */
static void close_upload(struct sink *s) {
    struct upload *u = (struct upload *)s;
    toolbox_end(&u->toolbox);
    for (size_t i = 0; i < u->waiting_len; i++)
        free(u->waiting[i].path);
    free(u->path_now);
    buf_free(&u->text);
    free(u);
}

static bool is_form(const char *type) {
    static const char form[] = "multipart/form-data";
    return type != NULL && strncasecmp(type, form, sizeof form - 1) == 0;
}

static int open_upload(struct call *c, const char *path, bool needs_form, struct cay_error *err) {
    const char *type = call_header(c, "Content-Type");
    struct upload *u = calloc(1, sizeof *u);
    if (u == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    u->sink = (struct sink){take_body, close_upload};
    u->call = c;
    u->list = JSONW_INIT(&c->fault_list);
    u->path = path;
    u->text = BUF_INIT(PATH_MAX);
    u->toolbox = TOOLBOX_INIT;
    u->is_multipart = needs_form || is_form(type);
    int r = 0;
    if (u->is_multipart)
        r = multipart_init(&u->multipart, type != NULL ? type : "", &parts, u, err);
    if (r < 0)
        close_upload(&u->sink);
    else
        c->sink = &u->sink;
    return r;
}

static int open_single(struct call *c, bool needs_form, struct cay_error *err) {
    const char *path;
    int r = toolbox_need_query(c, "path", &path, err);
    if (r < 0)
        return r;
    (void)str_escape(c->detail, sizeof c->detail, path);
    return open_upload(c, path, needs_form, err);
}

static int open_old(struct call *c, struct cay_error *err) {
    return open_single(c, true, err);
}

static int open_new(struct call *c, struct cay_error *err) {
    return open_single(c, false, err);
}

static int open_bulk(struct call *c, struct cay_error *err) {
    return open_upload(c, NULL, true, err);
}

/* ---- the end ---- */

/* The body has ended: so must the file. */
static int finish(struct upload *u, struct cay_error *err) {
    int r = 0;
    if (u->is_multipart) {
        r = multipart_finish(&u->multipart, err);
    } else {
        if (!u->is_writing)
            r = open_file(u, u->path, err); /* an empty one */
        if (r == 0)
            r = close_file(u, err);
    }
    if (r == 0 && u->failed > 0)
        return report_failures(u, err);
    if (r < 0 || u->files > 0)
        return r;
    error_set(err, CAY_INVALID_ARGUMENT, "there is no file in the request");
    return error_remedy(err, u->path != NULL ? "send it as the part 'file'"
                                             : "send parts files[0].path and files[0].file");
}

static int upload(struct call *c, struct cay_error *err) {
    return finish((struct upload *)c->sink, err);
}

static int upload_many(struct call *c, struct cay_error *err) {
    struct upload *u = (struct upload *)c->sink;
    int r = finish(u, err);
    (void)snprintf(c->detail, sizeof c->detail, "%zu files, %zu failed", u->files, u->failed);
    return r;
}

static int upload_and_report(struct call *c, struct cay_error *err) {
    const struct upload *u = (const struct upload *)c->sink;
    int r = finish((struct upload *)c->sink, err);
    if (r < 0)
        return r;
    const char *slash = strrchr(u->path, '/');
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "name", slash != NULL ? slash + 1 : u->path);
    jsonw_put_string(&w, "path", u->path);
    jsonw_put_string(&w, "type", "file");
    jsonw_end_object(&w);
    return 0;
}

static const struct route routes[] = {
    {"POST", "/toolbox/{who}/files/upload", upload, NEED_SANDBOXES, open_old, .needs_space = true},
    {"POST", "/toolbox/{who}/files/upload-v2", upload_and_report, NEED_SANDBOXES, open_new,
     .needs_space = true},
    {"POST", "/toolbox/{who}/files/bulk-upload", upload_many, NEED_SANDBOXES, open_bulk,
     .needs_space = true},
};

const struct route_table toolbox_upload_routes = {routes, ARRAY_LEN(routes)};
