#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "lib/prepared_wire.h"

int prepared_look_around(struct prepared_place *ret, struct cay_error *err) {
    struct stat ns, root;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    *ret = (struct prepared_place){0};
    if (stat("/proc/self/ns/mnt", &ns) < 0 || stat("/", &root) < 0)
        return error_errno(err, "looking at the mount namespace");
    if (sched_getaffinity(0, sizeof cpus, &cpus) < 0)
        return error_errno(err, "asking for the processors");
    mode_t mask = umask(0);
    (void)umask(mask);
    ret->mount_ns = ns.st_ino;
    ret->root_dev = root.st_dev;
    ret->root_ino = root.st_ino;
    ret->umask = mask;
    _Static_assert(sizeof cpus == sizeof ret->cpus, "all processors fit");
    memcpy(ret->cpus, &cpus, sizeof cpus);
    return 0;
}

uint64_t prepared_preload(const char *const *modules) {
    uint64_t h = UINT64_C(14695981039346656037);
    for (; modules != NULL && *modules != NULL; modules++)
        for (const char *p = *modules;; p++) {
            h = (h ^ (unsigned char)*p) * UINT64_C(1099511628211);
            if (*p == '\0')
                break;
        }
    return h;
}
