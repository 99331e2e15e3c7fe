/* All of an output in a file of the sandbox, for output that is more than is told. The file is made
 * in /tmp with the rights of the command's user, and is his to remove. It takes SPILL_MAX bytes,
 * and never more than half of the room that there was: the next command needs some too. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct user;

#define SPILL_MAX (UINT64_C(1) << 30)
enum { SPILL_PATH_SIZE = 64 };

struct spill {
    int fd;                     /* -1: none, or nothing more goes into it */
    char path[SPILL_PATH_SIZE]; /* "": there is no file */
    uint64_t size, room;
};
#define SPILL_INIT ((struct spill){.fd = -1})

/* Makes the file. That there is no room for one shows in its path. */
void spill_open(struct spill *s, const struct user *u);
/* Appends. False from the moment on when not all of it is in the file. */
bool spill_write(struct spill *s, const char *data, size_t len);
/* Appends all of a file. */
void spill_copy(struct spill *s, int from);
void spill_close(struct spill *s);
/* Removes the file: it was not needed. */
void spill_drop(struct spill *s, const struct user *u);
