/* System calls and the few functions that a compiler expects, without a C library. */
#pragma once

#include <stddef.h>
#include <stdint.h>

static inline long call6(long n, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long ret;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
}

#define CALL(n, ...) CALL_(n, ##__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define CALL_(n, a, b, c, d, e, f, ...)                                                            \
    call6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

void *memcpy(void *to, const void *from, size_t len);
void *memset(void *to, int byte, size_t len);
