/* The keeper of a session, in parts: the shell, the commands with their streams and logs, and the
 * connections that were handed over. One process, one loop, nothing that blocks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "init/files/tree.h"
#include "init/session/overflow.h"
#include "init/session/session.h"
#include "init/spawn.h"
#include "wire/wire.h"

struct cay_error;

enum {
    KEEPER_COMMANDS = 256,              /* kept with their logs; the oldest goes first */
    KEEPER_CLIENTS = 64,                /* connections at once */
    KEEPER_LOG_MAX = 8 * 1024 * 1024,   /* of one stream of one command */
    KEEPER_KEPT_MAX = 64 * 1024 * 1024, /* of all logs of the session, when a command starts */
    KEEPER_TEXT_MAX = 1024,             /* of a command, as it is shown */
    KEEPER_START_MS = 10000,            /* for the shell to take a command up */
    KEEPER_WAKE_MS = 20000,             /* for a driver that has been started once to say so */
    KEEPER_ASK_MS = 80,                 /* between asking a command to end and asking again */
    KEEPER_ASK_MAX = 3,                 /* then it is ended */
    KEEPER_KILL_MS = 3000,
    KEEPER_STREAMS = 3,         /* standard output, standard error, and what a driver reports */
    KEEPER_REPORTS = 2,         /* which of them that is */
    KEEPER_DRIVER_ASK_MS = 500, /* an interpreter may be deep in a library */
};

struct command {
    uint64_t number;
    char text[KEEPER_TEXT_MAX];
    bool running;
    bool opened;    /* the shell has taken it up */
    bool retried;   /* the shell ended before it did */
    bool restarted; /* it got a new shell */
    bool fatal;     /* it ended its shell */
    bool reads;     /* has an input */
    bool echoes;    /* which is put into its log too; of a driver: it shows what a value is */
    int pending;    /* a signal, for when it is taken up */
    int in;
    struct buf input; /* received, not yet taken by the command */
    bool input_ended;
    int out[KEEPER_STREAMS];
    int log[KEEPER_STREAMS];
    uint64_t size[KEEPER_STREAMS]; /* of the logs */
    bool capped[KEEPER_STREAMS];
    struct spill spill[KEEPER_REPORTS]; /* all of an output that is longer than its log */
    int at[1 + KEEPER_STREAMS];         /* in the poll set: in, then the others */
    int exit_code, signal;
    int asked; /* to end, because of a limit */
    enum wire_reason reason;
    struct tree before; /* what lived when it started, the shell too */
    int64_t started_us, elapsed_us, wall_ms;
    int64_t start_deadline, wall_deadline, quiet_ms, quiet_deadline, kill_deadline;
};

struct client {
    int fd;
    int at; /* in the poll set */
    enum wire_op op;
    struct wire_reader reader;
    struct buf out;        /* frames, not yet sent */
    struct buf asked;      /* a request whose text follows, */
    struct buf text;       /* what there is of that, */
    uint64_t text_missing; /* and how many bytes are not */
    uint64_t number;
    uint64_t offset[KEEPER_STREAMS]; /* of the logs: sent so far */
    bool muted[KEEPER_STREAMS];
    bool follow;
    bool feeds;  /* its input is the command's */
    bool closes; /* the end of its input too */
    bool input_over;
    uint64_t credit; /* taken by the command, not yet reported */
    bool answered;   /* the last frame is in out */
    bool gone;
};

struct keeper {
    const struct session_start *start;
    int64_t made_ms;      /* wall clock */
    int signals;          /* SIGCHLD */
    struct spawned shell; /* pid 0: none; in takes lines, out reports */
    pid_t group;          /* of the last shell, and of what it starts */
    bool had_shell;
    bool is_woken;  /* the first shell is a driver that had been started once */
    int woken_exit; /* else: how that ended, if it was tried */
    char cwd[4096]; /* the last that the shell told */
    struct buf report;
    struct command *commands[KEEPER_COMMANDS]; /* oldest first */
    size_t command_count;
    uint64_t last_number;
    int last_code;    /* how the last one ended: what the next finds as $? */
    int64_t ended_ms; /* when the last one ended; 0: none has */
    struct client *clients[KEEPER_CLIENTS];
    size_t client_count;
    char *data; /* WIRE_DATA_MAX bytes for whoever reads */
    bool deleted;
};

/* ---- the shell (keeper_shell.c) ---- */

int shell_start(struct keeper *k, struct cay_error *err);
/* Starts the driver that has been started once, and waits until it says that it is one. False if it
 * cannot be used, and nothing is left of it. */
bool shell_wake(struct keeper *k);
/* Gives the command to the shell. False if there is none that could take it. */
bool shell_give(struct keeper *k, const struct command *c);
/* Asks again for the report of a command, which an interrupt may have dropped. */
void shell_ask_report(struct keeper *k, const struct command *c);
/* Tells a driver that was interrupted which command was meant: JavaScript loses a signal that comes
 * when a script ends and its promises go on. */
void shell_say_interrupt(struct keeper *k, const struct command *c);
/* Reads what it reports. */
void shell_read(struct keeper *k);
void shell_discard_errors(struct keeper *k);
void shell_close(struct keeper *k);

/* ---- commands (keeper_command.c) ---- */

/* The one that runs, or NULL. */
struct command *command_running(const struct keeper *k);
/* By its number, 0 for the last; or NULL. */
struct command *command_find(const struct keeper *k, uint64_t number);
/* Fails if one runs. */
int command_check_idle(const struct keeper *k, struct cay_error *err);
/* Makes a command of a request and gives it to the shell, a new one if need be. */
int command_start(struct keeper *k, const struct wire_message *m, struct command **ret,
                  struct cay_error *err);
/* Once more, with a new shell, after the old one ended without having taken it up. */
bool command_again(struct keeper *k, struct command *c);
/* The shell has opened its streams. */
void command_opened(struct keeper *k, struct command *c);
/* It ended; status is what a shell calls $?. */
void command_end(struct keeper *k, struct command *c, int status, int signal);
void command_read(struct keeper *k, struct command *c, int stream);
/* Takes input for it. 0, or negative if that is more than it may have waiting. */
int command_take_input(const struct keeper *k, struct command *c, const char *data, size_t len);
/* Moves input to it. Returns how many bytes it took. */
size_t command_feed(struct command *c);
/* A signal for all that it started and, if that is SIGINT, for what the shell does. */
void command_signal(struct keeper *k, struct command *c, int number);
/* Does what time demands. */
void command_check_limits(struct keeper *k, struct command *c);
int64_t command_deadline(const struct command *c);
/* Up to WIRE_DATA_MAX bytes of a log. */
size_t command_read_log(const struct keeper *k, const struct command *c, int stream,
                        uint64_t offset);
void command_free(struct keeper *k, struct command *c);

/* ---- connections (keeper_client.c) ---- */

/* Takes a connection that is handed over. */
void client_accept(struct keeper *k);
void client_read(struct keeper *k, struct client *cl);
/* Puts what there is to say into its buffer. */
void client_fill(struct keeper *k, struct client *cl);
void client_send(struct client *cl);
/* The command took input of whoever feeds it. */
void client_give_credit(struct keeper *k, const struct command *c, size_t taken);
void client_free(struct client *cl);
