/* The names that a copy deals with; pure. */
#pragma once

#include <limits.h>
#include <stdbool.h>

struct cay_error;

/* A path as a user gave it. */
struct copy_path {
    char folder[PATH_MAX]; /* "." if it has none */
    char name[NAME_MAX + 1];
    bool content;   /* it ends in ".", ".." or is "/": there is no name, only what is in it */
    bool is_folder; /* it ends in a slash, or is as above */
};

/* -CAY_INVALID_ARGUMENT if it is too long. "" is ".". */
int copy_path_parse(const char *path, struct copy_path *ret, struct cay_error *err);
