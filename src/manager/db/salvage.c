/* What can be read of a damaged database, in a new one. Each table is read from its beginning to
 * the first page that is no good, and then from its end backwards to the last, by row numbers:
 * damaged indexes cost nothing. Debian's `sqlite3 .recover` would read more, but Debian 12 builds
 * SQLite without the table (sqlite_dbpage) that it needs. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "manager/db/internal.h"
#include "manager/record/key.h"
#include "manager/record/volume.h"

enum { REPORT_MAX = 1 << 20, QUERY_MAX = 4096 };

struct salvage {
    sqlite3 *from, *to;
    struct buf *report;
};

static void closep_sql(sqlite3 **sql) {
    (void)sqlite3_close(*sql);
}

static void finalizep(sqlite3_stmt **q) {
    (void)sqlite3_finalize(*q);
}

_printf_(2, 3) static sqlite3_stmt *prepare(sqlite3 *sql, const char *format, ...) {
    char text[QUERY_MAX];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    sqlite3_stmt *q = NULL;
    if (len < 0 || (size_t)len >= sizeof text ||
        sqlite3_prepare_v2(sql, text, -1, &q, NULL) != SQLITE_OK)
        return NULL;
    return q;
}

/* ---- rows ---- */

/* Copies what `rows` finds, of which column 0 is the number, until damage; a row that is there
 * already, or breaks a rule of the table, is not copied. True if there was no damage. */
static bool copy_rows(sqlite3_stmt *rows, sqlite3_stmt *insert, int64_t *copied) {
    int step;
    while ((step = sqlite3_step(rows)) == SQLITE_ROW) {
        int e = SQLITE_OK;
        for (int i = 1; e == SQLITE_OK && i < sqlite3_column_count(rows); i++)
            e = sqlite3_bind_value(insert, i, sqlite3_column_value(rows, i));
        bool is_new = e == SQLITE_OK && sqlite3_step(insert) == SQLITE_DONE;
        (void)sqlite3_reset(insert);
        *copied += is_new;
        if (!is_new)
            break; /* damage that looks like a row, or a tree that leads in circles */
    }
    return step == SQLITE_DONE;
}

/* `columns` are those of the new table, `marks` as many question marks. */
static int copy_table(const struct salvage *v, const char *table, const char *columns,
                      const char *marks, struct cay_error *err) {
    static const char query[] = "SELECT rowid, %s FROM %s NOT INDEXED ORDER BY rowid %s";
    _cleanup_(finalizep) sqlite3_stmt *upwards = prepare(v->from, query, columns, table, "ASC");
    _cleanup_(finalizep) sqlite3_stmt *downwards = prepare(v->from, query, columns, table, "DESC");
    _cleanup_(finalizep) sqlite3_stmt *insert =
        prepare(v->to, "INSERT INTO %s (%s) VALUES (%s)", table, columns, marks);
    if (insert == NULL)
        return db_fail(v->to, err, "preparing a table");
    int64_t copied = 0;
    bool is_whole = upwards != NULL && copy_rows(upwards, insert, &copied);
    if (!is_whole && downwards != NULL)
        (void)copy_rows(downwards, insert, &copied);
    (void)buf_printf(v->report, "  %-14s%8lld rows%s\n", table, (long long)copied,
                     is_whole ? "" : ", and others that cannot be read");
    return 0;
}

