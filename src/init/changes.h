/* What files a command made or changed below a folder: a look before, a look after. Both with the
 * rights of the command's user, and both bounded, since the tree is the sandbox's own. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct op_conn;
struct seen;

struct changes {
    char folder[PATH_MAX]; /* "": nothing is watched */
    struct seen *list;     /* sorted by name once all are there */
    size_t count, room;
    bool truncated; /* there were more files than are looked at, or more changes than are told */
};

/* Remembers what is there now. A folder that is missing is empty; what fails shows no files. */
void changes_remember(const struct op_conn *c, const char *folder, struct changes *ret);

/* Sends an entry for each file that is new or not as it was, with its name below the folder. */
void changes_send(const struct op_conn *c, struct changes *before);

void changes_free(struct changes *c);
