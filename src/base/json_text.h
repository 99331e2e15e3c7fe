/* JSON that others wrote, as text: for programs that pass it on and do not load the library that
 * reads it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { JSON_TEXT_DEPTH_MAX = 16 };

/* True for one object that every reader of JSON takes: well-formed, in ASCII (all else is escaped),
 * not nested deeper than JSON_TEXT_DEPTH_MAX, without numbers that do not fit a double and without
 * halves of characters. */
bool json_text_is_object(const char *text, size_t len);
