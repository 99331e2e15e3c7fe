/* Files of a sandbox through the toolbox: what listing, uploads and downloads share. */
#pragma once

#include <limits.h>

#include "api/call.h"
#include "api/toolbox/toolbox.h"
#include "wire/client_files.h"

extern const struct route_table toolbox_files_routes;
extern const struct route_table toolbox_search_routes;
extern const struct route_table toolbox_upload_routes;
extern const struct route_table toolbox_download_routes;
extern const struct route_table sign_routes;

/* A query that has to be there and not to be empty. */
int toolbox_need_query(const struct call *c, const char *key, const char **ret,
                       struct cay_error *err);

/* The path that a client means: a relative one begins in the work folder. */
int toolbox_absolute(const struct toolbox *t, const char *path, char out[static PATH_MAX],
                     struct cay_error *err);

/* Daytona's code for what went wrong with a file inside, and its status in *ret_status. NULL: as
 * for any other error. */
const char *toolbox_file_code(const struct cay_error *err, unsigned *ret_status);

/* Passes the result of a file operation on, with that code for the answer if it is negative. */
int toolbox_file_result(struct call *c, int result, const struct cay_error *err);

/* An operation on a path, and the whole path. */
struct toolbox_job {
    struct toolbox toolbox;
    char path[PATH_MAX];
};

#define TOOLBOX_JOB_INIT                                                                           \
    { .toolbox = TOOLBOX_INIT }

/* With the path that a query names; toolbox_job_end also after a failure. */
int toolbox_job_begin(struct call *c, const char *key, struct toolbox_job *j,
                      struct cay_error *err);
void toolbox_job_end(struct toolbox_job *j);