static int copy_tables(const struct salvage *v, struct cay_error *err) {
    _cleanup_(finalizep) sqlite3_stmt *q =
        prepare(v->to, "SELECT t.name, group_concat(c.name), group_concat('?')"
                       " FROM sqlite_master t, pragma_table_info(t.name) c"
                       " WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite\\_%%' ESCAPE '\\'"
                       " GROUP BY t.name ORDER BY t.name");
    if (q == NULL)
        return db_fail(v->to, err, "listing the tables");
    while (sqlite3_step(q) == SQLITE_ROW) {
        int r = copy_table(v, (const char *)sqlite3_column_text(q, 0),
                           (const char *)sqlite3_column_text(q, 1),
                           (const char *)sqlite3_column_text(q, 2), err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- rows that make no sense ---- */

static bool is_sandbox(sqlite3_stmt *q) {
    struct sandbox_record r = {0};
    bool is = db_read_record(q, &r, NULL) == 0;
    if (is)
        sandbox_record_free(&r);
    return is;
}

static bool is_key(sqlite3_stmt *q) {
    struct key k = {0};
    return db_read_key(q, &k);
}

static bool is_volume(sqlite3_stmt *q) {
    struct volume v = {0};
    return db_read_volume(q, &v);
}

static const struct check {
    const char *table, *columns;
    bool (*is)(sqlite3_stmt *q);
} checks[] = {
    {"sandbox", NULL, is_sandbox},
    {"key", DB_KEY_COLUMNS, is_key},
    {"volume", DB_VOLUME_COLUMNS, is_volume},
};

/* One that the manager would refuse to start with is as good as lost. */
static int drop_nonsense(const struct salvage *v, const struct check *c, struct cay_error *err) {
    _cleanup_(buf_free) struct buf columns = BUF_INIT(QUERY_MAX);
    if (c->columns != NULL)
        (void)buf_puts(&columns, c->columns);
    else
        db_row_columns(&columns);
    _cleanup_(finalizep) sqlite3_stmt *q =
        prepare(v->to, "SELECT %s, rowid FROM %s", buf_text(&columns), c->table);
    char text[128];
    if (q == NULL)
        return db_fail(v->to, err, "reading what was saved");
    int r = 0;
    while (r == 0 && sqlite3_step(q) == SQLITE_ROW) {
        if (c->is(q))
            continue;
        sqlite3_int64 row = sqlite3_column_int64(q, sqlite3_column_count(q) - 1);
        (void)snprintf(text, sizeof text, "DELETE FROM %s WHERE rowid = %lld", c->table,
                       (long long)row);
        r = db_run(v->to, text, "dropping a row that makes no sense", err);
        (void)buf_printf(v->report, "  %s: row %lld makes no sense, and was dropped\n", c->table,
                         (long long)row);
    }
    return r;
}

/* ---- files ---- */

static void name(char out[static PATH_MAX], const char *path, const char *suffix) {
    (void)snprintf(out, PATH_MAX, "%s%s", path, suffix);
}

static void remove_file(const char *path, const char *suffix) {
    char file[PATH_MAX];
    name(file, path, suffix);
    (void)unlink(file); /* not there is fine */
}

/* The damaged files stay, under names that fit each other, in a folder of their own. */
static int keep_damaged(const char *path, const char *folder, struct cay_error *err) {
    static const char *const suffixes[] = {"", "-wal"};
    char from[PATH_MAX], to[PATH_MAX];
    if (mkdir(folder, 0700) < 0 && errno != EEXIST)
        return error_errno(err, "making the folder '%s'", folder);
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        name(from, path, suffixes[i]);
        if (str_format(to, sizeof to, "%s/cay.db%s", folder, suffixes[i]) < 0)
            return error_sys(err, ENAMETOOLONG, "naming the damaged database");
        if (link(from, to) < 0 && errno != ENOENT && errno != EEXIST)
            return error_errno(err, "keeping '%s' as '%s'", from, to);
    }
    return 0;
}

/* A connection that only reads, and does not tidy up when it is closed, changes neither the file
 * nor its log. */
static int open_damaged(const char *folder, sqlite3 **ret, struct cay_error *err) {
    char file[PATH_MAX];
    name(file, folder, "/cay.db");
    if (sqlite3_open_v2(file, ret, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        return error_errno(err, "opening '%s'", file);
    (void)sqlite3_db_config(*ret, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    (void)sqlite3_exec(*ret, "PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF", NULL, NULL,
                       NULL);
    return 0;
}

/* In the layout of the damaged one, as far as it can be told: then every column has its place. */
static int open_new(const char *path, int version, sqlite3 **ret, struct cay_error *err) {
    char file[PATH_MAX];
    name(file, path, ".new");
    (void)unlink(file);
    enum { FLAGS = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX };
    _cleanup_(closep) int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || sqlite3_open_v2(file, ret, FLAGS, NULL) != SQLITE_OK)
        return error_errno(err, "making '%s'", file);
    struct db_steps layout = {db_layout.steps, version - db_layout.first + 1, db_layout.first};
    int r =
        db_run(*ret, "PRAGMA synchronous = OFF", "making a database", err); /* once, at the end */
    if (r == 0)
        r = db_migrate(*ret, file, &layout, err);
    if (r == 0)
        r = db_add_columns(*ret, err);
    (void)sqlite3_db_config(*ret, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL); /* events are copied */
    return r;
}

static int version_of(sqlite3 *sql) {
    _cleanup_(finalizep) sqlite3_stmt *q = prepare(sql, "PRAGMA user_version");
    int version = q != NULL && sqlite3_step(q) == SQLITE_ROW ? sqlite3_column_int(q, 0) : 0;
    return version >= db_layout.first && version <= db_layout_last(&db_layout)
               ? version
               : db_layout_last(&db_layout);
}

static int fill(const struct salvage *v, const char *path, struct cay_error *err) {
    int r = db_run(v->to, "BEGIN", "saving rows", err);
    if (r == 0)
        r = copy_tables(v, err);
    if (r == 0)
        r = db_run(v->to, "COMMIT", "saving rows", err);
    if (r == 0)
        r = db_migrate(v->to, path, &db_layout, err);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(checks); i++)
        r = drop_nonsense(v, &checks[i], err);
    return r;
}

static int read_and_write(const char *path, const char *folder, struct buf *report,
                          struct cay_error *err) {
    _cleanup_(closep_sql) sqlite3 *from = NULL;
    _cleanup_(closep_sql) sqlite3 *to = NULL;
    int r = open_damaged(folder, &from, err);
    if (r < 0)
        return r;
    r = open_new(path, version_of(from), &to, err);
    return r < 0 ? r : fill(&(struct salvage){from, to, report}, path, err);
}

static int write_mark(const char *mark, const struct buf *report, struct cay_error *err) {
    _cleanup_(closep) int fd = open(mark, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || fd_write_all(fd, report->data, report->len) < 0 || fsync(fd) < 0)
        return error_errno(err, "writing '%s'", mark);
    return 0;
}

/* The old log first: the new file must never meet it. */
static int put_in_place(const char *path, struct cay_error *err) {
    char file[PATH_MAX];
    name(file, path, ".new");
    _cleanup_(closep) int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0)
        return error_errno(err, "writing '%s' to the disk", file);
    remove_file(path, "-wal");
    remove_file(path, "-shm");
    return rename(file, path) < 0 ? error_errno(err, "renaming '%s'", file) : 0;
}

int db_salvage(const char *path, const char *folder, const char *mark, const char *found,
               struct cay_error *err) {
    if (strlen(path) + 16 > PATH_MAX || strlen(folder) + 16 > PATH_MAX)
        return error_sys(err, ENAMETOOLONG, "naming the files beside '%s'", path);
    char when[32];
    _cleanup_(buf_free) struct buf report = BUF_INIT(REPORT_MAX);
    (void)buf_printf(&report, "%s: %s.\nIt is kept in %s. What could be read of it was saved:\n",
                     clock_iso8601(clock_wall_ms(), when), found, folder);
    int r = keep_damaged(path, folder, err);
    if (r < 0)
        return r;
    r = read_and_write(path, folder, &report, err);
    remove_file(folder, "/cay.db-shm");
    remove_file(path, ".new-journal");
    if (r < 0)
        return r;
    if (report.failed)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    r = write_mark(mark, &report, err);
    return r < 0 ? r : put_in_place(path, err);
}
