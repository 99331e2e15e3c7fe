/* A request about git becoming words of a command. The first failure stays: what follows it does
 * nothing, so that a handler reads top to bottom and looks once, at its end. */
#pragma once

#include "api/code/git_run.h"
#include "base/json/json.h"

struct call;

enum { GIT_TEXT_MAX = 16 * 1024 * 1024, GIT_WORDS_MAX = 4000 };

struct git_order {
    struct call *call;
    struct json_document *doc; /* the body */
    struct json root;
    struct git_job job;
    const char *words[GIT_WORDS_MAX + 1];
    size_t count;
    int result; /* of everything so far */
    struct cay_error *err;
};

/* An empty one; with the body read; with the body, which names the repository; with the query,
 * which does. The caller frees it also after a failure. */
int git_order_new(struct call *c, struct git_order **ret, struct cay_error *err);
int git_order_read(struct call *c, struct git_order **ret, struct cay_error *err);
int git_order_read_path(struct call *c, struct git_order **ret, struct cay_error *err);
int git_order_query(struct call *c, struct git_order **ret, struct cay_error *err);
void git_order_free(struct git_order **o);

/* Members of the body. NULL where there is none, or an empty one. */
const char *git_text(struct git_order *o, const char *key, enum json_need need);
/* The same, refused if git could take it for an option. */
const char *git_name(struct git_order *o, const char *key, enum json_need need);
bool git_flag(struct git_order *o, const char *key);
/* Username and password, for the job. */
void git_order_login(struct git_order *o);

/* One more word; "--" and the member "files" of the body: how many there were. */
void git_add(struct git_order *o, const char *word);
size_t git_add_files(struct git_order *o, enum json_need need);

/* Runs the words so far, and forgets them; the same with more at their end. */
int git_order_run(struct git_order *o, struct buf *out);
int git_order_words(struct git_order *o, struct buf *out, const char *const *words);
#define GIT_RUN(o, out, ...) git_order_words(o, out, (const char *const[]){__VA_ARGS__, NULL})
