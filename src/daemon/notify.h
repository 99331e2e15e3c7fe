/* Telling systemd, if it asked to be told (sd_notify(3)). */
#pragma once

/* state is "READY=1", "STOPPING=1", … */
void notify_send(const char *state);
