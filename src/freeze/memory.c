/* What the compiler calls by itself. Hidden: the program around us has its own. */
#include "freeze/call.h"

__attribute__((visibility("hidden"))) void *memcpy(void *to, const void *from, size_t len) {
    void *ret = to;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(len) : : "memory");
    return ret;
}

__attribute__((visibility("hidden"))) void *memset(void *to, int byte, size_t len) {
    void *ret = to;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(len) : "a"(byte) : "memory");
    return ret;
}
