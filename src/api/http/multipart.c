#include "api/http/multipart.h"

#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"

/* ---- heads ---- */

static int refuse(struct cay_error *err, const char *why) {
    error_set(err, CAY_INVALID_ARGUMENT, "the multipart body %s", why);
    return error_remedy(err, "send multipart/form-data as RFC 7578 has it");
}

static const char *skip_space(const char *at) {
    return at + strspn(at, " \t");
}

/* The value of a parameter, quoted or not; at is behind its '='. Returns what follows, or NULL if
 * it is too long or not closed. */
static const char *read_value(const char *at, char *out, size_t size) {
    size_t n = 0;
    bool quoted = *at == '"';
    if (quoted)
        at++;
    for (; *at != '\0' && (quoted ? *at != '"' : strchr("; \t", *at) == NULL); at++) {
        if (quoted && *at == '\\' && (at[1] == '"' || at[1] == '\\'))
            at++;
        if (n + 1 >= size)
            return NULL;
        out[n++] = *at;
    }
    out[n] = '\0';
    if (!quoted)
        return at;
    return *at == '"' ? at + 1 : NULL;
}

/* The parameter `name` of a header such as "form-data; name=x; filename=y": 1, 0 if it has none,
 * -1 if the header is malformed. */
static int find_parameter(const char *header, const char *name, char *out, size_t size) {
    char value[4096];
    const char *at = header + strcspn(header, ";");
    while (at != NULL && *at == ';') {
        at = skip_space(at + 1);
        size_t len = strcspn(at, "=; \t");
        bool wanted = len == strlen(name) && strncasecmp(at, name, len) == 0;
        at = skip_space(at + len);
        if (*at != '=')
            continue;
        at = read_value(skip_space(at + 1), value, sizeof value);
        if (at == NULL)
            return -1;
        if (wanted)
            return str_copy(out, size, value) < 0 ? -1 : 1;
        at = skip_space(at);
    }
    return 0;
}

static bool is_kind(const char *header, const char *kind) {
    size_t len = strlen(kind);
    return strncasecmp(header, kind, len) == 0 && strchr("; \t", header[len]) != NULL;
}

static int read_disposition(const char *value, struct multipart_part *ret, struct cay_error *err) {
    char filename[4096];
    if (!is_kind(value, "form-data"))
        return refuse(err, "has a part that is no form-data");
    int r = find_parameter(value, "name", ret->name, sizeof ret->name);
    if (r <= 0)
        return refuse(err, "has a part without a name, or with one that is too long");
    r = find_parameter(value, "filename", filename, sizeof filename);
    if (r < 0)
        return refuse(err, "has a file name that is too long or not closed");
    ret->has_filename = r == 1;
    return 0;
}

/* The head of a part, without the empty line; its lines are cut in place. */
static int read_head(char *head, struct multipart_part *ret, struct cay_error *err) {
    static const char disposition[] = "Content-Disposition:";
    *ret = (struct multipart_part){0};
    for (char *line = head, *next; line != NULL; line = next) {
        next = strstr(line, "\r\n");
        if (next != NULL) {
            *next = '\0';
            next += 2;
        }
        if (strncasecmp(line, disposition, sizeof disposition - 1) == 0)
            return read_disposition(skip_space(line + sizeof disposition - 1), ret, err);
    }
    return refuse(err, "has a part without Content-Disposition");
}

/* ---- beginning ---- */

int multipart_init(struct multipart *m, const char *content_type,
                   const struct multipart_handler *handler, void *user, struct cay_error *err) {
    char boundary[MULTIPART_BOUNDARY_MAX + 1];
    *m = (struct multipart){.handler = handler, .user = user};
    if (content_type == NULL || !is_kind(content_type, "multipart/form-data"))
        return refuse(err, "is not announced as one by its Content-Type");
    if (find_parameter(content_type, "boundary", boundary, sizeof boundary) != 1 ||
        boundary[0] == '\0')
        return refuse(err, "has no boundary of 1 to 70 characters in its Content-Type");
    int r = str_format(m->delimiter, sizeof m->delimiter, "\r\n--%s", boundary);
    if (r < 0)
        return error_sys(err, -r, "formatting a boundary");
    m->delimiter_len = strlen(m->delimiter);
    memcpy(m->kept, "\r\n", 2); /* the first boundary needs no line before it */
    m->kept_len = 2;
    return 0;
}

