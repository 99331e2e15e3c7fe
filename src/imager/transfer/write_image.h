/* Images that are made here, as files of the store. */
#pragma once

struct cay_error;
struct image_record;
struct image_store;

/* Writes the configuration of a record whose layers are complete, names the image by its digest
 * (record->id), and keeps both. history is one line per layer, may be NULL. */
int image_keep(const struct image_store *store, struct image_record *record,
               const char *const *history, struct cay_error *err);
