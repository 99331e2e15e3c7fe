/* What is written down of a sandbox that stays, in STATE/sandboxes/ID/record: all that the next
 * launcher needs to take it over. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/id.h"
#include "confine/process.h"
#include "engine/engine.h"
#include "image/reference.h"

struct cay_error;

enum { KEEP_RECORD_SIZE = 1024 }; /* bytes of text at most */

struct keep_record {
    char id[ID_SIZE];
    char image[HEX_SIZE]; /* "": the host image */
    uint64_t memory_bytes;
    uint64_t disk_bytes; /* 0: without a limit, as all were once */
    uint32_t cpu_quota_us, pids;
    pid_t pid; /* of its PID 1; 0: it does not run, and the rest means nothing */
    uint64_t start;
    char boot[BOOT_ID_SIZE];
    uid_t base; /* of its id range; 0: none of its own */
    /* Of one that does not run, so that no crash loses the reason: */
    bool has_ended;
    enum engine_end_cause end_cause;
    int end_status; /* -1: not known */
    bool end_oom;
};

/* As text, and back; whatever the first would not have written the second refuses, but for keys
 * that it does not know. */
int keep_record_format(const struct keep_record *r, char out[static KEEP_RECORD_SIZE]);
int keep_record_parse(const char *text, size_t len, struct keep_record *ret, struct cay_error *err);

/* In the folder of the sandbox. The record is on the disk when keep_record_write returns. */
int keep_record_write(int folder, const struct keep_record *r, struct cay_error *err);
int keep_record_read(int folder, struct keep_record *ret, struct cay_error *err);
