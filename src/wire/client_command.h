/* What comes back for a command, one event at a time, for callers with a loop of their own. The
 * request was sent before: exec_send(), wire_session_exec(), wire_session_logs(). The other end is
 * hostile: whatever does not fit is an error. */
#pragma once

#include "wire/client_exec.h"

struct cay_error;

enum wire_command_kind {
    WIRE_COMMAND_STARTED, /* outcome.number, outcome.restarted */
    WIRE_COMMAND_OUTPUT,  /* is_stderr, data, len */
    WIRE_COMMAND_REPORT,  /* data, len: of a command, or of a context's driver */
    WIRE_COMMAND_CREDITS, /* credits: so many bytes more of input may be sent */
    WIRE_COMMAND_CHANGE,  /* data (its path, with a zero byte behind), size, created: of a file */
    WIRE_COMMAND_ENDED,   /* outcome; the last event */
};

struct wire_command_event {
    enum wire_command_kind kind;
    bool is_stderr;
    const char *data; /* until the next call on the reader */
    size_t len;
    uint64_t credits;
    uint64_t size;
    bool created;
    struct exec_outcome outcome;
};

/* Takes an event out of what wire_reader_fill() has read: 1, 0 if more is needed, negative. */
int wire_command_next(struct wire_reader *r, struct wire_command_event *ret, struct cay_error *err);
