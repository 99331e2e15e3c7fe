/* The state folder: where cay keeps what outlives a program. */
#pragma once

#include <stddef.h>

struct cay_error;

/* Makes sure that the folder is there and writes its path to out. given is what the user named with
 * --state-dir; NULL: CAY_STATE_DIR, else /var/lib/cay for root, cay in $XDG_STATE_HOME or
 * ~/.local/state for others. */
int state_dir_make(const char *given, char *out, size_t size, struct cay_error *err);
