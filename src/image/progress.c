#include "image/progress.h"

#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json/jsonw.h"
#include "base/str.h"

enum {
    PERIOD_MS = 100,
    ITEMS_MAX = 1024,
    SCREEN_MAX = 256 * 1024, /* bytes of one drawing */
    COLUMNS = 80,
    COLUMNS_MAX = 400,
    ROWS = 24,
    LABEL_WIDTH = 12,
    STATE_WIDTH = 12,
    BAR_MIN = 10,
    BAR_MAX = 40,
};

struct item {
    char label[64];
    char state[32];
    uint64_t done, total;
    int64_t reported_ms; /* when it was shown last, of its own (JSON) */
};

struct progress {
    enum progress_mode mode;
    int fd;
    pthread_mutex_t lock;
    struct item *items;
    unsigned count;
    size_t drawn; /* lines of bars that stand above the cursor */
    int64_t drawn_ms;
};

enum progress_mode progress_mode_for(int fd) {
    return isatty(fd) ? PROGRESS_BARS : PROGRESS_LINES;
}

struct progress *progress_new(enum progress_mode mode, int fd) {
    struct progress *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    p->mode = mode;
    p->fd = fd;
    (void)pthread_mutex_init(&p->lock, NULL); /* cannot fail with these attributes */
    return p;
}

/* Whoever reads may be gone; that is no reason to stop the work. */
static void put(const struct progress *p, const struct buf *b) {
    if (!b->failed)
        (void)fd_write_all(p->fd, buf_text(b), b->len);
}

static bool is_over(const struct item *item) {
    return str_equal(item->state, "done") || str_equal(item->state, "exists");
}

/* ---- bars ---- */

struct screen {
    size_t columns, rows;
};

static struct screen measure(int fd) {
    struct winsize size;
    if (ioctl(fd, TIOCGWINSZ, &size) < 0 || size.ws_col == 0 || size.ws_row == 0)
        return (struct screen){COLUMNS, ROWS};
    return (struct screen){MIN(size.ws_col, (size_t)COLUMNS_MAX), size.ws_row};
}

/* "[=====>    ]" of this many columns. */
static void put_bar(struct buf *b, const struct item *item, size_t width) {
    size_t inner = width - 2;
    uint64_t done = MIN(item->done, item->total);
    size_t full = (size_t)((double)done / (double)item->total * (double)inner);
    (void)buf_putc(b, '[');
    for (size_t i = 0; i < inner; i++)
        (void)buf_putc(b, i < full ? '=' : i == full ? '>' : ' ');
    (void)buf_putc(b, ']');
}

/* Cuts the line that begins at `start` to what the terminal has, so that none ever wraps. */
static void cut(struct buf *b, size_t start, size_t columns) {
    size_t width = 0, at = start;
    while (at < b->len && width + 1 < columns) {
        size_t len = str_utf8_length(b->data + at, b->len - at);
        at += MAX(len, (size_t)1);
        width++;
    }
    b->len = at;
}

static void put_item(struct buf *b, const struct item *item, size_t columns) {
    char done[32], total[32], amount[80] = "";
    size_t start = b->len;
    (void)buf_printf(b, "%-*s %-*s", LABEL_WIDTH, item->label, STATE_WIDTH, item->state);
    bool moving = !is_over(item) && item->total > 0;
    if (moving)
        (void)snprintf(amount, sizeof amount, " %s / %s", str_bytes(item->done, done),
                       str_bytes(item->total, total));
    else if (!is_over(item) && item->done > 0)
        (void)snprintf(amount, sizeof amount, " %s", str_bytes(item->done, done));
    size_t used = b->len - start + strlen(amount) + 2;
    if (moving && used + BAR_MIN <= columns) {
        (void)buf_putc(b, ' ');
        put_bar(b, item, MIN(columns - used, (size_t)BAR_MAX));
    }
    (void)buf_puts(b, amount);
    if (!b->failed)
        cut(b, start, columns);
    (void)buf_puts(b, "\x1b[K\n");
}

/* Goes back over the bars that stand there. */
static void put_return(const struct progress *p, struct buf *b) {
    if (p->drawn > 0)
        (void)buf_printf(b, "\x1b[%zuA\r", p->drawn);
}

/* All items, or where they are too many for the screen those that still move. */
static void put_items(struct progress *p, struct buf *b) {
    struct screen screen = measure(p->fd);
    size_t room = MAX(screen.rows, (size_t)2) - 1;
    bool all = p->count <= room;
    p->drawn = 0;
    for (unsigned i = 0; i < p->count && p->drawn < room; i++) {
        if (!all && is_over(&p->items[i]))
            continue;
        put_item(b, &p->items[i], screen.columns);
        p->drawn++;
    }
    (void)buf_puts(b, "\x1b[J");
    p->drawn_ms = clock_ms();
}

