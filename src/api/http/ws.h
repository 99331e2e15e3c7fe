/* WebSocket (RFC 6455): one side of a connection, driven by one thread at a time. The
 * one place that knows the library for it. Pings are answered, fragments joined, texts checked to
 * be UTF-8, and what breaks the protocol ends the connection as the protocol has it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ws;

enum { WS_ACCEPT_SIZE = 29, WS_REASON_MAX = 123 };

/* Sec-WebSocket-Accept for a client's Sec-WebSocket-Key; -EINVAL if that is none. */
int ws_accept(const char *key, char out[static WS_ACCEPT_SIZE]);

/* Whether a handshake with these headers (either may be NULL) can be accepted. */
bool ws_is_acceptable(const char *version, const char *key);

/* fd is the connection after its 101; it becomes non-blocking and stays the caller's. early is
 * what was read from it already. Messages of more than message_max bytes are refused. 0 or -errno.
 */
int ws_new(int fd, const char *early, size_t early_len, size_t message_max, struct ws **ret);
/* The same for the client's side. */
int ws_new_client(int fd, size_t message_max, struct ws **ret);
int ws_fd(const struct ws *w); /* the connection */
/* Another maximum, for messages that begin from now on. */
void ws_set_message_max(struct ws *w, size_t message_max);
void ws_free(struct ws *w);
void ws_freep(struct ws **w);

enum ws_kind { WS_TEXT, WS_BINARY };

struct ws_message {
    enum ws_kind kind;
    const char *data; /* NUL-terminated; until the next call */
    size_t len;
};

enum ws_event { WS_CLOSED = 0, WS_MESSAGE = 1, WS_OTHER = 2 };

/* Waits for a message (WS_MESSAGE), until `other` can be read from (WS_OTHER; -1: none), or until
 * the connection has ended (WS_CLOSED). -ETIMEDOUT at the deadline (as of clock_deadline(); 0:
 * none), or -errno. */
int ws_wait(struct ws *w, int other, int64_t deadline_ms, struct ws_message *ret);

/* Sends a message, and waits while the client is slow. 0, -EPIPE if the connection has ended,
 * -ETIMEDOUT, or -errno. */
int ws_send(struct ws *w, enum ws_kind kind, const void *data, size_t len, int64_t deadline_ms);

/* When a WebSocket has to end because the daemon does. */
enum ws_stage {
    WS_VIEWERS, /* at once: nothing is lost by it, whoever looks on can do so again later */
    WS_RUNS,    /* when the time of requests is over */
    WS_STAGES,
};
/* Closes every WebSocket of this process and this stage with 1012 (service restart): those that
 * wait or send now, and those that will. */
void ws_end_all(enum ws_stage stage);
/* This one is of WS_RUNS. Each begins as one of WS_VIEWERS. */
void ws_outlast(struct ws *w);

/* Says why it ends (at most WS_REASON_MAX bytes), and hears the client out for a moment. */
void ws_close(struct ws *w, uint16_t code, const char *reason);
