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

static size_t count_labels(const char *text) {
    size_t n = text[0] != '\0';
    for (; *text != '\0'; text++)
        n += *text == ',';
    return n;
}

/* What the rows need besides their structures. */
static size_t room_for(const struct table *t) {
    size_t room = 0;
    for (size_t row = 0; row < t->rows; row++) {
        const char *labels = table_get(t, row, "labels");
        for (size_t i = 0; i < TEXTS; i++)
            room += strlen(table_get(t, row, text_names[i])) + 1;
        room += (count_labels(labels) + 1) * sizeof(char *) + strlen(labels) + 1;
    }
    return room;
}

/* Copies a field to *at, as its owner wrote it. */
static const char *place(char **at, const char *field) {
    char *text = *at;
    size_t size = strlen(field) + 1;
    memcpy(text, field, size);
    table_unescape(text);
    *at += size;
    return text;
}

/* Splits "K=V,K=V"; the pointers were reserved before all texts, so that they are aligned. */
static const char *const *place_labels(const char ***pointers, char **at, const char *field) {
    const char **list = *pointers;
    size_t size = strlen(field) + 1;
    char *text = *at;
    memcpy(text, field, size);
    *at += size;
    for (char *next = field[0] != '\0' ? text : NULL; next != NULL;) {
        char *label = strsep(&next, ",");
        table_unescape(label);
        *(*pointers)++ = label;
    }
    *(*pointers)++ = NULL;
    return list;
}

static double number(const char *text) {
    double value;
    return str_to_double(text, &value) == 0 ? value : 0;
}

static int64_t time_ms(const char *text) {
    int64_t ms;
    return clock_from_iso8601(text, &ms) == 0 ? ms : -1;
}

static void read_row(const struct table *t, size_t row, struct cay_info *info,
                     const char ***pointers, char **at) {
    const char *text[TEXTS];
    for (size_t i = 0; i < TEXTS; i++)
        text[i] = place(at, table_get(t, row, text_names[i]));
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
        .labels = place_labels(pointers, at, table_get(t, row, "labels")),
        .memory_bytes = table_number(t, row, "memory"),
        .disk_bytes = table_number(t, row, "disk"),
        .cpus = number(table_get(t, row, "cpus")),
        .pids = (uint32_t)table_number(t, row, "pids"),
        .created_ms = time_ms(table_get(t, row, "createdAt")),
        .active_ms = time_ms(table_get(t, row, "lastActivityAt")),
    };
}

static size_t all_labels(const struct table *t) {
    size_t n = 0;
    for (size_t row = 0; row < t->rows; row++)
        n += count_labels(table_get(t, row, "labels")) + 1;
    return n;
}

int info_read(const struct table *t, struct cay_info **ret, struct cay_error *err) {
    size_t structures = (t->rows + 1) * sizeof **ret;
    struct cay_info *all = calloc(1, structures + room_for(t));
    if (all == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    const char **pointers = (const char **)(all + t->rows + 1);
    char *at = (char *)(pointers + all_labels(t));
    for (size_t row = 0; row < t->rows; row++)
        read_row(t, row, &all[row], &pointers, &at);
    *ret = all;
    return 0;
}

void cay_info_free(struct cay_info *info) {
    free(info);
}
