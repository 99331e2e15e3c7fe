/* Archives into and out of a sandbox, for those who make or take them piece by piece.
 * client_files.h says what all operations have in common. */
#pragma once

#include "wire/client_files.h"

/* Makes an archive, handing each piece to take(). 0 or negative. */
typedef int wire_produce_fn(void *arg, wire_sink_fn *take, void *take_arg, struct cay_error *err);

/* As wire_tar_in, the archive being produced while it is sent. */
int wire_tar_in_from(const struct wire_call *c, const char *path, bool make,
                     wire_produce_fn *produce, void *arg, struct wire_tar_totals *ret,
                     struct cay_error *err);

/* An archive on its way out. */
struct wire_tar_stream {
    const struct wire_call *call;
    struct wire_reader reader;
    uint64_t size;
    bool ended;
    struct wire_tar_totals totals; /* at the end */
};

/* Asks for an archive of path, as wire_tar_out does. */
int wire_tar_out_begin(const struct wire_call *c, const char *path, struct wire_tar_stream *ret,
                       struct cay_error *err);
/* The next piece, valid until the next call: 1, 0 at the end, negative. */
int wire_tar_out_next(struct wire_tar_stream *s, const char **ret_data, size_t *ret_len,
                      struct cay_error *err);
void wire_tar_out_end(struct wire_tar_stream *s);
