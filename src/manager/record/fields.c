#include "manager/record/fields.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "engine/engine.h"

/* ---- names of choices ---- */

static const char *name_state(unsigned v) {
    return sandbox_state_name((enum sandbox_state)v);
}
static const char *name_on_failure(unsigned v) {
    return on_failure_name((enum on_failure)v);
}
static const char *name_engine(unsigned v) {
    return engine_kind_name((enum engine_kind)v);
}
static const char *name_tier(unsigned v) {
    return tier_name((enum tier)v);
}
static const char *name_profile(unsigned v) {
    return v == PROFILE_BUILD ? "build" : "strict";
}

static const struct field_names states = {name_state, SANDBOX_STATE_COUNT, SANDBOX_STATE_COUNT};
static const struct field_names failures = {name_on_failure, FAILURE_KEEP, FAILURE_COUNT};
static const struct field_names engines = {name_engine, ENGINE_NATIVE, ENGINE_KINDS};
static const struct field_names tiers = {name_tier, TIER_BASIC, TIER_FULL + 1};
static const struct field_names profiles = {name_profile, PROFILE_STRICT, PROFILE_BUILD + 1};

/* ---- the table ---- */

#define MEMBER(m) offsetof(struct sandbox_record, m), .size = sizeof((struct sandbox_record *)0)->m
/* A member that has a column of the same name, or one that is not kept. */
#define KEPT(m)    .column = #m, .offset = MEMBER(m)
#define PASSING(m) .offset = MEMBER(m)

#define DERIVED(d, name, t) .kind = FIELD_DERIVED, .derived = DERIVED_##d, .json = name, .type = t
#define CHOICE(n)           .kind = FIELD_CHOICE, .names = &(n)
#define NUMBER(u)           .kind = FIELD_NUMBER, .unit = UNIT_##u
#define SIGNED(u)           NUMBER(u), .is_signed = true

#define AT_CREATE (FIELD_CREATE | FIELD_SHOW)
#define ANY_TIME  (FIELD_CREATE | FIELD_UPDATE | FIELD_SHOW)
#define SOMETIMES (FIELD_SHOW | FIELD_SPARSE)

enum {
    DECADE_MINUTES = 10 * 366 * 24 * 60,
    PIDS_MAX = 4194304,
    CPUS_MAX = 4096,
    PAIRS_MAX = 1024,
};

/* clang-format off: a matrix */

