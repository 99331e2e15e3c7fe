#include "manager/access/audit_segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "manager/db/db.h"
#include "manager/record/audit_line.h"

enum { PAGE = 1000, NAME_SIZE = 64 };

static const char mark[] = "cay-audit-1", seal[] = "sealed";

/* ---- lines ---- */

/* Without its newline; false at the end, or if it has none. */
static bool next_line(FILE *f, char line[static AUDIT_LINE_SIZE]) {
    if (fgets(line, AUDIT_LINE_SIZE, f) == NULL)
        return false;
    size_t len = strlen(line);
    if (len == 0 || line[len - 1] != '\n')
        return false;
    line[len - 1] = '\0';
    return true;
}

/* ---- sealing ---- */

static void put_end(FILE *f, const char *word, int64_t number,
                    const unsigned char chain[static HASH_SIZE]) {
    char hex[HASH_HEX_SIZE];
    hash_hex(chain, hex);
    (void)fprintf(f, "%s\t%" PRId64 "\t%s\n", word, number, hex);
}

/* Texts have no tab and no newline: audit_fill() has escaped them. */
static void put_row(FILE *f, const struct audit_row *row) {
    char hex[HASH_HEX_SIZE];
    hash_hex(row->chain, hex);
    (void)fprintf(f, "%" PRId64 "\t%" PRId64 "\t%s\t%s\t%s\t%s\t%s\t%s\n", row->number,
                  row->time_ms, row->who, row->action, row->object, row->result, row->detail, hex);
}

