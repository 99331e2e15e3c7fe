#include <cay.h>

#include "base/json/jsonw.h"
#include "cli/cli.h"

static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    const struct verb_common *common = values;
    (void)cmd, (void)argc, (void)argv;
    _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
    if (common->output == OUTPUT_JSON) {
        struct jsonw w = JSONW_INIT(&b);
        jsonw_begin_object(&w);
        jsonw_put_string(&w, "version", cay_version());
        jsonw_end_object(&w);
        (void)buf_putc(&b, '\n');
    } else {
        (void)buf_printf(&b, "cay %s\n", cay_version());
    }
    return verb_print(&b);
}

const struct opt_command cli_version = {
    .name = "version",
    .path = "cay version",
    .synopsis = "[OPTIONS]",
    .summary = "print the version",
    .values_size = sizeof(struct verb_common),
    .run = run,
};
