/* What verbs that make a throw-away sandbox share. */
#pragma once

#include <cay.h>

#include "cmd/verb.h"
#include "config/config.h"

/* What --tier and --pull take; the first is what happens if nobody says anything. */
extern const char *const fresh_tiers[], *const fresh_pulls[];

bool fresh_is_host(const char *image);

struct prepared_wish;
/* Takes a sandbox that the daemon has prepared, unless --no-daemon or the configuration forbids it;
 * false: it has to be made here. wish is NULL for commands. --verbose tells which way it went, and
 * why. */
bool fresh_take_prepared(const struct verb_common *common, const struct config *config,
                         const char *engine, bool no_daemon, const struct cay_spec *spec,
                         const struct prepared_wish *wish, cay_sandbox **ret);

/* The least isolation that is acceptable: as chosen (an index into fresh_tiers), else as
 * configured; NULL: by privilege. */
const char *fresh_tier(int chosen, const struct config *config);

/* Tells of each limit that an option asked for and this host cannot keep. Such a sandbox is only
 * made in a tier that the user chose. */
void fresh_report_unkept(const cay_engine *engine, bool has_memory, bool has_cpus);

/* Makes sure that an image is here, fetching it as pull (one of fresh_pulls) says. Nothing happens
 * for the host image. Before the engine, of this name, is opened. */
int fresh_ensure_image(const struct verb_common *common, const struct config *config,
                       const char *engine, const char *image, const char *pull,
                       char id[static CAY_IMAGE_ID_SIZE], struct cay_error *err);
