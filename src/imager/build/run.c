#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/path.h"
#include "imager/build/state.h"
#include "imager/layer/layer.h"
#include "imager/runner.h"

enum { SCRIPT_MAX = 2 * DOCKERFILE_TEXT_MAX };

/* ---- what to run ---- */

/* The only thing on the line is the heredoc: its content is the script. */
static bool is_script(const struct instruction *in) {
    const char *word = in->words.v[0];
    word += strspn(word, "0123456789");
    return in->heredoc_count == 1 && str_starts(word, "<<") && strpbrk(word, " \t") == NULL;
}

/* A name for a heredoc that is no line of the script. */
static void choose_mark(const char *script, char mark[static 32]) {
    for (unsigned i = 0;; i++) {
        (void)snprintf(mark, 32, "CAY_SCRIPT_%u", i);
        if (strstr(script, mark) == NULL)
            return;
    }
}

/* A script with "#!" goes to its interpreter as a file on standard input: nothing is left behind in
 * the image, and every shell and interpreter reads it so. */
static void put_interpreted(struct buf *out, const char *script) {
    char mark[32];
    choose_mark(script, mark);
    const char *end = strchrnul(script, '\n');
    (void)buf_append(out, script + 2, (size_t)(end - script - 2));
    (void)buf_printf(out, " <<'%s'\n%s%s\n", mark, script, mark);
}

static int put_command(const struct instruction *in, struct buf *out) {
    if (in->heredoc_count == 0)
        return buf_puts(out, in->words.v[0]);
    if (is_script(in)) {
        const char *script = in->heredocs[0].content;
        if (str_starts(script, "#!"))
            put_interpreted(out, script);
        else
            (void)buf_puts(out, script);
        return 0;
    }
    (void)buf_puts(out, in->words.v[0]);
    for (size_t i = 0; i < in->heredoc_count; i++)
        (void)buf_printf(out, "\n%s%s", in->heredocs[i].content, in->heredocs[i].name);
    return buf_putc(out, '\n');
}

static int make_argv(const struct build_stage *s, const struct instruction *in, struct strv *ret,
                     struct cay_error *err) {
    _cleanup_(buf_free) struct buf command = BUF_INIT(SCRIPT_MAX);
    int r = 0;
    if (in->exec) {
        for (size_t i = 0; r == 0 && i < in->words.len; i++)
            r = strv_push(ret, in->words.v[i]);
        return r < 0 ? build_no_memory(err) : 0;
    }
    for (size_t i = 0; r == 0 && i < s->shell.len; i++)
        r = strv_push(ret, s->shell.v[i]);
    if (r == 0 && s->shell.len == 0)
        r = strv_push(ret, "/bin/sh") < 0 ? -ENOMEM : strv_push(ret, "-c");
    (void)put_command(in, &command);
    if (r < 0 || command.failed || strv_push(ret, buf_text(&command)) < 0)
        return build_no_memory(err);
    return 0;
}

/* ENV, then ARG where ENV says nothing, as Docker does it. */
static int make_env(const struct build_stage *s, struct strv *ret, struct cay_error *err) {
    for (size_t i = 0; i < s->record->env.len; i++)
        if (strv_push(ret, s->record->env.v[i]) < 0)
            return build_no_memory(err);
    for (size_t i = 0; i < s->args.len; i++) {
        char name[256];
        size_t len = strcspn(s->args.v[i], "=");
        if (len >= sizeof name)
            continue;
        memcpy(name, s->args.v[i], len);
        name[len] = '\0';
        if (build_get(ret, name) == NULL && strv_push(ret, s->args.v[i]) < 0)
            return build_no_memory(err);
    }
    return 0;
}

/* What the command sees, but what must not decide whether it runs again. */
static int add_ambient(const struct build *b, const struct build_stage *s, struct strv *env,
                       struct cay_error *err) {
    static const char *const proxies[] = {"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy",
                                          "FTP_PROXY",  "ftp_proxy",  "NO_PROXY",    "no_proxy",
                                          "ALL_PROXY",  "all_proxy"};
    for (size_t i = 0; i < ARRAY_LEN(proxies); i++) {
        const char *value = build_get(&b->options->args, proxies[i]);
        if (value != NULL && build_get(env, proxies[i]) == NULL &&
            strv_pushf(env, "%s=%s", proxies[i], value) < 0)
            return build_no_memory(err);
    }
    /* compilers that write times into files take this one, as the layer does */
    int64_t given = b->options->source_date_epoch;
    if (build_get(env, "SOURCE_DATE_EPOCH") == NULL &&
        strv_pushf(env, "SOURCE_DATE_EPOCH=%" PRId64, given >= 0 ? given : s->epoch) < 0)
        return build_no_memory(err);
    return 0;
}

/* ---- running ---- */

