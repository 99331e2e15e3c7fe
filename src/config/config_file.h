/* Inside of the configuration: which files are read, and how far each is trusted. */
#pragma once

#include <stdbool.h>

#include "config/config.h"

/* Reads and parses the files that count into config->files; see config_load(). */
int config_read_files(struct config *config, const char *path, const char *const *env,
                      bool with_folder, struct cay_error *err);

/* The value of a variable in env, or NULL. */
const char *config_getenv(const char *const *env, const char *name);
