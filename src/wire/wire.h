/* The protocol between the host and cay-init (docs/protocol.md): frames, and the typed fields that
 * requests and answers are made of. Both ends treat what they read as hostile: every length is
 * checked against a maximum before memory is used for it.
 * A frame is an 8-byte header (payload length, little-endian u32; type, u8; three zero bytes) and
 * the payload. The payload of requests and answers is a sequence of fields: tag (u16), length
 * (u32), value. Strings carry their terminating NUL and no other; numbers are 8 bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct cay_error;

enum {
    WIRE_VERSION = 1,
    WIRE_HEADER_SIZE = 8,
    WIRE_FDS_MAX = 2, /* that come with a request */
    WIRE_FIELD_HEADER_SIZE = 6,
    WIRE_DATA_MAX = 64 * 1024,          /* payload of a data frame */
    WIRE_MESSAGE_MAX = 4 * 1024 * 1024, /* payload of a request or an answer */
    WIRE_TEXT_MAX = 16 * 1024 * 1024,   /* of a command of a session, behind its request */
    WIRE_REPEATED_MAX = 262144,         /* arguments, environment entries */
    WIRE_INPUT_CREDIT = 256 * 1024,     /* EXEC: input bytes that may be under way at the start */
    WIRE_TERMINAL_CREDIT = 64 * 1024,   /* the same of each viewer of a terminal */
};

enum wire_type {
    /* host to init */
    WIRE_REQUEST = 1,    /* fields; the first frame of a connection, and only that */
    WIRE_INPUT = 2,      /* bytes: standard input, file content, tar stream */
    WIRE_INPUT_END = 3,  /* empty: no more input */
    WIRE_SIGNAL = 4,     /* fields: WIRE_TAG_SIGNAL */
    WIRE_WINDOW = 5,     /* fields: WIRE_TAG_ROWS, WIRE_TAG_COLS */
    WIRE_STDOUT_END = 6, /* empty: nobody reads standard output any more (EXEC) */
    WIRE_STDERR_END = 7, /* the same of standard error */
    WIRE_LIMITS = 8,     /* fields: limits as in the request; they count from now (EXEC) */
    /* init to host */
    WIRE_STARTED = 16, /* fields: WIRE_TAG_PID; the command was executed */
    WIRE_STDOUT = 17,  /* bytes: standard output, file content, tar stream */
    WIRE_STDERR = 18,  /* bytes: standard error */
    WIRE_ENTRY = 19,   /* fields: one file, one match; any number of them */
    WIRE_DONE = 20,    /* fields: the operation succeeded; last frame (but for WIRE_OP_DIAL) */
    WIRE_ERROR = 21,   /* fields: WIRE_TAG_CODE, _MESSAGE, _REMEDY, _ERRNO; last frame */
    WIRE_CREDIT = 22,  /* fields: WIRE_TAG_COUNT; so many more input bytes may be sent (EXEC) */
    WIRE_REPORT = 23,  /* bytes: what the command wrote to descriptor 3 (EXEC) */
};

enum wire_op {
    WIRE_OP_PING = 1,
    WIRE_OP_EXEC = 2,
    WIRE_OP_STAT = 3,
    WIRE_OP_LIST = 4,
    WIRE_OP_READ = 5,
    WIRE_OP_WRITE = 6,
    WIRE_OP_MKDIR = 7,
    WIRE_OP_MOVE = 8,
    WIRE_OP_REMOVE = 9,
    WIRE_OP_CHMOD = 10,
    WIRE_OP_CHOWN = 11,
    WIRE_OP_FIND = 12,
    WIRE_OP_SEARCH = 13,
    WIRE_OP_REPLACE = 14,
    WIRE_OP_TAR_IN = 15,
    WIRE_OP_TAR_OUT = 16,
    WIRE_OP_DIAL = 17, /* after WIRE_DONE the connection is the raw stream */
    WIRE_OP_SHUTDOWN = 18,
    WIRE_OP_SESSION_CREATE = 19,
    WIRE_OP_SESSION_LIST = 20,
    WIRE_OP_SESSION_DELETE = 21,
    WIRE_OP_SESSION_EXEC = 22,
    WIRE_OP_SESSION_STATUS = 23,
    WIRE_OP_SESSION_LOGS = 24,
    WIRE_OP_SESSION_INPUT = 25,
    WIRE_OP_TERMINAL_CREATE = 26,
    WIRE_OP_TERMINAL_LIST = 27,
    WIRE_OP_TERMINAL_ATTACH = 28,
    WIRE_OP_TERMINAL_RESIZE = 29,
    WIRE_OP_TERMINAL_KILL = 30,
    WIRE_OP_TERMINAL_DELETE = 31,
    WIRE_OP_ACTIVITY = 32, /* what goes on in sessions and terminals */
    WIRE_OP_SESSION_SIGNAL = 33,
    WIRE_OP_LISTEN = 34, /* a socket that listens in the sandbox, sent over one that comes along */
};