/* In the order in which `cay info` and answers show them. */
const struct field sandbox_fields[] = {
    {KEPT(id), .json = "id", .title = "id", .flags = FIELD_SHOW},
    {KEPT(owner)},
    {KEPT(made_by)},
    {DERIVED(ORGANIZATION, "organizationId", "s"), .flags = FIELD_SHOW},
    {KEPT(name), .json = "name", .title = "name", .flags = AT_CREATE},
    {DERIVED(STATE, "state", "s"), .title = "state", .flags = FIELD_SHOW},
    {KEPT(state), CHOICE(states)},
    {DERIVED(DESIRED_STATE, "desiredState", "s"), .flags = FIELD_SHOW},
    {KEPT(reason)}, /* why it is in error or was stopped, or how far its
                       creation is: */
    {DERIVED(PROGRESS, "progress", "s"), .title = "progress", .flags = SOMETIMES},
    {DERIVED(STOP_REASON, "stopReason", "s"), .title = "reason", .flags = SOMETIMES},
    {DERIVED(ERROR_REASON, "errorReason", "s"), .title = "reason", .flags = SOMETIMES},
    {KEPT(remedy), .json = "errorRemedy", .title = "remedy", .flags = SOMETIMES},
    {DERIVED(RECOVERABLE, "recoverable", "b"), .flags = FIELD_SHOW},
    {KEPT(image_name), .json = "image", .title = "image", .flags = AT_CREATE | FIELD_DEFAULT},
    {DERIVED(SNAPSHOT, "snapshot", "s"), .flags = SOMETIMES},
    {KEPT(image)},
    {KEPT(user), .json = "user", .title = "user", .flags = AT_CREATE | FIELD_DEFAULT,
     .otherwise = "root"},
    {KEPT(work_dir), .json = "workDir", .title = "work folder", .flags = AT_CREATE | FIELD_DEFAULT},
    {KEPT(memory_bytes), NUMBER(BYTES), .json = "memoryBytes", .daytona = "memory",
     .title = "memory", .flags = ANY_TIME | FIELD_LIMIT | FIELD_DEFAULT, .min = 1, .max = INT64_MAX,
     .unkept = ENGINE_UNKEPT_MEMORY},
    {KEPT(disk_bytes), NUMBER(BYTES), .json = "diskBytes", .daytona = "disk", .title = "disk",
     .flags = ANY_TIME | FIELD_LIMIT, .min = 1, .max = INT64_MAX},
    {KEPT(archive_bytes), SIGNED(BYTES)},
    {DERIVED(ARCHIVE, "archiveBytes", "i"), .title = "archive", .unit = UNIT_BYTES,
     .flags = SOMETIMES},
    {KEPT(cpu_quota_us), NUMBER(CPUS), .json = "cpus", .daytona = "cpu", .title = "cpus",
     .flags = ANY_TIME | FIELD_LIMIT | FIELD_DEFAULT, .min = CPU_QUOTA_US / 100,
     .max = (int64_t)CPUS_MAX * CPU_QUOTA_US, .unkept = ENGINE_UNKEPT_CPUS},
    {DERIVED(GPU, "gpu", "i"), .flags = FIELD_SHOW},
    {KEPT(pids), NUMBER(NONE), .json = "pidsLimit", .title = "pids",
     .flags = ANY_TIME | FIELD_LIMIT | FIELD_DEFAULT, .min = 1, .max = PIDS_MAX},
    {DERIVED(UNKEPT, "limitsNotKept", "s"), .title = "not kept", .flags = SOMETIMES},
    {KEPT(engine), CHOICE(engines), .json = "engine", .title = "engine", .flags = AT_CREATE},
    {KEPT(tier), CHOICE(tiers), .json = "tier", .title = "tier",
     .flags = AT_CREATE | FIELD_DEFAULT},
    {KEPT(profile), CHOICE(profiles), .json = "profile", .title = "profile",
     .flags = AT_CREATE | FIELD_DEFAULT},
    {KEPT(read_only), .kind = FIELD_FLAG, .json = "readOnly", .flags = AT_CREATE | FIELD_DEFAULT},
    {KEPT(pooled), .kind = FIELD_FLAG},
    {PASSING(is_local), .kind = FIELD_FLAG},
    {KEPT(labels), .kind = FIELD_PAIRS, .json = "labels", .title = "labels",
     .flags = ANY_TIME | FIELD_DEFAULT, .max = SPEC_LABELS_MAX},
    {KEPT(env), .kind = FIELD_PAIRS, .json = "env",
     .flags = AT_CREATE | FIELD_SECRET | FIELD_DEFAULT, .max = PAIRS_MAX},
    {DERIVED(VOLUMES, "volumes", "[SandboxVolume]"), .flags = FIELD_SHOW | FIELD_SECRET},
    {KEPT(volumes), .kind = FIELD_WORDS, .json = "mounts", .title = "volumes",
     .flags = AT_CREATE | FIELD_SECRET | FIELD_DEFAULT, .max = SPEC_MOUNTS_MAX},
    {KEPT(network), .json = "network", .title = "network", .flags = ANY_TIME},
    {DERIVED(NETWORK_CLOSED, "networkBlockAll", "b"), .flags = FIELD_SHOW},
    {DERIVED(RANGES, "networkAllowList", "s"), .flags = SOMETIMES},
    {DERIVED(DOMAINS, "domainAllowList", "s"), .flags = SOMETIMES},
    {KEPT(is_public), .kind = FIELD_FLAG, .json = "public", .flags = ANY_TIME},
    {KEPT(created_ms), SIGNED(TIME), .json = "createdAt", .title = "created", .flags = FIELD_SHOW},
    {KEPT(updated_ms), SIGNED(TIME), .json = "updatedAt", .title = "updated", .flags = FIELD_SHOW},
    {KEPT(active_ms), SIGNED(TIME), .json = "lastActivityAt", .title = "active",
     .flags = FIELD_SHOW},
    {KEPT(auto_stop_minutes), SIGNED(MINUTES), .json = "autoStopInterval", .title = "auto-stop",
     .flags = ANY_TIME, .max = DECADE_MINUTES, .zero = -1},
    {DERIVED(AUTO_PAUSE, "autoPauseInterval", "i"), .flags = FIELD_SHOW},
    {KEPT(auto_archive_minutes), SIGNED(MINUTES), .json = "autoArchiveInterval",
     .title = "auto-archive", .flags = ANY_TIME, .max = DECADE_MINUTES, .zero = -1},
    {KEPT(auto_delete_minutes), SIGNED(MINUTES), .json = "autoDeleteInterval",
     .title = "auto-delete", .flags = ANY_TIME, .min = -1, .max = DECADE_MINUTES,
     .zero = INTERVAL_AT_ONCE},
    {KEPT(destroy_ms), SIGNED(TIME), .json = "autoDestroyAt", .title = "auto-destroy",
     .flags = SOMETIMES | FIELD_UPDATE},
    {KEPT(on_failure), CHOICE(failures), .json = "onFailure", .title = "on failure",
     .flags = ANY_TIME | FIELD_DEFAULT},
    {KEPT(failures), NUMBER(NONE)},
    {KEPT(failed_ms), SIGNED(TIME)},
    {KEPT(recover_ms), SIGNED(TIME)},
    {PASSING(backup), .kind = FIELD_CHOICE},
    {DERIVED(BACKUP, "backupState", "s"), .flags = FIELD_SHOW},
    {PASSING(backup_ms), SIGNED(TIME), .json = "backupCreatedAt", .flags = SOMETIMES},
    {PASSING(backup_bytes), SIGNED(BYTES)},
    {DERIVED(TARGET, "target", "s"), .flags = FIELD_SHOW},
    {DERIVED(CLASS, "sandboxClass", "s"), .flags = FIELD_SHOW},
    {DERIVED(VERSION, "daemonVersion", "s"), .flags = FIELD_SHOW},
    {DERIVED(TOOLBOX, "toolboxProxyUrl", "s"), .flags = FIELD_SHOW},
};
/* clang-format on */
const size_t sandbox_field_count = ARRAY_LEN(sandbox_fields);
_Static_assert(ARRAY_LEN(sandbox_fields) <= FIELDS_MAX, "a field_set has room for each");

