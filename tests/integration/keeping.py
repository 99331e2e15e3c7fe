"""Sandboxes that stay, driven over the native engine (tests/helpers/keep.c), for tests."""

import contextlib
import itertools
import json
import os
import queue
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
import support
from launching import LAUNCHER, Connection, is_alive

KEEP = support.HELPERS / "keep"
HAS_DISKS = not support.USER  # with a limit
IDS = itertools.count(int.from_bytes(os.urandom(7), "big") << 8)


def new_id():
    return f"{next(IDS):016x}"


def need_keep():
    if not LAUNCHER.exists() or not KEEP.exists():
        pytest.skip("cay-launcher is not built: ninja -C build")


class Failed(Exception):
    def __init__(self, answer):
        super().__init__(answer["message"])
        self.code = answer["code"]
        self.remedy = answer["remedy"]


class Keep:
    """A launcher and its client. Every method may be called by any thread."""

    def __init__(self, folder):
        need_keep()
        self.state = folder / "state"
        self.run = folder / "run"
        for path in (self.state, self.run):
            path.mkdir(exist_ok=True)
            support.own(path)
        who, env = support.as_user()
        self.process = subprocess.Popen([KEEP, LAUNCHER, self.state, self.run], env=env,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, **who)
        self.numbers = itertools.count(1)
        self.waiting = {}
        self.ends = queue.Queue()
        self.launchers = queue.Queue()
        self.lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()
        self.launcher = self.launchers.get(timeout=60)

    def _read(self):
        for text in self.process.stdout:
            line = json.loads(text)
            if "ended" in line:
                self.ends.put(line)
            elif "launcher" in line:
                self.launchers.put(line["launcher"])
            else:
                self.waiting[line["number"]].put(line)

    def begin(self, op, *words, **fields):
        number = next(self.numbers)
        self.waiting[number] = queue.Queue()
        line = " ".join([str(number), op, *words, *(f"{k}={v}" for k, v in fields.items())])
        with self.lock:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        return number

    def finish(self, number, seconds=60):
        answer = self.waiting[number].get(timeout=seconds)
        if not answer["ok"]:
            raise Failed(answer)
        return answer

    def ask(self, op, *words, **fields):
        return self.finish(self.begin(op, *words, **fields))

    def start(self, box=None, **fields):
        box = box or new_id()
        if HAS_DISKS:
            fields.setdefault("disk", "1g")
        fields = {key: value for key, value in fields.items() if value is not None}
        self.ask("start", box, **fields)
        return box

    def list(self):
        return self.ask("list")["list"]

    def state_of(self, box):
        return self.list().get(box)

    def kill_launcher(self):
        os.kill(self.launcher, signal.SIGKILL)

    def restart(self):
        self.ask("restart")
        self.launcher = self.launchers.get(timeout=60)

    def ended(self, box, seconds=60):
        """Waits for the end of this one."""
        while True:
            line = self.ends.get(timeout=seconds)
            if line["ended"] == box:
                return line

    # ---- inside ----

    def connect(self, box, seconds=60):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(seconds)
        sock.connect(str(self.run / f"{box}.sock"))
        return Connection(sock)

    def exec(self, box, *argv, seconds=60, **fields):
        """Output of a command that must succeed."""
        with self.connect(box, seconds) as c:
            c.exec(*argv, **fields)
            code, text, last = c.finish()
            assert code == 0, (text, last)
            return text

    def sh(self, box, script, **fields):
        return self.exec(box, "sh", "-c", script, **fields)

    # ---- outside ----

    def record(self, box):
        text = (self.state / "sandboxes" / box / "record").read_text()
        return dict(line.split(" = ", 1) for line in text.splitlines())

    def pid(self, box):
        return int(self.record(box)["pid"])

    def close(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def remove_all(self):
        numbers = [self.begin("remove", box) for box in self.list()]
        for number in numbers:
            self.finish(number)


def groups_of(box):
    return [path for path, _, _ in os.walk("/sys/fs/cgroup") if path.endswith(f"/{box}")]


def processes_of(state):
    """First processes of sandboxes whose records lie in this state folder."""
    found = {}
    for record in state.glob("sandboxes/[!.]*/record"):  # others are being removed
        with contextlib.suppress(FileNotFoundError):  # this one too
            fields = dict(line.split(" = ", 1) for line in record.read_text().splitlines())
            if int(fields["pid"]) > 0 and is_alive(int(fields["pid"])):
                found[record.parent.name] = int(fields["pid"])
    return found


def loops_of(state):
    """Files of this state folder that loop devices hold. Those of the whole machine come and go."""
    found = []
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            found.append(path.read_text().strip())
    return [name for name in found if f"{state}/" in name]


def marks():
    """Processes that the lease file names as holders of a range."""
    data = Path("/run/cay-ids").read_bytes()[4096:]
    whole = data[:len(data) // 16 * 16]
    return {int.from_bytes(whole[i + 8:i + 16], "little") for i in range(0, len(whole), 16)} - {0}


def leftovers(state, boxes):
    """What is left of these sandboxes on the host."""
    left = [group for box in boxes for group in groups_of(box)]
    left += [str(p) for p in (state / "sandboxes").iterdir()
             if not p.name.startswith(".template-1-")]
    left += loops_of(state)
    left += [str(p) for p in (state / "images/store/pins").glob("*")]
    left += [line for line in Path("/proc/self/mountinfo").read_text().splitlines()
             if str(state) in line]
    return left


def gone(state, boxes, seconds=60.0):
    """Waits until nothing is left; what is, otherwise."""
    end = time.monotonic() + seconds
    while (left := leftovers(state, boxes)) and time.monotonic() < end:
        time.sleep(0.05)
    return left
