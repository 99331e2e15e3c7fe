/* Inside of the configuration: what a limited file may set. */
#pragma once

#include "config/config.h"

/* Sets a row from a limited file if it may; notes a refusal if it may not. `what` and err as in
 * config_set(). */
int config_set_limited(struct config *config, size_t row, const char *what, const char *text,
                       struct config_value value, struct cay_error *err);

/* Notes that a limited file set `name` in vain. */
int config_refuse(struct config *config, const char *name, enum config_source source, unsigned line,
                  bool widens, struct cay_error *err);

/* Tells the listener of all refusals. */
void config_report_refusals(const struct config *config);

/* True if all that `wanted` opens is open by `now`; it decides by the texts, and says false if in
 * doubt. */
bool config_network_is_narrower(const char *now, const char *wanted);
