/* .dockerignore: which files of a build's context are not there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct cay_error;
struct dockerignore;

enum { DOCKERIGNORE_TEXT_MAX = 256 * 1024, DOCKERIGNORE_PATTERNS_MAX = 2000 };

/* Later patterns win; "!PATTERN" brings back. `name` is for errors. */
int dockerignore_parse(const char *name, const char *text, size_t len, struct dockerignore **ret,
                       struct cay_error *err);
/* Releases it; NULL is fine, and ignores nothing. */
void dockerignore_free(struct dockerignore *d);
void dockerignore_freep(struct dockerignore **d);

/* Whether path (relative, "a/b", without "." and "..") is ignored, itself or with a folder that it
 * lies in. */
bool dockerignore_matches(const struct dockerignore *d, const char *path);
/* True if something below an ignored folder may be there after all. */
bool dockerignore_has_exceptions(const struct dockerignore *d);
