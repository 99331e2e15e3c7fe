/* Names that stand for others here ([images] aliases in the configuration), as a machine without
 * the Hub needs them. */
#pragma once

#include <stdbool.h>

#include "base/str.h"
#include "image/reference.h"

struct cay_error;

/* Looks text (what a user typed) up in aliases, each "NAME=NAME"; names are compared by what they
 * mean, so that "docker.io/library/python:latest" is found as "python". Returns 1 with the other
 * name in out, 0 if it is none (an id is none), or a negative code if an alias itself is wrong. An
 * alias of an alias is not followed. */
int image_alias(const struct strv *aliases, const char *text, char out[static REFERENCE_TEXT_SIZE],
                struct cay_error *err);
