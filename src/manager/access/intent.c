/* Rows of the audit that are written with the change they tell of. Whoever is about to change
 * something says so for his thread; the write that settles it then brings the row along, in one
 * transaction. So one who kills the daemon finds both in the database, or neither. */
#include "manager/access/intent.h"
#include "base/error.h"
#include "base/str.h"
#include "manager/internal.h"
#include "manager/record/audit.h"

#define BIT(what) (1ULL << (what))
#define ANY       UINT64_MAX

/* What settles what. Changes that the engine makes after the row are not here: how those end is
 * known, and told, afterwards. */
static const struct rule {
    const char *action;
    uint64_t settled_by;
    bool describes; /* its detail is what was made */
} rules[] = {
    {"sandbox.create", BIT(SANDBOX_STARTED) | BIT(SANDBOX_CREATING), true},
    {"sandbox.start", BIT(SANDBOX_STARTED)},
    {"sandbox.recover", BIT(SANDBOX_STARTED)},
    {"sandbox.resume", BIT(SANDBOX_STARTED)},
    {"sandbox.pause", BIT(SANDBOX_PAUSED)},
    {"sandbox.stop", BIT(SANDBOX_STOPPED)},
    {"sandbox.archive", BIT(SANDBOX_ARCHIVED)},
    {"sandbox.delete", BIT(INTENT_REMOVAL)},
    {"sandbox.rename", ANY},
    {"sandbox.labels", ANY},
    {"sandbox.autostop", ANY},
    {"sandbox.autoarchive", ANY},
    {"sandbox.autodelete", ANY},
    {"key.create", BIT(INTENT_KEY), true},
    {"key.delete", BIT(INTENT_KEY)},
    {"volume.delete", BIT(INTENT_VOLUME)},
};

static _Thread_local struct audit_intent *announced;

void manager_audit_announce(struct audit_intent *intent) {
    announced = intent;
}

void audit_describe(const struct sandbox_record *r, char out[static AUDIT_DETAIL_SIZE]) {
    out[0] = '\0';
    if (r->name[0] != '\0')
        (void)snprintf(out, AUDIT_DETAIL_SIZE, "name %s, image %.100s", r->name, r->image_name);
}

static const struct rule *find_rule(const char *action, unsigned what) {
    for (size_t i = 0; i < ARRAY_LEN(rules); i++)
        if (str_equal(rules[i].action, action) && (rules[i].settled_by & BIT(what)) != 0)
            return &rules[i];
    return NULL;
}

struct intent_write intent_open(struct manager *m, enum db_flush flush, unsigned what) {
    struct intent_write w = {.m = m, .flush = flush};
    if (announced == NULL || announced->is_written)
        return w;
    const struct rule *rule = find_rule(announced->action, what);
    if (rule == NULL || db_begin(m->db) < 0)
        return w;
    w.intent = announced;
    w.describes = rule->describes;
    return w;
}

static int add_row(const struct intent_write *w, const char *object, const char *detail,
                   struct audit_row *row) {
    const struct audit_intent *i = w->intent;
    struct cay_error ignored;
    audit_fill(row, i->who, i->action, object, "ok", w->describes ? detail : i->detail);
    int r = db_audit_add(w->m->db, row, &ignored);
    return r < 0 ? r : db_commit(w->m->db);
}

bool intent_again(struct intent_write *w, int *r, const char *object, const char *detail,
                  struct cay_error *err) {
    struct audit_row row = {0};
    if (w->intent == NULL)
        return false;
    bool written = *r == 0 && add_row(w, object, detail, &row) == 0;
    bool again = *r == 0 && !written;
    db_end(w->m->db);
    if (written) {
        w->intent->is_written = true;
        audit_report_head(&row);
    }
    w->intent = NULL;
    if (written && w->flush == DB_FLUSH)
        *r = db_flush(w->m->db, err);
    return again;
}
