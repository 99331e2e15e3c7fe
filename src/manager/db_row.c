/* A sandbox as a row, and back. What is read was written by us, but the file lies on a disk that
 * others can reach: nothing is taken for granted. */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "manager/db_internal.h"

enum { WORDS_MAX = 16 * 1024 * 1024 };

static const char *const profile_names[] = {
    [PROFILE_STRICT] = "strict",
    [PROFILE_BUILD] = "build",
};

static int bind_text(sqlite3_stmt *q, int at, const char *text) {
    return sqlite3_bind_text(q, at, text, -1, SQLITE_TRANSIENT);
}

static int bind_words(sqlite3_stmt *q, int at, const struct strv *words) {
    struct buf b = BUF_INIT(WORDS_MAX);
    for (size_t i = 0; i < words->len; i++)
        (void)buf_append(&b, words->v[i], strlen(words->v[i]) + 1);
    int r = b.failed ? SQLITE_TOOBIG
                     : sqlite3_bind_blob(q, at, buf_text(&b), (int)b.len, SQLITE_TRANSIENT);
    buf_free(&b);
    return r;
}

int db_bind_record(sqlite3_stmt *q, const struct sandbox_record *r) {
    const char *const texts[] = {r->id,     r->name,   sandbox_state_name(r->state),
                                 r->reason, r->remedy, r->image_name,
                                 r->image,  r->user,   r->work_dir};
    const sqlite3_int64 limits[] = {(sqlite3_int64)r->memory_bytes, (sqlite3_int64)r->disk_bytes,
                                    r->cpu_quota_us, r->pids};
    const sqlite3_int64 times[] = {r->created_ms,          r->updated_ms,
                                   r->active_ms,           r->auto_stop_minutes,
                                   r->auto_delete_minutes, r->auto_archive_minutes};
    int at = 1, e = SQLITE_OK;
    for (size_t i = 0; e == SQLITE_OK && i < ARRAY_LEN(texts); i++)
        e = bind_text(q, at++, texts[i]);
    for (size_t i = 0; e == SQLITE_OK && i < ARRAY_LEN(limits); i++)
        e = sqlite3_bind_int64(q, at++, limits[i]);
    if (e == SQLITE_OK)
        e = bind_text(q, at++, tier_name(r->tier));
    if (e == SQLITE_OK)
        e = bind_text(q, at++, profile_names[r->profile]);
    if (e == SQLITE_OK)
        e = sqlite3_bind_int(q, at++, r->read_only);
    const struct strv *const lists[] = {&r->env, &r->labels, &r->volumes};
    for (size_t i = 0; e == SQLITE_OK && i < ARRAY_LEN(lists); i++)
        e = bind_words(q, at++, lists[i]);
    for (size_t i = 0; e == SQLITE_OK && i < ARRAY_LEN(times); i++)
        e = sqlite3_bind_int64(q, at++, times[i]);
    if (e == SQLITE_OK)
        e = bind_text(q, at++, r->owner);
    if (e == SQLITE_OK)
        e = bind_text(q, at++, on_failure_name(r->on_failure));
    if (e == SQLITE_OK)
        e = sqlite3_bind_int(q, at++, r->pooled);
    if (e == SQLITE_OK)
        e = sqlite3_bind_int64(q, at++, r->archive_bytes);
    if (e == SQLITE_OK)
        e = sqlite3_bind_int(q, at++, r->is_public);
    const sqlite3_int64 plans[] = {r->destroy_ms, r->failures, r->failed_ms, r->recover_ms};
    for (size_t i = 0; e == SQLITE_OK && i < ARRAY_LEN(plans); i++)
        e = sqlite3_bind_int64(q, at++, plans[i]);
    if (e == SQLITE_OK)
        e = bind_text(q, at++, r->network);
    if (e == SQLITE_OK)
        e = bind_text(q, at++, engine_kind_name(r->engine));
    if (e == SQLITE_OK)
        e = bind_text(q, at++, r->made_by);
    return e;
}

static int read_text(sqlite3_stmt *q, int at, char *out, size_t size) {
    const char *text = (const char *)sqlite3_column_text(q, at);
    return text == NULL ? -EINVAL : str_copy(out, size, text);
}

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

