#include "api/daytona/s3.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/build/contexts.h"
#include "api/call.h"
#include "api/shape/daytona_shape.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json/jsonw.h"
#include "manager/manager.h"

#define BUCKET "cay-contexts"
#define OBJECT "/s3/{bucket}/{organization}/{hash}/{file}"

static const char unsigned_body[] = "UNSIGNED-PAYLOAD";

/* ---- XML ---- */

static void put_text(struct buf *out, const char *text) {
    for (; *text != '\0'; text++) {
        if (*text == '<')
            (void)buf_puts(out, "&lt;");
        else if (*text == '>')
            (void)buf_puts(out, "&gt;");
        else if (*text == '&')
            (void)buf_puts(out, "&amp;");
        else
            (void)buf_putc(out, *text);
    }
}

static void put_element(struct buf *out, const char *name, const char *text) {
    (void)buf_printf(out, "<%s>", name);
    put_text(out, text);
    (void)buf_printf(out, "</%s>", name);
}

static void begin_xml(struct call *c, const char *name) {
    c->answer.type = "application/xml";
    (void)buf_printf(&c->answer.body,
                     "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                     "<%s xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">",
                     name);
}

static void end_xml(struct call *c, const char *name) {
    (void)buf_printf(&c->answer.body, "</%s>\n", name);
}

void s3_write_error(struct buf *out, const struct cay_error *err) {
    static const char *const names[] = {
        [CAY_NOT_FOUND] = "NoSuchKey",           [CAY_INVALID_ARGUMENT] = "InvalidRequest",
        [CAY_LIMIT_REACHED] = "EntityTooLarge",  [CAY_UNAUTHORIZED] = "AccessDenied",
        [CAY_FORBIDDEN] = "AccessDenied",        [CAY_UNSUPPORTED] = "NotImplemented",
        [CAY_UNAVAILABLE] = "ServiceUnavailable"};
    struct cay_error shown = *err;
    error_sanitize(&shown);
    const char *name = (size_t)err->code < ARRAY_LEN(names) ? names[err->code] : NULL;
    (void)buf_puts(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error>");
    put_element(out, "Code", name != NULL ? name : "InternalError");
    (void)buf_puts(out, "<Message>");
    put_text(out, shown.message);
    if (shown.remedy[0] != '\0') {
        (void)buf_puts(out, "; ");
        put_text(out, shown.remedy);
    }
    (void)buf_puts(out, "</Message></Error>\n");
}

/* ---- who ---- */

bool s3_is_asked(const struct target *t) {
    return t->segments > 0 && str_equal(t->segment[0], "s3");
}

static const char *header_of(const void *user, const char *name) {
    return call_header(user, name);
}

static bool has_token(const struct call *c, const struct context_grant *grant) {
    const char *given = call_header(c, "X-Amz-Security-Token");
    unsigned char a[HASH_SIZE], b[HASH_SIZE];
    if (given == NULL)
        return false;
    hash_of(given, strlen(given), a);
    hash_of(grant->token, strlen(grant->token), b);
    return hash_equal(a, b);
}

static int refuse_credentials(struct cay_error *err) {
    error_set(err, CAY_FORBIDDEN, "the credentials are missing, not valid, or have expired");
    return error_remedy(err, "ask for new ones: GET /api/object-storage/push-access");
}

/* A grant is worth what its key is: removed or expired, it is worth nothing. */
static bool find_caller(struct call *c, const struct context_grant *grant) {
    if (grant->owner[0] != '\0')
        return manager_key_by_id(c->manager, grant->owner, &c->caller);
    c->caller = (struct key){.name = "admin", .scopes = SCOPE_SANDBOXES};
    return true;
}

int s3_identify(struct call *c, struct cay_error *err) {
    struct s3_claim claim;
    struct context_grant grant = {0};
    int64_t now_ms = clock_wall_ms();
    struct s3_request q = {c->method, c->uri, &c->target, header_of, c};
    int r = 0;
    if (c->contexts == NULL || !s3_claim_read(call_header(c, "Authorization"), &claim) ||
        !contexts_granted(c->contexts, claim.access, now_ms, &grant) || !has_token(c, &grant))
        r = refuse_credentials(err);
    if (r == 0)
        r = s3_check(&claim, &q, grant.secret, now_ms, err);
    if (r == 0 && !find_caller(c, &grant))
        r = refuse_credentials(err);
    explicit_bzero(&grant, sizeof grant);
    return r;
}

/* ---- budgets ---- */

struct owners {
    struct budget_disk *rows;
    size_t count;
    bool failed;
};

static void add_owner(void *user, const char *owner, uint64_t bytes) {
    struct owners *all = user;
    struct budget_disk *rows = reallocarray(all->rows, all->count + 1, sizeof *rows);
    if (rows == NULL) {
        all->failed = true;
        return;
    }
    all->rows = rows;
    all->rows[all->count] = (struct budget_disk){.bytes = bytes};
    (void)snprintf(all->rows[all->count].owner, sizeof all->rows->owner, "%s", owner);
    all->count++;
}

void s3_note_uploads(const struct contexts *contexts, struct manager *m) {
    struct owners all = {0};
    contexts_each(contexts, add_owner, &all);
    if (!all.failed) /* else they are noted the next time */
        manager_disk_note_all(m, BUDGET_DISK_UPLOADS, all.rows, all.count);
    free(all.rows);
}

/* ---- credentials ---- */

static int require_contexts(const struct call *c, struct cay_error *err) {
    if (c->contexts != NULL)
        return 0;
    error_set(err, CAY_UNSUPPORTED, "build contexts are not kept here");
    return error_remedy(err, "build with: cay image build FOLDER");
}

/* The first part of the names of contexts. */
static const char *organization(const struct call *c) {
    return c->caller.organization[0] != '\0' ? c->caller.organization : DAYTONA_ORGANIZATION;
}

static int push_access(struct call *c, struct cay_error *err) {
    char origin[CALL_ORIGIN_SIZE], url[CALL_ORIGIN_SIZE + 8];
    struct context_grant grant;
    int r = require_contexts(c, err);
    if (r < 0)
        return r;
    contexts_sweep(c->contexts);
    s3_note_uploads(c->contexts, c->manager);
    contexts_grant(c->contexts, c->caller.id, clock_wall_ms(), &grant);
    (void)snprintf(url, sizeof url, "%s/s3", call_origin(c, origin));
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "accessKey", grant.access);
    jsonw_put_string(&w, "secret", grant.secret);
    jsonw_put_string(&w, "sessionToken", grant.token);
    jsonw_put_string(&w, "storageUrl", url);
    jsonw_put_string(&w, "organizationId", organization(c));
    jsonw_put_string(&w, "bucket", BUCKET);
    jsonw_put_string(&w, "region", "us-east-1");
    jsonw_end_object(&w);
    explicit_bzero(&grant, sizeof grant);
    return 0;
}

