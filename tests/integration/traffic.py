"""Keep-alive clients and an oracle outside of the daemon, for tests that stop, replace or load it.

A `Wire` is one client's connection: it stays open over requests, as those of every SDK do. A `Worker`
is a client with things of its own (API keys, which are rows of the database, and a sandbox with a
journal). It remembers what was acknowledged and what was refused before anything was done; `check()`
compares both with what is there: nothing acknowledged is missing, nothing refused was done, nothing
was done twice."""

import contextlib
import http.client
import json
import random
import re
import socket
import threading
import time

from daemons import Answer, LocalHTTP
from stressing import Lost
from websocket import NotUpgraded, open_unix

GIVE_UP = 60  # seconds that a client tries to connect


class Broken(Exception):
    """The connection ended before the answer did. Whether the request was done is not known."""

    def __init__(self, text, is_first):
        super().__init__(text)
        self.is_first = is_first  # of its connection: perhaps nobody has accepted that


class Refused(Exception):
    """Nobody listens."""


class Wire:
    """A keep-alive connection, over the unix socket or, with a port, TCP."""

    def __init__(self, path=None, port=None, key=None, timeout=90):
        self.where = (path, port, timeout)
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.connection = None
        self.used = 0         # requests on this connection
        self.reused = 0       # requests that were not the first of their connection
        self.connections = 0

    def _open(self):
        path, port, timeout = self.where
        made = LocalHTTP(path, timeout) if path else \
            http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
        try:
            made.connect()
        except (ConnectionRefusedError, ConnectionResetError, FileNotFoundError) as error:
            raise Refused(str(error)) from error
        made.auto_open = 0
        self.connection, self.used = made, 0
        self.connections += 1

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    def ask(self, method, path, body=None, **headers):
        """An Answer, or Broken, or Refused."""
        if self.connection is None:
            self._open()
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        self.reused += self.used > 0
        self.used += 1
        try:
            self.connection.request(method, path, json.dumps(body) if body is not None else None,
                                    {**self.headers, **names})
            response = self.connection.getresponse()
            answer = Answer(response)
        except (OSError, http.client.HTTPException) as error:
            number = self.used
            self.close()
            raise Broken(f"{method} {path}: request {number} of its connection: {error!r}",
                         number == 1) from error
        if response.will_close:
            self.close()
        return answer


def is_told_to_wait(answer):
    """503 before anything was done, and when to try again."""
    return answer.status == 503 and answer.headers.get("Retry-After") is not None


class Counts:
    """What happened to all requests of a run."""

    def __init__(self):
        self.lock = threading.Lock()
        self.answered = self.told = self.broken = self.unaccepted = self.refused = 0
        self.notes = []

    def add(self, what, note=None):
        with self.lock:
            setattr(self, what, getattr(self, what) + 1)
            if note and len(self.notes) < 20:
                self.notes.append(note)

    def __str__(self):
        return (f"{self.answered} answered, {self.told} told 503, {self.broken} broken, "
                f"{self.unaccepted} not accepted, {self.refused} refused; {self.notes}")


class Worker:
    """A client in a thread of its own. What is not known (a broken connection) counts neither way."""

    def __init__(self, wire, counts, name, seed=None, box=None, pause=0.0):
        self.wire, self.counts, self.name = wire, counts, name
        self.numbers = random.Random(seed)
        self.box = box        # of a sandbox whose journal is this client's alone, or None
        self.pause = pause    # between requests, at most
        self.keys = {}        # name: True there, False not, None unknown
        self.lines = {}       # of the journal: the same
        self.made = 0
        self.wrong = []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    # ---- asking ----

    def ask(self, method, path, body=None):
        """The answer; None if it was told that nothing was done. Tries to connect for a while."""
        deadline = time.monotonic() + GIVE_UP
        while True:
            try:
                answer = self.wire.ask(method, path, body)
            except Broken as broken:
                self.counts.add("unaccepted" if broken.is_first else "broken", str(broken))
                raise
            except Refused as refused:
                self.counts.add("refused", str(refused))
                if time.monotonic() > deadline or self.stop.is_set():
                    raise
                time.sleep(0.02)
                continue
            if not is_told_to_wait(answer):
                self.counts.add("answered")
                return answer
            self.counts.add("told")
            if self.wire.connection is not None:
                raise Lost(f"{self.name}: 503 with Retry-After, and the connection stays open")
            time.sleep(0.01)
            return None

    def _change(self, ledger, name, after, method, path, body, good):
        """One request that makes or removes something, and what is known of it afterwards."""
        before = ledger.get(name, False)
        ledger[name] = None
        answer = self.ask(method, path, body)
        if answer is None:
            ledger[name] = before
        elif answer.status in good:
            ledger[name] = after
        else:
            raise Lost(f"{self.name}: {method} {path}: {answer.status} {answer.text}")

    # ---- what it does ----

    def make_key(self):
        name = f"{self.name}-{self.made}"
        self.made += 1
        self._change(self.keys, name, True, "POST", "/api/cay/api-keys",
                     {"name": name, "permissions": ["read"]}, {200, 201})

    def remove_key(self):
        there = [name for name, is_there in self.keys.items() if is_there]
        if there:
            name = self.numbers.choice(there)
            self._change(self.keys, name, False, "DELETE", f"/api/cay/api-keys/{name}", None, {204})

    def look(self):
        there = [name for name, is_there in self.keys.items() if is_there]
        if not there:
            return
        name = self.numbers.choice(there)
        answer = self.ask("GET", f"/api/cay/api-keys/{name}")
        if answer is not None and answer.status != 200:
            raise Lost(f"{self.name}: key {name} is there: {answer.status} {answer.text}")

    def look_at_box(self):
        answer = self.ask("GET", f"/api/cay/sandbox/{self.box}")
        if answer is not None and answer.status != 200:
            raise Lost(f"{self.name}: sandbox {self.box} is there: {answer.status} {answer.text}")

    def write_line(self):
        line = f"{self.name}-{self.made}"
        self.made += 1
        self._change(self.lines, line, True, "POST", f"/toolbox/{self.box}/process/execute",
                     {"command": f"echo {line} >> /workspace/journal-{self.name}"}, {200})

    def step(self):
        choices = [self.make_key, self.remove_key, self.look]
        if self.box:
            choices += [self.look_at_box, self.write_line]
        self.numbers.choice(choices)()
        if self.pause:
            time.sleep(self.numbers.random() * self.pause)

    def _run(self):
        while not self.stop.is_set():
            try:
                self.step()
            except (Broken, Refused):
                continue
            except Exception as error:  # every other is kept, and fails the test
                self.wrong.append(repr(error))
                return

    # ---- afterwards ----

    def settle(self):
        """After the run: one request on a connection that may be stale by now."""
        self.wire.close()

    def check(self, daemon):
        """Compares what is known with what is there; call it when nothing is stopped any more."""
        if self.wrong:
            raise Lost(self.wrong[0])
        there = [key["name"] for key in daemon.call("GET", "/api/cay/api-keys")]
        self._compare("key", self.keys, [n for n in there if n.startswith(self.name + "-")])
        if self.box and self.lines:
            path = f"/workspace/journal-{self.name}"
            text = daemon.exec(self.box, "sh", "-c", f"cat {path} 2>/dev/null")[1]
            lines = (text.decode() if isinstance(text, bytes) else text).split()
            self._compare("line", self.lines, lines)

    def _compare(self, what, ledger, found):
        twice = {name for name in found if found.count(name) > 1}
        missing = {name for name, is_there in ledger.items() if is_there} - set(found)
        surplus = set(found) & {name for name, is_there in ledger.items() if is_there is False}
        if twice or missing or surplus:
            raise Lost(f"{self.name}: {what}s missing {missing}, done though refused {surplus}, "
                       f"done twice {twice}")


