#include "base/log.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

enum { FIELDS = 4, LINE = 1024 };

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static _Atomic(enum log_level) max_level = LOG_LEVEL_WARN;
/* Small: more than a few words of these and a static program needs a system call to start. */
static _Thread_local struct log_field fields[FIELDS];

static _Atomic(bool) is_json;

void log_set_json(bool on) {
    is_json = on;
}

bool log_is_json(void) {
    return is_json;
}

void log_set_level(enum log_level level) {
    max_level = level;
}

bool log_enabled(enum log_level level) {
    return level <= max_level;
}

bool log_level_from_name(const char *name, enum log_level *ret) {
    for (size_t i = 0; i < ARRAY_LEN(level_names); i++) {
        if (!str_equal(level_names[i], name))
            continue;
        *ret = (enum log_level)i;
        return true;
    }
    return false;
}

void log_set_field(const char *key, const char *value) {
    size_t slot = FIELDS;
    for (size_t i = FIELDS; i-- > 0;)
        if (fields[i].key == NULL || strcmp(fields[i].key, key) == 0)
            slot = i;
    for (size_t i = 0; i < FIELDS; i++)
        if (fields[i].key != NULL && strcmp(fields[i].key, key) == 0)
            slot = i;
    if (slot == FIELDS)
        return;
    fields[slot] = (struct log_field){value == NULL ? NULL : key, value};
}

void log_clear_fields(void) {
    for (size_t i = 0; i < FIELDS; i++)
        fields[i].key = NULL;
}

/* Appends `,"key":"value"`. What does not fit is cut off, and the object can still be closed. The
 * value is printable UTF-8 by now, so that only these two have to be escaped. */
static size_t put_member(char *out, size_t size, size_t at, const char *key, const char *value) {
    size_t head = strlen(key) + 6;
    if (at + head + 3 > size)
        return at;
    at += (size_t)snprintf(out + at, size - at, "%s\"%s\":\"", at == 1 ? "" : ",", key);
    size_t left = strlen(value), n;
    for (const char *p = value; left > 0 && at + 9 < size; p += n, left -= n) {
        n = MAX(str_utf8_length(p, left), (size_t)1);
        if (*p == '"' || *p == '\\')
            out[at++] = '\\';
        memcpy(out + at, p, n);
        at += n;
    }
    out[at++] = '"';
    out[at] = '\0';
    return at;
}

/* Appends ` key=value`, quoted when it holds a space, a quote or an equals sign. */
static size_t put_field(char *out, size_t size, size_t at, const char *key, const char *value) {
    char escaped[LINE / 2];
    (void)str_escape(escaped, sizeof escaped, value);
    if (is_json)
        return put_member(out, size, at, key, escaped);
    bool quote = escaped[0] == '\0' || strpbrk(escaped, " \"=") != NULL;
    int n = snprintf(out + at, size - at, quote ? " %s=\"" : " %s=", key);
    at = MIN(at + (size_t)MAX(n, 0), size - 1);
    for (const char *p = escaped; *p != '\0' && at + 3 < size; p++) {
        if (quote && (*p == '"' || *p == '\\')) /* a value cannot end its own quotes */
            out[at++] = '\\';
        out[at++] = *p;
    }
    if (quote && at + 1 < size)
        out[at++] = '"';
    out[at] = '\0';
    return at;
}

static size_t put_head(char *out, size_t size, enum log_level level, const char *event) {
    char when[32];
    const char *now = clock_iso8601(clock_wall_ms(), when);
    int n = is_json ? snprintf(out, size, "{") : snprintf(out, size, "time=%s", now);
    size_t at = MIN((size_t)MAX(n, 0), size - 1);
    if (is_json)
        at = put_field(out, size, at, "time", now);
    at = put_field(out, size, at, "level", level_names[level]);
    at = put_field(out, size, at, "event", event);
    for (size_t i = 0; i < FIELDS; i++)
        if (fields[i].key != NULL)
            at = put_field(out, size, at, fields[i].key, fields[i].value);
    return at;
}

/* put_member() leaves room for it. */
static size_t put_end(char *out, size_t size, size_t at) {
    if (!is_json || at + 1 >= size)
        return at;
    out[at++] = '}';
    out[at] = '\0';
    return at;
}

int log_format(char *out, unsigned long size, enum log_level level, const char *event,
               const char *key, const char *value) {
    size_t at = put_head(out, size, level, event);
    if (key != NULL)
        at = put_field(out, size, at, key, value);
    return (int)put_end(out, size, at);
}

/* line has room for one more byte. */
static void write_line(char *line, size_t len) {
    line[len] = '\n';
    (void)fd_write_all(STDERR_FILENO, line, len + 1); /* nowhere else to report it */
}

void log_line(enum log_level level, const char *event, const struct log_field *more, size_t count) {
    if (!log_enabled(level))
        return;
    char line[LINE];
    size_t at = put_head(line, sizeof line - 1, level, event);
    for (size_t i = 0; i < count; i++)
        at = put_field(line, sizeof line - 1, at, more[i].key, more[i].value);
    write_line(line, put_end(line, sizeof line - 1, at));
}

void log_event(enum log_level level, const char *event, const char *key, const char *fmt, ...) {
    if (!log_enabled(level))
        return;
    char value[LINE / 2] = "";
    if (key != NULL) {
        va_list ap;
        va_start(ap, fmt);
        (void)vsnprintf(value, sizeof value, fmt, ap);
        va_end(ap);
    }
    char line[LINE];
    write_line(line, (size_t)log_format(line, sizeof line - 1, level, event, key, value));
}
