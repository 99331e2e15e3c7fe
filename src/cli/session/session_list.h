/* Lists of what is kept in a sandbox (sessions' commands, contexts, terminals): columns for people,
 * or a JSON array. */
#pragma once

#include "base/buf.h"
#include "base/json/jsonw.h"
#include "base/str.h"
#include "cli/session/session.h"

/* A list that grows row by row; session_list_end releases it. */
struct session_list {
    bool json;
    size_t columns;
    struct buf text;
    struct jsonw w;    /* one object for each row goes here if `json`, */
    struct strv cells; /* and `columns` cells here otherwise */
};

/* Begins a list of v's verb with a row of heads. 0 or a failure in v->err. */
int session_list_begin(struct session_list *l, struct session_verb *v, const char *const *heads,
                       size_t columns);

/* Prints the list if r is 0, the failure of v else. The exit code. */
int session_list_end(struct session_list *l, const struct session_verb *v, int r);
