#include "api/toolbox/python_output.h"

#include <cay.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"

void python_take_more(void *arg, int stream, const struct buf *captured, const char *data,
                      size_t len) {
    struct python_prints *p = arg;
    struct output *w = &p->out[stream];
    if (!p->began[stream] && p->all != NULL) {
        output_begin(p->all, p->owner, w);
        output_add(w, captured->data, captured->len);
    }
    p->began[stream] = true;
    output_add(w, data, len);
}

static void say(const struct output *w, const char *place, size_t told, char *out, size_t size) {
    int n = snprintf(out, size, "\n[cay: what follows after %zu MB of output is left out",
                     told / 1024 / 1024);
    if (w->size <= told)
        (void)snprintf(out + n, size - (size_t)n, "; there is no room to keep it]\n");
    else if (w->is_cut)
        (void)snprintf(out + n, size - (size_t)n,
                       "; its first %llu MB are kept for some minutes: GET %s]\n",
                       (unsigned long long)(w->size / 1024 / 1024), place);
    else
        (void)snprintf(out + n, size - (size_t)n, "; all of it is kept for some minutes: GET %s]\n",
                       place);
}

const char *python_note_more(const struct python_prints *p, int stream, struct cay_result *run,
                             char place[static PYTHON_PLACE_SIZE]) {
    const struct output *w = &p->out[stream];
    char **text = stream == 0 ? &run->out : &run->err, notice[256];
    size_t *len = stream == 0 ? &run->out_len : &run->err_len;
    if (!p->began[stream])
        return NULL;
    bool is_kept = w->size > *len;
    (void)snprintf(place, PYTHON_PLACE_SIZE, "/api/cay/python/output/%s", w->id);
    say(w, place, *len, notice, sizeof notice);
    char *more = realloc(*text, *len + strlen(notice) + 1);
    if (more != NULL) {
        memcpy(more + *len, notice, strlen(notice) + 1);
        *text = more;
        *len += strlen(notice);
    }
    return is_kept ? place : NULL;
}

void python_prints_end(struct python_prints *p, bool keeps) {
    for (int i = 0; i < 2; i++)
        output_end(&p->out[i], keeps);
}

/* ---- reading ---- */

int python_output_handle(struct call *c, struct cay_error *err) {
    uint64_t bytes = 0;
    if (c->outputs == NULL)
        return error_set(err, CAY_UNSUPPORTED, "this daemon keeps no output");
    _cleanup_(closep) int fd = outputs_find(c->outputs, &c->caller, c->args.v[0], &bytes, err);
    if (fd < 0)
        return fd;
    return call_answer_file(c, "application/octet-stream", &fd, bytes, err); /* of any kind */
}
