/* Texts of the toolbox's clients, taken apart: pure functions. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "wire/call.h"

struct cay_error;

/* Sessions and terminals have ids of any text, and inside a sandbox short plain names: an id that
 * is one is its name, another is encoded in it. */
int toolbox_name_of(const char *id, char name[static WIRE_NAME_MAX + 1], struct cay_error *err);
void toolbox_id_of(const char *name, char id[static WIRE_NAME_MAX + 1]);

/* The rest of the first of these subprotocols ("a, b", or NULL) that begins with prefix. False if
 * none does, or if it is too long. */
bool toolbox_find_offer(const char *offers, const char *prefix, char *rest, size_t size);
