/* An image of what a sandbox has made of its own. */
#pragma once

#include "image/reference.h"

struct cay_error;
struct image_store;

/* A new image: the one with id `base`, and over it a layer with what lies in fs, the upper folder
 * of the sandbox's overlay, which must not change meanwhile. The sandbox keeps its files. */
int image_snapshot(const struct image_store *store, int fs, const char *base,
                   char id[static HEX_SIZE], struct cay_error *err);
