/* What can be read of a damaged database, in a new one. Rows are read by their numbers: upwards to
 * the first page that is no good, downwards to the last, and between them one by one. So neither a
 * damaged page nor a damaged index costs more than what is on it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "manager/db_internal.h"
#include "manager/key.h"
#include "manager/volume.h"

enum { PROBES_MAX = 20 * 1000, COLUMNS_MAX = 64, REPORT_MAX = 1 << 20, QUERY_MAX = 4096 };

struct salvage {
    sqlite3 *from, *to;
    struct buf *report;
};

/* One table. */
struct source {
    const char *table;
    char columns[QUERY_MAX / 2];
    int count;
    sqlite3_stmt *insert, *upwards, *downwards; /* NULL: its table is not known there */
    int64_t rows;
    bool is_whole;
};

static void closep_sql(sqlite3 **sql) {
    (void)sqlite3_close(*sql);
}

static void finalizep(sqlite3_stmt **q) {
    (void)sqlite3_finalize(*q);
}

/* ---- rows ---- */

/* Numbered tables keep their numbers, since the number is a column. */
static void copy_row(struct source *s, sqlite3_stmt *q) {
    int e = SQLITE_OK;
    for (int i = 0; e == SQLITE_OK && i < s->count; i++)
        e = sqlite3_bind_value(s->insert, i + 1, sqlite3_column_value(q, i + 1));
    if (e == SQLITE_OK && sqlite3_step(s->insert) == SQLITE_DONE)
        s->rows++;
    else
        s->is_whole = false; /* it breaks a rule of the table: damage that looks like a row */
    (void)sqlite3_reset(s->insert);
}

/* Rows from first to last, by one of the two queries; *ret_last is the last number that could be
 * read. True if there was no damage. */
static bool copy_rows(struct source *s, sqlite3_stmt *q, int64_t first, int64_t last,
                      int64_t *ret_last) {
    if (q == NULL || sqlite3_bind_int64(q, 1, first) != SQLITE_OK ||
        sqlite3_bind_int64(q, 2, last) != SQLITE_OK)
        return false;
    int step;
    while ((step = sqlite3_step(q)) == SQLITE_ROW) {
        int64_t number = sqlite3_column_int64(q, 0);
        if (number < first || number > last)
            break;
        if (q == s->downwards)
            last = number - 1; /* a tree that leads in circles does not get any further */
        else
            first = number + 1;
        *ret_last = number;
        copy_row(s, q);
    }
    (void)sqlite3_reset(q);
    return step == SQLITE_DONE;
}

static void copy_table(struct source *s) {
    int64_t low = 0, high = 0, ignored;
    s->is_whole = true;
    if (copy_rows(s, s->upwards, 1, INT64_MAX, &low))
        return;
    s->is_whole = false;
    if (copy_rows(s, s->downwards, low + 1, INT64_MAX, &high))
        return;
    if (high == 0)
        high = low + PROBES_MAX;
    for (int64_t i = low + 1; i < high && i - low < PROBES_MAX; i++)
        (void)copy_rows(s, s->upwards, i, i, &ignored);
}

/* ---- tables ---- */

static sqlite3_stmt *prepare_rows(const struct salvage *v, const struct source *s,
                                  const char *order) {
    char text[QUERY_MAX];
    sqlite3_stmt *q = NULL;
    if (str_format(text, sizeof text,
                   "SELECT rowid, %s FROM %s WHERE rowid BETWEEN ?1 AND ?2 ORDER BY rowid %s",
                   s->columns, s->table, order) < 0 ||
        sqlite3_prepare_v2(v->from, text, -1, &q, NULL) != SQLITE_OK)
        return NULL;
    return q;
}

/* The columns of the new table, and how to add a row. */
static int prepare_source(const struct salvage *v, struct source *s) {
    _cleanup_(finalizep) sqlite3_stmt *q = NULL;
    char text[QUERY_MAX], marks[2 * COLUMNS_MAX] = "";
    size_t used = 0, marked = 0;
    if (str_format(text, sizeof text, "PRAGMA table_info(%s)", s->table) < 0 ||
        sqlite3_prepare_v2(v->to, text, -1, &q, NULL) != SQLITE_OK)
        return -EINVAL;
    while (sqlite3_step(q) == SQLITE_ROW && s->count < COLUMNS_MAX) {
        const char *comma = s->count == 0 ? "" : ",";
        if (str_format(s->columns + used, sizeof s->columns - used, "%s%s", comma,
                       (const char *)sqlite3_column_text(q, 1)) < 0)
            return -ENOBUFS;
        used += strlen(s->columns + used);
        marked += (size_t)snprintf(marks + marked, sizeof marks - marked, "%s?", comma);
        s->count++;
    }
    if (str_format(text, sizeof text, "INSERT OR ABORT INTO %s (%s) VALUES (%s)", s->table,
                   s->columns, marks) < 0)
        return -ENOBUFS;
    s->upwards = prepare_rows(v, s, "ASC");
    s->downwards = prepare_rows(v, s, "DESC");
    return sqlite3_prepare_v2(v->to, text, -1, &s->insert, NULL) == SQLITE_OK ? 0 : -EINVAL;
}

static void release_source(struct source *s) {
    (void)sqlite3_finalize(s->insert);
    (void)sqlite3_finalize(s->upwards);
    (void)sqlite3_finalize(s->downwards);
}

