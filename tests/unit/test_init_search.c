/* Finding names, searching and replacing content through the host's client. */
#include "init_harness.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static struct cay_error err;

struct seen {
    int count;
    uint64_t lines[512];
    char names[512][128];
    char text[1100];
};

static int note_file(void *arg, const struct wire_file *f, struct cay_error *e) {
    (void)e;
    struct seen *s = arg;
    (void)snprintf(s->names[s->count++], sizeof s->names[0], "%s", f->path);
    return 0;
}

static int note_match(void *arg, const struct wire_match *m, struct cay_error *e) {
    (void)e;
    struct seen *s = arg;
    s->lines[s->count] = m->line;
    (void)snprintf(s->text, sizeof s->text, "%s", m->text);
    (void)snprintf(s->names[s->count++], sizeof s->names[0], "%s", m->path);
    return 0;
}

static bool has(const struct seen *s, const char *name) {
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->names[i], name) == 0)
            return true;
    return false;
}

static void make_tree(void **state) {
    assert_int_equal(mkdir(at(state, "src"), 0755), 0);
    assert_int_equal(mkdir(at(state, "src/deep"), 0755), 0);
    put_file(at(state, "top.py"), "import os\nprint('Hello')\n", 0644);
    put_file(at(state, "src/a.py"), "x = 1\nhello = 2\n", 0644);
    put_file(at(state, "src/deep/b.py"), "last line without end: hello", 0644);
    put_file(at(state, "src/deep/c.txt"), "nothing\r\nhello\r\n", 0644);
    assert_int_equal(symlink("..", at(state, "src/deep/loop")), 0);
}

static void find_names(void **state) {
    make_tree(state);
    bool truncated;
    static const struct {
        const char *pattern;
        int count;
        const char *one;
    } cases[] = {
        {"*.py", 3, "src/deep/b.py"},
        {"?.py", 2, "src/a.py"},
        {"[ab].*", 2, "src/a.py"},
        {"deep", 1, "src/deep"},
        {"loop", 1, "src/deep/loop"},
        {"nothing", 0, NULL},
        {"*", 7, "top.py"},
        {"src/*.py", 2, "src/deep/b.py"},
        {"**/b.py", 1, "src/deep/b.py"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct seen s = {0};
        assert_int_equal(RUN(wire_find(c, &(struct wire_query){*state, cases[i].pattern, 0, 100},
                                       note_file, &s, &truncated, &err)),
                         0);
        assert_int_equal(s.count, cases[i].count);
        assert_false(truncated);
        if (cases[i].one != NULL)
            assert_true(has(&s, at(state, cases[i].one)));
    }
    struct seen s = {0};
    assert_int_equal(RUN(wire_find(c, &(struct wire_query){*state, "*.py", 0, 2}, note_file, &s,
                                   &truncated, &err)),
                     0);
    assert_int_equal(s.count, 2);
    assert_true(truncated);
    assert_int_equal(RUN(wire_find(c, &(struct wire_query){at(state, "no"), "*", 0, 2}, note_file,
                                   &s, &truncated, &err)),
                     -CAY_NOT_FOUND);
    assert_int_equal(
        RUN(wire_find(c, &(struct wire_query){*state, "", 0, 2}, note_file, &s, &truncated, &err)),
        -CAY_INVALID_ARGUMENT);
}

/* A start that is a symlink or ends in slashes is followed, and shown as it was given. */
static void find_from_links(void **state) {
    make_tree(state);
    bool truncated;
    struct seen s = {0};
    assert_int_equal(symlink("src", at(state, "link")), 0);
    assert_int_equal(RUN(wire_find(c, &(struct wire_query){at(state, "link"), "a.py", 0, 9},
                                   note_file, &s, &truncated, &err)),
                     0);
    assert_true(has(&s, at(state, "link/a.py")));
    assert_int_equal(RUN(wire_find(c, &(struct wire_query){at(state, "src//"), "a.py", 0, 9},
                                   note_file, &s, &truncated, &err)),
                     0);
    assert_true(has(&s, at(state, "src/a.py")));
}

static void find_stays_out_of_proc(void **state) {
    bool truncated;
    struct seen s = {0};
    const char *proc = at(state, "proc");
    assert_int_equal(mkdir(proc, 0755), 0);
    /* in a mount namespace of our own, so that nothing is left behind if the test fails */
    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("/proc", proc, NULL, MS_BIND, NULL) < 0) {
        print_message("skipped: nothing can be mounted here\n");
        skip();
    }
    int r =
        RUN(wire_find(c, &(struct wire_query){*state, "*", 0, 9}, note_file, &s, &truncated, &err));
    assert_int_equal(umount(proc), 0);
    assert_int_equal(r, 0);
    assert_int_equal(s.count, 1); /* the folder itself */
}

