#include "confine/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/auto.h"
#include "confine/seccomp_daemon.h"
#include "confine/seccomp_rules.h"
#include "confine/seccomp_table.h"

#ifndef __x86_64__
#error "the system-call table is that of x86_64; another architecture needs its own"
#endif

/* Of the calls that give a file its mode: what remains of their rule where set-id bits do no harm,
 * and where they do. */
static enum rule rule_of_mode(bool deny_setid, enum rule rule) {
    switch (rule) {
    case RULE_MODE_SECOND:
    case RULE_MODE_THIRD:
    case RULE_OPEN:
    case RULE_OPENAT:
    case RULE_OPENAT2:
        return deny_setid ? rule : RULE_ALLOW;
    case RULE_MKNOD:
        return deny_setid ? RULE_MKNOD_PLAIN : rule;
    case RULE_MKNODAT:
        return deny_setid ? RULE_MKNODAT_PLAIN : rule;
    default:
        return rule;
    }
}

static enum rule rule_of_sandbox(const struct seccomp_options *o, enum rule rule) {
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
        return rule_of_mode(o->deny_setid, rule);
    }
}

static enum rule rule_of_change(const struct seccomp_change *list, size_t count, uint32_t nr,
                                enum rule otherwise) {
    for (size_t i = 0; i < count; i++) {
        if (list[i].nr == nr)
            return list[i].rule;
    }
    return otherwise;
}

#define CHANGE(list, nr, otherwise) rule_of_change(list, ARRAY_LEN(list), nr, otherwise)

