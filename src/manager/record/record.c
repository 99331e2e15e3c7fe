#include "manager/record/record.h"

#include <errno.h>

#include "base/auto.h"
#include "manager/record/fields.h"

static const char *const state_names[] = {
#define STATE_NAME(id, name) [id] = name,
    SANDBOX_STATES(STATE_NAME)
#undef STATE_NAME
};

const char *sandbox_state_name(enum sandbox_state state) {
    return state < SANDBOX_STATE_COUNT ? state_names[state] : "unknown";
}

enum sandbox_state sandbox_state_from_name(const char *name) {
    for (size_t i = 0; i < ARRAY_LEN(state_names); i++)
        if (str_equal(state_names[i], name))
            return (enum sandbox_state)i;
    return SANDBOX_STATE_COUNT;
}

static const char *const failure_names[FAILURE_COUNT] = {
    [FAILURE_DEFAULT] = "keep",
    [FAILURE_KEEP] = "keep",
    [FAILURE_RECREATE] = "recreate",
    [FAILURE_REMOVE] = "remove",
};

const char *on_failure_name(enum on_failure f) {
    return f < FAILURE_COUNT ? failure_names[f] : "unknown";
}

enum on_failure on_failure_from_name(const char *name) {
    for (size_t i = FAILURE_KEEP; i < ARRAY_LEN(failure_names); i++)
        if (str_equal(failure_names[i], name))
            return (enum on_failure)i;
    return FAILURE_COUNT;
}

const char *backup_state_name(enum backup_state state) {
    static const char *const names[] = {[BACKUP_NONE] = "None",
                                        [BACKUP_PENDING] = "Pending",
                                        [BACKUP_IN_PROGRESS] = "InProgress",
                                        [BACKUP_COMPLETED] = "Completed",
                                        [BACKUP_ERROR] = "Error"};
    return names[state];
}

static struct strv *list_in(const struct field *f, struct sandbox_record *r) {
    return field_is_list(f) ? field_in(f, r) : NULL;
}

void sandbox_record_free(struct sandbox_record *r) {
    for (size_t i = 0; i < sandbox_field_count; i++)
        if (list_in(&sandbox_fields[i], r) != NULL)
            strv_free(list_in(&sandbox_fields[i], r));
}

static int copy_words(const struct strv *from, struct strv *to) {
    for (size_t i = 0; i < from->len; i++) {
        int r = strv_push(to, from->v[i]);
        if (r < 0)
            return r;
    }
    return 0;
}

void sandbox_record_disown(struct sandbox_record *r) {
    for (size_t i = 0; i < sandbox_field_count; i++)
        if (list_in(&sandbox_fields[i], r) != NULL)
            *list_in(&sandbox_fields[i], r) = (struct strv){0};
}

int sandbox_record_copy(const struct sandbox_record *from, struct sandbox_record *to) {
    struct sandbox_record copy = *from;
    sandbox_record_disown(&copy);
    for (size_t i = 0; i < sandbox_field_count; i++) {
        struct strv *list = list_in(&sandbox_fields[i], &copy);
        int r = list == NULL ? 0 : copy_words(field_of(&sandbox_fields[i], from), list);
        if (r < 0) {
            sandbox_record_free(&copy);
            return r;
        }
    }
    *to = copy;
    return 0;
}
