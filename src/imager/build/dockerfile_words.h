/* The words of a Dockerfile: splitting with quotes, and expansion of variables as Docker does it,
 * which is less than a shell: $NAME, ${NAME}, and ${NAME:-word}, :+ and :? with and without colon.
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

struct cay_error;

enum { WORD_MAX = 256 * 1024, WORD_DEPTH_MAX = 16 };

/* Cuts text at blanks that are neither quoted nor escaped; quotes stay. -E2BIG beyond max words. */
int words_split(const char *text, char escape, size_t max, struct strv *ret);
/* Cuts text at every blank. */
int words_split_blanks(const char *text, size_t max, struct strv *ret);

/* The value of a variable, NULL if it is unset. */
typedef const char *(*word_lookup)(void *user, const char *name);

struct word_scope {
    word_lookup lookup;
    void *user;
    char escape;
};

/* Appends text with variables put in and quotes removed. */
int word_expand(const struct word_scope *scope, const char *text, struct buf *out,
                struct cay_error *err);
/* As word_expand, as a string of its own: NULL with err filled. */
char *word_expanded(const struct word_scope *scope, const char *text, struct cay_error *err);
/* As word_expand for the content of a heredoc, where quotes mean nothing. */
char *word_expanded_heredoc(const struct word_scope *scope, const char *text,
                            struct cay_error *err);
