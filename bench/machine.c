/* What was measured on. */
#include <fcntl.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/str.h"
#include "bench.h"

/* ---- the machine ---- */

/* Busy and total ticks of all processors since the start. */
static void read_ticks(double *busy, double *total) {
    char text[16384];
    *busy = *total = 0;
    if (fd_read_file_at(AT_FDCWD, "/proc/stat", text, sizeof text) < 0)
        return;
    char *at = text + strlen("cpu");
    for (int i = 0; i < 8; i++) {
        double ticks = strtod(at, &at);
        *total += ticks;
        *busy += i == 3 || i == 4 ? 0 : ticks; /* idle, waiting for disks */
    }
}

static double busy_percent(void) {
    double busy, total, busy_later, total_later;
    read_ticks(&busy, &total);
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_sec = 1}, NULL);
    read_ticks(&busy_later, &total_later);
    return total_later > total ? 100 * (busy_later - busy) / (total_later - total) : 0;
}

static void processor_name(char *out, size_t size) {
    char text[2048] = "";
    _cleanup_(closep) int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    const char *at = n > 0 ? strstr(text, "model name\t: ") : NULL;
    at = at != NULL ? at + strlen("model name\t: ") : "unknown processor";
    (void)snprintf(out, size, "%.*s", (int)strcspn(at, "\n"), at);
}

void report_machine(void) {
    struct utsname u = {0};
    char processor[128];
    double load[3] = {0};
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    (void)uname(&u); /* empty then */
    (void)getloadavg(load, 3);
    processor_name(processor, sizeof processor);
    double busy = busy_percent();
    printf("machine   %s %s %s, %ld x %s, %ld MB\n", u.sysname, u.release, u.machine, cpus,
           processor, sysconf(_SC_PHYS_PAGES) / 1024 * (sysconf(_SC_PAGESIZE) / 1024));
    printf("load      average %.2f %.2f %.2f; %.0f %% busy in the second before the start\n",
           load[0], load[1], load[2], busy);
    if (busy > 10 || load[0] > 0.3 * (double)cpus)
        printf("warning   others use this machine: ratios are fair, absolute times and tails are "
               "not\n");
}
