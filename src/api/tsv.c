#include "api/tsv.h"

#include <inttypes.h>
#include <string.h>

#include "base/str.h"

static void put_escaped(struct buf *out, const char *text, char separator) {
    size_t left = strlen(text), len;
    for (; left > 0; text += len, left -= len) {
        len = str_printable_length(text, left);
        if (*text == '\\')
            (void)buf_puts(out, "\\\\");
        else if (len > 0 && (separator == '\0' || *text != separator))
            (void)buf_append(out, text, len);
        else if (*text == '\t' || *text == '\n')
            (void)buf_puts(out, *text == '\t' ? "\\t" : "\\n");
        else
            (void)buf_printf(out, "\\x%02x", (unsigned)(unsigned char)*text);
        len = MAX(len, (size_t)1);
    }
}

static void begin_field(struct tsv *t) {
    if (t->filled)
        (void)buf_putc(t->out, '\t');
    t->filled = true;
}

void tsv_field(struct tsv *t, const char *text) {
    begin_field(t);
    put_escaped(t->out, text, '\0');
}

void tsv_number(struct tsv *t, int64_t value) {
    begin_field(t);
    (void)buf_printf(t->out, "%" PRId64, value);
}

void tsv_unsigned(struct tsv *t, uint64_t value) {
    begin_field(t);
    (void)buf_printf(t->out, "%" PRIu64, value);
}

void tsv_list(struct tsv *t, const char *const *entries, size_t count) {
    begin_field(t);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            (void)buf_putc(t->out, ',');
        put_escaped(t->out, entries[i], ',');
    }
}

void tsv_end_line(struct tsv *t) {
    (void)buf_putc(t->out, '\n');
    t->filled = false;
}
