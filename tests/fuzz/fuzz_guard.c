/* Any text through the command guard: a verdict that holds what its header promises, in bounded
 * time and memory. The same bytes are also a vector of arguments, one on each line. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "guard/guard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
    if (!ok)
        abort();
}

static void check_verdict(int r, const struct guard_hit *hit) {
    require(r == 0 || r == 1);
    require((r == 0) == (hit->rule == GUARD_NONE));
    require(hit->name != NULL && hit->reason != NULL && hit->instead != NULL);
    require(str_is_utf8(hit->words, strnlen(hit->words, sizeof hit->words)));
    for (const char *p = hit->words; *p != '\0'; p++)
        require((unsigned char)*p >= 0x20 && *p != 0x7f);
}

static void check_argv(char *text) {
    const char *argv[17] = {NULL};
    char *rest = NULL;
    size_t count = 0;
    for (char *arg = strtok_r(text, "\n", &rest); arg != NULL && count < ARRAY_LEN(argv) - 1;
         arg = strtok_r(NULL, "\n", &rest))
        argv[count++] = arg;
    struct guard_hit hit;
    check_verdict(guard_check_argv(argv, "/workspace", &hit), &hit);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    require(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    struct guard_hit hit;
    check_verdict(guard_check_shell(text, NULL, &hit), &hit);
    check_verdict(guard_check_shell(text, "/", &hit), &hit);
    check_argv(text);
    free(text);
    return 0;
}
