#include "api/shape.h"

#include <cay.h>

#include "base/error.h"

static const struct sandbox_record no_sandbox;
static const struct engine_stats no_stats;
static const struct manager_totals no_totals;

static const struct engine *native_engine;

void shape_use_engine(const struct engine *native) {
    native_engine = native;
}

bool shape_is_unkept(const struct sandbox_record *r, uint32_t limit) {
    return native_engine != NULL && r->engine == ENGINE_NATIVE &&
           (__atomic_load_n(&native_engine->unkept, __ATOMIC_RELAXED) & limit) != 0;
}

uint64_t shape_memory(const struct sandbox_record *r) {
    return shape_is_unkept(r, ENGINE_UNKEPT_MEMORY) ? 0 : r->memory_bytes;
}

uint32_t shape_cpu_quota(const struct sandbox_record *r) {
    return shape_is_unkept(r, ENGINE_UNKEPT_CPUS) ? 0 : r->cpu_quota_us;
}

const char *shape_describe_unkept(const struct sandbox_record *r) {
    bool memory = shape_is_unkept(r, ENGINE_UNKEPT_MEMORY),
         cpus = shape_is_unkept(r, ENGINE_UNKEPT_CPUS);
    if (!memory && !cpus)
        return "";
    return memory && cpus ? "memory and cpus: the daemon has no control groups "
                            "for them; see 'cay doctor'"
           : memory       ? "memory: the daemon has no control group for it; see 'cay "
                            "doctor'"
                          : "cpus: the daemon has no control group for them; see 'cay "
                            "doctor'";
}

static void write_sandbox(struct sheet *s, const void *row) {
    const struct sandbox_record *r = row;
    sheet_string(s, "id", r->id);
    sheet_string(s, "name", r->name);
    sheet_string(s, "state", sandbox_state_name(r->state));
    sheet_string(s, "image", r->image_name);
    sheet_string(s, "user", r->user);
    sheet_string(s, "workDir", r->work_dir);
    sheet_unsigned(s, "memory", shape_memory(r));
    sheet_number(s, "cpus", (double)shape_cpu_quota(r) / 100000);
    sheet_unsigned(s, "disk", r->disk_bytes);
    sheet_unsigned(s, "pids", r->pids);
    sheet_pairs(s, "labels", &r->labels);
    if (!s->is_tsv)
        sheet_pairs(s, "env", &r->env);
    sheet_words(s, "volumes", &r->volumes);
    sheet_string(s, "network", r->network);
    sheet_time(s, "createdAt", r->created_ms);
    sheet_time(s, "updatedAt", r->updated_ms);
    sheet_time(s, "lastActivityAt", r->active_ms);
    sheet_integer(s, "autoStopInterval", MAX(r->auto_stop_minutes, 0));
    sheet_integer(s, "autoArchiveInterval", MAX(r->auto_archive_minutes, 0));
    sheet_integer(s, "archiveSize", r->state == SANDBOX_ARCHIVED ? r->archive_bytes : 0);
    sheet_integer(s, "autoDeleteInterval", r->auto_delete_minutes);
    sheet_string(s, "onFailure", on_failure_name(r->on_failure));
    sheet_string(s, "engine", engine_kind_name(r->engine));
    sheet_string(s, "tier", tier_name(r->tier));
    sheet_string(s, "profile", r->profile == PROFILE_BUILD ? "build" : "strict");
    sheet_optional(s, "progress", r->state == SANDBOX_CREATING ? r->reason : "");
    bool rests = r->state == SANDBOX_STOPPING || r->state == SANDBOX_STOPPED;
    sheet_optional(s, "stopReason", rests ? r->reason : "");
    sheet_optional(s, "errorReason", rests || r->state == SANDBOX_CREATING ? "" : r->reason);
    sheet_optional(s, "errorRemedy", r->remedy);
    sheet_optional(s, "limitsNotKept", shape_describe_unkept(r));
}

const struct sheet_kind shape_sandbox = {write_sandbox, sizeof(struct sandbox_record), &no_sandbox};

static void write_stats(struct sheet *s, const void *row) {
    const struct engine_stats *e = row;
    sheet_unsigned(s, "memoryBytes", e->memory_bytes);
    sheet_unsigned(s, "memoryLimit", e->memory_limit);
    sheet_unsigned(s, "memoryPeak", e->memory_peak);
    sheet_unsigned(s, "cpuMicros", e->cpu_us);
    sheet_unsigned(s, "pids", e->pids);
    sheet_unsigned(s, "oomKills", e->oom_kills);
    sheet_integer(s, "oomAgeMs", e->oom_age_ms);
    sheet_unsigned(s, "diskBytes", e->disk_bytes);
    sheet_unsigned(s, "diskLimit", e->disk_limit);
}

const struct sheet_kind shape_stats = {write_stats, sizeof(struct engine_stats), &no_stats};

static void write_status(struct sheet *s, const void *row) {
    const struct manager_totals *t = row;
    sheet_string(s, "version", cay_version());
    sheet_unsigned(s, "sandboxes", t->total);
    sheet_unsigned(s, "started", t->started);
    sheet_unsigned(s, "operations", t->operations);
    sheet_integer(s, "limit", t->limit);
    sheet_bool(s, "shuttingDown", t->shutting_down);
    sheet_unsigned(s, "poolSize", t->pool.size);
    sheet_unsigned(s, "poolTarget", t->pool.target);
    sheet_unsigned(s, "poolHits", t->pool.hits);
    sheet_unsigned(s, "poolMisses", t->pool.misses);
}

const struct sheet_kind shape_status = {write_status, sizeof(struct manager_totals), &no_totals};

void shape_error(struct buf *out, bool is_tsv, const struct cay_error *err, unsigned status) {
    struct cay_error shown = *err;
    error_sanitize(&shown);
    const char *name = cay_code_name(shown.code);
    if (is_tsv) {
        (void)buf_printf(out, "%s\n%s\n%s\n", name, shown.message, shown.remedy);
        return;
    }
    struct jsonw w = JSONW_INIT(out);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "code", name);
    jsonw_put_string(&w, "message", shown.message);
    jsonw_put_string(&w, "remedy", shown.remedy);
    jsonw_put_unsigned(&w, "statusCode", status);
    jsonw_end_object(&w);
    (void)buf_putc(out, '\n');
}
