#include "lib/egress.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/program.h"
#include "egress/control.h"

static int make_pair(int type, int pair[static 2], struct cay_error *err) {
    return socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) < 0
               ? error_errno(err, "making the proxy's socket")
               : 0;
}

static int start(bool as_root, struct egress_proxy *p, struct cay_error *err) {
    char program[PATH_MAX];
    int pair[2];
    int r = program_find("cay-egress", program, sizeof program, err);
    if (r == 0 && as_root)
        r = role_ids_lease_run(&p->ids, err);
    if (r == 0)
        r = make_pair(SOCK_SEQPACKET, pair, err);
    if (r != 0)
        return r;
    r = egress_spawn(program, pair[1], as_root ? role_id(&p->ids, ROLE_EGRESS) : 0, EGRESS_QUIET,
                     &p->pid);
    (void)close(pair[1]);
    p->control = pair[0];
    return r < 0 ? error_sys(err, -r, "starting the proxy '%s'", program) : 0;
}

int egress_proxy_start(const char *id, const char *network, bool as_root, struct egress_proxy *ret,
                       struct cay_error *err) {
    struct egress_proxy p = EGRESS_PROXY_NONE;
    int doors[2] = {-1, -1};
    int r = start(as_root, &p, err);
    if (r == 0)
        r = make_pair(SOCK_STREAM, doors, err);
    if (r == 0) {
        const struct egress_wish wish = {
            .id = id, .network = network, .owner = "", .door = doors[1]};
        r = egress_send_set(p.control, &wish, err);
        (void)close(doors[1]);
        p.door = doors[0];
    }
    if (r < 0)
        egress_proxy_stop(&p);
    else
        *ret = p;
    return r;
}

void egress_proxy_stop(struct egress_proxy *p) {
    fd_close(&p->control);
    fd_close(&p->door);
    if (p->pid != 0) {
        (void)kill(p->pid, SIGKILL); /* it keeps nothing */
        while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    p->pid = 0;
    role_ids_release(&p->ids);
}
