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
    ROOM = 256 << 10,     /* the deepest operation needs a fifth of that */
    FIRST_SIZE = 1 << 20, /* more than the first stack can have by now; nothing else is near it */
    RANDOM_SIZE = 16,
    ENTRIES_MAX = 40,
};

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
    Elf64_auxv_t auxv[ENTRIES_MAX];
};

OP_ROOM char stack_room[ROOM];

static int (*run_here)(void);

/* Behind the environment, or NULL where musl has it elsewhere. */
static const Elf64_auxv_t *first_auxv(void) {
    char **env = environ;
    while (*env != NULL)
        env++;
    const Elf64_auxv_t *auxv = (const Elf64_auxv_t *)(const void *)(env + 1);
    return auxv == libc_state.auxv ? auxv : NULL;
}

/* Copies what does not lie on the first stack itself, and the random bytes that do; the end of that
 * stack, or 0: the name of the program is the last that is on it, but for eight zero bytes. */
static uintptr_t copy_auxv(struct top *top, const Elf64_auxv_t *from) {
    uintptr_t end = 0;
    size_t count = 0;
    for (; from->a_type != AT_NULL && count < ENTRIES_MAX - 1; from++) {
        Elf64_auxv_t entry = *from;
        const char *at = (const char *)(uintptr_t)entry.a_un.a_val;
        if (entry.a_type == AT_EXECFN)
            end = (uintptr_t)at + strlen(at) + 1 + sizeof(uint64_t);
        if (entry.a_type == AT_EXECFN || entry.a_type == AT_PLATFORM)
            continue;
        if (entry.a_type == AT_RANDOM) {
            memcpy(top->random, at, RANDOM_SIZE);
            entry.a_un.a_val = (uintptr_t)top->random;
        }
        top->auxv[count++] = entry;
    }
    top->auxv[count] = (Elf64_auxv_t){.a_type = AT_NULL};
    return from->a_type != AT_NULL ? 0 : (end + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
}

static _noreturn_ void begin(uintptr_t first_end) {
    static char *none[] = {NULL};
    environ = none;
    (void)munmap((void *)(first_end - FIRST_SIZE), FIRST_SIZE); /* it would only take room */
    _exit(run_here());
}

_noreturn_ void stack_run(int (*run)(void)) {
    uintptr_t room = (uintptr_t)stack_room;
    uintptr_t guard = (room + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    struct top *top = (struct top *)((room + ROOM - sizeof *top) & ~(uintptr_t)63);
    const Elf64_auxv_t *auxv = first_auxv();
    uintptr_t first_end = auxv == NULL ? 0 : copy_auxv(top, auxv);
    if (first_end == 0 || mprotect((void *)guard, PAGE, PROT_NONE) < 0)
        _exit(run());
    libc_state.auxv = top->auxv;
    run_here = run;
    __asm__ volatile("mov %0, %%rsp\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "call *%1\n\t"
                     "ud2"
                     :
                     : "r"(top), "r"(begin), "D"(first_end)
                     : "memory");
    __builtin_unreachable();
}

#else

_noreturn_ void stack_run(int (*run)(void)) {
    _exit(run());
}

#endif
