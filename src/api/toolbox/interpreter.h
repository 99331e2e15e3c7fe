/* Contexts, as clients of Daytona's code interpreter see them. */
#pragma once

#include "api/toolbox/command.h"

struct context_record;
struct ws;

/* Connects to the call's sandbox, for one operation on a context. */
int interpreter_begin(const struct call *c, struct toolbox *ret, struct cay_error *err);

/* Makes a context in a folder (NULL: the sandbox's own). ret_why, empty before, then says
 * why a Python context is not warm, if it is not. */
int interpreter_create(const struct call *c, const char *name, const char *language,
                       const char *cwd, struct cay_error *ret_why, struct cay_error *err);

/* Runs what the client asks for and tells what comes of it. */
void interpreter_talk(struct call *c, struct ws *w);

/* ---- messages ---- */

/* What one run tells its client. */
struct interpreter_writer {
    struct ws *ws;
    struct buf message; /* room for one */
    struct buf part[2]; /* the beginning of a character, whose rest is to come */
    bool has_error;
    bool gone; /* nobody listens */
};

void interpreter_writer_init(struct interpreter_writer *t, struct ws *ws);
void interpreter_writer_free(struct interpreter_writer *t);

/* Output, in whole characters. */
void interpreter_report_output(struct interpreter_writer *t, bool is_stderr, const char *data,
                               size_t len);
/* What is left of both streams. */
void interpreter_report_rest(struct interpreter_writer *t);
void interpreter_report_error(struct interpreter_writer *t, const char *name, const char *value,
                              const char *traceback);
void interpreter_report_record(struct interpreter_writer *t, const struct context_record *record);
/* That all of a stream is in a file of the sandbox; path is its word. */
void interpreter_report_file(struct interpreter_writer *t, bool is_stderr, const char *path);
/* {"type":"control","text":"restarted"} */
void interpreter_report_restart(struct interpreter_writer *t);
/* The last one: "completed" or "interrupted", with the exit code. python says how the context that
 * was made for it began, as the header X-Cay-Python does; "": none was. */
void interpreter_report_end(struct interpreter_writer *t, const char *text, int exit_code,
                            bool is_oom, const char *python);
