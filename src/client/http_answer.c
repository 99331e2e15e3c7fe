#include "client/http_answer.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/str.h"

/* ---- the head ---- */

size_t http_head_end(const char *data, size_t len, size_t from) {
    size_t at = from > 3 ? from - 3 : 0;
    const char *end = len > at ? memmem(data + at, len - at, "\r\n\r\n", 4) : NULL;
    return end != NULL ? (size_t)(end - data) + 4 : 0;
}

/* "HTTP/1.1 200 OK" */
static int parse_status(const char *line, int *ret) {
    if (!str_starts(line, "HTTP/1.1 "))
        return -EPROTO;
    const char *p = line + 9;
    for (int i = 0; i < 3; i++)
        if (!isdigit((unsigned char)p[i]))
            return -EPROTO;
    if (p[0] == '0' || (p[3] != ' ' && p[3] != '\0'))
        return -EPROTO;
    *ret = (p[0] - '0') * 100 + (p[1] - '0') * 10 + (p[2] - '0');
    return 0;
}

bool http_is_token(const char *text) {
    for (const char *p = text; *p != '\0'; p++)
        if (!isalnum((unsigned char)*p) && strchr("!#$%&'*+-.^_`|~", *p) == NULL)
            return false;
    return text[0] != '\0';
}

bool http_is_line(const char *text) {
    for (const char *p = text; *p != '\0'; p++)
        if (((unsigned char)*p < ' ' && *p != '\t') || *p == 0x7f)
            return false;
    return true;
}

/* Splits "Name: value" in place. */
static int parse_field(char *line, struct http_field *ret) {
    char *colon = strchr(line, ':');
    if (colon == NULL)
        return -EPROTO;
    *colon = '\0';
    char *value = colon + 1 + strspn(colon + 1, " \t");
    size_t len = strlen(value);
    while (len > 0 && (value[len - 1] == ' ' || value[len - 1] == '\t'))
        value[--len] = '\0';
    *ret = (struct http_field){line, value};
    return http_is_token(line) ? 0
                               : -EPROTO; /* a continued line begins with a space, which is none */
}

/* What says how long the body is; two that say it are one too many. */
static int take_length(struct http_head *h, const struct http_field *f) {
    uint64_t length;
    bool said = h->length >= 0 || h->chunked;
    if (strcasecmp(f->name, "transfer-encoding") == 0) {
        h->chunked = true;
        return said || strcasecmp(f->value, "chunked") != 0 ? -EPROTO : 0;
    }
    if (strcasecmp(f->name, "content-length") != 0)
        return 0;
    if (said || !isdigit((unsigned char)f->value[0]) ||
        str_to_u64(f->value, INT64_MAX, &length) < 0)
        return -EPROTO;
    h->length = (int64_t)length;
    return 0;
}

static int add_field(struct http_head *h, char *line) {
    if (h->field_count == HTTP_FIELDS_MAX)
        return -EPROTO;
    if ((h->field_count & (h->field_count - 1)) == 0) { /* room is a power of two */
        size_t cap = h->field_count == 0 ? 1 : h->field_count * 2;
        struct http_field *more = reallocarray(h->fields, cap, sizeof *more);
        if (more == NULL)
            return -ENOMEM;
        h->fields = more;
    }
    struct http_field *f = &h->fields[h->field_count];
    int r = parse_field(line, f);
    if (r < 0)
        return r;
    h->field_count++;
    return take_length(h, f);
}

/* Cuts the next line off *text; NULL if it holds what no line may. */
static char *next_line(char **text) {
    char *line = *text, *end = strstr(line, "\r\n");
    if (end == NULL)
        return NULL;
    *end = '\0';
    *text = end + 2;
    return http_is_line(line) ? line : NULL;
}

static int parse_lines(struct http_head *h) {
    char *text = h->text, *line = next_line(&text);
    int r = line == NULL ? -EPROTO : parse_status(line, &h->status);
    while (r == 0) {
        line = next_line(&text);
        if (line == NULL)
            return -EPROTO;
        if (line[0] == '\0')
            return *text == '\0' ? 0 : -EPROTO;
        r = add_field(h, line);
    }
    return r;
}

int http_head_parse(const char *data, size_t len, struct http_head *ret) {
    *ret = (struct http_head){.length = -1};
    if (len > HTTP_HEAD_MAX || memchr(data, '\0', len) != NULL)
        return -EPROTO;
    ret->text = strndup(data, len);
    int r = ret->text == NULL ? -ENOMEM : parse_lines(ret);
    if (r < 0)
        http_head_free(ret);
    return r;
}

void http_head_free(struct http_head *h) {
    free(h->fields);
    free(h->text);
    *h = (struct http_head){.length = -1};
}

const char *http_head_get(const struct http_head *h, const char *name, const char *previous) {
    bool passed = previous == NULL;
    for (size_t i = 0; i < h->field_count; i++) {
        if (passed && strcasecmp(h->fields[i].name, name) == 0)
            return h->fields[i].value;
        passed = passed || h->fields[i].value == previous;
    }
    return NULL;
}

/* ---- chunks ---- */

enum { SIZE, SIZE_LF, DATA, DATA_CR, DATA_LF, LAST_CR, LAST_LF, ENDED };

/* One byte of "SIZE\r\n". Extensions are allowed by the standard and sent by nobody. */
static int take_size(struct http_chunks *c, char byte) {
    int digit = str_hex_digit(byte);
    if (digit >= 0) {
        if (++c->digits > 15)
            return -EPROTO;
        c->left = c->left << 4 | (unsigned)digit;
        return 0;
    }
    if (byte != '\r' || c->digits == 0)
        return -EPROTO;
    c->state = SIZE_LF;
    return 0;
}

/* One byte of what is around content. */
static int take_byte(struct http_chunks *c, char byte) {
    static const char expected[] = {
        [SIZE_LF] = '\n', [DATA_CR] = '\r', [DATA_LF] = '\n', [LAST_CR] = '\r', [LAST_LF] = '\n'};
    if (c->state == SIZE)
        return take_size(c, byte);
    if (byte != expected[c->state])
        return -EPROTO; /* trailers, too, are sent by nobody */
    if (c->state == SIZE_LF) {
        c->state = c->left > 0 ? DATA : LAST_CR;
    } else if (c->state == DATA_LF) {
        *c = (struct http_chunks){.state = SIZE};
    } else {
        c->state++;
    }
    return 0;
}

int http_chunks_next(struct http_chunks *c, const char **data, size_t *len, const char **ret_piece,
                     size_t *ret_len) {
    while (*len > 0 && c->state != ENDED) {
        if (c->state == DATA) {
            size_t n = (size_t)MIN(c->left, (uint64_t)*len);
            *ret_piece = *data;
            *ret_len = n;
            *data += n;
            *len -= n;
            c->left -= n;
            if (c->left == 0)
                c->state = DATA_CR;
            return HTTP_CHUNKS_PIECE;
        }
        if (take_byte(c, **data) < 0)
            return -EPROTO;
        (*data)++;
        (*len)--;
    }
    return c->state == ENDED ? HTTP_CHUNKS_END : HTTP_CHUNKS_MORE;
}

int http_unescape(char *text) {
    char *out = text;
    for (const char *p = text; *p != '\0'; p++) {
        if (*p != '%') {
            *out++ = *p;
            continue;
        }
        int high = str_hex_digit(p[1]), low = high < 0 ? -1 : str_hex_digit(p[2]);
        if (low < 0 || (high == 0 && low == 0))
            return -EPROTO;
        *out++ = (char)(high << 4 | low);
        p += 2;
    }
    *out = '\0';
    return 0;
}
