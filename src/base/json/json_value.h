/* What json_parse.c makes and json.c reads. Not for others. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/json/json.h"

/* The elements of an array lie side by side, and so do the members of an object: key, value, key,
 * value. */
struct json_value {
    uint8_t kind;     /* enum json_kind */
    bool is_unsigned; /* an integer beyond int64: it is in `natural` */
    uint32_t count;   /* elements of an array, members of an object, bytes of a string */
    union {
        bool is_true;
        int64_t integer;
        uint64_t natural;
        double number;
        const char *text; /* decoded; ends with NUL */
        const struct json_value *values;
        size_t first; /* while parsing: index of the first of `values` */
    };
};

struct json_document {
    struct json_value *values; /* the last one is the root */
    const struct json_value *root;
    char text[]; /* a copy, in which strings are decoded where they stand */
};