static int read_names(sqlite3_stmt *q, struct sandbox_record *r) {
    char state[32], tier[32], profile[32], on_failure[32], engine[32];
    if (read_text(q, 2, state, sizeof state) < 0 || read_text(q, 13, tier, sizeof tier) < 0 ||
        read_text(q, 14, profile, sizeof profile) < 0 ||
        read_text(q, 26, on_failure, sizeof on_failure) < 0 ||
        read_text(q, 35, engine, sizeof engine) < 0)
        return -EINVAL;
    r->on_failure = on_failure_from_name(on_failure);
    r->engine = engine_kind_from_name(engine);
    r->state = sandbox_state_from_name(state);
    r->tier = tier_from_name(tier);
    r->profile = str_equal(profile, profile_names[PROFILE_BUILD]) ? PROFILE_BUILD : PROFILE_STRICT;
    bool known = r->state < SANDBOX_STATE_COUNT && r->on_failure < FAILURE_COUNT &&
                 r->engine < ENGINE_KINDS && str_equal(profile, profile_names[r->profile]) &&
                 str_equal(tier, tier_name(r->tier));
    return known ? 0 : -EINVAL;
}

static int read_texts(sqlite3_stmt *q, struct sandbox_record *r) {
    const struct {
        int at;
        char *out;
        size_t size;
    } texts[] = {
        {0, r->id, sizeof r->id},
        {1, r->name, sizeof r->name},
        {3, r->reason, sizeof r->reason},
        {4, r->remedy, sizeof r->remedy},
        {5, r->image_name, sizeof r->image_name},
        {6, r->image, sizeof r->image},
        {7, r->user, sizeof r->user},
        {8, r->work_dir, sizeof r->work_dir},
        {25, r->owner, sizeof r->owner},
        {34, r->network, sizeof r->network},
        {36, r->made_by, sizeof r->made_by},
    };
    int e = 0;
    for (size_t i = 0; e == 0 && i < ARRAY_LEN(texts); i++)
        e = read_text(q, texts[i].at, texts[i].out, texts[i].size);
    if (e == 0)
        e = read_names(q, r);
    return e == 0 && !id_is_valid(r->id) ? -EINVAL : e;
}

static int read_numbers(sqlite3_stmt *q, struct sandbox_record *r) {
    sqlite3_int64 memory = sqlite3_column_int64(q, 9), disk = sqlite3_column_int64(q, 10);
    sqlite3_int64 cpu = sqlite3_column_int64(q, 11), pids = sqlite3_column_int64(q, 12);
    if (memory < 0 || disk < 0 || cpu < 0 || cpu > UINT32_MAX || pids < 0 || pids > UINT32_MAX)
        return -EINVAL;
    r->memory_bytes = (uint64_t)memory;
    r->disk_bytes = (uint64_t)disk;
    r->cpu_quota_us = (uint32_t)cpu;
    r->pids = (uint32_t)pids;
    r->read_only = sqlite3_column_int(q, 15) != 0;
    r->pooled = sqlite3_column_int(q, 27) != 0;
    r->archive_bytes = MAX(sqlite3_column_int64(q, 28), (sqlite3_int64)0);
    r->is_public = sqlite3_column_int(q, 29) != 0;
    r->destroy_ms = MAX(sqlite3_column_int64(q, 30), (sqlite3_int64)0);
    r->failures = (uint32_t)sqlite3_column_int(q, 31);
    r->failed_ms = sqlite3_column_int64(q, 32);
    r->recover_ms = sqlite3_column_int64(q, 33);
    int64_t *const times[] = {&r->created_ms,          &r->updated_ms,
                              &r->active_ms,           &r->auto_stop_minutes,
                              &r->auto_delete_minutes, &r->auto_archive_minutes};
    for (size_t i = 0; i < ARRAY_LEN(times); i++)
        *times[i] = sqlite3_column_int64(q, 19 + (int)i);
    return 0;
}

int db_read_record(sqlite3_stmt *q, struct sandbox_record *ret, struct cay_error *err) {
    struct sandbox_record r = {0};
    int e = read_texts(q, &r);
    if (e == 0)
        e = read_numbers(q, &r);
    if (e == 0)
        e = read_words(q, 16, &r.env);
    if (e == 0)
        e = read_words(q, 17, &r.labels);
    if (e == 0)
        e = read_words(q, 18, &r.volumes);
    if (e == 0) {
        *ret = r;
        return 0;
    }
    sandbox_record_free(&r);
    if (e == -ENOMEM)
        return error_sys(err, ENOMEM, "reading a sandbox");
    char shown[64];
    error_set(err, CAY_INTERNAL, "the row of sandbox '%s' in the database makes no sense",
              str_escape(shown, sizeof shown, r.id));
    return error_remedy(err, "restore the database from a backup");
}
