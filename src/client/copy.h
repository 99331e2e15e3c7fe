/* Copying files between the host and a sandbox: modes, times, symlinks, hard links and empty
 * folders are kept, owners are those who copy. What comes out of a sandbox is hostile: it lands
 * below the destination, whatever it says. */
#pragma once

#include "client/daemon.h"

struct cay_error;

struct copy_totals {
    uint64_t members;
    uint64_t bytes; /* that travelled, headers of archives included */
    char note[256]; /* what was left out; empty if nothing */
};

/* Who wants to hear how far a copy is, after each piece. */
struct copy_watch {
    void (*tell)(void *arg, uint64_t bytes, uint64_t total); /* total 0: not known */
    void *arg;
};

/* The host's path to the sandbox's path `to` (relative: to its work folder). As cp does: into `to`
 * if that is a folder, else as `to`; "folder/." stands for what is in it. "-" is standard input: an
 * archive if `to` is a folder, else the content of a file. watch may be NULL. */
int copy_in(const struct daemon *d, const char *from, const char *who, const char *to,
            const struct copy_watch *watch, struct copy_totals *ret, struct cay_error *err);

/* The other way. "-" is standard output: an archive if `from` is a folder, else the content. */
int copy_out(const struct daemon *d, const char *who, const char *from, const char *to,
             const struct copy_watch *watch, struct copy_totals *ret, struct cay_error *err);
