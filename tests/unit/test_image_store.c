/* Tests of the image store: names, records, blobs and layers, used by several processes at once,
 * some of which are killed. */
#include "image_store_env.h"

#include <time.h>

/* ---- the store itself ---- */

static void test_open(void **state) {
    struct place *p = *state;
    struct image_store store = IMAGE_STORE_NONE;
    struct cay_error err = {0};
    struct stat st;
    assert_int_equal(fstat(p->store.dir, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(image_store_open(p->state, false, 0, &store, &err), 0);
    image_store_close(&store);
    assert_int_equal(store.dir, -1);
    assert_int_equal(image_store_open("/nonexistent", false, 0, &store, &err), -CAY_NOT_FOUND);
    assert_int_equal(image_store_open("/proc/self", true, 0, &store, &err) < 0, 1);
    image_store_close(&store);
}

static void test_owner(void **state) {
    struct place *p = *state;
    if (fchown(p->store.lock, IMAGE_IDS_FIRST, IMAGE_IDS_FIRST) < 0)
        skip(); /* needs root of the host to give files away */
    image_store_close(&p->store);
    assert_int_equal(path_remove_tree(AT_FDCWD, p->state), 0);
    assert_int_equal(mkdir(p->state, 0700), 0);
    struct cay_error err = {0};
    assert_int_equal(image_store_open(p->state, true, IMAGE_IDS_FIRST, &p->store, &err), 0);
    static const char *const parts[] = {".",      "lock", "blobs",   "ingest",
                                        "layers", "work", "records", "names"};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        struct stat st;
        assert_int_equal(fstatat(p->store.dir, parts[i], &st, AT_SYMLINK_NOFOLLOW), 0);
        assert_true(st.st_uid == IMAGE_IDS_FIRST && st.st_gid == IMAGE_IDS_FIRST);
        assert_int_equal(st.st_mode & 077, 0);
    }
    char images[80];
    struct stat st;
    assert_int_equal(str_format(images, sizeof images, "%s/images", p->state), 0);
    assert_int_equal(stat(images, &st), 0);
    assert_true(st.st_uid == 0 && (st.st_mode & 0777) == 0700);
}

static int open_and_leave(struct place *p) {
    struct image_store store;
    for (int i = 0; i < 20; i++) {
        if (image_store_open(p->state, true, geteuid(), &store, NULL) < 0)
            return 1;
        image_store_close(&store);
    }
    return 0;
}

/* Many make it at once: one wins, and nothing is left of the others. */
static void test_made_by_many(void **state) {
    struct place *p = *state;
    pid_t pids[8];
    image_store_close(&p->store);
    for (int round = 0; round < 10; round++) {
        assert_int_equal(path_remove_tree(AT_FDCWD, p->state), 0);
        assert_int_equal(mkdir(p->state, 0700), 0);
        for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
            pids[i] = fork();
            if (pids[i] == 0)
                _exit(open_and_leave(p));
        }
        for (size_t i = 0; i < ARRAY_LEN(pids); i++)
            assert_int_equal(result_of(pids[i]), 0);
    }
    p->store = open_store(p);
    assert_int_equal(entries(p, ".."), 1);
    assert_int_equal(entries(p, "."), 7);
}

/* A store of which parts are not what they were is refused, not followed. */
static void test_tampered(void **state) {
    struct place *p = *state;
    struct image_store store = IMAGE_STORE_NONE;
    char id[HEX_SIZE];
    struct reference name = ref("a:1");
    add_image(p, '1', '2', '3');
    assert_int_equal(image_store_set_name(&p->store, &name, hex('1'), NULL), 0);
    assert_int_equal(unlinkat(p->store.dir, "names/docker.io/library+a/1", 0), 0);
    assert_int_equal(symlinkat("/etc/passwd", p->store.dir, "names/docker.io/library+a/1"), 0);
    assert_true(image_store_find_reference(&p->store, &name, id, NULL) < 0);
    assert_int_equal(renameat(p->store.dir, "records", p->store.dir, "elsewhere"), 0);
    assert_int_equal(symlinkat("elsewhere", p->store.dir, "records"), 0);
    assert_true(image_store_find(&p->store, hex('1'), id, NULL) < 0);
    assert_int_equal(unlinkat(p->store.dir, "lock", 0), 0);
    assert_int_equal(mkfifoat(p->store.dir, "lock", 0600), 0);
    assert_true(image_store_open(p->state, true, geteuid(), &store, NULL) < 0);
}

