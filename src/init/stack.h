/* The stack of cay-init, beside its data.
 *
 * The kernel puts the first stack of a program far from everything else, where one page of it needs
 * two or three pages of page tables. An idle sandbox consists of little else: a stack among the
 * data saves it 10 KB, and 4 KB more since what is used of it while PID 1 waits lies on the page of
 * the data. */
#pragma once

#include "base/auto.h"

/* Ends the process with what the function returns, after running it on a stack of its own, with the
 * first one gone: arguments, environment and auxiliary vector too. With a sanitizer, which knows
 * the first stack only, it stays there. */
_noreturn_ void stack_run(int (*run)(void));

/* The same once more, in the process that serves an operation: on a stack with room for it. */
_noreturn_ void stack_run_deep(int (*run)(void));
