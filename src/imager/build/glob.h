/* Patterns for names of files, matched in time that grows with pattern times text only, whoever
 * wrote them: * and ? match within a name, [a-z] and [^a-z] one character, \ makes the next one
 * ordinary; with GLOB_DEEP a ** spans folders. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct glob;

enum { GLOB_PATTERN_MAX = 4096 };
enum glob_kind { GLOB_NAMES, GLOB_DEEP };

/* 0, -EINVAL for a pattern that is malformed or too long, or -ENOMEM. */
int glob_compile(const char *pattern, enum glob_kind kind, struct glob **ret);
void glob_free(struct glob *g);
void glob_freep(struct glob **g);

/* True if it matches the first len bytes of text, all of them. */
bool glob_matches(const struct glob *g, const char *text, size_t len);

/* True if text holds a character that has a meaning in patterns. */
bool glob_is_pattern(const char *text);