/* ---- which one ---- */

/* ORGANISATION/HASH/context.tar, and nothing else. */
static int read_object(struct call *c, const char **ret_hash, struct cay_error *err) {
    const char *const *v = c->args.v;
    int r = require_contexts(c, err);
    if (r < 0)
        return r;
    bool is_one = str_equal(v[0], BUCKET) && str_equal(v[1], organization(c)) &&
                  context_is_hash(v[2]) && str_equal(v[3], "context.tar");
    (void)str_escape(c->object, sizeof c->object, is_one ? v[2] : "");
    *ret_hash = v[2];
    if (is_one)
        return 0;
    error_set(err, CAY_NOT_FOUND, "this is not the name of a build context");
    return error_remedy(err, "they are called " BUCKET "/%s/HASH/context.tar, with 32 hex digits",
                        organization(c));
}

static int add_tag(struct call *c, const char *text, struct cay_error *err) {
    char tag[HASH_HEX_SIZE + 2];
    (void)snprintf(tag, sizeof tag, "\"%.32s\"", text);
    return call_add_header(c, "ETag", tag, err);
}

/* ---- lists ---- */

static void put_contents(struct call *c, const char *key, const char *hash, uint64_t bytes) {
    struct buf *out = &c->answer.body;
    char now[32];
    (void)buf_puts(out, "<Contents>");
    put_element(out, "Key", key);
    put_element(out, "LastModified", clock_iso8601(clock_wall_ms(), now));
    (void)buf_printf(out, "<ETag>&quot;%s&quot;</ETag><Size>%llu</Size>", hash,
                     (unsigned long long)bytes);
    (void)buf_puts(out, "<StorageClass>STANDARD</StorageClass></Contents>");
}

/* The hash in "ORGANISATION/HASH/…", of which more may follow; false for any other beginning. */
static bool read_prefix(const char *prefix, const char *top, char hash[static CONTEXT_HASH_SIZE]) {
    size_t len = strlen(top);
    if (!str_starts(prefix, top) || prefix[len] != '/' ||
        strlen(prefix) < len + 1 + CONTEXT_HASH_SIZE - 1)
        return false;
    memcpy(hash, prefix + len + 1, CONTEXT_HASH_SIZE - 1);
    hash[CONTEXT_HASH_SIZE - 1] = '\0';
    return context_is_hash(hash);
}

