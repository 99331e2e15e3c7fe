/* The process tree of an operation. The process that serves it is a subreaper, so whatever its
 * command starts, however often it forks or changes session, stays among its descendants. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Becomes a subreaper. Older versions of gVisor have none: there orphans go to PID 1, and the tree
 * of an operation ends with the sandbox at the latest. 0, or -1 with errno. */
int tree_adopt_orphans(void);

/* Kills every descendant and reaps it; new ones made meanwhile too, a group (of the command; 0:
 * none) at one stroke before anything is looked at, which takes its time among many. Returns how
 * many are left when the patience (base/clock.h) ends: 0 unless they fork faster than they die. */
unsigned tree_kill(pid_t group, int64_t patience_ms);

/* Whether a process of the sandbox is about to be gone and to make room for another: it was killed,
 * or is dead and will be reaped by cay-init. What is dead here is reaped at once. */
bool tree_makes_room(void);

/* The descendants at one moment. */
struct tree {
    struct tree_process *list;
    size_t count;
};

struct tree tree_take(void);
/* Every process of the sandbox but cay-init's own, at one moment. */
struct tree tree_take_commands(void);
void tree_free(struct tree *t);

/* Sends a signal to every descendant that is not in `before` (NULL: none is). */
void tree_signal(int number, const struct tree *before);

/* tree_kill() for those that are not in `before`. The group, which others may be in, stands still
 * for that. What is dead and the child of somebody in `before` is his to wait for. */
void tree_kill_since(pid_t group, const struct tree *before, int64_t patience_ms);

/* SIGINT for a shell, the leader of its group, and every descendant that is not in `before`. bash
 * loses it while it makes a child, and ignores it unless the child that it waits for ends by it
 * afterwards. So its group is held still for that, and the shell hears of it first. */
void tree_interrupt(pid_t leader, const struct tree *before);

/* Asks those of `now` that are not in `before` to end, as a shutdown does. */
void tree_ask_to_end(const struct tree *now, const struct tree *before);
