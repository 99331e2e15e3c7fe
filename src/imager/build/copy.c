#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/path.h"
#include "imager/build/archive.h"
#include "imager/build/files.h"
#include "imager/build/state.h"
#include "imager/layer/layer.h"

/* A COPY or ADD on its way. */
struct copying {
    struct build *b;
    struct build_stage *s;
    const struct instruction *in;
    struct file_tree tree;
    struct layer from;               /* the other image, if it comes from one */
    struct image_record *from_image; /* if that is no stage */
    struct strv paths;               /* sources as the tree names them */
    struct strv texts;               /* heredocs: name, content, name, content … */
    char to[PATH_MAX];               /* absolute */
    bool into;                       /* it is a folder, or becomes one */
    char *owner;                     /* of --chown, NULL */
    struct file_look look;
    struct cay_error *err;
};

static int at_line(struct copying *c, int r) {
    return r < 0 ? error_prefix(c->err, "Dockerfile:%u: %s", c->in->line,
                                dockerfile_op_name(c->in->op))
                 : r;
}

/* ---- words ---- */

static bool is_url(const char *text) {
    static const char *const starts[] = {"http://", "https://", "ftp://", "git@", "git://"};
    for (size_t i = 0; i < ARRAY_LEN(starts); i++)
        if (strncasecmp(text, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

static int refuse_url(struct copying *c, const char *word) {
    char shown[120];
    (void)error_set(c->err, CAY_UNSUPPORTED, "'%s': nothing is fetched from the network here",
                    str_escape(shown, sizeof shown, word));
    return error_remedy(c->err, "download it beforehand, check its digest, and COPY it");
}

/* The heredoc that a word announces; they come in the order of their words. */
static bool is_heredoc(const char *word) {
    return str_starts(word + strspn(word, "0123456789"), "<<");
}

static int take_heredoc(struct copying *c, const struct heredoc *h) {
    struct word_scope scope = build_scope(c->b, c->s);
    _cleanup_(freep) char *text =
        h->expand ? word_expanded_heredoc(&scope, h->content, c->err) : strdup(h->content);
    if (text == NULL)
        return h->expand ? -CAY_INVALID_ARGUMENT : build_no_memory(c->err);
    if (strchr(h->name, '/') != NULL || str_equal(h->name, ".") || str_equal(h->name, ".."))
        return error_set(c->err, CAY_INVALID_ARGUMENT,
                         "a heredoc's name becomes a file's, "
                         "so it may hold no '/'");
    return strv_push(&c->texts, h->name) < 0 || strv_push(&c->texts, text) < 0
               ? build_no_memory(c->err)
               : 0;
}

static int take_source(struct copying *c, const char *word) {
    struct word_scope scope = build_scope(c->b, c->s);
    _cleanup_(freep) char *source = word_expanded(&scope, word, c->err);
    if (source == NULL)
        return -CAY_INVALID_ARGUMENT;
    if (is_url(source))
        return refuse_url(c, source);
    if (c->tree.root < 0) {
        (void)error_set(c->err, CAY_INVALID_ARGUMENT, "there is no context to copy from");
        return error_remedy(c->err, "name a folder: cay image build FOLDER");
    }
    return files_find(&c->tree, source, &c->paths, c->err);
}

static int take_sources(struct copying *c) {
    size_t heredocs = 0;
    int r = 0;
    for (size_t i = 0; r == 0 && i + 1 < c->in->words.len; i++) {
        const char *word = c->in->words.v[i];
        if (heredocs < c->in->heredoc_count && is_heredoc(word))
            r = take_heredoc(c, &c->in->heredocs[heredocs++]);
        else
            r = take_source(c, word);
    }
    return r;
}

static int take_destination(struct copying *c) {
    struct word_scope scope = build_scope(c->b, c->s);
    const struct strv *words = &c->in->words;
    _cleanup_(freep) char *to = word_expanded(&scope, words->v[words->len - 1], c->err);
    if (to == NULL)
        return -CAY_INVALID_ARGUMENT;
    c->into = to[0] == '\0' || str_ends(to, "/") || str_equal(to, ".") || str_ends(to, "/.") ||
              str_ends(to, "..");
    if (build_path(c->s, to, c->to, sizeof c->to) < 0)
        return error_set(c->err, CAY_INVALID_ARGUMENT, "the destination is too long");
    c->into = c->into || str_equal(c->to, "/");
    if (c->paths.len + c->texts.len / 2 < 2 || c->into)
        return 0;
    (void)error_set(c->err, CAY_INVALID_ARGUMENT,
                    "several sources, but the destination is not said to be a folder");
    return error_remedy(c->err, "end it with a slash: '%.150s/'", to);
}

/* ---- flags ---- */

static int take_flags(struct copying *c) {
    struct word_scope scope = build_scope(c->b, c->s);
    const char *chown = instruction_flag(c->in, "chown"), *chmod = instruction_flag(c->in, "chmod");
    c->look.keep_owner = c->tree.is_image && chown == NULL;
    if (chown != NULL && (c->owner = word_expanded(&scope, chown, c->err)) == NULL)
        return -CAY_INVALID_ARGUMENT;
    if (chmod == NULL)
        return 0;
    _cleanup_(freep) char *mode = word_expanded(&scope, chmod, c->err);
    if (mode == NULL)
        return -CAY_INVALID_ARGUMENT;
    char *end;
    unsigned long v = strtoul(mode, &end, 8);
    if (!isdigit((unsigned char)mode[0]) || *end != '\0' || v > 07777) {
        (void)error_set(c->err, CAY_INVALID_ARGUMENT, "--chmod takes an octal number");
        return error_remedy(c->err, "write it like: --chmod=0755");
    }
    c->look.has_mode = true;
    c->look.mode = (mode_t)v;
    return 0;
}

/* The context, or the files of another image. */
static int open_tree(struct copying *c) {
    const char *from = instruction_flag(c->in, "from");
    c->tree = (struct file_tree){.root = c->b->options->context, .ignore = c->b->ignore};
    if (from == NULL)
        return 0;
    const struct build_stage *stage = NULL;
    int r = build_find_stage(c->b, c->s, c->in, from, &stage, c->err);
    if (r == 0 && stage == NULL)
        r = at_line(c, build_open_image(c->b, from, NULL, &c->from_image, c->err));
    if (r < 0)
        return r;
    const struct image_record *record = stage != NULL ? stage->record : c->from_image;
    if (record == NULL)
        return error_set(c->err, CAY_INTERNAL, "stage '%.80s' has no image", from);
    r = layer_begin(c->b->store, record->layers, record->layer_count, &c->from, c->err);
    c->tree = (struct file_tree){.root = c->from.root, .is_image = true};
    return r;
}

/* ---- the layer ---- */

static int make_key(struct copying *c, char key[static HEX_SIZE]) {
    _cleanup_(digest_freep) struct digest *d =
        build_key_new(c->b, c->s, dockerfile_op_name(c->in->op));
    int64_t newest = 0;
    char mode[16] = "";
    if (c->look.has_mode)
        (void)snprintf(mode, sizeof mode, "%o", (unsigned)c->look.mode);
    build_key_put(d, c->to);
    build_key_put(d, c->into ? "into" : "");
    build_key_put(d, mode);
    build_key_put(d, c->owner != NULL ? c->owner : "");
    build_key_put(d, c->look.keep_owner ? "owners" : "");
    build_key_put_list(d, &c->texts);
    for (size_t i = 0; i < c->paths.len; i++) {
        int r = files_digest(&c->tree, c->paths.v[i], c->look.keep_owner, d, &newest, c->err);
        if (r < 0)
            return r;
    }
    c->s->epoch = MAX(c->s->epoch, newest);
    digest_finish(d, key);
    return 0;
}

static int place_one(struct copying *c, const char *path, int root) {
    if (c->in->op == DOCKERFILE_ADD && !c->tree.is_image) {
        int r = build_add_archive(c->b, &c->tree, path, root, c->to, &c->look, c->err);
        if (r != 0)
            return r < 0 ? r : 0;
    }
    return files_place(&c->tree, path, root, c->to, c->into, &c->look, c->err);
}

/* A heredoc is a file of its name in a folder, or has the name of the destination. */
static int place_texts(struct copying *c, int root) {
    if (c->texts.len == 0)
        return 0;
    char folder[PATH_MAX];
    const char *slash = strrchr(c->to, '/');
    bool is_file = !c->into;
    _cleanup_(closep) int existing =
        is_file ? path_open_in_root(root, c->to, O_PATH | O_DIRECTORY, 0) : -1;
    is_file = is_file && existing < 0;
    (void)snprintf(folder, sizeof folder, "%.*s", is_file ? (int)(slash - c->to + 1) : PATH_MAX,
                   c->to);
    _cleanup_(closep) int dir = files_open_folder(root, folder, &c->look, c->err);
    if (dir < 0)
        return dir;
    for (size_t i = 0; i + 1 < c->texts.len; i += 2) {
        int r = files_place_text(dir, is_file ? slash + 1 : c->texts.v[i], c->texts.v[i + 1],
                                 &c->look, c->s->epoch, c->err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int place_all(struct copying *c, int root) {
    int r = 0;
    if (c->owner != NULL)
        r = files_owner(root, c->owner, &c->look.uid, &c->look.gid, c->err);
    for (size_t i = 0; r == 0 && i < c->paths.len; i++)
        r = place_one(c, c->paths.v[i], root);
    return r == 0 ? place_texts(c, root) : r;
}

static int make_layer(struct copying *c) {
    char key[HEX_SIZE];
    struct layer layer = LAYER_NONE;
    const struct image_record *record = c->s->record;
    int r = at_line(c, make_key(c, key));
    if (r < 0 || build_reuse(c->b, c->s, c->in, key))
        return r;
    r = layer_begin(c->b->store, record->layers, record->layer_count, &layer, c->err);
    if (r < 0)
        return r;
    r = at_line(c, place_all(c, layer.root));
    if (r == 0)
        r = layer_settle(c->b->store, &layer, c->err);
    if (r == 0)
        r = build_seal(c->b, c->s, c->in, &layer.work, key, c->err);
    layer_abandon(c->b->store, &layer);
    return r;
}

int build_copy(struct build *b, struct build_stage *s, const struct instruction *in,
               struct cay_error *err) {
    struct copying c = {.b = b, .s = s, .in = in, .from = LAYER_NONE, .err = err};
    int r = open_tree(&c);
    if (r == 0)
        r = at_line(&c, take_flags(&c));
    if (r == 0)
        r = at_line(&c, take_sources(&c));
    if (r == 0)
        r = at_line(&c, take_destination(&c));
    if (r == 0)
        r = make_layer(&c);
    layer_abandon(b->store, &c.from);
    record_free(c.from_image);
    strv_free(&c.paths);
    strv_free(&c.texts);
    free(c.owner);
    return r;
}

/* ---- WORKDIR ---- */

static int make_workdir(struct build *b, struct build_stage *s, const struct instruction *in,
                        struct layer *layer, const char *key, struct cay_error *err) {
    const char *path = s->record->working_dir;
    _cleanup_(closep) int there = path_open_in_root(layer->root, path, O_PATH | O_DIRECTORY, 0);
    if (there >= 0)
        return 0;
    struct file_look look = {0};
    _cleanup_(closep) int made = files_open_folder(layer->root, path, &look, err);
    if (made < 0)
        return error_prefix(err, "Dockerfile:%u: WORKDIR", in->line);
    fd_close(&made); /* it must not keep the mount busy */
    int r = layer_settle(b->store, layer, err);
    return r < 0 ? r : build_seal(b, s, in, &layer->work, key, err);
}

int build_workdir(struct build *b, struct build_stage *s, const struct instruction *in,
                  struct cay_error *err) {
    char key[HEX_SIZE];
    struct layer layer = LAYER_NONE;
    int r = build_apply(b, s, in, err);
    if (r < 0)
        return r;
    _cleanup_(digest_freep) struct digest *d = build_key_new(b, s, "WORKDIR");
    build_key_put(d, s->record->working_dir);
    digest_finish(d, key);
    if (build_reuse(b, s, in, key))
        return 0;
    r = layer_begin(b->store, s->record->layers, s->record->layer_count, &layer, err);
    if (r == 0)
        r = make_workdir(b, s, in, &layer, key, err);
    layer_abandon(b->store, &layer);
    return r;
}
