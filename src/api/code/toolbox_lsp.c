/* Language servers: started, told of documents, and asked, by requests. Each needs the program in
 * the image; the paths of a request begin in the work folder, as elsewhere. */
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include <cay.h>

#include "api/code/lsp_server.h"
#include "api/code/lsp_text.h"
#include "api/toolbox/command.h"
#include "api/toolbox/files.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json/json.h"

enum {
    START_MS = 60 * 1000,
    ASK_MS = 30 * 1000,
    STOP_MS = 2 * 1000,
    DOCUMENT_MAX = 2 * 1024 * 1024,
};

/* What a project has itself comes last. */
#define WITH_OWN_PROGRAMS "PATH=\"$PATH:$PWD/node_modules/.bin\"; "

static const struct language {
    const char *id, *script;
} languages[] = {
    {"python", "command -v pylsp >/dev/null 2>&1 && exec pylsp; " WITH_OWN_PROGRAMS
               "command -v pyright-langserver >/dev/null 2>&1 && exec pyright-langserver --stdio; "
               "exit 127"},
    {"typescript",
     WITH_OWN_PROGRAMS "command -v typescript-language-server >/dev/null 2>&1 || exit 127; "
                       "exec typescript-language-server --stdio"},
    {"javascript",
     WITH_OWN_PROGRAMS "command -v typescript-language-server >/dev/null 2>&1 || exit 127; "
                       "exec typescript-language-server --stdio"},
};

/* ---- what requests say ---- */

struct lsp_wish {
    struct json_document *doc; /* of a body, or NULL */
    const struct language *language;
    struct lsp_place place;
    const char *uri; /* as it was given, or NULL */
    char path[PATH_MAX];
    char file[LSP_URI_SIZE]; /* the same as a URI */
};

static void wish_free(struct lsp_wish *w) {
    json_free(w->doc);
}

static int take_language(struct lsp_wish *w, const char *id, struct cay_error *err) {
    for (size_t i = 0; i < ARRAY_LEN(languages); i++) {
        if (!str_equal(languages[i].id, id))
            continue;
        w->language = &languages[i];
        return str_copy(w->place.language, sizeof w->place.language, id);
    }
    error_set(err, CAY_INVALID_ARGUMENT, "languageId: '%.40s' is not known", id);
    return error_remedy(err, "use python, typescript or javascript");
}

static void drop_slashes(char *path) {
    for (size_t len = strlen(path); len > 1 && path[len - 1] == '/'; len--)
        path[len - 1] = '\0';
}

/* Whole paths, for the operation t. */
static int take_paths(const struct toolbox *t, struct lsp_wish *w, const char *project,
                      struct cay_error *err) {
    char path[PATH_MAX];
    int r = toolbox_absolute(t, project, w->place.project, err);
    if (r == 0 && w->uri != NULL)
        r = lsp_read_uri(w->uri, path, err);
    if (r == 0 && w->uri != NULL)
        r = toolbox_absolute(t, path, w->path, err);
    if (r < 0)
        return r;
    drop_slashes(w->place.project);
    lsp_put_uri(w->path, w->file);
    return 0;
}

static int take_place(const struct call *c, const struct toolbox *t, struct lsp_wish *w,
                      const char *language, const char *project, struct cay_error *err) {
    int r = take_language(w, language, err);
    if (r == 0)
        r = str_copy(w->place.sandbox, sizeof w->place.sandbox, c->who);
    return r < 0 ? r : take_paths(t, w, project, err);
}