/* ---- names ---- */

static void assert_found(const struct place *p, const char *text, char digit) {
    char id[HEX_SIZE];
    struct cay_error err = {0};
    if (image_store_find(&p->store, text, id, &err) < 0)
        fail_msg("%s: %s", text, err.message);
    assert_string_equal(id, hex(digit));
}

static void assert_missing(const struct place *p, const char *text) {
    char id[HEX_SIZE];
    struct cay_error err = {0};
    if (image_store_find(&p->store, text, id, &err) != -CAY_NOT_FOUND)
        fail_msg("%s: %s", text, err.message);
    assert_string_equal(err.remedy, "");
}

static void test_find(void **state) {
    struct place *p = *state;
    add_image(p, 'a', '2', '3');
    add_image(p, 'b', '2', '3');
    char digest[128], text[128];
    assert_int_equal(str_format(digest, sizeof digest, "h.io:5000/x/y:t@sha256:%s", hex('c')), 0);
    struct reference python = ref("python:3"), both = ref(digest);
    assert_int_equal(image_store_set_name(&p->store, &python, hex('a'), NULL), 0);
    assert_int_equal(image_store_set_name(&p->store, &both, hex('b'), NULL), 0);
    assert_found(p, "python:3", 'a');
    assert_found(p, "docker.io/library/python:3", 'a');
    assert_found(p, "h.io:5000/x/y:t", 'b');
    assert_found(p, digest, 'b');
    assert_found(p, hex('a'), 'a');
    assert_int_equal(str_format(text, sizeof text, "sha256:%s", hex('a')), 0);
    assert_found(p, text, 'a');
    assert_found(p, "aaaa", 'a');
    assert_found(p, "sha256:bbbbbbbb", 'b');
    assert_missing(p, "python:4");
    assert_missing(p, "aaa"); /* too short */
    assert_missing(p, "cccc");
    assert_missing(p, hex('c'));
    assert_missing(p, "sha256:");
    assert_missing(p, "h.io:5000/x:t");
    char id[HEX_SIZE];
    assert_int_equal(image_store_find(&p->store, "PYTHON", id, NULL), -CAY_INVALID_ARGUMENT);

    /* a name wins over the beginning of an id */
    struct reference like_id = ref("bbbb");
    assert_int_equal(image_store_set_name(&p->store, &like_id, hex('a'), NULL), 0);
    assert_found(p, "bbbb", 'a');
}

static void test_ambiguous(void **state) {
    struct place *p = *state;
    char id[HEX_SIZE];
    struct cay_error err = {0};
    add_image(p, 'a', '2', '3');
    char other[HEX_SIZE];
    memcpy(other, hex('a'), HEX_SIZE);
    other[60] = 'b';
    _cleanup_(record_freep) struct image_record *record = record_new();
    assert_non_null(record);
    memcpy(record->id, other, HEX_SIZE);
    assert_int_equal(image_store_write_record(&p->store, record, &err), 0);
    assert_int_equal(image_store_find(&p->store, "aaaa", id, &err), -CAY_CONFLICT);
    assert_found(p, hex('a'), 'a');
    other[61] = '\0';
    assert_int_equal(image_store_find(&p->store, other, id, &err), 0);
    assert_int_equal(id[60], 'b');
}

