/* Prometheus' text format 0.0.4, written family by family. */
#pragma once

#include <stdint.h>

#include "base/buf.h"

#define PROMETHEUS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* What tells the samples of a family apart; an empty name ends the list. */
struct prometheus_label {
    const char *name, *value;
};

/* Begins a family: its lines HELP and TYPE ("counter", "gauge", "histogram"). */
void prometheus_family(struct buf *out, const char *name, const char *type, const char *help);

/* A sample of it. labels end with a name of NULL, or are NULL; their values may be any text. */
void prometheus_sample(struct buf *out, const char *name, const struct prometheus_label *labels,
                       double value);

/* A family with one sample. */
void prometheus_gauge(struct buf *out, const char *name, const char *help, double value);
void prometheus_counter(struct buf *out, const char *name, const char *help, double value);

/* The samples of a histogram: counts[i] are the values up to bounds_us[i] that no earlier bound
 * holds, and counts[bounds] those beyond all; sum in microseconds. Written in seconds. */
void prometheus_histogram(struct buf *out, const char *name, const char *help,
                          const int64_t *bounds_us, size_t bounds, const uint64_t *counts,
                          uint64_t sum_us);

/* The same of a family that was begun, with labels (or NULL) of which none is "le". */
void prometheus_histogram_sample(struct buf *out, const char *name,
                                 const struct prometheus_label *labels, const int64_t *bounds_us,
                                 size_t bounds, const uint64_t *counts, uint64_t sum_us);
