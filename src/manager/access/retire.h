/* The end of a manager whose successor starts in another process, while this one carries the
 * operations that are under way to their ends. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct manager;

/* As manager_drain, but does not wait for operations. False if something else is under way even so;
 * then the process has to end. */
bool manager_retire(struct manager *m, int64_t wait_ms);
/* After that, and when the engines were left: lets go of the database. What needs it fails. */
void manager_release_database(struct manager *m);
/* Shuts down every connection that lasts and is a key's, of whichever key. */
void manager_key_end_uses(struct manager *m);
