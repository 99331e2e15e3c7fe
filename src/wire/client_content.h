/* Files into and out of a sandbox, for those who have or take their content piece by piece.
 * client_files.h says what all operations have in common. */
#pragma once

#include "wire/client_files.h"

/* As wire_write, in steps: the content goes by wire_call_send_data(). Who hangs up before
 * wire_write_end() has written nothing. */
int wire_write_begin(const struct wire_call *c, const char *path, int mode, bool parents,
                     struct cay_error *err);
int wire_write_end(const struct wire_call *c, struct cay_error *err);

/* A file on its way out. */
struct wire_read_stream {
    const struct wire_call *call;
    struct wire_reader reader;
    uint64_t max, size; /* what may come, and what came */
    bool ended;
};

/* Asks for a file from an offset on, at most limit bytes of it (0: all). wire_read_free also after
 * a failure. */
int wire_read_begin(const struct wire_call *c, const char *path, uint64_t offset, uint64_t limit,
                    struct wire_read_stream *ret, struct cay_error *err);
/* The next piece, valid until the next call: 1, 0 at the end, negative. */
int wire_read_next(struct wire_read_stream *s, const char **ret_data, size_t *ret_len,
                   struct cay_error *err);
void wire_read_free(struct wire_read_stream *s);
