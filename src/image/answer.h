/* What `cay-image ensure` says to the program that started it. */
#pragma once

#include "image/reference.h"

struct cay_error;

/* The id of the image, or three lines: the error's name, its message, its remedy. text is changed.
 */
int image_answer(char *text, char id[static HEX_SIZE], struct cay_error *err);
