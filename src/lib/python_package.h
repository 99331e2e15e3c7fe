/* Names of Python packages, as they may be given to pip. */
#pragma once

#include <stdbool.h>

enum { PYTHON_PACKAGES_MAX = 100, PYTHON_PACKAGE_LEN_MAX = 200 };

/* True for NAME, NAME[EXTRA,…] and either with versions behind: "==1.2", ">=1,<2". Nothing else
 * that pip understands is: no options, paths, addresses or markers. */
bool python_package_is_valid(const char *text);