static int read_body(const struct call *c, const struct toolbox *t, bool has_uri,
                     struct lsp_wish *w, struct cay_error *err) {
    const char *language = "", *project = "";
    int r = json_parse("request body", buf_text(&c->body), c->body.len, &w->doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(w->doc, "");
    r = json_get_string(&root, "languageId", JSON_REQUIRED, &language, err);
    if (r == 0)
        r = json_get_string(&root, "pathToProject", JSON_REQUIRED, &project, err);
    if (r == 0 && has_uri)
        r = json_get_string(&root, "uri", JSON_REQUIRED, &w->uri, err);
    return r < 0 ? r : take_place(c, t, w, language, project, err);
}

static int read_query(const struct call *c, const struct toolbox *t, bool has_uri,
                      struct lsp_wish *w, struct cay_error *err) {
    const char *language = "", *project = "";
    int r = toolbox_need_query(c, "languageId", &language, err);
    if (r == 0)
        r = toolbox_need_query(c, "pathToProject", &project, err);
    if (r == 0 && has_uri)
        r = toolbox_need_query(c, "uri", &w->uri, err);
    return r < 0 ? r : take_place(c, t, w, language, project, err);
}

/* ---- the server of a request ---- */

/* A request, its operation in the sandbox, and its server. */
struct job {
    struct toolbox t;
    struct lsp_wish wish;
    struct lsp_server *server;
};

#define JOB_INIT ((struct job){.t = TOOLBOX_INIT})

static void job_end(struct job *j) {
    lsp_server_put(j->server);
    wish_free(&j->wish);
    toolbox_end(&j->t);
}

static int refuse_missing(struct call *c, const struct lsp_wish *w, struct cay_error *err) {
    error_set(err, CAY_INVALID_ARGUMENT, "no language server for %s runs in '%.256s'",
              w->language->id, w->place.project);
    (void)error_remedy(err, "start it first, with the same pathToProject");
    return toolbox_fault(c, "LSP_SERVER_NOT_INITIALIZED", 0, err);
}

enum source { FROM_BODY, FROM_QUERY };

/* The request, and the server that it is for. */
static int job_begin(struct call *c, struct job *j, enum source source, bool has_uri,
                     struct cay_error *err) {
    int r = toolbox_begin(c, &j->t, err);
    if (r == 0)
        r = source == FROM_BODY ? read_body(c, &j->t, has_uri, &j->wish, err)
                                : read_query(c, &j->t, has_uri, &j->wish, err);
    if (r == 0)
        r = lsp_server_take(&j->wish.place, false, &j->server, err);
    return r == 0 && j->server == NULL ? refuse_missing(c, &j->wish, err) : r;
}

/* ---- start ---- */

static void put_folder(struct jsonw *w, const char *project, const char *uri) {
    const char *slash = strrchr(project, '/');
    jsonw_put_string(w, "rootPath", project);
    jsonw_put_string(w, "rootUri", uri);
    jsonw_key(w, "workspaceFolders");
    jsonw_begin_array(w);
    jsonw_begin_object(w);
    jsonw_put_string(w, "uri", uri);
    jsonw_put_string(w, "name", slash != NULL && slash[1] != '\0' ? slash + 1 : project);
    jsonw_end_object(w);
    jsonw_end_array(w);
}

static void put_capabilities(struct jsonw *w) {
    static const char *const of_documents[] = {"synchronization", "completion", "documentSymbol"};
    jsonw_key(w, "capabilities");
    jsonw_begin_object(w);
    jsonw_key(w, "textDocument");
    jsonw_begin_object(w);
    for (size_t i = 0; i < ARRAY_LEN(of_documents); i++) {
        jsonw_key(w, of_documents[i]);
        jsonw_begin_object(w);
        jsonw_end_object(w);
    }
    jsonw_end_object(w);
    jsonw_key(w, "workspace");
    jsonw_begin_object(w);
    jsonw_put_bool(w, "workspaceFolders", true);
    jsonw_end_object(w);
    jsonw_end_object(w);
}

static int introduce(const struct call *c, const struct job *j, struct cay_error *err) {
    char uri[LSP_URI_SIZE];
    struct lsp_message m;
    const char *project = j->wish.place.project;
    lsp_put_uri(project, uri);
    lsp_message_begin(j->server, "initialize", true, &m);
    jsonw_begin_object(&m.w);
    jsonw_key(&m.w, "processId"); /* ours means nothing there */
    jsonw_null(&m.w);
    jsonw_key(&m.w, "clientInfo");
    jsonw_begin_object(&m.w);
    jsonw_put_string(&m.w, "name", "cay");
    jsonw_put_string(&m.w, "version", cay_version());
    jsonw_end_object(&m.w);
    put_folder(&m.w, project, uri);
    put_capabilities(&m.w);
    jsonw_end_object(&m.w);
    int r = lsp_server_say(c, j->server, &m, clock_deadline(START_MS), NULL, err);
    lsp_message_free(&m);
    if (r < 0)
        return r;
    lsp_message_begin(j->server, "initialized", false, &m);
    jsonw_begin_object(&m.w);
    jsonw_end_object(&m.w);
    r = lsp_server_say(c, j->server, &m, clock_deadline(START_MS), NULL, err);
    lsp_message_free(&m);
    return r;
}

/* A command makes its work folder if that is missing; a project that is missing is a mistake. */
static int check_project(struct call *c, const char *project, struct cay_error *err) {
    char target[PATH_MAX];
    struct wire_file f;
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    int r = toolbox_begin(c, &t, err);
    toolbox_hurry(&t);
    if (r < 0)
        return r;
    r = wire_stat(&t.wire, project, true, &f, target, err);
    if (r == 0 && !S_ISDIR(f.mode)) {
        error_set(err, CAY_CONFLICT, "pathToProject: '%.256s' is no folder", project);
        r = error_remedy(err, "name the folder of the project");
    }
    return toolbox_file_result(c, r, err);
}

static int launch(struct call *c, struct job *j, struct cay_error *err) {
    const char *const argv[] = {"sh", "-c", j->wish.language->script, NULL};
    const struct toolbox_command command = {
        .argv = argv, .cwd = j->wish.place.project, .keeps_input = true};
    int r = check_project(c, j->wish.place.project, err);
    if (r == 0)
        r = toolbox_send(&j->t, &command, err);
    if (r < 0)
        return r;
    lsp_server_begin(j->server, TAKE_FD(j->t.wire.fd));
    r = introduce(c, j, err);
    if (r < 0)
        lsp_server_end(j->server);
    if (r != -CAY_INVALID_ARGUMENT)
        return r;
    err->code = CAY_UNAVAILABLE; /* it refuses to work at all */
    return error_remedy(err, "install what it misses, and start it again");
}

static int start(struct call *c, struct cay_error *err) {
    _cleanup_(job_end) struct job j = JOB_INIT;
    int r = toolbox_begin(c, &j.t, err);
    if (r == 0)
        r = read_body(c, &j.t, false, &j.wish, err);
    if (r == 0)
        r = lsp_server_take(&j.wish.place, true, &j.server, err);
    if (r == 0 && !lsp_server_is_started(j.server))
        r = launch(c, &j, err);
    return r;
}

/* ---- stop ---- */

/* It may say good-bye; if it does not, it is ended all the same. */
static int stop(struct call *c, struct cay_error *err) {
    struct cay_error ignored;
    struct lsp_message m;
    _cleanup_(job_end) struct job j = JOB_INIT;
    int r = job_begin(c, &j, FROM_BODY, false, err);
    if (r < 0)
        return r;
    lsp_message_begin(j.server, "shutdown", true, &m);
    jsonw_null(&m.w);
    (void)lsp_server_say(c, j.server, &m, clock_deadline(STOP_MS), NULL, &ignored);
    lsp_message_free(&m);
    lsp_server_end(j.server);
    return 0;
}

/* ---- documents ---- */

static int read_document(const struct call *c, const char *path, struct buf *ret,
                         struct cay_error *err) {
    const struct wire_range all = {.max_bytes = DOCUMENT_MAX};
    uint64_t size;
    _cleanup_(toolbox_end) struct toolbox t = TOOLBOX_INIT;
    int r = toolbox_begin(c, &t, err);
    toolbox_hurry(&t);
    return r < 0 ? r : wire_read(&t.wire, path, &all, wire_sink_buf, ret, &size, err);
}

static void begin_document(struct job *j, const char *method, bool wants_answer,
                           struct lsp_message *m) {
    lsp_message_begin(j->server, method, wants_answer, m);
    jsonw_begin_object(&m->w);
    jsonw_key(&m->w, "textDocument");
    jsonw_begin_object(&m->w);
    jsonw_put_string(&m->w, "uri", j->wish.file);
}

static int close_document(const struct call *c, struct job *j, struct cay_error *err) {
    struct lsp_message m;
    if (!lsp_server_has_document(j->server, j->wish.file))
        return 0;
    begin_document(j, "textDocument/didClose", false, &m);
    jsonw_end_object(&m.w);
    jsonw_end_object(&m.w);
    lsp_server_drop_document(j->server, j->wish.file);
    int r = lsp_server_say(c, j->server, &m, clock_deadline(ASK_MS), NULL, err);
    lsp_message_free(&m);
    return r;
}

static int open_document(const struct call *c, struct job *j, const struct buf *text,
                         struct cay_error *err) {
    struct lsp_message m;
    int r = lsp_server_add_document(j->server, j->wish.file, err);
    if (r < 0)
        return r;
    begin_document(j, "textDocument/didOpen", false, &m);
    jsonw_put_string(&m.w, "languageId", j->wish.language->id);
    jsonw_put_integer(&m.w, "version", 1);
    jsonw_key(&m.w, "text");
    jsonw_bytes(&m.w, buf_text(text), text->len);
    jsonw_end_object(&m.w);
    jsonw_end_object(&m.w);
    r = lsp_server_say(c, j->server, &m, clock_deadline(ASK_MS), NULL, err);
    lsp_message_free(&m);
    return r;
}

/* Once more is as good as new content. */
static int did_open(struct call *c, struct cay_error *err) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(DOCUMENT_MAX);
    _cleanup_(job_end) struct job j = JOB_INIT;
    int r = job_begin(c, &j, FROM_BODY, true, err);
    if (r == 0)
        r = toolbox_file_result(c, read_document(c, j.wish.path, &text, err), err);
    if (r == 0)
        r = close_document(c, &j, err);
    return r < 0 ? r : open_document(c, &j, &text, err);
}

