/* Inside of unpack_layer(): two child processes with a pipe between them. The reader takes the
 * compressed bytes, checks and hashes them, and hands the tar on; the applier parses the tar and
 * makes the files. What parses the tar thus never says what its digest is: an archive that took
 * over the parser could otherwise pass for another image's layer. Not for others. */
#pragma once

#include <locale.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <cay/errors.h>

#include "imager/unpack/unpack.h"

struct digest;

enum { UNPACK_DEPTH_MAX = 512 }; /* what a caller may ask for */

/* A layer of an image, by OCI's rules; or a sandbox's writable layer as it is. */
enum unpack_form { UNPACK_LAYER, UNPACK_RAW };

/* What both children are told; made before the fork, because a confined process can load neither
 * what OpenSSL looks up when a digest is begun nor a locale. */
struct unpack_job {
    int in, root;
    struct unpack_limits limits; /* with the defaults filled in */
    enum unpack_form form;
    bool single_id;  /* the user namespace holds root only: all files become root's */
    uint64_t memory; /* RLIMIT_DATA */
    pid_t parent;
    locale_t locale;           /* UTF-8, or libarchive would not give us names as they are */
    struct digest *blob, *tar; /* begun */
};

enum unpack_kind { UNPACK_PROGRESS, UNPACK_DONE, UNPACK_FAILED };

/* What a child writes into its report pipe. */
struct unpack_report {
    enum unpack_kind kind;
    struct unpack_result result; /* of each child its own part; blob_size counts up in progress */
    struct cay_error err;
};

/* ---- unpack/child.c ---- */

enum unpack_role { UNPACK_READER, UNPACK_APPLIER };

/* Gives up everything but the descriptors of `keep`. The reader is left with read(2), write(2) and
 * lseek(2), the applier with the files below root. To be called in a child. */
int unpack_confine(const struct unpack_job *job, enum unpack_role role, const int *keep,
                   size_t count, struct cay_error *err);

/* ---- unpack/read.c ---- */

/* Reads job->in to its end and writes the tar to out; progress goes to report. -EPIPE without an
 * error text if nobody reads out any more. */
int unpack_read(const struct unpack_job *job, int out, int report, struct unpack_result *ret,
                struct cay_error *err);

/* ---- unpack/apply.c ---- */

/* Reads a tar from `in` to its end and applies it to root. Fills bytes, entries and skipped. */
int unpack_apply(int in, int root, enum unpack_form form, const struct unpack_limits *limits,
                 bool single_id, struct unpack_result *ret, struct cay_error *err);

/* ---- unpack.c ---- */

/* Fills in all but the limits, with descriptors of its own; confined.c needs it too. */
int unpack_prepare_job(struct unpack_job *job, int in, int root, struct cay_error *err);
void unpack_release_job(struct unpack_job *job);

/* The next report of a child; true if it is the last. A child that an archive took over may write
 * what it likes; one that says nothing any more has failed. */
bool unpack_take_report(int fd, struct unpack_report *ret);

/* The limits with defaults in place of zeroes. */
struct unpack_limits unpack_fill_limits(const struct unpack_limits *limits);
