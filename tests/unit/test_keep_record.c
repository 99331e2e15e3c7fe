/* Tests of the record of a sandbox that stays: what is written is read, what is damaged is not. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "engine/native/keep/record.h"

#define ID    "0123456789abcdef"
#define IMAGE "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define BOOT  "719f8406-e56a-4393-b2d5-54486a61e337"

static const struct keep_record running = {
    .id = ID,
    .image = IMAGE,
    .memory_bytes = UINT64_C(1) << 40,
    .disk_bytes = UINT64_C(5) << 30,
    .cpu_quota_us = 150000,
    .pids = 256,
    .pid = 4194303,
    .start = UINT64_C(123456789012),
    .boot = BOOT,
    .base = 0x70010000,
    .has_ended = true,
    .end_cause = ENGINE_END_HOST_RESTART,
    .end_status = 9,
};

static void assert_same(const struct keep_record *a, const struct keep_record *b) {
    assert_string_equal(a->id, b->id);
    assert_string_equal(a->image, b->image);
    assert_string_equal(a->boot, b->boot);
    assert_true(a->memory_bytes == b->memory_bytes && a->start == b->start);
    assert_true(a->disk_bytes == b->disk_bytes);
    assert_true(a->cpu_quota_us == b->cpu_quota_us && a->pids == b->pids);
    assert_true(a->pid == b->pid && a->base == b->base);
    assert_true(a->has_ended == b->has_ended);
    if (a->has_ended)
        assert_true(a->end_cause == b->end_cause && a->end_oom == b->end_oom &&
                    a->end_status == b->end_status);
}

static void test_round_trip(void **state) {
    (void)state;
    const struct keep_record records[] = {
        running,
        {.id = ID},
        {.id = ID, .has_ended = true, .end_cause = ENGINE_END_UNASKED, .end_status = 9},
        {.id = ID, .has_ended = true, .end_cause = ENGINE_END_UNSEEN, .end_status = -1},
        {.id = ID, .has_ended = true, .end_oom = true, .end_status = INT32_MAX},
        {.id = ID,
         .memory_bytes = INT64_MAX,
         .disk_bytes = INT64_MAX,
         .cpu_quota_us = UINT32_MAX,
         .pids = UINT32_MAX,
         .pid = INT32_MAX,
         .start = INT64_MAX,
         .boot = BOOT,
         .base = UINT32_MAX},
    };
    for (size_t i = 0; i < ARRAY_LEN(records); i++) {
        char text[KEEP_RECORD_SIZE];
        struct keep_record back;
        assert_int_equal(keep_record_format(&records[i], text), 0);
        assert_int_equal(keep_record_parse(text, strlen(text), &back, NULL), 0);
        assert_same(&records[i], &back);
    }
}

static void test_numbers_that_no_record_holds(void **state) {
    (void)state;
    char text[KEEP_RECORD_SIZE];
    struct keep_record r = running;
    r.memory_bytes = UINT64_MAX;
    assert_int_equal(keep_record_format(&r, text), -ERANGE);
    r = running;
    r.start = UINT64_MAX;
    assert_int_equal(keep_record_format(&r, text), -ERANGE);
    r = running;
    r.disk_bytes = UINT64_MAX;
    assert_int_equal(keep_record_format(&r, text), -ERANGE);
}

/* Replaces a part of the text of a good record. */
static const struct {
    const char *part, *by;
} damages[] = {
    {"format = 1", "format = 2"},
    {"format = 1\n", ""},
    {"id = \"" ID "\"", "id = \"../../../etc/pas\""},
    {"id = \"" ID "\"", "id = \"\""},
    {"id = \"" ID "\"", "id = 7"},
    {"id = \"" ID "\"", "id = \"" ID "0\""},
    {"id = \"" ID "\"", "id = \"0123456789abcd\\u0000f\""},
    {IMAGE, "../../../../etc"},
    {IMAGE, IMAGE "a"},
    {"pid = 4194303", "pid = -1"},
    {"pid = 4194303", "pid = 2147483648"},
    {"pid = 4194303", "pid = \"1\""},
    {"pid = 4194303\n", ""},
    {"pids = 256", "pids = 4294967296"},
    {"base = 1879113728", "base = -5"},
    {"start = 123456789012", "start = 1.5"},
    {BOOT, BOOT "0"},
    {"boot = \"", "boot = "},
    {"memory = ", "memory ? "},
    {"disk = 5368709120", "disk = -1"},
    {"disk = 5368709120", "disk = \"5g\""},
    {"end = 2", "end = 4"},
    {"end = 2", "end = -1"},
    {"end_oom = 0", "end_oom = 2"},
    {"end_oom = 0\n", ""},
    {"end_status = 9", "end_status = -9"},
};

