/* The part of `cay doctor` about engines that have a probe (ENGINE_HAS_PROBE). */
#pragma once

#include "base/buf.h"
#include "base/json/jsonw.h"
#include "client/reply.h"
#include "config/engines.h"

/* What each engine's program found; without an answer its reply has no rows. */
struct doctor_engines {
    struct reply found[ENGINE_KINDS];
};

void doctor_ask_engines(const char *config, struct doctor_engines *ret);
void doctor_print_engines(struct buf *b, struct doctor_engines *e);
/* For each engine, by its name: one object for each finding. */
void doctor_put_engines(struct jsonw *w, struct doctor_engines *e);
void doctor_engines_free(struct doctor_engines *e);