COUNTING = "i=0; while [ $i -lt {most} ]; do i=$((i+1)); echo :$i; sleep 0.01; done\n"


class Viewer:
    """Somebody at a terminal in which a program counts, over a WebSocket. When that is closed because
    the daemon restarts, or breaks, it is opened again; what was missed is shown then. No number may
    be missing in the end."""

    def __init__(self, daemon, box, name):
        self.daemon, self.box, self.name = daemon, box, name
        self.seen = b""
        self.opened = self.restarts = self.broken = 0
        self.typed = False
        self.most = 0
        self.wrong = []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def begin(self, most):
        """Lets the program count so far."""
        self.most = most
        self.thread.start()

    def _open(self):
        path = f"/toolbox/{self.box}/process/pty/"
        path += f"{self.name}/connect" if self.opened else f"create-connect?id={self.name}"
        made = open_unix(self.daemon.socket, path, timeout=5)
        self.opened += 1
        return made

    def _look(self):
        with self._open() as ws:
            while not self.stop.is_set():
                try:
                    message = ws.receive()
                except TimeoutError:
                    continue
                if message is None:
                    self.restarts += ws.closed[0] == 1012
                    if ws.closed[0] != 1012:
                        self.wrong.append(f"{self.name}: {ws.closed}")
                        self.stop.set()
                    return
                if isinstance(message, bytes):
                    self.seen += message
                elif not self.typed:
                    ws.send(COUNTING.format(most=self.most))
                    self.typed = True

    def _run(self):
        while not self.stop.is_set():
            try:
                self._look()
            except NotUpgraded as refused:
                if refused.status != 503:
                    self.wrong.append(f"{self.name}: {refused}")
                    return
                time.sleep(0.02)
            except (OSError, EOFError):
                self.broken += 1
                time.sleep(0.02)

    def has_all(self):
        return f":{self.most}\r".encode() in self.seen

    def check(self):
        numbers = {int(n) for n in re.findall(rb":([0-9]+)\r", self.seen)}
        missing = set(range(1, self.most + 1)) - numbers
        if self.wrong or missing:
            raise Lost(f"{self.name}: {self.wrong}, {len(missing)} numbers of {self.most} missing, "
                       f"the first {min(missing, default=0)}")


@contextlib.contextmanager
def running(workers):
    """Lets them work meanwhile, and waits for their ends."""
    for w in workers:
        w.thread.start()
    try:
        yield
    finally:
        for w in workers:
            w.stop.set()
        for w in workers:
            w.thread.join(120)
            w.settle()
        assert not any(w.thread.is_alive() for w in workers), "a client hangs"


def workers_for(daemon, counts, count, seed=None, boxes=(), pause=0.0):
    """Half of them over TCP, if the daemon has a port."""
    made = []
    for i in range(count):
        tcp = getattr(daemon, "port", None) and i % 2
        wire = Wire(port=daemon.port, key=daemon.key) if tcp else Wire(path=daemon.socket)
        made.append(Worker(wire, counts, f"w{i}", seed=None if seed is None else seed + i,
                           box=boxes[i % len(boxes)] if boxes else None, pause=pause))
    return made


def is_listening(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
        return True
    return False