/* What remains, once the options are known, of the table's rule for call nr. */
static enum rule rule_resolve(const struct seccomp_options *o, uint32_t nr, enum rule rule) {
    switch (o->whose) {
    case SECCOMP_LAUNCHER:
        return CHANGE(launcher_changes, nr, RULE_ALLOW);
    case SECCOMP_EGRESS:
        return CHANGE(egress_changes, nr, CHANGE(front_changes, nr, rule_of_sandbox(o, rule)));
    case SECCOMP_FRONT:
        return CHANGE(front_changes, nr, rule_of_sandbox(o, rule));
    case SECCOMP_SANDBOX:
        break;
    }
    return rule_of_sandbox(o, rule);
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
    case VERDICT_ENOTTY:
        return SECCOMP_RET_ERRNO | ENOTTY;
    case VERDICT_EOPNOTSUPP:
        return SECCOMP_RET_ERRNO | EOPNOTSUPP;
    case VERDICT_KILL:
    case VERDICT_COUNT:
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
enum { MAX_RUNS = 2 * ARRAY_LEN(seccomp_calls) + 2, MAX_JUMP = UINT8_MAX };

/* All jumps of BPF go forward. So the program is written from its end to its beginning: whatever a
 * branch leads to has been written before it. An address counts from the end; the last instruction
 * has address 1, and 0 is none. */
struct builder {
    struct sock_filter *out;
    size_t max;
    size_t len; /* counts on beyond max, so that one check at the end is enough */
    size_t verdicts[VERDICT_COUNT];
    size_t rules[RULE_COUNT];
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
    enum rule gap = rule_resolve(o, SECCOMP_X32_BIT, RULE_ABSENT);
    for (size_t i = 0; i < ARRAY_LEN(seccomp_calls); i++) {
        if (seccomp_calls[i].nr != next)
            run_add(b, next, next, gap);
        run_add(b, seccomp_calls[i].nr, seccomp_calls[i].nr,
                rule_resolve(o, seccomp_calls[i].nr, seccomp_calls[i].rule));
        next = seccomp_calls[i].nr + 1U;
    }
    run_add(b, next, next, gap);
    run_add(b, SECCOMP_X32_BIT, next + 1, RULE_KILL);
}

static size_t emit(struct builder *b, uint16_t code, size_t jt, size_t jf, uint32_t k) {
    if (b->len < b->max)
        b->out[b->max - 1 - b->len] =
            (struct sock_filter){.code = code, .jt = (uint8_t)jt, .jf = (uint8_t)jf, .k = k};
    return ++b->len;
}

/* A target that a branch can reach although another instruction may come between. */
static size_t within_reach(struct builder *b, size_t target) {
    if (b->len + 1 - target <= MAX_JUMP)
        return target;
    return emit(b, BPF_JMP | BPF_JA, 0, 0, (uint32_t)(b->len - target));
}

static size_t emit_branch(struct builder *b, uint16_t op, uint32_t k, size_t yes, size_t no) {
    yes = within_reach(b, yes);
    no = within_reach(b, no);
    return emit(b, BPF_JMP | op | BPF_K, b->len - yes, b->len - no, k);
}

/* The address of the return with this verdict; there is one of each. */
static size_t emit_verdict(struct builder *b, enum verdict v) {
    if (b->verdicts[v] == 0)
        b->verdicts[v] = emit(b, BPF_RET | BPF_K, 0, 0, seccomp_action(v));
    return b->verdicts[v];
}

/* Little-endian: the low half of an argument comes first. */
static size_t emit_load_column(struct builder *b, const struct seccomp_column *c) {
    if (c->mask != UINT32_MAX)
        emit(b, BPF_ALU | BPF_AND | BPF_K, 0, 0, c->mask);
    size_t offset = offsetof(struct seccomp_data, args) + c->arg * sizeof(uint64_t);
    return emit(b, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset);
}

static enum verdict row_verdict(const struct seccomp_condition *c, const struct seccomp_row *row) {
    return row->verdict == VERDICT_KILL ? c->hit : row->verdict;
}

/* Whether row i goes on where the one before it ends, so that one comparison of both ends does for
 * all rows between. */
static bool row_continues(const struct seccomp_condition *c, size_t i) {
    return c->rows[i].values[0] == c->rows[i - 1].values[0] + 1 &&
           c->rows[i].verdict == c->rows[i - 1].verdict;
}

/* Where to cut the sorted rows [from, to): near the middle, and not within a range; `to` if they
 * are one range. */
static size_t cut_sorted(const struct seccomp_condition *c, size_t from, size_t to) {
    size_t up = from + (to - from + 1) / 2, down = up;
    while (up < to && row_continues(c, up))
        up++;
    while (down > from && row_continues(c, down))
        down--;
    if (up == to && down == from)
        return to;
    return up < to ? up : down;
}

/* Finds the value among the sorted rows [from, to) of one column. */
static size_t emit_sorted(struct builder *b, const struct seccomp_condition *c, size_t from,
                          size_t to) {
    size_t hit = b->verdicts[row_verdict(c, &c->rows[from])], miss = b->verdicts[c->miss];
    uint32_t first = c->rows[from].values[0], last = c->rows[to - 1].values[0];
    if (first == last)
        return emit_branch(b, BPF_JEQ, first, hit, miss);
    size_t at = cut_sorted(c, from, to);
    if (at == to) {
        size_t within = emit_branch(b, BPF_JGE, first, hit, miss);
        return emit_branch(b, BPF_JGT, last, miss, within);
    }
    size_t right = emit_sorted(b, c, at, to);
    size_t left = emit_sorted(b, c, from, at);
    return emit_branch(b, BPF_JGE, c->rows[at].values[0], right, left);
}

/* Compares the rows [from, to), which agree in all columns before this one. Values of a column
 * exclude each other, so that a row's failure further on is a miss. */
static size_t emit_rows(struct builder *b, const struct seccomp_condition *c, size_t from,
                        size_t to, size_t column) {
    size_t next = b->verdicts[c->miss];
    while (to > from) {
        const struct seccomp_row *last = &c->rows[to - 1];
        size_t start = to - 1;
        while (start > from && c->rows[start - 1].values[column] == last->values[column])
            start--;
        bool final = column + 1 == SECCOMP_COLUMNS || last->count == column + 1;
        size_t yes =
            final ? b->verdicts[row_verdict(c, last)] : emit_rows(b, c, start, to, column + 1);
        next = emit_branch(b, BPF_JEQ, last->values[column], yes, next);
        to = start;
    }
    return emit_load_column(b, &c->columns[column]);
}

static size_t emit_condition(struct builder *b, const struct seccomp_condition *c) {
    if (!c->sorted)
        return emit_rows(b, c, 0, c->count, 0);
    emit_sorted(b, c, 0, c->count);
    return emit_load_column(b, &c->columns[0]);
}

/* The address of what decides a rule. */
static size_t emit_rule(struct builder *b, enum rule rule) {
    const struct seccomp_condition *c = &seccomp_conditions[rule];
    if (c->count == 0)
        return emit_verdict(b, c->miss);
    if (b->rules[rule] == 0)
        b->rules[rule] = emit_condition(b, c);
    return b->rules[rule];
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

/* Binary search over the runs [from, to) with the number in the accumulator. */
static size_t emit_search(struct builder *b, size_t from, size_t to) {
    if (to - from == 1)
        return emit_rule(b, b->runs[from].rule);
    size_t at = split_point(b, from, to);
    size_t right = emit_search(b, at, to);
    size_t left = emit_search(b, from, at);
    return emit_branch(b, BPF_JGE, b->runs[at].first, right, left);
}

/* Returns and conditions first, which puts them behind the search. */
static void emit_program(struct builder *b) {
    for (enum verdict v = 0; v < VERDICT_COUNT; v++)
        emit_verdict(b, v);
    for (size_t i = 0; i < b->run_count; i++)
        emit_rule(b, b->runs[i].rule);
    emit_search(b, 0, b->run_count);
    size_t native = emit(b, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
    emit_branch(b, BPF_JEQ, AUDIT_ARCH_X86_64, native, b->verdicts[VERDICT_KILL]);
    emit(b, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch));
}

int seccomp_build(const struct seccomp_options *o, struct sock_filter *out, size_t max) {
    struct builder b = {.out = out, .max = max};
    collect_runs(&b, o);
    emit_program(&b);
    if (b.len > max)
        return -ENOSPC;
    memmove(out, out + max - b.len, b.len * sizeof *out);
    return (int)b.len;
}

int seccomp_load(const struct sock_fprog *program) {
    long ret;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "0"(SYS_seccomp), "D"(SECCOMP_SET_MODE_FILTER), "S"(0), "d"(program)
                     : "rcx", "r11", "memory");
    return (int)ret;
}

static const struct seccomp_call *call_find(uint32_t nr) {
    for (size_t i = 0; i < ARRAY_LEN(seccomp_calls); i++) {
        if (seccomp_calls[i].nr == nr)
            return &seccomp_calls[i];
    }
    return NULL;
}

static bool row_holds(const struct seccomp_condition *c, const struct seccomp_row *row,
                      const uint64_t args[6]) {
    for (size_t i = 0; i < row->count; i++) {
        if (((uint32_t)args[c->columns[i].arg] & c->columns[i].mask) != row->values[i])
            return false;
    }
    return true;
}

enum verdict seccomp_expect(const struct seccomp_options *o, uint32_t nr, const uint64_t args[6]) {
    if (nr >= SECCOMP_X32_BIT)
        return VERDICT_KILL;
    const struct seccomp_call *call = call_find(nr);
    enum rule rule = rule_resolve(o, nr, call == NULL ? RULE_ABSENT : call->rule);
    const struct seccomp_condition *c = &seccomp_conditions[rule];
    for (size_t i = 0; i < c->count; i++) {
        if (row_holds(c, &c->rows[i], args))
            return row_verdict(c, &c->rows[i]);
    }
    return c->miss;
}

const char *seccomp_name(uint32_t nr) {
    const struct seccomp_call *call = call_find(nr);
    return call == NULL ? NULL : call->name;
}