static int put_rows(FILE *f, struct db *db, int64_t after, int64_t through,
                    unsigned char chain[static HASH_SIZE], struct cay_error *err) {
    _cleanup_(freep) struct audit_row *page = calloc(PAGE, sizeof *page);
    if (page == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    while (after < through) {
        size_t count = 0;
        int r = db_audit_page(db, INT64_MIN, after, page, PAGE, &count, err);
        if (r < 0)
            return r;
        if (count == 0)
            return error_set(err, CAY_NOT_FOUND, "the audit has no row %lld", (long long)through);
        for (size_t i = 0; i < count && page[i].number <= through; i++) {
            put_row(f, &page[i]);
            memcpy(chain, page[i].chain, HASH_SIZE);
        }
        after = MIN(page[count - 1].number, through);
    }
    return 0;
}

static int write_segment(int fd, struct db *db, int64_t anchor,
                         const unsigned char base[static HASH_SIZE], int64_t through,
                         unsigned char ret[static HASH_SIZE], struct cay_error *err) {
    _cleanup_(fclosep) FILE *f = fdopen(fd, "w");
    if (f == NULL) {
        (void)close(fd);
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    put_end(f, mark, anchor, base);
    int r = put_rows(f, db, anchor, through, ret, err);
    if (r < 0)
        return r;
    put_end(f, seal, through, ret);
    if (fflush(f) != 0 || ferror(f) || fsync(fd) < 0)
        return error_errno(err, "writing a segment of the audit");
    return 0;
}

static void put_name(char out[static NAME_SIZE], int64_t first, int64_t last) {
    (void)snprintf(out, NAME_SIZE, AUDIT_FOLDER "/%019" PRId64 "-%019" PRId64 ".tsv", first, last);
}

static int settle(const char *name, struct cay_error *err) {
    if (rename(AUDIT_FOLDER "/.new", name) < 0)
        return error_errno(err, "renaming a segment of the audit");
    _cleanup_(closep) int dir = open(AUDIT_FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir < 0 || fsync(dir) < 0 ? error_errno(err, "writing the folder of the audit") : 0;
}

int audit_segment_seal(struct db *db, int64_t through, unsigned char ret[static HASH_SIZE],
                       struct cay_error *err) {
    int64_t anchor;
    unsigned char base[HASH_SIZE];
    char name[NAME_SIZE];
    int r = db_audit_anchor(db, &anchor, base, err);
    if (r < 0)
        return r;
    if (mkdir(AUDIT_FOLDER, 0700) < 0 && errno != EEXIST)
        return error_errno(err, "making the folder of the audit");
    int fd = open(AUDIT_FOLDER "/.new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, "making a segment of the audit");
    r = write_segment(fd, db, anchor, base, through, ret, err);
    put_name(name, anchor + 1, through);
    if (r == 0)
        r = settle(name, err);
    return r < 0 ? r : db_audit_trim(db, through, err);
}

/* ---- what there is ---- */

static bool read_name(const char *name, struct audit_segment *ret) {
    char first[20], last[20];
    size_t len = strlen(name);
    if (len != 19 + 1 + 19 + 4 || name[19] != '-' || !str_equal(name + 39, ".tsv"))
        return false;
    memcpy(first, name, 19);
    memcpy(last, name + 20, 19);
    first[19] = last[19] = '\0';
    return strspn(first, "0123456789") == 19 && strspn(last, "0123456789") == 19 &&
           (ret->first = strtoll(first, NULL, 10)) > 0 &&
           (ret->last = strtoll(last, NULL, 10)) >= ret->first;
}

static int by_number(const void *a, const void *b) {
    int64_t x = ((const struct audit_segment *)a)->first,
            y = ((const struct audit_segment *)b)->first;
    return x < y ? -1 : x > y;
}

static int read_folder(DIR *d, int64_t anchor, struct audit_segment *v, size_t *count,
                       struct cay_error *err) {
    const char *name;
    struct stat s;
    int r;
    while ((r = path_next(d, &name)) > 0) {
        struct audit_segment found;
        if (!read_name(name, &found) || found.last > anchor ||
            fstatat(dirfd(d), name, &s, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (*count == AUDIT_SEGMENTS_MAX)
            return error_set(err, CAY_RESOURCE_EXHAUSTED, "more than %d segments of the audit",
                             AUDIT_SEGMENTS_MAX);
        found.sealed_ms = (int64_t)s.st_mtim.tv_sec * 1000;
        found.bytes = (uint64_t)s.st_size;
        v[(*count)++] = found;
    }
    return r < 0 ? error_sys(err, -r, "reading the folder of the audit") : 0;
}

int audit_segment_list(int64_t anchor, struct audit_segment **ret, size_t *ret_count,
                       struct cay_error *err) {
    _cleanup_(freep) struct audit_segment *v = calloc(AUDIT_SEGMENTS_MAX, sizeof *v);
    *ret_count = 0;
    *ret = NULL;
    if (v == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    DIR *d = opendir(AUDIT_FOLDER);
    if (d == NULL)
        return errno == ENOENT ? 0 : error_errno(err, "opening the folder of the audit");
    int r = read_folder(d, anchor, v, ret_count, err);
    (void)closedir(d);
    if (r < 0)
        return r;
    qsort(v, *ret_count, sizeof *v, by_number);
    *ret = TAKE_PTR(v);
    return 0;
}

static FILE *open_segment(const struct audit_segment *s) {
    char name[NAME_SIZE];
    put_name(name, s->first, s->last);
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    if (f == NULL && fd >= 0)
        (void)close(fd);
    return f;
}

/* Its last line. */
static void read_seal(const struct audit_segment *s, unsigned char ret[static HASH_SIZE]) {
    char line[AUDIT_LINE_SIZE];
    int64_t number;
    memset(ret, 0, HASH_SIZE);
    _cleanup_(fclosep) FILE *f = open_segment(s);
    if (f == NULL || fseek(f, -(long)MIN(s->bytes, (uint64_t)AUDIT_LINE_SIZE), SEEK_END) < 0)
        return;
    while (next_line(f, line))
        (void)audit_line_parse_end(line, seal, &number, ret); /* only that line is one */
}

int audit_segment_remove(const struct audit_segment *s, unsigned char ret[static HASH_SIZE],
                         struct cay_error *err) {
    char name[NAME_SIZE];
    read_seal(s, ret);
    put_name(name, s->first, s->last);
    return unlink(name) < 0 && errno != ENOENT ? error_errno(err, "removing a segment of the audit")
                                               : 0;
}

/* ---- verifying ---- */

static void find_bad(struct audit_verdict *v, int64_t row, const char *what) {
    v->ok = false;
    v->bad = row;
    (void)snprintf(v->why, sizeof v->why, "row %lld, in a sealed segment, %s", (long long)row,
                   what);
}

/* What it follows must be where v is. */
static void verify_begin(const struct audit_segment *s, char *line, struct audit_verdict *v) {
    int64_t number = 0;
    unsigned char chain[HASH_SIZE];
    if (audit_line_parse_end(line, mark, &number, chain) < 0 || number != s->first - 1) {
        find_bad(v, s->first, "has no beginning that can be read");
    } else if (v->rows == 0) {
        v->last = number;
        memcpy(v->head, chain, HASH_SIZE);
    } else if (v->last != number) {
        find_bad(v, v->last + 1, "is missing");
    } else if (!hash_equal(v->head, chain)) {
        find_bad(v, s->first, "does not follow the segment before it");
    }
}

static void verify_end(const struct audit_segment *s, char *line, struct audit_verdict *v) {
    int64_t number = 0;
    unsigned char chain[HASH_SIZE];
    if (audit_line_parse_end(line, seal, &number, chain) < 0)
        find_bad(v, v->last + 1, "cannot be read");
    else if (number != s->last || number != v->last || !hash_equal(chain, v->head))
        find_bad(v, v->last + 1, "is missing");
}

int audit_segment_verify(const struct audit_segment *s, struct audit_verdict *v,
                         struct cay_error *err) {
    char line[AUDIT_LINE_SIZE];
    struct audit_row row;
    _cleanup_(fclosep) FILE *f = open_segment(s);
    if (f == NULL)
        return error_errno(err, "opening a segment of the audit");
    if (!next_line(f, line)) {
        find_bad(v, s->first, "cannot be read");
        return 0;
    }
    verify_begin(s, line, v);
    while (v->ok && v->last < s->last && next_line(f, line)) {
        if (audit_line_parse(line, &row) < 0)
            find_bad(v, v->last + 1, "cannot be read");
        else
            audit_verify_row(v, &row);
    }
    if (v->ok && !next_line(f, line))
        find_bad(v, v->last + 1, "is missing");
    else if (v->ok)
        verify_end(s, line, v);
    return 0;
}
