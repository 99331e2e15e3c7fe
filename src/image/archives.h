/* The folder of archives, STATE/archives: for each archived sandbox ID.tar.zst, and for each that
 * was backed up ID.backup.tar.zst, with a pin that keeps its image. Only who owns the state folder
 * reaches it. */
#pragma once

#include "base/id.h"

struct cay_error;

enum { ARCHIVES_NAME_SIZE = 32 };

enum archive_kind { ARCHIVE_WHOLE, ARCHIVE_BACKUP };

/* The name of a finished one; and of one in the making, which nobody else looks at. */
void archives_name(enum archive_kind kind, const char *id, char out[static ARCHIVES_NAME_SIZE]);
void archives_making_name(enum archive_kind kind, const char *id,
                          char out[static ARCHIVES_NAME_SIZE]);

/* Makes the folder if it is missing: a descriptor or -errno. */
int archives_open(int state_dir);

/* Keeps the image for the archive of sandbox id. */
int archives_pin(const char *state_path, enum archive_kind kind, const char *id, const char *image,
                 struct cay_error *err);

/* Removes the archive of sandbox id, finished or not, and lets its image go. None is fine. */
int archives_remove(const char *state_path, enum archive_kind kind, const char *id,
                    struct cay_error *err);
/* Removes one in the making, whose maker has ended. */
void archives_remove_making(const char *state_path, enum archive_kind kind, const char *id);
/* Removes what killed processes left in the making. Nobody may be making one. */
void archives_sweep(const char *state_path);
