#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/error.h"
#include "base/str.h"
#include "imager/layer/manifest.h"

/* Other names that architectures go by, and the variant that is meant where none is told. */
static const struct {
    const char *name, *architecture, *variant;
} architectures[] = {
    {"amd64", "amd64", ""},
    {"x86_64", "amd64", ""},
    {"x86-64", "amd64", ""},
    {"arm64", "arm64", "v8"},
    {"aarch64", "arm64", "v8"},
    {"arm", "arm", "v7"},
    {"armv7l", "arm", "v7"},
    {"armhf", "arm", "v7"},
    {"armv6l", "arm", "v6"},
    {"armel", "arm", "v6"},
    {"386", "386", ""},
    {"i386", "386", ""},
    {"i686", "386", ""},
    {"ppc64le", "ppc64le", ""},
    {"s390x", "s390x", ""},
    {"riscv64", "riscv64", ""},
    {"mips64le", "mips64le", ""},
    {"loong64", "loong64", ""},
    {"loongarch64", "loong64", ""},
};

/* The same platform with the one name for its architecture, and its variant if that is implied. */
static struct platform canonical(const struct platform *p) {
    struct platform c = *p;
    for (size_t i = 0; i < ARRAY_LEN(architectures); i++) {
        if (!str_equal(p->architecture, architectures[i].name))
            continue;
        (void)snprintf(c.architecture, sizeof c.architecture, "%s", architectures[i].architecture);
        if (c.variant[0] == '\0')
            (void)snprintf(c.variant, sizeof c.variant, "%s", architectures[i].variant);
    }
    return c;
}

struct platform platform_here(void) {
    struct platform p = {.os = "linux"};
    struct utsname u;
    if (uname(&u) == 0)
        (void)snprintf(p.architecture, sizeof p.architecture, "%.31s", u.machine);
    return canonical(&p);
}

/* Copies the part of text up to the next slash; what follows it, NULL if there is none or the part
 * does not fit or is empty. */
static const char *take_part(const char *text, char *out, size_t size) {
    size_t len = strcspn(text, "/");
    if (len == 0 || len >= size || strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_.-") < len)
        return NULL;
    memcpy(out, text, len);
    out[len] = '\0';
    return text + len;
}

int platform_parse(const char *text, struct platform *ret, struct cay_error *err) {
    struct platform p = {0};
    const char *at = take_part(text, p.os, sizeof p.os);
    if (at != NULL && *at == '/')
        at = take_part(at + 1, p.architecture, sizeof p.architecture);
    if (at != NULL && *at == '/')
        at = take_part(at + 1, p.variant, sizeof p.variant);
    if (at == NULL || *at != '\0' || p.architecture[0] == '\0') {
        char shown[80];
        (void)error_set(err, CAY_INVALID_ARGUMENT, "'%s' is not a platform",
                        str_escape(shown, sizeof shown, text));
        return error_remedy(err, "write OS/ARCHITECTURE[/VARIANT], such as linux/arm64/v8");
    }
    *ret = canonical(&p);
    return 0;
}

/* "v7" is 7; -1 if it is of another form. */
static int level(const char *variant) {
    int64_t n;
    if (variant[0] == '\0')
        return 1; /* the first of its architecture */
    return variant[0] == 'v' && str_to_i64(variant + 1, 0, 99, &n) == 0 ? (int)n : -1;
}

/* Every variant runs what was made for a lower one. */
static unsigned match_variant(const char *image, const char *wanted) {
    enum { EXACT = 200 };
    if (str_equal(image, wanted))
        return EXACT;
    int have = level(image), want = level(wanted);
    return have >= 0 && have <= want ? 1 + (unsigned)have : 0;
}

unsigned platform_match(const struct platform *image, const struct platform *wanted) {
    struct platform i = canonical(image), w = canonical(wanted);
    if (i.os[0] != '\0' && !str_equal(i.os, w.os))
        return 0;
    if (i.architecture[0] == '\0')
        return 1;
    if (!str_equal(i.architecture, w.architecture))
        return 0;
    return match_variant(i.variant, w.variant);
}

const char *platform_format(const struct platform *platform, char out[static PLATFORM_TEXT_SIZE]) {
    char os[80], architecture[80], variant[80];
    (void)snprintf(
        out, PLATFORM_TEXT_SIZE, "%s/%s%s%s",
        str_escape(os, sizeof os, platform->os[0] != '\0' ? platform->os : "unknown"),
        str_escape(architecture, sizeof architecture,
                   platform->architecture[0] != '\0' ? platform->architecture : "unknown"),
        platform->variant[0] != '\0' ? "/" : "",
        str_escape(variant, sizeof variant, platform->variant));
    return out;
}
