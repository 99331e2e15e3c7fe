/* What the files of cay_manager share. */
#pragma once

#include <cay.h>
#include <limits.h>

#include "client/daemon.h"

struct cay_manager {
    struct daemon daemon; /* never changed after the opening, which makes it safe for threads */
    char config[PATH_MAX];
};
