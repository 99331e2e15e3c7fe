/* build, make */
#include "imager/build/build.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "config/config.h"
#include "imager/layer/layer.h"
#include "imager/transfer/expose_folder.h"
#include "imager/unpack/unpack.h"
#include "imager/verbs/verbs.h"

enum { DOCKERFILE_MAX = 1024 * 1024, CONTEXTS_FD = 3, CONTEXTS_MAX = 128 };

static const char contexts_name[] = ":contexts"; /* tars come by a socket, from the daemon */

/* What is read before the world is entered. */
struct build {
    const struct image_build_options *options;
    struct access access;
    int context;
    int tars[CONTEXTS_MAX]; /* of which the context is made, in the world */
    size_t tar_count;
    struct layer made;
    struct buf dockerfile, ignore;
    int64_t dockerfile_mtime;
    bool has_ignore, is_new; /* is_new: its names must be free */
    struct strv args;
    struct reference *names;
    int64_t epoch;
    int log;
    char id[HEX_SIZE];
};

static void build_free(struct build *b) {
    access_close(&b->access);
    fd_close(&b->context);
    fd_close(&b->log);
    while (b->tar_count > 0)
        fd_close(&b->tars[--b->tar_count]);
    buf_free(&b->dockerfile);
    buf_free(&b->ignore);
    strv_free(&b->args);
    free(b->names);
}

/* ---- the caller's files ---- */

static int take_tars(struct build *b, struct cay_error *err) {
    char ignored;
    ssize_t n = fd_receive(CONTEXTS_FD, &ignored, 1, b->tars, CONTEXTS_MAX, &b->tar_count);
    (void)close(CONTEXTS_FD);
    if (n == 1 && b->tar_count > 0)
        return 0;
    return error_set(err, CAY_INVALID_ARGUMENT, "the tars of the context did not come");
}

static int open_context(struct build *b, const char *path, struct cay_error *err) {
    if (strcmp(path, "-") == 0)
        return 0;
    if (b->is_new && strcmp(path, contexts_name) == 0)
        return take_tars(b, err);
    _cleanup_(closep) int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        b->context = folder_offer(folder, err);
        return MIN(b->context, 0);
    }
    (void)error_errno(err, "opening the context '%s'", path);
    return error_remedy(err, "name a folder, or - for none");
}

static int open_dockerfile(const struct build *b, struct cay_error *err) {
    const char *file = b->options->file;
    if (b->context < 0 && file != NULL && strcmp(file, "-") != 0) {
        error_set(err, CAY_INVALID_ARGUMENT,
                  "the context - means that the Dockerfile comes from "
                  "standard input, but -f names another");
        return error_remedy(err, "leave one of them out");
    }
    if (b->context < 0 || (file != NULL && strcmp(file, "-") == 0))
        return input_open("-", false, err);
    if (file != NULL)
        return input_open(file, false, err);
    int fd = openat(b->context, "Dockerfile", O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd >= 0)
        return fd;
    (void)error_errno(err, "opening Dockerfile in the context");
    return error_remedy(err, "name it with -f");
}

static int read_dockerfile(struct build *b, struct cay_error *err) {
    _cleanup_(closep) int fd = open_dockerfile(b, err);
    if (fd < 0)
        return fd;
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        b->dockerfile_mtime = st.st_mtim.tv_sec;
    int r = fd_read_to_end(fd, &b->dockerfile);
    if (r == -ENOBUFS)
        return error_set(err, CAY_INVALID_ARGUMENT, "the Dockerfile has more than %d bytes",
                         DOCKERFILE_MAX);
    return r < 0 ? error_sys(err, -r, "reading the Dockerfile") : 0;
}

