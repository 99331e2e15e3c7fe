/* Inside of the configuration: the texts of values, for config.c. */
#pragma once

#include "base/buf.h"
#include "config/config.h"

/* Checks text as the value of key and stores it in the key's field of config; strings are stored
 * as text itself, which must live as long. `what` names the place in errors. */
int config_value_parse(struct config *config, const struct config_key *key, const char *what,
                       const char *text, struct cay_error *err);

/* The text of a value in the file, appended to out, if it has a type that fits the key. */
int config_value_text(const struct config_key *key, const char *what, const struct toml_value *v,
                      struct buf *out, struct cay_error *err);

/* Makes text the value of a row if it is valid; `what` names it in errors. */
int config_set(struct config *config, size_t row, const char *what, const char *text,
               struct config_value value, struct cay_error *err);
/* The table's own values, before all others. */
int config_set_defaults(struct config *config, struct cay_error *err);

/* Releases what config_value_parse() stored in the key's field. */
void config_value_release(struct config *config, const struct config_key *key);
