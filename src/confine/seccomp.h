/* The seccomp filters. That of sandboxes: native ABI only, a list of allowed calls, ENOSYS for the
 * rest. Those of the daemon's own processes are made from the same table. The policies are data
 * (seccomp_table.h, seccomp_rules.h, seccomp_daemon.h); this compiles them to BPF and answers what
 * they say. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cay_error;

enum seccomp_whose {
    SECCOMP_SANDBOX,
    SECCOMP_FRONT,    /* what a sandbox may, and no program, process, signal or identity more */
    SECCOMP_EGRESS,   /* the front's, and no unix socket, no file but to read */
    SECCOMP_LAUNCHER, /* all but what neither it nor anything in its sandboxes needs */
};

struct seccomp_options {
    bool allow_ptrace; /* debuggers; the init of the sandbox must be non-dumpable */
    /* Nested user, pid and network namespaces and chroot, for Chromium's own sandbox. It opens the
     * kernel's network configuration to the inside: only for images that ask for it. */
    bool allow_userns;
    /* No set-user-id or set-group-id bit on any file: on a folder of the host it would count there,
     * with content of the sandbox's choice. For sandboxes with a writable volume. */
    bool deny_setid;
    enum seccomp_whose whose; /* the above is about sandboxes */
};

enum verdict {
    VERDICT_KILL,
    VERDICT_ENOSYS,
    VERDICT_EPERM,
    VERDICT_EAFNOSUPPORT,
    VERDICT_ENOTTY,
    VERDICT_EOPNOTSUPP,
    VERDICT_ALLOW,
    VERDICT_COUNT
};

enum {
    SECCOMP_MAX_INSNS = 512,      /* enough for every combination of options */
    SECCOMP_X32_BIT = 0x40000000, /* numbers from here on are of a foreign ABI */
};

/* Compiles the policy into out. Needs no memory of its own and depends on the options alone, so
 * that a caller builds it once and loads it for each sandbox. Returns the number of instructions,
 * or -ENOSPC if max is too small. */
int seccomp_build(const struct seccomp_options *o, struct sock_filter *out, size_t max);

/* Makes the filter binding for the calling thread, which has set no_new_privs. One system call, no
 * errno, no memory: may be used in a child that shares its parent's memory. 0 or -errno. */
int seccomp_load(const struct sock_fprog *program);

/* Gives the calling process this filter and no_new_privs, before it has threads. */
int seccomp_confine(const struct seccomp_options *o, struct cay_error *err);

/* What the policy says of native call nr with these arguments, straight from the table. */
enum verdict seccomp_expect(const struct seccomp_options *o, uint32_t nr, const uint64_t args[6]);

/* What the filter returns to the kernel for a verdict (SECCOMP_RET_…). */
uint32_t seccomp_action(enum verdict v);

/* The name of a call that the table knows, or NULL. */
const char *seccomp_name(uint32_t nr);