static void test_refuses_damage(void **state) {
    (void)state;
    char good[KEEP_RECORD_SIZE];
    assert_int_equal(keep_record_format(&running, good), 0);
    for (size_t i = 0; i < ARRAY_LEN(damages); i++) {
        char bad[2 * KEEP_RECORD_SIZE];
        struct keep_record r;
        struct cay_error err = {0};
        const char *at = strstr(good, damages[i].part);
        if (at == NULL)
            fail_msg("no '%s' in the record", damages[i].part);
        assert_int_equal(str_format(bad, sizeof bad, "%.*s%s%s", (int)(at - good), good,
                                    damages[i].by, at + strlen(damages[i].part)),
                         0);
        if (keep_record_parse(bad, strlen(bad), &r, &err) >= 0)
            fail_msg("accepted: '%s' for '%s'", damages[i].by, damages[i].part);
        assert_true(err.message[0] != '\0');
    }
}

/* A write that was cut off, wherever; only the last newline is no loss. */
static void test_refuses_every_beginning(void **state) {
    (void)state;
    char good[KEEP_RECORD_SIZE];
    struct keep_record r;
    assert_int_equal(keep_record_format(&running, good), 0);
    size_t base = (size_t)(strstr(good, "base = ") - good) + sizeof "base = " - 1;
    for (size_t len = 0; len <= base; len++)
        assert_true(keep_record_parse(good, len, &r, NULL) < 0);
}

static void test_unknown_keys_are_a_newer_ones(void **state) {
    (void)state;
    char text[2 * KEEP_RECORD_SIZE], good[KEEP_RECORD_SIZE];
    struct keep_record r;
    assert_int_equal(keep_record_format(&running, good), 0);
    assert_int_equal(str_format(text, sizeof text, "colour = \"red\"\n%s", good), 0);
    assert_int_equal(keep_record_parse(text, strlen(text), &r, NULL), 0);
    assert_same(&running, &r);
}

static void test_records_of_before_have_no_disk_limit(void **state) {
    (void)state;
    static const char part[] = "disk = 5368709120\n";
    char good[KEEP_RECORD_SIZE];
    struct keep_record r;
    assert_int_equal(keep_record_format(&running, good), 0);
    char *at = strstr(good, part);
    assert_non_null(at);
    memmove(at, at + strlen(part), strlen(at + strlen(part)) + 1);
    assert_int_equal(keep_record_parse(good, strlen(good), &r, NULL), 0);
    assert_true(r.disk_bytes == 0 && r.memory_bytes == running.memory_bytes);
}

static void test_on_disk(void **state) {
    (void)state;
    char path[] = "/tmp/cay-record-test-XXXXXX";
    struct keep_record back, stopped = running;
    struct stat st;
    assert_non_null(mkdtemp(path));
    _cleanup_(closep) int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(keep_record_read(folder, &back, NULL) < 0);
    assert_int_equal(keep_record_write(folder, &running, NULL), 0);
    assert_int_equal(keep_record_read(folder, &back, NULL), 0);
    assert_same(&running, &back);
    stopped.pid = 0;
    assert_int_equal(keep_record_write(folder, &stopped, NULL), 0);
    assert_int_equal(keep_record_read(folder, &back, NULL), 0);
    assert_same(&stopped, &back);
    assert_int_equal(fstatat(folder, "record", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_true(fstatat(folder, ".record-new", &st, AT_SYMLINK_NOFOLLOW) < 0);
    assert_int_equal(path_remove_tree(AT_FDCWD, path), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_numbers_that_no_record_holds),
        cmocka_unit_test(test_refuses_damage),
        cmocka_unit_test(test_refuses_every_beginning),
        cmocka_unit_test(test_unknown_keys_are_a_newer_ones),
        cmocka_unit_test(test_records_of_before_have_no_disk_limit),
        cmocka_unit_test(test_on_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