enum wire_kind { WIRE_KIND_STRING, WIRE_KIND_NUMBER, WIRE_KIND_STRINGS };

/* name, number, kind. A WIRE_KIND_STRINGS tag may occur many times, every other at most once. */
#define WIRE_TAG_TABLE(X)                                                                          \
    X(WIRE_TAG_VERSION, 1, WIRE_KIND_NUMBER)                                                       \
    X(WIRE_TAG_OP, 2, WIRE_KIND_NUMBER)                                                            \
    X(WIRE_TAG_USER, 3, WIRE_KIND_STRING) /* "name", "uid", "uid:gid" */                           \
    X(WIRE_TAG_ARG, 4, WIRE_KIND_STRINGS)                                                          \
    X(WIRE_TAG_ENV, 5, WIRE_KIND_STRINGS) /* "K=V" */                                              \
    X(WIRE_TAG_CWD, 6, WIRE_KIND_STRING)  /* made if missing */                                    \
    X(WIRE_TAG_TTY, 7, WIRE_KIND_NUMBER)  /* 1: a pseudo-terminal */                               \
    X(WIRE_TAG_ROWS, 8, WIRE_KIND_NUMBER)                                                          \
    X(WIRE_TAG_COLS, 9, WIRE_KIND_NUMBER)                                                          \
    X(WIRE_TAG_STDIN, 10, WIRE_KIND_NUMBER)      /* 1: input frames follow; 0: empty */            \
    X(WIRE_TAG_TIMEOUT_MS, 11, WIRE_KIND_NUMBER) /* 0: none */                                     \
    X(WIRE_TAG_QUIET_MS, 12, WIRE_KIND_NUMBER)   /* no-output limit; 0: none */                    \
    X(WIRE_TAG_OUTPUT_MAX, 13, WIRE_KIND_NUMBER) /* bytes of stdout+stderr; 0: none */             \
    X(WIRE_TAG_PATH, 14, WIRE_KIND_STRING)                                                         \
    X(WIRE_TAG_TARGET, 15, WIRE_KIND_STRING) /* destination; link target */                        \
    X(WIRE_TAG_MODE, 16, WIRE_KIND_NUMBER)                                                         \
    X(WIRE_TAG_UID, 17, WIRE_KIND_NUMBER)                                                          \
    X(WIRE_TAG_GID, 18, WIRE_KIND_NUMBER)                                                          \
    X(WIRE_TAG_SIZE, 19, WIRE_KIND_NUMBER)                                                         \
    X(WIRE_TAG_MTIME_MS, 20, WIRE_KIND_NUMBER) /* since 1970, two's complement */                  \
    X(WIRE_TAG_RECURSIVE, 21, WIRE_KIND_NUMBER)                                                    \
    X(WIRE_TAG_OFFSET, 22, WIRE_KIND_NUMBER)                                                       \
    X(WIRE_TAG_LIMIT, 23, WIRE_KIND_NUMBER) /* bytes or entries, by operation */                   \
    X(WIRE_TAG_PATTERN, 24, WIRE_KIND_STRING)                                                      \
    X(WIRE_TAG_TEXT, 25, WIRE_KIND_STRING) /* replacement; matching line */                        \
    X(WIRE_TAG_LINE, 26, WIRE_KIND_NUMBER)                                                         \
    X(WIRE_TAG_COUNT, 27, WIRE_KIND_NUMBER)                                                        \
    X(WIRE_TAG_PORT, 28, WIRE_KIND_NUMBER)                                                         \
    X(WIRE_TAG_SIGNAL, 29, WIRE_KIND_NUMBER)                                                       \
    X(WIRE_TAG_PID, 30, WIRE_KIND_NUMBER)                                                          \
    X(WIRE_TAG_EXIT, 31, WIRE_KIND_NUMBER)   /* 0..255, or 128+n */                                \
    X(WIRE_TAG_REASON, 32, WIRE_KIND_NUMBER) /* enum wire_reason */                                \
    X(WIRE_TAG_CODE, 33, WIRE_KIND_NUMBER)                                                         \
    X(WIRE_TAG_ERRNO, 34, WIRE_KIND_NUMBER)                                                        \
    X(WIRE_TAG_MESSAGE, 35, WIRE_KIND_STRING)                                                      \
    X(WIRE_TAG_REMEDY, 36, WIRE_KIND_STRING)                                                       \
    X(WIRE_TAG_REGEX, 37, WIRE_KIND_NUMBER) /* 1: PATTERN is a POSIX extended expression */        \
    X(WIRE_TAG_IGNORE_CASE, 38, WIRE_KIND_NUMBER)                                                  \
    X(WIRE_TAG_TRUNCATED, 39, WIRE_KIND_NUMBER) /* 1: a limit cut the answer */                    \
    X(WIRE_TAG_PATHS, 40, WIRE_KIND_STRINGS)                                                       \
    X(WIRE_TAG_FOLLOW, 41, WIRE_KIND_NUMBER)     /* STAT: what a symlink leads to */               \
    X(WIRE_TAG_ELAPSED_US, 42, WIRE_KIND_NUMBER) /* EXEC: how long the command ran */              \
    X(WIRE_TAG_NAME, 43, WIRE_KIND_STRING)       /* of a session */                                \
    X(WIRE_TAG_NUMBER, 44, WIRE_KIND_NUMBER)     /* of a command of a session; 0: the last */      \
    X(WIRE_TAG_ASYNC, 45, WIRE_KIND_NUMBER)      /* 1: do not wait for the command */              \
    X(WIRE_TAG_RESTARTED, 46, WIRE_KIND_NUMBER)  /* 1: in a new shell, the old one had ended */    \
    X(WIRE_TAG_STREAM, 47, WIRE_KIND_NUMBER)     /* 0: both, 1: stdout, 2: stderr */               \
    X(WIRE_TAG_CLOSE, 48, WIRE_KIND_NUMBER)      /* 1: the end of this input is the command's */   \
    X(WIRE_TAG_RUNNING, 49, WIRE_KIND_NUMBER)    /* 1: the command has not ended */                \
    X(WIRE_TAG_COMMANDS, 50, WIRE_KIND_NUMBER)   /* of sessions that run */                        \
    X(WIRE_TAG_VIEWERS, 51, WIRE_KIND_NUMBER)    /* of terminals */                                \
    X(WIRE_TAG_BUSY, 52, WIRE_KIND_NUMBER)       /* terminals where a program runs */              \
    X(WIRE_TAG_ECHO, 53, WIRE_KIND_NUMBER)       /* 1: input is put into the log of stdout too */  \
    X(WIRE_TAG_LAZY, 54, WIRE_KIND_NUMBER)       /* 1: the program starts with the first viewer */ \
    X(WIRE_TAG_WAITS, 55, WIRE_KIND_NUMBER)      /* 1: and has not started yet */                  \
    X(WIRE_TAG_REPORT, 56, WIRE_KIND_NUMBER)     /* 1: the command reports on a descriptor 3 */    \
    X(WIRE_TAG_WATCH, 57, WIRE_KIND_NUMBER)      /* 1: tell what files below CWD it changed */     \
    X(WIRE_TAG_CREATED, 58, WIRE_KIND_NUMBER)    /* 1: a file that was not there before */         \
    X(WIRE_TAG_PROGRAM, 59, WIRE_KIND_NUMBER)    /* 1: execute the descriptor that came along */   \
    X(WIRE_TAG_KIND, 60, WIRE_KIND_NUMBER)       /* of a session: enum wire_session_kind */        \
    X(WIRE_TAG_ENDED, 61, WIRE_KIND_NUMBER)      /* 1: the command ended its shell */              \
    X(WIRE_TAG_MERGE, 62, WIRE_KIND_NUMBER)      /* 1: standard error is standard output */        \
    X(WIRE_TAG_PROXY, 63, WIRE_KIND_NUMBER)      /* EXEC: as LISTEN with this port, before */      \
    X(WIRE_TAG_SPILL, 64, WIRE_KIND_NUMBER)      /* EXEC: so much output is told; 0: all */