static void test_names(void **state) {
    struct place *p = *state;
    static const char *const sorted[] = {"h.io/a/b/c:1", "localhost:5000/z:1", "a:1", "a:2",
                                         "me/a:1"};
    struct cay_error err = {0};
    add_image(p, 'a', '2', '3');
    add_image(p, 'b', '2', '3');
    struct reference r = ref("none:1");
    assert_int_equal(image_store_set_name(&p->store, &r, hex('f'), &err), -CAY_NOT_FOUND);
    for (size_t i = 0; i < ARRAY_LEN(sorted); i++) {
        r = ref(sorted[ARRAY_LEN(sorted) - 1 - i]);
        assert_int_equal(image_store_set_name(&p->store, &r, hex('a'), &err), 0);
    }
    /* foreign files are no names */
    put_file(p->store.dir, "names/docker.io/library+a/.new-0123", "x");
    put_file(p->store.dir, "names/docker.io/library+a/bad", "x");
    put_file(p->store.dir, "names/docker.io/file", "x");

    _cleanup_(freep) struct image_name *names = NULL;
    size_t count;
    assert_int_equal(image_store_names(&p->store, &names, &count, &err), 0);
    assert_int_equal(count, ARRAY_LEN(sorted));
    for (size_t i = 0; i < count; i++) {
        char text[REFERENCE_TEXT_SIZE];
        bool there = false;
        for (size_t k = 0; k < ARRAY_LEN(sorted); k++)
            there |= strcmp(reference_familiar(&names[i].ref, text), sorted[k]) == 0;
        assert_true(there);
        assert_string_equal(names[i].id, hex('a'));
    }
    r = ref("a:1"); /* taken from one, given to another */
    assert_int_equal(image_store_set_name(&p->store, &r, hex('b'), &err), 0);
    assert_found(p, "a:1", 'b');
    assert_int_equal(image_store_remove_name(&p->store, &r, &err), 0);
    assert_missing(p, "a:1");
    assert_int_equal(image_store_remove_name(&p->store, &r, &err), -CAY_NOT_FOUND);
    r = ref("h.io/a/b/c:1");
    assert_int_equal(image_store_remove_name(&p->store, &r, &err), 0);
    assert_false(exists(p, "names/h.io"));
    assert_true(exists(p, "names/docker.io/library+a/2"));
}

static int flip_name(struct place *p) {
    struct reference name = ref("race/app:1");
    for (int i = 0; i < 60; i++) {
        if (image_store_set_name(&p->store, &name, hex('a'), NULL) < 0)
            return 1;
        int r = image_store_remove_name(&p->store, &name, NULL);
        if (r < 0 && r != -CAY_NOT_FOUND)
            return 2;
    }
    return 0;
}

/* The folder of a name comes and goes under the hands of others. */
static void test_name_races(void **state) {
    struct place *p = *state;
    pid_t pids[4];
    add_image(p, 'a', '2', '3');
    for (size_t i = 0; i < ARRAY_LEN(pids); i++)
        pids[i] = child(p, flip_name);
    for (size_t i = 0; i < ARRAY_LEN(pids); i++)
        assert_int_equal(result_of(pids[i]), 0);
    assert_int_equal(entries(p, "names"), 0);
}

/* ---- records ---- */

static void test_records(void **state) {
    struct place *p = *state;
    struct cay_error err = {0};
    _cleanup_(record_freep) struct image_record *record = NULL;
    add_image(p, 'a', '2', '3');
    assert_int_equal(image_store_read_record(&p->store, hex('a'), &record, &err), 0);
    assert_string_equal(record->layers[0].chain, hex('2'));
    assert_int_equal(image_store_read_record(&p->store, hex('b'), &record, &err), -CAY_NOT_FOUND);
    assert_int_equal(image_store_read_record(&p->store, "../lock", &record, &err),
                     -CAY_INVALID_ARGUMENT);

    memcpy(record->layers[0].chain, hex('9'), HEX_SIZE); /* there is no such layer */
    assert_int_equal(image_store_write_record(&p->store, record, &err), -CAY_CONFLICT);

    /* one record under the name of another */
    char from[80], to[80];
    assert_int_equal(str_format(from, sizeof from, "records/%s", hex('a')), 0);
    assert_int_equal(str_format(to, sizeof to, "records/%s", hex('b')), 0);
    assert_int_equal(linkat(p->store.dir, from, p->store.dir, to, 0), 0);
    struct image_record *wrong = NULL;
    assert_true(image_store_read_record(&p->store, hex('b'), &wrong, &err) < 0);
    assert_null(wrong);
}

static void test_record_not_utf8(void **state) {
    struct place *p = *state;
    struct cay_error err = {0};
    _cleanup_(record_freep) struct image_record *record = record_new();
    assert_non_null(record);
    memcpy(record->id, hex('a'), HEX_SIZE);
    assert_int_equal(strv_push(&record->env, "A=\xff"), 0);
    assert_int_equal(image_store_write_record(&p->store, record, &err), -CAY_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "UTF-8"));
    assert_int_equal(entries(p, "records"), 0);
}

