/* Freezing an interpreter in a sandbox that somebody has made for it, and keeping it. The bytes
 * come from a sandbox; the host passes them on and never reads them. */
#pragma once

#include <cay.h>
#include <sys/types.h>

enum {
    PYTHON_AGE_MAX_S = 3600, /* the layout of memory and the seed of hashes are its own */
    PYTHON_FREEZE_MS = 60 * 1000,
};

/* Changes when what an interpreter was made of does; is_host: of the host image. */
uint64_t python_fingerprint(bool is_host, const char *const *preload);

/* Runs a command in the sandbox. */
typedef int python_exec_fn(void *arg, const struct cay_exec *exec, struct cay_result *ret,
                           struct cay_error *err);

/* How much of it is kept. LEAN: without what files of the image have, which are mapped again.
 * WHOLE: some times as large, and woken in less time; for one that is not copied for each program.
 */
enum python_kind { PYTHON_LEAN, PYTHON_WHOLE };

/* Writes a frozen interpreter with these modules (NULL-terminated; NULL: none) to out, which is
 * empty. The sandbox is one where nothing has run. CAY_UNSUPPORTED: the image's Python is not
 * one that can be frozen. */
int python_freeze(python_exec_fn *run, void *arg, enum python_kind kind, const char *const *preload,
                  int out, struct cay_error *err);

/* cay_python_warm, which is for lean ones, for either. */
int python_warm(cay_engine *engine, const struct cay_spec *spec, enum python_kind kind,
                const char *const *preload, int *ret, struct cay_error *err);

/* A copy of a lean one that another process makes, while this one makes the sandbox for it. */
struct python_copy {
    pid_t pid; /* 0: none */
    int memory;
};
#define PYTHON_COPY_NONE ((struct python_copy){.memory = -1})
/* False if the state folder has none that is fresh: cay_python_warm makes it. */
bool python_copy_begin(const char *state_dir, const struct cay_spec *spec,
                       const char *const *preload, struct python_copy *ret);
/* Waits for it; *ret is as of cay_python_warm. */
int python_copy_end(struct python_copy *c, int *ret, struct cay_error *err);
/* Gives it up. None is fine. */
void python_copy_drop(struct python_copy *c);

/* A program that shows whether it can be woken, and which pages a program needs. */
struct cay_python python_proof(int warm);
/* Whether it could, by what running it returned and its result; file, from which warm was copied,
 * then knows the pages. */
int python_judge_proof(int ran, const struct cay_python_result *result, int file,
                       struct cay_error *err);

/* A file in memory that may be executed. */
int python_memory(struct cay_error *err);
/* Makes it one that nobody can write to: what runs from it may belong to whoever owns a file. It
 * also has no path, and lies outside of every tree, where Landlock lets it be executed. A new
 * descriptor, to be executed. */
int python_seal(int memory, struct cay_error *err);
/* Copies so many bytes of a file to another. */
int python_copy(int file, int to, uint64_t size, struct cay_error *err);
/* python_seal() of a copy. */
int python_copy_sealed(int file, uint64_t size, struct cay_error *err);
/* Has the kernel keep its bytes in large pages where it can. Takes longer than a program gains by
 * it, some milliseconds: for one that many programs are woken from. */
void python_gather(int sealed);
