/* What `cay-image ensure` and `cay-docker ensure` say to the program that started them. */
#pragma once

#include "image/reference.h"

struct buf;
struct cay_error;

/* The id of the image, or three lines: the error's name, its message, its remedy. text is changed.
 */
int image_answer(char *text, char id[static HEX_SIZE], struct cay_error *err);
/* Appends those three lines, and a fourth one if there is something that only a log may hold ("":
 * nothing). */
void image_answer_error(struct buf *out, struct cay_error *err, const char *hidden);
/* That fourth line without control characters, before image_answer() changes the text; "" if there
 * is none. */
const char *image_answer_hidden(const char *text, char *out, size_t size);
