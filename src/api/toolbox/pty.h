/* Terminals of the toolbox: what their two files share. */
#pragma once

#include "api/toolbox/command.h"

struct ws;

/* What is shown and typed, over a WebSocket, on the answer's connection, which is attached. */
void toolbox_pty_talk(struct call *c, struct ws *w);
/* The same, and the end is told in a message of its own: two functions, since the head of the
 * request, which says what is wanted, is gone by then. */
void toolbox_pty_talk_and_report(struct call *c, struct ws *w);
