/* Tests of api/build/s3_sign.c, contexts.c, contexts_grant.c and contexts_upload.c. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/build/contexts.h"
#include "api/build/s3_sign.h"
#include "api/http/target.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"

/* ---- signatures: the examples of AWS's own documentation ---- */

#define HOST  "examplebucket.s3.amazonaws.com"
#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define CREDENTIAL                                                                                 \
    "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
static const char secret[] = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
static const int64_t then_ms = INT64_C(1369353600000); /* 2013-05-24 */

static struct cay_error err; /* of what is refused */

struct example {
    const char *method, *uri, *authorization;
    const char *headers[12]; /* name, value, … */
};

static const struct example examples[] = {
    {"GET",
     "/test.txt",
     CREDENTIAL "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,Signature="
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
     {"host", HOST, "range", "bytes=0-9", "x-amz-content-sha256", EMPTY, "x-amz-date",
      "20130524T000000Z"}},
    {"PUT",
     "/test%24file.text",
     CREDENTIAL "SignedHeaders=date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class,"
                "Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
     {"date", "Fri, 24 May 2013 00:00:00 GMT", "host", HOST, "x-amz-content-sha256",
      "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072", "x-amz-date",
      "20130524T000000Z", "x-amz-storage-class", "REDUCED_REDUNDANCY"}},
    {"GET",
     "/?lifecycle",
     CREDENTIAL " SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature="
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
     {"host", HOST, "x-amz-content-sha256", EMPTY, "x-amz-date", "20130524T000000Z"}},
    {"GET",
     "/?prefix=J&max-keys=2",
     CREDENTIAL "SignedHeaders=host;x-amz-content-sha256;x-amz-date,Signature="
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
     {"host", HOST, "x-amz-content-sha256", EMPTY, "x-amz-date", "20130524T000000Z"}},
};

static const char *header_of(const void *user, const char *name) {
    const struct example *e = user;
    for (size_t i = 0; i + 1 < ARRAY_LEN(e->headers) && e->headers[i] != NULL; i += 2)
        if (str_equal(e->headers[i], name))
            return e->headers[i + 1];
    return NULL;
}

static int check(const struct example *e, const char *with, int64_t now_ms) {
    static struct target target;
    struct s3_claim claim;
    assert_int_equal(target_parse(e->uri, &target, NULL), 0);
    assert_true(s3_claim_read(e->authorization, &claim));
    struct s3_request q = {e->method, e->uri, &target, header_of, e};
    return s3_check(&claim, &q, with, now_ms, &err);
}

static void test_examples(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(examples); i++)
        assert_int_equal(check(&examples[i], secret, then_ms), 0);
}

static void test_what_is_not_signed(void **state) {
    (void)state;
    struct example e = examples[0];
    assert_int_equal(check(&e, "another secret", then_ms), -CAY_FORBIDDEN);
    assert_int_equal(check(&e, secret, then_ms + 14 * 60 * 1000), 0);
    assert_int_equal(check(&e, secret, then_ms + 16 * 60 * 1000), -CAY_FORBIDDEN);
    assert_int_equal(check(&e, secret, then_ms - 16 * 60 * 1000), -CAY_FORBIDDEN);
    e.uri = "/other.txt";
    assert_int_equal(check(&e, secret, then_ms), -CAY_FORBIDDEN);
    e.uri = "/test.txt?x=1";
    assert_int_equal(check(&e, secret, then_ms), -CAY_FORBIDDEN);
    e = examples[0];
    e.method = "DELETE";
    assert_int_equal(check(&e, secret, then_ms), -CAY_FORBIDDEN);
    e = examples[0];
    e.headers[1] = "elsewhere";
    assert_int_equal(check(&e, secret, then_ms), -CAY_FORBIDDEN);
    e = examples[0];
    e.headers[5] = "UNSIGNED-PAYLOAD";
    assert_int_equal(check(&e, secret, then_ms), -CAY_FORBIDDEN);
    e = examples[0];
    e.headers[7] = "20130524T000001Z";
    assert_int_equal(check(&e, secret, then_ms), -CAY_FORBIDDEN);
}

static void test_claims(void **state) {
    (void)state;
    static const char *const bad[] = {
        NULL,
        "",
        "Bearer x",
        "AWS4-HMAC-SHA256",
        "AWS4-HMAC-SHA256 Credential=a/b/c/s3/aws4_request",
        "AWS4-HMAC-SHA256 Credential=a/20130524/r/ec2/aws4_request, SignedHeaders=h, Signature=s",
        "AWS4-HMAC-SHA256 Credential=a/20130524/r/s3/aws4_request/x, SignedHeaders=h, Signature=s",
        "AWS4-HMAC-SHA256 Credential=a/201305240/r/s3/aws4_request, SignedHeaders=h, Signature=s",
        "AWS4-HMAC-SHA256 Credential=a/20130524/r/s3/aws4_request, SignedHeaders=, Signature=s",
        "AWS4-HMAC-SHA256 Credential=a/20130524/r/s3/aws4_request, Signature=s, Other=x",
    };
    struct s3_claim claim;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (s3_claim_read(bad[i], &claim))
            fail_msg("'%s' is one", bad[i]);
}

