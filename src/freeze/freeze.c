/* An extension module of Python that freezes the interpreter which loads it: its memory goes to
 * standard output as frozen.h says, and the process ends. When that memory is woken in another
 * process, loading goes on there, as if the process had been forked: what belongs to a process and
 * not to its memory is made again, and Python is told.
 *
 * Loading always "fails", so that no module is left behind. Without one of the things that it needs
 * to know (another C library, memory that is shared) it only fails. */
#include <asm/stat.h>
#include <linux/fcntl.h>
#include <linux/mman.h>
#include <linux/prctl.h>
#include <linux/signal.h>
#include <sys/syscall.h>

#include "freeze/call.h"
#include "freeze/frozen.h"

enum {
    SIGNALS = 64,
    GAP_PAGES = 16, /* so many pages of zeroes are worth a mapping of their own */
    LARGE_PAGE = 2 << 20,
    WHOLE_MAX = 8 << 20, /* a larger file is mapped always */
    STACK_SIZE = 8 << 20,
    RSEQ_SIZE = 32,
    RSEQ_SIGNATURE = 0x53053053,
    ARCH_GET_FS_ = 0x1003,
    ARCH_SET_FS_ = 0x1002,
};

/* Of the interpreter and the C library that load us. */
extern void PyOS_BeforeFork(void), PyOS_AfterFork_Parent(void), PyOS_AfterFork_Child(void);
extern void *PyObject_Malloc(size_t size);
extern char *__curbrk __attribute__((weak));
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));

/* As the kernel has it. */
struct action {
    uint64_t handler, flags, restorer, mask;
};

static struct {
    uint64_t fs;
    int *tid; /* what the kernel clears when the thread ends: where the C library keeps its id */
    uint64_t robust, robust_len;
    struct action action[SIGNALS + 1];
    uint64_t mask;
    stack_t alternate;
    uint32_t mxcsr;
    uint16_t x87;
} process;

static union {
    struct frozen head;
    char bytes[FROZEN_HEAD_SIZE];
} out __attribute__((aligned(FROZEN_PAGE)));

static char maps[256 * 1024];
static int is_whole; /* what is as in a file of the image is kept too */

/* ---- what a process has beside its memory ---- */

static int remember_process(void) {
    uint64_t tid = 0;
    if (CALL(SYS_arch_prctl, ARCH_GET_FS_, &process.fs) < 0 ||
        CALL(SYS_prctl, PR_GET_TID_ADDRESS, &tid) < 0 ||
        CALL(SYS_get_robust_list, 0, &process.robust, &process.robust_len) < 0)
        return -1;
    process.tid = (int *)tid;
    /* Only then it is the C library that we know how to tell of a new process. */
    if (process.tid == 0 || *process.tid != (int)CALL(SYS_gettid) || &__curbrk == 0)
        return -1;
    for (int i = 1; i <= SIGNALS; i++)
        (void)CALL(SYS_rt_sigaction, i, 0, &process.action[i], sizeof process.mask);
    (void)CALL(SYS_rt_sigprocmask, SIG_BLOCK, 0, &process.mask, sizeof process.mask);
    (void)CALL(SYS_sigaltstack, 0, &process.alternate);
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(process.mxcsr), "=m"(process.x87));
    return 0;
}

static void make_process(void) {
    (void)CALL(SYS_arch_prctl, ARCH_SET_FS_, process.fs);
    *process.tid = (int)CALL(SYS_set_tid_address, process.tid);
    (void)CALL(SYS_set_robust_list, process.robust, process.robust_len);
    if (&__rseq_offset != 0 && &__rseq_size != 0 && __rseq_size > 0)
        (void)CALL(SYS_rseq, process.fs + (uint64_t)__rseq_offset, RSEQ_SIZE, 0, RSEQ_SIGNATURE);
    for (int i = 1; i <= SIGNALS; i++)
        if (i != SIGKILL && i != SIGSTOP && process.action[i].handler != 0)
            (void)CALL(SYS_rt_sigaction, i, &process.action[i], 0, sizeof process.mask);
    (void)CALL(SYS_rt_sigprocmask, SIG_SETMASK, &process.mask, 0, sizeof process.mask);
    if ((process.alternate.ss_flags & SS_DISABLE) == 0)
        (void)CALL(SYS_sigaltstack, &process.alternate, 0);
    __asm__ volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(process.mxcsr), "m"(process.x87));
    /* The old heap cannot grow here; the next piece comes from where the kernel puts it now. */
    __curbrk = 0;
}

/* ---- its memory ---- */

struct area {
    uint64_t start, end;
    uint32_t prot;
    uint64_t offset;
    int shared;
    const char *name; /* up to the end of the line */
};

