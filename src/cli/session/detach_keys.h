/* The keys that leave a terminal, found in what is typed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct cay_error;

#define DETACH_KEYS_DEFAULT "ctrl-p,ctrl-q"

enum { DETACH_KEYS_MAX = 8 };

struct detach_keys {
    char keys[DETACH_KEYS_MAX];
    size_t count;   /* 0: there are none */
    size_t matched; /* of them typed, and held back */
};

/* Reads "ctrl-p,ctrl-q" or "a,b": keys separated by commas, "" for none. */
int detach_keys_parse(const char *text, struct detach_keys *ret, struct cay_error *err);

/* Takes what was typed; what is meant for the program is appended to out. True when the keys were
 * typed: what came behind them is dropped. */
bool detach_keys_take(struct detach_keys *k, const char *typed, size_t len, struct buf *out);

/* The first keys are not followed by the others: gives them to the program after all. */
void detach_keys_release(struct detach_keys *k, struct buf *out);
