#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/json/json.h"
#include "image/alias.h"
#include "imager/build/state.h"
#include "imager/layer/manifest.h"
#include "imager/transfer/write_image.h"

static const char default_path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/* ---- planning ---- */

/* The earlier stage of this name (no case, as Docker), below `limit`; the last one wins. */
static struct build_stage *named_stage(const struct build *b, const char *name, size_t limit) {
    for (size_t i = limit; i-- > 0;)
        if (b->stages[i].name != NULL && strcasecmp(b->stages[i].name, name) == 0)
            return &b->stages[i];
    return NULL;
}

static int cut_stages(struct build *b, struct cay_error *err) {
    const struct dockerfile *file = b->file;
    b->stages = calloc(file->count, sizeof *b->stages);
    if (b->stages == NULL)
        return build_no_memory(err);
    for (size_t i = 0; i < file->count; i++) {
        const struct instruction *in = &file->list[i];
        if (in->op == DOCKERFILE_FROM) {
            struct build_stage *s = &b->stages[b->stage_count++];
            *s = (struct build_stage){.from = in, .list = in + 1};
            s->name = in->words.len == 3 ? in->words.v[2] : NULL;
        } else if (b->stage_count > 0) {
            b->stages[b->stage_count - 1].count++;
        } else {
            int r = build_global_arg(b, in, err);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

static int find_target(struct build *b, struct cay_error *err) {
    uint64_t index;
    b->target = b->stage_count - 1;
    if (b->options->target == NULL)
        return 0;
    const struct build_stage *s = named_stage(b, b->options->target, b->stage_count);
    if (s != NULL)
        b->target = (size_t)(s - b->stages);
    else if (str_to_u64(b->options->target, b->stage_count - 1, &index) == 0)
        b->target = (size_t)index;
    else {
        char shown[120];
        (void)error_set(err, CAY_NOT_FOUND, "the Dockerfile has no stage '%s'",
                        str_escape(shown, sizeof shown, b->options->target));
        return error_remedy(err, "name one of its FROM … AS NAME with --target");
    }
    return 0;
}

int build_find_stage(const struct build *b, const struct build_stage *s,
                     const struct instruction *in, const char *name, const struct build_stage **ret,
                     struct cay_error *err) {
    size_t self = (size_t)(s - b->stages);
    uint64_t index;
    *ret = named_stage(b, name, self);
    if (*ret != NULL)
        return 0;
    char shown[120];
    (void)str_escape(shown, sizeof shown, name);
    if (named_stage(b, name, b->stage_count) != NULL) {
        (void)build_refuse(
            in, err, "'%s' is this stage or a later one: stages would need each other", shown);
        return error_remedy(err, "move the stage '%s' up", shown);
    }
    if (str_to_u64(name, UINT64_MAX, &index) < 0)
        return 0;
    if (index >= self) {
        (void)build_refuse(in, err, "stage %s is not before this one, which is stage %zu", shown,
                           self);
        return error_remedy(err, "stages are counted from 0; better name them: FROM … AS NAME");
    }
    *ret = &b->stages[index];
    return 0;
}

/* The earlier stage that FROM names, after its variables were put in. */
static int base_stage(struct build *b, const struct build_stage *s, char **ret_name,
                      struct build_stage **ret, struct cay_error *err) {
    struct word_scope scope = build_global_scope(b);
    *ret_name = word_expanded(&scope, s->from->words.v[0], err);
    if (*ret_name == NULL)
        return error_prefix(err, "Dockerfile:%u", s->from->line);
    if ((*ret_name)[0] == '\0') {
        (void)build_refuse(s->from, err, "the name of the base is empty: '%.80s'",
                           s->from->words.v[0]);
        return error_remedy(err, "give the variable a value by ARG above FROM, or by --build-arg");
    }
    *ret = named_stage(b, *ret_name, (size_t)(s - b->stages));
    return 0;
}

static int mark_needed(struct build *b, struct cay_error *err) {
    b->stages[b->target].needed = true;
    for (size_t i = b->target + 1; i-- > 0;) { /* stages need earlier ones only */
        struct build_stage *s = &b->stages[i], *base = NULL;
        _cleanup_(freep) char *name = NULL;
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): there is a stage, it was parsed */
        if (!s->needed)
            continue;
        int r = base_stage(b, s, &name, &base, err);
        if (r < 0)
            return r;
        if (base != NULL)
            base->needed = true;
        b->steps += 1 + s->count;
        for (size_t k = 0; k < s->count; k++) {
            const char *from = instruction_flag(&s->list[k], "from");
            const struct build_stage *other = NULL;
            r = from == NULL ? 0 : build_find_stage(b, s, &s->list[k], from, &other, err);
            if (r < 0)
                return r;
            if (other != NULL)
                b->stages[other - b->stages].needed = true;
        }
    }
    return 0;
}

/* What BuildKit tells of the platform, for FROM and for ARG without a value. */
static int set_platform_args(struct build *b, struct cay_error *err) {
    const struct platform *p = &b->options->pull.platform;
    struct platform here = platform_here();
    if (p->os[0] != '\0')
        here = *p;
    char text[128];
    (void)snprintf(text, sizeof text, "%s/%s%s%s", here.os, here.architecture,
                   here.variant[0] != '\0' ? "/" : "", here.variant);
    static const char *const sides[] = {"TARGET", "BUILD"};
    for (size_t i = 0; i < ARRAY_LEN(sides); i++)
        if (strv_pushf(&b->globals, "%sPLATFORM=%s", sides[i], text) < 0 ||
            strv_pushf(&b->globals, "%sOS=%s", sides[i], here.os) < 0 ||
            strv_pushf(&b->globals, "%sARCH=%s", sides[i], here.architecture) < 0 ||
            strv_pushf(&b->globals, "%sVARIANT=%s", sides[i], here.variant) < 0)
            return build_no_memory(err);
    return 0;
}

int build_plan(struct build *b, struct cay_error *err) {
    int r = set_platform_args(b, err);
    if (r == 0)
        r = cut_stages(b, err);
    if (r == 0)
        r = find_target(b, err);
    return r == 0 ? mark_needed(b, err) : r;
}

/* ---- records ---- */

static int copy_list(const struct strv *from, struct strv *to) {
    *to = (struct strv){0};
    for (size_t i = 0; i < from->len; i++)
        if (strv_push(to, from->v[i]) < 0)
            return -ENOMEM;
    return 0;
}

static struct image_record *copy_record(const struct image_record *from) {
    _cleanup_(record_freep) struct image_record *to = record_new();
    if (to == NULL)
        return NULL;
    *to = *from;
    to->layers = NULL;
    to->layer_count = 0;
    to->env = to->entrypoint = to->cmd = to->volumes = to->ports = to->labels = (struct strv){0};
    int r = copy_list(&from->env, &to->env);
    r |= copy_list(&from->entrypoint, &to->entrypoint);
    r |= copy_list(&from->cmd, &to->cmd);
    r |= copy_list(&from->volumes, &to->volumes);
    r |= copy_list(&from->ports, &to->ports);
    r |= copy_list(&from->labels, &to->labels);
    for (size_t i = 0; r == 0 && i < from->layer_count; i++) {
        struct record_layer *layer = record_add_layer(to);
        if (layer == NULL)
            return NULL;
        *layer = from->layers[i];
    }
    return r == 0 ? TAKE_PTR(to) : NULL;
}

static int64_t parse_created(const char *text) {
    struct tm tm = {0};
    if (strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) == NULL)
        return 0;
    return MAX((int64_t)timegm(&tm), (int64_t)0);
}

/* The host image is made of this machine's own files, and has no layers to build on. */
static int refuse_host(struct cay_error *err) {
    error_set(err, CAY_INVALID_ARGUMENT,
              "nothing can be built on 'host': it is this machine's /usr, "
              "not an image of the store");
    return error_remedy(err, "name an image that cay image ls lists, or of a registry; another one "
                             "that is called so has to be written as docker.io/library/host");
}

int build_open_image(const struct build *b, const char *name, const struct platform *platform,
                     struct image_record **ret, struct cay_error *err) {
    struct pull_options pull = b->options->pull;
    struct reference ref;
    char id[HEX_SIZE], other[REFERENCE_TEXT_SIZE];
    if (platform != NULL)
        pull.platform = *platform;
    int r = pull.aliases != NULL ? image_alias(pull.aliases, name, other, err) : 0;
    if (r < 0)
        return r;
    if (r > 0) {
        char shown[REFERENCE_TEXT_SIZE];
        build_log(b, " notice: %s is an alias of %s here", str_escape(shown, sizeof shown, name),
                  other);
        name = other;
    }
    if (str_equal(name, "host"))
        return refuse_host(err);
    if (reference_is_id(name))
        r = image_store_find(b->store, name, id, err);
    else if ((r = reference_parse(name, &ref, err)) == 0)
        r = image_pull(b->store, &ref, &pull, id, err);
    return r < 0 ? r : image_store_read_record(b->store, id, ret, err);
}

/* Triggers are no part of what cay keeps of an image; whoever relies on them must know. */
static void report_triggers(const struct build *b, const struct image_record *record) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(MANIFEST_SIZE_MAX);
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct json config, triggers;
    _cleanup_(closep) int fd = image_store_open_blob(b->store, record->id);
    if (fd < 0 || fd_read_to_end(fd, &text) < 0 ||
        json_parse("configuration", buf_text(&text), text.len, &doc, NULL) < 0)
        return;
    struct json root = json_root(doc, "");
    if (json_child(&root, "config", &config) && json_child(&config, "OnBuild", &triggers) &&
        json_count(&triggers) > 0)
        build_log(b, " notice: the base has %zu ONBUILD triggers, which are not run",
                  json_count(&triggers));
}

