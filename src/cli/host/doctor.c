/* `cay doctor`: what this host can isolate, what it cannot, and how to fix it. */
#include <cay.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/json/jsonw.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/host/doctor_engines.h"
#include "cli/host/doctor_space.h"
#include "engine/disk/disk.h"

enum { WALLS_MAX = 32 };

/* A host setting that is worth having; `least` is the smallest value that is good. */
static const struct sysctl {
    const char *name, *path;
    int64_t least, most;
    const char *why;
} sysctls[] = {
    {"dev.tty.legacy_tiocsti", "dev/tty/legacy_tiocsti", 0, 0, "typing into another terminal"},
    {"fs.protected_symlinks", "fs/protected_symlinks", 1, 1, "symlink races in /tmp"},
    {"fs.protected_hardlinks", "fs/protected_hardlinks", 1, 1, "hard links to foreign files"},
    {"fs.protected_fifos", "fs/protected_fifos", 1, 2, "planted fifos in /tmp"},
    {"fs.protected_regular", "fs/protected_regular", 1, 2, "planted files in /tmp"},
    {"kernel.unprivileged_bpf_disabled", "kernel/unprivileged_bpf_disabled", 1, 2, "bpf by users"},
    {"kernel.perf_event_paranoid", "kernel/perf_event_paranoid", 2, 4, "perf by users"},
    {"kernel.kptr_restrict", "kernel/kptr_restrict", 1, 2, "kernel addresses in /proc"},
    {"kernel.dmesg_restrict", "kernel/dmesg_restrict", 1, 1, "the kernel log for users"},
    {"kernel.io_uring_disabled", "kernel/io_uring_disabled", 1, 2, "io_uring by users"},
    {"vm.unprivileged_userfaultfd", "vm/unprivileged_userfaultfd", 0, 0, "userfaultfd by users"},
    {"user.max_user_namespaces", "user/max_user_namespaces", 1, INT64_MAX, "sandboxes need them"},
};

struct finding {
    bool present, ok;
    int64_t value;
};

static struct finding look_up(const struct sysctl *s) {
    char path[96], text[64];
    struct finding f = {0};
    (void)snprintf(path, sizeof path, "/proc/sys/%s", s->path);
    f.present = fd_read_file_at(AT_FDCWD, path, text, sizeof text) > 0 &&
                str_to_i64(text, INT64_MIN, INT64_MAX, &f.value) == 0;
    f.ok = !f.present || (f.value >= s->least && f.value <= s->most);
    return f;
}

/* Not a wall: where it is missing, a limit that is asked for is refused. */
struct disk_limits {
    bool ok;
    const char *detail, *remedy;
    struct cay_error err;
};

static void probe_disks(struct disk_limits *ret) {
    ret->ok = disk_probe(&ret->err) == 0;
    ret->detail = ret->ok ? "ext4 on a loop device for each sandbox that stays" : ret->err.message;
    ret->remedy = ret->ok ? "" : ret->err.remedy;
}

static void print_disks(struct buf *b, const struct disk_limits *d) {
    (void)buf_printf(b, "\nSandboxes that stay\n  %-8s %-22s %s\n", d->ok ? "ok" : "missing",
                     "disk limit", d->detail);
    if (!d->ok)
        (void)buf_printf(b, "           %-22s %s\n", "", d->remedy);
}

static void put_disks(struct jsonw *w, const struct disk_limits *d) {
    jsonw_key(w, "disk_limit");
    jsonw_begin_object(w);
    jsonw_put_bool(w, "ok", d->ok);
    jsonw_put_string(w, "detail", d->detail);
    jsonw_put_string(w, "remedy", d->remedy);
    jsonw_end_object(w);
}

