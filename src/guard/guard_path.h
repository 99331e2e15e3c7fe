/* What a path of a command line names: the root, a system folder, a device, or none of them.
 * Decided by its text alone; patterns count by what they could match. */
#pragma once

#include <limits.h>
#include <stdbool.h>

enum guard_place {
    PLACE_OTHER,
    PLACE_HOME,   /* the home folder of the user */
    PLACE_SHARED, /* /opt /srv /mnt /media: not the system's, but more than one project's */
    PLACE_SYSTEM, /* /etc /usr ... */
    PLACE_ROOT,
};

/* Writes the absolute, normalised form of a marked word. cwd may be NULL. False if it cannot be
 * known, or is too long for a path. */
bool guard_path_resolve(const char *word, const char *cwd, char out[static PATH_MAX]);

/* Drops a last component that matches everything: "/etc/" and a star become "/etc". */
void guard_path_drop_star(char *path);

/* Of a resolved path. */
enum guard_place guard_path_place(const char *path);
bool guard_path_is_disk(const char *path);
bool guard_path_is_critical(const char *path);
