/* The other programs of cay. */
#pragma once

#include <stddef.h>

struct cay_error;

/* The path of a program of ours: beside the running one, as in a build folder, or where it is
 * installed (../libexec/cay); for a program that embeds cay, the same seen from `cay` in PATH. */
int program_find(const char *name, char *out, size_t size, struct cay_error *err);
