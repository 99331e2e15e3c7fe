/* The parent's side of runner.h. */
#pragma once

struct cay_error;
struct native;
struct runner;

/* The child's handle on a connected socket, which it owns; NULL without memory. */
struct runner *runner_new(int sock);
void runner_free(struct runner *r);

/* What the parent needs to serve. */
struct runner_server {
    const char *state_dir;
    struct native *native; /* NULL: opened for the first command */
};

/* Answers requests until the child hangs up. Whatever comes from it is checked: it parses what the
 * network sent. */
void runner_serve(struct runner_server *s, int sock);