/* DOCKERFILE.dockerignore, beside the Dockerfile, counts in place of the context's. */
static int read_ignore(struct build *b, struct cay_error *err) {
    char name[PATH_MAX];
    const char *file = b->options->file;
    if (b->context < 0 || (file != NULL && strcmp(file, "-") == 0))
        return 0;
    if (str_format(name, sizeof name, "%s.dockerignore", file != NULL ? file : "Dockerfile") < 0)
        return 0;
    _cleanup_(closep) int fd = openat(file != NULL ? AT_FDCWD : b->context, name,
                                      O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return 0;
    int r = fd < 0 ? -errno : fd_read_to_end(fd, &b->ignore);
    b->has_ignore = true;
    return r < 0 ? error_sys(err, -r, "reading '%s'", name) : 0;
}

/* ---- options ---- */

static int parse_names(struct build *b, struct cay_error *err) {
    const struct strv *tags = &b->options->tags;
    b->names = calloc(tags->len + 1, sizeof *b->names);
    if (b->names == NULL)
        return error_sys(err, ENOMEM, "building");
    int r = 0;
    for (size_t i = 0; r == 0 && i < tags->len; i++)
        r = reference_parse(tags->v[i], &b->names[i], err);
    return r;
}

/* "K" alone takes the value from the environment, if it is there. */
static int take_args(struct build *b, struct cay_error *err) {
    const struct strv *args = &b->options->args;
    int r = 0;
    for (size_t i = 0; r == 0 && i < args->len; i++) {
        const char *text = args->v[i], *value = getenv(text);
        if (strchr(text, '=') != NULL)
            r = strv_push(&b->args, text);
        else if (value != NULL)
            r = strv_pushf(&b->args, "%s=%s", text, value);
    }
    return r < 0 ? error_sys(err, ENOMEM, "building") : 0;
}

static int check_labels(const struct strv *labels, struct cay_error *err) {
    for (size_t i = 0; i < labels->len; i++) {
        if (strchr(labels->v[i], '=') != NULL && labels->v[i][0] != '=')
            continue;
        error_set(err, CAY_INVALID_ARGUMENT, "label '%.60s' has no '='", labels->v[i]);
        return error_remedy(err, "write --label KEY=VALUE");
    }
    return 0;
}

/* https://reproducible-builds.org/specs/source-date-epoch/ */
static int read_epoch(struct build *b, struct cay_error *err) {
    const char *text = getenv("SOURCE_DATE_EPOCH");
    b->epoch = -1;
    if (text == NULL || str_to_i64(text, 0, INT64_MAX, &b->epoch) == 0)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "SOURCE_DATE_EPOCH is no number of seconds");
    return error_remedy(err, "unset it, or use what 'date +%%s' prints");
}

static int open_log(struct build *b, struct cay_error *err) {
    b->log = b->options->registry.common.quiet ? open("/dev/null", O_WRONLY | O_CLOEXEC)
                                               : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    return b->log < 0 ? error_errno(err, "opening the log") : 0;
}

static int prepare(struct build *b, const char *context, struct cay_error *err) {
    struct platform platform;
    const char *text = b->options->registry.platform;
    int r = text != NULL ? platform_parse(text, &platform, err) : 0;
    if (r == 0)
        r = parse_names(b, err);
    if (r == 0)
        r = check_labels(&b->options->labels, err);
    if (r == 0)
        r = take_args(b, err);
    if (r == 0)
        r = read_epoch(b, err);
    if (r == 0)
        r = access_open(&b->options->registry, &b->access, err);
    if (r == 0)
        r = open_context(b, context, err);
    if (r == 0)
        r = read_dockerfile(b, err);
    if (r == 0)
        r = read_ignore(b, err);
    return r < 0 ? r : open_log(b, err);
}

/* ---- building ---- */

static int check_names(const struct build *b, const struct image_store *store,
                       struct cay_error *err) {
    int r = 0;
    for (size_t i = 0; r == 0 && b->is_new && i < b->options->tags.len; i++)
        r = verbs_check_new(store, &b->names[i], err);
    return r;
}

/* One after the other into one folder, by the confined processes that unpack layers. */
static int unpack_tars(struct build *b, struct world *world, struct cay_error *err) {
    static const struct unpack_limits limits = {.bytes = UINT64_C(4) << 30, .entries = 200 * 1000};
    struct unpack_result result;
    int r = b->tar_count == 0 ? 0 : layer_begin(&world->store, NULL, 0, &b->made, err);
    for (size_t i = 0; r == 0 && i < b->tar_count; i++) {
        r = lseek(b->tars[i], 0, SEEK_SET) < 0
                ? error_errno(err, "reading a context")
                : unpack_layer(b->tars[i], b->made.root, &limits, NULL, NULL, &result, err);
        if (r < 0)
            (void)error_prefix(err, "unpacking a build context");
    }
    return r;
}