enum wire_tag {
#define WIRE_TAG_ENUM(id, number, kind) id = number,
    WIRE_TAG_TABLE(WIRE_TAG_ENUM)
#undef WIRE_TAG_ENUM
        WIRE_TAG_COUNT_ = 65,
};

/* Both are kept alike, and do not see each other's names. */
enum wire_session_kind {
    WIRE_SESSION_SHELL = 0,
    WIRE_SESSION_CONTEXT = 1, /* an interpreter that stays */
};

/* Why a command ended. */
enum wire_reason {
    WIRE_REASON_EXIT = 0,
    WIRE_REASON_SIGNAL = 1,
    WIRE_REASON_TIMEOUT = 2, /* wall limit */
    WIRE_REASON_QUIET = 3,   /* no-output limit */
    WIRE_REASON_OUTPUT = 4,  /* output cap */
};

/* ---- building ---- */

/* Fields appended to b; failures are sticky in b->failed. */
void wire_put_string(struct buf *b, enum wire_tag tag, const char *text);
void wire_put_number(struct buf *b, enum wire_tag tag, uint64_t value);

/* Sends one frame; b NULL for an empty payload. 0 or -errno; -ENOBUFS if building b failed,
 * -EMSGSIZE if it is more than the other side takes. Descriptors go with its first bytes. */
