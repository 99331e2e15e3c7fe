"""What the tests share that try to break the daemon: how much work to do, clients that remember what
they were promised, and everything that sandboxes of a state folder have on the host."""

import contextlib
import http.client
import os
import random
import re
import time
from pathlib import Path

import support
from daemons import Refused
from keeping import loops_of
from launching import (DONE, ENTRY, ERROR, INPUT, INPUT_END, READ, STDOUT, WRITE, fields_of, is_alive,
                       until)
from support import FULL, amount  # noqa: F401, from here for tests of the daemon

SESSION_CREATE, SESSION_EXEC, SESSION_STATUS = 19, 22, 23
KEPT = {"lock", ".lock"}


def random_numbers():
    """Numbers that can be had again: CAY_SEED is printed with a failure."""
    seed = int(os.environ.get("CAY_SEED", int.from_bytes(os.urandom(4), "big")))
    print(f"CAY_SEED={seed}")
    return random.Random(seed)


# ---- the host ----

def family(pid):
    """A process and all that come from it."""
    found, at = [pid] if pid else [], 0
    while at < len(found):
        with contextlib.suppress(OSError):
            children = Path(f"/proc/{found[at]}/task/{found[at]}/children").read_text()
            found += map(int, children.split())
        at += 1
    return set(found)


def _processes(ids, state, programs):
    """Processes whose control group belongs to one of these, and strays of the daemon."""
    found = set()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or not is_alive(folder.name):
            continue
        with contextlib.suppress(OSError):
            groups = (folder / "cgroup").read_text()
            words = (folder / "cmdline").read_bytes().decode(errors="replace")
            stray = str(state) in words and int(folder.name) not in programs
            if ids & set(re.split(r"[/\n]", groups)) or stray:
                found.add(f"process {folder.name} {words}")
    return found


def _mounts(pid, ids):
    text = Path(f"/proc/{pid}/mountinfo").read_text()
    return {line for line in text.splitlines() if ids & set(re.split(r"[/ .=]", line))}


def remains(state, ids, programs=()):
    """Whatever sandboxes with these ids have on the host; programs are those of the daemon."""
    left = set()
    for path, _, _ in os.walk("/sys/fs/cgroup"):
        if Path(path).name in ids:
            left.add(path)
    left |= _processes(ids, state, programs)
    for pid in ("self", *programs):
        with contextlib.suppress(OSError):  # it ended
            left |= {f"mount {line}" for line in _mounts(pid, ids)}
    left |= {f"loop {path}" for path in loops_of(state)}
    for pattern in ("sandboxes/*", "daemon/run/*", "images/store/pins/*"):
        left |= {str(p) for p in state.glob(pattern) if p.name not in KEPT
                 and not p.name.startswith(".template-")}
    return left


def what_stays(state, ids, programs=lambda: ()):
    """As remains(), of what is still there after a while: the kernel lets go of a mount, and of the
    device below it, when it comes to it."""
    until(lambda: not remains(state, ids, programs()))
    return remains(state, ids, programs())


# ---- a client ----

class Lost(AssertionError):
    """Something that was promised is not there."""


BROKEN = (OSError, ValueError, http.client.HTTPException, AssertionError)


class Promises:
    """What the daemon has told a client about one sandbox."""

    def __init__(self, box):
        self.box = box
        self.files = {}      # path: content
        self.lines = 0       # of the journal that finished commands have written
        self.commands = {}   # of the session: number -> exit code
        self.has_session = False
        self.stopping = False  # and not known to be started again
        self.removing = False