static void test_remove_record(void **state) {
    struct place *p = *state;
    struct cay_error err = {0};
    add_image(p, 'a', '2', '3');
    add_image(p, 'b', '2', '3');
    struct reference one = ref("one:1"), two = ref("h.io/two:2"), other = ref("other:1");
    assert_int_equal(image_store_set_name(&p->store, &one, hex('a'), &err), 0);
    assert_int_equal(image_store_set_name(&p->store, &two, hex('a'), &err), 0);
    assert_int_equal(image_store_set_name(&p->store, &other, hex('b'), &err), 0);
    assert_int_equal(image_store_remove_record(&p->store, hex('a'), &err), 0);
    assert_missing(p, "one:1");
    assert_missing(p, "h.io/two:2");
    assert_missing(p, hex('a'));
    assert_found(p, "other:1", 'b');
    assert_true(image_store_has_layer(&p->store, hex('2')));
    assert_int_equal(image_store_remove_record(&p->store, hex('a'), &err), -CAY_NOT_FOUND);
}

/* ---- blobs ---- */

static struct blob_work begin_blob(const struct place *p, char digit, int expected) {
    struct blob_work work;
    struct cay_error err = {0};
    int r = image_store_begin_blob(&p->store, hex(digit), &work, &err);
    if (r != expected)
        fail_msg("%d: %s", r, err.message);
    return work;
}

static void test_blob_resume(void **state) {
    struct place *p = *state;
    struct blob_work work = begin_blob(p, '1', 0);
    assert_int_equal(work.offset, 0);
    assert_int_equal(fd_write_all(work.fd, "half", 4), 0);
    assert_int_equal(image_store_open_blob(&p->store, hex('1')), -ENOENT);
    image_store_leave_blob(&p->store, &work, true);
    assert_int_equal(work.fd, -1);

    work = begin_blob(p, '1', 0);
    assert_int_equal(work.offset, 4);
    image_store_leave_blob(&p->store, &work, false);
    work = begin_blob(p, '1', 0);
    assert_int_equal(work.offset, 0);
    assert_int_equal(fd_write_all(work.fd, "all", 3), 0);
    assert_int_equal(image_store_commit_blob(&p->store, &work, NULL), 0);
    assert_int_equal(work.fd, -1);

    work = begin_blob(p, '1', 1);
    assert_int_equal(work.fd, -1);
    assert_int_equal(entries(p, "ingest"), 0);
    _cleanup_(closep) int fd = image_store_open_blob(&p->store, hex('1'));
    char text[8] = "";
    assert_int_equal(read(fd, text, sizeof text), 3);
    assert_string_equal(text, "all");
    assert_int_equal(image_store_open_blob(&p->store, "../lock"), -EINVAL);
}

static void pause_ms(long ms) {
    (void)nanosleep(&(struct timespec){.tv_nsec = ms * 1000 * 1000}, NULL);
}

/* Writes its own bytes over what it finds; both would, if they did not exclude each other. */
static int download(struct place *p) {
    struct blob_work work;
    int r = image_store_begin_blob(&p->store, hex('1'), &work, NULL);
    if (r != 0)
        return r == 1 ? 10 : 1;
    if (work.offset != 0)
        return 2;
    for (int i = 0; i < 20; i++) {
        if (fd_write_all(work.fd, "x", 1) < 0)
            return 3;
        pause_ms(1);
    }
    return image_store_commit_blob(&p->store, &work, NULL) < 0 ? 4 : 11;
}

static void test_blob_two_at_once(void **state) {
    struct place *p = *state;
    pid_t pids[6];
    int wrote = 0;
    for (size_t i = 0; i < ARRAY_LEN(pids); i++)
        pids[i] = child(p, download);
    for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
        int r = result_of(pids[i]);
        assert_true(r == 10 || r == 11);
        wrote += r == 11;
    }
    assert_int_equal(wrote, 1);
    _cleanup_(closep) int fd = image_store_open_blob(&p->store, hex('1'));
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, 20);
    assert_int_equal(entries(p, "ingest"), 0);
}

