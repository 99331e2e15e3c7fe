/* A reader for TOML 1.0. The text may come from anybody: its size, nesting and number of values are
 * bounded, and it must be UTF-8. Every value remembers where it stands, so that whoever checks its
 * meaning can point at it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cay_error;

enum {
    TOML_SIZE_MAX = 1024 * 1024, /* bytes of text */
    TOML_DEPTH_MAX = 64,         /* tables and arrays inside each other */
    TOML_VALUES_MAX = 10000,     /* keys, elements and tables; key lookup is linear */
};

enum toml_type {
    TOML_STRING,
    TOML_INTEGER,
    TOML_FLOAT,
    TOML_BOOL,
    TOML_DATETIME, /* with an offset */
    TOML_LOCAL_DATETIME,
    TOML_LOCAL_DATE,
    TOML_LOCAL_TIME,
    TOML_ARRAY,
    TOML_TABLE,
};

/* How a table or an array came to be, which decides who may still add to it. */
enum toml_origin {
    TOML_BY_VALUE,    /* key = value: closed */
    TOML_BY_SUBTABLE, /* [a.b] made a; a header or dotted keys may still define it */
    TOML_BY_HEADER,   /* [a] or an element of [[a]] */
    TOML_BY_DOTS,     /* a.b = value made a */
    TOML_BY_ELEMENTS, /* [[a]] made the array a */
};

struct toml_value {
    enum toml_type type;
    unsigned line, column; /* of the value, from 1; columns count characters */

    const char *key; /* "" for array elements and the root; may contain NUL if the text does */
    size_t key_len;
    unsigned key_line, key_column;

    /* Strings: the content. Numbers: as written, without underscores. Date-times: as written, with
     * 'T' and 'Z'. NUL-terminated; a string may contain further NULs. NULL for the other types. */
    char *text;
    size_t text_len;
    union {
        int64_t integer;
        double number;
        bool boolean;
    };

    struct toml_value *first, *last; /* children of a table or an array, in order */
    struct toml_value *next;         /* sibling */
    size_t count;                    /* children */

    /* The reader's own. */
    enum toml_origin origin;
    unsigned depth;
    struct toml_value *allocated; /* chain of all values, for a release without recursion */
};

/* Reads a whole text into *ret (its root table), to be released with toml_free(). `name` stands in
 * front of errors: "config.toml:3:7: …". */
int toml_parse(const char *name, const char *text, size_t len, struct toml_value **ret,
               struct cay_error *err);

/* Releases the tree of a root; NULL is fine. */
void toml_free(struct toml_value *root);
void toml_freep(struct toml_value **root);

/* The child of a table with this key, or NULL. */
struct toml_value *toml_get(const struct toml_value *table, const char *key);
struct toml_value *toml_get_n(const struct toml_value *table, const char *key, size_t len);

/* "string", "integer", …, as errors name them. */
const char *toml_type_name(enum toml_type type);
