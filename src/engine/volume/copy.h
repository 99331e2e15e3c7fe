/* Copies what a volume holds. */
#pragma once

/* Copies all below the folder `from` into the folder `to`, which is empty: files with their holes,
 * folders, symlinks and pipes, with owners, modes, times, ACLs and user attributes. Files with
 * several names become several files; sockets are omitted. No link is followed and no device is
 * opened, whatever somebody changes below `from` meanwhile. 0 or -errno; -ELOOP if folders are
 * nested too deeply. */
int volume_copy(int from, int to);
