/* Who a process is, beyond its number, which the kernel gives to others later. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { BOOT_ID_SIZE = 37 };

/* When it was started, in clock ticks since the machine was: with the number it names one process.
 * 0 or -errno. */
int process_start_time(pid_t pid, uint64_t *ret);

/* False if the process that started then is certainly gone. Where /proc is not to be seen, another
 * one with its number counts as it. */
bool process_may_live(pid_t pid, uint64_t start);

/* The wait status of a process that has ended, also if it was another process's child; -1 where the
 * kernel does not tell (before 6.15), or if its parent has not reaped it in a moment. */
int process_exit_status(int pidfd);

/* Of the machine's current run. 0 or -errno. */
int process_boot_id(char out[static BOOT_ID_SIZE]);
