/* The caller's terminal while a command inside has one of its own. */
#pragma once

#include <stdbool.h>
#include <termios.h>

struct terminal {
    int fd; /* -1: nothing to restore */
    struct termios saved;
};

#define TERMINAL_NONE ((struct terminal){.fd = -1})

/* Raw mode: every key, Ctrl-C too, goes to the command. False if fd is no terminal. */
bool terminal_raw(struct terminal *t, int fd);
void terminal_restore(struct terminal *t);