static int copy_tables(const struct salvage *v, struct cay_error *err) {
    _cleanup_(finalizep) sqlite3_stmt *q = NULL;
    if (sqlite3_prepare_v2(v->to,
                           "SELECT name FROM sqlite_master WHERE type = 'table'"
                           " AND name NOT LIKE 'sqlite_%' ORDER BY name",
                           -1, &q, NULL) != SQLITE_OK)
        return db_fail(v->to, err, "listing the tables");
    while (sqlite3_step(q) == SQLITE_ROW) {
        struct source s = {.table = (const char *)sqlite3_column_text(q, 0)};
        int r = prepare_source(v, &s);
        if (r == 0)
            copy_table(&s);
        release_source(&s);
        if (r < 0)
            return error_sys(err, -r, "copying table %s", s.table);
        (void)buf_printf(v->report, "  %-14s%8lld rows%s\n", s.table, (long long)s.rows,
                         s.is_whole ? "" : ", and others that cannot be read");
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
    {"sandbox", DB_COLUMNS, is_sandbox},
    {"key", DB_KEY_COLUMNS, is_key},
    {"volume", DB_VOLUME_COLUMNS, is_volume},
};

/* One that the manager would refuse to start with is as good as lost. */
static int drop_nonsense(const struct salvage *v, const struct check *c, struct cay_error *err) {
    _cleanup_(finalizep) sqlite3_stmt *q = NULL;
    char text[QUERY_MAX];
    if (str_format(text, sizeof text, "SELECT %s, rowid FROM %s", c->columns, c->table) < 0 ||
        sqlite3_prepare_v2(v->to, text, -1, &q, NULL) != SQLITE_OK)
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

static int copy_file(const char *from, const char *to, struct cay_error *err) {
    _cleanup_(closep) int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0 && errno == ENOENT)
        return 0;
    _cleanup_(closep) int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t n = in < 0 || out < 0 ? -1 : 1;
    while (n > 0)
        n = sendfile(out, in, NULL, 1 << 20);
    return n < 0 ? error_errno(err, "copying '%s' to '%s'", from, to) : 0;
}

static void name(char out[static PATH_MAX], const char *path, const char *suffix) {
    (void)snprintf(out, PATH_MAX, "%s%s", path, suffix);
}

static void remove_file(const char *path, const char *suffix) {
    char file[PATH_MAX];
    name(file, path, suffix);
    (void)unlink(file); /* not there is fine */
}

/* SQLite changes a log that it reads: it gets copies. */
static int open_copy(const char *path, sqlite3 **ret, struct cay_error *err) {
    static const char *const suffixes[][2] = {{"", ".read"}, {"-wal", ".read-wal"}};
    char from[PATH_MAX], to[PATH_MAX];
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        name(from, path, suffixes[i][0]);
        name(to, path, suffixes[i][1]);
        int r = copy_file(from, to, err);
        if (r < 0)
            return r;
    }
    name(to, path, ".read");
    if (sqlite3_open_v2(to, ret, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
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
    struct db_steps layout = {db_layout.steps, version};
    int r =
        db_run(*ret, "PRAGMA synchronous = OFF", "making a database", err); /* once, at the end */
    if (r == 0)
        r = db_migrate(*ret, file, &layout, err);
    (void)sqlite3_db_config(*ret, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL); /* events are copied */
    return r;
}

static int version_of(sqlite3 *sql) {
    _cleanup_(finalizep) sqlite3_stmt *q = NULL;
    int version = 0;
    if (sqlite3_prepare_v2(sql, "PRAGMA user_version", -1, &q, NULL) == SQLITE_OK &&
        sqlite3_step(q) == SQLITE_ROW)
        version = sqlite3_column_int(q, 0);
    return version > 0 && version <= db_layout.count ? version : db_layout.count;
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

static int read_and_write(const char *path, struct buf *report, struct cay_error *err) {
    _cleanup_(closep_sql) sqlite3 *from = NULL;
    _cleanup_(closep_sql) sqlite3 *to = NULL;
    int r = open_copy(path, &from, err);
    if (r == 0)
        r = open_new(path, version_of(from), &to, err);
    return r < 0 ? r : fill(&(struct salvage){from, to, report}, path, err);
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

static int save(const char *path, const char *folder, const char *mark, struct buf *report,
                struct cay_error *err) {
    int r = read_and_write(path, report, err);
    if (r == 0)
        r = keep_damaged(path, folder, err);
    if (r == 0 && report->failed)
        r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    if (r == 0)
        r = write_mark(mark, report, err);
    return r < 0 ? r : put_in_place(path, err);
}

int db_salvage(const char *path, const char *folder, const char *mark, const char *found,
               struct cay_error *err) {
    static const char *const leftovers[] = {".read", ".read-wal", ".read-shm", ".new-journal"};
    if (strlen(path) + 16 > PATH_MAX)
        return error_sys(err, ENAMETOOLONG, "naming the files beside '%s'", path);
    char when[32];
    _cleanup_(buf_free) struct buf report = BUF_INIT(REPORT_MAX);
    (void)buf_printf(&report, "%s: %s.\nIt is kept in %s. What could be read of it was saved:\n",
                     clock_iso8601(clock_wall_ms(), when), found, folder);
    int r = save(path, folder, mark, &report, err);
    for (size_t i = 0; i < ARRAY_LEN(leftovers); i++)
        remove_file(path, leftovers[i]);
    return r;
}
