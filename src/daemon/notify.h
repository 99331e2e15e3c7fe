/* Telling systemd, if it asked to be told (sd_notify(3)). */
#pragma once

/* Lines such as "READY=1", "STATUS=…", "STOPPING=1". */
void notify_send(const char *state);
/* The configuration is being read again; "READY=1" ends that. */
void notify_reloading(void);
