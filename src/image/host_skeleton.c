#include "image/host_skeleton.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "image/copy_tree.h"
#include "image/host.h"

#define CERTIFICATES "usr/share/ca-certificates/mozilla"

enum { CERTIFICATES_MAX = 1000 };

const char *const host_tops[HOST_TOP_COUNT] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

/* Bump when the content below changes, so that skeletons of older versions are not used. */
static const char skeleton_version[] = "cay host skeleton 3";

/* What the skeleton depends on. A folder's time changes when an entry comes, goes or is replaced,
 * which is how package managers write. */
static const char *const inputs[] = {
    "bin/bash",         "etc/alternatives",   "etc/debian_version", "etc/fonts",
    "etc/fonts/conf.d", "etc/inputrc",        "etc/ld.so.cache",    "etc/ld.so.conf.d",
    "etc/login.defs",   "etc/magic",          "etc/matplotlibrc",   "etc/mime.types",
    "etc/perl",         "etc/python3",        "etc/services",       "etc/ssl/openssl.cnf",
    "usr/lib/jvm",      "usr/lib/os-release", CERTIFICATES,
};

struct folder {
    const char *path;
    unsigned mode;
};

/* Parents before children. */
static const struct folder folders[] = {
    {"usr", 0755},           {"dev", 0755},
    {"proc", 0755},          {"tmp", 01777},
    {"run", 0755},           {"var", 0755},
    {"var/tmp", 01777},      {"var/log", 0755},
    {"var/lib", 0755},       {"var/cache", 0755},
    {"root", 0700},          {"home", 0755},
    {"home/user", 01777},    {"workspace", 01777}, /* whoever the command runs as works there */
    {"etc", 0755},           {"etc/ssl", 0755},
    {"etc/ssl/certs", 0755}, {"opt", 0755},
    {"srv", 0755},           {"mnt", 0755},
    {"media", 0755},         {"var/cache/fontconfig", 0755},
};

struct text {
    const char *path;
    unsigned mode;
    const char *content;
};

static const struct text texts[] = {
    {"etc/group", 0644,
     "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\nmail:x:8:\nshadow:x:42:\n"
     "utmp:x:43:\nstaff:x:50:\nusers:x:100:\nuser:x:1000:\ncay:x:65533:\nnogroup:x:65534:\n"},
    {"etc/shadow", 0640,
     "root:*:19000:0:99999:7:::\ndaemon:*:19000:0:99999:7:::\nuser:*:19000:0:99999:7:::\n"
     "cay:*:19000:0:99999:7:::\nnobody:*:19000:0:99999:7:::\n"},
    {"etc/nsswitch.conf", 0644,
     "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
     "protocols: files\nservices: files\nrpc: files\n"},
    {"etc/hosts", 0644, "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"},
    {"etc/hostname", 0644, "sandbox\n"},
    {"etc/resolv.conf", 0644, "# No name server: this sandbox's network has none.\n"},
    {"etc/host.conf", 0644, "multi on\n"},
    {"etc/machine-id", 0444, ""}, /* each sandbox gets its own */
    {"etc/timezone", 0644, "Etc/UTC\n"},
    {"etc/profile", 0644,
     "# Login shells in a cay sandbox.\n"
     "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
     "export PATH\n"
     "if [ -n \"${BASH_VERSION-}\" ]; then\n    . /etc/bash.bashrc\nfi\n"},
    {"etc/bash.bashrc", 0644,
     "# Interactive shells in a cay sandbox.\n"
     "if [ -n \"${PS1-}\" ]; then\n    PS1='\\u@\\h:\\w\\$ '\n    shopt -s checkwinsize\nfi\n"},
};

struct link {
    const char *path;
    const char *target;
};

static const struct link links[] = {
    {"etc/localtime", "/usr/share/zoneinfo/Etc/UTC"},
    {"etc/mtab", "/proc/self/mounts"},
    {"var/run", "/run"},
};

/* Public defaults of packages. Whatever may hold a secret or name the site stays out. */
static const char *const copies[] = {
    "debian_version", "fonts",     "inputrc",    "ld.so.cache", "ld.so.conf",   "ld.so.conf.d",
    "locale.alias",   "magic",     "login.defs", "magic.mime",  "matplotlibrc", "mime.types",
    "perl",           "protocols", "rpc",        "python3",     "services",
};

static const char *const shells[] = {
    "/bin/sh", "/usr/bin/sh", "/bin/bash", "/usr/bin/bash", "/bin/dash", "/usr/bin/dash",
};

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t len) {
    const unsigned char *p = data;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ p[i]) * 0x100000001b3; /* FNV-1a */
    return hash;
}

