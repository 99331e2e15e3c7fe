#include "api/code/toolbox_git.h"

#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/code/git_order.h"
#include "api/code/git_parse.h"
#include "base/error.h"
#include "base/json/jsonw.h"
#include "base/str.h"

/* ---- what comes of it ---- */

static int answer(struct call *c, struct git_order *o, int written, struct cay_error *err) {
    (void)c;
    if (o->result < 0)
        return o->result;
    if (written == 0)
        return 0;
    error_set(err, CAY_UNAVAILABLE, "git in the sandbox answered what cannot be read");
    return error_remedy(err, "see what 'git --version' says there: 2.31 or later is needed");
}

typedef int (*writer)(struct jsonw *w, const char *text, size_t len);

/* Runs the words, and answers with what the writer makes of the output. */
static int show(struct git_order *o, writer write, const char *const *words) {
    _cleanup_(buf_free) struct buf out = BUF_INIT(GIT_TEXT_MAX);
    if (git_order_words(o, &out, words) < 0)
        return o->result;
    struct buf *body = &o->call->answer.body;
    struct jsonw w = JSONW_INIT(body);
    int written = write(&w, buf_text(&out), out.len);
    if (written < 0)
        buf_clear(body);
    return answer(o->call, o, written, o->err);
}

#define SHOW(o, write, ...) show(o, write, (const char *const[]){__VA_ARGS__, NULL})

static int done(struct git_order *o, unsigned status) {
    if (o->result == 0)
        o->call->answer.status = status;
    return o->result;
}

/* ---- handlers: whole repositories ---- */

/* What a URL has of a login goes the way of one that is given apart. */
static const char *take_login(struct git_order *o, const char *url, char **ret_url,
                              char **ret_login) {
    const char *password = NULL;
    git_order_login(o);
    if (o->result < 0 || o->job.username != NULL || o->job.password != NULL)
        return url;
    *ret_url = strdup(url);
    *ret_login = calloc(1, strlen(url) + 1);
    if (*ret_url == NULL || *ret_login == NULL) {
        o->result = error_set(o->err, CAY_RESOURCE_EXHAUSTED, "no memory");
        return url;
    }
    if (git_split_url(*ret_url, *ret_login, &password)) {
        o->job.username = *ret_login;
        o->job.password = password;
    }
    return *ret_url;
}

static void add_depth(struct git_order *o, char *text, size_t size) {
    int64_t commits = 0;
    if (o->result == 0)
        o->result =
            json_get_integer(&o->root, "depth", JSON_OPTIONAL, 0, INT32_MAX, &commits, o->err);
    (void)snprintf(text, size, "--depth=%lld", (long long)commits);
    if (commits > 0)
        git_add(o, text);
}

static int clone(struct call *c, struct cay_error *err) {
    _cleanup_(git_order_free) struct git_order *o = NULL;
    _cleanup_(freep) char *bare_url = NULL, *login = NULL;
    char depth[32];
    int r = git_order_read(c, &o, err);
    if (r < 0)
        return r;
    const char *url = git_name(o, "url", JSON_REQUIRED);
    const char *path = git_name(o, "path", JSON_REQUIRED);
    const char *branch = git_name(o, "branch", JSON_OPTIONAL);
    const char *commit = git_name(o, "commit_id", JSON_OPTIONAL);
    o->job.skip_tls = git_flag(o, "insecure_skip_tls");
    url = take_login(o, url, &bare_url, &login);
    git_add(o, "clone");
    if (branch != NULL) {
        git_add(o, "--branch");
        git_add(o, branch);
    }
    add_depth(o, depth, sizeof depth);
    if (GIT_RUN(o, NULL, "--", url, path) == 0 && commit != NULL) {
        o->job.path = path;
        (void)GIT_RUN(o, NULL, "checkout", "--detach", commit, "--");
    }
    return o->result;
}

