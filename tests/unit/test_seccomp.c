/* Tests of the seccomp filter: the compiled program, run by an interpreter of ours and by the
 * kernel, against the table. Whether the table itself is right: test_seccomp_policy.c. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <linux/audit.h>
#include <linux/bpf_common.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "confine/seccomp.h"

enum { LAST_NR = 1023, LONGEST_PATH = 25 };

static const struct seccomp_options all_options[] = {
    {false, false, false},       {true, false, false},      {false, true, false},
    {true, true, false},         {false, false, true},      {true, false, true},
    {false, true, true},         {true, true, true},        {.whose = SECCOMP_FRONT},
    {.whose = SECCOMP_LAUNCHER}, {.whose = SECCOMP_EGRESS},
};

struct program {
    struct sock_filter insns[SECCOMP_MAX_INSNS];
    size_t len;
};

static void build(const struct seccomp_options *o, struct program *p) {
    int n = seccomp_build(o, p->insns, ARRAY_LEN(p->insns));
    assert_true(n > 0);
    p->len = (size_t)n;
}

struct outcome {
    uint32_t action;
    size_t steps;
    bool constant; /* looked at the number and architecture only */
};

static uint32_t load_word(const struct seccomp_data *data, uint32_t offset) {
    assert_int_equal(offset % 4, 0);
    assert_true(offset + 4 <= sizeof *data);
    uint32_t word;
    memcpy(&word, (const char *)data + offset, sizeof word);
    return word;
}

static bool jump_taken(const struct sock_filter *i, uint32_t a) {
    switch (BPF_OP(i->code)) {
    case BPF_JEQ:
        return a == i->k;
    case BPF_JGE:
        return a >= i->k;
    case BPF_JGT:
        return a > i->k;
    case BPF_JSET:
        return (a & i->k) != 0;
    default:
        fail_msg("unknown jump %#x", i->code);
        return false;
    }
}

/* Runs the program as the kernel would; fails on anything that the kernel would refuse. */
static struct outcome run(const struct program *p, const struct seccomp_data *data) {
    struct outcome r = {.constant = true};
    uint32_t a = 0;
    for (size_t pc = 0; pc < p->len; pc++) {
        const struct sock_filter *i = &p->insns[pc];
        r.steps++;
        switch (BPF_CLASS(i->code)) {
        case BPF_LD:
            assert_int_equal(i->code, BPF_LD | BPF_W | BPF_ABS);
            a = load_word(data, i->k);
            r.constant = r.constant && i->k < offsetof(struct seccomp_data, instruction_pointer);
            break;
        case BPF_ALU:
            assert_int_equal(i->code, BPF_ALU | BPF_AND | BPF_K);
            a &= i->k;
            break;
        case BPF_JMP:
            if (BPF_OP(i->code) == BPF_JA)
                pc += i->k;
            else
                pc += jump_taken(i, a) ? i->jt : i->jf;
            break;
        case BPF_RET:
            r.action = i->k;
            return r;
        default:
            fail_msg("unknown instruction %#x", i->code);
        }
    }
    fail_msg("the program ran off its end");
    return r;
}

static void check(const struct program *p, const struct seccomp_options *o, uint32_t nr,
                  const uint64_t args[6]) {
    struct seccomp_data data = {.nr = (int)nr, .arch = AUDIT_ARCH_X86_64};
    memcpy(data.args, args, sizeof data.args);
    uint32_t got = run(p, &data).action;
    uint32_t want = seccomp_action(seccomp_expect(o, nr, args));
    if (got != want)
        fail_msg("call %u (%#llx, %#llx, %#llx): filter %#x, table %#x", nr,
                 (unsigned long long)args[0], (unsigned long long)args[1],
                 (unsigned long long)args[2], got, want);
}

static const uint64_t samples[] = {
    0,          1,           2,          3,         5,          6,          8,          10,
    16,         17,          35,         41,        58,         62,         64,         65,
    66,         67,          96,         128,       0x80,       0x1000,     0x2000,     0x5412,
    0x541c,     0x5423,      0x8000,     0xc000,    0x20000,    0x20008,    0x40000,    0x80000,
    0x80001,    0x80801,     0x3d0f00,   0x2000000, 0x10000000, 0x20000000, 0x40000000, 0x80000000,
    0xffffffff, 0x100000000, UINT64_MAX, 0x40,      0x400,      0x800,      0xc00,      0x8c00,
    0x400000,   0x410000,    0x400040,   0xdff,
};

/* Every number with every sample in each of the first four arguments, in all of them, and beside
 * values that let another argument count. */
static void filter_equals_table(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(all_options); i++) {
        struct program p;
        build(&all_options[i], &p);
        for (uint32_t nr = 0; nr <= LAST_NR; nr++) {
            for (size_t s = 0; s < ARRAY_LEN(samples); s++) {
                uint64_t v = samples[s];
                const uint64_t args[][6] = {{v},
                                            {0, v},
                                            {0, 0, v},
                                            {v, v, v, v, v, v},
                                            {2, v, 0},
                                            {1, v, 0},
                                            {10, v, 58},
                                            {0, 0, 0, v},
                                            {0, 0x40, v, 0xc00},
                                            {0, v, 0x800, 0},
                                            {0, 0, 0x40, v},
                                            {0, 0, v, 0x400}};
                for (size_t k = 0; k < ARRAY_LEN(args); k++)
                    check(&p, &all_options[i], nr, args[k]);
            }
        }
    }
}

