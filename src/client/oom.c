#include "client/oom.h"

#include <cay.h>
#include <signal.h>

#include "base/clock.h"
#include "base/str.h"
#include "client/daemon.h"
#include "client/reply.h"

enum { KILLED = 128 + SIGKILL, PATH_SIZE_MAX = 1024 };

void oom_judge(const struct daemon *d, const char *who, int64_t began_us,
               struct cay_result *result) {
    _cleanup_(buf_free) struct buf path = BUF_INIT(PATH_SIZE_MAX);
    _cleanup_(buf_free) struct buf answer = BUF_INIT(DAEMON_ANSWER_MAX);
    _cleanup_(reply_free) struct reply t = {0};
    struct cay_error ignored;
    struct json age;
    uint64_t age_ms;
    if (result->exit_code != KILLED || result->timed_out || result->output_truncated)
        return;
    (void)buf_puts(&path, "/api/cay/sandbox/");
    daemon_put_escaped(&path, who);
    (void)buf_puts(&path, "/stats");
    const struct daemon_request req = {.method = "GET", .path = buf_text(&path)};
    if (path.failed || daemon_call(d, &req, &answer, &ignored) < 0 ||
        reply_parse(&answer, &t, &ignored) < 0 || !reply_member(&t, 0, "oomAgeMs", &age) ||
        json_as_unsigned(&age, INT64_MAX, &age_ms, &ignored) < 0) /* negative: never */
        return;
    result->oom_killed = age_ms < (uint64_t)(clock_us() - began_us) / 1000;
}
