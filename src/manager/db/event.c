/* What became of sandboxes, as rows. Most are written by triggers: db/migrate.c. */
#include "base/error.h"
#include "manager/db/internal.h"

int db_event_add(struct db *db, const char *id, int64_t time_ms, const char *text,
                 struct cay_error *err) {
    int changed;
    sqlite3_stmt *q = db_take(db, DB_EVENT_ADD);
    int bound = sqlite3_bind_text(q, 1, id, -1, SQLITE_TRANSIENT);
    if (bound == SQLITE_OK)
        bound = sqlite3_bind_int64(q, 2, time_ms);
    if (bound == SQLITE_OK)
        bound = sqlite3_bind_text(q, 3, text, -1, SQLITE_TRANSIENT);
    return db_write_row(db, q, bound, DB_FLUSH_LATER, &changed, "recording an event", err);
}

static int visit_row(struct db *db, sqlite3_stmt *q, db_event_visit visit, void *user,
                     struct cay_error *err) {
    const struct db_event e = {
        .number = sqlite3_column_int64(q, 0),
        .time_ms = sqlite3_column_int64(q, 1),
        .state = (const char *)sqlite3_column_text(q, 2),
        .text = (const char *)sqlite3_column_text(q, 3),
    };
    return e.state == NULL || e.text == NULL ? db_fail(db->sql, err, "reading the events")
                                             : visit(user, &e, err);
}

int db_event_list(struct db *db, const char *id, int64_t after, db_event_visit visit, void *user,
                  struct cay_error *err) {
    sqlite3_stmt *q = db_take(db, DB_EVENT_LIST);
    int r = 0, step = sqlite3_bind_text(q, 1, id, -1, SQLITE_TRANSIENT);
    if (step == SQLITE_OK)
        step = sqlite3_bind_int64(q, 2, after);
    if (step != SQLITE_OK)
        r = db_fail(db->sql, err, "reading the events");
    while (r == 0 && (step = sqlite3_step(q)) != SQLITE_DONE)
        r = step == SQLITE_ROW ? visit_row(db, q, visit, user, err)
                               : db_fail(db->sql, err, "reading the events");
    db_give_back(db, q);
    return r;
}