/* Nobody needs the list of all: one is asked for, to see whether it is there. */
static int list(struct call *c, struct cay_error *err) {
    const char *prefix = target_query(&c->target, "prefix");
    char hash[CONTEXT_HASH_SIZE] = "", key[128] = "";
    uint64_t bytes = 0;
    int r = require_contexts(c, err);
    if (r < 0)
        return r;
    prefix = prefix != NULL ? prefix : "";
    bool is_one = str_equal(c->args.v[0], BUCKET) && read_prefix(prefix, organization(c), hash);
    if (is_one)
        (void)snprintf(key, sizeof key, "%s/%s/context.tar", organization(c), hash);
    _cleanup_(closep) int fd =
        is_one && str_starts(key, prefix)
            ? contexts_find(c->contexts, key_owner(&c->caller), hash, &bytes, NULL)
            : -1;
    begin_xml(c, "ListBucketResult");
    put_element(&c->answer.body, "Name", BUCKET);
    put_element(&c->answer.body, "Prefix", prefix);
    put_element(&c->answer.body, "KeyCount", fd >= 0 ? "1" : "0");
    put_element(&c->answer.body, "MaxKeys", "1");
    put_element(&c->answer.body, "IsTruncated", "false");
    if (fd >= 0)
        put_contents(c, key, hash, bytes);
    end_xml(c, "ListBucketResult");
    return 0;
}

/* ---- reading ---- */

