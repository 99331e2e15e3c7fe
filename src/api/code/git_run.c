#include "api/code/git_run.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/call.h"
#include "api/toolbox/toolbox.h"
#include "base/error.h"
#include "base/str.h"
#include "client/http_answer.h"
#include "lib/command.h"

enum {
    GIT_TIMEOUT_MS = 60 * 60 * 1000,
    GIT_OUTPUT_MAX = 16 * 1024 * 1024,
    GIT_ARGS_MAX = 4096,
    GIT_NOT_FOUND_EXIT = 127,
};

/* ---- what went wrong ---- */

/* The first that occurs in what git wrote counts. */
static const struct {
    const char *text;
    struct git_fault fault;
} faults[] = {
    {"authentication failed", {"GIT_AUTH_FAILED", 401, CAY_UNAUTHORIZED}},
    {"could not read username", {"GIT_AUTH_FAILED", 401, CAY_UNAUTHORIZED}},
    {"could not read password", {"GIT_AUTH_FAILED", 401, CAY_UNAUTHORIZED}},
    {"permission denied (", {"GIT_AUTH_FAILED", 401, CAY_UNAUTHORIZED}},
    {"returned error: 401", {"GIT_AUTH_FAILED", 401, CAY_UNAUTHORIZED}},
    {"returned error: 403", {"GIT_AUTH_FAILED", 403, CAY_FORBIDDEN}},
    {"remote branch ", {"GIT_BRANCH_NOT_FOUND", 404, CAY_NOT_FOUND}},
    {"couldn't find remote ref", {"GIT_BRANCH_NOT_FOUND", 404, CAY_NOT_FOUND}},
    {"invalid reference", {"GIT_BRANCH_NOT_FOUND", 404, CAY_NOT_FOUND}},
    {"did not match any file", {"GIT_BRANCH_NOT_FOUND", 404, CAY_NOT_FOUND}},
    {"does not match any", {"GIT_BRANCH_NOT_FOUND", 404, CAY_NOT_FOUND}},
    {"reference is not a tree", {"GIT_BRANCH_NOT_FOUND", 404, CAY_NOT_FOUND}},
    {"unknown revision", {"GIT_BRANCH_NOT_FOUND", 404, CAY_NOT_FOUND}},
    {"error: branch ", {"GIT_BRANCH_NOT_FOUND", 404, CAY_NOT_FOUND}},
    {"a branch named ", {"GIT_BRANCH_EXISTS", 409, CAY_CONFLICT}},
    {"not a git repository", {"GIT_REPO_NOT_FOUND", 404, CAY_NOT_FOUND}},
    {"does not appear to be a git repository", {"GIT_REPO_NOT_FOUND", 404, CAY_NOT_FOUND}},
    {"repository not found", {"GIT_REPO_NOT_FOUND", 404, CAY_NOT_FOUND}},
    {"does not exist", {"GIT_REPO_NOT_FOUND", 404, CAY_NOT_FOUND}},
    {"' not found", {"GIT_REPO_NOT_FOUND", 404, CAY_NOT_FOUND}},
    {"cannot change to ", {"GIT_REPO_NOT_FOUND", 404, CAY_NOT_FOUND}},
    {"[remote rejected]", {"GIT_REMOTE_REJECTED", 409, CAY_CONFLICT}},
    {"[rejected]", {"GIT_PUSH_REJECTED", 409, CAY_CONFLICT}},
    {"conflict (", {"GIT_MERGE_CONFLICT", 409, CAY_CONFLICT}},
    {"unmerged files", {"GIT_MERGE_CONFLICT", 409, CAY_CONFLICT}},
    {"resolve your current index", {"GIT_MERGE_CONFLICT", 409, CAY_CONFLICT}},
    {"would be overwritten", {"GIT_DIRTY_WORKTREE", 409, CAY_CONFLICT}},
    {"uncommitted changes", {"GIT_DIRTY_WORKTREE", 409, CAY_CONFLICT}},
    {"unstaged changes", {"GIT_DIRTY_WORKTREE", 409, CAY_CONFLICT}},
    {"could not resolve host", {"GIT_TRANSPORT_FAILED", 502, CAY_UNAVAILABLE}},
    {"could not read from remote", {"GIT_TRANSPORT_FAILED", 502, CAY_UNAVAILABLE}},
    {"unable to access", {"GIT_TRANSPORT_FAILED", 502, CAY_UNAVAILABLE}},
    {"unable to connect", {"GIT_TRANSPORT_FAILED", 502, CAY_UNAVAILABLE}},
    {"early eof", {"GIT_TRANSPORT_FAILED", 502, CAY_UNAVAILABLE}},
    {"already exists", {NULL, 409, CAY_CONFLICT}},
    {"nothing to commit", {NULL, 409, CAY_CONFLICT}},
    {"nothing added to commit", {NULL, 409, CAY_CONFLICT}},
    {"no changes added to commit", {NULL, 409, CAY_CONFLICT}},
    {"cannot delete branch", {NULL, 409, CAY_CONFLICT}},
};

