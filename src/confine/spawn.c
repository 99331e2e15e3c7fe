#include "confine/spawn.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef __x86_64__
#error "the native engine is written for x86_64: port spawn.c and seccomp_table.h"
#endif

enum { STACK_SIZE = 64 * 1024 };

/* One child at a time exists that uses it: the caller is suspended meanwhile. */
static char stack[STACK_SIZE] __attribute__((aligned(64)));

/* The C library's clone() knows no CLONE_INTO_CGROUP, and its syscall() would return into a frame
 * that lies on the other stack; so the child's first steps are written out. */
static long clone3_call(struct clone_args *args, int (*fn)(void *), void *arg) {
    register long result __asm__("rax") = SYS_clone3;
    register struct clone_args *a __asm__("rdi") = args;
    register size_t size __asm__("rsi") = sizeof *args;
    register int (*entry)(void *) __asm__("r12") = fn;
    register void *entry_arg __asm__("r13") = arg;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "mov %%r13, %%rdi\n\t"
                     "call *%%r12\n\t"
                     "mov %%eax, %%edi\n\t"
                     "mov %[exit], %%eax\n\t"
                     "syscall\n\t"
                     "hlt\n"
                     "1:\n\t"
                     : "+r"(result)
                     : "r"(a), "r"(size), "r"(entry), "r"(entry_arg), [exit] "i"(SYS_exit_group)
                     : "rcx", "r11", "memory", "cc");
    return result;
}

pid_t spawn_shared(struct clone_args *args, int (*fn)(void *), void *arg) {
    args->flags |= CLONE_VM | CLONE_VFORK;
    args->stack = (uintptr_t)stack;
    args->stack_size = sizeof stack;
    args->exit_signal = (args->flags & CLONE_PARENT) != 0 ? 0 : SIGCHLD; /* it has the caller's */
    /* A signal handler that runs in the child would run on the parent's data. */
    sigset_t all, old;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &old);
    long pid = clone3_call(args, fn, arg);
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    return (pid_t)pid;
}
