/* Files: their details, their content, and archives of them, which the sandbox's own tar makes. */
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "client/daemon.h"
#include "remote/gate.h"
#include "remote/op.h"

enum { COMMAND_MAX = 64 * 1024 };

/* Relative paths begin where the request says. */
static int find_path(const struct op *o, char path[static PATH_MAX], struct cay_error *err) {
    const char *given = op_text(o, WIRE_TAG_PATH), *cwd = op_text(o, WIRE_TAG_CWD);
    int r = given[0] == '/' ? str_copy(path, PATH_MAX, given)
                            : str_format(path, PATH_MAX, "%s/%s", cwd[0] == '/' ? cwd : "", given);
    return r < 0 ? error_sys(err, -r, "the path") : 0;
}

/* ---- details ---- */

static uint64_t mode_of(const struct json *at) {
    const char *text = far_string(at, "permissions", "0644");
    char *end;
    unsigned long bits = strtoul(text, &end, 8);
    return (far_bool(at, "isDir") ? S_IFDIR : S_IFREG) | (*end == '\0' ? bits & 07777 : 0644);
}

static uint64_t id_of(const struct json *at, const char *key) {
    uint64_t id = 0;
    (void)str_to_u64(far_string(at, key, "0"), UINT32_MAX - 1, &id); /* a name is nobody's id */
    return id;
}

int op_stat(struct op *o, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    _cleanup_(buf_free) struct buf at = BUF_INIT(COMMAND_MAX);
    _cleanup_(buf_free) struct buf b = BUF_INIT(COMMAND_MAX);
    char path[PATH_MAX];
    int r = find_path(o, path, err);
    if (r < 0)
        return r;
    (void)buf_puts(&at, "/files/info?path=");
    daemon_put_escaped(&at, path);
    r = toolbox_json(&o->toolbox, "GET", buf_text(&at), NULL, &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    int64_t ms = 0;
    (void)clock_from_iso8601(far_string(&root, "modifiedAt", ""), &ms);
    wire_put_string(&b, WIRE_TAG_PATH, op_text(o, WIRE_TAG_PATH));
    wire_put_number(&b, WIRE_TAG_MODE, mode_of(&root));
    wire_put_number(&b, WIRE_TAG_SIZE, (uint64_t)MAX(far_integer(&root, "size", 0), 0));
    wire_put_number(&b, WIRE_TAG_MTIME_MS, (uint64_t)ms);
    wire_put_number(&b, WIRE_TAG_UID, id_of(&root, "owner"));
    wire_put_number(&b, WIRE_TAG_GID, id_of(&root, "group"));
    return op_send(o, WIRE_DONE, &b, err);
}

/* ---- content ---- */

/* A stream out of the sandbox, of which a part is wanted. */
struct outflow {
    struct op *op;
    uint64_t skip, left, sent;
    bool cut;
};

static int take(void *arg, const char *data, size_t len, struct cay_error *err) {
    struct outflow *f = arg;
    size_t skip = (size_t)MIN(f->skip, (uint64_t)len);
    f->skip -= skip;
    size_t n = (size_t)MIN((uint64_t)(len - skip), f->left);
    f->cut |= n < len - skip;
    f->left -= n;
    f->sent += n;
    int r = n == 0 ? 0 : wire_send_data(f->op->fd, WIRE_STDOUT, data + skip, n);
    return r < 0 ? error_sys(err, -r, "passing the content on") : 0;
}

static int report_outflow(struct op *o, const struct outflow *f, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(256);
    wire_put_number(&b, WIRE_TAG_SIZE, f->sent);
    if (op_number(o, WIRE_TAG_OP) == WIRE_OP_TAR_OUT)
        wire_put_number(&b, WIRE_TAG_COUNT, 0);
    else
        wire_put_number(&b, WIRE_TAG_TRUNCATED, f->cut);
    return op_send(o, WIRE_DONE, &b, err);
}

static struct outflow outflow_of(struct op *o) {
    uint64_t limit = op_number(o, WIRE_TAG_LIMIT);
    return (struct outflow){
        .op = o, .skip = op_number(o, WIRE_TAG_OFFSET), .left = limit != 0 ? limit : UINT64_MAX};
}

int op_read(struct op *o, struct cay_error *err) {
    struct outflow f = outflow_of(o);
    char path[PATH_MAX];
    int r = find_path(o, path, err);
    if (r == 0)
        r = toolbox_download(&o->toolbox, path, take, &f, err);
    return r < 0 ? r : report_outflow(o, &f, err);
}

/* A stream into it: frames until the one that ends it. */
struct inflow {
    struct op *op;
    struct wire_frame frame;
    size_t at;
    uint64_t size;
    bool ended;
};

static ssize_t give(void *arg, char *data, size_t size, struct cay_error *err) {
    struct inflow *f = arg;
    while (!f->ended && f->at == f->frame.len) {
        int r = op_next(f->op, &f->frame, err);
        if (r < 0)
            return r;
        f->at = 0;
        f->ended = r > 0 && f->frame.type == WIRE_INPUT_END;
        if (r == 0 || (!f->ended && f->frame.type != WIRE_INPUT))
            return error_set(err, CAY_UNAVAILABLE, "the content broke off");
    }
    size_t n = f->ended ? 0 : MIN(size, f->frame.len - f->at);
    if (n > 0)
        memcpy(data, f->frame.data + f->at, n);
    f->at += n;
    f->size += n;
    return (ssize_t)n;
}

static int set_mode(struct op *o, const char *path, struct cay_error *err) {
    _cleanup_(buf_free) struct buf at = BUF_INIT(COMMAND_MAX);
    if (!o->message.present[WIRE_TAG_MODE])
        return 0;
    (void)buf_printf(
        &at, "/files/permissions?mode=%04o&path=", (unsigned)op_number(o, WIRE_TAG_MODE) & 07777);
    daemon_put_escaped(&at, path);
    return toolbox_json(&o->toolbox, "POST", buf_text(&at), NULL, NULL, err);
}

int op_write(struct op *o, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(256);
    struct inflow f = {.op = o};
    char path[PATH_MAX];
    int r = find_path(o, path, err);
    if (r == 0)
        r = toolbox_upload(&o->toolbox, path, give, &f, err);
    if (r == 0)
        r = set_mode(o, path, err);
    wire_put_number(&b, WIRE_TAG_SIZE, f.size);
    return r < 0 ? r : op_send(o, WIRE_DONE, &b, err);
}

/* ---- archives ---- */

static int explain(int code, const struct buf *said, const char *what, struct cay_error *err) {
    char shown[300];
    if (code == 0)
        return 0;
    bool absent = strstr(buf_text(said), "No such file") != NULL;
    error_set(err,
              code == 127 ? CAY_UNSUPPORTED
              : absent    ? CAY_NOT_FOUND
                          : CAY_INVALID_ARGUMENT,
              "%s in the sandbox: %s", what, str_escape(shown, sizeof shown, buf_text(said)));
    return error_remedy(err, code == 127 ? "a Daytona copies by the sandbox's tar: install it there"
                                         : "see the paths, the rights and the space there");
}

/* Runs a script in which $F is the archive and $P the path. */
static int run_script(struct op *o, const char *archive, const char *path, const char *script,
                      struct buf *said, struct cay_error *err) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(COMMAND_MAX);
    (void)buf_puts(&b, "F=");
    toolbox_put_quoted(&b, archive);
    (void)buf_puts(&b, "; P=");
    toolbox_put_quoted(&b, path);
    (void)buf_printf(&b, "; %s", script);
    return b.failed ? error_set(err, CAY_INVALID_ARGUMENT, "the path is too long")
                    : toolbox_execute(&o->toolbox, buf_text(&b), said, err);
}