/* The filter searches the requests of ioctl: every value of the halves that they are made of. */
static void filter_equals_table_for_ioctl(void **state) {
    (void)state;
    static const uint32_t upper[] = {0,      0x4004, 0x4020, 0x402c, 0x8004,
                                     0x8008, 0x801c, 0x802c, 0xffff};
    const struct seccomp_options o = {0};
    struct program p;
    build(&o, &p);
    for (size_t i = 0; i < ARRAY_LEN(upper); i++) {
        for (uint32_t low = 0; low <= UINT16_MAX; low++) {
            const uint64_t args[6] = {0, upper[i] << 16 | low};
            check(&p, &o, 16, args);
        }
    }
}

/* xorshift64: repeatable without the process's random state. */
static uint64_t next_random(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static uint64_t random_argument(uint64_t *seed) {
    uint64_t r = next_random(seed);
    uint64_t sample = samples[(r >> 8) % ARRAY_LEN(samples)];
    switch (r % 4) {
    case 0:
        return next_random(seed);
    case 1:
        return sample | (next_random(seed) & 0x80800);
    case 2:
        return sample | next_random(seed) << 32;
    default:
        return sample;
    }
}

static void filter_equals_table_at_random(void **state) {
    (void)state;
    static const uint32_t conditional[] = {2,   16,  41,  53,  54,  56,  83,  85,  90,  91, 133,
                                           135, 157, 257, 258, 259, 268, 272, 321, 437, 452};
    uint64_t seed = 0x9e3779b97f4a7c15;
    struct program p[ARRAY_LEN(all_options)];
    for (size_t i = 0; i < ARRAY_LEN(all_options); i++)
        build(&all_options[i], &p[i]);
    for (int round = 0; round < 100000; round++) {
        size_t i = next_random(&seed) % ARRAY_LEN(all_options);
        uint64_t args[6];
        for (size_t k = 0; k < 6; k++)
            args[k] = random_argument(&seed);
        uint32_t nr = (uint32_t)(round % 8 == 0 ? next_random(&seed) : next_random(&seed) % 600);
        if (round % 2 == 0)
            nr = conditional[next_random(&seed) % ARRAY_LEN(conditional)];
        check(&p[i], &all_options[i], nr, args);
    }
}

static void foreign_abis_are_killed(void **state) {
    (void)state;
    static const uint32_t arches[] = {AUDIT_ARCH_I386, AUDIT_ARCH_AARCH64,   AUDIT_ARCH_ARM, 0,
                                      UINT32_MAX,      AUDIT_ARCH_X86_64 ^ 1};
    for (size_t i = 0; i < ARRAY_LEN(all_options); i++) {
        struct program p;
        build(&all_options[i], &p);
        for (uint32_t nr = 0; nr <= LAST_NR; nr++) {
            struct seccomp_data data = {.nr = (int)(nr | 0x40000000), .arch = AUDIT_ARCH_X86_64};
            assert_int_equal(run(&p, &data).action, SECCOMP_RET_KILL_PROCESS);
            data.nr = (int)nr;
            for (size_t k = 0; k < ARRAY_LEN(arches); k++) {
                data.arch = arches[k];
                assert_int_equal(run(&p, &data).action, SECCOMP_RET_KILL_PROCESS);
            }
        }
        struct seccomp_data data = {.nr = -1, .arch = AUDIT_ARCH_X86_64};
        assert_int_equal(run(&p, &data).action, SECCOMP_RET_KILL_PROCESS);
        data.nr = 0x3fffffff;
        assert_int_equal(run(&p, &data).action, all_options[i].whose == SECCOMP_LAUNCHER
                                                    ? SECCOMP_RET_ALLOW
                                                    : SECCOMP_RET_ERRNO | ENOSYS);
    }
}

/* The kernel answers "always allowed" from a bitmap that it fills by walking the program for each
 * number; that is most of the cost of loading it. */
static void paths_are_short(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(all_options); i++) {
        struct program p;
        build(&all_options[i], &p);
        assert_true(p.len < BPF_MAXINSNS);
        size_t longest = 0, sum = 0, constant = 0;
        for (uint32_t nr = 0; nr <= 480; nr++) {
            struct seccomp_data data = {.nr = (int)nr, .arch = AUDIT_ARCH_X86_64};
            struct outcome r = run(&p, &data);
            if (!r.constant)
                continue;
            longest = MAX(longest, r.steps);
            sum += r.steps;
            constant++;
        }
        const struct seccomp_options *o = &all_options[i];
        print_message("whose=%d ptrace=%d userns=%d setid=%d: %zu instructions, longest path %zu, "
                      "mean %.1f\n",
                      (int)o->whose, o->allow_ptrace, o->allow_userns, !o->deny_setid, p.len,
                      longest, (double)sum / (double)constant);
        assert_true(longest <= LONGEST_PATH);
    }
}

