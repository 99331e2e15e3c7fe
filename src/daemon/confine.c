#include "daemon/confine.h"

#include "base/error.h"
#include "confine/capabilities.h"
#include "confine/privilege.h"
#include "confine/seccomp.h"

int confine_supervisor(const struct settings *s, struct cay_error *err) {
    if (!s->is_root)
        return 0;
    int r = privilege_keep_capabilities(CAPABILITIES_DAEMON, CAPABILITIES_SUPERVISOR);
    if (r < 0)
        return error_sys(err, -r, "giving up capabilities");
#ifdef __SANITIZE_ADDRESS__ /* LeakSanitizer traces this process and those that it starts */
    return 0;
#else
    return seccomp_confine(&(struct seccomp_options){.whose = SECCOMP_LAUNCHER}, err);
#endif
}
