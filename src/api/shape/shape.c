#include "api/shape/shape.h"

#include <cay.h>

#include "base/error.h"

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

void shape_put_sandbox(struct jsonw *w, const void *row) {
    const struct sandbox_record *r = row;
    jsonw_put_string(w, "id", r->id);
    jsonw_put_string(w, "name", r->name);
    jsonw_put_string(w, "state", sandbox_state_name(r->state));
    jsonw_put_string(w, "image", r->image_name);
    jsonw_put_string(w, "user", r->user);
    jsonw_put_string(w, "workDir", r->work_dir);
    jsonw_put_unsigned(w, "memory", shape_memory(r));
    jsonw_put_number(w, "cpus", (double)shape_cpu_quota(r) / 100000);
    jsonw_put_unsigned(w, "disk", r->disk_bytes);
    jsonw_put_unsigned(w, "pids", r->pids);
    jsonw_put_pairs(w, "labels", &r->labels);
    jsonw_put_pairs(w, "env", &r->env);
    jsonw_put_strings(w, "volumes", &r->volumes);
    jsonw_put_string(w, "network", r->network);
    jsonw_put_time(w, "createdAt", r->created_ms);
    jsonw_put_time(w, "updatedAt", r->updated_ms);
    jsonw_put_time(w, "lastActivityAt", r->active_ms);
    jsonw_put_integer(w, "autoStopInterval", MAX(r->auto_stop_minutes, 0));
    jsonw_put_integer(w, "autoArchiveInterval", MAX(r->auto_archive_minutes, 0));
    jsonw_put_integer(w, "archiveSize", r->state == SANDBOX_ARCHIVED ? r->archive_bytes : 0);
    jsonw_put_integer(w, "autoDeleteInterval", r->auto_delete_minutes);
    jsonw_put_string(w, "onFailure", on_failure_name(r->on_failure));
    jsonw_put_string(w, "engine", engine_kind_name(r->engine));
    jsonw_put_string(w, "tier", tier_name(r->tier));
    jsonw_put_string(w, "profile", r->profile == PROFILE_BUILD ? "build" : "strict");
    jsonw_put_optional(w, "progress", r->state == SANDBOX_CREATING ? r->reason : "");
    bool rests = r->state == SANDBOX_STOPPING || r->state == SANDBOX_STOPPED;
    jsonw_put_optional(w, "stopReason", rests ? r->reason : "");
    jsonw_put_optional(w, "errorReason", rests || r->state == SANDBOX_CREATING ? "" : r->reason);
    jsonw_put_optional(w, "errorRemedy", r->remedy);
    jsonw_put_optional(w, "limitsNotKept", shape_describe_unkept(r));
}

void shape_put_stats(struct jsonw *w, const void *row) {
    const struct engine_stats *e = row;
    jsonw_put_unsigned(w, "memoryBytes", e->memory_bytes);
    jsonw_put_unsigned(w, "memoryLimit", e->memory_limit);
    jsonw_put_unsigned(w, "memoryPeak", e->memory_peak);
    jsonw_put_unsigned(w, "cpuMicros", e->cpu_us);
    jsonw_put_unsigned(w, "pids", e->pids);
    jsonw_put_unsigned(w, "oomKills", e->oom_kills);
    jsonw_put_integer(w, "oomAgeMs", e->oom_age_ms);
    jsonw_put_unsigned(w, "diskBytes", e->disk_bytes);
    jsonw_put_unsigned(w, "diskLimit", e->disk_limit);
}

void shape_put_status(struct jsonw *w, const void *row) {
    const struct manager_totals *t = row;
    jsonw_put_string(w, "version", cay_version());
    jsonw_put_unsigned(w, "sandboxes", t->total);
    jsonw_put_unsigned(w, "started", t->started);
    jsonw_put_unsigned(w, "operations", t->operations);
    jsonw_put_integer(w, "limit", t->limit);
    jsonw_put_bool(w, "shuttingDown", t->shutting_down);
    jsonw_put_unsigned(w, "poolSize", t->pool.size);
    jsonw_put_unsigned(w, "poolTarget", t->pool.target);
    jsonw_put_unsigned(w, "poolHits", t->pool.hits);
    jsonw_put_unsigned(w, "poolMisses", t->pool.misses);
}

void shape_error(struct buf *out, const struct cay_error *err, unsigned status) {
    struct cay_error shown = *err;
    error_sanitize(&shown);
    struct jsonw w = JSONW_INIT(out);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "code", cay_code_name(shown.code));
    jsonw_put_string(&w, "message", shown.message);
    jsonw_put_string(&w, "remedy", shown.remedy);
    jsonw_put_unsigned(&w, "statusCode", status);
    jsonw_end_object(&w);
    (void)buf_putc(out, '\n');
}
