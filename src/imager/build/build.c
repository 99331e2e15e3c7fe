#include "imager/build/build.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "imager/build/state.h"
#include "imager/pull/background_sync.h"

/* ---- what all parts use ---- */

void build_log(const struct build *b, const char *fmt, ...) {
    _cleanup_(freep) char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0) {
        text = NULL;
        return;
    }
    text[n] = '\n';                                           /* in place of the NUL */
    (void)fd_write_all(b->options->log, text, (size_t)n + 1); /* nobody may be reading */
}

int build_refuse(const struct instruction *in, struct cay_error *err, const char *fmt, ...) {
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return error_set(err, CAY_INVALID_ARGUMENT, "Dockerfile:%u: %s", in->line, text);
}

int build_no_memory(struct cay_error *err) {
    return error_sys(err, ENOMEM, "building an image");
}

/* ---- .dockerignore ---- */

static int read_ignore(struct build *b, const char *name, struct cay_error *err) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(DOCKERIGNORE_TEXT_MAX + 1);
    struct stat st;
    _cleanup_(closep) int fd = path_open_beneath(b->options->context, name,
                                                 O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
    if (fd == -ENOENT)
        return 0;
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_sys(err, fd < 0 ? -fd : errno, "reading '%s' in the context", name);
    if (!S_ISREG(st.st_mode))
        return error_set(err, CAY_INVALID_ARGUMENT, "'%s' in the context is no file", name);
    int r = fd_read_to_end(fd, &text);
    if (r < 0)
        return error_sys(err, -r, "reading '%s' in the context", name);
    return dockerignore_parse(name, buf_text(&text), text.len, &b->ignore, err);
}

/* That of this Dockerfile, else that of the context. */
static int find_ignore(struct build *b, struct cay_error *err) {
    const struct build_options *o = b->options;
    if (o->ignore != NULL)
        return dockerignore_parse("Dockerfile.dockerignore", o->ignore, o->ignore_len, &b->ignore,
                                  err);
    return o->context < 0 ? 0 : read_ignore(b, ".dockerignore", err);
}

/* ---- steps ---- */

static void tell_step(struct build *b, const struct instruction *in) {
    char shown[2048];
    build_log(b, "STEP %zu/%zu: %s", ++b->step, b->steps,
              str_escape(shown, sizeof shown, in->text));
}

static int do_step(struct build *b, struct build_stage *s, const struct instruction *in,
                   struct cay_error *err) {
    switch (in->op) {
    case DOCKERFILE_RUN:
        return build_run(b, s, in, err);
    case DOCKERFILE_COPY:
    case DOCKERFILE_ADD:
        return build_copy(b, s, in, err);
    case DOCKERFILE_WORKDIR:
        return build_workdir(b, s, in, err);
    default:
        return build_apply(b, s, in, err);
    }
}

static int build_stage(struct build *b, struct build_stage *s, struct cay_error *err) {
    tell_step(b, s->from);
    int r = build_from(b, s, err);
    for (size_t i = 0; r == 0 && i < s->count; i++) {
        tell_step(b, &s->list[i]);
        r = do_step(b, s, &s->list[i], err);
    }
    return r;
}

static int build_all(struct build *b, char id[static HEX_SIZE], struct cay_error *err) {
    int r = build_plan(b, err);
    if (r == 0)
        r = find_ignore(b, err);
    if (r < 0)
        return r;
    if (b->file->syntax != NULL)
        build_log(b, "notice: '# syntax=' is not fetched: cay reads the Dockerfile itself");
    build_cache_sweep(b->store);
    for (size_t i = 0; r == 0 && i <= b->target; i++)
        if (b->stages[i].needed)
            r = build_stage(b, &b->stages[i], err);
    if (r < 0)
        return r;
    build_report_unused(b);
    return build_finish(b, &b->stages[b->target], id, err);
}

static void release(struct build *b) {
    for (size_t i = 0; i < b->stage_count; i++) {
        struct build_stage *s = &b->stages[i];
        record_free(s->record);
        strv_free(&s->args);
        strv_free(&s->shell);
        strv_free(&s->history);
    }
    free(b->stages);
    strv_free(&b->globals);
    strv_free(&b->used_args);
    dockerignore_free(b->ignore);
    dockerfile_free(b->file);
}

int image_build(const struct image_store *store, const struct build_options *options,
                char id[static HEX_SIZE], struct cay_error *err) {
    struct build b = {.store = store, .options = options};
    int r = dockerfile_parse(options->dockerfile, options->dockerfile_len, &b.file, err);
    if (r == 0)
        r = build_all(&b, id, err);
    if (r == 0)
        settle_later(store);
    release(&b);
    return r;
}