static int did_close(struct call *c, struct cay_error *err) {
    _cleanup_(job_end) struct job j = JOB_INIT;
    int r = job_begin(c, &j, FROM_BODY, true, err);
    return r < 0 ? r : close_document(c, &j, err);
}

/* ---- questions ---- */

typedef void write_fn(struct jsonw *w, const struct json *result, const char *uri);

/* Ends the params, asks, and makes the answer of the result. */
static int ask(struct call *c, struct job *j, struct lsp_message *m, write_fn *write,
               struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct json result = {0};
    jsonw_end_object(&m->w);
    int r = lsp_server_say(c, j->server, m, clock_deadline(ASK_MS), &doc, err);
    if (r < 0)
        return r;
    struct json root = json_root(doc, "");
    (void)json_child(&root, "result", &result); /* none is an empty one */
    struct jsonw w = JSONW_INIT(&c->answer.body);
    write(&w, &result, j->wish.file);
    return 0;
}

static void write_completions(struct jsonw *w, const struct json *result, const char *uri) {
    (void)uri;
    lsp_write_completions(w, result);
}

static int put_position(struct jsonw *w, const struct json *root, struct cay_error *err) {
    struct json at;
    int64_t line = 0, character = 0;
    int r = json_get_object(root, "position", JSON_REQUIRED, &at, err);
    if (r == 0)
        r = json_get_integer(&at, "line", JSON_REQUIRED, 0, INT32_MAX, &line, err);
    if (r == 0)
        r = json_get_integer(&at, "character", JSON_REQUIRED, 0, INT32_MAX, &character, err);
    if (r < 0)
        return r;
    jsonw_key(w, "position");
    jsonw_begin_object(w);
    jsonw_put_integer(w, "line", line);
    jsonw_put_integer(w, "character", character);
    jsonw_end_object(w);
    return 0;
}

