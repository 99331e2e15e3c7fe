/* A Dockerfile as a list of instructions. Its text is hostile: size, count and nesting are bounded,
 * and every error names the line. Nothing is expanded here: which variables there are depends on
 * the stage, see dockerfile_words.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct cay_error;

enum {
    DOCKERFILE_TEXT_MAX = 1024 * 1024,
    DOCKERFILE_INSTRUCTIONS_MAX = 2000,
    DOCKERFILE_WORDS_MAX = 2000, /* of one instruction */
    DOCKERFILE_HEREDOCS_MAX = 32,
};

enum dockerfile_op {
    DOCKERFILE_ADD,
    DOCKERFILE_ARG,
    DOCKERFILE_CMD,
    DOCKERFILE_COPY,
    DOCKERFILE_ENTRYPOINT,
    DOCKERFILE_ENV,
    DOCKERFILE_EXPOSE,
    DOCKERFILE_FROM,
    DOCKERFILE_HEALTHCHECK,
    DOCKERFILE_LABEL,
    DOCKERFILE_MAINTAINER,
    DOCKERFILE_ONBUILD,
    DOCKERFILE_RUN,
    DOCKERFILE_SHELL,
    DOCKERFILE_STOPSIGNAL,
    DOCKERFILE_USER,
    DOCKERFILE_VOLUME,
    DOCKERFILE_WORKDIR,
    DOCKERFILE_OP_COUNT,
};

/* <<EOF: its text, which COPY makes a file of this name of, and RUN gives to the shell. */
struct heredoc {
    char *name;
    char *content;
    bool expand; /* the name was not quoted */
};

/* words: of the exec form its strings; of ADD, COPY, EXPOSE, FROM and VOLUME what stands between
 * blanks; of ENV and LABEL names and values in turn; of ARG "NAME" and "NAME=VALUE"; of all others
 * one, the rest of the line. */
struct instruction {
    enum dockerfile_op op;
    unsigned line;
    char *text;        /* the whole of it with continuations joined, for logs */
    bool exec;         /* written as a JSON array */
    struct strv flags; /* "from=build", without the dashes */
    struct strv words; /* unexpanded, with their quotes */
    struct heredoc *heredocs;
    size_t heredoc_count;
};

struct dockerfile {
    struct instruction *list;
    size_t count;
    char escape;  /* '\\', or '`' by directive */
    char *syntax; /* of the directive, NULL if there is none */
};

/* Parses a whole file: only ARG may stand before the first FROM. */
int dockerfile_parse(const char *text, size_t len, struct dockerfile **ret, struct cay_error *err);
/* Parses instructions that need no FROM: triggers, and the changes of `image import`. */
int dockerfile_parse_changes(const char *text, size_t len, struct dockerfile **ret,
                             struct cay_error *err);
/* Releases it; NULL is fine. */
void dockerfile_free(struct dockerfile *file);
void dockerfile_freep(struct dockerfile **file);

/* "RUN" */
const char *dockerfile_op_name(enum dockerfile_op op);
/* The value of a flag, "" for one without a value, NULL if it is not there. */
const char *instruction_flag(const struct instruction *in, const char *name);
