/* The last word of a command: a record of its report (descriptor 3) that says with which code it
 * is about to exit. Where nothing comes after the command it is believed, so that nobody waits
 * while the kernel takes the process apart. A command can lie, but about itself only: it could as
 * well have exited with that code. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { LAST_WORD_KIND = 0, LAST_WORD_HEAD = 5 };

/* How far the records have been read. Begins with zeroes. */
struct last_word {
    unsigned char head[LAST_WORD_HEAD]; /* a kind and a length of four bytes, little endian */
    size_t head_len;
    uint32_t left; /* bytes of the record at hand */
};

/* Takes the next bytes of a report. The code, 0 to 255, if the last word is among them; else -1. */
int last_word_find(struct last_word *w, const char *data, size_t len);