/* Why it is asked for: by hand, unless the client says otherwise. */
static int put_context(struct jsonw *w, const struct json *root, struct cay_error *err) {
    struct json at;
    int64_t kind = 1;
    const char *character = NULL;
    int r = json_get_object(root, "context", JSON_OPTIONAL, &at, err);
    if (r == 0 && at.value != NULL)
        r = json_get_integer(&at, "triggerKind", JSON_REQUIRED, 1, 3, &kind, err);
    if (r == 0 && at.value != NULL)
        r = json_get_string(&at, "triggerCharacter", JSON_OPTIONAL, &character, err);
    if (r < 0)
        return r;
    jsonw_key(w, "context");
    jsonw_begin_object(w);
    jsonw_put_integer(w, "triggerKind", kind);
    if (character != NULL)
        jsonw_put_string(w, "triggerCharacter", character);
    jsonw_end_object(w);
    return 0;
}

static int completions(struct call *c, struct cay_error *err) {
    struct lsp_message m;
    _cleanup_(job_end) struct job j = JOB_INIT;
    int r = job_begin(c, &j, FROM_BODY, true, err);
    if (r < 0)
        return r;
    struct json root = json_root(j.wish.doc, "");
    begin_document(&j, "textDocument/completion", true, &m);
    jsonw_end_object(&m.w);
    r = put_position(&m.w, &root, err);
    if (r == 0)
        r = put_context(&m.w, &root, err);
    if (r == 0)
        r = ask(c, &j, &m, write_completions, err);
    lsp_message_free(&m);
    return r;
}

