#include "client/table.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"

static int refuse(struct cay_error *err) {
    error_set(err, CAY_UNAVAILABLE, "the daemon answered with a broken table");
    return error_remedy(err, "update cay and its daemon to one version");
}

static size_t count(const char *text, size_t len, char c) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += text[i] == c;
    return n;
}

/* Splits a line at its tabs into exactly `columns` fields. */
static int split_line(char *line, const char **field, size_t columns) {
    for (size_t i = 0; i < columns; i++) {
        char *end = line + strcspn(line, "\t");
        if ((*end == '\t') != (i + 1 < columns))
            return -EPROTO;
        *end = '\0';
        field[i] = line;
        line = end + 1;
    }
    return 0;
}

static int split(struct table *t, size_t lines) {
    char *line = t->text;
    for (size_t i = 0; i < lines; i++) {
        char *end = strchr(line, '\n');
        *end = '\0'; /* they were counted */
        if (split_line(line, t->field + i * t->columns, t->columns) < 0)
            return -EPROTO;
        line = end + 1;
    }
    return *line == '\0' ? 0 : -EPROTO; /* each line ends with a newline */
}

int table_parse(const char *text, struct table *ret, struct cay_error *err) {
    size_t lines = count(text, strlen(text), '\n');
    *ret = (struct table){.columns = count(text, strcspn(text, "\n"), '\t') + 1};
    if (lines == 0)
        return refuse(err);
    ret->rows = lines - 1;
    ret->text = strdup(text);
    /* A row has at least columns - 1 tabs, or the table is broken: the product is bounded. */
    size_t tabs = count(text, strlen(text), '\t');
    int r = tabs == lines * (ret->columns - 1) ? 0 : -EPROTO;
    ret->field = r == 0 ? calloc(lines * ret->columns, sizeof *ret->field) : NULL;
    if (r == 0)
        r = ret->text == NULL || ret->field == NULL ? -ENOMEM : split(ret, lines);
    if (r == 0)
        return 0;
    table_free(ret);
    return r == -ENOMEM ? error_sys(err, ENOMEM, "reading a table") : refuse(err);
}

void table_free(struct table *t) {
    free(t->field);
    free(t->text);
    *t = (struct table){0};
}

const char *table_get(const struct table *t, size_t row, const char *name) {
    for (size_t i = 0; i < t->columns && row < t->rows; i++)
        if (strcmp(t->field[i], name) == 0)
            return t->field[(row + 1) * t->columns + i];
    return "";
}

uint64_t table_number(const struct table *t, size_t row, const char *name) {
    uint64_t n;
    return str_to_u64(table_get(t, row, name), UINT64_MAX, &n) == 0 ? n : 0;
}

/* The character that the text behind a backslash stands for, and how long that text is; 0 if it
 * stands for none. */
static size_t decode(const char *text, char *ret) {
    static const char from[] = "tnr\\", to[] = "\t\n\r\\";
    const char *simple = *text != '\0' ? strchr(from, *text) : NULL;
    if (simple != NULL) {
        *ret = to[simple - from];
        return 1;
    }
    int high = *text == 'x' ? str_hex_digit(text[1]) : -1;
    int low = high < 0 ? -1 : str_hex_digit(text[2]);
    if (low < 0 || (high == 0 && low == 0))
        return 0;
    *ret = (char)(high << 4 | low);
    return 3;
}

void table_unescape(char *text) {
    char *out = text;
    while (*text != '\0') {
        size_t len = *text == '\\' ? decode(text + 1, out) : 0;
        if (len == 0)
            *out = *text;
        out++;
        text += len + 1;
    }
    *out = '\0';
}
