/* Tests of what git prints and how it becomes JSON, and of what its failures are taken for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/code/git_parse.h"
#include "api/code/git_run.h"
#include "base/auto.h"
#include "base/json/jsonw.h"

typedef int (*writer)(struct jsonw *w, const char *text, size_t len);

/* In `text` NUL is written as '|'. json NULL: refused. */
static const struct {
    writer write;
    const char *text, *json;
} cases[] = {
    {git_write_status,
     "# branch.oid 12|# branch.head main|# branch.upstream origin/main|# branch.ab +2 -1|"
     "1 M. N... 100644 100644 100644 aa bb a b.txt|1 .D N... 1 1 1 aa bb gone|"
     "2 R. N... 1 1 1 aa bb R100 new|old|u UU N... 1 1 1 1 aa bb cc both|? extra file|",
     "{\"fileStatus\":["
     "{\"name\":\"a b.txt\",\"extra\":\"\",\"staging\":\"Modified\",\"worktree\":\"Unmodified\"},"
     "{\"name\":\"gone\",\"extra\":\"\",\"staging\":\"Unmodified\",\"worktree\":\"Deleted\"},"
     "{\"name\":\"new\",\"extra\":\"old\",\"staging\":\"Renamed\",\"worktree\":\"Unmodified\"},"
     "{\"name\":\"both\",\"extra\":\"\",\"staging\":\"Updated but unmerged\","
     "\"worktree\":\"Updated but unmerged\"},"
     "{\"name\":\"extra file\",\"extra\":\"\",\"staging\":\"Untracked\","
     "\"worktree\":\"Untracked\"}],"
     "\"currentBranch\":\"main\",\"detached\":false,\"upstream\":\"origin/main\",\"ahead\":2,"
     "\"behind\":1,\"branchPublished\":true}"},
    {git_write_status, "# branch.oid 12|# branch.head (detached)|",
     "{\"fileStatus\":[],\"currentBranch\":\"HEAD\",\"detached\":true,\"upstream\":\"\","
     "\"ahead\":0,\"behind\":0,\"branchPublished\":false}"},
    {git_write_status, "1 M. short|", NULL},
    {git_write_status, "2 R. N... 1 1 1 aa bb R100 new", NULL},
    {git_write_history,
     "aa\x1f"
     "Ann\x1f"
     "a@b\x1f"
     "2026-01-02T03:04:05Z\x1f"
     "one\n\ntwo\n|"
     "bb\x1f\x1f"
     "c\x1f"
     "t\x1f|",
     "[{\"hash\":\"aa\",\"author\":\"Ann\",\"email\":\"a@b\",\"timestamp\":"
     "\"2026-01-02T03:04:05Z\",\"message\":\"one\\n\\ntwo\"},"
     "{\"hash\":\"bb\",\"author\":\"\",\"email\":\"c\",\"timestamp\":\"t\",\"message\":\"\"}]"},
    {git_write_history, "", "[]"},
    {git_write_history,
     "aa\x1f"
     "b|",
     NULL},
    {git_write_branches, " dev\n*main\n", "{\"branches\":[\"dev\",\"main\"],\"current\":\"main\"}"},
    {git_write_branches, "", "{\"branches\":[],\"current\":\"\"}"},
    {git_write_branches, "\n", NULL},
    {git_write_remotes, "remote.origin.url\n/srv/a|remote.a.b.url\nhttps://h/x\n|",
     "{\"remotes\":[{\"name\":\"origin\",\"url\":\"/srv/a\"},"
     "{\"name\":\"a.b\",\"url\":\"https://h/x\\n\"}]}"},
    {git_write_remotes, "", "{\"remotes\":[]}"},
    {git_write_remotes, "remote..url\nx|", NULL},
};

static void reads_what_git_prints(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(buf_free) struct buf text = BUF_INIT(4096), out = BUF_INIT(4096);
        struct jsonw w = JSONW_INIT(&out);
        for (const char *p = cases[i].text; *p != '\0'; p++)
            (void)buf_putc(&text, *p == '|' ? '\0' : *p);
        int r = cases[i].write(&w, buf_text(&text), text.len);
        assert_int_equal(r == 0, cases[i].json != NULL);
        if (r == 0) {
            assert_int_equal(jsonw_finish(&w), 0);
            assert_string_equal(buf_text(&out), cases[i].json);
        }
    }
}

