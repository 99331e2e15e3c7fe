#include "daemon/capacity.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/resource.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "config/config.h"
#include "confine/idrange.h"

enum {
    DESCRIPTORS_OF_ITS_OWN = 256, /* the launcher's: slots, workers, folders */
    PROCESSES_OF_OTHERS = 512,
    PROCESSES_EACH = 2, /* cay-init, and a command */
};

static uint64_t read_number(const char *path) {
    char text[32];
    uint64_t number;
    if (fd_read_file_at(AT_FDCWD, path, text, sizeof text) < 0 ||
        str_to_u64(text, UINT64_MAX, &number) < 0)
        return UINT64_MAX;
    return number;
}

/* The launcher raises its own limit to the hard one. */
void capacity_look(bool is_root, struct capacity *ret) {
    struct rlimit files;
    *ret = (struct capacity){.descriptors = UINT64_MAX,
                             .processes = MIN(read_number("/proc/sys/kernel/pid_max"),
                                              read_number("/proc/sys/kernel/threads-max")),
                             .id_ranges = is_root ? IDRANGE_COUNT : 0};
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max != RLIM_INFINITY)
        ret->descriptors = files.rlim_max;
}

static int refuse(uint64_t sandboxes, uint64_t possible, const char *what, struct cay_error *err) {
    error_set(err, CAY_INVALID_ARGUMENT,
              "%" PRIu64 " sandboxes ([manager] max_sandboxes and pool_size) cannot run here: the "
              "%s allow for %" PRIu64,
              sandboxes, what, possible);
    return -CAY_INVALID_ARGUMENT;
}

static uint64_t left_of(uint64_t all, uint64_t taken) {
    return all > taken ? all - taken : 0;
}

/* Those that are stopped take none of it; more than there are id ranges cannot run anyway. */
int capacity_check(const struct capacity *host, uint64_t sandboxes, struct cay_error *err) {
    if (host->id_ranges > 0)
        sandboxes = MIN(sandboxes, host->id_ranges);
    uint64_t descriptors = left_of(host->descriptors, DESCRIPTORS_OF_ITS_OWN);
    uint64_t processes = left_of(host->processes, PROCESSES_OF_OTHERS) / PROCESSES_EACH;
    if (sandboxes > descriptors) {
        (void)refuse(sandboxes, descriptors, "open files of a process", err);
        return error_remedy(err, "raise the hard limit (LimitNOFILE= of the service, ulimit -Hn), "
                                 "or lower max_sandboxes");
    }
    if (sandboxes > processes) {
        (void)refuse(sandboxes, processes, "processes of the host", err);
        return error_remedy(err, "raise kernel.pid_max and kernel.threads-max by sysctl, or lower "
                                 "max_sandboxes");
    }
    return 0;
}

int capacity_check_config(const struct config *config, bool is_root, struct cay_error *err) {
    struct capacity host;
    capacity_look(is_root, &host);
    uint64_t wanted = (uint64_t)MAX(config->manager.max_sandboxes, 0) +
                      (uint64_t)MAX(config->manager.pool_size, 0);
    return capacity_check(&host, wanted, err);
}
