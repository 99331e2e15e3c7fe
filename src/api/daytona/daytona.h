/* The routes of Daytona's protocol, one table for each area. */
#pragma once

#include "api/route.h"
#include "image/reference.h"

extern const struct route_table daytona_sandbox_routes;
extern const struct route_table daytona_misc_routes;
extern const struct route_table daytona_snapshot_routes;
extern const struct route_table daytona_build_routes;
/* What Daytona's protocol has and we have not: 501, with what there is instead. */
extern const struct route_table daytona_absent_routes;

/* Handlers of their own files. */
int daytona_list_handle(struct call *c, struct cay_error *err);
int daytona_pages_handle(struct call *c, struct cay_error *err);
/* The name of a snapshot as it is kept: "Team/x" is none, "x:latest" is "x". */
int daytona_snapshot_name(const char *text, char name[static REFERENCE_TEXT_SIZE],
                          struct cay_error *err);
/* Whose images a call is about, as struct image_ops has it: the caller's, or for whoever sees all
 * those of the key that ?owner= names. */
const char *images_owner(const struct call *c);
/* The key that an image of its organisation is charged to; "": the owner. */
const char *images_maker(const struct call *c);

/* Takes note of a build by the caller (builds_add), with the contexts that it names. */
struct build;
struct daytona_build;
int daytona_add_build(struct call *c, const char *name, const struct daytona_build *wish,
                      struct build **ret, struct cay_error *err);
/* The call's sandbox, whole, as its answer. */
int daytona_answer_sandbox(struct call *c, struct cay_error *err);
/* A whole number in the query, from 1 to max; absent: *ret stays. */
int daytona_query_number(const struct call *c, const char *key, int64_t max, int64_t *ret,
                         struct cay_error *err);