static void test_parts(void **state) {
    (void)state;
    static const struct {
        const char *xml;
        int count;
    } rows[] = {
        {"<C><Part><PartNumber>1</PartNumber></Part><Part><PartNumber>3</PartNumber></Part></C>",
         2},
        {"<PartNumber>10000</PartNumber>", 1},
        {"", -EINVAL},
        {"<PartNumber>2</PartNumber><PartNumber>2</PartNumber>", -EINVAL},
        {"<PartNumber>2</PartNumber><PartNumber>1</PartNumber>", -EINVAL},
        {"<PartNumber>0</PartNumber>", -EINVAL},
        {"<PartNumber>10001</PartNumber>", -EINVAL},
        {"<PartNumber>x</PartNumber>", -EINVAL},
        {"<PartNumber>1", -EINVAL},
        {"<PartNumber>1<", -EINVAL},
        {"<PartNumber>1</Part>", -EINVAL},
        {"<PartNumber>1</PartNumber><PartNumber>2</PartNumber><PartNumber>3</PartNumber>"
         "<PartNumber>4</PartNumber>",
         -EINVAL},
    };
    unsigned numbers[3];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (s3_read_parts(rows[i].xml, numbers, ARRAY_LEN(numbers)) != rows[i].count)
            fail_msg("%s", rows[i].xml);
}

/* ---- the store ---- */

#define HASH "0123456789abcdef0123456789abcdef"

struct world {
    char folder[64];
    struct contexts *contexts;
};

static int setup(void **state) {
    static struct world w;
    (void)snprintf(w.folder, sizeof w.folder, "/tmp/contexts-XXXXXX");
    if (mkdtemp(w.folder) == NULL)
        return -1;
    *state = &w;
    return contexts_open(w.folder, &w.contexts, NULL);
}

static int teardown(void **state) {
    struct world *w = *state;
    contexts_free(w->contexts);
    return path_remove_tree(AT_FDCWD, w->folder);
}

static int send_part(struct world *w, const char *owner, const char *id, unsigned part,
                     const char *text, const char *sha256) {
    struct context_upload *u = NULL;
    char digest[HASH_HEX_SIZE];
    int r = context_upload_begin(w->contexts, owner, HASH, id, part, strlen(text), &u, &err);
    if (r < 0)
        return r;
    r = context_upload_write(u, text, strlen(text), &err);
    if (r == 0)
        r = context_upload_end(u, sha256, digest, &err);
    context_upload_free(u);
    return r;
}

static void assert_content(struct world *w, const char *owner, const char *text) {
    char data[64] = "";
    uint64_t bytes = 0;
    _cleanup_(closep) int fd = contexts_find(w->contexts, owner, HASH, &bytes, &err);
    assert_true(fd >= 0);
    assert_int_equal(bytes, strlen(text));
    assert_int_equal(read(fd, data, sizeof data), strlen(text));
    assert_string_equal(data, text);
}

static void test_one(void **state) {
    struct world *w = *state;
    assert_int_equal(contexts_find(w->contexts, "ann", HASH, NULL, &err), -CAY_NOT_FOUND);
    assert_int_equal(send_part(w, "ann", NULL, 0, "tar", "not its digest"), -CAY_INVALID_ARGUMENT);
    assert_int_equal(contexts_find(w->contexts, "ann", HASH, NULL, &err), -CAY_NOT_FOUND);
    assert_int_equal(send_part(w, "ann", NULL, 0, "tar", NULL), 0);
    assert_content(w, "ann", "tar");
    assert_int_equal(contexts_find(w->contexts, "", HASH, NULL, &err), -CAY_NOT_FOUND);
    assert_int_equal(contexts_find(w->contexts, "bob", HASH, NULL, &err), -CAY_NOT_FOUND);
    assert_int_equal(contexts_find(w->contexts, "ann", "../" HASH, NULL, &err), -CAY_NOT_FOUND);
}

