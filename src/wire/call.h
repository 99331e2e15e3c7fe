/* The host's side of one operation: a connection, what every request carries, and a deadline. The
 * other end is hostile: whatever does not fit the protocol is an error, and nothing is waited for
 * beyond the deadline. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wire/wire.h"

struct cay_error;

struct wire_call {
    int fd;                      /* connected and blocking; the caller closes it */
    const char *user;            /* "name", "uid" or "uid:gid"; NULL: root of the sandbox */
    const char *cwd;             /* where relative paths begin; NULL: the user's home */
    int64_t deadline_ms;         /* as of clock_deadline(); 0: none */
    enum wire_session_kind kind; /* whose names those of sessions are */
};

/* Starts a request in b: version, operation, user, folder. */
void wire_call_begin(const struct wire_call *c, enum wire_op op, struct buf *b);

/* Sends one frame. If the other end hung up and left an error, that is the error returned. */
int wire_call_send(const struct wire_call *c, enum wire_type type, const struct buf *b,
                   struct cay_error *err);
/* The same with a descriptor along; 0: none. */
int wire_call_send_with(const struct wire_call *c, enum wire_type type, const struct buf *b,
                        int passed, struct cay_error *err);
int wire_call_send_data(const struct wire_call *c, const void *data, size_t len,
                        struct cay_error *err);

/* Waits for the next frame. A WIRE_ERROR becomes err; the end of the stream is an error too. */
int wire_call_receive(const struct wire_call *c, struct wire_reader *r, struct wire_frame *f,
                      struct cay_error *err);

/* The same without reading a byte behind the frame, for a connection that then becomes a stream. */
int wire_call_receive_exactly(const struct wire_call *c, struct wire_reader *r,
                              struct wire_frame *f, struct cay_error *err);

/* Parses the fields of a frame, at most max bytes of them. */
int wire_call_parse(const struct wire_frame *f, size_t max, struct wire_message *m,
                    struct cay_error *err);

/* What a WIRE_ERROR says; one that says nothing is broken. */
int wire_call_error(const struct wire_message *m, struct cay_error *err);

enum { WIRE_NAME_MAX = 64 };

/* Whether a session or a terminal may be called so; other names come from a sandbox that lies. */
bool wire_call_is_name(const char *name);

/* "the sandbox answered against the protocol: what" */
int wire_call_broken(struct cay_error *err, const char *what);
