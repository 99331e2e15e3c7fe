/* `cay-image`: what `cay image …` executes. */
#include <signal.h>

#include "base/error.h"
#include "base/fd.h"
#include "confine/privilege.h"
#include "imager/verbs/verbs.h"

static const struct {
    const struct opt_command *command;
    int (*work)(const void *values, int argc, char **argv);
} verbs[] = {
    {&verb_image_ls, do_ls},
    {&verb_image_inspect, do_inspect},
    {&verb_image_rm, do_rm},
    {&verb_image_tag, do_tag},
    {&verb_image_public, do_public},
    {&verb_image_prune, do_prune},
    {&verb_image_pull, do_pull},
    {&verb_image_ensure, do_ensure},
    {&verb_image_load, do_load},
    {&verb_image_save, do_save},
    {&verb_image_import, do_import},
    {&verb_image_export, do_export},
    {&verb_image_build, do_build},
    {&verb_image_make, do_make},
    {&verb_image_login, do_login},
    {&verb_image_logout, do_logout},
    {&verb_image_snapshot, do_snapshot},
    {&verb_image_archive, do_archive},
    {&verb_image_restore, do_restore},
    {&verb_image_store, do_store},
    {&verb_image_credential, do_credential},
};

static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    struct cay_error err;
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        if (verbs[i].command == cmd)
            return verbs[i].work(values, argc, argv);
    error_set(&err, CAY_INTERNAL, "'%s' has no function", cmd->path);
    return verb_fail(&err);
}

static const struct verb_program program = {
    .path = "cay image",
    .about = "Images: where the files of sandboxes come from.",
    .commands = verb_image_all,
    .run = run,
};

int main(int argc, char **argv) {
    if (fd_open_standard() < 0)
        return 1;
    /* A caller that ignores it would keep from us how our own children ended. */
    (void)signal(SIGCHLD, SIG_DFL);
    /* Whoever hangs up on us is met as an error where it happens. */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)privilege_reset_oom_score(); /* a daemon that is protected is no reason for us to be */
    return verb_main(&program, argc, argv);
}