static void test_in_parts(void **state) {
    struct world *w = *state;
    char id[CONTEXT_ID_SIZE];
    const unsigned both[] = {1, 3}, more[] = {1, 2};
    assert_int_equal(context_parts_begin(w->contexts, "ann", HASH, id, &err), 0);
    assert_int_equal(send_part(w, "ann", id, 3, "second", NULL), 0);
    assert_int_equal(send_part(w, "ann", id, 1, "wrong", NULL), 0);
    assert_int_equal(send_part(w, "ann", id, 1, "first ", NULL), 0);
    assert_int_equal(send_part(w, "bob", id, 1, "x", NULL), -CAY_NOT_FOUND);
    assert_int_equal(context_parts_end(w->contexts, "ann", HASH, id, more, 2, &err),
                     -CAY_INVALID_ARGUMENT);
    assert_int_equal(context_parts_end(w->contexts, "ann", HASH, id, both, 2, &err), 0);
    assert_content(w, "ann", "first second");
    assert_int_equal(context_parts_end(w->contexts, "ann", HASH, id, both, 2, &err),
                     -CAY_NOT_FOUND);
    assert_int_equal(context_parts_begin(w->contexts, "ann", HASH, id, &err), 0);
    assert_int_equal(context_parts_drop(w->contexts, "ann", HASH, id, &err), 0);
    assert_int_equal(context_parts_drop(w->contexts, "ann", HASH, "../..", &err), 0);
    assert_int_equal(send_part(w, "ann", id, 1, "x", NULL), -CAY_NOT_FOUND);
}

/* A file of such a size and age, as the store would have it. */
static void plant(struct world *w, const char *name, off_t bytes, int64_t age_s) {
    char path[128];
    (void)snprintf(path, sizeof path, "%s/ann/%s", w->folder, name);
    struct timespec time = {.tv_sec = clock_wall_ms() / 1000 - age_s};
    _cleanup_(closep) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, bytes), 0);
    assert_int_equal(futimens(fd, (struct timespec[]){time, time}), 0);
}

static bool is_there(struct world *w, const char *name) {
    char path[128];
    (void)snprintf(path, sizeof path, "%s/ann/%s", w->folder, name);
    return access(path, F_OK) == 0;
}

static void test_limits(void **state) {
    struct world *w = *state;
    struct context_upload *u = NULL;
    assert_int_equal(
        context_upload_begin(w->contexts, "ann", HASH, NULL, 0, (UINT64_C(1) << 30) + 1, &u, &err),
        -CAY_LIMIT_REACHED);
    assert_int_equal(send_part(w, "ann", NULL, 0, "tar", NULL), 0);
    plant(w, "old.tar", (off_t)3 << 30, 2 * 3600);
    plant(w, "older.tar", (off_t)1 << 20, 3 * 3600);
    plant(w, "new.tar", (off_t)1 << 30, 60);
    assert_int_equal(send_part(w, "ann", NULL, 0, "tar", NULL), 0);
    assert_false(is_there(w, "older.tar"));
    assert_false(is_there(w, "old.tar"));
    assert_true(is_there(w, "new.tar"));
    plant(w, "newer.tar", (off_t)3 << 30, 60);
    assert_int_equal(send_part(w, "ann", NULL, 0, "tar", NULL), -CAY_LIMIT_REACHED);
    assert_int_equal(send_part(w, "bob", NULL, 0, "tar", NULL), 0);
    assert_content(w, "ann", "tar");
}

static void test_age(void **state) {
    struct world *w = *state;
    assert_int_equal(send_part(w, "ann", NULL, 0, "tar", NULL), 0);
    plant(w, HASH ".tar", 3, 8 * 24 * 3600);
    plant(w, "young.tar", 3, 6 * 24 * 3600);
    plant(w, ".put-0", 3, 25 * 3600);
    plant(w, ".put-1", 3, 3600);
    contexts_sweep(w->contexts);
    assert_false(is_there(w, HASH ".tar"));
    assert_true(is_there(w, "young.tar"));
    assert_false(is_there(w, ".put-0"));
    assert_true(is_there(w, ".put-1"));
    contexts_free(w->contexts); /* and by a new daemon */
    assert_int_equal(contexts_open(w->folder, &w->contexts, NULL), 0);
    assert_false(is_there(w, ".put-1"));
    assert_true(is_there(w, "young.tar"));
}

static void test_grants(void **state) {
    struct world *w = *state;
    struct context_grant given, found;
    contexts_grant(w->contexts, "0123456789abcdef", then_ms, &given);
    assert_true(contexts_granted(w->contexts, given.access, then_ms, &found));
    assert_string_equal(found.secret, given.secret);
    assert_string_equal(found.token, given.token);
    assert_string_equal(found.owner, "0123456789abcdef");
    assert_string_not_equal(found.secret, found.token);
    assert_true(contexts_granted(w->contexts, given.access, then_ms + 3599 * 1000, &found));
    assert_false(contexts_granted(w->contexts, given.access, then_ms + 3600 * 1000, &found));
    assert_false(contexts_granted(w->contexts, "", then_ms, &found));
    contexts_grant(w->contexts, "", then_ms, &given);
    assert_true(contexts_granted(w->contexts, given.access, then_ms, &found));
    assert_string_equal(found.owner, "");
    given.access[3] = 'F'; /* for ever */
    assert_false(contexts_granted(w->contexts, given.access, then_ms, &found));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_what_is_not_signed),
        cmocka_unit_test(test_claims),
        cmocka_unit_test(test_parts),
        cmocka_unit_test_setup_teardown(test_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_in_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_age, setup, teardown),
        cmocka_unit_test_setup_teardown(test_grants, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
