/* Strings: bounded formatting and copying, and how flags and config write sizes and durations. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"

struct cay_error;

/* snprintf into a fixed array that fails instead of truncating: 0, or -ENAMETOOLONG. */
int str_format(char *dst, size_t size, const char *fmt, ...) _printf_(3, 4) _must_check_;

/* Copies text into a fixed array: 0, or -ENAMETOOLONG. */
int str_copy(char *dst, size_t size, const char *text) _must_check_;

bool str_equal(const char *a, const char *b);
bool str_starts(const char *text, const char *prefix);
bool str_ends(const char *text, const char *suffix);

/* Whole-string decimal numbers; -EINVAL on anything else, -ERANGE beyond [min, max]. */
int str_to_i64(const char *text, int64_t min, int64_t max, int64_t *ret);
int str_to_u64(const char *text, uint64_t max, uint64_t *ret);
/* A finite decimal number such as "1.5". */
int str_to_double(const char *text, double *ret);

/* What a hexadecimal digit is worth, or -1. */
int str_hex_digit(char c);

/* "512", "512k", "1.5g", "2GiB": bytes; k m g t are powers of 1024. `what` names the thing in the
 * error ("--memory"). Zero and negative sizes are refused. */
int str_to_size(const char *what, const char *text, uint64_t *ret_bytes, struct cay_error *err);

/* "300", "1.5s", "200ms", "5m", "2h", "1d": milliseconds; a bare number is seconds. Negative
 * durations are refused; zero is allowed (callers give it a meaning or refuse it). */
int str_to_duration(const char *what, const char *text, int64_t *ret_ms, struct cay_error *err);

/* "512.0 MB": for people. */
const char *str_bytes(uint64_t bytes, char out[static 32]);

/* Copies text with control characters, and bytes that are no UTF-8, as \xNN, so that it can go to
 * a terminal or a log line. Truncates to size. Returns dst. */
const char *str_escape(char *dst, size_t size, const char *text);

/* Length of the UTF-8 character at data (len > 0 bytes), or 0 if it is none. */
size_t str_utf8_length(const char *data, size_t len);

/* As str_utf8_length, and 0 too for a control character, which could drive a terminal. */
size_t str_printable_length(const char *data, size_t len);

/* True if the bytes are well-formed UTF-8 without surrogates or overlong forms. */
bool str_is_utf8(const char *data, size_t len);

/* Edit distance, capped at 32; for "did you mean". */
size_t str_distance(const char *a, const char *b);

/* The candidate nearest to text if it is near enough to be a typo, else NULL. */
const char *str_nearest(const char *text, const char *const *candidates, size_t count);

/* A growing NULL-terminated vector of owned strings. */
struct strv {
    char **v; /* NULL until the first push, then NULL-terminated */
    size_t len;
};
int strv_push(struct strv *s, const char *text);
int strv_pushf(struct strv *s, const char *fmt, ...) _printf_(2, 3);
void strv_free(struct strv *s);
bool strv_has(const struct strv *s, const char *text);
/* Takes out the first that is this text, if there is one. */
void strv_drop(struct strv *s, const char *text);
