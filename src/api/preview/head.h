/* Heads of requests and answers on their way through the proxy: what is between two neighbours only
 * and what is ours is left out; pure. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

struct preview_place;

/* What the head of a request is made from. */
struct preview_head {
    const struct preview_place *place;
    const char *method;
    const char *host;       /* as the client named us */
    const char *connection; /* the value of Connection; NULL: none */
    const char *length;     /* of Content-Length; NULL: none */
    const char *upgrade;    /* of Upgrade, if it is asked for; NULL: not */
    bool is_chunked;        /* its body comes without a length */
    bool is_tls;
    bool hides_key; /* Authorization was for us */
};

/* Appends the request line and what is ours to say; then one field after the other, if it is to be
 * passed on; then the end. */
void preview_put_request(struct buf *out, const struct preview_head *h);
void preview_put_field(struct buf *out, const struct preview_head *h, const char *name,
                       const char *value);
void preview_put_end(struct buf *out);

/* Appends a Set-Cookie value without its Domain, which would give the cookie to other previews and
 * to the API below the same domain. With a path it is for that path only: on a host that previews
 * share, one application would get what another one has set. NULL: its own Path stays. */
void preview_put_set_cookie(struct buf *out, const char *value, const char *path, size_t path_len);

/* False if a field of an answer stays here; connection is its Connection field, or NULL. What would
 * change how a browser treats the daemon as a whole stays too, unless the preview has a host of its
 * own. */
bool preview_passes_back(const char *name, const char *value, const char *connection, bool by_host);
