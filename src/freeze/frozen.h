/* A frozen process: the memory of an interpreter that has been started, as a file that starts it
 * again. freeze.c writes it from inside the interpreter, thaw.c is its beginning and maps it. Both
 * run inside sandboxes only, without a C library; the host carries the bytes and reads none.
 *
 *     thaw (a small executable, padded) | struct frozen, padded | pages
 *
 * Pages that are as in a file of the image are not repeated; that file is mapped again. */
#pragma once

#include <stdint.h>

enum {
    FROZEN_PAGE = 4096,
    FROZEN_THAW_SIZE = 4 * FROZEN_PAGE, /* where struct frozen begins */
    FROZEN_HEAD_SIZE = 64 * FROZEN_PAGE,
    FROZEN_SEGMENTS_MAX = 4000,
    FROZEN_FILES_MAX = 512,
    FROZEN_KERNEL_MAX = 8,
    FROZEN_HOT_MAX = 2048,
    FROZEN_FD = 4, /* where thaw finds its own file */
};

#define FROZEN_MAGIC UINT64_C(0x31305a4f52467963)

struct frozen_segment {
    uint64_t start, len;
    uint64_t offset; /* in the file */
    uint32_t prot;
    int32_t file; /* index into file[], or one of the following */
};
enum { FROZEN_OWN = -1, FROZEN_ZERO = -2 };

/* A file of the image, and what tells whether it is still the same. */
struct frozen_file {
    char path[160];
    int64_t size, mtime, mtime_ns;
};

/* A mapping that the kernel makes in every process, with code that the C library remembers. */
struct frozen_kernel {
    int64_t from_vdso; /* where it begins, seen from the vdso */
    uint64_t len;
};

/* Pages that the program before all others wrote to: they are copied at once, which takes less than
 * to do so one by one when each is first touched. A hint: wrong ones do no harm. */
struct frozen_hot {
    uint64_t start, len;
};

struct frozen {
    uint64_t magic;
    uint64_t rsp, rip; /* where it goes on */
    uint64_t vdso;
    uint64_t kernel_count;
    struct frozen_kernel kernel[FROZEN_KERNEL_MAX];
    uint64_t file_count;
    struct frozen_file file[FROZEN_FILES_MAX];
    uint64_t segment_count;
    struct frozen_segment segment[FROZEN_SEGMENTS_MAX];
    uint64_t hot_count; /* this and the next are known when it has been woken once */
    struct frozen_hot hot[FROZEN_HOT_MAX];
};

_Static_assert(sizeof(struct frozen) <= FROZEN_HEAD_SIZE, "struct frozen has its place");
