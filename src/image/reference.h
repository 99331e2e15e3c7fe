/* Names of images, as Docker writes them: [REGISTRY/]REPOSITORY[:TAG][@sha256:HEX]. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct cay_error;

enum {
    HEX_SIZE = 65,             /* a SHA-256 digest in lower-case hex, NUL included */
    REFERENCE_PART_SIZE = 256, /* of a registry or a repository */
    REFERENCE_TAG_SIZE = 129,
    REFERENCE_TEXT_SIZE = 768, /* of a whole one, with tag and digest */
};

/* Always normalised: "python" is {docker.io, library/python, latest}. */
struct reference {
    char registry[REFERENCE_PART_SIZE]; /* "docker.io", "localhost:5000" */
    char repository[REFERENCE_PART_SIZE];
    char tag[REFERENCE_TAG_SIZE]; /* "" if there is a digest and no tag was given */
    char digest[HEX_SIZE];        /* "" if none was given; it wins over the tag */
};

/* Parses what a user typed. The error says which rule is broken and shows a good example. */
int reference_parse(const char *text, struct reference *ret, struct cay_error *err);

/* "docker.io/library/python:3.12-slim", "…@sha256:HEX". out has REFERENCE_TEXT_SIZE bytes. */
const char *reference_format(const struct reference *ref, char *out);
/* The same as people write it: "python:3.12-slim". */
const char *reference_familiar(const struct reference *ref, char *out);

/* True for 64 lower-case hex digits. */
bool hex_is_valid(const char *text);
/* Takes "sha256:HEX"; false for any other algorithm or form. */
bool digest_parse(const char *text, char ret[static HEX_SIZE]);
/* True if text can only mean an image's id: "sha256:…", or 64 hex digits. */
bool reference_is_id(const char *text);
