/* The image store: content-addressed, below STATE/images/store. Any number of processes use it at
 * once; whatever has its final name is complete, and what a killed process left is swept by the
 * next prune. As host root everything in it belongs to IMAGE_IDS, a range of host ids that no
 * sandbox has: whoever writes here (cay-image, in a user namespace with that range) is never root.
 *
 *     lock                     held shared by users, exclusively by prune
 *     blobs/HEX                manifests, configurations, compressed layers; verified
 *     ingest/HEX               a blob that is being downloaded; resumed by whoever locks it next
 *     layers/CHAIN/fs          an unpacked layer in overlay form: a whiteout is a character device
 *                              0:0, opaque folders do not occur
 *     layers/CHAIN/lock        held shared by every sandbox on it
 *     layers/CHAIN/boot        the id of the boot that it was made in
 *     layers/CHAIN/settled     it has been brought to the disk
 *     work/RANDOM/{fs,work,merged,lock}   a layer in the making; not held: garbage
 *     records/ID               image records (record.h)
 *     pins/HOLDER.ID           a sandbox that stays needs the image, whether it runs or not
 *     names/REGISTRY/REPO+WITH+PLUS/TAG   holds the image's id; "@HEX" in place of TAG for a
 * digest. These names are public owners/OWNER/names/…     the same for the names of one key, or of
 * IMAGE_ADMIN owners/OWNER/ids/ID      this key or organisation made or fetched the image. It holds
 * the key of the organisation that did, or nothing
 *
 * Blobs, layers and records are shared by all owners, knowledge of them is not: a store that is
 * opened for one owner finds its own and the public names and images, and nothing else. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "image/record.h"
#include "image/reference.h"

struct cay_error;

/* The host ids of what lies in the store of host root: the last range, never leased. */
#define IMAGE_IDS_FIRST UINT32_C(0x7fff0000)
#define IMAGE_IDS_COUNT 65536U

/* The size of an owner: the id of a key or an organisation, or IMAGE_ADMIN. */
enum { IMAGE_OWNER_SIZE = 17 };
/* The owner of what an admin has made private: found by whoever sees all, and by no key. */
#define IMAGE_ADMIN "admin"

struct image_store {
    int dir;
    int lock;                       /* shared */
    char owner[IMAGE_OWNER_SIZE];   /* for whom it was opened; "": whoever sees all */
    char made_by[IMAGE_OWNER_SIZE]; /* the key of the owner, an organisation, that pays for what it
                                     * gets; "": the owner */
    uint64_t room;              /* bytes that may still be fetched for the owner; 0: any number */
    struct image_known *known;  /* image_store_learn(); NULL: nothing */
    const struct strv *allowed; /* patterns of public names that an owner finds, and of names that
                                 * he may pull; NULL or empty: all. It must stay */
};
#define IMAGE_STORE_NONE ((struct image_store){.dir = -1, .lock = -1})

/* Opens the store, waiting for a prune to end. With `create` a missing one is made, belonging to
 * owner; without, -CAY_NOT_FOUND. */
int image_store_open(const char *state_dir, bool create, uid_t owner, struct image_store *ret,
                     struct cay_error *err);
void image_store_close(struct image_store *store);

/* ---- owners ---- */

/* True for "", IMAGE_ADMIN and ids of keys. */
bool image_owner_is_valid(const char *owner);
/* Whether `allowed` has a pattern ("python:*") of this name, as reference_familiar() writes it. */
bool image_store_allows(const struct image_store *store, const struct reference *ref);
/* The same store for another owner, who pays. It borrows the descriptors, and knows nothing. */
struct image_store image_store_as(const struct image_store *store, const char *owner);

/* Reads which blobs and layers the owner's images and the public ones consist of, for
 * image_store_knows(). Released by image_store_forget(). */
int image_store_learn(struct image_store *store, struct cay_error *err);
void image_store_forget(struct image_store *store);
/* Whether the owner may notice that this blob, layer or image is in the store already: it belongs
 * to one of his images, or to a public one. Always true for whoever sees all. */
