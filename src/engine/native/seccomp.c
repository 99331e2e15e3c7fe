#include "engine/native/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include "base/auto.h"
#include "engine/native/seccomp_rules.h"
#include "engine/native/seccomp_table.h"

#ifndef __x86_64__
#error "the system-call table is that of x86_64; another architecture needs its own"
#endif

struct call {
    uint16_t nr;
    uint16_t rule;
    const char *name;
};

#define CALL_ROW(number, text, verdict) {.nr = (number), .rule = RULE_##verdict, .name = #text},
static const struct call calls[] = {SECCOMP_TABLE(CALL_ROW)};
#undef CALL_ROW

/* The rule that remains once the options are known. */
static enum rule rule_resolve(const struct seccomp_options *o, enum rule rule) {
    switch (rule) {
    case RULE_PTRACE:
        return o->allow_ptrace ? RULE_ALLOW : RULE_REFUSE;
    case RULE_CHROOT:
        return o->allow_userns ? RULE_ALLOW : RULE_REFUSE;
    case RULE_UNSHARE:
        return o->allow_userns ? RULE_UNSHARE : RULE_REFUSE;
    case RULE_CLONE:
        return o->allow_userns ? RULE_CLONE_NESTED : RULE_CLONE;
    case RULE_SETSOCKOPT: /* what it refuses needs a capability that only nesting gives */
        return o->allow_userns ? RULE_SETSOCKOPT : RULE_ALLOW;
    default:
        return rule;
    }
}

uint32_t seccomp_action(enum verdict v) {
    switch (v) {
    case VERDICT_ALLOW:
        return SECCOMP_RET_ALLOW;
    case VERDICT_ENOSYS:
        return SECCOMP_RET_ERRNO | ENOSYS;
    case VERDICT_EPERM:
        return SECCOMP_RET_ERRNO | EPERM;
    case VERDICT_EAFNOSUPPORT:
        return SECCOMP_RET_ERRNO | EAFNOSUPPORT;
    case VERDICT_KILL:
        break;
    }
    return SECCOMP_RET_KILL_PROCESS;
}

/* A range of numbers with one rule, from first up to the next run's first. */
struct run {
    uint32_t first;
    uint32_t rank; /* how many numbers lie before it, without the endless tail */
    enum rule rule;
};

/* Each call can start a run, and end in a gap that is one; two more close the number space. */
enum { MAX_RUNS = 2 * ARRAY_LEN(calls) + 2, MAX_JUMP = UINT8_MAX };

struct builder {
    struct sock_filter *out;
    size_t max;
    size_t len; /* counts on beyond max, so that one check at the end is enough */
    size_t run_count;
    struct run runs[MAX_RUNS];
};

static void run_add(struct builder *b, uint32_t first, uint32_t rank, enum rule rule) {
    if (b->run_count > 0 && b->runs[b->run_count - 1].rule == rule)
        return;
    b->runs[b->run_count++] = (struct run){.first = first, .rank = rank, .rule = rule};
}

/* Folds the table into runs that cover all numbers. */
static void collect_runs(struct builder *b, const struct seccomp_options *o) {
    uint32_t next = 0;
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        if (calls[i].nr != next)
            run_add(b, next, next, RULE_ABSENT);
        run_add(b, calls[i].nr, calls[i].nr, rule_resolve(o, calls[i].rule));
        next = calls[i].nr + 1U;
    }
    run_add(b, next, next, RULE_ABSENT);
    run_add(b, SECCOMP_X32_BIT, next + 1, RULE_KILL);
}

static void emit(struct builder *b, uint16_t code, uint8_t jt, uint8_t jf, uint32_t k) {
    if (b->len < b->max)
        b->out[b->len] = (struct sock_filter){.code = code, .jt = jt, .jf = jf, .k = k};
    b->len++;
}

static void emit_return(struct builder *b, enum verdict v) {
    emit(b, BPF_RET | BPF_K, 0, 0, seccomp_action(v));
}

/* A leaf of the search: the verdict, or a jump whose distance emit_conditions() fills in; until
 * then it carries the rule. */
static void emit_leaf(struct builder *b, enum rule rule) {
    if (seccomp_conditions[rule].count == 0)
        emit_return(b, seccomp_conditions[rule].miss);
    else
        emit(b, BPF_JMP | BPF_JA, 0, 0, rule);
}

static uint32_t distance(uint32_t a, uint32_t b) {
    return a < b ? b - a : a - b;
}

/* Where to cut the runs [from, to) so that both sides hold about as many numbers: the kernel walks
 * the filter once for every number when it is loaded. */
static size_t split_point(const struct builder *b, size_t from, size_t to) {
    uint32_t end = to < b->run_count ? b->runs[to].rank : b->runs[to - 1].rank + 1;
    uint32_t middle = b->runs[from].rank + (end - b->runs[from].rank) / 2;
    size_t at = from + 1;
    while (at + 1 < to &&
           distance(b->runs[at + 1].rank, middle) <= distance(b->runs[at].rank, middle))
        at++;
    return at;
}

/* Binary search over the runs [from, to) with the number in the accumulator. A subtree of n runs
 * is 2n-1 instructions; the smaller one comes first, so that the jump over it stays short. */