static uint64_t hash_stat(uint64_t hash, int host_root, const char *path) {
    struct stat st;
    uint64_t fields[6] = {0};
    if (fstatat(host_root, path, &st, 0) == 0) {
        fields[0] = st.st_dev;
        fields[1] = st.st_ino;
        fields[2] = st.st_mode;
        fields[3] = (uint64_t)st.st_size;
        fields[4] = (uint64_t)st.st_mtim.tv_sec;
        fields[5] = (uint64_t)st.st_mtim.tv_nsec;
    }
    return hash_bytes(hash, fields, sizeof fields);
}

/* Hashes how the host has a top-level folder, and returns it. What is in a real folder does not
 * matter: it is bound. */
static enum host_top_kind hash_top(uint64_t *hash, int host_root, const char *name) {
    struct stat st = {0};
    enum host_top_kind kind = HOST_TOP_ABSENT;
    if (fstatat(host_root, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        kind = S_ISLNK(st.st_mode)   ? HOST_TOP_LINK
               : S_ISDIR(st.st_mode) ? HOST_TOP_FOLDER
                                     : HOST_TOP_ABSENT;
    uint64_t fields[2] = {kind, kind == HOST_TOP_LINK ? st.st_ino : 0};
    *hash = hash_bytes(*hash, fields, sizeof fields);
    return kind;
}

uint64_t host_skeleton_fingerprint(int host_root, struct host_layout *ret) {
    uint64_t hash = hash_bytes(0xcbf29ce484222325, skeleton_version, sizeof skeleton_version);
    uid_t owner = geteuid();
    hash = hash_bytes(hash, &owner, sizeof owner);
    for (size_t i = 0; i < HOST_TOP_COUNT; i++)
        ret->tops[i] = hash_top(&hash, host_root, host_tops[i]);
    for (size_t i = 0; i < ARRAY_LEN(inputs); i++)
        hash = hash_stat(hash, host_root, inputs[i]);
    return hash;
}

/* /bin and its like: the same link as on the host, or a folder to bind the host's onto. */
static int make_top(int host_root, int dest, const char *name, enum host_top_kind kind) {
    if (kind == HOST_TOP_ABSENT)
        return 0;
    if (kind == HOST_TOP_FOLDER)
        return copy_make_dir(dest, name, 0755);
    char target[PATH_MAX];
    ssize_t n = readlinkat(host_root, name, target, sizeof target - 1);
    if (n < 0)
        return -errno;
    target[n] = '\0';
    return symlinkat(target, dest, name) < 0 ? -errno : 0;
}

static int make_tops(int host_root, int dest, const struct host_layout *layout) {
    for (size_t i = 0; i < HOST_TOP_COUNT; i++) {
        int r = make_top(host_root, dest, host_tops[i], layout->tops[i]);
        if (r < 0)
            return r;
    }
    return 0;
}

static int make_folders(int dest) {
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        int r = copy_make_dir(dest, folders[i].path, folders[i].mode);
        if (r < 0)
            return r;
    }
    return 0;
}

static int make_texts(int dest) {
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        const struct text *t = &texts[i];
        int r = copy_text(dest, t->path, t->mode, t->content, strlen(t->content));
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < ARRAY_LEN(links); i++)
        if (symlinkat(links[i].target, dest, links[i].path) < 0)
            return -errno;
    return 0;
}

static bool host_has(int host_root, const char *path) {
    return faccessat(host_root, path + strspn(path, "/"), F_OK, 0) == 0;
}

enum { ID_MAX = 65535 };

/* Group and user have the same number. */
static const struct account {
    const char *name, *home;
    unsigned id;
    bool login;
} accounts[] = {
    {"root", "/root", 0, true},
    {"daemon", "/usr/sbin", 1, false},
    {"user", "/home/user", 1000, true},
    {"cay", "/nonexistent", 65533, false},
    {"nobody", "/nonexistent", 65534, false},
};

static bool find_account(const char *text, unsigned *uid, unsigned *gid) {
    uint64_t number = 0;
    bool is_number = str_to_u64(text, ID_MAX, &number) == 0;
    for (size_t i = 0; i < ARRAY_LEN(accounts); i++) {
        if (is_number ? accounts[i].id != number : strcmp(accounts[i].name, text) != 0)
            continue;
        *uid = *gid = accounts[i].id;
        return true;
    }
    *uid = (unsigned)number;
    *gid = 0;
    return is_number;
}

bool host_image_user(const char *text, unsigned *uid, unsigned *gid) {
    char name[64];
    unsigned group, own;
    size_t len = strcspn(text, ":");
    if (len >= sizeof name)
        return false;
    memcpy(name, text, len);
    name[len] = '\0';
    if (!find_account(name, uid, gid))
        return false;
    if (text[len] == ':' && find_account(text + len + 1, &group, &own))
        *gid = group;
    return true;
}

