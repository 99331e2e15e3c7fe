"""The edge of the HTTP server: what it takes from strangers, and what no client may get out of it."""

import contextlib
import json
import re
import resource
import socket
import threading
import time

import pytest
from daemons import serving_tcp
from support import amount
from test_keys import make_key
from test_tenancy import CONSTANT, Keeping

HALF = b"GET /api/cay/status HTTP/1.1\r\nHost: localhost\r\nX-"


@pytest.fixture(scope="module")
def daemon():
    with serving_tcp() as d:
        yield d


@pytest.fixture
def descriptors():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[1], 8192), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


# ---- many that say nothing ----

class Flood:
    """Half heads from another address, again whenever one of them is dropped."""

    def __init__(self, port, count, first=HALF):
        self.port, self.first = port, first
        self.socks = [self.open() for _ in range(count)]
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.refill)
        self.thread.start()

    def open(self):
        try:
            sock = socket.create_connection(("127.0.0.1", self.port), 60, ("127.0.0.2", 0))
            sock.sendall(self.first)
            sock.setblocking(False)
            return sock
        except OSError:
            return None

    def is_gone(self, sock):
        try:
            return sock is None or (sock.recv(4096) == b"")
        except BlockingIOError:
            return False
        except OSError:
            return True

    def refill(self):
        while not self.over.wait(0.01):
            for i, sock in enumerate(self.socks):
                if self.over.is_set():
                    return
                if self.is_gone(sock):
                    if sock is not None:
                        sock.close()
                    self.socks[i] = self.open()

    def close(self):
        self.over.set()
        self.thread.join()
        for sock in self.socks:
            if sock is not None:
                sock.close()