static int get(struct call *c, struct cay_error *err) {
    const char *hash;
    uint64_t bytes = 0;
    int r = read_object(c, &hash, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int fd = contexts_find(c->contexts, key_owner(&c->caller), hash, &bytes, err);
    if (fd < 0)
        return fd;
    r = call_answer_file(c, "application/x-tar", &fd, bytes, err);
    return r < 0 ? r : add_tag(c, hash, err);
}

/* ---- uploads ---- */

struct put {
    struct sink sink; /* first */
    struct context_upload *upload;
};

static int take_piece(struct sink *s, const char *data, size_t len, struct cay_error *err) {
    return context_upload_write(((struct put *)s)->upload, data, len, err);
}

static void close_put(struct sink *s) {
    context_upload_free(((struct put *)s)->upload);
    free(s);
}

/* A body in signed pieces has them between its bytes; SDKs send files whole. */
static int check_body(const struct call *c, struct cay_error *err) {
    const char *digest = call_header(c, "X-Amz-Content-Sha256");
    if (digest == NULL || !str_starts(digest, "STREAMING-"))
        return 0;
    error_set(err, CAY_UNSUPPORTED, "bodies in signed pieces (%.60s) are not taken", digest);
    return error_remedy(err, "send it whole, with its SHA-256 or as %s", unsigned_body);
}

/* partNumber and uploadId; neither: *ret_id stays NULL. */
static int read_part(const struct call *c, const char **ret_id, unsigned *ret_part,
                     struct cay_error *err) {
    const char *number = target_query(&c->target, "partNumber");
    uint64_t part = 0;
    *ret_id = target_query(&c->target, "uploadId");
    if (number == NULL && *ret_id == NULL)
        return 0;
    if (number == NULL || *ret_id == NULL || str_to_u64(number, CONTEXT_PARTS_MAX, &part) < 0 ||
        part == 0) {
        error_set(err, CAY_INVALID_ARGUMENT, "partNumber or uploadId: missing, or not valid");
        return error_remedy(err, "send both, with numbers from 1 to %d", CONTEXT_PARTS_MAX);
    }
    *ret_part = (unsigned)part;
    return 0;
}

static int open_put(struct call *c, struct cay_error *err) {
    const char *hash, *id = NULL, *length = call_header(c, "Content-Length");
    uint64_t bytes = 0;
    unsigned part = 0;
    int r = read_object(c, &hash, err);
    if (r == 0)
        r = check_body(c, err);
    if (r == 0)
        r = read_part(c, &id, &part, err);
    if (r < 0)
        return r;
    if (length != NULL && str_to_u64(length, UINT64_MAX, &bytes) < 0)
        bytes = UINT64_MAX;
    r = manager_disk_check(c->manager, key_owner(&c->caller), "", MAX(bytes, (uint64_t)1), err);
    if (r < 0)
        return r;
    struct put *p = calloc(1, sizeof *p);
    if (p == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    p->sink = (struct sink){take_piece, close_put};
    r = context_upload_begin(c->contexts, key_owner(&c->caller), hash, id, part, bytes, &p->upload,
                             err);
    if (r < 0)
        free(p);
    else
        c->sink = &p->sink;
    return r;
}

static int put(struct call *c, struct cay_error *err) {
    struct put *p = (struct put *)c->sink;
    const char *wanted = call_header(c, "X-Amz-Content-Sha256");
    char digest[HASH_HEX_SIZE];
    bool is_any = wanted == NULL || str_equal(wanted, unsigned_body);
    int r = context_upload_end(p->upload, is_any ? NULL : wanted, digest, err);
    s3_note_uploads(c->contexts, c->manager);
    c->answer.is_plain = true;
    return r < 0 ? r : add_tag(c, digest, err);
}

/* ---- uploads in parts ---- */

static void put_key(struct call *c, const char *hash) {
    put_element(&c->answer.body, "Bucket", BUCKET);
    (void)buf_printf(&c->answer.body, "<Key>%s/%s/context.tar</Key>", organization(c), hash);
}

static int begin_parts(struct call *c, const char *hash, struct cay_error *err) {
    char id[CONTEXT_ID_SIZE];
    int r = context_parts_begin(c->contexts, key_owner(&c->caller), hash, id, err);
    if (r < 0)
        return r;
    begin_xml(c, "InitiateMultipartUploadResult");
    put_key(c, hash);
    put_element(&c->answer.body, "UploadId", id);
    end_xml(c, "InitiateMultipartUploadResult");
    return 0;
}

static int end_parts(struct call *c, const char *hash, const char *id, struct cay_error *err) {
    unsigned numbers[CONTEXT_PARTS_MAX];
    int count = s3_read_parts(buf_text(&c->body), numbers, CONTEXT_PARTS_MAX);
    if (count < 0) {
        error_set(err, CAY_INVALID_ARGUMENT, "the body does not name the parts in their order");
        return error_remedy(err, "send CompleteMultipartUpload with each Part and its PartNumber");
    }
    int r = context_parts_end(c->contexts, key_owner(&c->caller), hash, id, numbers, (size_t)count,
                              err);
    if (r < 0)
        return r;
    begin_xml(c, "CompleteMultipartUploadResult");
    put_key(c, hash);
    (void)buf_printf(&c->answer.body, "<ETag>&quot;%s-%d&quot;</ETag>", hash, count);
    end_xml(c, "CompleteMultipartUploadResult");
    return 0;
}

static int post(struct call *c, struct cay_error *err) {
    const char *hash, *id = target_query(&c->target, "uploadId");
    int r = read_object(c, &hash, err);
    if (r < 0)
        return r;
    if (id != NULL) {
        r = end_parts(c, hash, id, err);
        s3_note_uploads(c->contexts, c->manager);
        return r;
    }
    if (target_query(&c->target, "uploads") != NULL)
        return begin_parts(c, hash, err);
    error_set(err, CAY_INVALID_ARGUMENT, "neither uploads nor uploadId: nothing to do");
    return error_remedy(err, "begin an upload in parts with ?uploads");
}

static int give_up(struct call *c, struct cay_error *err) {
    const char *hash, *id = target_query(&c->target, "uploadId");
    int r = read_object(c, &hash, err);
    if (r < 0)
        return r;
    c->answer.status = 204;
    if (id != NULL) {
        r = context_parts_drop(c->contexts, key_owner(&c->caller), hash, id, err);
        s3_note_uploads(c->contexts, c->manager);
        return r;
    }
    error_set(err, CAY_INVALID_ARGUMENT, "build contexts are not deleted: they go with their age");
    return error_remedy(err, "name an uploadId to give an upload in parts up");
}

static const struct route routes[] = {
    {"GET", "/api/object-storage/push-access", push_access, NEED_USE},
    {"GET", "/s3/{bucket}", list, NEED_SANDBOXES},
    {"GET", OBJECT, get, NEED_SANDBOXES},
    {"PUT", OBJECT, put, NEED_SANDBOXES, open_put, .needs_space = true},
    {"POST", OBJECT, post, NEED_SANDBOXES, .needs_space = true},
    {"DELETE", OBJECT, give_up, NEED_SANDBOXES},
};
const struct route_table s3_routes = {routes, ARRAY_LEN(routes)};
