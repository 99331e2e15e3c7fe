/* Tests of who may do what: device nodes inside, and groups of ordinary users. */
#include "cgroup_env.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/fd.h"

enum { CHILD_SKIP = 77 };

static int open_errno(const char *path, int flags) {
    int fd = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    (void)close(fd);
    return 0;
}

/* In the folder: kmsg and block are nodes that the policy refuses. Says which check failed. */
static int try_devices(void *arg) {
    if (chdir(arg) < 0)
        return 1;
    static const struct {
        const char *path;
        int flags, result;
    } opens[] = {
        {"/dev/null", O_RDWR, 0},      {"/dev/zero", O_RDONLY, 0}, {"/dev/full", O_WRONLY, 0},
        {"/dev/urandom", O_RDONLY, 0}, {"/dev/ptmx", O_RDWR, 0},   {"kmsg", O_RDONLY, EPERM},
        {"block", O_RDONLY, EPERM},    {"null", O_RDWR, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(opens); i++)
        if (open_errno(opens[i].path, opens[i].flags) != opens[i].result)
            return 10 + (int)i;
    if (mknod("made", S_IFCHR | 0600, makedev(1, 3)) == 0 || errno != EPERM)
        return 2;
    if (mknod("made", S_IFBLK | 0600, makedev(7, 0)) == 0 || errno != EPERM)
        return 3;
    /* overlayfs makes these in the name of whoever removes a file */
    return mknod("whiteout", S_IFCHR | 0600, makedev(0, 0)) < 0 ? 4 : 0;
}

static void devices(void **state) {
    (void)state;
    need(D);
    char folder[] = "/tmp/cay-test-devices-XXXXXX";
    if (geteuid() != 0 || mkdtemp(folder) == NULL) {
        print_message("skipped: no root or no /tmp to make device nodes in\n");
        skip();
    }
    int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mknodat(dir, "kmsg", S_IFCHR | 0600, makedev(1, 11)), 0);
    assert_int_equal(mknodat(dir, "block", S_IFBLK | 0600, makedev(7, 0)), 0);
    assert_int_equal(mknodat(dir, "null", S_IFCHR | 0600, makedev(1, 3)), 0);
    char kmsg[64];
    assert_int_equal(str_format(kmsg, sizeof kmsg, "%s/kmsg", folder), 0);
    /* it is the group that refuses it, not the file system */
    bool usable = open_errno(kmsg, O_RDONLY) == 0;
    struct cgroup cgroup = make(ID, limits_of(0, 0, 0));
    int result = usable ? run(&cgroup, try_devices, folder) : CHILD_SKIP;
    drop(&cgroup);
    static const char *const names[] = {"kmsg", "block", "null", "whiteout", "made"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        (void)unlinkat(dir, names[i], 0);
    (void)close(dir);
    assert_int_equal(rmdir(folder), 0);
    if (result == CHILD_SKIP) {
        print_message("skipped: device nodes in /tmp cannot be opened at all\n");
        skip();
    }
    assert_int_equal(result, 0);
}

static void devices_survive_tampering(void **state) {
    (void)state;
    need(D);
    if (env.host.version != CGROUP_V1) {
        print_message("skipped: v1 only\n");
        skip();
    }
    int folder = env.host.hierarchies[env.host.where[CGROUP_DEVICES]].parent;
    char before[512], after[512];
    assert_true(fd_read_file_at(folder, "devices.list", before, sizeof before) > 0);
    assert_int_equal(fd_write_file_at(folder, "devices.allow", "c 10:* rwm"), 0);
    assert_int_equal(cgroup_devices_v1(folder), 0);
    assert_true(fd_read_file_at(folder, "devices.list", after, sizeof after) > 0);
    assert_string_equal(after, before);
}

/* What an ordinary user finds without a group of its own. */
static int probe_as_nobody(void *arg) {
    (void)arg;
    struct cgroup_host host;
    struct cay_error err = {0};
    struct cgroup cgroup;
    struct cgroup_limits l = {.memory_bytes = 32 * MB};
    if (setgid(65534) < 0 || setuid(65534) < 0)
        return 1;
    if (cgroup_probe_at(env.unified, "cay-test-nobody", &host, &err) < 0)
        return 2;
    for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++)
        if (c != CGROUP_IO && (host.support[c].usable || host.support[c].reason[0] == '\0' ||
                               host.support[c].remedy[0] == '\0'))
            return 10 + (int)c;
    if (cgroup_create(&host, ID, &l, &cgroup, &err) != -CAY_UNSUPPORTED || err.remedy[0] == '\0')
        return 3;
    l.memory_bytes = 0; /* whoever accepts to be without limits gets an empty one */
    if (cgroup_create(&host, ID, &l, &cgroup, &err) < 0 || cgroup_attach_self(&cgroup) < 0)
        return 4;
    return cgroup_remove(&host, ID, 0, &err) < 0 ? 5 : 0;
}