static int search(const struct wire_call *c, const char *path, const char *pattern, unsigned flags,
                  struct seen *s) {
    bool truncated;
    return wire_search(c, &(struct wire_query){path, pattern, flags, 500}, note_match, s,
                       &truncated, &err);
}

static void search_content(void **state) {
    make_tree(state);
    static const struct {
        const char *pattern;
        unsigned flags;
        int count;
        const char *one;
        uint64_t line; /* of the single match */
    } cases[] = {
        {"hello", 0, 3, "src/a.py", 0},
        {"hello", WIRE_SEARCH_IGNORE_CASE, 4, "top.py", 0},
        {"Hello", 0, 1, "top.py", 2},
        {"^hello$", WIRE_SEARCH_REGEX, 1, "src/deep/c.txt", 2},
        {"^HELLO$", WIRE_SEARCH_REGEX | WIRE_SEARCH_IGNORE_CASE, 1, "src/deep/c.txt", 2},
        {"x = [0-9]+", WIRE_SEARCH_REGEX, 1, "src/a.py", 1},
        {"x = [0-9]+", 0, 0, NULL, 0},
        {"os\nprint", 0, 0, NULL, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct seen s = {0};
        assert_int_equal(RUN(search(c, *state, cases[i].pattern, cases[i].flags, &s)), 0);
        assert_int_equal(s.count, cases[i].count);
        if (cases[i].one != NULL)
            assert_true(has(&s, at(state, cases[i].one)));
        if (cases[i].line != 0)
            assert_int_equal(s.lines[0], cases[i].line);
    }
    struct seen s = {0};
    assert_int_equal(RUN(search(c, at(state, "src/a.py"), "hello", 0, &s)), 0); /* one file */
    assert_string_equal(s.names[0], at(state, "src/a.py"));
    assert_string_equal(s.text, "hello = 2");
    assert_int_equal(RUN(search(c, *state, "(", WIRE_SEARCH_REGEX, &s)), -CAY_INVALID_ARGUMENT);
    assert_int_equal(RUN(search(c, at(state, "none"), "x", 0, &s)), -CAY_NOT_FOUND);
}

static void search_odd_files(void **state) {
    struct seen s = {0};
    FILE *f = fopen(at(state, "binary"), "we");
    assert_non_null(f);
    (void)fwrite("needle\n\0needle\n", 1, 15, f);
    (void)fclose(f);
    assert_int_equal(mkfifo(at(state, "fifo"), 0666), 0);
    /* one line longer than the window, the needle at its end, and a cut inside a character */
    f = fopen(at(state, "long"), "we");
    assert_non_null(f);
    (void)fputs("first\n", f);
    for (int i = 0; i < 800000; i++)
        (void)fputs("\xc3\xa4\xc3\xb6", f);
    (void)fputs("needle\nafter\n", f);
    (void)fclose(f);
    assert_int_equal(RUN(search(c, *state, "needle", 0, &s)), 0);
    assert_int_equal(s.count, 1);
    assert_string_equal(s.names[0], at(state, "long"));
    assert_int_equal(s.lines[0], 2);
    assert_true(strlen(s.text) <= 1024 && strlen(s.text) % 2 == 0);
    s.count = 0;
    assert_int_equal(RUN(search(c, *state, "after", 0, &s)), 0);
    assert_int_equal(s.lines[0], 3);
}

static void search_limit(void **state) {
    bool truncated;
    struct seen s = {0};
    put_file(at(state, "many"), "x\nx\nx\n", 0644);
    assert_int_equal(RUN(wire_search(c, &(struct wire_query){*state, "x", 0, 3}, note_match, &s,
                                     &truncated, &err)),
                     0);
    assert_false(truncated);
    s.count = 0;
    assert_int_equal(RUN(wire_search(c, &(struct wire_query){*state, "x", 0, 2}, note_match, &s,
                                     &truncated, &err)),
                     0);
    assert_true(truncated);
    assert_int_equal(s.count, 2);
}

static void search_unreadable(void **state) {
    struct seen s = {0};
    if (geteuid() != 0)
        skip();
    put_file(at(state, "open"), "x\n", 0644);
    put_file(at(state, "closed"), "x\n", 0600);
    assert_int_equal(mkdir(at(state, "private"), 0700), 0);
    assert_int_equal(RUN_AS(NOBODY, search(c, *state, "x", 0, &s)), 0);
    assert_int_equal(s.count, 1);
    assert_int_equal(RUN_AS(NOBODY, search(c, at(state, "closed"), "x", 0, &s)), -CAY_FORBIDDEN);
}

/* ---- replace ---- */

struct results {
    int count;
    uint64_t counts[8];
    enum cay_code codes[8];
};

static int note_replaced(void *arg, const struct wire_replaced *r, struct cay_error *e) {
    (void)e;
    struct results *s = arg;
    s->counts[s->count] = r->count;
    s->codes[s->count++] = r->failure != NULL ? r->failure->code : CAY_OK;
    return 0;
}

static void replace_text(void **state) {
    put_file(at(state, "a"), "one two one\none", 0751);
    put_file(at(state, "b"), "nothing here", 0644);
    const char *paths[] = {at(state, "a"), at(state, "gone"), at(state, "b"), *state};
    struct stat before, after;
    assert_int_equal(stat(paths[2], &before), 0);
    struct results s = {0};
    assert_int_equal(RUN(wire_replace(c, paths, 4, "one", "three", note_replaced, &s, &err)), 0);
    assert_int_equal(s.count, 4);
    assert_int_equal(s.counts[0], 3);
    assert_string_equal(get_file(paths[0]), "three two three\nthree");
    assert_int_equal(mode_of(paths[0]), 0751);
    assert_int_equal(s.codes[1], CAY_NOT_FOUND);
    assert_int_equal(s.codes[2], CAY_OK);
    assert_int_equal(s.counts[2], 0);
    assert_int_equal(s.codes[3], CAY_CONFLICT);
    assert_int_equal(stat(paths[2], &after), 0);
    assert_int_equal(before.st_ino, after.st_ino); /* without a match it is not rewritten */
    static const struct {
        const char *pattern, *text, *expected;
    } cases[] = {
        {"three", "", " two \n"}, {" two", "aa", "aa \n"}, {"a", "aaa", "aaaaaa \n"},
        {"aaaa", "b", "baa \n"},  {".*", "x", "baa \n"},   {"\n", "", "baa "},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(RUN(wire_replace(c, paths, 1, cases[i].pattern, cases[i].text,
                                          note_replaced, &(struct results){0}, &err)),
                         0);
        assert_string_equal(get_file(paths[0]), cases[i].expected);
    }
    assert_int_equal(RUN(wire_replace(c, paths, 1, "", "x", note_replaced, &s, &err)),
                     -CAY_INVALID_ARGUMENT);
}

static void replace_refuses_huge(void **state) {
    const char *path = at(state, "huge");
    put_file(path, "x", 0644);
    assert_int_equal(truncate(path, 64 * 1024 * 1024 + 1), 0);
    struct results s = {0};
    assert_int_equal(RUN(wire_replace(c, &path, 1, "x", "y", note_replaced, &s, &err)), 0);
    assert_int_equal(s.codes[0], CAY_RESOURCE_EXHAUSTED);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(find_names),        CASE(find_from_links),  CASE(find_stays_out_of_proc),
        CASE(search_content),    CASE(search_odd_files), CASE(search_limit),
        CASE(search_unreadable), CASE(replace_text),     CASE(replace_refuses_huge),
    };
    return cmocka_run_group_tests_name("init_search", tests, NULL, NULL);
}
