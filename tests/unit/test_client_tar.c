/* Archives between the host and an operation of cay-init: under another name, and piece by piece.
 */
#include "init_harness.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "init/files/tar.h"
#include "wire/client_tar.h"

static struct cay_error err;

/* ---- another name ---- */

static void add(struct buf *b, char type, const char *path, const char *link) {
    struct tar_member m = {.type = type, .mode = type == TAR_FOLDER ? 0755 : 0644};
    assert_int_equal(str_copy(m.path, sizeof m.path, path), 0);
    assert_int_equal(str_copy(m.link, sizeof m.link, link), 0);
    tar_encode(&m, b);
}

static int no_more(struct tar_input *in, struct cay_error *e) {
    (void)in, (void)e;
    return 0;
}

/* Extracts members of the archive below "dest" as "name". */
static int extract(void **state, struct buf *b) {
    static const char zeros[2 * TAR_BLOCK];
    struct tar_totals totals;
    (void)buf_append(b, zeros, sizeof zeros);
    assert_int_equal(mkdir(at(state, "dest"), 0755), 0);
    _cleanup_(closep) int dest = open(at(state, "dest"), O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct tar_input in = {.data = b->data, .len = b->len, .more = no_more, .as = "name"};
    return tar_extract(&in, dest, 0, &totals, &err);
}

static void first_parts_are_replaced(void **state) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(1 << 20);
    add(&b, TAR_FOLDER, "./", "");
    add(&b, TAR_FOLDER, "top/", "");
    add(&b, TAR_FILE, "top/file", "");
    add(&b, TAR_FILE, "/beside/other", "");
    add(&b, TAR_HARD_LINK, "top/hard", "top/file");
    add(&b, TAR_SYMLINK, "top/soft", "top/file");
    assert_int_equal(extract(state, &b), 0);
    assert_int_equal(count_names(at(state, "dest")), 1);
    assert_int_equal(count_names(at(state, "dest/name")), 4);
    struct stat st;
    char target[16] = "";
    assert_int_equal(stat(at(state, "dest/name/file"), &st), 0);
    assert_int_equal(st.st_nlink, 2);
    assert_true(readlink(at(state, "dest/name/soft"), target, sizeof target - 1) > 0);
    assert_string_equal(target, "top/file"); /* a target is text, not a name of the archive */
}

static void a_single_file_gets_the_name(void **state) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(1 << 20);
    add(&b, TAR_FILE, "file", "");
    assert_int_equal(extract(state, &b), 0);
    struct stat st;
    assert_int_equal(lstat(at(state, "dest/name"), &st), 0);
    assert_true(S_ISREG(st.st_mode));
}

static void nothing_goes_through_a_link(void **state) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(1 << 20);
    add(&b, TAR_SYMLINK, "a", "..");
    add(&b, TAR_FILE, "b/evil", "");
    assert_true(extract(state, &b) < 0);
    assert_true(is_missing(at(state, "evil")));
}

static void a_name_can_become_too_long(void **state) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(1 << 20);
    char path[PATH_MAX] = "x";
    for (size_t i = 1; i + 101 < PATH_MAX - 1; i += 101) {
        path[i] = '/';
        memset(path + i + 1, 'n', 100);
        path[i + 101] = '\0';
    }
    size_t len = strlen(path);
    memset(path + len - 1, 'n', PATH_MAX - 1 - len);
    path[PATH_MAX - 2] = '\0';
    add(&b, TAR_FILE, path, "");
    assert_true(extract(state, &b) < 0);
}

/* ---- piece by piece ---- */

static int produce(void *arg, wire_sink_fn *take, void *take_arg, struct cay_error *e) {
    const struct tar_output to = {.take = take, .arg = take_arg};
    struct tar_written written;
    return tar_write(arg, "there", &to, &written, e);
}

static void make_source(void **state) {
    static char content[300 * 1000];
    memset(content, 'c', sizeof content - 1);
    assert_int_equal(mkdir(at(state, "source"), 0755), 0);
    assert_int_equal(mkdir(at(state, "source/empty"), 0700), 0);
    put_file(at(state, "source/large"), content, 0640);
}

static int receive(const struct wire_call *c, const char *path, uint64_t *ret_size) {
    struct wire_tar_stream s;
    const char *data;
    size_t len;
    int r = wire_tar_out_begin(c, path, &s, &err);
    *ret_size = 0;
    while (r >= 0 && (r = wire_tar_out_next(&s, &data, &len, &err)) > 0)
        *ret_size += len;
    if (r == 0) {
        assert_int_equal(s.totals.bytes, *ret_size);
        assert_int_equal(wire_tar_out_next(&s, &data, &len, &err), 0); /* and stays ended */
    }
    wire_tar_out_end(&s);
    return r;
}

static void sent_and_received(void **state) {
    struct wire_tar_totals totals;
    char source[PATH_MAX], box[PATH_MAX];
    uint64_t size;
    make_source(state);
    (void)snprintf(source, sizeof source, "%s", at(state, "source"));
    (void)snprintf(box, sizeof box, "%s", at(state, "box"));
    assert_int_equal(RUN(wire_tar_in_from(c, box, true, produce, source, &totals, &err)), 0);
    assert_int_equal(totals.members, 3);
    assert_int_equal(mode_of(at(state, "box/there/large")) & 0777, 0640);
    assert_int_equal(mode_of(at(state, "box/there/empty")) & 0777, 0700);
    struct stat st;
    assert_int_equal(stat(at(state, "box/there/large"), &st), 0);
    assert_int_equal(st.st_size, 299999);
    assert_int_equal(RUN(receive(c, at(state, "box/there"), &size)), 0);
    assert_true(size > 300000 && size % TAR_BLOCK == 0);
}

static void failures_of_either_side(void **state) {
    struct wire_tar_totals totals;
    char missing[PATH_MAX], box[PATH_MAX];
    uint64_t size;
    (void)snprintf(missing, sizeof missing, "%s", at(state, "missing"));
    (void)snprintf(box, sizeof box, "%s", at(state, "box"));
    assert_int_equal(RUN(wire_tar_in_from(c, box, true, produce, missing, &totals, &err)),
                     -CAY_NOT_FOUND);
    make_source(state);
    assert_int_equal(RUN(wire_tar_in_from(c, missing, false, produce, box, &totals, &err)) < 0,
                     true);
    assert_int_equal(RUN(receive(c, missing, &size)), -CAY_NOT_FOUND);
    assert_int_equal(size, 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(first_parts_are_replaced),    CASE(a_single_file_gets_the_name),
        CASE(nothing_goes_through_a_link), CASE(a_name_can_become_too_long),
        CASE(sent_and_received),           CASE(failures_of_either_side),
    };
    return cmocka_run_group_tests_name("client_tar", tests, NULL, NULL);
}
