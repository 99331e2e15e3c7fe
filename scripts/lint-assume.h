/* Force-included by scripts/lint: tells analyzers, which see one file at a time, that these never
 * return 0. Without it every value set by a function that may fail looks unset afterwards. */
#pragma once

#include "base/error.h"

#define error_set(...)    ((void)error_set(__VA_ARGS__), -1)
#define error_errno(...)  ((void)error_errno(__VA_ARGS__), -1)
#define error_sys(...)    ((void)error_sys(__VA_ARGS__), -1)
#define error_prefix(...) ((void)error_prefix(__VA_ARGS__), -1)
#define error_remedy(...) ((void)error_remedy(__VA_ARGS__), -1)
