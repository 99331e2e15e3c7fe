/* Tests of progress: what each mode writes, how often, to which width, and from several threads. */
#include <fcntl.h>
#include <pthread.h>
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <termios.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/json/json.h"
#include "base/str.h"
#include "image/progress.h"

/* All that was written to a memory file; the caller frees it. */
static char *written(int fd) {
    off_t size = lseek(fd, 0, SEEK_END);
    assert_true(size >= 0);
    char *text = calloc(1, (size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(pread(fd, text, (size_t)size, 0), size);
    return text;
}

static size_t count(const char *text, const char *part) {
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, part)) != NULL; p += strlen(part))
        n++;
    return n;
}

static int new_file(void) {
    int fd = memfd_create("progress", MFD_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

/* The same story in every mode. */
static void report_story(struct progress *p) {
    progress_note(p, "python:3.12: %s", "resolving");
    unsigned a = progress_item(p, "aaaaaaaaaaaa", 2048);
    unsigned b = progress_item(p, "bbbbbbbbbbbb", 0);
    for (uint64_t i = 0; i < 100; i++)
        progress_update(p, a, "downloading", i);
    progress_update(p, b, "exists", 0);
    progress_update(p, a, "unpacking", 1024);
    progress_update(p, a, "done", 2048);
    progress_update(p, 99, "no such item", 1);
}

static void lines(void **state) {
    (void)state;
    _cleanup_(closep) int fd = new_file();
    struct progress *p = progress_new(PROGRESS_LINES, fd);
    report_story(p);
    progress_free(p);
    _cleanup_(freep) char *text = written(fd);
    assert_string_equal(text, "python:3.12: resolving\n"
                              "aaaaaaaaaaaa: downloading (2.0 KB)\n"
                              "bbbbbbbbbbbb: exists\n"
                              "aaaaaaaaaaaa: unpacking (2.0 KB)\n"
                              "aaaaaaaaaaaa: done\n");
}

static void quiet_and_none(void **state) {
    (void)state;
    _cleanup_(closep) int fd = new_file();
    struct progress *p = progress_new(PROGRESS_QUIET, fd);
    report_story(p);
    progress_free(p);
    report_story(NULL);
    progress_free(NULL);
    assert_int_equal(lseek(fd, 0, SEEK_END), 0);
}

static void check_event(const char *line, const char *layer, const char *label, int64_t total) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct cay_error err = {0};
    if (json_parse("event", line, strlen(line), &doc, &err) < 0)
        fail_msg("%s: %s", line, err.message);
    struct json root = json_root(doc, "event");
    const char *text = NULL;
    int64_t number = -1;
    assert_int_equal(json_get_string(&root, layer, JSON_REQUIRED, &text, &err), 0);
    assert_string_equal(text, label);
    if (total < 0)
        return;
    assert_int_equal(json_get_integer(&root, "total", JSON_REQUIRED, 0, INT64_MAX, &number, &err),
                     0);
    assert_int_equal(number, total);
}

static void events(void **state) {
    (void)state;
    _cleanup_(closep) int fd = new_file();
    struct progress *p = progress_new(PROGRESS_JSON, fd);
    report_story(p);
    progress_free(p);
    _cleanup_(freep) char *text = written(fd);
    char *rest = text;
    check_event(strsep(&rest, "\n"), "note", "python:3.12: resolving", -1);
    check_event(strsep(&rest, "\n"), "layer", "aaaaaaaaaaaa", 2048);
    /* a hundred blocks are told once, or twice on a slow machine */
    size_t left = count(rest, "\n");
    assert_in_range(left, 3, 6);
    assert_non_null(strstr(rest, "{\"layer\":\"bbbbbbbbbbbb\",\"state\":\"exists\",\"done\":0,"
                                 "\"total\":0}\n"));
    assert_true(str_ends(rest, "\"state\":\"done\",\"done\":2048,\"total\":2048}\n"));
}

/* What a hostile registry could make labels and notes say. */
static void controls_are_harmless(void **state) {
    (void)state;
    static const enum progress_mode modes[] = {PROGRESS_LINES, PROGRESS_BARS, PROGRESS_JSON};
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        _cleanup_(closep) int fd = new_file();
        struct progress *p = progress_new(modes[i], fd);
        progress_note(p, "a\x1b]0;title\x07\nforged: done");
        progress_update(p, progress_item(p, "x\x1b[2J\r", 0), "y\x1b[2J", 0);
        progress_free(p);
        _cleanup_(freep) char *text = written(fd);
        assert_null(strstr(text, "\x1b]"));
        assert_null(strstr(text, "\x1b[2J"));
        assert_null(strstr(text, "\nforged"));
    }
}

/* ---- bars ---- */

struct terminal {
    int master, slave;
};

static struct terminal open_terminal(unsigned short rows, unsigned short columns) {
    struct terminal t;
    struct winsize size = {.ws_row = rows, .ws_col = columns};
    assert_int_equal(openpty(&t.master, &t.slave, NULL, NULL, &size), 0);
    struct termios raw;
    assert_int_equal(tcgetattr(t.slave, &raw), 0);
    cfmakeraw(&raw);
    assert_int_equal(tcsetattr(t.slave, TCSANOW, &raw), 0);
    assert_int_equal(fcntl(t.master, F_SETFL, O_NONBLOCK), 0);
    return t;
}