static int init(struct call *c, struct cay_error *err) {
    _cleanup_(git_order_free) struct git_order *o = NULL;
    int r = git_order_read(c, &o, err);
    if (r < 0)
        return r;
    const char *path = git_name(o, "path", JSON_REQUIRED);
    const char *branch = git_name(o, "initial_branch", JSON_OPTIONAL);
    git_add(o, "init");
    if (git_flag(o, "bare"))
        git_add(o, "--bare");
    if (branch != NULL) {
        git_add(o, "--initial-branch");
        git_add(o, branch);
    }
    (void)GIT_RUN(o, NULL, "--", path);
    return done(o, 201);
}

static int status(struct call *c, struct cay_error *err) {
    _cleanup_(git_order_free) struct git_order *o = NULL;
    int r = git_order_query(c, &o, err);
    return r < 0 ? r
                 : SHOW(o, git_write_status, "status", "--porcelain=v2", "--branch", "-z",
                        "--untracked-files=all");
}

/* A repository without a commit has no history, which for git is a failure. */
static int history(struct call *c, struct cay_error *err) {
    _cleanup_(git_order_free) struct git_order *o = NULL;
    int code = 0, r = git_order_query(c, &o, err);
    if (r < 0)
        return r;
    if (GIT_RUN(o, NULL, "rev-parse", "--git-dir") < 0)
        return o->result;
    o->job.ret_exit = &code;
    if (GIT_RUN(o, NULL, "rev-parse", "--verify", "--quiet", "HEAD") < 0)
        return o->result;
    if (code != 0) {
        (void)buf_puts(&c->answer.body, "[]");
        return 0;
    }
    o->job.ret_exit = NULL;
    return SHOW(o, git_write_history, "log", "-z", "--format=" GIT_LOG_FORMAT);
}

/* ---- handlers: changes ---- */

static int stage(struct call *c, struct cay_error *err) {
    _cleanup_(git_order_free) struct git_order *o = NULL;
    int r = git_order_read_path(c, &o, err);
    if (r < 0)
        return r;
    git_add(o, "add");
    if (git_add_files(o, JSON_REQUIRED) == 0 && o->result == 0) {
        error_set(err, CAY_INVALID_ARGUMENT, "files: is empty");
        return error_remedy(err, "name files, or \".\" for all");
    }
    return git_order_run(o, NULL);
}

static int answer_hash(struct git_order *o) {
    _cleanup_(buf_free) struct buf out = BUF_INIT(256);
    if (GIT_RUN(o, &out, "rev-parse", "HEAD") < 0)
        return o->result;
    struct jsonw w = JSONW_INIT(&o->call->answer.body);
    jsonw_begin_object(&w);
    jsonw_key(&w, "hash");
    jsonw_bytes(&w, buf_text(&out), strcspn(buf_text(&out), "\n"));
    jsonw_end_object(&w);
    return 0;
}

static int commit(struct call *c, struct cay_error *err) {
    _cleanup_(git_order_free) struct git_order *o = NULL;
    int r = git_order_read_path(c, &o, err);
    if (r < 0)
        return r;
    const char *message = git_text(o, "message", JSON_REQUIRED);
    const char *author = git_text(o, "author", JSON_REQUIRED),
               *email = git_text(o, "email", JSON_REQUIRED);
    struct strv env = {0};
    bool failed = o->result == 0 && (strv_pushf(&env, "GIT_AUTHOR_NAME=%s", author) < 0 ||
                                     strv_pushf(&env, "GIT_AUTHOR_EMAIL=%s", email) < 0 ||
                                     strv_pushf(&env, "GIT_COMMITTER_NAME=%s", author) < 0 ||
                                     strv_pushf(&env, "GIT_COMMITTER_EMAIL=%s", email) < 0);
    if (failed)
        o->result = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    o->job.env = (const char *const *)env.v;
    git_add(o, "commit");
    if (git_flag(o, "allow_empty"))
        git_add(o, "--allow-empty");
    r = GIT_RUN(o, NULL, "--quiet", "-m", message);
    o->job.env = NULL;
    strv_free(&env);
    return r < 0 ? r : answer_hash(o);
}

