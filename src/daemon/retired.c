#include "daemon/retired.h"

#include <signal.h>
#include <string.h>

void retired_add(pid_t list[static RETIRED_MAX], pid_t pid) {
    pid_t oldest = list[RETIRED_MAX - 1];
    if (oldest != 0)
        (void)kill(oldest, SIGKILL); /* not reaped yet, so it is nobody else */
    memmove(list + 1, list, (RETIRED_MAX - 1) * sizeof list[0]);
    list[0] = pid;
}

bool retired_ended(pid_t list[static RETIRED_MAX], pid_t pid) {
    for (size_t i = 0; i < RETIRED_MAX; i++)
        if (list[i] == pid) {
            list[i] = 0;
            return true;
        }
    return false;
}

void retired_end_keys(const pid_t list[static RETIRED_MAX]) {
    for (size_t i = 0; i < RETIRED_MAX; i++)
        if (list[i] != 0)
            (void)kill(list[i], SIGUSR1);
}
