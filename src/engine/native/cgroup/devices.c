/* The device policy: the devices controller of v1, a BPF program of our own on v2. */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "base/str.h"
#include "engine/native/cgroup/backend.h"

enum { ANY = -1, TEXT_SIZE = 512 };

const struct cgroup_device cgroup_devices[] = {
    {1, 3},     /* null */
    {1, 5},     /* zero */
    {1, 7},     /* full */
    {1, 8},     /* random */
    {1, 9},     /* urandom */
    {5, 0},     /* tty */
    {5, 2},     /* ptmx */
    {136, ANY}, /* pts */
};
const size_t cgroup_device_count = ARRAY_LEN(cgroup_devices);

static int rule_text(const struct cgroup_device *device, char *out, size_t size) {
    if (device->minor == ANY)
        return str_format(out, size, "c %d:* rw", device->major);
    return str_format(out, size, "c %d:%d rw", device->major, device->minor);
}

/* 1 if devices.list is our policy and nothing else. The kernel keeps the order. */
static int v1_in_place(int folder) {
    char have[TEXT_SIZE], want[TEXT_SIZE] = "";
    ssize_t n = fd_read_file_at(folder, "devices.list", have, sizeof have);
    if (n < 0)
        return n == -ENOBUFS ? 0 : (int)n;
    size_t len = 0;
    for (size_t i = 0; i < cgroup_device_count; i++) {
        if (i > 0)
            want[len++] = '\n';
        int r = rule_text(&cgroup_devices[i], want + len, sizeof want - len - 1);
        if (r < 0)
            return r;
        len += strlen(want + len);
    }
    return str_equal(have, want);
}

static int v1_write(int folder) {
    int r = fd_write_file_at(folder, "devices.deny", "a");
    for (size_t i = 0; r == 0 && i < cgroup_device_count; i++) {
        char rule[32];
        r = rule_text(&cgroup_devices[i], rule, sizeof rule);
        if (r == 0)
            r = fd_write_file_at(folder, "devices.allow", rule);
    }
    return r;
}

int cgroup_devices_v1(int folder) {
    int r = v1_in_place(folder);
    if (r != 0)
        return r < 0 ? r : 0;
    /* Two first starts at a time: one of them writes, the other finds it done. */
    if (flock(folder, LOCK_EX) < 0)
        return -errno;
    r = v1_in_place(folder);
    if (r == 0) {
        r = v1_write(folder);
        if (r == 0)
            r = v1_in_place(folder);
    }
    (void)flock(folder, LOCK_UN);
    return r < 0 ? r : r == 1 ? 0 : -EIO;
}

/* The program's name carries the version of the policy: change it with the program. */
static const char program_name[] = "cay_devices_1";

enum { PROGRAM_MAX = 64, ATTACHED_MAX = 64 };

struct program {
    struct bpf_insn insns[PROGRAM_MAX];
    size_t len;
};

static void emit(struct program *p, unsigned code, unsigned dst, unsigned src, int off, int imm) {
    if (p->len < PROGRAM_MAX)
        p->insns[p->len] = (struct bpf_insn){.code = (__u8)code,
                                             .dst_reg = (__u8)(dst & 15),
                                             .src_reg = (__u8)(src & 15),
                                             .off = (__s16)off,
                                             .imm = imm};
    p->len++;
}

