/* Errors as Daytona's clients read them; toolbox.h has those of the toolbox. */
#pragma once

#include <stdbool.h>

struct buf;
struct call;
struct cay_error;

/* True if the request is one of Daytona's control plane. */
bool daytona_is_asked(const struct call *c);

/* Appends an error as JSON: {path, timestamp, statusCode, error, message}, and our code and remedy.
 */
void daytona_write_error(struct buf *out, const struct call *c, const struct cay_error *err,
                         unsigned status);
