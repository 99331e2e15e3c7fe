/* Starting a daemon where there is none. */
#pragma once

struct cay_error;
struct daemon_choice;

/* Starts `cayd --background` for the state folder and waits until it serves. That somebody else was
 * faster is fine. */
int daemon_start(const struct daemon_choice *choice, const char *state_dir, struct cay_error *err);