static const struct {
    const char *text, *code, *complaint;
    unsigned status;
} failures[] = {
    {"Cloning into 'x'...\nfatal: Authentication failed for 'https://me:secret@h/x.git/'\n",
     "GIT_AUTH_FAILED", "fatal: Authentication failed for 'https://xxx@h/x.git/'", 401},
    {"fatal: could not read Username for 'https://h': terminal prompts disabled\n",
     "GIT_AUTH_FAILED", "fatal: could not read Username for 'https://h': terminal prompts disabled",
     401},
    {"fatal: not a git repository (or any of the parent directories): .git\n", "GIT_REPO_NOT_FOUND",
     "fatal: not a git repository (or any of the parent directories): .git", 404},
    {"fatal: repository '/nowhere' does not exist", "GIT_REPO_NOT_FOUND",
     "fatal: repository '/nowhere' does not exist", 404},
    {"fatal: invalid reference: nix\n", "GIT_BRANCH_NOT_FOUND", "fatal: invalid reference: nix",
     404},
    {"error: branch 'nix' not found.\n", "GIT_BRANCH_NOT_FOUND", "error: branch 'nix' not found.",
     404},
    {"fatal: a branch named 'dev' already exists\n", "GIT_BRANCH_EXISTS",
     "fatal: a branch named 'dev' already exists", 409},
    {"To /srv/a\n ! [rejected]        main -> main (fetch first)\nerror: failed to push some refs "
     "to '/srv/a'\nhint: Updates were rejected\n",
     "GIT_PUSH_REJECTED", "error: failed to push some refs to '/srv/a'", 409},
    {"error: Your local changes to the following files would be overwritten by checkout:\n\ta\n",
     "GIT_DIRTY_WORKTREE",
     "error: Your local changes to the following files would be overwritten by checkout:", 409},
    {"Auto-merging a\nCONFLICT (content): Merge conflict in a\n", "GIT_MERGE_CONFLICT",
     "CONFLICT (content): Merge conflict in a", 409},
    {"fatal: unable to access 'https://h/': Could not resolve host: h\n", "GIT_TRANSPORT_FAILED",
     "fatal: unable to access 'https://h/': Could not resolve host: h", 502},
    {"On branch main\nnothing to commit, working tree clean\n", NULL,
     "nothing to commit, working tree clean", 409},
    {"some\x1b[31mthing", NULL, "some\\x1b[31mthing", 400},
    {"", NULL, "", 400},
};

static void tells_failures_apart(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(failures); i++) {
        char said[400];
        struct git_fault f = git_fault_of(failures[i].text);
        if (failures[i].code == NULL)
            assert_null(f.code);
        else
            assert_string_equal(f.code, failures[i].code);
        assert_int_equal(f.status, failures[i].status);
        git_complaint(failures[i].text, said, sizeof said);
        assert_string_equal(said, failures[i].complaint);
    }
}

static void takes_logins_out_of_urls(void **state) {
    (void)state;
    static const struct {
        const char *url, *bare, *user, *password; /* user NULL: none is taken */
    } urls[] = {
        {"https://me:s%40cret@h/x.git", "https://h/x.git", "me", "s@cret"},
        {"http://me:a@b@h:80/x", "http://h:80/x", "me", "a@b"},
        {"https://:t@h", "https://h", "", "t"},
        {"https://me@h/x", "https://me@h/x", NULL, NULL},
        {"https://h/a:b@c", "https://h/a:b@c", NULL, NULL},
        {"https://me:%zz@h/", "https://me:%zz@h/", NULL, NULL},
        {"ssh://me:x@h/", "ssh://me:x@h/", NULL, NULL},
        {"git@h:x.git", "git@h:x.git", NULL, NULL},
        {"/srv/x", "/srv/x", NULL, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
        char url[64], login[64];
        const char *password = NULL;
        assert_true(strlen(urls[i].url) < sizeof url);
        memcpy(url, urls[i].url, strlen(urls[i].url) + 1);
        assert_int_equal(git_split_url(url, login, &password), urls[i].user != NULL);
        assert_string_equal(url, urls[i].bare);
        if (urls[i].user == NULL)
            continue;
        assert_string_equal(login, urls[i].user);
        assert_string_equal(password, urls[i].password);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_git_prints),
        cmocka_unit_test(tells_failures_apart),
        cmocka_unit_test(takes_logins_out_of_urls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