struct git_fault git_fault_of(const char *text) {
    for (size_t i = 0; i < ARRAY_LEN(faults); i++)
        if (strcasestr(text, faults[i].text) != NULL)
            return faults[i].fault;
    return (struct git_fault){NULL, 400, CAY_INVALID_ARGUMENT};
}

/* What git says itself begins so; hints and what a server says do not. */
static const char *find_line(const char *text) {
    static const char *const starts[] = {"fatal: ", "error: ", " ! [", "CONFLICT "};
    for (size_t i = 0; i < ARRAY_LEN(starts); i++)
        for (const char *p = text; p != NULL && *p != '\0';
             p = strchr(p, '\n') == NULL ? NULL : strchr(p, '\n') + 1)
            if (str_starts(p, starts[i]))
                return p;
    size_t len = strlen(text);
    while (len > 0 && text[len - 1] == '\n')
        len--;
    while (len > 0 && text[len - 1] != '\n')
        len--;
    return text + len;
}

/* "//me:secret@host/" becomes "//xxx@host/". */
static void hide_passwords(char *text) {
    for (char *p = strstr(text, "://"); p != NULL; p = strstr(p, "://")) {
        p += 3;
        size_t len = strcspn(p, "/ '\"\n"), at = len;
        while (at > 0 && p[at - 1] != '@')
            at--;
        if (at < 4)
            continue; /* none, or nothing that would hide more than itself */
        p[0] = p[1] = p[2] = 'x';
        memmove(p + 3, p + at - 1, strlen(p + at - 1) + 1);
    }
}

void git_complaint(const char *text, char *out, size_t size) {
    char line[320];
    const char *from = find_line(text);
    (void)snprintf(line, sizeof line, "%.*s", (int)MIN(strcspn(from, "\n"), sizeof line - 1), from);
    hide_passwords(line);
    (void)str_escape(out, size, line);
}

static int fail(struct call *c, const struct git_job *job, const struct cay_result *r,
                struct cay_error *err) {
    char said[360];
    bool silent = r->err == NULL || strspn(r->err, " \n") == strlen(r->err);
    const char *text = silent && r->out != NULL ? r->out : r->err != NULL ? r->err : "";
    struct git_fault f = git_fault_of(text);
    if (f.code == NULL && r->out != NULL && !silent && strstr(r->out, "CONFLICT (") != NULL)
        f = git_fault_of(r->out);
    if (f.status == 404 && (str_equal(job->args[0], "add") || str_equal(job->args[0], "restore")) &&
        strstr(text, "did not match") != NULL)
        f.code = "FILE_NOT_FOUND";
    git_complaint(text, said, sizeof said);
    error_set(err, (enum cay_code)f.error, "git %s: %s", job->args[0],
              said[0] != '\0' ? said : "failed without a word");
    if (f.code != NULL && str_equal(f.code, "GIT_AUTH_FAILED"))
        (void)error_remedy(err, "send a username and a password or token that may do this");
    return toolbox_fault(c, f.code, f.status, err);
}

/* ---- logins in URLs ---- */

bool git_split_url(char *url, char *login, const char **ret_password) {
    char *begin = strstr(url, "://");
    if (begin == NULL || strncmp(url, "http", 4) != 0)
        return false;
    begin += 3;
    size_t at = strcspn(begin, "/?#");
    while (at > 0 && begin[at - 1] != '@')
        at--;
    char *colon = at == 0 ? NULL : memchr(begin, ':', at);
    if (colon == NULL)
        return false;
    size_t user_len = (size_t)(colon - begin);
    memcpy(login, begin, at);
    login[user_len] = login[at - 1] = '\0';
    if (http_unescape(login) < 0 || http_unescape(login + user_len + 1) < 0)
        return false;
    *ret_password = login + user_len + 1;
    memmove(begin, begin + at, strlen(begin + at) + 1);
    return true;
}

/* ---- running it ---- */

/* Who is asked for a password gives what is in its environment, once, to git only. */
#define HELPER                                                                                     \
    "!f() { test \"$1\" = get && printf 'username=%s\\npassword=%s\\n' "                           \
    "\"$CAY_GIT_USERNAME\" \"$CAY_GIT_PASSWORD\"; }; f"

struct env {
    struct strv v;
    unsigned settings; /* of git, that go by the environment too */
    bool failed;
};

static void put(struct env *e, const char *key, const char *value) {
    e->failed |= strv_pushf(&e->v, "%s=%s", key, value) < 0;
}

static void put_setting(struct env *e, const char *key, const char *value) {
    e->failed |= strv_pushf(&e->v, "GIT_CONFIG_KEY_%u=%s", e->settings, key) < 0;
    e->failed |= strv_pushf(&e->v, "GIT_CONFIG_VALUE_%u=%s", e->settings, value) < 0;
    e->settings++;
}

/* git may write no question to a terminal, and its words are looked for by us. Folders that are
 * another user's are fine: whoever asks has them all. */
