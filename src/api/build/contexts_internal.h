/* What the files of the store of contexts share; not for others. */
#pragma once

#include "api/build/contexts.h"

struct contexts {
    int folder;
    unsigned char master[HASH_SIZE]; /* of the credentials */
};

enum { CONTEXT_NAME_SIZE = 80 };
#define CONTEXT_PUT       ".put-"             /* a file in the making */
#define CONTEXT_PARTS     ".parts-"           /* a folder of parts */
#define CONTEXT_BYTES_MAX (UINT64_C(1) << 30) /* of one */

/* The folder of an owner, made if it is missing: a descriptor or -errno. */
int contexts_folder(const struct contexts *c, const char *owner);
/* Makes sure that `more` bytes have room among what the folder of an owner has, by removing what he
 * has not used for an hour, oldest first. */
int contexts_make_room(int folder, uint64_t more, struct cay_error *err);
/* What a finished one is called in it. */
void context_file_name(const char *hash, char out[static CONTEXT_NAME_SIZE]);