/* In one write, so that nobody sees a half-drawn screen. */
static void draw(struct progress *p, const char *note) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(SCREEN_MAX);
    put_return(p, &b);
    if (note != NULL)
        (void)buf_printf(&b, "%s\x1b[K\n", note);
    put_items(p, &b);
    put(p, &b);
}

/* ---- lines and events ---- */

static void report_line(const struct progress *p, const struct item *item) {
    char total[32];
    _cleanup_(buf_free) struct buf b = BUF_INIT(1024);
    (void)buf_printf(&b, "%s: %s", item->label, item->state);
    if (item->total > 0 && !is_over(item))
        (void)buf_printf(&b, " (%s)", str_bytes(item->total, total));
    (void)buf_putc(&b, '\n');
    put(p, &b);
}

static void report_event(const struct progress *p, struct item *item) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(1024);
    struct jsonw w = JSONW_INIT(&b);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "layer", item->label);
    jsonw_put_string(&w, "state", item->state);
    jsonw_put_unsigned(&w, "done", item->done);
    jsonw_put_unsigned(&w, "total", item->total);
    jsonw_end_object(&w);
    (void)buf_putc(&b, '\n');
    item->reported_ms = clock_ms();
    put(p, &b);
}

static void report(struct progress *p, struct item *item, bool changed) {
    switch (p->mode) {
    case PROGRESS_QUIET:
        break;
    case PROGRESS_LINES:
        if (changed)
            report_line(p, item);
        break;
    case PROGRESS_BARS:
        if (changed || clock_ms() - p->drawn_ms >= PERIOD_MS)
            draw(p, NULL);
        break;
    case PROGRESS_JSON:
        if (changed || clock_ms() - item->reported_ms >= PERIOD_MS)
            report_event(p, item);
        break;
    }
}

/* ---- what others call ---- */

void progress_free(struct progress *p) {
    if (p == NULL)
        return;
    if (p->mode == PROGRESS_BARS && p->count > 0)
        draw(p, NULL); /* the last word on each */
    (void)pthread_mutex_destroy(&p->lock);
    free(p->items);
    free(p);
}

void progress_freep(struct progress **p) {
    progress_free(*p);
}

static unsigned add_item(struct progress *p, const char *label, uint64_t total) {
    if (p->count >= ITEMS_MAX)
        return UINT_MAX;
    struct item *more = realloc(p->items, (p->count + 1) * sizeof *more);
    if (more == NULL)
        return UINT_MAX;
    p->items = more;
    struct item *item = &p->items[p->count];
    *item = (struct item){.total = total};
    (void)str_escape(item->label, sizeof item->label, label);
    return p->count++;
}

unsigned progress_item(struct progress *p, const char *label, uint64_t total) {
    if (p == NULL)
        return UINT_MAX;
    (void)pthread_mutex_lock(&p->lock);
    unsigned item = add_item(p, label, total);
    (void)pthread_mutex_unlock(&p->lock);
    return item;
}

void progress_update(struct progress *p, unsigned number, const char *state, uint64_t done) {
    if (p == NULL || p->mode == PROGRESS_QUIET)
        return;
    (void)pthread_mutex_lock(&p->lock);
    if (number < p->count) {
        struct item *item = &p->items[number];
        bool changed = !str_equal(item->state, state);
        item->done = done;
        if (changed)
            (void)str_escape(item->state, sizeof item->state, state);
        report(p, item, changed);
    }
    (void)pthread_mutex_unlock(&p->lock);
}

static void report_note(struct progress *p, const char *text) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(8192);
    if (p->mode == PROGRESS_BARS) {
        draw(p, text);
        return;
    }
    if (p->mode == PROGRESS_JSON) {
        struct jsonw w = JSONW_INIT(&b);
        jsonw_begin_object(&w);
        jsonw_put_string(&w, "note", text);
        jsonw_end_object(&w);
    } else {
        (void)buf_puts(&b, text);
    }
    (void)buf_putc(&b, '\n');
    put(p, &b);
}

void progress_note(struct progress *p, const char *fmt, ...) {
    if (p == NULL || p->mode == PROGRESS_QUIET)
        return;
    char text[1024], shown[1024];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)pthread_mutex_lock(&p->lock);
    report_note(p, str_escape(shown, sizeof shown, text));
    (void)pthread_mutex_unlock(&p->lock);
}
