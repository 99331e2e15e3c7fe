/* The part of `cay doctor` about Docker. */
#pragma once

#include "base/buf.h"
#include "base/jsonw.h"
#include "client/table.h"

/* Asks cay-docker; without an answer the table has no rows. */
void doctor_ask_docker(const char *config, struct table *ret);
void doctor_print_docker(struct buf *b, const struct table *t);
/* "docker": one object for each finding. */
void doctor_put_docker(struct jsonw *w, const struct table *t);
