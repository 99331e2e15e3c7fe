/* One HTTP exchange by libcurl: redirects are followed by our rules, everything that comes is
 * bounded, silence has a deadline. Who we are and trying again are the caller's business. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "image/record.h"
#include "imager/registry/challenge.h"

struct cay_error;
struct http;

enum {
    HTTP_REDIRECTS_MAX = 10,
    HTTP_HEADERS_MAX = 200,
    HTTP_HEADER_BYTES_MAX = 64 * 1024,
    HTTP_ERROR_BODY_MAX = 16 * 1024,
    HTTP_HOST_SIZE = 300,
};

struct http_options {
    const char *ca_pem; /* to trust instead of the system's; NULL: the system's */
    size_t ca_len;
    bool insecure;    /* plain HTTP anywhere, unchecked certificates */
    bool on_loopback; /* plain HTTP on this machine is fine */
    bool is_judged;   /* only public addresses, and hosts in `listed` (registry/policy.h), also of
                       * redirects and token servers; what is not listed is reached without a proxy,
                       * whose addresses nobody could judge */
    const struct strv *listed;
    int64_t stall_ms;
};

/* What kept an exchange from its end. */
enum http_trouble {
    HTTP_FINE,
    HTTP_NO_CONNECTION, /* nobody is there */
    HTTP_NO_TLS,        /* somebody is there and does not speak it, or not in time */
    HTTP_BROKEN,        /* ended or fell silent in the middle: may be better next time */
    HTTP_HOPELESS,      /* would be the same next time */
    HTTP_REFUSED,       /* by the function that takes the body */
};

struct http_response {
    enum http_trouble trouble;
    long status;      /* 0 if none came */
    int64_t length;   /* of the body, as told; -1 if not */
    int64_t retry_ms; /* it asks for a pause; 0 if not */
    struct challenge challenge;
    char content_type[RECORD_WORD_SIZE]; /* without parameters */
    char content_digest[RECORD_WORD_SIZE];
    char content_range[RECORD_WORD_SIZE];
    struct buf error_body; /* of a status other than 2xx, its begin */
};
#define HTTP_RESPONSE_INIT                                                                         \
    ((struct http_response){.length = -1, .error_body = BUF_INIT(HTTP_ERROR_BODY_MAX)})
void http_response_free(struct http_response *response);

/* Takes the body of a 2xx answer, piece by piece; negative with err filled ends the exchange. */
typedef int (*http_body)(void *user, const struct http_response *response, const void *data,
                         size_t len, struct cay_error *err);

struct http_request {
    const char *url;
    const char *authorization; /* value of the header, for the origin of url alone; or NULL */
    const char *accept;        /* or NULL */
    const char *form;          /* to be sent by POST, never redirected; NULL: GET */
    uint64_t offset;           /* Range from here on; 0: all of it */
    int64_t connect_ms;        /* 0: as long as silence may last */
    bool is_small;             /* it is a document: it has a deadline as a whole */
    http_body body;
    void *user;
};

int http_new(const struct http_options *options, struct http **ret, struct cay_error *err);
void http_free(struct http *h);

/* 0 when a whole answer came, whatever its status. The error names the host, not the image. */
int http_exchange(struct http *h, const struct http_request *request,
                  struct http_response *response, struct cay_error *err);

/* Whether a URL that the registry told us (a token server's) may be used. */
int http_check_url(const struct http *h, const char *url, struct cay_error *err);

/* HOST[:PORT] of a URL, escaped, for errors. */
const char *http_host_of(const char *url, char out[static HTTP_HOST_SIZE]);