@pytest.mark.parametrize("first", [HALF, b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET"],
                         ids=["half a head", "nothing", "half a head after a probe"])
def test_connections_without_a_key_do_not_keep_others_out(daemon, descriptors, first):
    client = make_key(daemon, "served", permissions=["read"])
    flood = Flood(daemon.port, 1500, first)
    try:
        for _ in range(amount(40, 200)):
            assert client.ask("GET", "/api/cay/sandbox").status == 200  # over a new connection
            time.sleep(0.02)
        assert daemon.get("/api/cay/status").status == 200  # over the unix socket
    finally:
        flood.close()
        daemon.call("DELETE", "/api/cay/api-keys/served")


def test_an_idle_client_with_a_key_outlasts_those_without(daemon, descriptors):
    """Connections that have shown a key are not dropped for newcomers of the same address."""
    client = make_key(daemon, "idle", permissions=["read"])
    sock = socket.create_connection(("127.0.0.1", daemon.port), 60, ("127.0.0.2", 0))
    head = (f"GET /api/cay/sandbox HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {client.key}"
            "\r\n\r\n").encode()
    sock.sendall(head)
    assert b" 200 " in sock.recv(65536)
    flood = Flood(daemon.port, 700)
    try:
        time.sleep(0.5)
        sock.sendall(head)
        assert b" 200 " in sock.recv(65536)
    finally:
        flood.close()
        sock.close()
        daemon.call("DELETE", "/api/cay/api-keys/idle")


# ---- bodies that two servers could read differently ----

BROKEN = {
    "bare LF": b"2\n{}\r\n0\r\n\r\n",
    "bare LF behind an extension": b"2;a=b\n{}\r\n0\r\n\r\n",
    "bare CR": b"2\r{}\r\n0\r\n\r\n",
    "bare LF behind the data": b"2\r\n{}\n0\r\n\r\n",
    "more data than it says": b"2\r\n{} \r\n0\r\n\r\n",
    "bare LF behind the last": b"2\r\n{}\r\n0\n\r\n",
    "bare LF at the end": b"2\r\n{}\r\n0\r\n\n",
    "bare LF in a trailer": b"2\r\n{}\r\n0\r\nA: b\n\r\n",
    "no size": b"\r\n{}\r\n0\r\n\r\n",
    "a blank before the size": b" 2\r\n{}\r\n0\r\n\r\n",
    "a blank behind the size": b"2 \r\n{}\r\n0\r\n\r\n",
    "a prefix": b"0x2\r\n{}\r\n0\r\n\r\n",
    "a sign": b"+2\r\n{}\r\n0\r\n\r\n",
    "too many digits": b"0" * 16 + b"2\r\n{}\r\n0\r\n\r\n",
    "a zero byte in an extension": b"2;\0\r\n{}\r\n0\r\n\r\n",
    "a long extension": b"2;" + b"a" * 300000 + b"\r\n{}\r\n0\r\n\r\n",
    "a long trailer": b"2\r\n{}\r\n0\r\nA: " + b"a" * 300000 + b"\r\n\r\n",
}
CLEAR = {"plain": b"2\r\n{}\r\n0\r\n\r\n", "an extension": b'2;a="b c";d\r\n{}\r\n0;e\r\n\r\n',
         "a trailer": b"2\r\n{}\r\n0\r\nA: b\r\nC: d\r\n\r\n", "zeros": b"002\r\n{}\r\n000\r\n\r\n",
         "two": b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"}


def chunked(daemon, body, *, pieces=False, first=b""):
    """All that is answered to a body in chunks, and a request behind it."""
    head = (f"POST /api/cay/volumes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {daemon.key}\r\n"
            "Transfer-Encoding:" + " " * 40 + "Chunked\r\n\r\n").encode()
    after = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answer = b""
    with socket.create_connection(("127.0.0.1", daemon.port), 60) as sock, contextlib.suppress(ConnectionError):
        if pieces:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in first + head + body + after:
                with contextlib.suppress(ConnectionError):
                    sock.sendall(bytes([byte]))
        else:
            sock.sendall(first + head + body + after)
        while data := sock.recv(65536):
            answer += data
    return answer


@pytest.mark.parametrize("pieces", [False, True])
@pytest.mark.parametrize("what", BROKEN)
def test_chunks_that_are_not_clear_are_refused(daemon, what, pieces):
    if pieces and len(BROKEN[what]) > 1000:
        return
    answer = chunked(daemon, BROKEN[what], pieces=pieces)
    assert answer.startswith(b"HTTP/1.1 400 "), answer
    assert answer.count(b"HTTP/1.1 ") == 1 and b"Connection: close" in answer, answer
    assert b'"remedy"' in answer and b"does not end in CR LF" in answer


@pytest.mark.parametrize("pieces", [False, True])
@pytest.mark.parametrize("what", CLEAR)
def test_chunks_that_are_clear_are_taken(daemon, what, pieces):
    answer = chunked(daemon, CLEAR[what], pieces=pieces)
    assert answer.startswith(b"HTTP/1.1 400 ") and b"name" in answer, answer  # of the volume
    assert b"CR LF" not in answer and b"HTTP/1.1 200 OK" in answer, answer


def test_a_broken_body_does_not_change_the_answer_before_it(daemon):
    first = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2
    answer = chunked(daemon, BROKEN["bare LF"], first=first)
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200", b"200", b"400"], answer


# ---- what is asked for in odd ways ----

ODD = ["%00", "%ff%fe", "a" * 5000, "..", "%2f", "-1", "99999999999999999999999", "%0a", "%zz", "*", "a%00b"]
QUERIES = ["path=%00", "path=%2fproc%2fself%2fmem", "path=/dev/ptmx", "path=/proc/kmsg", "path=a" + "a" * 5000,
           "limit=99999999999999999999", "limit=-1", "page=0", "cols=-1&rows=99999999999", "depth=-1", "path=%ff",
           "follow=x", "expiresInSeconds=99999999999999999", "pattern=%00", "since=x&after=-1", "query=[&path=/"]
RAW = [b"", b"{", b"\xff\xfe", b"null", b"[]", b"1", b"[" * 5000 + b"]" * 5000, b'{"a":' * 3000 + b"1" + b"}" * 3000,
       b"\0" * 100, b'{"name":"\xff"}', b'{"command":"\\u0000","name":"\\ud800"}']
VALUES = [None, -1, 2 ** 64, 10 ** 30, 1e308, "", "a" * 70000, "\0", "../..", "/proc/self/mem", [], [[]], {}]
ENDS = ("/stop", "/archive", "/pause", "/backup", "/snapshot", "/python", "/recover", "/start", "/resize", "/ttl/")


def odd_requests(document, box):
    """Method, path and body of each."""
    fill = {**CONSTANT, "who": box, "box": box, "session": "s", "command": "1", "hash": "a" * 64}
    for path, ways in document["paths"].items():
        names = re.findall(r"{([^}]+)}", path)
        good = re.sub(r"{([^}]+)}", lambda m: fill.get(m[1], "x"), path)
        for method in (m for m in ways if m != "parameters"):
            body = None if method == "get" else b"{}"
            for name in names:
                for value in ODD:
                    yield method, re.sub(r"{([^}]+)}", lambda m: value if m[1] == name else fill.get(m[1], "x"),
                                         path), body
            if method == "get":
                yield from ((method, f"{good}?{query}", None) for query in QUERIES)
            elif not good.endswith(ENDS) and method != "delete":
                yield from ((method, good, raw) for raw in RAW)
                yield from ((method, good, typed) for typed in typed_bodies(document, ways[method]))


def typed_bodies(document, way):
    """Each property of the body that it wants, as something else."""
    content = way.get("requestBody", {}).get("content", {}).get("application/json", {})
    reference = content.get("schema", {}).get("$ref", "").rsplit("/", 1)[-1]
    shape = document["components"]["schemas"].get(reference, {}).get("properties", {})
    right = {"name": "n", "command": "true", "code": "1", "sessionId": "zz", "id": "zz", "path": "/workspace/x"}
    for name in shape:
        for value in VALUES:
            yield json.dumps({**{k: v for k, v in right.items() if k in shape}, name: value}).encode()


def test_no_request_is_an_error_of_ours(daemon):
    client = make_key(daemon, "odd", permissions=["sandboxes", "images"], maxSandboxes=3)
    box = client.create(name="odd", memory="128m")["id"]
    client.ask("POST", f"/toolbox/{box}/process/session", {"sessionId": "s"})
    asker, front, count = Keeping(client), daemon.front(), 0
    for method, path, body in odd_requests(daemon.call("GET", "/openapi.json"), box):
        if "signing-key" in path or path.startswith("/metrics"):
            continue
        status, _, text = asker.ask(method, path, body)
        assert status < 500 or status in (501, 502, 503, 504), (method, path[:200], (body or b"")[:200], text)
        count += 1
    assert count > 3000 and daemon.front() == front
    for made in daemon.list():
        daemon.call("DELETE", f"/api/cay/sandbox/{made['id']}?force=true")


@pytest.mark.parametrize("version, key", [("99", "dGhlIHNhbXBsZSBub25jZQ=="), ("13", "short"), ("13", None), (None, None)])
def test_no_terminal_is_made_for_an_upgrade_that_is_refused(daemon, version, key):
    box = daemon.create(memory="64m")["id"]
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": version,
               "Sec-WebSocket-Key": key}
    answer = daemon.ask("GET", f"/toolbox/{box}/process/pty/create-connect?id=never",
                        **{name: value for name, value in headers.items() if value is not None})
    assert answer.status == 426 and answer.headers["Sec-WebSocket-Version"] == "13"
    assert daemon.call("GET", f"/toolbox/{box}/process/pty")["sessions"] == []
    daemon.call("DELETE", f"/api/cay/sandbox/{box}?force=true")
