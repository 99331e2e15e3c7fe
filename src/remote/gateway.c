#include "remote/gateway.h"

#include "base/error.h"
#include "remote/request.h"

void gateway_serve(struct world *w, int fd) {
    struct request r;
    struct cay_error err;
    (void)w;
    if (request_read(fd, &r) == 0) {
        error_set(&err, CAY_UNSUPPORTED, "not yet");
        request_refuse(&r, &err);
    }
    request_free(&r);
}
