#include "guard/guard_path.h"

#include <ctype.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "guard/shell_parse.h"

static const struct {
    const char *path;
    enum guard_place place;
} places[] = {
    {"/bin", PLACE_SYSTEM},      {"/boot", PLACE_SYSTEM},      {"/dev", PLACE_SYSTEM},
    {"/etc", PLACE_SYSTEM},      {"/home", PLACE_SYSTEM},      {"/lib", PLACE_SYSTEM},
    {"/lib32", PLACE_SYSTEM},    {"/lib64", PLACE_SYSTEM},     {"/libx32", PLACE_SYSTEM},
    {"/proc", PLACE_SYSTEM},     {"/root", PLACE_SYSTEM},      {"/run", PLACE_SYSTEM},
    {"/sbin", PLACE_SYSTEM},     {"/sys", PLACE_SYSTEM},       {"/usr", PLACE_SYSTEM},
    {"/var", PLACE_SYSTEM},      {"/usr/bin", PLACE_SYSTEM},   {"/usr/lib", PLACE_SYSTEM},
    {"/usr/sbin", PLACE_SYSTEM}, {"/usr/lib64", PLACE_SYSTEM}, {"/usr/share", PLACE_SYSTEM},
    {"/var/lib", PLACE_SYSTEM},  {"/opt", PLACE_SHARED},       {"/srv", PLACE_SHARED},
    {"/mnt", PLACE_SHARED},      {"/media", PLACE_SHARED},
};

static const char *const critical_files[] = {
    "/etc/passwd",        "/etc/shadow", "/etc/group",    "/etc/gshadow",        "/etc/sudoers",
    "/etc/ld.so.preload", "/etc/fstab",  "/etc/pam.conf", "/proc/sysrq-trigger",
};

/* What the name below /dev begins with; the next byte is a digit, a letter or a pattern. */
static const struct {
    const char *prefix;
    bool digit;
} disks[] = {
    {"sd", false},    {"hd", false}, {"vd", false},  {"xvd", false},     {"nvme", true},
    {"mmcblk", true}, {"dm-", true}, {"md", true},   {"loop", true},     {"nbd", true},
    {"sr", true},     {"ram", true}, {"zram", true}, {"mapper/", false}, {"disk/", false},
};

/* Appends the components of `from` to out (which begins with `floor` bytes that ".." keeps). */
static bool append_components(char *out, size_t floor, const char *from) {
    size_t at = strlen(out);
    while (*from != '\0') {
        from += strspn(from, "/");
        size_t len = strcspn(from, "/");
        if (len == 2 && memcmp(from, "..", 2) == 0) {
            while (at > floor && out[--at] != '/')
                ;
        } else if (len > 0 && !(len == 1 && *from == '.')) {
            if (at + len + 2 > PATH_MAX)
                return false;
            out[at++] = '/';
            memcpy(out + at, from, len);
            at += len;
        }
        from += len;
        out[at] = '\0';
    }
    return true;
}

bool guard_path_resolve(const char *word, const char *cwd, char out[static PATH_MAX]) {
    if (strlen(word) >= PATH_MAX || word[0] == '\0')
        return false;
    bool home = word[0] == SHELL_HOME && (word[1] == '/' || word[1] == '\0');
    bool relative = word[0] != '/' && !home;
    if (relative && (cwd == NULL || word[0] == SHELL_UNKNOWN || word[0] == SHELL_HOME))
        return false;
    out[0] = home || (relative && cwd[0] == SHELL_HOME) ? SHELL_HOME : '\0';
    out[1] = '\0';
    size_t floor = strlen(out);
    if (relative && !append_components(out, floor, cwd + (cwd[0] == SHELL_HOME)))
        return false;
    if (!append_components(out, floor, word + home))
        return false;
    return out[0] != '\0' || str_copy(out, PATH_MAX, "/") == 0;
}

static bool matches_all(const char *component) {
    bool star = false;
    for (const char *p = component; *p != '\0'; p++) {
        star = star || *p == SHELL_STAR;
        if (*p != SHELL_STAR && *p != SHELL_ANY && *p != '.')
            return false;
    }
    return star;
}

void guard_path_drop_star(char *path) {
    char *slash = strrchr(path, '/');
    if (slash == NULL || !matches_all(slash + 1))
        return;
    slash[slash == path] = '\0';
}

/* One element of a pattern that matches any single byte; returns its length, 0 if it is none. */
static size_t any_byte(const char *pattern) {
    if (*pattern == SHELL_ANY)
        return 1;
    if (*pattern != SHELL_SET)
        return 0;
    size_t len = strcspn(pattern, "/]");
    return pattern[len] == ']' ? len + 1 : 1;
}

/* Whether a path with patterns could be exactly this name. A star never crosses a slash. */
static bool could_be(const char *pattern, const char *name) {
    const char *star = NULL, *retry = NULL;
    while (*name != '\0') {
        size_t any = any_byte(pattern);
        if (*pattern == SHELL_STAR) {
            star = ++pattern;
            retry = name;
        } else if (*pattern == *name || (any > 0 && *name != '/')) {
            pattern += any > 0 ? any : 1;
            name++;
        } else if (star != NULL && *retry != '/') {
            pattern = star;
            name = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == SHELL_STAR)
        pattern++;
    return *pattern == '\0';
}

enum guard_place guard_path_place(const char *path) {
    if (strcmp(path, "/") == 0)
        return PLACE_ROOT;
    if (path[0] == SHELL_HOME)
        return path[1] == '\0' ? PLACE_HOME : PLACE_OTHER;
    /* "/$name" is the root when the variable is empty. */
    if (path[1] == SHELL_UNKNOWN && path[1 + strspn(path + 1, "\x08")] == '\0')
        return PLACE_ROOT;
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (could_be(path, places[i].path))
            return places[i].place;
    return PLACE_OTHER;
}

bool guard_path_is_disk(const char *path) {
    if (!str_starts(path, "/dev/"))
        return false;
    const char *name = path + strlen("/dev/");
    for (size_t i = 0; i < ARRAY_LEN(disks); i++) {
        if (!str_starts(name, disks[i].prefix))
            continue;
        unsigned char next = (unsigned char)name[strlen(disks[i].prefix)];
        if (disks[i].digit ? isdigit(next) : isalnum(next))
            return true;
        if (next > 0 && next < 0x20) /* a pattern or a variable */
            return true;
    }
    return strcmp(name, "mem") == 0 || strcmp(name, "kmem") == 0 || strcmp(name, "port") == 0;
}

bool guard_path_is_critical(const char *path) {
    for (size_t i = 0; i < ARRAY_LEN(critical_files); i++)
        if (could_be(path, critical_files[i]))
            return true;
    return false;
}