class Client:
    """Does all kinds of things with sandboxes of its own, and remembers what was acknowledged.
    Whatever breaks off has no promise; an error that no dying daemon explains is kept."""

    def __init__(self, daemon, numbers, most=3):
        self.daemon = daemon
        self.numbers = random.Random(numbers.random())
        self.most = most
        self.boxes = {}
        self.removed = set()
        self.seen = set()  # every id that was ever told of
        self.wrong = []
        self.done = 0

    def run(self, stop):
        while not stop.is_set():
            try:
                self.step()
                self.done += 1
            except Lost as lost:
                self.wrong.append(str(lost))
                return
            except Refused as refused:
                if not self.excused(refused):
                    self.wrong.append(str(refused))
                    return
                time.sleep(0.01)
            except BROKEN:
                time.sleep(0.01)

    @staticmethod
    def excused(refused):
        """The launcher died, or the front is about to end."""
        return refused.status == 503 or "launcher" in str(refused)

    def step(self):
        if len(self.boxes) < self.most and self.numbers.random() < 0.4:
            self.create()
        elif self.boxes:
            promises = self.numbers.choice(list(self.boxes.values()))
            if promises.removing:
                self.remove(promises)
            else:
                self.numbers.choice((self.command, self.command, self.write, self.copy,
                                     self.session, self.stop_and_start, self.remove))(promises)

    def create(self):
        made = self.daemon.create(memory="64m", pids=64)["id"]
        self.boxes[made] = Promises(made)
        self.seen.add(made)

    def command(self, p):
        number = p.lines
        done = self.daemon.exec(p.box, "sh", "-c", f"echo {number} >> /workspace/journal; exit 7",
                                TIMEOUT_MS=20000)
        if done[0] == 7:
            p.lines = number + 1

    def write(self, p):
        path = f"/workspace/file-{self.numbers.randrange(20)}"
        content = self.numbers.randbytes(self.numbers.randrange(1, 50000))
        p.files[path] = None  # either content is fine until it is told
        with self.daemon.connect(p.box) as c:
            c.request(WRITE, ("PATH", path))
            for at in range(0, len(content), 32768):
                c.send(INPUT, content[at:at + 32768])
            c.send(INPUT_END)
            c.expect(DONE)
        p.files[path] = content

    def copy(self, p):
        """The same, by the program."""
        path = f"/workspace/copy-{self.numbers.randrange(5)}"
        content = self.numbers.randbytes(self.numbers.randrange(1, 50000))
        p.files[path] = None
        done = support.cay("cp", "--host", f"unix://{self.daemon.socket}", "-", f"{p.box}:{path}",
                           input=content)
        if done.returncode == 0:
            p.files[path] = content

    def session(self, p):
        if not p.has_session:
            with self.daemon.connect(p.box) as c:
                c.request(SESSION_CREATE, ("NAME", "s"))
                kind, payload = c.receive()
                told = fields_of(payload) if kind in (DONE, ERROR) else {}
                p.has_session = kind == DONE or "exists" in told.get("MESSAGE", "")
                return
        code = self.numbers.randrange(1, 100)
        with self.daemon.connect(p.box) as c:
            c.request(SESSION_EXEC, ("NAME", "s"), ("TEXT", f"(exit {code})"))
            number = 0
            while (frame := c.receive())[0] not in (0, DONE, ERROR):
                number = fields_of(frame[1]).get("NUMBER", 0) if frame[0] == 16 else number
            if frame[0] == DONE and number:
                told = fields_of(frame[1])["EXIT"]
                if told != code:
                    raise Lost(f"{p.box}: command {number} ended with {told}, not {code}")
                p.commands[number] = code

    def stop_and_start(self, p):
        if self.numbers.random() < 0.7:
            return
        p.has_session, p.commands, p.stopping = False, {}, True
        with contextlib.suppress(Refused):  # in whichever state a broken one has left it
            self.daemon.call("POST", f"/api/cay/sandbox/{p.box}/stop")
        self.daemon.call("POST", f"/api/cay/sandbox/{p.box}/start")
        p.stopping = False

    def remove(self, p):
        p.removing = True
        answer = self.daemon.ask("DELETE", f"/api/cay/sandbox/{p.box}?force=true")
        if answer.status not in (204, 404):
            raise Refused(answer)
        self.removed.add(p.box)
        del self.boxes[p.box]

    # ---- afterwards ----

    def check(self):
        """Everything that was promised, once nothing dies any more."""
        known = {s["id"]: s["state"] for s in self.daemon.list()}
        back = self.removed & set(known)
        if back:
            raise Lost(f"removed, and there again: {back}")
        for p in self.boxes.values():
            if p.removing:
                continue
            if p.box not in known:
                raise Lost(f"sandbox {p.box}")
            if known[p.box] not in (("started", "stopped") if p.stopping else ("started",)):
                raise Lost(f"sandbox {p.box} is {known[p.box]}")
            if known[p.box] == "stopped":
                self.daemon.call("POST", f"/api/cay/sandbox/{p.box}/start")
            self.check_inside(p)

    def check_inside(self, p):
        with self.daemon.connect(p.box) as c:
            c.exec("sh", "-c", "cat /workspace/journal 2>/dev/null")
            lines = c.finish()[1].split()
        missing = set(map(str, range(p.lines))) - set(lines)
        if missing:
            raise Lost(f"{p.box}: commands {missing} of {lines}")
        for path, content in p.files.items():
            if content is not None and self.read(p.box, path) != content:
                raise Lost(f"{p.box}: {path}")
        if p.commands:
            kept = self.commands(p.box)
            for number, code in p.commands.items():
                if kept.get(number, code if number <= min(kept, default=0) else None) != code:
                    raise Lost(f"{p.box}: session command {number} of {kept}")

    def read(self, box, path):
        content = b""
        with self.daemon.connect(box) as c:
            c.request(READ, ("PATH", path))
            while (frame := c.receive())[0] == STDOUT:
                content += frame[1]
            return content if frame[0] == DONE else None

    def commands(self, box):
        kept = {}
        with self.daemon.connect(box) as c:
            c.request(SESSION_STATUS, ("NAME", "s"))
            while (frame := c.receive())[0] == ENTRY:
                told = fields_of(frame[1])
                kept[told["NUMBER"]] = told.get("EXIT")
        return kept
