/* Whether a command ended for want of memory. */
#pragma once

#include <stdint.h>

struct cay_result;
struct daemon;

/* Fills result->oom_killed. Kills are counted for the sandbox as a whole, so only a command that
 * ended like one that was killed is judged: was one noticed since it began (clock_us())? What
 * cannot be asked is taken for no. */
void oom_judge(const struct daemon *d, const char *who, int64_t began_us,
               struct cay_result *result);
