/* What Daytona does inside a sandbox: its toolbox, at the address that the sandbox names. */
#pragma once

#include "remote/far.h"

struct cay_error;

struct toolbox {
    struct world *world;
    char id[128], name[256];
    char url[2048]; /* without a slash at its end */
    char work_dir[1024];
};

/* Finds a sandbox and its toolbox. */
int toolbox_open(struct world *w, const char *who, struct toolbox *ret, struct cay_error *err);

/* Asks for the folder that relative paths begin in. */
int toolbox_find_work_dir(struct toolbox *t, struct cay_error *err);

/* One request. path is escaped, with its query; ret may be NULL. */
int toolbox_json(const struct toolbox *t, const char *method, const char *path,
                 const struct buf *body, struct json_document **ret, struct cay_error *err);

/* Runs a small command to its end, with nothing to read. output (may be NULL) gets both streams.
 * Returns the exit code, or negative. */
int toolbox_execute(const struct toolbox *t, const char *command, struct buf *output,
                    struct cay_error *err);

/* The content of a file, as it comes. */
int toolbox_download(const struct toolbox *t, const char *path, rest_sink_fn *sink, void *arg,
                     struct cay_error *err);
int toolbox_upload(const struct toolbox *t, const char *path, rest_source_fn *source, void *arg,
                   struct cay_error *err);

/* Appends a word as a shell reads it. */
void toolbox_put_quoted(struct buf *b, const char *word);
