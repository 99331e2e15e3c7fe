/* cay-launcher STATE_DIR READY [FOLDER...]: serves the client whose socket is descriptor 3,
 * and shows nothing of the host inside but what lies below the folders (volume.h). */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "confine/capabilities.h"
#include "confine/privilege.h"
#include "confine/seccomp.h"
#include "engine/native/keep/keep.h"
#include "engine/native/launcher/launcher.h"
#include "engine/native/native.h"
#include "engine/privileged.h"
#include "engine/volume/volume.h"

enum { CLIENT_FD = 3 };

static int fail(const struct cay_error *err) {
    (void)fprintf(stderr, "cay-launcher: %s; %s\n", err->message, err->remedy);
    return 1;
}

/* Each slot is several descriptors. Sandboxes get a limit of their own. */
static void raise_descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* fewer sandboxes then */
}

/* False if there is a terminal that cannot be left. */
static bool leave_terminal(void) {
    if (setsid() >= 0)
        return true;
    _cleanup_(closep) int terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    return terminal < 0;
}

static bool are_valid(char **folders) {
    for (; *folders != NULL; folders++)
        if (!volume_root_is_valid(*folders))
            return false;
    return true;
}

static int keep_capabilities(struct cay_error *err) {
    int r = privilege_keep_capabilities(CAPABILITIES_LAUNCHER, CAPABILITIES_LAUNCHER);
    return r < 0 ? error_sys(err, -r, "giving up capabilities") : 0;
}

int main(int argc, char **argv) {
    struct cay_error err;
    struct native *n = NULL;
    uint64_t ready;
    if (argc < 3 || str_to_u64(argv[2], 1000, &ready) < 0 || !are_valid(argv + 3) ||
        fd_open_standard() < 0 || fcntl(CLIENT_FD, F_SETFD, FD_CLOEXEC) < 0) {
        (void)fprintf(stderr,
                      "usage: cay-launcher STATE_DIR READY [FOLDER...], with the client on fd 3\n");
        return 2;
    }
    /* Sandboxes inherit what follows; and who ignores SIGCHLD is not told how they ended. */
    privilege_reset_signals();
    if (!leave_terminal()) {
        (void)fprintf(stderr, "cay-launcher: it must not lead the session of a terminal\n");
        return 2;
    }
    (void)prctl(PR_SET_NAME, "cay-launcher", 0, 0, 0);
    raise_descriptor_limit();
    struct sandbox_spec defaults = {
        .memory_bytes = UINT64_C(512) << 20, .cpu_quota_us = 100000, .pids = 256};
    if (launcher_reserve_descriptors(&err) < 0)
        return fail(&err);
    bool is_privileged = engine_is_privileged();
    _cleanup_(closep) int userns = is_privileged ? -1 : keep_find_userns(argv[1]);
    if (native_open_beside(argv[1], userns, &n, &err) < 0)
        return fail(&err);
    if (is_privileged && keep_capabilities(&err) < 0)
        return fail(&err);
    /* Not before: an ordinary user's ids are mapped by programs that gain rights. */
    if (seccomp_confine(&(struct seccomp_options){.whose = SECCOMP_LAUNCHER}, &err) < 0)
        return fail(&err);
    native_limit_volumes(n, (const char *const *)(argv + 3));
    int r = launcher_serve(n, CLIENT_FD, (unsigned)ready, &defaults, &err);
    (void)native_close(n);
    return r < 0 ? fail(&err) : 0;
}