static int document_symbols(struct call *c, struct cay_error *err) {
    struct lsp_message m;
    _cleanup_(job_end) struct job j = JOB_INIT;
    int r = job_begin(c, &j, FROM_QUERY, true, err);
    if (r < 0)
        return r;
    begin_document(&j, "textDocument/documentSymbol", true, &m);
    jsonw_end_object(&m.w);
    r = ask(c, &j, &m, lsp_write_symbols, err);
    lsp_message_free(&m);
    return r;
}

static int workspace_symbols(struct call *c, struct cay_error *err) {
    struct lsp_message m;
    _cleanup_(job_end) struct job j = JOB_INIT;
    const char *query = target_query(&c->target, "query");
    int r = job_begin(c, &j, FROM_QUERY, false, err);
    if (r < 0)
        return r;
    lsp_message_begin(j.server, "workspace/symbol", true, &m);
    jsonw_begin_object(&m.w);
    jsonw_put_string(&m.w, "query", query != NULL ? query : "");
    r = ask(c, &j, &m, lsp_write_symbols, err);
    lsp_message_free(&m);
    return r;
}

static const struct route routes[] = {
    {"POST", "/toolbox/{who}/lsp/start", start, NEED_SANDBOXES},
    {"POST", "/toolbox/{who}/lsp/stop", stop, NEED_SANDBOXES},
    {"POST", "/toolbox/{who}/lsp/did-open", did_open, NEED_SANDBOXES},
    {"POST", "/toolbox/{who}/lsp/did-close", did_close, NEED_SANDBOXES},
    {"POST", "/toolbox/{who}/lsp/completions", completions, NEED_SANDBOXES},
    {"GET", "/toolbox/{who}/lsp/document-symbols", document_symbols, NEED_SANDBOXES},
    {"GET", "/toolbox/{who}/lsp/workspacesymbols", workspace_symbols, NEED_SANDBOXES},
};
const struct route_table toolbox_lsp_routes = {routes, ARRAY_LEN(routes)};
