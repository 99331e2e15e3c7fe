/* What verbs that run a command share: signals, and telling how it ended. */
#pragma once

#include <cay.h>

#include "base/json/jsonw.h"
#include "cmd/verb.h"
#include "lib/python/json.h"

/* Blocks the signals that belong to the command from now on, and makes a signalfd of them. Before
 * anything is made, so that no signal can end us between making and unmaking. */
int command_catch_signals(int *ret, struct cay_error *err);

/* How long a command may run: as given, or what the configuration says if it is negative. */
int command_find_timeout(const struct verb_common *common, int64_t given_ms, int64_t *ret_ms,
                         struct cay_error *err);

/* -t without a terminal is refused. */
int command_check_tty(bool tty, struct cay_error *err);

/* Says on standard error why the command did not end by itself, where its own output cannot. */
void command_explain(const struct cay_result *result);

/* Prints b, which is the result: exit_code, or 125 if it cannot be printed. */
int command_print(struct buf *b, int exit_code);
