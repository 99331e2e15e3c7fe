/* How long work tells how far it is: a bar for each item on a terminal, a line for each step when
 * piped, JSON events for other programs. Safe to use from several threads. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"

struct progress;

enum progress_mode { PROGRESS_QUIET, PROGRESS_LINES, PROGRESS_BARS, PROGRESS_JSON };

/* Bars if fd is a terminal, else lines. */
enum progress_mode progress_mode_for(int fd);
struct progress *progress_new(enum progress_mode mode, int fd);
/* Ends the bars. NULL is fine here and everywhere below. */
void progress_free(struct progress *p);
void progress_freep(struct progress **p);

/* A new item ("a3ed95caeb02"), with its whole size if known (0: not). */
unsigned progress_item(struct progress *p, const char *label, uint64_t total);
/* It is in this state now ("downloading", "unpacking", "done", "exists"), this far. Cheap: may be
 * called for every block; shown at most ten times a second. */
void progress_update(struct progress *p, unsigned item, const char *state, uint64_t done);
/* A line for people ("python:3.12-slim: resolving"). */
void progress_note(struct progress *p, const char *fmt, ...) _printf_(2, 3);
