/* Sandboxes and volumes as Daytona's clients read them. The strict ones refuse an object with a
 * field missing, or of another type. */
#pragma once

#include <stdbool.h>

#include "base/json/jsonw.h"
#include "manager/record/record.h"

struct volume;

/* What belongs to no organisation is shown as this one's. There is one region: this daemon. */
#define DAYTONA_ORGANIZATION "00000000-0000-4000-8000-000000000001"
#define DAYTONA_USER         "00000000-0000-4000-8000-000000000002"
#define DAYTONA_REGION       "local"

/* What an object says besides what the record does. */
struct daytona_view {
    const char *origin; /* the beginning of URLs: call_origin() */
    const char *state;  /* in place of the record's; NULL: that */
    bool is_item;       /* of a list: without env, by which clients tell it from the whole */
};

/* The name of its state, of which this protocol has some more than we have. */
const char *daytona_state(const struct sandbox_record *r);
void daytona_write_sandbox(struct jsonw *w, const struct sandbox_record *r,
                           const struct daytona_view *view);
void daytona_write_volume(struct jsonw *w, const struct volume *v);

void daytona_put_time(struct jsonw *w, const char *key, int64_t wall_ms);
/* "K=V" texts as an object. */
void daytona_put_pairs(struct jsonw *w, const char *key, const struct strv *pairs);

/* Bytes as whole GiB, rounded up. */
int64_t daytona_gib(uint64_t bytes);
int64_t daytona_cpus(const struct sandbox_record *r);
