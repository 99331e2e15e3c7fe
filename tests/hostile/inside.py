"""What the hostile suite needs besides support.py: code that runs inside a sandbox and reports what
became of it, and sandboxes that stay while the host looks at them."""

import contextlib
import functools
import json
import os
import subprocess
import textwrap
from pathlib import Path

import pytest

import support

# Runs before each script inside. `report` is what the script tells the host.
PRELUDE = '''
import ctypes, errno, fcntl, json, os, re, resource, signal, socket, stat, struct, sys, time

libc = ctypes.CDLL(None, use_errno=True)
report = {}

def attempt(call, *args):
    """What became of a call: "ok", or the name of its error."""
    try:
        call(*args)
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e.errno))
    return "ok"

def syscall(number, *args):
    """The same for a call that python has no name for."""
    plain = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    value = libc.syscall(ctypes.c_long(number), *plain)
    return "ok" if value >= 0 else errno.errorcode[ctypes.get_errno()]

def opens(path, flags=os.O_RDONLY):
    return attempt(lambda: os.close(os.open(path, flags | os.O_NONBLOCK)))

def read(path):
    with open(path, "rb") as f:
        return f.read().decode(errors="replace")

def put(path, text):
    with open(path, "w") as f:
        f.write(text)

def status(pid="self"):
    lines = read(f"/proc/{pid}/status").splitlines()
    return {line.split(":")[0]: line.split(":")[1].strip() for line in lines}
'''


def code(script, then=""):
    """Arguments for python: the script between the prelude and its report."""
    tell = "\nprint(json.dumps(report), flush=True)\n"
    return ["python3", "-c", PRELUDE + textwrap.dedent(script) + tell + then]


def probe(script, *options, args=(), **more):
    """Runs a script in a fresh sandbox; what it left in `report`."""
    done = support.run(*options, "--", *code(script), *args, **more)
    return json.loads(support.ok(done))


def parents():
    """{pid: parent} of every process of the host."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                text = (entry / "stat").read_text(errors="replace")
                found[int(entry.name)] = int(text[text.rindex(")") + 2:].split()[1])
    return found


def descendants(top):
    """Pids of the host below one of them."""
    tree, found = parents(), []
    for pid in tree:
        above = tree[pid]
        while above in tree and above != top:
            above = tree[above]
        if above == top:
            found.append(pid)
    return found


def pid_namespace(pid):
    return os.readlink(f"/proc/{pid}/ns/pid")


def status(pid):
    """/proc/PID/status as a table."""
    lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    return {line.split(":")[0]: line.split(":")[1].strip() for line in lines}


def owned(base):
    """Pids of the host whose user is in the id range that starts at base."""
    found = []
    for pid in parents():
        with contextlib.suppress(OSError):
            if base <= os.stat(f"/proc/{pid}").st_uid < base + 65536 or \
                    base <= int(status(pid)["Uid"].split()[0]) < base + 65536:
                found.append(pid)
    return found


class Box:
    """A sandbox whose script has reported and now waits for the end of its input."""

    def __init__(self, process):
        self.process = process
        line = process.stdout.readline()
        assert line, process.stderr.read().decode()
        self.report = json.loads(line)

    def members(self):
        """Host pids of everything inside."""
        found = []
        for pid in descendants(self.process.pid):
            with contextlib.suppress(OSError):
                if pid_namespace(pid) != pid_namespace("self"):
                    found.append(pid)
        return found


@contextlib.contextmanager
def box(script, *options, args=(), **more):
    """A sandbox that stays as long as the host needs it."""
    process = support.start("run", *support.TIER, *options, "--",
                            *code(script, then="sys.stdin.read()"), *args, **more)
    with process:
        try:
            yield Box(process)
        finally:
            process.stdin.close()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


@functools.cache
def walls():
    """Which walls this host gives to the tested user."""
    answer = json.loads(support.ok(support.cay("doctor", "-o", "json")))
    return {wall["name"]: wall["ok"] for wall in answer["walls"]}


def need_wall(name):
    if not walls()[name]:
        pytest.skip(f"this host gives the tested user no {name}")