static int download_forever(struct place *p) {
    struct blob_work work;
    if (image_store_begin_blob(&p->store, hex('1'), &work, NULL) < 0 ||
        fd_write_all(work.fd, "12345", 5) < 0)
        return 1;
    put_file(p->store.dir, "begun", "");
    for (;;)
        (void)pause();
}

static void test_blob_killed_holder(void **state) {
    struct place *p = *state;
    pid_t pid = child(p, download_forever);
    for (int i = 0; i < 5000 && !exists(p, "begun"); i++)
        pause_ms(1);
    assert_true(exists(p, "begun"));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(result_of(pid), -SIGKILL);
    struct blob_work work = begin_blob(p, '1', 0);
    assert_int_equal(work.offset, 5);
    image_store_leave_blob(&p->store, &work, false);
    assert_int_equal(entries(p, "ingest"), 0);
}

/* Who waits for a holder that drops the file gets a new one, not the dropped. */
static int begin_and_report(struct place *p) {
    struct blob_work work;
    if (image_store_begin_blob(&p->store, hex('1'), &work, NULL) != 0)
        return 1;
    if (work.offset != 0 || fd_write_all(work.fd, "new", 3) < 0)
        return 2;
    return image_store_commit_blob(&p->store, &work, NULL) < 0 ? 3 : 0;
}

static void test_blob_dropped_meanwhile(void **state) {
    struct place *p = *state;
    struct blob_work work = begin_blob(p, '1', 0);
    assert_int_equal(fd_write_all(work.fd, "bad bytes", 9), 0);
    pid_t pid = child(p, begin_and_report);
    pause_ms(50); /* most likely it waits now; the result is the same if not */
    image_store_leave_blob(&p->store, &work, false);
    assert_int_equal(result_of(pid), 0);
    _cleanup_(closep) int fd = image_store_open_blob(&p->store, hex('1'));
    char text[16] = "";
    assert_int_equal(read(fd, text, sizeof text), 3);
}

static void test_put_blob(void **state) {
    struct place *p = *state;
    assert_int_equal(image_store_put_blob(&p->store, hex('1'), "abc", 3, NULL), 0);
    assert_int_equal(image_store_put_blob(&p->store, hex('1'), "abc", 3, NULL), 0);
    assert_int_equal(entries(p, "blobs"), 1);
    assert_true(image_store_put_blob(&p->store, "x/y", "", 0, NULL) < 0);
    (void)begin_blob(p, '1', 1);
}

/* ---- layers ---- */

static void read_mark(const struct place *p, const char *chain, char text[static 16]) {
    _cleanup_(closep) int fs = image_store_open_layer(&p->store, chain, NULL);
    assert_true(fs >= 0);
    assert_true(fd_read_file_at(fs, "mark", text, 16) >= 0);
}

static void test_layer(void **state) {
    struct place *p = *state;
    char text[16];
    struct stat st;
    assert_false(image_store_has_layer(&p->store, hex('1')));
    mode_t old = umask(077);
    struct layer_work work = begin_layer(p);
    (void)umask(old);
    assert_int_equal(fstatat(work.dir, "fs", &st, 0), 0);
    assert_int_equal(st.st_mode & 0777, 0755);
    assert_int_equal(fstatat(work.dir, "work", &st, 0), 0);
    assert_int_equal(fstatat(work.dir, "merged", &st, 0), 0);
    put_file(work.dir, "fs/mark", "first");
    put_file(work.dir, "work/rest", "of the overlay");
    assert_int_equal(image_store_commit_layer(&p->store, &work, hex('1'), NULL), 0);
    assert_int_equal(work.dir, -1);
    assert_int_equal(work.lock, -1);
    assert_true(image_store_has_layer(&p->store, hex('1')));
    read_mark(p, hex('1'), text);
    assert_string_equal(text, "first");
    char path[80];
    assert_int_equal(str_format(path, sizeof path, "layers/%s", hex('1')), 0);
    assert_int_equal(entries(p, path), 3); /* fs, lock, boot */

    add_layer(p, hex('1'), "second"); /* too late: the first stays */
    read_mark(p, hex('1'), text);
    assert_string_equal(text, "first");

    work = begin_layer(p);
    put_file(work.dir, "fs/mark", "gone");
    image_store_abandon_layer(&p->store, &work);
    image_store_abandon_layer(&p->store, &work); /* of nothing */
    assert_int_equal(entries(p, "work"), 0);
    work = begin_layer(p);
    assert_int_equal(image_store_commit_layer(&p->store, &work, "../x", NULL),
                     -CAY_INVALID_ARGUMENT);
    image_store_abandon_layer(&p->store, &work);
    assert_false(image_store_has_layer(&p->store, "../work"));
}