static int choose_network(const struct build *b, const struct instruction *in, const char **ret,
                          struct cay_error *err) {
    const char *flag = instruction_flag(in, "network");
    *ret = b->options->network != NULL ? b->options->network : "none";
    if (flag == NULL || str_equal(flag, "default"))
        return 0;
    *ret = "none";
    if (str_equal(flag, "none"))
        return 0;
    (void)build_refuse(in, err,
                       "RUN --network=%.40s is not possible: a build never gets the host's "
                       "network",
                       flag);
    return error_remedy(err, "leave the flag away, and choose by `cay image build --network`");
}

static int check_flags(const struct instruction *in, struct cay_error *err) {
    static const char *const refused[] = {"mount", "security"};
    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        if (instruction_flag(in, refused[i]) != NULL) {
            (void)build_refuse(in, err, "RUN --%s is not supported", refused[i]);
            return error_remedy(err, "%s",
                                i == 0 ? "COPY what the command needs, and remove in the "
                                         "same RUN what must not stay"
                                       : "remove it: every RUN has the same walls");
        }
    return 0;
}

static int report_exit(const struct build *b, const struct instruction *in, int code,
                       struct cay_error *err) {
    char shown[200];
    (void)error_set(err, CAY_INTERNAL,
                    "Dockerfile:%u: step %zu/%zu: the command ended with exit code %d: %s",
                    in->line, b->step, b->steps, code, str_escape(shown, sizeof shown, in->text));
    if (code == 127)
        return error_remedy(err, "the program is not in the image, or its interpreter is not");
    return error_remedy(err, "its output is above; the steps before it are kept in the cache");
}

/* Names of the sandbox, not of the image: Docker mounts them over it, so that what a command does
 * to them is gone afterwards. The folder was the command's to write: no symlink is followed. */
static void forget_own_files(int fs) {
    static const char *const names[] = {"hostname", "hosts", "resolv.conf"};
    _cleanup_(closep) int etc = path_open_no_symlinks(fs, "etc", O_PATH | O_DIRECTORY, 0);
    for (size_t i = 0; etc >= 0 && i < ARRAY_LEN(names); i++)
        (void)unlinkat(etc, names[i], 0); /* most commands leave them alone */
}

static int execute(const struct build *b, struct build_stage *s, const struct instruction *in,
                   const struct runner_command *command, struct layer_work *work,
                   struct cay_error *err) {
    int code = 0;
    int r = runner_run(b->options->runner, command, &code, err);
    if (r < 0)
        return error_prefix(err, "Dockerfile:%u: RUN", in->line);
    if (code != 0)
        return report_exit(b, in, code, err);
    _cleanup_(closep) int fs = openat(work->dir, "fs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fs < 0)
        return error_errno(err, "opening what the command wrote");
    forget_own_files(fs);
    return layer_tidy(b->store, fs, s->record->layers, s->record->layer_count, err);
}

static void make_key(const struct build *b, const struct build_stage *s, const struct strv *argv,
                     const struct strv *env, const char *network, char key[static HEX_SIZE]) {
    _cleanup_(digest_freep) struct digest *d = build_key_new(b, s, "RUN");
    build_key_put_list(d, argv);
    build_key_put_list(d, env);
    build_key_put(d, s->record->user);
    build_key_put(d, s->record->working_dir);
    build_key_put(d, network);
    digest_finish(d, key);
}

static int run_in_layer(struct build *b, struct build_stage *s, const struct instruction *in,
                        const struct strv *argv, const struct strv *env, const char *network,
                        const char *key, struct cay_error *err) {
    struct layer_work work = LAYER_WORK_NONE;
    int r = image_store_begin_layer(b->store, &work, err);
    if (r < 0)
        return r;
    struct runner_command command = {
        .below = s->record->layers,
        .below_count = s->record->layer_count,
        .work = work.name,
        .argv = (const char *const *)argv->v,
        .env = (const char *const *)env->v,
        .cwd = s->record->working_dir[0] != '\0' ? s->record->working_dir : "/",
        .user = s->record->user,
        .network = network,
        .memory_bytes = b->options->memory_bytes,
        .cpus = b->options->cpus,
        .output = b->options->log,
    };
    r = execute(b, s, in, &command, &work, err);
    if (r == 0)
        r = build_seal(b, s, in, &work, key, err);
    image_store_abandon_layer(b->store, &work);
    return r;
}

int build_run(struct build *b, struct build_stage *s, const struct instruction *in,
              struct cay_error *err) {
    _cleanup_(strv_free) struct strv argv = {0}, env = {0};
    const char *network = "none";
    char key[HEX_SIZE];
    int r = check_flags(in, err);
    if (r == 0)
        r = choose_network(b, in, &network, err);
    if (r == 0)
        r = make_argv(s, in, &argv, err);
    if (r == 0)
        r = make_env(s, &env, err);
    if (r < 0)
        return r;
    if (argv.len == 0)
        return build_refuse(in, err, "RUN has no command");
    make_key(b, s, &argv, &env, network, key);
    if (build_reuse(b, s, in, key))
        return 0;
    r = add_ambient(b, s, &env, err);
    return r < 0 ? r : run_in_layer(b, s, in, &argv, &env, network, key, err);
}