/* Appends what has come to text. */
static void take(const struct terminal *t, char *text, size_t size) {
    size_t len = strlen(text);
    ssize_t n;
    while (len + 1 < size && (n = read(t->master, text + len, size - len - 1)) > 0)
        len += (size_t)n;
    text[len] = '\0';
}

static void close_terminal(struct terminal *t) {
    (void)close(t->master);
    (void)close(t->slave);
}

static void mode_follows_terminal(void **state) {
    (void)state;
    struct terminal t = open_terminal(24, 80);
    _cleanup_(closep) int fd = new_file();
    assert_int_equal(progress_mode_for(t.slave), PROGRESS_BARS);
    assert_int_equal(progress_mode_for(fd), PROGRESS_LINES);
    close_terminal(&t);
}

static void bars_fit_the_width(void **state) {
    (void)state;
    static const unsigned short widths[] = {20, 40, 60, 80, 200};
    for (size_t i = 0; i < ARRAY_LEN(widths); i++) {
        struct terminal t = open_terminal(24, widths[i]);
        struct progress *p = progress_new(PROGRESS_BARS, t.slave);
        unsigned item = progress_item(p, "aaaaaaaaaaaa", 1000);
        progress_update(p, item, "downloading", 500);
        char text[8192] = "";
        take(&t, text, sizeof text);
        size_t len = strcspn(text, "\x1b");
        assert_in_range(len, 1, widths[i] - 1U);
        assert_int_equal(strchr(text, '[') != NULL && strstr(text, "=>") != NULL, widths[i] >= 60);
        progress_free(p);
        close_terminal(&t);
    }
}

static void bars_are_redrawn_in_place(void **state) {
    (void)state;
    static char text[65536];
    text[0] = '\0';
    struct terminal t = open_terminal(24, 80);
    struct progress *p = progress_new(PROGRESS_BARS, t.slave);
    unsigned a = progress_item(p, "aaaaaaaaaaaa", 1000), b = progress_item(p, "bbbbbbbbbbbb", 1000);
    progress_update(p, a, "downloading", 0);
    progress_update(p, b, "downloading", 0);
    for (uint64_t i = 1; i <= 1000; i++)
        progress_update(p, a, "downloading", i);
    take(&t, text, sizeof text);
    /* two changes of state and, on a slow machine, a few more; not a thousand */
    assert_in_range(count(text, "\x1b[J"), 2, 20);
    assert_int_equal(count(text, "\x1b[2A\r"), count(text, "\x1b[J") - 1);
    progress_note(p, "hello");
    text[0] = '\0';
    take(&t, text, sizeof text);
    assert_true(str_starts(text, "\x1b[2A\rhello\x1b[K\n"));
    progress_update(p, a, "done", 1000);
    progress_update(p, b, "done", 1000);
    text[0] = '\0';
    progress_free(p);
    take(&t, text, sizeof text);
    assert_true(str_ends(text, "bbbbbbbbbbbb done        \x1b[K\n\x1b[J"));
    close_terminal(&t);
}

static void more_bars_than_rows(void **state) {
    (void)state;
    static char text[65536];
    text[0] = '\0';
    struct terminal t = open_terminal(5, 80);
    struct progress *p = progress_new(PROGRESS_BARS, t.slave);
    for (unsigned i = 0; i < 30; i++) {
        char label[16];
        assert_int_equal(str_format(label, sizeof label, "layer%02u", i), 0);
        unsigned item = progress_item(p, label, 100);
        progress_update(p, item, i < 28 ? "done" : "downloading", 10);
        text[0] = '\0';
        take(&t, text, sizeof text);
    }
    assert_int_equal(count(text, "\n"), 2); /* those that still move */
    assert_non_null(strstr(text, "layer29"));
    assert_null(strstr(text, "layer03"));
    progress_free(p);
    close_terminal(&t);
}

/* ---- threads ---- */

static void *work(void *arg) {
    struct progress *p = arg;
    for (int i = 0; i < 20; i++) {
        unsigned item = progress_item(p, "cccccccccccc", 100);
        for (uint64_t n = 0; n < 100; n++)
            progress_update(p, item, "downloading", n);
        progress_update(p, item, "done", 100);
    }
    return NULL;
}

static void threads(void **state) {
    (void)state;
    pthread_t all[4];
    _cleanup_(closep) int fd = new_file();
    struct progress *p = progress_new(PROGRESS_LINES, fd);
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        assert_int_equal(pthread_create(&all[i], NULL, work, p), 0);
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        assert_int_equal(pthread_join(all[i], NULL), 0);
    progress_free(p);
    _cleanup_(freep) char *text = written(fd);
    assert_int_equal(count(text, "cccccccccccc: downloading (100 B)\n"), 80);
    assert_int_equal(count(text, "cccccccccccc: done\n"), 80);
    assert_int_equal(count(text, "\n"), 160);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines),
        cmocka_unit_test(quiet_and_none),
        cmocka_unit_test(events),
        cmocka_unit_test(controls_are_harmless),
        cmocka_unit_test(mode_follows_terminal),
        cmocka_unit_test(bars_fit_the_width),
        cmocka_unit_test(bars_are_redrawn_in_place),
        cmocka_unit_test(more_bars_than_rows),
        cmocka_unit_test(threads),
    };
    return cmocka_run_group_tests_name("progress", tests, NULL, NULL);
}