/* ---- steps: each takes bytes from the front of what is kept and given ---- */

/* What there is to look at: at most sizeof m->kept bytes at a time. */
struct view {
    char *data;
    size_t len, used;
};

static int pass_on(struct multipart *m, const char *data, size_t len, struct cay_error *err) {
    if (m->state != MULTIPART_BODY || len == 0)
        return 0;
    return m->handler->data(m->user, data, len, err);
}

/* In the preamble or a body: everything up to the delimiter, or what cannot be its beginning. */
static int step_content(struct multipart *m, struct view *v, bool *more, struct cay_error *err) {
    const char *found = memmem(v->data, v->len, m->delimiter, m->delimiter_len);
    size_t n = found != NULL                ? (size_t)(found - v->data)
               : v->len >= m->delimiter_len ? v->len - (m->delimiter_len - 1)
                                            : 0;
    int r = pass_on(m, v->data, n, err);
    v->used = n;
    *more = found != NULL;
    if (r < 0 || found == NULL)
        return r;
    v->used += m->delimiter_len;
    if (m->state == MULTIPART_BODY)
        r = m->handler->end(m->user, err);
    m->state = MULTIPART_BOUNDARY_END;
    return r;
}

static int step_boundary_end(struct multipart *m, struct view *v, bool *more,
                             struct cay_error *err) {
    *more = v->len >= 2;
    if (!*more)
        return 0;
    v->used = 2;
    if (memcmp(v->data, "--", 2) == 0)
        m->state = MULTIPART_DONE;
    else if (memcmp(v->data, "\r\n", 2) == 0)
        m->state = MULTIPART_HEAD;
    else
        return refuse(err, "has something behind a boundary");
    return 0;
}

static int step_head(struct multipart *m, struct view *v, bool *more, struct cay_error *err) {
    struct multipart_part part;
    char *end = memmem(v->data, v->len, "\r\n\r\n", 4);
    *more = end != NULL;
    if (end == NULL)
        return v->len >= MULTIPART_HEAD_MAX ? refuse(err, "has a part whose head is too long") : 0;
    *end = '\0';
    if (strlen(v->data) != (size_t)(end - v->data))
        return refuse(err, "has a NUL in the head of a part");
    v->used = (size_t)(end - v->data) + 4;
    int r = read_head(v->data, &part, err);
    if (r < 0)
        return r;
    m->state = MULTIPART_BODY;
    return m->handler->begin(m->user, &part, err);
}

static int step(struct multipart *m, struct view *v, bool *more, struct cay_error *err) {
    switch (m->state) {
    case MULTIPART_PREAMBLE:
    case MULTIPART_BODY:
        return step_content(m, v, more, err);
    case MULTIPART_BOUNDARY_END:
        return step_boundary_end(m, v, more, err);
    case MULTIPART_HEAD:
        return step_head(m, v, more, err);
    case MULTIPART_DONE:
        v->used = v->len; /* an epilogue, which means nothing */
        break;
    }
    *more = false;
    return 0;
}

int multipart_feed(struct multipart *m, const char *data, size_t len, struct cay_error *err) {
    while (len > 0) {
        size_t n = MIN(len, sizeof m->kept - m->kept_len);
        memcpy(m->kept + m->kept_len, data, n);
        m->kept_len += n;
        data += n;
        len -= n;
        for (bool more = true; more;) {
            struct view v = {m->kept, m->kept_len, 0};
            int r = step(m, &v, &more, err);
            if (r < 0)
                return r;
            m->kept_len -= v.used;
            memmove(m->kept, m->kept + v.used, m->kept_len);
        }
    }
    return 0;
}

int multipart_finish(const struct multipart *m, struct cay_error *err) {
    return m->state == MULTIPART_DONE ? 0 : refuse(err, "ends before its last boundary");
}
