#include "egress/control.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"

int egress_spawn(const char *program, int sock, uid_t as, enum egress_voice voice, pid_t *ret) {
    char id[16];
    (void)snprintf(id, sizeof id, "%u", (unsigned)as);
    const char *argv[] = {program, id, voice == EGRESS_LOGS ? "info" : "error",
                          log_is_json() ? "json" : "text", NULL};
    static const char *const env[] = {NULL};
    posix_spawn_file_actions_t actions;
    int r = posix_spawn_file_actions_init(&actions);
    if (r != 0)
        return -r;
    r = posix_spawn_file_actions_adddup2(&actions, sock, EGRESS_CONTROL_FD);
    if (r == 0)
        r = posix_spawn(ret, program, &actions, NULL, (char **)(uintptr_t)argv,
                        (char **)(uintptr_t)env);
    (void)posix_spawn_file_actions_destroy(&actions);
    return -r;
}

static int send_message(int sock, const struct egress_message *m, int door, struct cay_error *err) {
    int r = fd_send(sock, m, sizeof *m, &door, door >= 0 ? 1 : 0);
    if (r == 0)
        return 0;
    error_sys(err, -r, "telling the proxy what sandbox %s may reach", m->id);
    return error_remedy(err, "try again: it is started anew");
}

int egress_send_set(int sock, const struct egress_wish *wish, struct cay_error *err) {
    struct egress_message m = {.op = EGRESS_SET, .owner_max = wish->owner_max};
    if (str_copy(m.id, sizeof m.id, wish->id) < 0 ||
        str_copy(m.owner, sizeof m.owner, wish->owner) < 0 ||
        str_copy(m.network, sizeof m.network, wish->network) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "the network list is too long");
    return send_message(sock, &m, wish->door, err);
}

int egress_send_drop(int sock, const char *id, struct cay_error *err) {
    struct egress_message m = {.op = EGRESS_DROP};
    if (str_copy(m.id, sizeof m.id, id) < 0)
        return error_set(err, CAY_INVALID_ARGUMENT, "this is no id");
    return send_message(sock, &m, -1, err);
}