static void print_json(struct buf *b, const cay_engine *engine, const struct cay_wall *walls,
                       size_t count, const struct finding *found, const struct disk_limits *disks,
                       const struct doctor_space *space, struct doctor_engines *engines,
                       const char *kernel) {
    struct jsonw w = JSONW_INIT(b);
    jsonw_begin_object(&w);
    jsonw_put_string(&w, "version", cay_version());
    jsonw_put_string(&w, "kernel", kernel);
    jsonw_put_string(&w, "tier", cay_engine_tier(engine));
    jsonw_key(&w, "walls");
    jsonw_begin_array(&w);
    for (size_t i = 0; i < count; i++) {
        jsonw_begin_object(&w);
        jsonw_put_string(&w, "name", walls[i].name);
        jsonw_put_bool(&w, "ok", walls[i].ok);
        jsonw_put_string(&w, "detail", walls[i].detail);
        jsonw_put_string(&w, "needed_for", walls[i].needed_for);
        jsonw_put_string(&w, "remedy", walls[i].remedy);
        jsonw_end_object(&w);
    }
    jsonw_end_array(&w);
    jsonw_key(&w, "sysctls");
    jsonw_begin_array(&w);
    for (size_t i = 0; i < ARRAY_LEN(sysctls); i++) {
        struct finding f = found[i];
        jsonw_begin_object(&w);
        jsonw_put_string(&w, "name", sysctls[i].name);
        jsonw_put_bool(&w, "present", f.present);
        if (f.present)
            jsonw_put_integer(&w, "value", f.value);
        jsonw_put_bool(&w, "ok", f.ok);
        jsonw_put_string(&w, "about", sysctls[i].why);
        jsonw_end_object(&w);
    }
    jsonw_end_array(&w);
    put_disks(&w, disks);
    doctor_put_space(&w, space);
    doctor_put_engines(&w, engines);
    jsonw_end_object(&w);
    (void)buf_putc(b, '\n');
}

static void print_walls(struct buf *b, const struct cay_wall *walls, size_t count) {
    for (size_t i = 0; i < count; i++) {
        (void)buf_printf(b, "  %-8s %-22s %s\n", walls[i].ok ? "ok" : "missing", walls[i].name,
                         walls[i].detail);
        if (!walls[i].ok)
            (void)buf_printf(b, "           %-22s needed for tier %s: %s\n", "",
                             walls[i].needed_for, walls[i].remedy);
    }
}

static void print_sysctls(struct buf *b, const struct finding *found) {
    for (size_t i = 0; i < ARRAY_LEN(sysctls); i++) {
        const struct sysctl *s = &sysctls[i];
        struct finding f = found[i];
        if (!f.present)
            continue;
        (void)buf_printf(b, "  %-8s %s = %lld", f.ok ? "ok" : "weak", s->name, (long long)f.value);
        if (!f.ok)
            (void)buf_printf(b, " (%s): sysctl %s=%lld", s->why, s->name, (long long)s->least);
        (void)buf_putc(b, '\n');
    }
}

static int run(const struct opt_command *cmd, void *values, int argc, char **argv) {
    const struct verb_common *common = values;
    (void)cmd, (void)argc, (void)argv;
    struct cay_error err;
    cay_engine *engine = NULL;
    /* Before the engine is opened: it may enter a user namespace with settings of its own. */
    struct finding found[ARRAY_LEN(sysctls)];
    for (size_t i = 0; i < ARRAY_LEN(sysctls); i++)
        found[i] = look_up(&sysctls[i]);
    struct disk_limits disks;
    probe_disks(&disks);
    struct doctor_space space;
    doctor_measure_space(common->state_dir, &space);
    _cleanup_(doctor_engines_free) struct doctor_engines engines;
    doctor_ask_engines(common->config, &engines);
    if (cay_engine_open(common->state_dir, &engine, &err) < 0)
        return verb_fail(&err);
    struct cay_wall walls[WALLS_MAX];
    size_t count = MIN(cay_engine_walls(engine, walls, WALLS_MAX), (size_t)WALLS_MAX);
    struct utsname name = {0};
    (void)uname(&name); /* cannot fail */
    _cleanup_(buf_free) struct buf b = BUF_INIT(256 * 1024);
    if (common->output == OUTPUT_JSON) {
        print_json(&b, engine, walls, count, found, &disks, &space, &engines, name.release);
    } else {
        (void)buf_printf(&b, "cay %s on Linux %s\n\nThis host gives tier %s.\n\nWalls\n",
                         cay_version(), name.release, cay_engine_tier(engine));
        print_walls(&b, walls, count);
        print_disks(&b, &disks);
        doctor_print_space(&b, &space);
        doctor_print_engines(&b, &engines);
        (void)buf_puts(&b, "\nHost settings\n");
        print_sysctls(&b, found);
    }
    cay_engine_close(engine);
    return verb_print(&b);
}

const struct opt_command cli_doctor = {
    .name = "doctor",
    .path = "cay doctor",
    .synopsis = "[OPTIONS]",
    .summary = "say what this host can isolate, and how to get what is missing",
    .values_size = sizeof(struct verb_common),
    .run = run,
};
