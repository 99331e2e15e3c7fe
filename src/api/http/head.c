#include "api/http/head.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"
#include "client/http_answer.h"

enum { SEEN_LENGTH, SEEN_CODING };
static const char *const singles[] = {"Content-Length", "Transfer-Encoding", "Host",
                                      "Authorization", "Origin"};
_Static_assert(ARRAY_LEN(singles) == ARRAY_LEN(((struct head *)0)->seen), "a count for each");

/* How many bytes lie between name and value with its colon; 0 if they do not belong together. */
static size_t measure_gap(const char *name, const char *value) {
    const char *begin = name + strlen(name), *p = begin + 1;
    if ((uintptr_t)value < (uintptr_t)p)
        return 0;
    while (p != value && (*p == ' ' || *p == '\t'))
        p++;
    return p == value ? (size_t)(p - begin) : 0;
}

static void note_single(struct head *h, const char *name, const char *value) {
    for (size_t i = 0; i < ARRAY_LEN(singles); i++)
        if (strcasecmp(name, singles[i]) == 0 && h->seen[i]++ > 0)
            h->fault = "a header is there twice that may be there once";
    if (strcasecmp(name, singles[SEEN_LENGTH]) == 0)
        h->length = value;
    if (strcasecmp(name, singles[SEEN_CODING]) == 0)
        h->coding = value;
}

void head_add(struct head *h, const char *name, const char *value) {
    size_t gap = measure_gap(name, value);
    h->bytes += strlen(name) + gap + strlen(value) + 2;
    if (++h->fields > HEAD_FIELDS_MAX)
        h->fault = "it has too many headers";
    if (h->fault != NULL)
        return;
    if (gap == 0)
        h->fault = "a header goes on in a second line";
    else if (!http_is_token(name))
        h->fault = "the name of a header is none";
    else if (!http_is_line(value))
        h->fault = "a header has a control character";
    else
        note_single(h, name, value);
}

static const char *find_fault(const struct head *h, const char *version) {
    if (h->fault != NULL)
        return h->fault;
    if (h->coding == NULL)
        return NULL;
    if (h->length != NULL)
        return "it has both Content-Length and Transfer-Encoding";
    if (strcasecmp(h->coding, "chunked") != 0)
        return "its Transfer-Encoding is not 'chunked'";
    return str_equal(version, "HTTP/1.1") ? NULL : "HTTP/1.0 knows no Transfer-Encoding";
}

int head_check(const struct head *h, const char *method, const char *uri, const char *version,
               size_t sent, struct cay_error *err) {
    size_t line = strlen(method) + strlen(uri) + strlen(version) + 4;
    const char *fault = find_fault(h, version);
    if (fault == NULL && line + h->bytes + 2 != sent)
        fault = "a line does not end in CR LF, or has a zero byte or a blank too many";
    if (fault == NULL)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "the head of the request is not clear: %s", fault);
    return error_remedy(err, "send every header once, in a line of its own");
}
