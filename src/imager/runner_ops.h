/* What both sides of runner.h agree on. */
#pragma once

enum runner_op { RUNNER_RUN = 1, RUNNER_CREDENTIAL = 2 };

enum {
    RUNNER_MARK = 'R',       /* the byte before a request, which carries its descriptor */
    RUNNER_CPU_SCALE = 1000, /* processors are sent in thousandths */
};
