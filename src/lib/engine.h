/* What the files of the library know of an engine beside its public face. */
#pragma once

#include <cay.h>

struct prepared;
struct prepared_wish;

/* Its path; borrowed. */
const char *engine_state_dir(const cay_engine *engine);

/* As cay_sandbox_create, by the daemon that serves the state folder; lib/prepared.h says how it
 * fails. */
int sandbox_take_prepared(const char *state_dir, const struct cay_spec *spec,
                          const struct prepared_wish *wish, cay_sandbox **ret,
                          struct cay_error *why);
/* What came with it; NULL for one that was made here. */
const struct prepared *sandbox_prepared(const cay_sandbox *box);
