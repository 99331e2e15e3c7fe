/* Files of a sandbox that lies about them: whatever it says, the answer is an error or bounded, and
 * never takes for ever. */
#include "manager_env.h"

#include <signal.h>
#include <stdatomic.h>

#include "api/call.h"
#include "base/json/json.h"
#include "wire/wire.h"

/* ---- the sandbox ---- */

typedef void (*lie)(int fd, const struct wire_message *request);

static struct {
    int listener;
    _Atomic(lie) lie;
    pthread_t thread;
    atomic_int busy; /* connections */
} liar;

/* Each connection in a thread of its own, as cay-init has processes. */
static void *answer_one(void *arg) {
    int fd = (int)(intptr_t)arg;
    _cleanup_(wire_reader_free) struct wire_reader r = WIRE_READER_INIT;
    struct wire_frame f;
    struct wire_message m;
    if (wire_receive(&r, fd, &f) == 1 && wire_parse(f.data, f.len, &m) == 0)
        liar.lie(fd, &m);
    (void)close(fd);
    (void)atomic_fetch_sub(&liar.busy, 1);
    return NULL;
}

static void *serve(void *arg) {
    (void)arg;
    pthread_t thread;
    for (;;) {
        int fd = accept4(liar.listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return NULL;
        (void)atomic_fetch_add(&liar.busy, 1);
        assert_int_equal(pthread_create(&thread, NULL, answer_one, (void *)(intptr_t)fd), 0);
        (void)pthread_detach(thread);
    }
}

static void put_file(struct buf *b, const char *name, mode_t mode, uint64_t size) {
    wire_put_string(b, WIRE_TAG_PATH, name);
    wire_put_number(b, WIRE_TAG_MODE, mode);
    wire_put_number(b, WIRE_TAG_SIZE, size);
    wire_put_number(b, WIRE_TAG_MTIME_MS, INT64_MAX);
    wire_put_number(b, WIRE_TAG_UID, UINT32_MAX);
    wire_put_number(b, WIRE_TAG_GID, 0);
}

static int send_file(int fd, enum wire_type type, const char *name, mode_t mode, uint64_t size) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(WIRE_MESSAGE_MAX);
    put_file(&b, name, mode, size);
    return wire_send(fd, type, &b);
}

static void send_done(int fd, uint64_t size) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(100);
    wire_put_number(&b, WIRE_TAG_SIZE, size);
    (void)wire_send(fd, WIRE_DONE, &b);
}

/* ---- a request ---- */

/* With room behind it, where http.c has what it knows of a request. */
union request {
    struct call call;
    char room[sizeof(struct call) + 64 * 1024];
};

static union request *request;

/* The status of the answer to a request for the sandbox. */
static unsigned ask(struct world *w, const char *method, const char *path, lie what) {
    char uri[256];
    static char id[ID_SIZE];
    if (w->m == NULL) {
        open_manager(w);
        memcpy(id, make_box(w, "lab"), ID_SIZE);
        liar.listener = fake_find(&w->fake, id)->listener;
        assert_int_equal(pthread_create(&liar.thread, NULL, serve, NULL), 0);
    }
    liar.lie = what;
    request = calloc(1, sizeof *request);
    struct call *c = &request->call;
    call_init(c, w->m);
    c->caller.scopes = SCOPE_ADMIN;
    assert_int_equal(str_format(uri, sizeof uri, "/toolbox/%s%s", id, path), 0);
    assert_int_equal(target_parse(uri, &c->target, NULL), 0);
    if (call_begin(c, method) == 0)
        call_run(c);
    return c->answer.status;
}

static void done(void) {
    call_free(&request->call);
    free(request);
}

static const char *body(void) {
    return buf_text(&request->call.answer.body);
}

/* Reads an answer to its end; true if that is whole. */
static bool read_stream(uint64_t *ret_size) {
    static char data[64 * 1024];
    struct stream *s = request->call.answer.stream;
    assert_non_null(s);
    size_t n;
    for (*ret_size = 0; (n = s->read(s, data, sizeof data)) > 0;)
        *ret_size += n;
    return !s->failed;
}

static int finish(void **state) {
    struct world *w = *state;
    if (w->m != NULL) {
        (void)shutdown(liar.listener, SHUT_RDWR);
        (void)pthread_join(liar.thread, NULL);
        while (atomic_load(&liar.busy) > 0)
            sleep_ms(1);
    }
    return teardown(state);
}

/* ---- lists ---- */

static void list_honestly(int fd, const struct wire_message *m) {
    (void)m;
    (void)send_file(fd, WIRE_ENTRY, "b", S_IFDIR | 0700, 4096);
    (void)send_file(fd, WIRE_ENTRY, "a\xff", S_IFREG | 04755, INT64_MAX);
    send_done(fd, 0);
}

static void list_for_ever(int fd, const struct wire_message *m) {
    (void)m;
    while (send_file(fd, WIRE_ENTRY, "x", S_IFREG | 0644, 1) == 0)
        ;
}