static int reset(struct call *c, struct cay_error *err) {
    static const char *const modes[] = {"soft", "mixed", "hard", "merge", "keep"};
    static const char *const options[] = {"--soft", "--mixed", "--hard", "--merge", "--keep"};
    _cleanup_(git_order_free) struct git_order *o = NULL;
    int r = git_order_read_path(c, &o, err);
    if (r < 0)
        return r;
    const char *mode = git_text(o, "mode", JSON_OPTIONAL),
               *to = git_name(o, "target", JSON_OPTIONAL);
    size_t i = 0;
    while (mode != NULL && i < ARRAY_LEN(modes) && !str_equal(modes[i], mode))
        i++;
    if (i == ARRAY_LEN(modes)) {
        error_set(err, CAY_INVALID_ARGUMENT, "mode: '%.40s' is not known", mode);
        return error_remedy(err, "use soft, mixed, hard, merge or keep");
    }
    git_add(o, "reset");
    git_add(o, "--quiet");
    if (mode != NULL)
        git_add(o, options[i]);
    git_add(o, to != NULL ? to : "HEAD");
    if (git_add_files(o, JSON_OPTIONAL) == 0)
        git_add(o, "--");
    return git_order_run(o, NULL);
}

static int restore(struct call *c, struct cay_error *err) {
    _cleanup_(git_order_free) struct git_order *o = NULL;
    _cleanup_(freep) char *source = NULL;
    int r = git_order_read_path(c, &o, err);
    if (r < 0)
        return r;
    const char *from = git_text(o, "source", JSON_OPTIONAL);
    git_add(o, "restore");
    if (from != NULL && asprintf(&source, "--source=%s", from) < 0)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    if (from != NULL)
        git_add(o, source);
    if (git_flag(o, "staged"))
        git_add(o, "--staged");
    if (git_flag(o, "worktree"))
        git_add(o, "--worktree");
    (void)git_add_files(o, JSON_REQUIRED);
    return git_order_run(o, NULL);
}

/* ---- handlers: branches ---- */

static int branches(struct call *c, struct cay_error *err) {
    _cleanup_(git_order_free) struct git_order *o = NULL;
    int r = git_order_query(c, &o, err);
    return r < 0 ? r
                 : SHOW(o, git_write_branches, "for-each-ref", "--format=" GIT_BRANCH_FORMAT,
                        "refs/heads");
}

static int branch_create(struct call *c, struct cay_error *err) {
    _cleanup_(git_order_free) struct git_order *o = NULL;
    int r = git_order_read_path(c, &o, err);
    if (r < 0)
        return r;
    const char *branch = git_name(o, "name", JSON_REQUIRED);
    (void)GIT_RUN(o, NULL, "branch", "--no-track", "--", branch);
    return done(o, 201);
}

static int branch_delete(struct call *c, struct cay_error *err) {
    _cleanup_(git_order_free) struct git_order *o = NULL;
    int r = git_order_read_path(c, &o, err);
    if (r < 0)
        return r;
    const char *branch = git_name(o, "name", JSON_REQUIRED);
    (void)GIT_RUN(o, NULL, "branch", "-D", "--", branch);
    return done(o, 204);
}

static int checkout(struct call *c, struct cay_error *err) {
    _cleanup_(git_order_free) struct git_order *o = NULL;
    int r = git_order_read_path(c, &o, err);
    if (r < 0)
        return r;
    const char *branch = git_name(o, "branch", JSON_REQUIRED);
    return GIT_RUN(o, NULL, "checkout", "--quiet", branch, "--");
}

/* ---- handlers: remotes ---- */

static const char *remote_of(struct git_order *o) {
    const char *remote = git_name(o, "remote", JSON_OPTIONAL);
    return remote != NULL ? remote : "origin";
}

static int push(struct call *c, struct cay_error *err) {
    _cleanup_(git_order_free) struct git_order *o = NULL;
    int r = git_order_read_path(c, &o, err);
    if (r < 0)
        return r;
    const char *remote = remote_of(o), *branch = git_name(o, "branch", JSON_OPTIONAL);
    git_order_login(o);
    git_add(o, "push");
    if (git_flag(o, "set_upstream"))
        git_add(o, "--set-upstream");
    return GIT_RUN(o, NULL, "--", remote, branch != NULL ? branch : "HEAD");
}

