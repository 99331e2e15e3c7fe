/* `cay config`: the settings in effect, and where each came from. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json/jsonw.h"
#include "cli/cli.h"
#include "config/config.h"

enum { ORIGIN_SIZE = 512, NAME_SIZE = 96, SHOWN_SIZE = 256 };

struct config_options {
    struct verb_common common;
    bool origin;
};

static const struct opt options[] = {
    {.name = "origin",
     OPT_TO_FLAG(struct config_options, origin),
     .help = "show the layer of each value too, the files that were read, and what was ignored"},
    {0},
};

struct row {
    char name[NAME_SIZE];
    char origin[ORIGIN_SIZE];
    const char *layer;
    const char *value;
};

static struct row row_of(const struct config *config, const struct config_key *keys, size_t i) {
    const char *value = config->values[i].text;
    struct row row = {.value = keys[i].secret && value[0] != '\0' ? "(secret)" : value};
    (void)snprintf(row.name, sizeof row.name, "%s.%s", keys[i].section, keys[i].name);
    (void)config_origin(config, i, row.origin, sizeof row.origin);
    row.layer = config_source_name(config->values[i].source);
    return row;
}

static bool is_key(const char *word) {
    size_t count;
    const struct config_key *keys = config_keys(&count);
    char name[NAME_SIZE];
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(name, sizeof name, "%s.%s", keys[i].section, keys[i].name);
        if (strcmp(name, word) == 0)
            return true;
    }
    return false;
}

/* The whole name of a key means this key, also where others begin with it. */
static bool is_wanted(const struct row *row, int argc, char **argv) {
    for (int i = 0; i < argc; i++)
        if (is_key(argv[i]) ? strcmp(row->name, argv[i]) == 0
                            : strncmp(row->name, argv[i], strlen(argv[i])) == 0)
            return true;
    return argc == 0;
}

/* The file that counts most, or NULL. */
static const char *last_file(const struct config *config) {
    for (size_t i = CONFIG_SOURCES; i-- > 0;)
        if (config->files[i].path != NULL)
            return config->files[i].path;
    return NULL;
}

static void put_json_files(struct jsonw *w, const struct config *config) {
    jsonw_key(w, "files");
    jsonw_begin_array(w);
    for (size_t i = 0; i < CONFIG_SOURCES; i++) {
        const struct config_file *file = &config->files[i];
        if (file->path == NULL)
            continue;
        jsonw_begin_object(w);
        jsonw_put_string(w, "layer", config_source_name((enum config_source)i));
        jsonw_put_string(w, "path", file->path);
        jsonw_put_string(w, "limited", file->limited);
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}

static void put_json_ignored(struct jsonw *w, const struct config *config) {
    jsonw_key(w, "ignored");
    jsonw_begin_array(w);
    for (size_t i = 0; i < config->refusal_count; i++) {
        const struct config_refusal *r = &config->refusals[i];
        jsonw_begin_object(w);
        jsonw_put_string(w, "key", r->name);
        jsonw_put_string(w, "file", config->files[r->source].path);
        jsonw_put_unsigned(w, "line", r->line);
        jsonw_put_string(w, "reason",
                         r->widens ? "a limited file may only narrow it"
                                   : "a limited file may not set it");
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}

static void put_json(struct buf *b, const struct config *config, int argc, char **argv) {
    size_t count;
    const struct config_key *keys = config_keys(&count);
    struct jsonw w = JSONW_INIT(b);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "file", last_file(config));
    put_json_files(&w, config);
    jsonw_key(&w, "settings");
    jsonw_begin_array(&w);
    for (size_t i = 0; i < count; i++) {
        struct row row = row_of(config, keys, i);
        if (!is_wanted(&row, argc, argv))
            continue;
        jsonw_begin_object(&w);
        jsonw_put_string(&w, "key", row.name);
        jsonw_put_string(&w, "value", row.value);
        jsonw_put_string(&w, "origin", row.origin);
        jsonw_put_string(&w, "layer", row.layer);
        jsonw_put_string(&w, "about", keys[i].help);
        jsonw_end_object(&w);
    }
    jsonw_end_array(&w);
    put_json_ignored(&w, config);
    jsonw_end_object(&w);
    (void)buf_putc(b, '\n');
}

static void put_files(struct buf *b, const struct config *config) {
    char shown[SHOWN_SIZE];
    for (size_t i = 0; i < CONFIG_SOURCES; i++) {
        const struct config_file *file = &config->files[i];
        if (file->path != NULL)
            (void)buf_printf(b, "file %-12s %s%s%s\n", config_source_name((enum config_source)i),
                             str_escape(shown, sizeof shown, file->path),
                             file->limited != NULL ? " may only narrow: " : "",
                             file->limited != NULL ? file->limited : "");
    }
    for (size_t i = 0; i < config->refusal_count; i++) {
        const struct config_refusal *r = &config->refusals[i];
        (void)buf_printf(b, "ignored %-30s %s:%u\n", r->name,
                         str_escape(shown, sizeof shown, config->files[r->source].path), r->line);
    }
}

static void put_table(struct buf *b, const struct config *config, bool with_layer, int argc,
                      char **argv) {
    size_t count;
    const struct config_key *keys = config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        struct row row = row_of(config, keys, i);
        char value[SHOWN_SIZE], origin[SHOWN_SIZE];
        if (is_wanted(&row, argc, argv))
            (void)buf_printf(b, "%-30s %-24s %-*s%s\n", row.name,
                             str_escape(value, sizeof value, row.value), with_layer ? 13 : 0,
                             with_layer ? row.layer : "",
                             str_escape(origin, sizeof origin, row.origin));
    }
}

static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd;
    const struct config_options *o = values;
    const struct verb_common *common = &o->common;
    struct cay_error err;
    _cleanup_(config_freep) struct config *config = NULL;
    if (config_load(common->config, (const char *const *)environ, &config, &err) < 0)
        return verb_fail(&err);
    _cleanup_(buf_free) struct buf b = BUF_INIT(1024 * 1024);
    if (common->output == OUTPUT_JSON)
        put_json(&b, config, argc, argv);
    else
        put_table(&b, config, o->origin, argc, argv);
    if (b.len == 0) {
        error_set(&err, CAY_NOT_FOUND, "no setting begins with '%.60s'", argv[0]);
        (void)error_remedy(&err, "see all of them with 'cay config'");
        return verb_fail(&err);
    }
    if (o->origin && common->output != OUTPUT_JSON)
        put_files(&b, config);
    return verb_print(&b);
}

const struct opt_command cli_config = {
    .name = "config",
    .path = "cay config",
    .synopsis = "[OPTIONS] [KEY...]",
    .summary = "show the settings in effect, and where each came from",
    .help =
        "A setting comes from the environment (CAY_SECTION_KEY), from a configuration file, or is "
        "the default. A file of the current folder may only narrow what the user's and the "
        "system's files allow; --config trusts it. KEY is the beginning of a name: 'sandbox', "
        "'images.pull'.",
    .examples = "cay config\n"
                "cay config --origin remote\n"
                "CAY_SANDBOX_MEMORY_LIMIT=1g cay config sandbox\n",
    .max_operands = OPT_OPERANDS_ANY,
    .options = options,
    .values_size = sizeof(struct config_options),
    .run = run,
};