static void build_is_bounded_and_the_same_again(void **state) {
    (void)state;
    struct seccomp_options o = {0};
    struct program p, again;
    build(&o, &p);
    build(&o, &again);
    assert_int_equal(p.len, again.len);
    assert_memory_equal(p.insns, again.insns, p.len * sizeof p.insns[0]);
    struct sock_filter guard[SECCOMP_MAX_INSNS];
    for (size_t max = 0; max < p.len; max++) {
        memset(guard, 0xa5, sizeof guard);
        assert_int_equal(seccomp_build(&o, guard, max), -ENOSPC);
        for (size_t i = max; i < p.len; i++)
            assert_int_equal(guard[i].k, 0xa5a5a5a5);
    }
    assert_int_equal(seccomp_build(&o, guard, p.len), (int)p.len);
}

static void try_in_child(const struct sock_fprog *program) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || seccomp_load(program) < 0)
        _exit(1);
    if (syscall(SYS_getppid) <= 0)
        _exit(2);
    if (syscall(SYS_clone3, NULL, 0) != -1 || errno != ENOSYS)
        _exit(3);
    if (syscall(SYS_unshare, 0) != -1 || errno != EPERM)
        _exit(4);
    if (syscall(SYS_socket, 38, 5, 0) != -1 || errno != EAFNOSUPPORT)
        _exit(5);
    if (syscall(SYS_socket, 1, 1, 0) < 0)
        _exit(6);
    (void)syscall(SYS_getppid | SECCOMP_X32_BIT);
    _exit(7);
}

/* The kernel takes the program and does what the interpreter said. */
static void kernel_agrees(void **state) {
    (void)state;
    struct program p;
    build(&all_options[0], &p);
    struct sock_fprog program = {.len = (unsigned short)p.len, .filter = p.insns};
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        try_in_child(&program);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), 31 /* SIGSYS */);
}

static bool is_refused(long r) {
    return r == -1 && errno == EPERM;
}

static void try_setid_in_child(const struct sock_fprog *program, int dir) {
    enum { CREATE = O_CREAT | O_WRONLY | O_CLOEXEC };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || seccomp_load(program) < 0)
        _exit(1);
    if (fchdir(dir) < 0 || open("plain", CREATE, 0755) < 0 || chmod("plain", 0700) < 0)
        _exit(2);
    if (!is_refused(syscall(SYS_open, "a", CREATE, 04755)) ||
        !is_refused(syscall(SYS_openat, dir, "b", CREATE, 02755)) ||
        !is_refused(syscall(SYS_open, ".", O_TMPFILE | O_WRONLY, 04755)) ||
        !is_refused(syscall(SYS_creat, "c", 06755)) ||
        !is_refused(syscall(SYS_mknod, "d", S_IFREG | 04755, 0)) ||
        !is_refused(syscall(SYS_mkdir, "e", 02755)))
        _exit(3);
    if (!is_refused(syscall(SYS_chmod, "plain", 04755)) ||
        !is_refused(syscall(SYS_fchmodat, dir, "plain", 02755)) ||
        !is_refused(syscall(SYS_fchmodat, dir, "plain", 0xffffffff00000800)))
        _exit(4);
    struct stat st;
    _exit(stat("plain", &st) == 0 && (st.st_mode & 07777) == 0700 && open("plain", O_RDWR) >= 0
              ? 0
              : 5);
}

static void kernel_agrees_on_set_id_bits(void **state) {
    (void)state;
    char folder[] = "/tmp/cay-test-seccomp-XXXXXX";
    assert_non_null(mkdtemp(folder));
    _cleanup_(closep) int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct program p;
    struct seccomp_options o = {.deny_setid = true};
    build(&o, &p);
    struct sock_fprog program = {.len = (unsigned short)p.len, .filter = p.insns};
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        try_setid_in_child(&program, dir);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(unlinkat(dir, "plain", 0), 0);
    assert_int_equal(rmdir(folder), 0); /* nothing else was made */
    assert_int_equal(status, 0);
}

/* A filter that the kernel refuses is an error, not a silent nothing. */
static void load_reports_errors(void **state) {
    (void)state;
    struct sock_filter bad = {.code = 0xffff};
    struct sock_fprog program = {.len = 1, .filter = &bad};
    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0); /* an ordinary user needs it */
    assert_int_equal(seccomp_load(&program), -EINVAL);
    program.len = 0;
    assert_int_equal(seccomp_load(&program), -EINVAL);
    assert_int_equal(seccomp_load(NULL), -EFAULT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filter_equals_table),
        cmocka_unit_test(filter_equals_table_for_ioctl),
        cmocka_unit_test(filter_equals_table_at_random),
        cmocka_unit_test(foreign_abis_are_killed),
        cmocka_unit_test(paths_are_short),
        cmocka_unit_test(build_is_bounded_and_the_same_again),
        cmocka_unit_test(kernel_agrees),
        cmocka_unit_test(kernel_agrees_on_set_id_bits),
        cmocka_unit_test(load_reports_errors),
    };
    return cmocka_run_group_tests_name("seccomp", tests, NULL, NULL);
}
