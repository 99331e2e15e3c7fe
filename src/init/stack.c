#include "init/stack.h"

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "init/op.h"

#if defined(__x86_64__) && !defined(__GLIBC__)

enum {
    PAGE = 4096,
    /* What an idle PID 1 has on its stack lies on the page of its data: that is the one page that
     * each sandbox has for itself. */
    ON_PAGE = 1088,
    SHALLOW = 4 * PAGE + ON_PAGE, /* PID 1 alone: what it does needs a tenth of that */
    DEEP = 640 << 10,             /* a folder in a folder, until PATH_MAX ends it, is the deepest */
    FIRST_SIZE = 1 << 20, /* more than the first stack can have by now; nothing else is near it */
    RANDOM_SIZE = 16,
};

/* All that musl looks up later. */
static const unsigned char kept[] = {AT_SYSINFO_EHDR, AT_PAGESZ, AT_RANDOM,
                                     AT_SECURE,       AT_HWCAP,  AT_MINSIGSTKSZ};

/* What musl keeps of the first stack: its clock and its malloc() look there when they are first
 * used. Its layout is musl's own, so it is compared with what the kernel says before it is used. */
extern struct {
    char flags[4];
    int threads;
    Elf64_auxv_t *auxv;
} libc_state __asm__("__libc") __attribute__((visibility("hidden")));

/* At the top of the new stack. */
struct top {
    unsigned char random[RANDOM_SIZE];
    Elf64_auxv_t auxv[ARRAY_LEN(kept) + 1];
};

/* Sorted to the beginning of the data, by its alignment and its name, so that its end and the data
 * are neighbours. Before it is the program, which cannot be written: a guard. */
__attribute__((section(".data.rel.ro.local.stack"), aligned(PAGE))) char stack_shallow[SHALLOW];
OP_ROOM char stack_deep[DEEP];

static int (*run_here)(void);

/* Behind the environment, or NULL where musl has it elsewhere. */
static const Elf64_auxv_t *first_auxv(void) {
    char **env = environ;
    while (*env != NULL)
        env++;
    const Elf64_auxv_t *auxv = (const Elf64_auxv_t *)(const void *)(env + 1);
    return auxv == libc_state.auxv ? auxv : NULL;
}

/* Copies what is kept, with the random bytes that lie on the first stack; the end of that stack, or
 * 0: the name of the program is the last that is on it, but for eight zero bytes. */
static uintptr_t copy_auxv(struct top *top, const Elf64_auxv_t *from) {
    uintptr_t end = 0;
    size_t count = 0;
    for (; from->a_type != AT_NULL; from++) {
        Elf64_auxv_t entry = *from;
        const char *at = (const char *)(uintptr_t)entry.a_un.a_val;
        if (entry.a_type == AT_EXECFN)
            end = (uintptr_t)at + strlen(at) + 1 + sizeof(uint64_t);
        if (count == ARRAY_LEN(kept) || entry.a_type > UINT8_MAX ||
            memchr(kept, (int)entry.a_type, sizeof kept) == NULL)
            continue;
        if (entry.a_type == AT_RANDOM) {
            memcpy(top->random, at, RANDOM_SIZE);
            entry.a_un.a_val = (uintptr_t)top->random;
        }
        top->auxv[count++] = entry;
    }
    top->auxv[count] = (Elf64_auxv_t){.a_type = AT_NULL};
    return (end + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
}

static _noreturn_ void begin(uintptr_t first_end) {
    static char *none[] = {NULL};
    environ = none;
    (void)munmap((void *)(first_end - FIRST_SIZE), FIRST_SIZE); /* it would only take room */
    _exit(run_here());
}

static _noreturn_ void switch_to(void *top, void (*to)(uintptr_t), uintptr_t arg) {
    __asm__ volatile("mov %0, %%rsp\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "call *%1\n\t"
                     "ud2"
                     :
                     : "r"(top), "r"(to), "D"(arg)
                     : "memory");
    __builtin_unreachable();
}

_noreturn_ void stack_run(int (*run)(void)) {
    uintptr_t end = (uintptr_t)stack_shallow + sizeof stack_shallow;
    struct top *top = (struct top *)((end - sizeof *top) & ~(uintptr_t)63);
    uintptr_t guard = ((uintptr_t)stack_deep + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    const Elf64_auxv_t *auxv = first_auxv();
    uintptr_t first_end = auxv == NULL ? 0 : copy_auxv(top, auxv);
    if (first_end == 0 || mprotect((void *)guard, PAGE, PROT_NONE) < 0)
        _exit(run());
    libc_state.auxv = top->auxv;
    run_here = run;
    switch_to(top, begin, first_end);
}

static _noreturn_ void begin_deep(uintptr_t none) {
    (void)none;
    _exit(run_here());
}

_noreturn_ void stack_run_deep(int (*run)(void)) {
    if (run_here == NULL) /* on the first stack, which is deep enough */
        _exit(run());
    run_here = run;
    uintptr_t end = (uintptr_t)stack_deep + sizeof stack_deep;
    switch_to((void *)(end & ~(uintptr_t)63), begin_deep, 0);
}

#else

_noreturn_ void stack_run(int (*run)(void)) {
    _exit(run());
}

_noreturn_ void stack_run_deep(int (*run)(void)) {
    _exit(run());
}

#endif
