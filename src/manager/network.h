/* What sandboxes reach; all of it without the manager's lock. */
#pragma once

#include <stdbool.h>

struct cay_error;
struct manager;
struct sandbox;
struct sandbox_record;

/* Whether this record's owner may have what it says of the network. */
int network_check(struct manager *m, const struct sandbox_record *r, struct cay_error *err);
/* Whether what it reaches may become this: a bridge is part of how a container is made. */
int network_check_change(const struct sandbox_record *r, const char *to, struct cay_error *err);
/* True if it says that something is reached by the proxy. */
bool network_has_list(const struct sandbox_record *r);
/* For who has the turn: the way out of one that runs, if it has a list. */
int network_open(struct manager *m, struct sandbox *s, struct cay_error *err);
/* The same after the list has changed. */
int network_change(struct manager *m, struct sandbox *s, struct cay_error *err);
void network_close(struct manager *m, const char *id);