static int from_scratch(const struct build *b, struct build_stage *s, struct cay_error *err) {
    struct platform p = b->options->pull.platform;
    if (p.os[0] == '\0')
        p = platform_here();
    s->record = record_new();
    if (s->record == NULL)
        return build_no_memory(err);
    memcpy(s->record->os, p.os, sizeof p.os);
    memcpy(s->record->architecture, p.architecture, sizeof p.architecture);
    memcpy(s->record->variant, p.variant, sizeof p.variant);
    return 0;
}

static int from_image(struct build *b, struct build_stage *s, const char *name,
                      struct cay_error *err) {
    struct platform platform;
    const char *flag = instruction_flag(s->from, "platform");
    int r = 0;
    if (flag != NULL) {
        struct word_scope scope = build_global_scope(b);
        _cleanup_(freep) char *text = word_expanded(&scope, flag, err);
        r = text == NULL ? -CAY_INVALID_ARGUMENT : platform_parse(text, &platform, err);
    }
    if (r == 0)
        r = build_open_image(b, name, flag != NULL ? &platform : NULL, &s->record, err);
    if (r < 0)
        return error_prefix(err, "Dockerfile:%u: FROM", s->from->line);
    report_triggers(b, s->record);
    return 0;
}

/* What a new stage has of its base, and what it begins anew. */
static int begin_stage(struct build_stage *s, const struct build_stage *base, const struct build *b,
                       struct cay_error *err) {
    s->epoch = MAX(parse_created(s->record->created), b->options->dockerfile_mtime);
    if (base != NULL) {
        s->epoch = MAX(s->epoch, base->epoch);
        if (copy_list(&base->history, &s->history) < 0 || copy_list(&base->shell, &s->shell) < 0)
            return build_no_memory(err);
    }
    while (s->history.len < s->record->layer_count)
        if (strv_push(&s->history, s->from->text) < 0)
            return build_no_memory(err);
    if (build_get(&s->record->env, "PATH") == NULL &&
        build_set(&s->record->env, "PATH", default_path) < 0)
        return build_no_memory(err);
    return 0;
}

