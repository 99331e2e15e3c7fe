/* A build on the disk, so that a daemon that starts anew knows what became of it: a note of fixed
 * size, which is written over, and behind it the log, which grows. */
#pragma once

#include "api/build/builds.h"
#include "base/buf.h"

enum { BUILD_NOTE_SIZE = 4096 };

struct build_note {
    struct build_view view;
    char owner[OWNER_SIZE];
    bool is_snapshot;
};

/* As text, filled up with line ends. */
void build_note_format(const struct build_note *n, char out[static BUILD_NOTE_SIZE]);
/* False for what is none. */
bool build_note_parse(const char text[static BUILD_NOTE_SIZE], struct build_note *ret);

/* Makes a file of such a name; -1 if it cannot, without which the build goes on. */
int build_file_make(int folder, char name[static ID_SIZE]);
/* Of what cannot be written nothing is said: it is told again with the next. */
void build_file_note(int file, const struct build_note *n);
void build_file_log(int file, size_t at, const char *data, size_t len);
/* Opens one, and reads its note and its log, of which no more than log has room for: a descriptor,
 * or -1 for what is none. */
int build_file_open(int folder, const char *name, struct build_note *ret, struct buf *log);
