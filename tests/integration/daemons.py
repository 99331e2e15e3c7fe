"""A daemon with a state folder of its own, and its clients, for tests."""

import contextlib
import http.client
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
import support
from launching import Connection, is_alive, until

CAYD = support.BUILD / "cayd"


class LocalHTTP(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path, timeout=60):
        super().__init__("localhost", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.text = response.read().decode()

    def json(self):
        assert self.headers["Content-Type"] == "application/json", self.text
        return json.loads(self.text)


class Refused(Exception):
    def __init__(self, answer):
        super().__init__(answer.status, answer.text)
        self.status = answer.status
        self.error = json.loads(answer.text)


def children(pid):
    """Of a process; none of one that has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return []


def name_of(pid):
    """That of its program, "" if it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


class Daemon:
    def __init__(self, folder, *options, env=None, path=None):
        if not CAYD.exists():
            pytest.skip("cayd is not built: ninja -C build")
        self.state = Path(folder) / "state"
        self.state.mkdir(exist_ok=True)
        support.own(self.state)
        self.socket = path or self.state / "daemon" / "cay.sock"
        self.log = Path(folder) / "log"
        self.options = options
        self.env = env or {}
        self.process = None
        self.start()

    # ---- processes ----

    def spawn(self, *options, **more):
        """Any cayd on the same state folder."""
        who, env = support.as_user()
        return subprocess.Popen([CAYD, "--state-dir", self.state, *options],
                                env={**env, **self.env}, stdin=subprocess.DEVNULL, **who, **more)

    def start(self):
        with open(self.log, "ab") as log:
            self.process = self.spawn(*self.options, stdout=log, stderr=log)
        if not until(self.serves):
            self.kill()
            pytest.fail(self.log.read_text())

    def serves(self):
        """It does, and not what a killed one before it has left for a moment."""
        try:
            return self.process.poll() is None and self.front() != 0 and \
                self.get("/readyz").text == "ok"
        except OSError:
            return False

    def child(self, name):
        """The process id of the front or the launcher, 0 if there is none."""
        first = children(self.process.pid)
        others = (pid for child in first for pid in children(child))  # if another started it
        for pid in itertools.chain(first, others):
            if name_of(pid) == name and is_alive(pid):
                return int(pid)
        return 0

    def front(self):
        return self.child("cayd-front")

    def launcher(self):
        return self.child("cay-launcher")

    def kill_child(self, name):
        """Kills it, and waits for its successor."""
        assert until(lambda: self.child(name)), self.log.read_text()
        old = self.child(name)
        assert old
        os.kill(old, signal.SIGKILL)
        assert until(lambda: self.child(name) not in (0, old)), self.log.read_text()

    def kill(self):
        self.process.kill()
        self.process.wait(60)

    def stop(self, seconds=60):
        """SIGTERM; how long it took."""
        began = time.monotonic()
        self.process.terminate()
        assert self.process.wait(seconds) == 0, self.log.read_text()
        return time.monotonic() - began

    def clean_up(self):
        """Removes every sandbox, and ends."""
        if self.process.poll() is not None:
            self.start()
        for sandbox in self.list():
            self.call("DELETE", f"/api/cay/sandbox/{sandbox['id']}?force=true")
        self.stop()
        log = self.log.read_text(errors="replace")
        # the leak checker itself fails in the launcher, which has no /proc
        for word in ("AddressSanitizer", "ThreadSanitizer", "detected memory leaks",
                     "runtime error"):
            assert word not in log, log

    # ---- requests ----

    def http(self, timeout=60):
        return LocalHTTP(self.socket, timeout)

    def ask(self, method, path, body=None, **headers):
        connection = self.http()
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, dict):
            body = json.dumps(body)
        try:
            connection.request(method, path, body, names)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.ask("GET", path, **headers)

    def call(self, method, path, body=None):
        """What a request that succeeds answers."""
        answer = self.ask(method, path, body)
        if answer.status >= 400:
            raise Refused(answer)
        return answer.json() if answer.status != 204 else None

    def list(self, query=""):
        return self.call("GET", "/api/cay/sandbox" + query)

    def create(self, **wishes):
        if support.USER:
            wishes.setdefault("tier", "basic")
        return self.call("POST", "/api/cay/sandbox", wishes)

    def state_of(self, who):
        return self.call("GET", f"/api/cay/sandbox/{who}")["state"]

    def upgrade(self, who, early=b""):
        """The bare socket after the head of the answer, and the answer's headers."""
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(60)
        sock.connect(str(self.socket))
        sock.sendall(b"GET /api/cay/sandbox/%s/connect HTTP/1.1\r\nHost: x\r\n"
                     b"Connection: Upgrade\r\nUpgrade: cay-init\r\n\r\n" % who.encode() + early)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = sock.recv(1)
            assert byte, head
            head += byte
        assert head.startswith(b"HTTP/1.1 101 "), head
        return sock, head.decode().split("\r\n")[1:-2]

    def connect(self, who):
        return Connection(self.upgrade(who)[0])

    def exec(self, who, *argv, **fields):
        """(exit code, output) of a command."""
        with self.connect(who) as c:
            c.exec(*argv, **fields)
            return c.finish()[:2]


@contextlib.contextmanager
def serving(folder, *options, **more):
    daemon = Daemon(folder, *options, **more)
    try:
        yield daemon
    finally:
        daemon.clean_up()


@contextlib.contextmanager
def own_folder():
    """For longer than a test; the tested user owns and reaches it."""
    with tempfile.TemporaryDirectory(prefix="box-", dir="/tmp", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        support.own(folder)
        yield folder


@contextlib.contextmanager
def serving_alone(*options, **more):
    """A daemon in a folder of its own."""
    with own_folder() as folder, serving(folder, *options, **more) as daemon:
        yield daemon


PORTS = range(10000, 30000)  # below those that the kernel gives to who asks for any
RESERVED = []  # for as long as we live


def free_port():
    """A TCP port of this machine that nobody listens on, and that no other test will choose: whoever
    has the abstract socket of its name, has the port, also while nobody listens on it."""
    while True:
        port = random.SystemRandom().choice(PORTS)
        mark = socket.socket(socket.AF_UNIX)
        try:
            mark.bind(f"\0cay-test-port-{port}")
            with socket.socket() as sock:
                sock.bind(("127.0.0.1", port))
        except OSError:  # somebody has it
            mark.close()
            continue
        RESERVED.append(mark)
        return port


@contextlib.contextmanager
def serving_tcp(folder=None, **more):
    """A daemon that listens on TCP too, in a folder of its own unless one is given. It has `port`,
    and `key`, the administrator's."""
    with contextlib.ExitStack() as undo:
        if folder is None:
            folder = undo.enter_context(own_folder())
        port = free_port()
        daemon = undo.enter_context(serving(folder, "--listen", f"127.0.0.1:{port}", **more))
        daemon.port = port
        daemon.key = (daemon.state / "admin.key").read_text().strip()
        yield daemon


def end_background(state):
    """Ends the daemon that a client started for a state folder, if there is one."""
    lock = Path(state) / "daemon/lock"
    pid = int((lock.read_text().split() or ["0"])[0]) if lock.exists() else 0
    if pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        assert until(lambda: not is_alive(pid), 60)