static int emit_search(struct builder *b, size_t from, size_t to) {
    if (to - from == 1) {
        emit_leaf(b, b->runs[from].rule);
        return 0;
    }
    size_t at = split_point(b, from, to);
    bool left_first = at - from <= to - at;
    size_t skip = 2 * (left_first ? at - from : to - at) - 1;
    if (skip > MAX_JUMP)
        return -ENOSPC;
    emit(b, BPF_JMP | BPF_JGE | BPF_K, left_first ? (uint8_t)skip : 0,
         left_first ? 0 : (uint8_t)skip, b->runs[at].first);
    int r = left_first ? emit_search(b, from, at) : emit_search(b, at, to);
    if (r < 0)
        return r;
    return left_first ? emit_search(b, at, to) : emit_search(b, from, at);
}

static uint32_t test_load_size(const struct seccomp_test *t) {
    return t->mask == UINT32_MAX ? 1 : 2;
}

/* Little-endian: the low half of an argument comes first. */
static void emit_test_load(struct builder *b, const struct seccomp_test *t) {
    uint32_t offset = (uint32_t)(offsetof(struct seccomp_data, args) + t->arg * sizeof(uint64_t));
    emit(b, BPF_LD | BPF_W | BPF_ABS, 0, 0, offset);
    if (t->mask != UINT32_MAX)
        emit(b, BPF_ALU | BPF_AND | BPF_K, 0, 0, t->mask);
}

/* Tests of one match; a failing one jumps behind the match's return. */
static void emit_match(struct builder *b, const struct seccomp_match *m, bool loaded,
                       enum verdict hit) {
    uint32_t rest = 1;
    for (size_t i = 0; i < m->count; i++)
        rest += 1 + test_load_size(&m->tests[i]);
    for (size_t i = 0; i < m->count; i++) {
        if (i > 0 || !loaded)
            emit_test_load(b, &m->tests[i]);
        rest -= 1 + test_load_size(&m->tests[i]);
        emit(b, BPF_JMP | BPF_JEQ | BPF_K, 0, (uint8_t)rest, m->tests[i].value);
    }
    emit_return(b, hit);
}

/* True if whoever comes to match i has its first argument in the accumulator already, because the
 * match before it is a single test of the same. */
static bool already_loaded(const struct seccomp_condition *c, size_t i) {
    if (i == 0 || c->matches[i - 1].count != 1)
        return false;
    const struct seccomp_test *before = &c->matches[i - 1].tests[0], *now = &c->matches[i].tests[0];
    return before->arg == now->arg && before->mask == now->mask;
}

static void emit_condition(struct builder *b, const struct seccomp_condition *c) {
    for (size_t i = 0; i < c->count; i++)
        emit_match(b, &c->matches[i], already_loaded(c, i), c->hit);
    emit_return(b, c->miss);
}

/* Emits each condition that the leaves in [from, to) refer to and aims them at it. */
static void emit_conditions(struct builder *b, size_t from, size_t to) {
    size_t start[RULE_COUNT] = {0};
    for (size_t i = from; i < to && i < b->max; i++) {
        struct sock_filter *leaf = &b->out[i];
        if (leaf->code != (BPF_JMP | BPF_JA))
            continue;
        enum rule rule = leaf->k;
        if (start[rule] == 0) {
            start[rule] = b->len;
            emit_condition(b, &seccomp_conditions[rule]);
        }
        leaf->k = (uint32_t)(start[rule] - i - 1);
    }
}

int seccomp_build(const struct seccomp_options *o, struct sock_filter *out, size_t max) {
    struct builder b = {.out = out, .max = max};
    collect_runs(&b, o);
    emit(&b, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch));
    emit(&b, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AUDIT_ARCH_X86_64);
    emit_return(&b, VERDICT_KILL);
    emit(&b, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
    size_t search = b.len;
    int r = emit_search(&b, 0, b.run_count);
    if (r < 0)
        return r;
    emit_conditions(&b, search, b.len);
    return b.len <= max ? (int)b.len : -ENOSPC;
}

int seccomp_load(const struct sock_fprog *program) {
    long ret;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "0"(SYS_seccomp), "D"(SECCOMP_SET_MODE_FILTER), "S"(0), "d"(program)
                     : "rcx", "r11", "memory");
    return (int)ret;
}

static const struct call *call_find(uint32_t nr) {
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        if (calls[i].nr == nr)
            return &calls[i];
    }
    return NULL;
}

static bool match_holds(const struct seccomp_match *m, const uint64_t args[6]) {
    for (size_t i = 0; i < m->count; i++) {
        const struct seccomp_test *t = &m->tests[i];
        if (((uint32_t)args[t->arg] & t->mask) != t->value)
            return false;
    }
    return true;
}

enum verdict seccomp_expect(const struct seccomp_options *o, uint32_t nr, const uint64_t args[6]) {
    if (nr >= SECCOMP_X32_BIT)
        return VERDICT_KILL;
    const struct call *call = call_find(nr);
    enum rule rule = call == NULL ? RULE_ABSENT : rule_resolve(o, call->rule);
    const struct seccomp_condition *c = &seccomp_conditions[rule];
    for (size_t i = 0; i < c->count; i++) {
        if (match_holds(&c->matches[i], args))
            return c->hit;
    }
    return c->miss;
}

const char *seccomp_name(uint32_t nr) {
    const struct call *call = call_find(nr);
    return call == NULL ? NULL : call->name;
}
