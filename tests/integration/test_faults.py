"""Each system call of making and removing a sandbox fails in turn: cay says so with 125, or does
without the call; it never hangs, and never leaves anything on the host.

strace makes the calls fail. It counts them by process, so that "the third openat" fails in each
process that makes three, those inside the sandbox included: what the command itself makes of that
is its own affair, as long as cay reports it. Which calls there are is recorded first; they are
tried in a fixed random order, until all were tried or the time is up and enough were.
"""

import random
import re
import shutil
import subprocess
import time
from collections import Counter

import pytest
from support import (CAY, FULL, TIER, as_user, host_state, is_sanitized, left_over, need_cay, ok, run)

SECONDS = 300 if FULL else 20
LEAST = 100  # calls to try, however long that takes
HANG = 60
COMMAND = [CAY, "run", *TIER, "--timeout", "15s", "--", "/bin/echo", "fine"]

# Calls that cannot fail, or whose failure without effect the kernel never gives: a descriptor that
# stays open, a process that does not end.
NEVER = {"arch_prctl", "brk", "close", "close_range", "execve", "exit", "exit_group", "getegid",
         "geteuid", "getgid", "getpid", "gettid", "getuid", "munmap", "poll", "rseq",
         "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "set_robust_list", "set_tid_address",
         "setfsgid", "setfsuid", "umask", "clock_gettime", "futex", "setsid", "uname", "nanosleep",
         "clock_nanosleep", "restart_syscall", "getrandom"}
if is_sanitized():  # its runtime makes these for itself, and does not live without them
    NEVER |= {"mmap", "mprotect", "madvise", "readlink", "prlimit64", "sigaltstack", "prctl", "open",
              "openat", "read", "pread64", "newfstatat", "fstat", "lseek"}
ERRORS = {"ENOMEM": ["clone", "clone3", "fork", "vfork", "mmap", "mprotect"],
          "EMFILE": ["dup", "dup2", "epoll_create1", "eventfd2", "fcntl", "memfd_create", "open",
                     "openat", "openat2", "pidfd_open", "pipe2", "signalfd4", "socket",
                     "socketpair"],
          "ENOSPC": ["fchmodat", "fchown", "fchownat", "ftruncate", "mkdir", "mkdirat", "mknodat",
                     "symlinkat", "unshare", "write", "fsconfig"],
          "EIO": ["ioctl", "pread64", "read", "readlinkat", "lseek"],
          "EBUSY": ["rmdir", "umount2", "unlinkat"],
          "ECONNRESET": ["recvmsg", "sendmsg", "sendto", "recvfrom"],
          "ECHILD": ["wait4", "waitid"]}
KIND = {call: error for error, calls in ERRORS.items() for call in calls}


def under_strace(*options):
    who, env = as_user()
    if is_sanitized():  # it cannot look for leaks while it is traced
        env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    return subprocess.run(["strace", "-f", *options, *COMMAND], capture_output=True, timeout=HANG,
                          stdin=subprocess.DEVNULL, env=env, **who)


def recorded(path):
    """{call: how many of it one of cay's own processes makes at most}."""
    done = under_strace("-o", path)
    assert (done.returncode, done.stdout) == (0, b"fine\n"), done.stderr
    counts, inside = {}, set()
    for line in open(path, errors="replace"):
        found = re.match(r"(\d+) +(?:<\.\.\. )?(\w+)(\(| resumed)", line)
        if not found or found[3] != "(" or found[1] in inside:
            continue
        counts.setdefault(found[1], Counter())[found[2]] += 1
        if found[2] == "execveat":
            inside.add(found[1])  # it is cay-init from here on
        elif re.search(r"\b(clone|fork|vfork)\(.*= \d+$", line) and found[1] in inside:
            inside.add(line.split()[-1])
    most = Counter()
    for calls in counts.values():
        for call, n in calls.items():
            most[call] = max(most[call], n)
    return most


def cases(path):
    found = [(call, n) for call, most in recorded(path).items() if call not in NEVER
             for n in range(1, most + 1)]
    random.Random(7).shuffle(found)
    return found


def complaint(done):
    """What is wrong with how it ended, if anything."""
    text = done.stderr.decode(errors="replace")
    if done.returncode == 0:
        return "" if done.stdout == b"fine\n" else f"exit code 0 without the output: {text}"
    if done.returncode in (125, 126, 127):
        says = text.startswith("cay: ") or "error while loading" in text
        return "" if says else f"exit code {done.returncode} without a word: {text}"
    if 0 < done.returncode < 125:
        return "" if text else f"exit code {done.returncode} without a word"
    if done.returncode > 128 and not text.startswith("=="):
        return ""  # the command died of it
    return f"exit code {done.returncode}: {text[:500]}"


def attempt(call, n):
    error = KIND.get(call, "EPERM")
    try:
        done = under_strace("-qq", "-o", "/dev/null", "-e", f"trace={call}",
                            "-e", f"inject={call}:error={error}:when={n}")
    except subprocess.TimeoutExpired:
        return "it hangs"
    if call == "write" and done.returncode == 125 and not done.stderr:
        return ""  # the call that failed was the one that says so
    return complaint(done)


def test_each_call_fails_in_turn(folder):
    need_cay()
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    ok(run("--", "true"))
    todo = cases(folder / "trace")
    deadline = time.monotonic() + SECONDS
    wrong, left, done = [], [], 0
    before = host_state()
    for call, n in todo:
        if time.monotonic() > deadline and done > LEAST:
            break
        what = attempt(call, n)
        if what:
            wrong.append(f"{call} {n}: {what}")
        for item in left_over(before, 1.0):
            left.append((f"{call} {n}", item))
            before[item[0]].add(item[1])
        done += 1
    # What is gone by now belonged to another user of this machine.
    now = host_state(after=True)
    wrong += [f"{case}: left on the host: {item}" for case, item in left if item[1] in now[item[0]]]
    assert not wrong, f"{done} of {len(todo)} calls tried\n" + "\n".join(wrong)
    assert done > LEAST or done == len(todo)