static int commit_and_open(struct place *p) {
    for (char digit = '0'; digit <= '9'; digit++) {
        struct layer_work work;
        int lock = -1;
        if (image_store_begin_layer(&p->store, &work, NULL) < 0 ||
            image_store_commit_layer(&p->store, &work, hex(digit), NULL) < 0)
            return 1;
        /* there at once, for whoever came second too */
        int fs = image_store_open_layer(&p->store, hex(digit), &lock);
        if (fs < 0)
            return 2;
        (void)close(fs);
        (void)close(lock);
    }
    return 0;
}

static void test_layer_races(void **state) {
    struct place *p = *state;
    pid_t pids[4];
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < ARRAY_LEN(pids); i++)
            pids[i] = child(p, commit_and_open);
        for (size_t i = 0; i < ARRAY_LEN(pids); i++)
            assert_int_equal(result_of(pids[i]), 0);
        assert_int_equal(entries(p, "work"), 0);
        assert_int_equal(entries(p, "layers"), 10);
        /* as a power loss leaves them, for all to replace at once */
        for (char digit = '0'; digit <= '9'; digit++) {
            char folder[80];
            assert_int_equal(str_format(folder, sizeof folder, "layers/%s", hex(digit)), 0);
            overwrite(p, folder, "boot", "another");
        }
    }
}

static void test_settle(void **state) {
    struct place *p = *state;
    char text[16], fresh[80], old[80];
    add_layer(p, hex('1'), "one");
    add_layer(p, hex('2'), "two");
    assert_int_equal(str_format(fresh, sizeof fresh, "layers/%s", hex('1')), 0);
    assert_int_equal(str_format(old, sizeof old, "layers/%s", hex('2')), 0);

    /* made in another boot, and never settled: hollow, for all we know */
    overwrite(p, old, "boot", "another");
    assert_false(image_store_has_layer(&p->store, hex('2')));
    assert_int_equal(image_store_open_layer(&p->store, hex('2'), NULL), -ENOENT);
    assert_int_equal(image_store_settle(&p->store), 0);
    assert_false(image_store_has_layer(&p->store, hex('2')));

    /* the other one is settled, and survives the boot */
    overwrite(p, fresh, "boot", "another");
    assert_true(image_store_has_layer(&p->store, hex('1')));

    /* it can be made again, also where only an empty folder is left */
    add_layer(p, hex('2'), "again");
    read_mark(p, hex('2'), text);
    assert_string_equal(text, "again");
    assert_int_equal(entries(p, "work"), 0);
    char empty[80];
    assert_int_equal(str_format(empty, sizeof empty, "layers/%s", hex('3')), 0);
    assert_int_equal(mkdirat(p->store.dir, empty, 0700), 0);
    assert_false(image_store_has_layer(&p->store, hex('3')));
    add_layer(p, hex('3'), "new");
    assert_true(image_store_has_layer(&p->store, hex('3')));
    assert_int_equal(image_store_settle(&p->store), 0);
    assert_int_equal(image_store_settle(&p->store), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_open),
        TEST(test_owner),
        TEST(test_made_by_many),
        TEST(test_tampered),
        TEST(test_find),
        TEST(test_ambiguous),
        TEST(test_names),
        TEST(test_name_races),
        TEST(test_records),
        TEST(test_record_not_utf8),
        TEST(test_remove_record),
        TEST(test_blob_resume),
        TEST(test_blob_two_at_once),
        TEST(test_blob_killed_holder),
        TEST(test_blob_dropped_meanwhile),
        TEST(test_put_blob),
        TEST(test_layer),
        TEST(test_layer_races),
        TEST(test_settle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
