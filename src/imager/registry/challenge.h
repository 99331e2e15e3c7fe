/* What a registry says in its headers, parsed without trust. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHALLENGE_TEXT_SIZE = 1024 };

enum challenge_kind { CHALLENGE_NONE, CHALLENGE_BASIC, CHALLENGE_BEARER }; /* best last */

/* How it wants us to say who we are. */
struct challenge {
    enum challenge_kind kind;
    char realm[CHALLENGE_TEXT_SIZE]; /* of Bearer: URL of the token server, never empty */
    char service[CHALLENGE_TEXT_SIZE];
    char scope[CHALLENGE_TEXT_SIZE];
};

/* Reads the value of one WWW-Authenticate header, which may hold several challenges, and keeps the
 * best one that we can answer if it is better than what *best holds. What is malformed, too long or
 * unknown is passed over. */
void challenge_parse(const char *value, struct challenge *best);

/* "bytes FIRST-LAST/TOTAL"; a total of "*" is UINT64_MAX. -EINVAL for anything else, and for a
 * range that is none. */
struct content_range {
    uint64_t first, last, total;
};
int content_range_parse(const char *value, struct content_range *ret);