size_t field_index(size_t offset) {
    size_t i = 0;
    while (sandbox_fields[i].kind == FIELD_DERIVED || sandbox_fields[i].offset != offset)
        i++; /* each member has a row */
    return i;
}

/* ---- values ---- */

_Static_assert(sizeof(enum sandbox_state) == sizeof(uint32_t), "a choice is a number of 32 bits");

int64_t field_number(const struct field *f, const struct sandbox_record *r) {
    const void *at = field_of(f, r);
    if (f->kind == FIELD_FLAG)
        return *(const bool *)at;
    if (f->size == sizeof(uint32_t))
        return *(const uint32_t *)at;
    return f->is_signed ? *(const int64_t *)at : (int64_t) * (const uint64_t *)at;
}

int field_set_number(const struct field *f, struct sandbox_record *r, int64_t value) {
    void *at = field_in(f, r);
    if (f->kind == FIELD_FLAG) {
        *(bool *)at = value != 0;
        return 0;
    }
    if (!f->is_signed && (value < 0 || (f->size == sizeof(uint32_t) && value > UINT32_MAX)))
        return -ERANGE;
    if (f->size == sizeof(uint32_t))
        *(uint32_t *)at = (uint32_t)value;
    else
        *(int64_t *)at = value;
    return 0;
}

const char *field_choice(const struct field *f, const struct sandbox_record *r) {
    return f->names->name((unsigned)field_number(f, r));
}

/* From the end, since the first may be another name of one that requests use. */
int field_set_choice(const struct field *f, struct sandbox_record *r, const char *name) {
    for (unsigned value = f->names->end; value-- > 0;)
        if (str_equal(f->names->name(value), name))
            return field_set_number(f, r, value);
    return -ENOENT;
}

bool field_is_zero(const struct field *f, const struct sandbox_record *r) {
    if (f->kind == FIELD_TEXT)
        return *(const char *)field_of(f, r) == '\0';
    if (field_is_list(f))
        return ((const struct strv *)field_of(f, r))->len == 0;
    return field_number(f, r) == 0;
}

/* ---- several ---- */

void fields_swap(unsigned flags, struct sandbox_record *a, struct sandbox_record *b) {
    char kept[NETWORK_TEXT_SIZE];
    for (size_t i = 0; i < ARRAY_LEN(sandbox_fields); i++) {
        const struct field *f = &sandbox_fields[i];
        if ((f->flags & flags) != flags || f->kind == FIELD_DERIVED)
            continue;
        memcpy(kept, field_of(f, a), f->size);
        memcpy(field_in(f, a), field_of(f, b), f->size);
        memcpy(field_in(f, b), kept, f->size);
    }
}
_Static_assert(sizeof((struct sandbox_record *)0)->network == NETWORK_TEXT_SIZE &&
                   sizeof((struct sandbox_record *)0)->work_dir <= NETWORK_TEXT_SIZE,
               "the largest member fits");

void fields_put(const struct field_set *set, const struct sandbox_record *from,
                struct sandbox_record *to) {
    for (size_t i = 0; i < ARRAY_LEN(sandbox_fields); i++)
        if (set->has[i] && !field_is_list(&sandbox_fields[i]))
            memcpy(field_in(&sandbox_fields[i], to), field_of(&sandbox_fields[i], from),
                   sandbox_fields[i].size);
}

bool fields_has(const struct field_set *set, unsigned flags) {
    for (size_t i = 0; i < ARRAY_LEN(sandbox_fields); i++)
        if (set->has[i] && (sandbox_fields[i].flags & flags) != 0)
            return true;
    return false;
}

void fields_take_defaults(const struct sandbox_record *from, struct sandbox_record *to) {
    for (size_t i = 0; i < ARRAY_LEN(sandbox_fields); i++) {
        const struct field *f = &sandbox_fields[i];
        if ((f->flags & FIELD_DEFAULT) != 0 && !field_is_list(f) && field_is_zero(f, to))
            memcpy(field_in(f, to), field_of(f, from), f->size);
    }
}
