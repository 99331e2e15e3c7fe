/* What git prints, read without trust and written as Daytona's JSON. Pure. */
#pragma once

#include <stddef.h>

struct jsonw;

/* Of: status --porcelain=v2 --branch -z. 0 or -EPROTO. */
int git_write_status(struct jsonw *w, const char *text, size_t len);

/* Of: log -z --format=GIT_LOG_FORMAT; one object for each commit, into an array. */
#define GIT_LOG_FORMAT "%H%x1f%an%x1f%ae%x1f%aI%x1f%B"
int git_write_history(struct jsonw *w, const char *text, size_t len);

/* Of: for-each-ref --format=GIT_BRANCH_FORMAT refs/heads. {branches, current} */
#define GIT_BRANCH_FORMAT "%(HEAD)%(refname:lstrip=2)"
int git_write_branches(struct jsonw *w, const char *text, size_t len);

/* Of: config -z --get-regexp ^remote\..*\.url$. {remotes} */
int git_write_remotes(struct jsonw *w, const char *text, size_t len);
