#include "client/info.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"

enum { TEXTS = 9 };

/* The fields that are texts, in the order in which place() keeps them. */
static const char *const text_names[TEXTS] = {
    "id", "name", "state", "image", "user", "workDir", "tier", "errorReason", "errorRemedy"};

static void measure_labels(const struct reply *t, size_t row, size_t *count, size_t *bytes) {
    struct json labels, one;
    void *iterator = NULL;
    const char *value;
    if (!reply_member(t, row, "labels", &labels))
        return;
    while (json_next(&labels, &iterator, &one))
        if (json_as_string(&one, &value, NULL) == 0) {
            *bytes += strlen(one.key) + strlen(value) + 2;
            ++*count;
        }
}

/* What the rows need besides their structures: pointers to labels, and bytes of texts. */
static void measure(const struct reply *t, size_t *ret_pointers, size_t *ret_bytes) {
    *ret_pointers = *ret_bytes = 0;
    for (size_t row = 0; row < t->rows; row++) {
        for (size_t i = 0; i < TEXTS; i++)
            *ret_bytes += strlen(reply_string(t, row, text_names[i])) + 1;
        measure_labels(t, row, ret_pointers, ret_bytes);
        ++*ret_pointers; /* the NULL at their end */
    }
}

static const char *place(char **at, const char *text) {
    char *to = *at;
    size_t size = strlen(text) + 1;
    memcpy(to, text, size);
    *at += size;
    return to;
}

static const char *const *place_labels(const struct reply *t, size_t row, const char ***pointers,
                                       char **at) {
    const char **list = *pointers, *value;
    struct json labels, one;
    void *iterator = NULL;
    if (reply_member(t, row, "labels", &labels))
        while (json_next(&labels, &iterator, &one))
            if (json_as_string(&one, &value, NULL) == 0) {
                *(*pointers)++ = place(at, one.key);
                (*at)[-1] = '=';
                (void)place(at, value);
            }
    *(*pointers)++ = NULL;
    return list;
}

static int64_t time_ms(const char *text) {
    int64_t ms;
    return clock_from_iso8601(text, &ms) == 0 ? ms : -1;
}

static void read_row(const struct reply *t, size_t row, struct cay_info *info,
                     const char ***pointers, char **at) {
    const char *text[TEXTS];
    for (size_t i = 0; i < TEXTS; i++)
        text[i] = place(at, reply_string(t, row, text_names[i]));
    *info = (struct cay_info){
        .id = text[0],
        .name = text[1],
        .state = text[2],
        .image = text[3],
        .user = text[4],
        .work_dir = text[5],
        .tier = text[6],
        .error_reason = text[7],
        .error_remedy = text[8],
        .labels = place_labels(t, row, pointers, at),
        .memory_bytes = reply_unsigned(t, row, "memory"),
        .disk_bytes = reply_unsigned(t, row, "disk"),
        .cpus = reply_number(t, row, "cpus"),
        .pids = (uint32_t)reply_unsigned(t, row, "pids"),
        .created_ms = time_ms(reply_string(t, row, "createdAt")),
        .active_ms = time_ms(reply_string(t, row, "lastActivityAt")),
    };
}

int info_read(const struct reply *t, struct cay_info **ret, struct cay_error *err) {
    size_t pointer_count, bytes;
    measure(t, &pointer_count, &bytes);
    struct cay_info *all =
        calloc(1, (t->rows + 1) * sizeof *all + pointer_count * sizeof(char *) + bytes);
    if (all == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    const char **pointers = (const char **)(all + t->rows + 1);
    char *at = (char *)(pointers + pointer_count);
    for (size_t row = 0; row < t->rows; row++)
        read_row(t, row, &all[row], &pointers, &at);
    *ret = all;
    return 0;
}

void cay_info_free(struct cay_info *info) {
    free(info);
}
