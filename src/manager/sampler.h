/* A thread that measures what runs. */
#pragma once

#include <stdbool.h>

struct cay_error;
struct engine_stats;
struct manager;
struct sandbox;

int sampler_start(struct manager *m, struct cay_error *err);
/* One round, for tests; with_disk: also what takes long. */
void sampler_round(struct manager *m, bool with_disk);
void sampler_note_oom(struct sandbox *s, struct engine_stats *now); /* locked; fills oom_age_ms */
