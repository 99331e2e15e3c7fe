#include "manager/files/space.h"
#include "api/metrics/page.h"
#include "api/metrics/prometheus.h"
#include "base/error.h"

void metrics_page_space(struct buf *out, struct manager *m) {
    struct manager_space s;
    struct cay_error ignored;
    if (manager_space(m, &s, &ignored) < 0) /* then there is nothing to say */
        return;
    prometheus_gauge(out, "cay_disk_reserve_bytes",
                     "Free space of the state folder's disk below which new writes are refused.",
                     (double)s.reserve_bytes);
    prometheus_gauge(out, "cay_disk_limit_bytes",
                     "Disk limits of all sandboxes together: what they may come to need.",
                     (double)s.limit_bytes);
    prometheus_gauge(out, "cay_disk_overcommit_ratio",
                     "Disk limits of all sandboxes, divided by the size of the file system.",
                     s.total_bytes > 0 ? (double)s.limit_bytes / (double)s.total_bytes : 0);
    prometheus_gauge(out, "cay_sandboxes_held",
                     "Sandboxes that are paused because the disk is nearly full.", (double)s.held);
    prometheus_gauge(out, "cay_sandboxes_damaged", "Sandboxes whose file system has errors.",
                     (double)s.damaged);
}
