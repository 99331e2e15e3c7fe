/* What `cay-image ensure` and `cay-docker ensure` say to the program that started them. */
#pragma once

#include "image/reference.h"

struct buf;
struct cay_error;

/* The id of the image, or three lines: the error's name, its message, its remedy. text is changed.
 */
int image_answer(char *text, char id[static HEX_SIZE], struct cay_error *err);
/* Appends those three lines. */
void image_answer_error(struct buf *out, struct cay_error *err);