bool image_store_knows(const struct image_store *store, const char *hex);

/* Notes that the image is the owner's too; write_record and set_name do it by themselves. */
int image_store_own(const struct image_store *store, const char *id, struct cay_error *err);
bool image_store_owns(const struct image_store *store, const char *id);
/* Forgets that. No such image is fine. */
int image_store_disown(const struct image_store *store, const char *id, struct cay_error *err);
/* Whether a name leads to the image, or a key owns it; also if that cannot be told. */
bool image_store_is_wanted(const struct image_store *store, const char *id);

/* ---- names ----
 *
 * For an owner, a name is looked up among his own, then among the public ones; for whoever sees all
 * among the public ones, then among those of IMAGE_ADMIN, and never among those of keys. */

/* 1 if text is the whole id of an image that is a backup, which image_store_find does not find. */
int image_store_find_backup(const struct image_store *store, const char *text,
                            char id[static HEX_SIZE]);

/* The id of the image that text names: a reference, an id, or, for whoever sees all, a unique
 * prefix of an id (4 digits or more, tried last). -CAY_NOT_FOUND without a remedy, and with the
 * same text for what is another owner's: only the caller knows whether to pull. */
int image_store_find(const struct image_store *store, const char *text, char id[static HEX_SIZE],
                     struct cay_error *err);
int image_store_find_reference(const struct image_store *store, const struct reference *ref,
                               char id[static HEX_SIZE], struct cay_error *err);
/* Only among the names of this owner, "" being the public ones. */
int image_store_find_own(const struct image_store *store, const char *owner,
                         const struct reference *ref, char id[static HEX_SIZE],
                         struct cay_error *err);
/* Gives the image a name (by tag, and by digest if the reference has one), taking it from another
 * one of the same owner. For whoever sees all the name is public, unless IMAGE_ADMIN has it
 * already. Atomic and durable. */
int image_store_set_name(const struct image_store *store, const struct reference *ref,
                         const char *id, struct cay_error *err);
/* Gives an image that one owner has under a name to another one under the same. */
int image_store_copy_name(const struct image_store *store, const char *from, const char *to,
                          const struct reference *ref, struct cay_error *err);
/* Removes one of the owner's names; for whoever sees all a public one, or one of IMAGE_ADMIN. */
int image_store_remove_name(const struct image_store *store, const struct reference *ref,
                            struct cay_error *err);

struct image_name {
    struct reference ref;
    char id[HEX_SIZE];
    char owner[IMAGE_OWNER_SIZE]; /* "": it is public */
};
/* All names that the owner sees, or all there are, sorted; the caller frees the array. */
int image_store_names(const struct image_store *store, struct image_name **ret, size_t *ret_count,
                      struct cay_error *err);
/* All ids of images that the owner sees, or of all, sorted; the caller frees the array. */
int image_store_ids(const struct image_store *store, char (**ret)[HEX_SIZE], size_t *ret_count,
                    struct cay_error *err);

/* ---- records ---- */

int image_store_read_record(const struct image_store *store, const char *id,
                            struct image_record **ret, struct cay_error *err);
/* Atomic and durable. Every layer must be there. */
int image_store_write_record(const struct image_store *store, const struct image_record *record,
                             struct cay_error *err);
/* Removes the record and every name of the image, whoever has it. Layers and blobs go with the next
 * prune. */
int image_store_remove_record(const struct image_store *store, const char *id,
                              struct cay_error *err);

/* ---- blobs ---- */

/* An fd to read, or -errno (-ENOENT). */
int image_store_open_blob(const struct image_store *store, const char *hex);

/* A blob in the making. */
struct blob_work {
    char hex[HEX_SIZE];
    char file[HEX_SIZE + IMAGE_OWNER_SIZE]; /* below ingest/ */
    int fd;          /* ingest/HEX, read and write, locked; -1 if the blob is complete already */
    uint64_t offset; /* bytes that an earlier, killed download left; not yet verified */
};
/* Waits for another process or thread that downloads the same blob, then continues after it, or
 * finds that it is done (fd -1, return 1). 0 otherwise. An owner waits only for himself, and
 * downloads again what he does not know. */