static int make_archive_name(char out[static 64], struct cay_error *err) {
    char name[32];
    int r = op_make_name(name, err);
    (void)snprintf(out, 64, "/tmp/.%s.tar", name);
    return r;
}

int op_tar_in(struct op *o, struct cay_error *err) {
    static const char script[] =
        "command -v tar >/dev/null || exit 127; "
        "{ [ -z \"$M\" ] || mkdir -p -- \"$P\"; } && tar -xpof \"$F\" -C \"$P\" >&2; c=$?; "
        "tar -tf \"$F\" 2>/dev/null | wc -l; rm -f -- \"$F\"; exit $c";
    _cleanup_(buf_free) struct buf b = BUF_INIT(256);
    _cleanup_(buf_free) struct buf said = BUF_INIT(COMMAND_MAX);
    _cleanup_(buf_free) struct buf text = BUF_INIT(1024);
    struct inflow f = {.op = o};
    char path[PATH_MAX], archive[64];
    int r = find_path(o, path, err);
    if (r == 0)
        r = make_archive_name(archive, err);
    if (r == 0)
        r = toolbox_upload(&o->toolbox, archive, give, &f, err);
    (void)buf_printf(&text, "M=%s; %s", op_number(o, WIRE_TAG_RECURSIVE) != 0 ? "1" : "", script);
    if (r == 0)
        r = run_script(o, archive, path, buf_text(&text), &said, err);
    if (r != 0)
        return r < 0 ? r : explain(r, &said, "unpacking", err);
    wire_put_number(&b, WIRE_TAG_COUNT, strtoul(buf_text(&said), NULL, 10));
    wire_put_number(&b, WIRE_TAG_SIZE, f.size);
    return op_send(o, WIRE_DONE, &b, err);
}

/* "folder/." is what is in it. */
static void split(const char *path, char folder[static PATH_MAX], const char **ret_name) {
    (void)snprintf(folder, PATH_MAX, "%s", path);
    size_t len = strlen(folder);
    while (len > 1 && folder[len - 1] == '/')
        folder[--len] = '\0';
    char *slash = strrchr(folder, '/'); /* it is absolute */
    *ret_name = slash[1] != '\0' ? slash + 1 : ".";
    *slash = '\0';
}

int op_tar_out(struct op *o, struct cay_error *err) {
    static const char script[] =
        "command -v tar >/dev/null || exit 127; cd -- \"${P:-/}\" && tar -cf \"$F\" -- \"$N\"; "
        "c=$?; [ $c = 0 ] || rm -f -- \"$F\"; exit $c";
    _cleanup_(buf_free) struct buf said = BUF_INIT(COMMAND_MAX);
    _cleanup_(buf_free) struct buf text = BUF_INIT(COMMAND_MAX);
    struct outflow f = outflow_of(o);
    struct cay_error ignored;
    char path[PATH_MAX], folder[PATH_MAX], archive[64];
    const char *name;
    int r = find_path(o, path, err);
    if (r == 0)
        r = make_archive_name(archive, err);
    if (r < 0)
        return r;
    split(path, folder, &name);
    (void)buf_puts(&text, "N=");
    toolbox_put_quoted(&text, name);
    (void)buf_printf(&text, "; %s", script);
    r = run_script(o, archive, folder, buf_text(&text), &said, err);
    if (r != 0)
        return r < 0 ? r : explain(r, &said, "packing", err);
    r = toolbox_download(&o->toolbox, archive, take, &f, err);
    (void)run_script(o, archive, folder, "rm -f -- \"$F\"", NULL, &ignored); /* it was copied */
    return r < 0 ? r : report_outflow(o, &f, err);
}
