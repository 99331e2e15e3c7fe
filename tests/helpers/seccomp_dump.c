/* Prints what the policy says of each call as syscall_probe makes it, arguments all ones:
 *
 *     native 17 pread64 allow
 *     native 165 mount EPERM
 *
 * tests/hostile/test_syscalls.py compares the two. */
#include <errno.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "confine/seccomp.h"

enum { LAST_NATIVE = 600 };

int main(void) {
    static const struct seccomp_options options = {0};
    static const uint64_t args[6] = {UINT64_MAX, UINT64_MAX, UINT64_MAX,
                                     UINT64_MAX, UINT64_MAX, UINT64_MAX};
    for (uint32_t nr = 0; nr <= LAST_NATIVE; nr++) {
        const char *name = seccomp_name(nr);
        uint32_t action = seccomp_action(seccomp_expect(&options, nr, args));
        const char *verdict = "kill";
        if (action == SECCOMP_RET_ALLOW)
            verdict = "allow";
        else if ((action & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO)
            verdict = strerrorname_np((int)(action & SECCOMP_RET_DATA));
        printf("native %u %s %s\n", nr, name == NULL ? "-" : name, verdict);
    }
    return 0;
}
