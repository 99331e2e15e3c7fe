/* What the files of the front share; not for others. */
#pragma once

#include <pthread.h>

#include "api/http.h"
#include "api/images.h"
#include "api/metrics/vitals.h"
#include "daemon/control.h"
#include "daemon/front/front.h"
#include "daemon/helpers/egress.h"
#include "manager/manager.h"
#include "manager/python/interpreters.h"
#include "manager/python/lender.h"

/* The thread that looks whether all is well: front/watch.c. */
struct front_watch {
    pthread_t thread;
    pthread_mutex_t lock; /* of is_ending */
    pthread_cond_t changed;
    bool is_ending;
    bool retain_fails; /* the audit could not be sealed; this and what follows are the thread's */
    bool is_ready;     /* when it last looked; this and what follows are the thread's alone */
    struct vitals vitals;
};

struct front {
    const struct front_options *options;
    struct manager *manager;
    struct engine *engine; /* the configured one */
    struct front_engine {
        struct front *front;
        enum engine_kind kind;
        struct engine *engine; /* NULL: it is the configured one */
    } others[ENGINE_KINDS];    /* started when they are needed */
    struct http *http;
    struct image_ops images;
    struct builds *builds;
    struct contexts *contexts;
    struct outputs *outputs;
    struct interpreters *interpreters;
    struct prepared_place place; /* where sandboxes come from */
    struct lender *lender;       /* NULL: there are no prepared ones */
    struct egress_link egress;
    pthread_mutex_t budget_lock; /* of is_over */
    pthread_mutex_t store_lock;  /* while the sizes of images are read and noted */
    bool is_over;                /* the manager is closed, or about to be */
    struct front_watch watch;
    size_t ran_before; /* sandboxes that ran when the database was last written */
    int64_t began_ms;
    pthread_rwlock_t config_lock;
    struct config *config; /* what counts now; the first is the settings' */
    int proc;              /* this process in /proc, for Landlock; -1: there is none */
};

/* ---- front/asks.c: what only the supervisor can do, asked for the manager and for clients ---- */

/* manager_options.ensure and .describe; user is the front. */
int front_ensure(void *user, const struct image_wish *wish, char id[static HEX_SIZE],
                 struct cay_error *err);
int front_describe(void *user, struct sandbox_record *r, struct cay_error *err);
extern const struct archive_ops front_archives;
extern const struct network_ops front_networks;
struct image_ops front_image_ops(struct front *f);
/* Fetches images that shall be there before anybody asks for them, in a thread of its own. */
int front_fetch_ahead(struct front *f, const struct strv *names, struct cay_error *err);

/* ---- front/store.c: what images take of the disk of keys ---- */

/* Whose image it is: see struct image_ops. */
struct front_client {
    const char *owner, *made_by;
};
/* Asks cay-image how much everybody has, and notes it. A failure is logged. */
void front_store_settle(struct front *f);
/* The same at the start, if there are keys; and what uploads take. */
void front_store_begin(struct front *f);
/* Whether a new image may be made; *ret_room: of how many bytes, 0 is any number. */
int front_store_admit(struct front *f, const struct front_client *whose, uint64_t *ret_room,
                      struct cay_error *err);
/* It was made: charges it. If it is too large the name (or id) is removed, and -CAY_LIMIT_REACHED.
 */
int front_store_charge(struct front *f, const struct front_client *whose, const char *name,
                       struct cay_error *err);
/* What the supervisor does with the store. */
int front_ask_store(const struct front *f, const struct front_client *whose, enum store_verb verb,
                    const char *name, const char *other, struct buf *text, struct cay_error *err);

/* ---- front/budget.c ---- */
int front_take_build(void *user, const char *owner, struct cay_error *err);
void front_give_build(void *user, const char *owner);
/* The rules of outputs, which charges them; user is the front. */
struct outputs_rules front_outputs_rules(struct front *f);
extern const struct egress_hears front_proxy_news;
void front_budget_end(struct front *f); /* before the manager is closed */

/* ---- front/watch.c ---- */

/* Sandboxes that run or are paused, as far as the manager knows. */
size_t front_count_running(const struct front *f);
/* Writes the one line that says what serves, where, and how much of before was adopted. */
void front_log_serving(const struct front *f);

int front_watch_start(struct front *f, struct cay_error *err);
/* To be called before what it looks at is released. */
void front_watch_stop(struct front *f);

/* ---- front/config.c: what the configuration means to the parts of the front ---- */

/* The most that the native engine gives whoever runs the daemon. */
enum tier front_best_tier(const struct settings *s);
/* The work folder is left open: the image has a say before the configuration. So is the tier, if
 * the engine is to decide. */
int front_defaults(const struct config *c, struct sandbox_record *ret, struct cay_error *err);
struct manager_limits front_limits(const struct config *c);
struct http_rules front_rules(const struct config *c);
int front_set_pool(struct front *f, const struct config *c, struct cay_error *err);
int front_set_interpreters(struct front *f, const struct config *c, struct cay_error *err);
/* Takes another configuration and answers the supervisor. Without a descriptor: the supervisor
 * could not read it, which is counted here. */
void front_take_reload(struct front *f, const struct control_message *m, const int *fds);
