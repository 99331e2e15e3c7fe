/* `cay rename`: another name for a sandbox. */
#include "base/json/jsonw.h"
#include "cli/cli.h"
#include "cli/sandbox.h"

static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc;
    _cleanup_(buf_free) struct buf body = BUF_INIT(8192);
    struct jsonw w = JSONW_INIT(&body);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "name", argv[1]);
    jsonw_end_object(&w);
    const struct sandbox_request req = {
        .method = "POST", .before = "/api/cay/sandbox/", .after = "/rename", .body = &body};
    return sandbox_each(values, &req, 1, argv);
}

const struct opt_command cli_rename = {
    .name = "rename",
    .path = "cay rename",
    .synopsis = "[OPTIONS] SANDBOX NAME",
    .summary = "give a sandbox another name",
    .group = CLI_SANDBOXES,
    .candidates = CLI_CANDIDATES,
    .min_operands = 2,
    .max_operands = 2,
    .values_size = sizeof(struct verb_common),
    .run = run,
};