int wire_send(int fd, enum wire_type type, const struct buf *b);
int wire_send_with(int fd, enum wire_type type, const struct buf *b, const int *fds, size_t count);
/* Sends bytes as frames of at most WIRE_DATA_MAX. */
int wire_send_data(int fd, enum wire_type type, const void *data, size_t len);
/* Sends frames that wire_put_frame() made at once, so that the other side is woken once. */
int wire_send_frames(int fd, const struct buf *frames);
/* Appends a frame to out, for who may not block; failures are sticky in out->failed. */
void wire_put_frame(struct buf *out, enum wire_type type, const void *data, size_t len);
/* The fields of a WIRE_ERROR; and a whole one, sent. */
void wire_put_error(struct buf *b, const struct cay_error *err);
int wire_send_error(int fd, const struct cay_error *err);

/* ---- reading ---- */

struct wire_frame {
    enum wire_type type;
    const char *data; /* len bytes; valid until the next call on the same reader */
    size_t len;
};

/* Reassembles frames from a stream; for a blocking socket or inside a poll loop. */
struct wire_reader {
    struct buf in;
    size_t used; /* bytes of `in` that belong to frames already returned */
};

#define WIRE_READER_INIT                                                                           \
    ((struct wire_reader){.in = BUF_INIT(WIRE_HEADER_SIZE + WIRE_MESSAGE_MAX + WIRE_DATA_MAX)})

/* Takes a complete frame out of what was read so far: 1, 0 if more bytes are needed, -EPROTO for a
 * malformed header, -EMSGSIZE for a payload beyond the maximum of its type. */
int wire_reader_next(struct wire_reader *r, struct wire_frame *f);
/* One read(2) into the reader: bytes read, 0 at the end of the stream, -errno. */
int wire_reader_fill(struct wire_reader *r, int fd);
int wire_reader_fill_with(struct wire_reader *r, int fd, int fds[static WIRE_FDS_MAX]);
/* Blocks for the next frame: 1, 0 at a clean end between frames, -errno. */
int wire_receive(struct wire_reader *r, int fd, struct wire_frame *f);
void wire_reader_free(struct wire_reader *r);

/* A parsed request or answer. Points into the payload, which must stay unchanged. */
struct wire_message {
    const char *data;
    size_t len;
    const char *string[WIRE_TAG_COUNT_]; /* NULL if absent; for WIRE_KIND_STRINGS the first */
    uint64_t number[WIRE_TAG_COUNT_];    /* 0 if absent */
    bool present[WIRE_TAG_COUNT_];
    uint32_t count[WIRE_TAG_COUNT_]; /* occurrences */
};

/* Checks the whole payload: 0, -ENOTSUP (a tag that this version does not know), or -EPROTO (wrong
 * length, missing or inner NUL, repeated field, more than WIRE_REPEATED_MAX strings). */
int wire_parse(const void *payload, size_t len, struct wire_message *m);

/* Walks the values of a WIRE_KIND_STRINGS tag: pass NULL first, then the previous value. */
const char *wire_next_string(const struct wire_message *m, enum wire_tag tag, const char *previous);

/* All, NULL-terminated, pointing into m: in an array to be freed (NULL on OOM), or in the given. */
const char **wire_string_array(const struct wire_message *m, enum wire_tag tag);
void wire_copy_strings(const struct wire_message *m, enum wire_tag tag, const char **v);

/* The error of a request that the other version at the end of the line does not know. */
int wire_refuse_foreign(struct cay_error *err);
/* Turns a WIRE_ERROR message into err (bounded, sanitised) and returns the negative code. */
int wire_take_error(const struct wire_message *m, struct cay_error *err);
