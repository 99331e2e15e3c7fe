/* A sandbox as a row, and back, by the table of fields. What is read was written by us, but the
 * file lies on a disk that others can reach: nothing is taken for granted. */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "manager/db/internal.h"
#include "manager/record/fields.h"

enum { WORDS_MAX = 16 * 1024 * 1024 };

/* ---- statements ---- */

void db_row_columns(struct buf *b) {
    const char *comma = "";
    for (size_t i = 0; i < sandbox_field_count; i++) {
        if (sandbox_fields[i].column == NULL)
            continue;
        (void)buf_printf(b, "%s%s", comma, sandbox_fields[i].column);
        comma = ", ";
    }
}

/* One for each column: the first is the id. */
static void put_places(struct buf *b) {
    const char *comma = "";
    for (size_t i = 0; i < sandbox_field_count; i++) {
        if (sandbox_fields[i].column == NULL)
            continue;
        (void)buf_printf(b, "%s?", comma);
        comma = ", ";
    }
}

void db_row_query(enum db_query which, struct buf *ret) {
    (void)buf_puts(ret, which == DB_ADD      ? "INSERT INTO sandbox ("
                        : which == DB_UPDATE ? "UPDATE sandbox SET ("
                                             : "SELECT ");
    db_row_columns(ret);
    if (which == DB_LIST) {
        (void)buf_puts(ret, " FROM sandbox ORDER BY number");
        return;
    }
    (void)buf_puts(ret, which == DB_ADD ? ") VALUES (" : ") = (");
    put_places(ret);
    (void)buf_puts(ret, which == DB_ADD ? ")" : ") WHERE id = ?1");
}

/* ---- the table ---- */

/* With what the rows that are there get: zero in all its forms. */
static int add_column(sqlite3 *sql, const struct field *f, struct cay_error *err) {
    static const char add[] = "ALTER TABLE sandbox ADD COLUMN";
    char text[160];
    int r;
    if (f->kind == FIELD_TEXT || f->kind == FIELD_CHOICE)
        r = str_format(text, sizeof text, "%s %s TEXT NOT NULL DEFAULT '%s'", add, f->column,
                       f->kind == FIELD_CHOICE ? f->names->name(0) : "");
    else
        r = str_format(text, sizeof text, "%s %s %s", add, f->column,
                       field_is_list(f) ? "BLOB NOT NULL DEFAULT x''"
                                        : "INTEGER NOT NULL DEFAULT 0");
    return r < 0 ? error_sys(err, -r, "formatting a column")
                 : db_run(sql, text, "adding a column to the database", err);
}

static int has_column(sqlite3 *sql, const char *column, bool *ret, struct cay_error *err) {
    sqlite3_stmt *q = NULL;
    int r = sqlite3_prepare_v2(sql, "SELECT 1 FROM pragma_table_info('sandbox') WHERE name = ?1",
                               -1, &q, NULL);
    if (r == SQLITE_OK)
        r = sqlite3_bind_text(q, 1, column, -1, SQLITE_STATIC);
    if (r == SQLITE_OK)
        r = sqlite3_step(q);
    (void)sqlite3_finalize(q);
    *ret = r == SQLITE_ROW;
    return r == SQLITE_ROW || r == SQLITE_DONE ? 0 : db_fail(sql, err, "reading the columns");
}

int db_add_columns(sqlite3 *sql, struct cay_error *err) {
    for (size_t i = 0; i < sandbox_field_count; i++) {
        bool is_there = true;
        int r = sandbox_fields[i].column == NULL
                    ? 0
                    : has_column(sql, sandbox_fields[i].column, &is_there, err);
        if (r == 0 && !is_there)
            r = add_column(sql, &sandbox_fields[i], err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- writing ---- */

static int bind_words(sqlite3_stmt *q, int at, const struct strv *words) {
    struct buf b = BUF_INIT(WORDS_MAX);
    for (size_t i = 0; i < words->len; i++)
        (void)buf_append(&b, words->v[i], strlen(words->v[i]) + 1);
    int r = b.failed ? SQLITE_TOOBIG
                     : sqlite3_bind_blob(q, at, buf_text(&b), (int)b.len, SQLITE_TRANSIENT);
    buf_free(&b);
    return r;
}

static int bind_field(sqlite3_stmt *q, int at, const struct field *f,
                      const struct sandbox_record *r) {
    switch (f->kind) {
    case FIELD_TEXT:
        return sqlite3_bind_text(q, at, field_of(f, r), -1, SQLITE_TRANSIENT);
    case FIELD_CHOICE:
        return sqlite3_bind_text(q, at, field_choice(f, r), -1, SQLITE_STATIC);
    case FIELD_WORDS:
    case FIELD_PAIRS:
        return bind_words(q, at, field_of(f, r));
    default:
        return sqlite3_bind_int64(q, at, field_number(f, r));
    }
}

int db_bind_record(sqlite3_stmt *q, const struct sandbox_record *r) {
    int at = 0;
    for (size_t i = 0; i < sandbox_field_count; i++) {
        int e = sandbox_fields[i].column == NULL ? SQLITE_OK
                                                 : bind_field(q, ++at, &sandbox_fields[i], r);
        if (e != SQLITE_OK)
            return e;
    }
    return SQLITE_OK;
}

/* ---- reading ---- */

static int read_words(sqlite3_stmt *q, int at, struct strv *ret) {
    const char *data = sqlite3_column_blob(q, at);
    size_t len = (size_t)sqlite3_column_bytes(q, at);
    if (len > 0 && (data == NULL || data[len - 1] != '\0'))
        return -EINVAL;
    for (size_t done = 0; done < len; done += strlen(data + done) + 1) {
        int r = strv_push(ret, data + done);
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_field(sqlite3_stmt *q, int at, const struct field *f, struct sandbox_record *r) {
    const char *text;
    int64_t number;
    switch (f->kind) {
    case FIELD_TEXT:
    case FIELD_CHOICE:
        text = (const char *)sqlite3_column_text(q, at);
        if (text == NULL)
            return -EINVAL;
        return f->kind == FIELD_TEXT ? str_copy(field_in(f, r), f->size, text)
                                     : field_set_choice(f, r, text);
    case FIELD_WORDS:
    case FIELD_PAIRS:
        return read_words(q, at, field_in(f, r));
    default:
        number = sqlite3_column_int64(q, at);
        return f->is_signed && number < f->min ? -EINVAL : field_set_number(f, r, number);
    }
}

static int read_fields(sqlite3_stmt *q, struct sandbox_record *r) {
    int at = 0;
    for (size_t i = 0; i < sandbox_field_count; i++) {
        int e = sandbox_fields[i].column == NULL ? 0 : read_field(q, at++, &sandbox_fields[i], r);
        if (e < 0)
            return e;
    }
    return id_is_valid(r->id) ? 0 : -EINVAL;
}

int db_read_record(sqlite3_stmt *q, struct sandbox_record *ret, struct cay_error *err) {
    struct sandbox_record r = {0};
    int e = read_fields(q, &r);
    if (e == 0) {
        *ret = r;
        return 0;
    }
    sandbox_record_free(&r);
    if (e == -ENOMEM)
        return error_sys(err, ENOMEM, "reading a sandbox");
    char shown[64];
    error_set(err, CAY_INTERNAL, "the row of sandbox '%s' in the database is invalid",
              str_escape(shown, sizeof shown, r.id));
    return error_remedy(err, "restore the database from a backup");
}