static uint64_t hex(const char **p) {
    uint64_t v = 0;
    for (;; (*p)++) {
        char c = **p;
        if (c >= '0' && c <= '9')
            v = v * 16 + (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            v = v * 16 + (uint64_t)(c - 'a' + 10);
        else
            return v;
    }
}

static int starts(const char *text, const char *with) {
    while (*with != 0)
        if (*text++ != *with++)
            return 0;
    return 1;
}

/* "start-end rwxp offset device inode   name": moves *p to the next line. */
static int next_area(const char **p, struct area *a) {
    if (**p == 0)
        return 0;
    a->start = hex(p);
    (*p)++;
    a->end = hex(p);
    const char *mode = *p + 1;
    a->prot = (mode[0] == 'r' ? PROT_READ : 0) | (mode[1] == 'w' ? PROT_WRITE : 0) |
              (mode[2] == 'x' ? PROT_EXEC : 0);
    a->shared = mode[3] == 's';
    *p += 6;
    a->offset = hex(p);
    for (int field = 0; field < 2; field++) {
        while (**p == ' ')
            (*p)++;
        while (**p != ' ' && **p != '\n')
            (*p)++;
    }
    while (**p == ' ')
        (*p)++;
    a->name = *p;
    while (**p != '\n' && **p != 0)
        (*p)++;
    *p += **p == '\n';
    return 1;
}

static int read_maps(void) {
    long fd = CALL(SYS_open, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t len = 0;
    long n;
    while (len < sizeof maps - 1 && (n = CALL(SYS_read, fd, maps + len, sizeof maps - 1 - len)) > 0)
        len += (size_t)n;
    (void)CALL(SYS_close, fd);
    maps[len] = 0;
    return len > 0 && len < sizeof maps - 1 ? 0 : -1;
}

/* Whether what begins here can be one mapping with the segment before it: a mapping takes longer
 * than anything else that is done for a page. For that, what is only read may become executable, or
 * writable, as its neighbour is; never both. */
static int joins(const struct frozen_segment *before, uint64_t start, uint32_t prot, int32_t file,
                 uint64_t offset) {
    uint32_t both = before->prot | prot;
    if (before->start + before->len != start || before->file != file)
        return 0;
    if (file == FROZEN_ZERO)
        return before->prot == prot;
    return (file == FROZEN_OWN || before->offset + before->len == offset) &&
           (before->prot == prot ||
            ((before->prot & prot & PROT_READ) != 0 &&
             (both & (PROT_WRITE | PROT_EXEC)) != (PROT_WRITE | PROT_EXEC)));
}

static int add_of(uint64_t start, uint64_t end, uint32_t prot, int32_t file, uint64_t offset) {
    struct frozen *h = &out.head;
    struct frozen_segment *before = h->segment_count > 0 ? &h->segment[h->segment_count - 1] : 0;
    if (before != 0 && joins(before, start, prot, file, offset)) {
        before->len += end - start;
        before->prot |= prot;
        return 0;
    }
    if (h->segment_count >= FROZEN_SEGMENTS_MAX)
        return -1;
    h->segment[h->segment_count++] = (struct frozen_segment){
        .start = start, .len = end - start, .offset = offset, .prot = prot, .file = file};
    return 0;
}

/* With what is there, or with zeroes. */
static int add(uint64_t start, uint64_t end, uint32_t prot, int has_data) {
    return add_of(start, end, prot, has_data ? FROZEN_OWN : FROZEN_ZERO, 0);
}

static int is_zero(uint64_t page) {
    const uint64_t *p = (const uint64_t *)page;
    for (int i = 0; i < FROZEN_PAGE / 8; i++)
        if (p[i] != 0)
            return 0;
    return 1;
}

/* From here, where nothing else follows, or far enough. */
static uint64_t end_of_zeroes(uint64_t at, uint64_t end) {
    while (at < end && is_zero(at))
        at += FROZEN_PAGE;
    return at;
}

static int is_gap(uint64_t start, uint64_t end) {
    return end - start >= GAP_PAGES * FROZEN_PAGE;
}

/* What holds something, up to the next gap. */
static uint64_t end_of_data(uint64_t at, uint64_t end) {
    while (at < end) {
        uint64_t zeroes = end_of_zeroes(at, end);
        if (is_gap(at, zeroes))
            return at;
        at = zeroes > at ? zeroes : at + FROZEN_PAGE;
    }
    return end;
}

static int add_sparse(const struct area *a) {
    int r = 0;
    for (uint64_t at = a->start, next = 0; r == 0 && at < a->end; at = next) {
        next = end_of_zeroes(at, a->end);
        int has_data = !is_gap(at, next);
        if (has_data)
            next = end_of_data(at, a->end);
        r = add(at, next, a->prot, has_data);
    }
    return r;
}

/* ---- files of the image ---- */

static int is_equal(const uint64_t *a, const uint64_t *b, uint64_t len) {
    for (uint64_t i = 0; i < len / sizeof *a; i++)
        if (a[i] != b[i])
            return 0;
    return 1;
}

/* Copies the name of an area; 0 if it is too long, or that of a file that is gone. */
static int copy_name(const char *name, char path[static sizeof((struct frozen_file *)0)->path]) {
    size_t n = 0;
    while (name[n] != '\n' && name[n] != 0) {
        if (n + 1 >= sizeof((struct frozen_file *)0)->path || name[n] == ' ' || name[n] == '\\')
            return 0;
        path[n] = name[n];
        n++;
    }
    path[n] = 0;
    return n > 0;
}

static int find_file(const char *path) {
    struct frozen *h = &out.head;
    for (uint64_t i = 0; i < h->file_count; i++)
        if (starts(path, h->file[i].path) && starts(h->file[i].path, path))
            return (int)i;
    if (h->file_count >= FROZEN_FILES_MAX)
        return -1;
    struct frozen_file *f = &h->file[h->file_count];
    struct stat st;
    if (CALL(SYS_stat, path, &st) < 0)
        return -1;
    memcpy(f->path, path, sizeof f->path);
    f->size = st.st_size;
    f->mtime = (int64_t)st.st_mtime;
    f->mtime_ns = (int64_t)st.st_mtime_nsec;
    return (int)h->file_count++;
}

/* Compares the area with its file; the last page may go beyond the end of the file, as the area
 * does. */
static int is_as_in_file(const struct area *a, const char *path) {
    long fd = CALL(SYS_open, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    uint64_t len = a->end - a->start;
    long at = CALL(SYS_mmap, 0, len, PROT_READ, MAP_PRIVATE, fd, a->offset);
    (void)CALL(SYS_close, fd);
    if (at < 0 && at > -FROZEN_PAGE)
        return 0;
    int same = is_equal((const uint64_t *)at, (const uint64_t *)a->start, len);
    (void)CALL(SYS_munmap, at, len);
    return same;
}

/* Where the sandbox of a program has nothing that was here. */
static int is_passing(const char *path) {
    return starts(path, "/tmp/") || starts(path, "/dev/") || starts(path, "/memfd:");
}

/* Whether the area can be mapped from its file again, and is not better kept. */
static int is_in_file(const struct area *a, const char *path) {
    struct stat st;
    if (CALL(SYS_stat, path, &st) < 0 || (is_whole && st.st_size <= WHOLE_MAX))
        return 0;
    uint64_t size = ((uint64_t)st.st_size + FROZEN_PAGE - 1) & ~(uint64_t)(FROZEN_PAGE - 1);
    return a->offset + (a->end - a->start) <= size && is_as_in_file(a, path);
}

static int add_mapped(const struct area *a) {
    static char path[sizeof((struct frozen_file *)0)->path];
    if ((a->prot & PROT_WRITE) == 0 && copy_name(a->name, path) && !is_passing(path)) {
        int file = is_in_file(a, path) ? find_file(path) : -1;
        if (file >= 0)
            return add_of(a->start, a->end, a->prot, file, a->offset);
    }
    return add(a->start, a->end, a->prot, 1);
}

static int add_stack(const struct area *a) {
    uint64_t here = out.head.rsp & ~(uint64_t)(FROZEN_PAGE - 1);
    int r = add(a->end - STACK_SIZE, here, a->prot, 0);
    return r < 0 ? r : add(here, a->end, a->prot, 1);
}

static int add_kernel(const struct area *a) {
    struct frozen *h = &out.head;
    if (h->kernel_count >= FROZEN_KERNEL_MAX)
        return -1;
    if (starts(a->name, "[vdso]"))
        h->vdso = a->start;
    h->kernel[h->kernel_count++] =
        (struct frozen_kernel){.from_vdso = (int64_t)a->start, .len = a->end - a->start};
    return 0;
}

static int add_area(const struct area *a) {
    if (starts(a->name, "[vsyscall]"))
        return 0;
    if (starts(a->name, "[vdso]") || starts(a->name, "[vvar"))
        return add_kernel(a);
    if (starts(a->name, "[stack]"))
        return add_stack(a);
    if (a->shared && (a->prot & PROT_WRITE) != 0)
        return -1; /* somebody else writes there */
    if ((a->prot & PROT_READ) == 0)
        return add(a->start, a->end, a->prot, 0);
    return a->name[0] == '/' ? add_mapped(a) : add_sparse(a);
}

/* Code lies in the file as it does in memory, so that the kernel can map large pages of it. What is
 * written to gains nothing by that. */
static void place_segments(void) {
    struct frozen *h = &out.head;
    uint64_t end = FROZEN_THAW_SIZE + FROZEN_HEAD_SIZE;
    for (uint64_t i = 0; i < h->segment_count; i++) {
        struct frozen_segment *s = &h->segment[i];
        if (s->file != FROZEN_OWN)
            continue;
        if ((s->prot & PROT_EXEC) != 0 && s->len >= LARGE_PAGE)
            end += (s->start - end) % LARGE_PAGE;
        s->offset = end;
        end += s->len;
    }
}

static int remember_memory(void) {
    struct frozen *h = &out.head;
    const char *p = maps;
    struct area a;
    while (next_area(&p, &a))
        if (add_area(&a) < 0)
            return -1;
    place_segments();
    for (uint64_t i = 0; i < h->kernel_count; i++)
        h->kernel[i].from_vdso -= (int64_t)h->vdso;
    return h->vdso != 0 ? 0 : -1;
}

/* ---- writing ---- */

static const char zeroes[FROZEN_PAGE];

static int put(const char *data, uint64_t len) {
    while (len > 0) {
        long n = CALL(SYS_write, 1, data, len);
        if (n == -14 && len >= FROZEN_PAGE) /* EFAULT: a mapping beyond the end of its file */
            n = CALL(SYS_write, 1, zeroes, FROZEN_PAGE - (uint64_t)data % FROZEN_PAGE);
        if (n <= 0)
            return -1;
        data += n;
        len -= (uint64_t)n;
    }
    return 0;
}

static int put_all(void) {
    struct frozen *h = &out.head;
    int r = put(out.bytes, sizeof out.bytes);
    uint64_t at = FROZEN_THAW_SIZE + FROZEN_HEAD_SIZE;
    for (uint64_t i = 0; r == 0 && i < h->segment_count; i++) {
        const struct frozen_segment *s = &h->segment[i];
        if (s->file != FROZEN_OWN)
            continue;
        for (; r == 0 && at < s->offset; at += sizeof zeroes)
            r = put(zeroes, sizeof zeroes);
        if (r == 0)
            r = put((const char *)s->start, s->len);
        at = s->offset + s->len;
    }
    return r;
}

/* ---- the two ways through ---- */

/* 0: nothing was written. Does not return if everything was. */
__attribute__((used, visibility("hidden"))) int freeze_here(uint64_t rsp, uint64_t rip) {
    out.head.magic = FROZEN_MAGIC;
    out.head.rsp = rsp;
    out.head.rip = rip;
    if (remember_process() < 0 || read_maps() < 0 || remember_memory() < 0)
        return 0;
    for (;;)
        (void)CALL(SYS_exit_group, put_all() < 0);
}

__attribute__((used, visibility("hidden"))) void thawed_here(void) {
    make_process();
}

/* Returns 0 where freezing failed, and 1 in each process that was woken. */
int freeze(void) __attribute__((visibility("hidden")));
__asm__(".hidden freeze\n"
        "freeze:\n\t"
        "push %rbx\n\tpush %rbp\n\tpush %r12\n\tpush %r13\n\tpush %r14\n\tpush %r15\n\t"
        "sub $8, %rsp\n\t"
        "mov %rsp, %rdi\n\t"
        "lea 1f(%rip), %rsi\n\t"
        "call freeze_here\n\t"
        "jmp 2f\n"
        "1:\n\t"
        "call thawed_here\n\t"
        "mov $1, %eax\n"
        "2:\n\t"
        "add $8, %rsp\n\t"
        "pop %r15\n\tpop %r14\n\tpop %r13\n\tpop %r12\n\tpop %rbp\n\tpop %rbx\n\t"
        "ret\n");

/* Fills the gaps between small objects, and keeps them. Else the new objects of each copy would lie
 * scattered between the old ones, and each page with one of them had to be copied. There are no
 * more gaps of a size where the allocator hands out a row of places side by side. */
static void fill_gaps(void) {
    enum { STEP = 16, LARGEST = 512, ROW = 3072, ENOUGH = 512 << 10 };
    for (size_t size = STEP; size <= LARGEST; size += STEP) {
        uint64_t last = 0;
        size_t row = 0;
        for (size_t i = 0; i < ENOUGH / size && row < ROW / size; i++) {
            uint64_t place = (uint64_t)PyObject_Malloc(size);
            row = place == last + size ? row + 1 : 0;
            last = place;
        }
    }
}

static void *freeze_all(int whole) {
    is_whole = whole;
    fill_gaps();
    PyOS_BeforeFork();
    if (freeze() != 0)
        PyOS_AfterFork_Child();
    else
        PyOS_AfterFork_Parent();
    return 0;
}

void *PyInit_cay_freeze(void), *PyInit_cay_freeze_whole(void);

__attribute__((visibility("default"))) void *PyInit_cay_freeze(void) {
    return freeze_all(0);
}

/* For one that is copied seldom and used often: files need not be opened, and the kernel has all of
 * it in large pages. */
__attribute__((visibility("default"))) void *PyInit_cay_freeze_whole(void) {
    return freeze_all(1);
}