/* Folders in every folder, as many as are asked for. */
static void list_folders(int fd, const struct wire_message *m) {
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    _cleanup_(buf_free) struct buf b = BUF_INIT(100);
    size_t count = MIN(ARRAY_LEN(names), m->number[WIRE_TAG_LIMIT]);
    for (size_t i = 0; i < count; i++)
        (void)send_file(fd, WIRE_ENTRY, names[i], S_IFDIR | 0755, 1);
    wire_put_number(&b, WIRE_TAG_TRUNCATED, count < ARRAY_LEN(names));
    (void)wire_send(fd, WIRE_DONE, &b);
}

static void list_long_name(int fd, const struct wire_message *m) {
    static char name[8000];
    (void)m;
    memset(name, 'x', sizeof name - 1);
    (void)send_file(fd, WIRE_ENTRY, name, S_IFREG | 0644, 1);
    send_done(fd, 0);
}

static void list_outside(int fd, const struct wire_message *m) {
    (void)m;
    (void)send_file(fd, WIRE_ENTRY, "../x", S_IFREG | 0644, 1);
    send_done(fd, 0);
}

static void hang_up(int fd, const struct wire_message *m) {
    (void)fd, (void)m;
}

static void test_list(void **state) {
    struct world *w = *state;
    _cleanup_(json_freep) struct json_document *doc = NULL;
    assert_int_equal(ask(w, "GET", "/files?path=/x/", list_honestly), 200);
    assert_int_equal(json_parse("list", body(), strlen(body()), &doc, NULL), 0);
    assert_non_null(strstr(body(), "\"path\":\"/x/a\xef\xbf\xbd\""));
    assert_non_null(strstr(body(), "\"mode\":\"urwxr-xr-x\""));
    assert_non_null(strstr(body(), "\"modTime\":\"9999-12-31 23:59:59.999 +0000 UTC\""));
    assert_non_null(strstr(body(), "\"owner\":\"4294967295\""));
    assert_true(strstr(body(), "\"name\":\"b\"") > strstr(body(), "\"name\":\"a"));
    done();
}

static void test_lying_lists(void **state) {
    static const struct {
        lie lie;
        const char *path;
        unsigned status;
    } rows[] = {
        {list_for_ever, "/files?path=/", 500}, {list_long_name, "/files?path=/", 500},
        {list_outside, "/files?path=/", 500},  {hang_up, "/files?path=/", 503},
        {hang_up, "/files/info?path=/", 503},  {list_honestly, "/files/info?path=/", 500},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        unsigned status = ask(*state, "GET", rows[i].path, rows[i].lie);
        if (status != rows[i].status)
            fail_msg("row %zu: %u %s", i, status, body());
        assert_non_null(strstr(body(), "\"source\":\"DAYTONA_DAEMON\""));
        done();
    }
}

/* A tree without an end: it is given up at so many entries. */
static void test_endless_tree(void **state) {
    unsigned status = ask(*state, "GET", "/files?path=/&depth=64", list_folders);
    if (status != 400 || strstr(body(), "50000") == NULL)
        fail_msg("%u %s", status, body());
    done();
}

/* ---- content ---- */

enum { ANNOUNCED = 200 * 1000 };

static void give(int fd, const struct wire_message *m, uint64_t bytes, uint64_t told) {
    static const char data[ANNOUNCED + 1];
    if (m->number[WIRE_TAG_OP] == WIRE_OP_STAT) {
        (void)send_file(fd, WIRE_DONE, "x", S_IFREG | 0644, ANNOUNCED);
        return;
    }
    (void)wire_send_data(fd, WIRE_STDOUT, data, bytes);
    send_done(fd, told);
}

static void give_all(int fd, const struct wire_message *m) {
    give(fd, m, ANNOUNCED, ANNOUNCED);
}

static void give_less(int fd, const struct wire_message *m) {
    give(fd, m, ANNOUNCED - 1, ANNOUNCED - 1);
}

static void give_more(int fd, const struct wire_message *m) {
    give(fd, m, ANNOUNCED + 1, ANNOUNCED + 1);
}

static void report_more(int fd, const struct wire_message *m) {
    give(fd, m, ANNOUNCED, ANNOUNCED + 1);
}

static void test_downloads(void **state) {
    static const struct {
        lie lie;
        bool whole;
    } rows[] = {{give_all, true}, {give_less, false}, {give_more, false}, {report_more, false}};
    uint64_t size;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(ask(*state, "GET", "/files/download?path=/x", rows[i].lie), 200);
        assert_int_equal(request->call.answer.stream_bytes, ANNOUNCED);
        assert_int_equal(read_stream(&size), rows[i].whole);
        assert_true(size <= ANNOUNCED);
        done();
    }
    assert_int_equal(ask(*state, "GET", "/files/download?path=/x", hang_up), 503);
    done();
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, finish)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(test_list),
        CASE(test_lying_lists),
        CASE(test_endless_tree),
        CASE(test_downloads),
    };
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