static int make_accounts(int host_root, int dest) {
    const char *shell = host_has(host_root, "/bin/bash") ? "/bin/bash" : "/bin/sh";
    _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
    for (size_t i = 0; i < ARRAY_LEN(accounts); i++) {
        const struct account *a = &accounts[i];
        (void)buf_printf(&b, "%s:x:%u:%u:%s:%s:%s\n", a->name, a->id, a->id, a->name, a->home,
                         a->login ? shell : "/usr/sbin/nologin");
    }
    int r = b.failed ? -ENOMEM : copy_text(dest, "etc/passwd", 0644, b.data, b.len);
    if (r < 0)
        return r;
    buf_clear(&b);
    for (size_t i = 0; i < ARRAY_LEN(shells); i++)
        if (host_has(host_root, shells[i]))
            (void)buf_printf(&b, "%s\n", shells[i]);
    return b.failed ? -ENOMEM : copy_text(dest, "etc/shells", 0644, buf_text(&b), b.len);
}

static int copy_if_java(void *user, int host_etc, const char *name) {
    struct copy_tree c = {0};
    bool is_java = str_starts(name, "java-") && str_ends(name, "-openjdk");
    return is_java ? copy_tree(&c, host_etc, name, *(const int *)user) : 0;
}

/* Java keeps its configuration in /etc, one folder for each version. */
static int copy_java(int host_etc, int etc) {
    return path_each(host_etc, copy_if_java, &etc);
}

static int copy_ssl(int host_etc, int etc) {
    _cleanup_(closep) int from = openat(host_etc, "ssl", O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_(closep) int to = openat(etc, "ssl", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (to < 0)
        return -errno;
    struct copy_tree c = {0};
    return from < 0 ? 0 : copy_tree(&c, from, "openssl.cnf", to);
}

/* Distributions keep the text in /usr and a link to it in /etc; others only the file. */
static int make_os_release(int host_root, int host_etc, int etc) {
    if (host_has(host_root, "/usr/lib/os-release"))
        return symlinkat("../usr/lib/os-release", etc, "os-release") < 0 ? -errno : 0;
    struct copy_tree c = {0};
    return copy_tree(&c, host_etc, "os-release", etc);
}

static int copy_etc(int host_root, int dest) {
    _cleanup_(closep) int from = openat(host_root, "etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_(closep) int etc = openat(dest, "etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (from < 0 || etc < 0)
        return -errno;
    for (size_t i = 0; i < ARRAY_LEN(copies); i++) {
        struct copy_tree c = {0};
        int r = copy_tree(&c, from, copies[i], etc);
        if (r < 0)
            return r;
    }
    struct copy_tree alternatives = {.only_usr_links = true};
    int r = copy_tree(&alternatives, from, "alternatives", etc);
    if (r == 0)
        r = copy_java(from, etc);
    if (r == 0)
        r = copy_ssl(from, etc);
    return r < 0 ? r : make_os_release(host_root, from, etc);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int take_certificate(void *user, int dir, const char *name) {
    (void)dir;
    struct strv *names = user;
    if (names->len >= CERTIFICATES_MAX || !str_ends(name, ".crt"))
        return 0;
    return strv_push(names, name);
}

/* The names of the certificates, sorted so that the same host gives the same bundle. */
static int list_certificates(int dir, struct strv *names) {
    int r = path_each(dir, take_certificate, names);
    if (r == 0 && names->len > 0)
        qsort(names->v, names->len, sizeof *names->v, by_name);
    return r;
}

static int append_file(int dir, const char *name, struct buf *to) {
    _cleanup_(closep) int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    int r = fd_read_to_end(fd, to);
    if (r < 0)
        return r;
    return to->len > 0 && to->data[to->len - 1] != '\n' ? buf_putc(to, '\n') : 0;
}

/* The bundle is made from the package's public certificates: the host's own bundle also has the
 * private authorities of its site, which would tell whose host it is. */
static int make_certificates(int host_root, int dest) {
    _cleanup_(closep) int dir = openat(host_root, CERTIFICATES, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return 0;
    _cleanup_(strv_free) struct strv names = {0};
    int r = list_certificates(dir, &names);
    if (r < 0)
        return r;
    _cleanup_(buf_free) struct buf bundle = BUF_INIT(COPY_FILE_MAX);
    for (size_t i = 0; i < names.len; i++) {
        r = append_file(dir, names.v[i], &bundle);
        if (r < 0)
            return r;
    }
    return copy_text(dest, "etc/ssl/certs/ca-certificates.crt", 0644, buf_text(&bundle),
                     bundle.len);
}

int host_skeleton_build(int host_root, const struct host_layout *layout, int dest,
                        struct cay_error *err) {
    int r = make_folders(dest);
    if (r == 0)
        r = make_tops(host_root, dest, layout);
    if (r == 0)
        r = make_texts(dest);
    if (r == 0)
        r = make_accounts(host_root, dest);
    if (r == 0)
        r = copy_etc(host_root, dest);
    if (r == 0)
        r = make_certificates(host_root, dest);
    return r < 0 ? error_sys(err, -r, "writing the host image") : 0;
}
