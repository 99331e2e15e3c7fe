#include <sys/prctl.h>

#include "base/auto.h"
#include "base/error.h"
#include "confine/seccomp.h"

int seccomp_confine(const struct seccomp_options *o, struct cay_error *err) {
    struct sock_filter insns[SECCOMP_MAX_INSNS];
    int r = seccomp_build(o, insns, ARRAY_LEN(insns));
    if (r < 0)
        return error_sys(err, -r, "building the seccomp filter of this process");
    const struct sock_fprog program = {.len = (unsigned short)r, .filter = insns};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return error_errno(err, "giving up new privileges");
    r = seccomp_load(&program);
    if (r == 0)
        return 0;
    error_sys(err, -r, "loading the seccomp filter of this process");
    return error_remedy(err, "the kernel needs CONFIG_SECCOMP_FILTER");
}
