/* What the files of the library know of an engine beside its public face. */
#pragma once

#include <cay.h>

/* Its path; borrowed. */
const char *engine_state_dir(const cay_engine *engine);
