#include "api/daytona/error.h"

#include "api/call.h"
#include "api/toolbox/toolbox.h"
#include "base/clock.h"
#include "base/error.h"

bool daytona_is_asked(const struct call *c) {
    const struct target *t = &c->target;
    return t->segments > 0 && str_equal(t->segment[0], "api") &&
           !(t->segments > 1 && str_equal(t->segment[1], "cay"));
}

/* The name of a status, as servers of this kind write it. */
static const char *reason_of(unsigned status) {
    static const struct {
        unsigned status;
        const char *reason;
    } rows[] = {
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {413, "Payload Too Large"},
        {422, "Unprocessable Entity"},
        {426, "Upgrade Required"},
        {429, "Too Many Requests"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {507, "Insufficient Storage"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].status == status)
            return rows[i].reason;
    return "Internal Server Error";
}

void daytona_write_error(struct buf *out, const struct call *c, const struct cay_error *err,
                         unsigned status) {
    char now[32];
    struct cay_error shown = *err;
    struct jsonw w = JSONW_INIT(out);
    error_sanitize(&shown);
    jsonw_begin_object(&w);
    toolbox_write_path(&w, &c->target);
    jsonw_put_string(&w, "timestamp", clock_iso8601(clock_wall_ms(), now));
    jsonw_put_unsigned(&w, "statusCode", status);
    jsonw_put_string(&w, "error", reason_of(status));
    toolbox_write_message(&w, &shown);
    jsonw_put_string(&w, "code", cay_code_name(shown.code));
    jsonw_end_object(&w);
    (void)buf_putc(out, '\n');
}
