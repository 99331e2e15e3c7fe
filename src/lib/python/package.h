/* Names of Python packages, as they may be given to pip. */
#pragma once

#include <stdbool.h>

enum { PYTHON_PACKAGES_MAX = 100, PYTHON_PACKAGE_LEN_MAX = 200, PYTHON_MODULE_SIZE = 64 };

/* True for NAME, NAME[EXTRA,…] and either with versions behind: "==1.2", ">=1,<2". Nothing else
 * that pip understands is: no options, paths, addresses or markers. */
bool python_package_is_valid(const char *text);

/* The module that was missed, as the type and the message of an exception say (NULL: there was
 * none); false if it was something else. */
bool python_missing_module(const char *type, const char *message,
                           char out[static PYTHON_MODULE_SIZE]);