/* Without a branch: the one that is checked out, whether or not it knows where it comes from. */
static int pull(struct call *c, struct cay_error *err) {
    _cleanup_(git_order_free) struct git_order *o = NULL;
    _cleanup_(buf_free) struct buf current = BUF_INIT(4096);
    int r = git_order_read_path(c, &o, err);
    if (r < 0)
        return r;
    const char *remote = remote_of(o), *branch = git_name(o, "branch", JSON_OPTIONAL);
    if (branch == NULL && GIT_RUN(o, &current, "symbolic-ref", "--short", "HEAD") == 0) {
        current.data[strcspn(current.data, "\n")] = '\0';
        branch = current.data;
    }
    git_order_login(o);
    return GIT_RUN(o, NULL, "pull", "--quiet", "--no-rebase", "--no-edit", "--", remote, branch);
}

static int remotes(struct call *c, struct cay_error *err) {
    _cleanup_(git_order_free) struct git_order *o = NULL;
    int code = 0, r = git_order_query(c, &o, err);
    if (r < 0)
        return r;
    if (GIT_RUN(o, NULL, "rev-parse", "--git-dir") < 0)
        return o->result;
    o->job.ret_exit = &code; /* 1: there are none */
    return SHOW(o, git_write_remotes, "config", "-z", "--get-regexp", "^remote\\..*\\.url$");
}

/* "set-url" if there is one of this name that may be replaced, else "add". */
static const char *choose_remote_verb(struct git_order *o, const char *remote) {
    _cleanup_(freep) char *key = NULL;
    int code = 1;
    if (o->result < 0 || !git_flag(o, "overwrite"))
        return "add";
    if (asprintf(&key, "remote.%s.url", remote) < 0) {
        o->result = error_set(o->err, CAY_RESOURCE_EXHAUSTED, "no memory");
        return "add";
    }
    o->job.ret_exit = &code;
    (void)GIT_RUN(o, NULL, "config", "--local", "--get", key);
    o->job.ret_exit = NULL;
    return code == 0 ? "set-url" : "add";
}

static int remote_add(struct call *c, struct cay_error *err) {
    _cleanup_(git_order_free) struct git_order *o = NULL;
    int r = git_order_read_path(c, &o, err);
    if (r < 0)
        return r;
    const char *remote = git_name(o, "name", JSON_REQUIRED),
               *url = git_name(o, "url", JSON_REQUIRED);
    bool fetch = git_flag(o, "fetch");
    (void)GIT_RUN(o, NULL, "remote", choose_remote_verb(o, remote), "--", remote, url);
    if (fetch)
        (void)GIT_RUN(o, NULL, "fetch", "--quiet", "--", remote);
    return done(o, 201);
}

static const struct route rows[] = {
    {"POST", "/toolbox/{who}/git/clone", clone},
    {"POST", "/toolbox/{who}/git/init", init},
    {"GET", "/toolbox/{who}/git/status", status, NEED_USE},
    {"GET", "/toolbox/{who}/git/history", history, NEED_USE},
    {"POST", "/toolbox/{who}/git/add", stage},
    {"POST", "/toolbox/{who}/git/commit", commit},
    {"POST", "/toolbox/{who}/git/reset", reset},
    {"POST", "/toolbox/{who}/git/restore", restore},
    {"GET", "/toolbox/{who}/git/branches", branches, NEED_USE},
    {"POST", "/toolbox/{who}/git/branches", branch_create},
    {"DELETE", "/toolbox/{who}/git/branches", branch_delete},
    {"POST", "/toolbox/{who}/git/checkout", checkout},
    {"POST", "/toolbox/{who}/git/push", push},
    {"POST", "/toolbox/{who}/git/pull", pull},
    {"GET", "/toolbox/{who}/git/remotes", remotes, NEED_USE},
    {"POST", "/toolbox/{who}/git/remotes", remote_add},
};
const struct route_table toolbox_git_routes = {rows, ARRAY_LEN(rows)};