static void as_nobody(void **state) {
    (void)state;
    need(0);
    if (geteuid() != 0) {
        print_message("skipped: not root\n");
        skip();
    }
    pid_t pid = fork();
    if (pid == 0)
        _exit(probe_as_nobody(NULL));
    assert_int_equal(wait_for(pid), 0);
}

/* In a delegated group: the whole life of a sandbox without root. Says which step failed. */
static int delegated_life(void) {
    struct cgroup_host host;
    struct cay_error err = {0};
    struct cgroup cgroup;
    struct cgroup_limits l = {.memory_bytes = 32 * MB, .cpu_quota_us_per_100ms = 50000, .pids = 20};
    if (cgroup_probe_at(env.unified, "boxes", &host, &err) < 0)
        return 20;
    env.host = host; /* for run() */
    if (cgroup_create(&host, ID, &l, &cgroup, &err) < 0) {
        print_message("%s (%s)\n", err.message, err.remedy);
        return 21;
    }
    int result = run(&cgroup, nothing, NULL);
    cgroup_close(&cgroup);
    if (result == 0 && cgroup_remove(&host, ID, clock_deadline(SOON_MS), &err) < 0)
        result = 22;
    cgroup_host_close(&host);
    return result;
}

static int as_delegated_user(void *arg) {
    bool *crowded = arg;
    if (setgid(65534) < 0 || setuid(65534) < 0)
        return 1;
    if (*crowded) { /* with somebody else in the group nothing can be handed down */
        struct cgroup_host host;
        struct cay_error err = {0};
        pid_t other = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (other == 0)
            return sleeper(NULL);
        int r = cgroup_probe_at(env.unified, "boxes", &host, &err);
        (void)kill(other, SIGKILL);
        (void)waitpid(other, NULL, 0);
        if (r < 0 || host.support[CGROUP_MEMORY].usable ||
            strstr(host.support[CGROUP_MEMORY].reason, "other processes") == NULL ||
            strstr(host.support[CGROUP_MEMORY].remedy, "Delegate=yes") == NULL)
            return 2;
        return 0;
    }
    int r = delegated_life();
    return r != 0 ? r : delegated_life(); /* now from the leaf that it moved to */
}

static int chown_group(int dir) {
    static const char *const files[] = {".", "cgroup.procs", "cgroup.subtree_control",
                                        "cgroup.threads"};
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        if (fchownat(dir, files[i], 65534, 65534, 0) < 0)
            return -errno;
    return 0;
}

/* A sandbox's group serves as the one that a session manager would hand to a user. */
static void delegated(void **state) {
    (void)state;
    need(M | P | C);
    if (env.host.version != CGROUP_V2 || geteuid() != 0) {
        print_message("skipped: needs v2 and root\n");
        skip();
    }
    struct cgroup_host saved = env.host;
    for (int crowded = 1; crowded >= 0; crowded--) {
        bool flag = crowded != 0;
        struct cgroup cgroup = make(ID, limits_of(0, 0, 0));
        assert_int_equal(chown_group(cgroup.dirfd), 0);
        int result = run(&cgroup, as_delegated_user, &flag);
        (void)unlinkat(cgroup.dirfd, "boxes", AT_REMOVEDIR);
        (void)unlinkat(cgroup.dirfd, "cay.self", AT_REMOVEDIR);
        env.host = saved;
        drop(&cgroup);
        assert_int_equal(result, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices),
        cmocka_unit_test(devices_survive_tampering),
        cmocka_unit_test(as_nobody),
        cmocka_unit_test(delegated),
    };
    return RUN_ON_EACH_TREE(tests);
}