static void emit_return(struct program *p, int value) {
    emit(p, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, value);
    emit(p, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

static void emit_load(struct program *p, unsigned dst, size_t offset) {
    emit(p, BPF_LDX | BPF_MEM | BPF_W, dst, BPF_REG_1, (int)offset, 0);
}

/* Jumps are over the two instructions of a return, and for the major number also over the test of
 * the minor one. */
static void build(struct program *p) {
    enum { TYPE = BPF_REG_2, MAJOR = BPF_REG_3, MINOR = BPF_REG_4, ACCESS = BPF_REG_5 };
    p->len = 0;
    emit_load(p, TYPE, offsetof(struct bpf_cgroup_dev_ctx, access_type));
    emit_load(p, MAJOR, offsetof(struct bpf_cgroup_dev_ctx, major));
    emit_load(p, MINOR, offsetof(struct bpf_cgroup_dev_ctx, minor));
    /* access_type is the access in the upper half, the kind of device in the lower */
    emit(p, BPF_ALU64 | BPF_MOV | BPF_X, ACCESS, TYPE, 0, 0);
    emit(p, BPF_ALU64 | BPF_AND | BPF_K, TYPE, 0, 0, 0xffff);
    emit(p, BPF_ALU64 | BPF_RSH | BPF_K, ACCESS, 0, 0, 16);
    emit(p, BPF_ALU64 | BPF_AND | BPF_K, ACCESS, 0, 0, BPF_DEVCG_ACC_MKNOD);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, TYPE, 0, 2, BPF_DEVCG_DEV_CHAR);
    emit_return(p, 0);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, ACCESS, 0, 2, 0);
    emit_return(p, 0);
    for (size_t i = 0; i < cgroup_device_count; i++) {
        const struct cgroup_device *d = &cgroup_devices[i];
        emit(p, BPF_JMP | BPF_JNE | BPF_K, MAJOR, 0, d->minor == ANY ? 2 : 3, d->major);
        if (d->minor != ANY)
            emit(p, BPF_JMP | BPF_JNE | BPF_K, MINOR, 0, 2, d->minor);
        emit_return(p, 1);
    }
    emit_return(p, 0);
}

static int bpf(int command, union bpf_attr *attr) {
    long r = syscall(SYS_bpf, command, attr, sizeof *attr);
    return r < 0 ? -errno : (int)r;
}

static int load(void) {
    static const char license[] = "Apache-2.0";
    struct program p;
    build(&p);
    if (p.len > PROGRAM_MAX)
        return -E2BIG;
    union bpf_attr attr = {
        .prog_type = BPF_PROG_TYPE_CGROUP_DEVICE,
        .insn_cnt = (__u32)p.len,
        .insns = (uintptr_t)p.insns,
        .license = (uintptr_t)license,
    };
    memcpy(attr.prog_name, program_name, sizeof program_name);
    return bpf(BPF_PROG_LOAD, &attr); /* descriptors of bpf(2) are close-on-exec */
}

static int is_ours(__u32 program_id) {
    union bpf_attr attr = {.prog_id = program_id};
    _cleanup_(closep) int fd = bpf(BPF_PROG_GET_FD_BY_ID, &attr);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    struct bpf_prog_info info = {0};
    attr = (union bpf_attr){
        .info = {.bpf_fd = (__u32)fd, .info_len = sizeof info, .info = (uintptr_t)&info}};
    int r = bpf(BPF_OBJ_GET_INFO_BY_FD, &attr);
    return r < 0 ? r : strncmp(info.name, program_name, sizeof info.name) == 0;
}

/* 1 if our program is attached to the folder itself. */
static int v2_in_place(int folder) {
    __u32 ids[ATTACHED_MAX] = {0};
    union bpf_attr attr = {.query = {.target_fd = (__u32)folder,
                                     .attach_type = BPF_CGROUP_DEVICE,
                                     .prog_ids = (uintptr_t)ids,
                                     .prog_cnt = ATTACHED_MAX}};
    int r = bpf(BPF_PROG_QUERY, &attr);
    if (r < 0)
        return r;
    for (__u32 i = 0; i < MIN(attr.query.prog_cnt, (__u32)ATTACHED_MAX); i++) {
        r = is_ours(ids[i]);
        if (r != 0)
            return r;
    }
    return 0;
}

int cgroup_devices_v2(int folder) {
    int r = v2_in_place(folder);
    if (r != 0)
        return r < 0 ? r : 0;
    _cleanup_(closep) int program = load();
    if (program < 0)
        return program;
    /* Several may be attached and all must agree, so that a second one by a start at the same time
     * changes nothing. The group keeps the program after we close it. */
    union bpf_attr attr = {.target_fd = (__u32)folder,
                           .attach_bpf_fd = (__u32)program,
                           .attach_type = BPF_CGROUP_DEVICE,
                           .attach_flags = BPF_F_ALLOW_MULTI};
    return bpf(BPF_PROG_ATTACH, &attr);
}
