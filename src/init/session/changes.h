/* What files a command made or changed below a folder: a look before, a look after. Both with the
 * rights of the command's user, and both bounded, since the tree is the sandbox's own. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct op_conn;
struct seen;

/* What tells that nothing was put into a folder, or taken from it. */
struct folder_look {
    uint64_t device, inode;
    int64_t modified_ns, changed_ns;
};

struct changes {
    char folder[PATH_MAX]; /* "": nothing is watched */
    struct seen *list;     /* sorted by name once all are there */
    size_t count, room;
    bool truncated;  /* there were more files than are looked at, or more changes than are told */
    bool is_empty;   /* as of the look */
    bool is_settled; /* the look is old enough to be compared with */
    struct folder_look look;
};

/* Remembers what is there now. A folder that is missing is empty; what fails shows no files. */
void changes_remember(const struct op_conn *c, const char *folder, struct changes *ret);

/* Both make the last look quick where a command waits for its task in an empty folder: the first
 * when there is time, the second when the task has come. */
void changes_settle(const struct op_conn *c, struct changes *ch);
void changes_begin(struct changes *ch);

/* Sends an entry for each file that is new or not as it was, with its name below the folder. */
void changes_send(const struct op_conn *c, struct changes *before);

void changes_free(struct changes *c);