static int build(struct build *b, struct world *world, struct cay_error *err) {
    const struct image_build_options *o = b->options;
    const struct config *config = b->access.config;
    /* bars would be drawn over the log */
    int choice =
        o->registry.progress == IMAGE_PROGRESS_AUTO ? IMAGE_PROGRESS_PLAIN : o->registry.progress;
    _cleanup_(progress_freep) struct progress *progress =
        verbs_progress(&o->registry.common, choice);
    struct build_options options = {
        .context = b->tar_count > 0 ? b->made.root : b->context,
        .dockerfile = buf_text(&b->dockerfile),
        .dockerfile_len = b->dockerfile.len,
        .dockerfile_mtime = b->dockerfile_mtime,
        .ignore = b->has_ignore ? buf_text(&b->ignore) : NULL,
        .ignore_len = b->ignore.len,
        .args = b->args,
        .labels = o->labels,
        .target = o->target,
        .network = "none",
        .no_cache = o->no_cache,
        .source_date_epoch = b->epoch,
        .memory_bytes = o->memory != 0 ? o->memory : config->sandbox.memory,
        .cpus = o->cpus > 0 ? o->cpus : config->sandbox.cpus,
        .log = b->log,
        .runner = world->runner,
    };
    int r = check_names(b, &world->store, err); /* before, and after what may take long */
    if (r == 0)
        r = access_pull_options(&b->access, &o->registry, world, progress, &options.pull, err);
    if (r < 0)
        return r;
    options.pull.policy = o->pull ? PULL_ALWAYS : (enum pull_policy)access_policy(&b->access);
    r = image_build(&world->store, &options, b->id, err);
    if (r == 0)
        r = check_names(b, &world->store, err);
    for (size_t i = 0; r == 0 && i < o->tags.len; i++)
        r = image_store_set_name(&world->store, &b->names[i], b->id, err);
    return r;
}

static int prepare_and_build(struct build *b, const char *context, struct world *world,
                             struct cay_error *err) {
    int r = prepare(b, context, err);
    if (r == 0)
        r = verbs_enter(&b->options->registry.common, true, world, err);
    if (r < 0)
        return r;
    r = unpack_tars(b, world, err);
    if (r == 0)
        r = build(b, world, err);
    layer_abandon(&world->store, &b->made);
    return r;
}

#define BUILD_NEW(values, new)                                                                     \
    ((struct build){.options = (values),                                                           \
                    .is_new = (new),                                                               \
                    .context = -1,                                                                 \
                    .made = LAYER_NONE,                                                            \
                    .log = -1,                                                                     \
                    .dockerfile = BUF_INIT(DOCKERFILE_MAX),                                        \
                    .ignore = BUF_INIT(DOCKERFILE_MAX)})

int do_build(const void *values, int argc, char **argv) {
    (void)argc;
    struct cay_error err;
    struct world world = WORLD_NONE;
    _cleanup_(build_free) struct build b = BUILD_NEW(values, false);
    int r = prepare_and_build(&b, argv[0], &world, &err);
    int code = r < 0 ? verb_fail(&err)
                     : verbs_print_id(&b.options->registry.common, b.id,
                                      b.options->tags.len > 0 ? &b.names[0] : NULL);
    verbs_leave(&world);
    return code;
}

int do_make(const void *values, int argc, char **argv) {
    (void)argc;
    struct cay_error err;
    struct world world = WORLD_NONE;
    _cleanup_(build_free) struct build b = BUILD_NEW(values, true);
    int r = prepare_and_build(&b, argv[0], &world, &err);
    int code = verbs_answer(r, (const char *const[]){b.id, NULL}, &err);
    verbs_leave(&world);
    return code;
}