int image_store_begin_blob(const struct image_store *store, const char *hex, struct blob_work *ret,
                           struct cay_error *err);
/* The caller has verified the content. */
int image_store_commit_blob(const struct image_store *store, struct blob_work *work,
                            struct cay_error *err);
/* Leaves what is there for a later resume, or (keep false) drops it. */
void image_store_leave_blob(const struct image_store *store, struct blob_work *work, bool keep);
/* A small blob at once: its content must have this digest, which the caller has computed. */
int image_store_put_blob(const struct image_store *store, const char *hex, const void *data,
                         size_t len, struct cay_error *err);

/* ---- layers ---- */

/* The files of a layer are not synced one by one. One that was neither settled nor made since the
 * machine started may be hollow after a power loss: it counts as absent and can be made again. */
bool image_store_has_layer(const struct image_store *store, const char *chain);
/* The unpacked files, O_PATH, and with ret_lock a shared lock that keeps prune away. -errno. */
int image_store_open_layer(const struct image_store *store, const char *chain, int *ret_lock);

/* A layer in the making; folders exist and are empty. */
struct layer_work {
    char name[32]; /* below work/ */
    int dir;       /* work/NAME */
    int lock;
};
#define LAYER_WORK_NONE ((struct layer_work){.dir = -1, .lock = -1})
int image_store_begin_layer(const struct image_store *store, struct layer_work *ret,
                            struct cay_error *err);
/* Moves fs to its final name. Whoever came first wins; both succeed. */
int image_store_commit_layer(const struct image_store *store, struct layer_work *work,
                             const char *chain, struct cay_error *err);
/* Brings all layers that are there to the disk (syncfs) and marks them settled. To be called after
 * the last commit of a pull, load or build. 0 or -errno. */
int image_store_settle(const struct image_store *store);
/* Removes it. An empty one is fine. */
void image_store_abandon_layer(const struct image_store *store, struct layer_work *work);

/* ---- pins ---- */

/* Keeps the image for holder (the id of a sandbox) until image_store_unpin, across restarts of
 * everything. The caller holds the image open meanwhile. Neither waits for a prune. */
int image_store_pin(const char *state_dir, const char *holder, const char *id,
                    struct cay_error *err);
/* The beginning of a holder, before the id of a sandbox, that keeps its backup: such an image is
 * not found by its id, since it is its owner's alone. */
#define IMAGE_STORE_BACKUP "backup-"
/* One of several. */
int image_store_unpin_one(const char *state_dir, const char *holder, const char *id,
                          struct cay_error *err);
/* 1 with an image that holder has pinned and that is not `but` ("": any), 0 without one. */
int image_store_pinned(const char *state_dir, const char *holder, const char *but,
                       char ret[static HEX_SIZE], struct cay_error *err);
/* Whatever holder has pinned; nothing, or no store, is fine. */
int image_store_unpin(const char *state_dir, const char *holder, struct cay_error *err);

/* ---- prune ---- */

/* Removes layers in the making that nobody makes any more, if nobody else uses the store within
 * wait_ms. What this user may not remove is left to a prune. */
void image_store_sweep(const char *state_dir, int64_t wait_ms);

/* Whether a sandbox is on the image now, or has pinned it. */
bool image_store_is_used(const struct image_store *store, const struct image_record *record);

struct prune_result {
    size_t images, layers, blobs, leftovers;
    uint64_t bytes;
};
/* Removes what nothing refers to: images without a name if `unnamed` (an image in use by a sandbox
 * stays), layers, blobs, and leftovers of killed processes. Takes the lock exclusively, waiting for
 * others at most wait_ms. With dry_run it only counts. */
int image_store_prune(struct image_store *store, bool unnamed, bool dry_run, int64_t wait_ms,
                      struct prune_result *ret, struct cay_error *err);
/* Removes layers and blobs that no image and no step of a build needs, unless others use the store
 * just now. */
void image_store_reclaim(const struct image_store *store);
