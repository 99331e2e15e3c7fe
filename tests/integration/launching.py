"""Sandboxes from a launcher, for tests: runs of a command, sandboxes that listen, and a client of
cay-init that speaks its protocol (docs/protocol.md)."""

import contextlib
import json
import os
import queue
import signal
import socket
import struct
import subprocess
import threading
from pathlib import Path

import pytest
import support
from support import until  # noqa: F401: for those who wait for what they launched

LAUNCHER = support.BUILD / "cay-launcher"
LAUNCH = support.HELPERS / "launch"


def need_launcher():
    if support.USER:
        pytest.skip("the launcher is root's")
    if not LAUNCHER.exists() or not LAUNCH.exists():
        pytest.skip("cay-launcher is not built: ninja -C build")
    doctor = json.loads(support.ok(support.cay("doctor", "-o", "json")))
    if doctor["tier"] != "full":
        pytest.skip(f"the launcher needs every wall, this host gives tier {doctor['tier']}")


def command(options):
    return [LAUNCH, "--launcher", LAUNCHER, "--state", support.state_dir(), *map(str, options)]


class Runs:
    """What became of the runs of one launcher: results of commands and answers, by number."""

    def __init__(self, lines):
        self.lines = lines
        self.results = {line["run"]: line for line in lines if "event" not in line}
        self.events = [line for line in lines if "event" in line]

    def answers(self, event):
        return {line["run"]: line for line in self.events if line["event"] == event}

    def output(self, run=0):
        """Of a run that must have succeeded."""
        result = self.results[run]
        assert result.get("exit") == 0, result
        return result["stdout"]

    def outputs(self):
        return [self.output(run) for run in sorted(self.results)]


def launch(*argv, options=(), timeout=120, **more):
    """Runs a command in sandboxes of a launcher of its own."""
    need_launcher()
    done = subprocess.run([*command(options), "--", *argv], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, **more)
    assert done.returncode == 0, done.stderr.decode()
    return Runs([json.loads(line) for line in done.stdout.splitlines()])


def sh(script, *options, **more):
    return launch("sh", "-c", script, options=options, **more)


def python(script, *options, **more):
    return launch("python3", "-c", script, options=options, **more)


class Listening:
    """Sandboxes that stay, each with a socket."""

    def __init__(self, process, path, count):
        self.process = process
        self.path = path
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.started = {}
        while len(self.started) < count:
            line = self.next(120)  # hundreds are made before the first is told, on a busy machine
            assert line["event"] == "started", line
            self.started[line["run"]] = line

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))

    def next(self, seconds=60):
        return self.lines.get(timeout=seconds)

    def pid(self, run=0):
        """Of its PID 1, as the host counts."""
        return self.started[run]["pid"]

    def launcher(self):
        return int(Path(f"/proc/{self.pid()}/stat").read_text().rsplit(")", 1)[1].split()[1])

    def end(self, run):
        self.process.stdin.write(b"end %d\n" % run)
        self.process.stdin.flush()

    def hang_up(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0

    def connect(self, run=0):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(60)
        sock.connect(f"{self.path}-{run}")
        return Connection(sock)

    def exec(self, *argv, run=0, **fields):
        """A command to its end: (exit code, output, fields of the last frame)."""
        with self.connect(run) as c:
            c.exec(*argv, **fields)
            return c.finish()


@contextlib.contextmanager
def listening(folder, *options, count=1):
    need_launcher()
    path = Path(folder) / "box"
    process = subprocess.Popen([*command(options), "-n", str(count), "-j", str(count), "--listen",
                                path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield Listening(process, path, count)
    finally:
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            raise


# ---- the protocol ----

REQUEST, INPUT, INPUT_END, SIGNAL = 1, 2, 3, 4
STARTED, STDOUT, STDERR, ENTRY, DONE, ERROR, CREDIT = 16, 17, 18, 19, 20, 21, 22
PING, EXEC, READ, WRITE, SHUTDOWN = 1, 2, 5, 6, 18
SESSION_CREATE, SESSION_DELETE, SESSION_EXEC, TERMINAL_ATTACH = 19, 21, 22, 28
TAGS = {"VERSION": 1, "OP": 2, "USER": 3, "ARG": 4, "ENV": 5, "CWD": 6, "TTY": 7, "ROWS": 8, "COLS": 9, "STDIN": 10,
        "TIMEOUT_MS": 11, "OUTPUT_MAX": 13, "PATH": 14, "MODE": 16, "SIZE": 19, "RECURSIVE": 21,
        "TEXT": 25, "SIGNAL": 29, "PID": 30, "EXIT": 31, "REASON": 32, "CODE": 33, "MESSAGE": 35, "REMEDY": 36,
        "NAME": 43, "NUMBER": 44, "COMMANDS": 50, "VIEWERS": 51, "BUSY": 52, "QUIET_MS": 12, "PROGRAM": 59, "KIND": 60}
NAMES = {number: name for name, number in TAGS.items()}


def field(tag, value):
    data = struct.pack("<Q", value) if isinstance(value, int) else os.fsencode(value) + b"\0"
    return struct.pack("<HI", TAGS[tag], len(data)) + data


def fields_of(payload):
    found, at = {}, 0
    while at < len(payload):
        tag, size = struct.unpack_from("<HI", payload, at)
        value = payload[at + 6:at + 6 + size]
        at += 6 + size
        number = tag not in (3, 4, 5, 6, 14, 15, 24, 25, 35, 36, 40, 43)
        found[NAMES.get(tag, tag)] = struct.unpack("<Q", value)[0] if number else value[:-1].decode()
    return found


class Connection:
    """One operation."""

    def __init__(self, sock):
        self.sock = sock
        self.file = sock.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.sock.close()

    def send(self, kind, payload=b""):
        self.sock.sendall(struct.pack("<IBxxx", len(payload), kind) + payload)

    def request(self, op, *pairs):
        head = field("VERSION", 1) + field("OP", op)
        self.send(REQUEST, head + b"".join(field(tag, value) for tag, value in pairs))

    def exec(self, *argv, **fields):
        env = [("ENV", "PATH=/usr/local/bin:/usr/bin:/bin")]
        self.request(EXEC, *[("ARG", arg) for arg in argv], *env, *fields.items())

    def receive(self):
        """(type, payload) of the next frame, or (0, b"") at the end."""
        try:
            head = self.file.read(8)
        except ConnectionResetError:  # it ended before it had read everything
            return 0, b""
        if len(head) < 8:
            return 0, b""
        size, kind = struct.unpack("<IBxxx", head)
        return kind, self.file.read(size)

    def expect(self, wanted):
        kind, payload = self.receive()
        assert kind == wanted, (kind, fields_of(payload) if kind in (DONE, ERROR) else payload)
        return payload

    def finish(self):
        """Reads to the last frame of a command: (exit code, output, fields of the last)."""
        output = b""
        while True:
            kind, payload = self.receive()
            if kind in (STDOUT, STDERR):
                output += payload
            elif kind in (DONE, ERROR):
                last = fields_of(payload)
                return last.get("EXIT"), output.decode(errors="replace"), last
            else:
                assert kind not in (0, ENTRY), "the connection broke off"

    def ended(self):
        """True if the other side has closed it."""
        return self.receive()[0] == 0


def is_alive(pid):
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
