#include "api/metrics/prometheus.h"

#include <stdio.h>

enum { NAME_SIZE = 128, LABELS_MAX = 4 };

/* Of a label: backslash, quote and newline; other bytes stand for themselves. */
static void put_escaped(struct buf *out, const char *text) {
    for (; *text != '\0'; text++) {
        if (*text == '\\' || *text == '"')
            (void)buf_putc(out, '\\');
        if (*text == '\n')
            (void)buf_puts(out, "\\n");
        else
            (void)buf_putc(out, *text);
    }
}

/* As short as it can be and still the same number. */
static void put_number(struct buf *out, double value) {
    char text[32];
    (void)snprintf(text, sizeof text, "%.15g", value);
    (void)buf_puts(out, text);
}

void prometheus_family(struct buf *out, const char *name, const char *type, const char *help) {
    (void)buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void prometheus_sample(struct buf *out, const char *name, const struct prometheus_label *labels,
                       double value) {
    (void)buf_puts(out, name);
    for (size_t i = 0; labels != NULL && labels[i].name != NULL; i++) {
        (void)buf_printf(out, "%c%s=\"", i == 0 ? '{' : ',', labels[i].name);
        put_escaped(out, labels[i].value);
        (void)buf_putc(out, '"');
    }
    if (labels != NULL && labels[0].name != NULL)
        (void)buf_putc(out, '}');
    (void)buf_putc(out, ' ');
    put_number(out, value);
    (void)buf_putc(out, '\n');
}

void prometheus_gauge(struct buf *out, const char *name, const char *help, double value) {
    prometheus_family(out, name, "gauge", help);
    prometheus_sample(out, name, NULL, value);
}

void prometheus_counter(struct buf *out, const char *name, const char *help, double value) {
    prometheus_family(out, name, "counter", help);
    prometheus_sample(out, name, NULL, value);
}

/* Labels and one more. */
static void put_bucket(struct buf *out, const char *name, const struct prometheus_label *labels,
                       const char *bound, uint64_t total) {
    struct prometheus_label all[LABELS_MAX + 2];
    size_t n = 0;
    for (; labels != NULL && n < LABELS_MAX && labels[n].name != NULL; n++)
        all[n] = labels[n];
    all[n++] = (struct prometheus_label){"le", bound};
    all[n] = (struct prometheus_label){NULL, NULL};
    prometheus_sample(out, name, all, (double)total);
}

void prometheus_histogram_sample(struct buf *out, const char *name,
                                 const struct prometheus_label *labels, const int64_t *bounds_us,
                                 size_t bounds, const uint64_t *counts, uint64_t sum_us) {
    char full[NAME_SIZE], bound[32];
    uint64_t total = 0;
    (void)snprintf(full, sizeof full, "%s_bucket", name);
    for (size_t i = 0; i <= bounds; i++) {
        total += counts[i];
        (void)snprintf(bound, sizeof bound, "%.9g", i < bounds ? (double)bounds_us[i] / 1e6 : 0);
        put_bucket(out, full, labels, i < bounds ? bound : "+Inf", total);
    }
    (void)snprintf(full, sizeof full, "%s_sum", name);
    prometheus_sample(out, full, labels, (double)sum_us / 1e6);
    (void)snprintf(full, sizeof full, "%s_count", name);
    prometheus_sample(out, full, labels, (double)total);
}

void prometheus_histogram(struct buf *out, const char *name, const char *help,
                          const int64_t *bounds_us, size_t bounds, const uint64_t *counts,
                          uint64_t sum_us) {
    prometheus_family(out, name, "histogram", help);
    prometheus_histogram_sample(out, name, NULL, bounds_us, bounds, counts, sum_us);
}
