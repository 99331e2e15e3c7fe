#include "client/progress.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"

enum { LINE_MAX_LEN = 4096 };

static int broken(struct cay_error *err) {
    error_set(err, CAY_UNAVAILABLE, "the daemon's progress is not what was agreed");
    return error_remedy(err, "update cay and its daemon to one version");
}

static int take_line(struct progress *p, struct cay_error *err) {
    static const char prefix[] = "progress ";
    const char *line = buf_text(&p->line);
    if (str_starts(line, prefix))
        p->tell(p->arg, line + sizeof prefix - 1);
    else if (strcmp(line, "done") == 0)
        p->status = 200;
    else if (strcmp(line, "error") == 0)
        p->status = 500;
    else
        return broken(err);
    buf_clear(&p->line);
    return 0;
}

int progress_take(void *arg, const char *data, size_t len, struct cay_error *err) {
    struct progress *p = arg;
    p->line.max = LINE_MAX_LEN;
    while (len > 0 && p->status == 0) {
        const char *end = memchr(data, '\n', len);
        size_t n = end != NULL ? (size_t)(end - data) : len;
        if (buf_append(&p->line, data, n) < 0)
            return broken(err);
        data += n + (end != NULL);
        len -= n + (end != NULL);
        int r = end != NULL ? take_line(p, err) : 0;
        if (r < 0)
            return r;
    }
    if (len > 0 && buf_append(p->answer, data, len) < 0)
        return error_sys(err, ENOMEM, "reading an answer");
    return 0;
}

int progress_end(const struct progress *p, struct cay_error *err) {
    if (p->status != 0)
        return p->status == 200 ? 0 : 1;
    error_set(err, CAY_UNAVAILABLE, "the daemon broke off before it was done");
    return error_remedy(err, "see 'cay ls' for what there is, and the daemon's log");
}

void progress_free(struct progress *p) {
    buf_free(&p->line);
}
