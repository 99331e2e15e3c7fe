/* The folder of archives, STATE/archives: for each archived sandbox ID.tar.zst, with a pin that
 * keeps its image. Only who owns the state folder reaches it. */
#pragma once

#include "base/id.h"

struct cay_error;

enum { ARCHIVES_NAME_SIZE = 32 };

/* The name of a finished one; and of one in the making, which nobody else looks at. */
void archives_name(const char *id, char out[static ARCHIVES_NAME_SIZE]);
void archives_making_name(const char *id, char out[static ARCHIVES_NAME_SIZE]);

/* Makes the folder if it is missing: a descriptor or -errno. */
int archives_open(int state_dir);

/* Keeps the image for the archive of sandbox id. */
int archives_pin(const char *state_path, const char *id, const char *image, struct cay_error *err);

/* Removes the archive of sandbox id, finished or not, and lets its image go. None is fine. */
int archives_remove(const char *state_path, const char *id, struct cay_error *err);
/* Removes what killed processes left in the making. Nobody may be making one. */
void archives_sweep(const char *state_path);
