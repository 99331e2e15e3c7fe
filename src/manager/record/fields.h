/* What a sandbox consists of, described once: one row for each member of struct sandbox_record. The
 * columns of the database, copies, JSON in both directions, OpenAPI, `update` and `cay info` follow
 * from it. A new attribute is a member in record.h and a row in fields.c; see HACKING.md. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "manager/record/record.h"

enum field_kind {
    FIELD_TEXT,   /* char[size] */
    FIELD_FLAG,   /* bool */
    FIELD_CHOICE, /* an enum, kept and shown by its names */
    FIELD_NUMBER, /* uint32_t, uint64_t, or int64_t if is_signed */
    FIELD_WORDS,  /* struct strv */
    FIELD_PAIRS,  /* struct strv of "K=V", an object in JSON */
    FIELD_DERIVED /* no member: the API makes it from others (api/shape/daytona_shape.c) */
};

/* What the API makes from other members. */
enum field_derived {
    DERIVED_ORGANIZATION,
    DERIVED_STATE,
    DERIVED_DESIRED_STATE,
    DERIVED_PROGRESS,
    DERIVED_STOP_REASON,
    DERIVED_ERROR_REASON,
    DERIVED_RECOVERABLE,
    DERIVED_SNAPSHOT,
    DERIVED_ARCHIVE,
    DERIVED_GPU,
    DERIVED_UNKEPT,
    DERIVED_VOLUMES,
    DERIVED_NETWORK_CLOSED,
    DERIVED_RANGES,
    DERIVED_DOMAINS,
    DERIVED_AUTO_PAUSE,
    DERIVED_BACKUP,
    DERIVED_TARGET,
    DERIVED_CLASS,
    DERIVED_VERSION,
    DERIVED_TOOLBOX,
    DERIVED_COUNT
};

/* What a number counts. A field with a Daytona name is there in Daytona's unit
 * as well. */
enum field_unit {
    UNIT_NONE,
    UNIT_BYTES, /* in requests also "512m"; Daytona: GiB, rounded up */
    UNIT_CPUS,  /* a quota of CPU_QUOTA_US each; in JSON processors; Daytona: whole ones */
    UNIT_MINUTES,
    UNIT_TIME, /* milliseconds since 1970; in JSON ISO 8601 */
};

enum { CPU_QUOTA_US = 100000 };

enum field_flags {
    FIELD_CREATE = 1,   /* a request to create may set it, */
    FIELD_UPDATE = 2,   /* and one to update */
    FIELD_SHOW = 4,     /* it is a member of a sandbox in JSON */
    FIELD_SPARSE = 8,   /* which is omitted while it is zero or empty */
    FIELD_SECRET = 16,  /* not in lists and tables */
    FIELD_DEFAULT = 32, /* a new sandbox that does not set it takes it from the
                           configuration */
    FIELD_LIMIT = 64,   /* the engine has to follow a change */
};

/* The names of an enum. */
struct field_names {
    const char *(*name)(unsigned value);
    unsigned first, end; /* what requests may use; smaller values are in the database only */
};

struct field {
    const char *column;  /* in the database; NULL: it is not kept */
    const char *json;    /* NULL: it does not leave the daemon */
    const char *daytona; /* the same in Daytona's unit; NULL: there is none */
    const char *title;   /* in `cay info`; NULL: it is not there, or in another row's line */
    enum field_kind kind;
    enum field_unit unit;
    unsigned flags;
    bool is_signed;
    size_t offset, size;
    int64_t min, max;                /* of numbers, in their unit; entries of words and pairs */
    int64_t zero;                    /* what a request to create means by 0; 0: the default */
    const struct field_names *names; /* of a choice */
    uint32_t unkept;                 /* ENGINE_UNKEPT_… if the engine may not keep this limit */
    const char *otherwise;           /* shown for an empty text */
    enum field_derived derived;      /* of FIELD_DERIVED: which, */
    const char *type;                /* and its type, as api/openapi_shapes.h has it */
};

extern const struct field sandbox_fields[];
extern const size_t sandbox_field_count;

/* ---- some of them ---- */
enum { FIELDS_MAX = 128 };
struct field_set {
    bool has[FIELDS_MAX]; /* in the order of the table */
};
/* The place in the table of a member, by its offset. */
size_t field_index(size_t offset);
#define FIELD_IN(set, member) ((set)->has[field_index(offsetof(struct sandbox_record, member))])

/* ---- values ---- */
static inline void *field_in(const struct field *f, struct sandbox_record *r) {
    return (char *)r + f->offset;
}
static inline const void *field_of(const struct field *f, const struct sandbox_record *r) {
    return (const char *)r + f->offset;
}
/* A number, choice or flag. */
int64_t field_number(const struct field *f, const struct sandbox_record *r);
/* -ERANGE if it does not fit the member. */
int field_set_number(const struct field *f, struct sandbox_record *r, int64_t value);
/* A choice by its name; -ENOENT if there is none. */
int field_set_choice(const struct field *f, struct sandbox_record *r, const char *name);
const char *field_choice(const struct field *f, const struct sandbox_record *r);
/* Zero, empty or false. */
bool field_is_zero(const struct field *f, const struct sandbox_record *r);
static inline bool field_is_list(const struct field *f) {
    return f->kind == FIELD_WORDS || f->kind == FIELD_PAIRS;
}

/* ---- several ---- */
/* Exchanges the members with these flags; lists with what they hold. */
void fields_swap(unsigned flags, struct sandbox_record *a, struct sandbox_record *b);
/* True if one of the set has one of these flags. */
bool fields_has(const struct field_set *set, unsigned flags);
/* What is zero in `to` and has the flag FIELD_DEFAULT becomes what `from` has;
 * not lists. */
void fields_take_defaults(const struct sandbox_record *from, struct sandbox_record *to);
/* Copies the members of a set that are no lists. */
void fields_put(const struct field_set *set, const struct sandbox_record *from,
                struct sandbox_record *to);
