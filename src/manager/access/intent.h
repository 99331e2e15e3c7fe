/* Writing a change with its row of the audit (access/intent.c):
 *
 *     struct intent_write w = intent_open(m, flush, what);
 *     do
 *         r = db_…(m->db, …);
 *     while (intent_again(&w, &r, object, detail, err)); */
#pragma once

#include <stdbool.h>

#include "manager/db/db.h"
#include "manager/record/audit.h"
#include "manager/record/record.h"

struct manager;

/* What a write settles: a state of a sandbox, or one of these. */
enum { INTENT_REMOVAL = 32, INTENT_KEY, INTENT_VOLUME };

struct intent_write {
    struct manager *m;
    struct audit_intent *intent; /* NULL: there is none to be written along */
    bool describes;
    enum db_flush flush;
};

/* Begins a transaction if this thread has announced what the write settles. */
struct intent_write intent_open(struct manager *m, enum db_flush flush, unsigned what);
/* After the write, whose result is *r: ends the transaction, and sets *r if what was written does
 * not get to the disk. True if the row could not be written, and nothing was: then the change is to
 * be written again, alone. detail is what there is to tell of something new. */
bool intent_again(struct intent_write *w, int *r, const char *object, const char *detail,
                  struct cay_error *err);

/* ---- access/audit.c ---- */

/* A row but for its number and chain; texts are escaped, and cut to what fits. */
void audit_fill(struct audit_row *row, const char *who, const char *action, const char *object,
                const char *result, const char *detail);
/* Logs the end of the chain now and then. */
void audit_report_head(const struct audit_row *row);
