/* Folders of the caller, for cay-image in its user namespace, to whose ids they do not belong. */
#pragma once

struct cay_error;

/* A descriptor of the folder by which it can be read in the world (world.h), whatever the modes of
 * what is in it. To be called before world_enter(). Where the kernel or the file system cannot do
 * so, what others may read can be read. */
int folder_offer(int folder, struct cay_error *err);
