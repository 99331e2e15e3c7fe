/* Bringing new layers to the disk without anybody waiting for it. */
#pragma once

struct image_store;

/* Starts image_store_settle() in a process of its own, which outlives this one, and says nothing.
 * If it cannot be started or is killed, the layers are whole until the machine stops, and are made
 * again after that. To be called with one thread. */
void settle_later(const struct image_store *store);
