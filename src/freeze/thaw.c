/* The beginning of a frozen process: an executable of its own, far from where programs and
 * libraries lie, that maps the rest of its file and goes on there. The stack that the kernel made
 * stays: the new arguments and variables are on it.
 *
 * Places are fixed, so what the kernel placed by chance can be in the way. Then it executes itself
 * again, and the kernel chooses anew. */
#include <asm/stat.h>
#include <elf.h>
#include <linux/fcntl.h>
#include <linux/mman.h>
#include <sys/syscall.h>

#include "freeze/call.h"
#include "freeze/frozen.h"

enum { TRIES = 'p', FAILED = 125, STACK_BELOW = 1 << 20 };

/* Where nothing of anybody is. */
static const uint64_t aside = UINT64_C(0x610000000000), head_place = UINT64_C(0x620000000000);

static const struct frozen *head;
static int files[FROZEN_FILES_MAX]; /* descriptors; 0: not open */

struct range {
    uint64_t start, end;
};

static __attribute__((noreturn)) void give_up(void) {
    for (;;)
        (void)CALL(SYS_exit_group, FAILED);
}

static int overlaps(struct range a, struct range b) {
    return a.start < b.end && b.start < a.end;
}

static struct range kernel_range(uint64_t vdso) {
    struct range r = {vdso, vdso};
    for (uint64_t i = 0; i < head->kernel_count; i++) {
        uint64_t start = vdso + (uint64_t)head->kernel[i].from_vdso;
        uint64_t end = start + head->kernel[i].len;
        r.start = start < r.start ? start : r.start;
        r.end = end > r.end ? end : r.end;
    }
    return r;
}

static int is_in_the_way(struct range r) {
    for (uint64_t i = 0; i < head->segment_count; i++) {
        const struct frozen_segment *s = &head->segment[i];
        if (overlaps(r, (struct range){s->start, s->start + s->len}))
            return 1;
    }
    return overlaps(r, kernel_range(head->vdso));
}

static void move_kernel(uint64_t from, uint64_t to) {
    for (uint64_t i = 0; i < head->kernel_count; i++) {
        const struct frozen_kernel *k = &head->kernel[i];
        uint64_t there = to + (uint64_t)k->from_vdso;
        if ((uint64_t)CALL(SYS_mremap, from + (uint64_t)k->from_vdso, k->len, k->len,
                           MREMAP_MAYMOVE | MREMAP_FIXED, there) != there)
            give_up();
    }
}

static int open_file(int32_t number) {
    if (number < 0 || (uint64_t)number >= head->file_count)
        give_up();
    const struct frozen_file *f = &head->file[number];
    if (files[number] > 0)
        return files[number];
    struct stat st;
    long fd = CALL(SYS_open, f->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || CALL(SYS_fstat, fd, &st) < 0 || st.st_size != f->size ||
        (int64_t)st.st_mtime != f->mtime || (int64_t)st.st_mtime_nsec != f->mtime_ns)
        give_up();
    return files[number] = (int)fd;
}

static void map_segments(void) {
    for (uint64_t i = 0; i < head->segment_count; i++) {
        const struct frozen_segment *s = &head->segment[i];
        long flags = MAP_PRIVATE | MAP_FIXED, fd = FROZEN_FD;
        if (s->file == FROZEN_ZERO) {
            flags |= MAP_ANONYMOUS | MAP_NORESERVE;
            fd = -1;
        } else if (s->file != FROZEN_OWN) {
            fd = open_file(s->file);
        }
        if ((uint64_t)CALL(SYS_mmap, s->start, s->len, s->prot, flags, fd, s->offset) != s->start)
            give_up();
    }
    for (uint64_t i = 0; i < head->file_count; i++)
        if (files[i] > 0)
            (void)CALL(SYS_close, files[i]);
}

static void copy_hot(void) {
    enum { UNKNOWN = -22 }; /* EINVAL: before Linux 5.14 */
    for (uint64_t i = 0; i < head->hot_count; i++)
        if (CALL(SYS_madvise, head->hot[i].start, head->hot[i].len, MADV_POPULATE_WRITE) == UNKNOWN)
            return;
}

static uint64_t find_vdso(const Elf64_auxv_t *aux) {
    while (aux->a_type != AT_NULL && aux->a_type != AT_SYSINFO_EHDR)
        aux++;
    return aux->a_un.a_val;
}

static void map_head(void) {
    long at = CALL(SYS_mmap, head_place, FROZEN_HEAD_SIZE, PROT_READ, MAP_PRIVATE | MAP_FIXED,
                   FROZEN_FD, FROZEN_THAW_SIZE);
    head = (const struct frozen *)at;
    if ((uint64_t)at != head_place || head->magic != FROZEN_MAGIC ||
        head->segment_count > FROZEN_SEGMENTS_MAX || head->kernel_count > FROZEN_KERNEL_MAX ||
        head->file_count > FROZEN_FILES_MAX || head->hot_count > FROZEN_HOT_MAX)
        give_up();
}

/* The last letter of the second argument, "cay-a", counts the tries. */
static void try_again(char **argv, char **env) {
    enum { COUNTER = 4 }; /* "cay-a" */
    if (argv[0] == 0 || argv[1] == 0 || argv[1][COUNTER] < 'a' || argv[1][COUNTER] >= TRIES)
        give_up();
    argv[1][COUNTER]++;
    (void)CALL(SYS_execveat, FROZEN_FD, "", argv, env, AT_EMPTY_PATH);
    give_up();
}

/* From here to its place in the frozen memory. */
static __attribute__((noreturn)) void go_on(uint64_t rsp, uint64_t rip) {
    __asm__ volatile("mov %0, %%rsp\n\tjmp *%1" : : "r"(rsp), "r"(rip) : "memory");
    __builtin_unreachable();
}

__attribute__((noreturn, used)) void thaw(uint64_t *stack) {
    char **argv = (char **)(stack + 1);
    char **env = argv + stack[0] + 1;
    char **end = env;
    while (*end != 0)
        end++;
    map_head();
    uint64_t vdso = find_vdso((const Elf64_auxv_t *)(end + 1));
    uint64_t here = (uint64_t)stack;
    /* Above the variables there are their texts, of at most a quarter of the stack. */
    struct range kernel_stack = {here - STACK_BELOW, here + STACK_BELOW * 4};
    if (vdso == 0 || is_in_the_way(kernel_stack) || is_in_the_way(kernel_range(vdso)))
        try_again(argv, env);
    move_kernel(vdso, aside);
    map_segments();
    move_kernel(aside, head->vdso);
    copy_hot();
    (void)CALL(SYS_close, FROZEN_FD);
    uint64_t rsp = head->rsp, rip = head->rip;
    (void)CALL(SYS_munmap, head_place, FROZEN_HEAD_SIZE);
    go_on(rsp, rip);
}

__asm__(".global _start\n"
        "_start:\n\t"
        "xor %ebp, %ebp\n\t"
        "mov %rsp, %rdi\n\t"
        "and $-16, %rsp\n\t"
        "call thaw\n\t"
        "hlt\n");
