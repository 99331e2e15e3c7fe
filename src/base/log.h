/* Structured log: one line per event, key=value or an object in JSON, to standard error. Library
 * layers log nothing above debug; they return errors. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* What is shown; the default is warnings and errors. */
void log_set_level(enum log_level level);
bool log_enabled(enum log_level level);
/* By "error", "warn", "info" or "debug"; false if it is none of them. */
bool log_level_from_name(const char *name, enum log_level *ret);

/* Lines are objects in JSON from now on, or key=value again; the default is that. */
void log_set_json(bool on);
bool log_is_json(void);

/* Adds key=value to every later line of this thread ("sandbox", "request"); NULL value removes it.
 * At most four keys; both texts are borrowed until then. */
void log_set_field(const char *key, const char *value);
/* Removes them all. */
void log_clear_fields(void);

/* log_event(LOG_LEVEL_INFO, "sandbox started", "pid", "%d", pid): event text, then one more field
 * whose value is formatted; field NULL for none. Values are quoted and escaped. */
void log_event(enum log_level level, const char *event, const char *key, const char *fmt, ...)
    _printf_(4, 5);

/* The same with several fields. */
struct log_field {
    const char *key, *value;
};
void log_line(enum log_level level, const char *event, const struct log_field *fields,
              size_t count);

/* Writes the line that log_event would, for tests and other sinks. Returns its length. */
int log_format(char *out, unsigned long size, enum log_level level, const char *event,
               const char *key, const char *value);
