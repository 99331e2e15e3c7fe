/* `cay cp`: files into and out of a sandbox. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json/jsonw.h"
#include "cli/cli.h"
#include "cli/sandbox.h"
#include "client/copy.h"

/* "NAME:PATH": where the path begins, or NULL for a path of this host. A name has no slash, so
 * "./a:b" is a file. */
static const char *path_inside(const char *word) {
    size_t len = strcspn(word, ":/");
    return word[len] == ':' && len > 0 ? word + len + 1 : NULL;
}

static int one_side(struct cay_error *err) {
    error_set(err, CAY_INVALID_ARGUMENT, "exactly one side must be in a sandbox");
    return error_remedy(err, "write it as SANDBOX:PATH, and ./a:b for a file with a colon");
}

/* The name before the colon. */
static int take_name(const char *word, const char *path, char name[static 256],
                     struct cay_error *err) {
    size_t len = (size_t)(path - word) - 1;
    if (len >= 256)
        return error_set(err, CAY_NOT_FOUND, "no sandbox has a name as long as '%.60s…'", word);
    memcpy(name, word, len);
    name[len] = '\0';
    return 0;
}

/* ---- how far it is ---- */

enum { FIRST_MS = 500, EVERY_MS = 100, BAR = 24 };

struct meter {
    int64_t begin, next;
    bool shown;
};

/* "#######-----------------  31 %" if it is known what will come. */
static void put_bar(struct buf *b, uint64_t bytes, uint64_t total) {
    if (total == 0)
        return;
    double share = MIN((double)bytes / (double)total, 1.0);
    for (int i = 0; i < BAR; i++)
        (void)buf_putc(b, i < (int)(share * BAR) ? '#' : '-');
    (void)buf_printf(b, "  %3d %%  ", (int)(share * 100));
}

/* One line that is written over and over; short copies show none. */
static void report(void *arg, uint64_t bytes, uint64_t total) {
    struct meter *m = arg;
    int64_t now = clock_ms();
    char done[32], rate[32];
    if (now < m->next)
        return;
    m->next = now + EVERY_MS;
    m->shown = true;
    double seconds = (double)MAX(now - m->begin, INT64_C(1)) / 1000;
    _cleanup_(buf_free) struct buf b = BUF_INIT(256);
    put_bar(&b, bytes, total);
    (void)buf_printf(&b, "%s  %s/s", str_bytes(bytes, done),
                     str_bytes((uint64_t)((double)bytes / seconds), rate));
    (void)fprintf(stderr, "\r\033[K%s", buf_text(&b));
}

/* Where nobody looks, or where it would be in the way, nothing is shown. */
static bool is_watched(const struct sandbox_verb *v, const char *to) {
    bool in_the_way = strcmp(to, "-") == 0 && isatty(STDOUT_FILENO);
    return isatty(STDERR_FILENO) && !v->common->quiet && v->common->output != OUTPUT_JSON &&
           !in_the_way;
}

/* ---- copying ---- */

static int copy(struct sandbox_verb *v, const char *from, const char *to,
                struct copy_totals *totals) {
    const char *from_inside = path_inside(from), *to_inside = path_inside(to);
    char name[256];
    if ((from_inside != NULL) == (to_inside != NULL))
        return one_side(&v->err);
    bool out = from_inside != NULL;
    int r = take_name(out ? from : to, out ? from_inside : to_inside, name, &v->err);
    if (r == 0)
        r = sandbox_verb_open(v);
    if (r < 0)
        return r;
    int64_t now = clock_ms();
    struct meter meter = {.begin = now, .next = now + FIRST_MS};
    const struct copy_watch watch = {.tell = report, .arg = &meter};
    const struct copy_watch *w = is_watched(v, to) ? &watch : NULL;
    r = out ? copy_out(&v->daemon, name, from_inside, to, w, totals, &v->err)
            : copy_in(&v->daemon, from, name, to_inside, w, totals, &v->err);
    if (meter.shown)
        (void)fputs("\r\033[K", stderr);
    return r;
}

/* Nothing where standard output is the copy. */
static int print_json(const struct copy_totals *totals, const char *to) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
    struct jsonw w = JSONW_INIT(&b);
    if (strcmp(to, "-") == 0)
        return 0;
    jsonw_begin_object(&w);
    jsonw_put_unsigned(&w, "members", totals->members);
    jsonw_put_unsigned(&w, "bytes", totals->bytes);
    jsonw_put_string(&w, "note", totals->note[0] != '\0' ? totals->note : NULL);
    jsonw_end_object(&w);
    (void)buf_putc(&b, '\n');
    return verb_print(&b);
}

static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    (void)cmd, (void)argc;
    _cleanup_(sandbox_verb_free) struct sandbox_verb v = SANDBOX_VERB_INIT(values);
    struct copy_totals totals = {0};
    (void)signal(SIGPIPE, SIG_IGN); /* a connection that breaks off is told */
    if (copy(&v, argv[0], argv[1], &totals) < 0)
        return verb_fail(&v.err);
    if (totals.note[0] != '\0' && !v.common->quiet)
        verb_note("%s", totals.note);
    return v.common->output == OUTPUT_JSON ? print_json(&totals, argv[1]) : 0;
}

const struct opt_command cli_cp = {
    .name = "cp",
    .path = "cay cp",
    .synopsis = "[OPTIONS] SOURCE DESTINATION",
    .summary = "copy files into or out of a sandbox",
    .help = "One side is SANDBOX:PATH, relative to the sandbox's work folder unless it begins with "
            "a slash. Folders are copied with all that is in them; modes, times, symlinks and hard "
            "links are kept, set-id bits and owners are not.\n\n"
            "A destination that is a folder is copied into; 'folder/.' as the source stands for "
            "what is in it.\n\n"
            "'-' is standard input or output: the content of a file, or a tar archive where the "
            "other side is a folder.\n\n"
            "On a terminal a copy that takes longer shows how far it is; --quiet shows nothing.",
    .examples = "cay cp data.csv web:\n"
                "cay cp web:/workspace/out ./results\n"
                "cay cp src/. web:/workspace\n"
                "echo hello | cay cp - web:greeting.txt\n"
                "cay cp web:/etc - | tar t\n",
    .group = CLI_SANDBOXES,
    .min_operands = 2,
    .max_operands = 2,
    .values_size = sizeof(struct verb_common),
    .run = run,
};
