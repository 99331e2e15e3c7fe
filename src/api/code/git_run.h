/* One run of the git program inside a sandbox: without a shell, without questions, and with what
 * went wrong as Daytona's codes have it. */
#pragma once

#include "base/buf.h"

struct call;
struct cay_error;

struct git_job {
    const char *path;        /* of the repository; NULL: nowhere */
    const char *const *args; /* what follows "git", NULL-terminated */
    const char *const *env;  /* "K=V" besides, NULL-terminated; or NULL */
    const char *username;    /* for who asks for them; in no argument, file or log */
    const char *password;    /* the same */
    bool skip_tls;           /* any certificate will do */
    const char *input;       /* NULL: none */
    int *ret_exit;           /* not NULL: an exit code of 1 is no failure, and is put here */
};

/* Runs it and appends what it wrote to out (NULL: not wanted). */
int git_run(struct call *c, const struct git_job *job, struct buf *out, struct cay_error *err);

/* "https://me:secret@host/x" becomes "https://host/x"; what was in it is put into `login`
 * ("me", NUL, "secret"), and *ret_password leads there. False: there is no password in the URL, or
 * it is not written as it should be; then nothing changed. Pure; login is as large as url. */
bool git_split_url(char *url, char *login, const char **ret_password);

struct git_fault {
    const char *code; /* Daytona's; NULL: that of the status */
    unsigned status;
    int error; /* enum cay_code */
};

/* What the output of a git that failed means; pure. */
struct git_fault git_fault_of(const char *text);
/* The line of it that says most, with passwords of URLs and control characters left out. */
void git_complaint(const char *text, char *out, size_t size);
