/* Whether a program can have a copy of an interpreter that was started without knowing it. */
#pragma once

#include <stdbool.h>

struct strv;

/* True if a variable ("K=V") is one that an interpreter, its libraries or their loader read when
 * they start. */
bool python_env_matters(const struct strv *env);

/* True if a volume ("HOST:BOX[:ro]") lies where an interpreter has its files. */
bool python_volumes_matter(const struct strv *volumes);
