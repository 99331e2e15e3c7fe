#include "api/toolbox/ports.h"

#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/toolbox/toolbox.h"
#include "base/error.h"
#include "base/json/jsonw.h"
#include "wire/client_files.h"

enum { TABLE_MAX = 4 * 1024 * 1024, STATE_LISTEN = 0x0a };

/* Hex digits up to another character; -1 if there are none, or too many. */
static long read_hex(const char **at, size_t digits) {
    long value = 0;
    size_t n = 0;
    for (int d; n <= digits && (d = str_hex_digit(**at)) >= 0; (*at)++, n++)
        value = value << 4 | d;
    return n == digits ? value : -1;
}

/* "   0: 0100007F:1F90 00000000:0000 0A …" */
static void read_line(const char *line, bool *open) {
    const char *p = strchr(line, ':');
    if (p == NULL)
        return;
    p += 1 + strspn(p + 1, " ");
    p += strspn(p, "0123456789ABCDEF"); /* the address, of either family */
    if (*p++ != ':')
        return;
    long port = read_hex(&p, 4);
    p += strspn(p, " ");
    p += strspn(p, "0123456789ABCDEF:"); /* the other end */
    p += strspn(p, " ");
    if (read_hex(&p, 2) == STATE_LISTEN && port >= PORTS_FIRST && port <= PORTS_LAST)
        open[port] = true;
}

void ports_read(const char *text, bool *open) {
    while (text != NULL && *text != '\0') {
        char line[256];
        size_t len = strcspn(text, "\n");
        (void)snprintf(line, sizeof line, "%.*s", (int)MIN(len, sizeof line - 1), text);
        read_line(line, open);
        text += len + (text[len] == '\n');
    }
}

static int read_table(const struct call *c, const char *path, bool *open, struct cay_error *err) {
    struct toolbox t = TOOLBOX_INIT;
    const struct wire_range all = {.max_bytes = TABLE_MAX};
    uint64_t size;
    _cleanup_(buf_free) struct buf text = BUF_INIT(TABLE_MAX);
    int r = toolbox_begin(c, &t, err);
    if (r == 0) {
        toolbox_hurry(&t);
        r = wire_read(&t.wire, path, &all, wire_sink_buf, &text, &size, err);
    }
    if (r == 0)
        ports_read(buf_text(&text), open);
    toolbox_end(&t);
    return r;
}

/* A kernel without IPv6 has no second table. */
static int list(struct call *c, struct cay_error *err) {
    bool open[PORTS_LAST + 1] = {0};
    int r = read_table(c, "/proc/net/tcp", open, err);
    if (r == 0)
        r = read_table(c, "/proc/net/tcp6", open, err);
    if (r < 0 && r != -CAY_NOT_FOUND)
        return r;
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_object(&w);
    jsonw_key(&w, "ports");
    jsonw_begin_array(&w);
    for (int port = PORTS_FIRST; port <= PORTS_LAST; port++)
        if (open[port])
            jsonw_integer(&w, port);
    jsonw_end_array(&w);
    jsonw_end_object(&w);
    return 0;
}

/* Asked by a connection, which is what a client wants to know. */
static int is_in_use(struct call *c, struct cay_error *err) {
    int64_t port = 0;
    struct toolbox t = TOOLBOX_INIT;
    if (str_to_i64(c->args.v[1], PORTS_FIRST, PORTS_LAST, &port) < 0) {
        error_set(err, CAY_INVALID_ARGUMENT, "port: '%.40s' is not from %d to %d", c->args.v[1],
                  PORTS_FIRST, PORTS_LAST);
        return error_remedy(err, "give one of these");
    }
    int r = toolbox_begin(c, &t, err);
    if (r < 0)
        return r;
    toolbox_hurry(&t);
    bool in_use = wire_dial_port(&t.wire, (uint16_t)port, err) == 0;
    toolbox_end(&t);
    struct jsonw w = JSONW_INIT(&c->answer.body);
    jsonw_begin_object(&w);
    jsonw_put_bool(&w, "isInUse", in_use);
    jsonw_end_object(&w);
    return 0;
}

static const struct route routes[] = {
    {"GET", "/toolbox/{who}/port", list, NEED_USE},
    {"GET", "/toolbox/{who}/port/{port}/in-use", is_in_use, NEED_USE},
};
const struct route_table toolbox_ports_routes = {routes, ARRAY_LEN(routes)};