int build_from(struct build *b, struct build_stage *s, struct cay_error *err) {
    _cleanup_(freep) char *name = NULL;
    struct build_stage *base = NULL;
    int r = base_stage(b, s, &name, &base, err);
    if (r < 0)
        return r;
    if (base != NULL) {
        s->record = copy_record(base->record);
        r = s->record == NULL ? build_no_memory(err) : 0;
    } else {
        r = str_equal(name, "scratch") ? from_scratch(b, s, err) : from_image(b, s, name, err);
    }
    return r < 0 ? r : begin_stage(s, base, b, err);
}

/* ---- the result ---- */

static void set_created(const struct build *b, struct build_stage *s) {
    int64_t given = b->options->source_date_epoch;
    time_t t = given >= 0 ? given : s->epoch;
    struct tm tm;
    if (gmtime_r(&t, &tm) == NULL ||
        strftime(s->record->created, sizeof s->record->created, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        s->record->created[0] = '\0';
}

static int apply_labels(const struct build *b, struct build_stage *s, struct cay_error *err) {
    for (size_t i = 0; i < b->options->labels.len; i++) {
        const char *label = b->options->labels.v[i];
        size_t len = strcspn(label, "=");
        _cleanup_(freep) char *name = strndup(label, len);
        if (name == NULL ||
            build_set(&s->record->labels, name, label[len] == '=' ? label + len + 1 : "") < 0)
            return build_no_memory(err);
    }
    return 0;
}

int build_finish(struct build *b, struct build_stage *s, char id[static HEX_SIZE],
                 struct cay_error *err) {
    struct image_record *record = s->record;
    int r = apply_labels(b, s, err);
    if (r < 0)
        return r;
    set_created(b, s);
    record->manifest[0] = '\0'; /* layers are kept unpacked: there is nothing that one could name */
    r = image_keep(b->store, record, (const char *const *)s->history.v, err);
    memcpy(id, record->id, HEX_SIZE);
    return r;
}