static void fill_env(const struct git_job *job, struct env *e) {
    char count[16];
    put(e, "LC_ALL", "C.UTF-8");
    put(e, "LANGUAGE", "C");
    put(e, "GIT_TERMINAL_PROMPT", "0");
    put(e, "GIT_PAGER", "cat");
    put(e, "GIT_EDITOR", "true");
    put_setting(e, "safe.directory", "*");
    put_setting(e, "advice.detachedHead", "false");
    if (job->username != NULL || job->password != NULL) {
        put(e, "CAY_GIT_USERNAME", job->username != NULL ? job->username : "git");
        put(e, "CAY_GIT_PASSWORD", job->password != NULL ? job->password : "");
        put_setting(e, "credential.helper", ""); /* nobody else is asked or told */
        put_setting(e, "credential.helper", HELPER);
    }
    if (job->skip_tls)
        put_setting(e, "http.sslVerify", "false");
    for (const char *const *p = job->env; p != NULL && *p != NULL; p++)
        e->failed |= strv_push(&e->v, *p) < 0;
    (void)snprintf(count, sizeof count, "%u", e->settings);
    put(e, "GIT_CONFIG_COUNT", count);
}

static int check_secret(const char *what, const char *text, struct cay_error *err) {
    if (text == NULL || strpbrk(text, "\r\n") == NULL)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "the %s has a line break", what);
    return error_remedy(err, "send it without");
}

static int fill_args(const struct git_job *job, const char **argv, struct cay_error *err) {
    size_t n = 0;
    argv[n++] = "git";
    if (job->path != NULL) {
        argv[n++] = "-C";
        argv[n++] = job->path;
    }
    for (const char *const *p = job->args; *p != NULL; p++) {
        if (n == GIT_ARGS_MAX) {
            error_set(err, CAY_INVALID_ARGUMENT, "more than %d files", GIT_ARGS_MAX - 16);
            return error_remedy(err, "name their folder instead");
        }
        argv[n++] = *p;
    }
    argv[n] = NULL;
    return 0;
}

static int explain_start(const struct cay_result *r, struct cay_error *err) {
    if (r->exit_code != GIT_NOT_FOUND_EXIT)
        return -(int)err->code;
    error_set(err, CAY_UNSUPPORTED, "this sandbox's image has no git");
    return error_remedy(err, "use an image that has it, or install it in the sandbox");
}

static int run(struct call *c, const struct cay_exec *exec, struct cay_result *ret,
               struct cay_error *err) {
    struct toolbox t = TOOLBOX_INIT;
    int r = toolbox_begin(c, &t, err);
    const struct command_defaults defaults = {
        .user = t.wire.user,
        .hostname = t.record.name,
        .work_dir = t.record.work_dir[0] != '\0' ? t.record.work_dir : "/",
        .env = (const char *const *)t.record.env.v,
    };
    if (r == 0) {
        r = command_exec(&t.wire.fd, exec, &defaults, ret, err);
        if (r < 0)
            r = explain_start(ret, err);
    }
    toolbox_end(&t);
    return r;
}

static int judge(struct call *c, const struct git_job *job, const struct cay_result *r,
                 struct cay_error *err) {
    if (r->timed_out) {
        error_set(err, CAY_TIMEOUT, "git %s took longer than an hour", job->args[0]);
        return error_remedy(err, "run it in a session instead");
    }
    if (r->out_len == GIT_OUTPUT_MAX) {
        error_set(err, CAY_RESOURCE_EXHAUSTED, "git %s wrote more than %d MB", job->args[0],
                  GIT_OUTPUT_MAX / 1024 / 1024);
        return error_remedy(err, "run it in a session instead");
    }
    if (job->ret_exit != NULL)
        *job->ret_exit = r->exit_code;
    if (r->exit_code == 0 || (job->ret_exit != NULL && r->exit_code == 1))
        return 0;
    return fail(c, job, r, err);
}

int git_run(struct call *c, const struct git_job *job, struct buf *out, struct cay_error *err) {
    struct env env = {0};
    struct cay_result result = {0};
    int r = check_secret("username", job->username, err);
    if (r == 0)
        r = check_secret("password", job->password, err);
    _cleanup_(freep) const char **argv = calloc(GIT_ARGS_MAX + 1, sizeof *argv);
    fill_env(job, &env);
    if (r == 0 && (argv == NULL || env.failed))
        r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    if (r == 0)
        r = fill_args(job, argv, err);
    if (r == 0) {
        struct cay_exec exec = CAY_EXEC_INIT;
        exec.argv = argv;
        exec.env = (const char *const *)env.v.v;
        exec.input = job->input;
        exec.input_len = job->input != NULL ? strlen(job->input) : 0;
        exec.capture_max = GIT_OUTPUT_MAX;
        exec.timeout_ms = GIT_TIMEOUT_MS;
        r = run(c, &exec, &result, err);
    }
    if (r == 0)
        r = judge(c, job, &result, err);
    if (r == 0 && out != NULL && result.out_len > 0 &&
        buf_append(out, result.out, result.out_len) < 0)
        r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    strv_free(&env.v);
    cay_result_free(&result);
    return r;
}
