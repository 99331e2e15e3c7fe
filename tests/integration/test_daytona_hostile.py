"""Requests that nobody with good intentions sends: heads that can be read in two ways, bodies that
are nothing, paths that lead elsewhere, pages of other origins, clients that take their time. They
are refused in words, nothing dies of them, and others are served meanwhile."""

import base64
import concurrent.futures
import contextlib
import http.client
import json
import os
import re
import socket
import threading
import time

import pytest
import support
from daemons import serving_tcp
from launching import until
from test_keys import Client, make_key
from websockets_raw import WebSocket, refused

pytestmark = support.as_root_only
HEALTH = b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def daemon():
    with serving_tcp() as d:
        d.ann = make_key(d, "ann")
        d.box = d.ann.create(name="lab")["id"]
        yield d


def everything(sock):
    data = b""
    with contextlib.suppress(ConnectionError):
        while piece := sock.recv(65536):
            data += piece
    return data


def say(d, data, hangs_up=False):
    """What is answered to bytes, until the daemon hangs up; if it might wait for more, we do."""
    with socket.create_connection(("127.0.0.1", d.port), 60) as sock:
        with contextlib.suppress(ConnectionError):
            sock.sendall(data)
            if hangs_up:
                sock.shutdown(socket.SHUT_WR)
        return everything(sock)


def statuses(text):
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", text)]


# ---- heads ----

def head(d, *lines, method="POST", path="/api/cay/volumes", version="HTTP/1.1"):
    fields = ["Host: localhost", f"Authorization: Bearer {d.ann.key}", *lines]
    return f"{method} {path} {version}\r\n".encode() + b"".join(
        (line if isinstance(line, bytes) else line.encode()) + b"\r\n" for line in fields) + b"\r\n"


@pytest.mark.parametrize("lines", [
    ["Content-Length: 2", "Transfer-Encoding: chunked"],
    ["Transfer-Encoding: chunked", "Content-Length: 2"],
    ["Content-Length: 2", "Content-Length: 2"],
    ["Content-Length: 2", "content-length: 0"],
    ["Content-Length: 2, 2"], ["Content-Length: +2"], ["Content-Length: 0x2"],
    ["Content-Length: -1"], ["Content-Length:"], ["Content-Length: 2 "],
    ["Content-Length: 99999999999999999999"],
    ["Transfer-Encoding: gzip"], ["Transfer-Encoding: chunked, identity"],
    ["Transfer-Encoding: identity, chunked"], ["Transfer-Encoding: xchunked"],
    ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"],
    ["Transfer-Encoding : chunked"], ["Transfer-Encoding\t: chunked"], ["Transfer-Encoding:\vchunked"],
    ["Transfer-Encoding: chunked", " "], ["Transfer-Encodi: chunked", " ng"],
    ["X: y", " Transfer-Encoding: chunked"], ["X: y", "\tz"], [" X: y"], ["X y"], [": y"],
    [b"X: a\nTransfer-Encoding: chunked"], [b"X: a\nY: b"], [b"X: a\rTransfer-Encoding: chunked"],
    [b"X: a\0b"], [b"X\0: a"], [b"X: \x01"], [b"X: \x7f"], ["X(y): z"], ["X\x80: y"],
    ["Host: elsewhere"], ["Authorization: Bearer x"],
], ids=repr)
def test_heads_that_can_be_read_in_two_ways(daemon, lines):
    """One answer, that it is refused, and what follows is no request."""
    text = say(daemon, head(daemon, *lines) + b"0\r\n\r\n" + HEALTH + b"\r\n", True)
    assert statuses(text) and set(statuses(text)) <= {400, 413}, text
    assert b'"status":"ok"' not in text


@pytest.mark.parametrize("data", [
    b"GET  /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /api/health\r\n\r\n",
    b"GET /api/health HTTP/1.1 \r\nHost: localhost\r\n\r\n", b"GET\t/api/health\tHTTP/1.1\r\n\r\n",
    b"GET /api/health HTTP/1.1\nHost: localhost\n\n", b"GET /api/he alth HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /api/health HTTP/2.0\r\nHost: localhost\r\n\r\n", b"GET /api/health HTTP/0.9\r\n\r\n",
    b"GET /api/health FTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100) + b"\r\n\r\n",
    b"POST /api/health HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
])
def test_lines_that_are_no_request(daemon, data):
    text = say(daemon, data + HEALTH + b"\r\n", True)
    assert all(400 <= status < 500 or status == 505 for status in statuses(text)), text
    assert len(statuses(text)) <= 1


def test_what_is_clear_is_taken(daemon):
    """Blanks where they may be, headers of any case, requests one behind the other."""
    text = say(daemon, b"GET /api/health HTTP/1.1\r\nhost:localhost\r\nX-A:  b \r\nX-B:\r\nX-A: \tc\xe4\r\n\r\n"
               + HEALTH + b"\r\n" + head(daemon, "Content-Length: 2") + b"[]"
               + head(daemon, "Transfer-Encoding: Chunked") + b"2;x=y\r\n[]\r\n0\r\nX: y\r\n\r\n" + HEALTH
               + b"Connection: close\r\n\r\n")
    assert statuses(text) == [200, 200, 400, 400, 200], text


def test_large_heads(daemon):
    """Many headers, and long ones, are refused; as many as a proxy adds are not."""
    def with_fields(count, size=1):
        return statuses(say(daemon, HEALTH + b"".join(
            b"X-%d: %s\r\n" % (i, b"y" * size) for i in range(count)) + b"Connection: close\r\n\r\n"))

    assert with_fields(100) == [200] and with_fields(10, 10000) == [200]
    assert with_fields(300) == [400] and with_fields(10000) in ([400], [431], [])
    assert with_fields(4, 1 << 20) in ([431], [])
    for size in (5000, 2 << 20):
        text = say(daemon, b"GET /" + b"a" * size + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", True)
        assert statuses(text) in ([400], [401], [414], []), text[:100]
    assert daemon.ann.ask("GET", "/api/cay/sandbox").status == 200


# ---- bodies ----

def document(d):
    paths = d.ann.call("GET", "/openapi.json")["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods
            if method in ("get", "post", "put", "patch", "delete") and not path.startswith("/preview")]


ARGUMENTS = {"port": "4000", "interval": "30", "minutes": "30"}
FIELDS = """name image snapshot user env labels public cpu memory disk gpu target autoStopInterval volumes
    buildInfo networkBlockAll class language command code cwd timeout sessionId id runAsync path files from to
    content mode owner group permissions pattern newValue url branch username message author email
    remote key value cols rows envs data size port expiresAt interval destination argv set unset""".split()
BROKEN = {
    "garbage": b"\x00\xff\xfe", "cut off": b'{"name": "x', "array": b"[]", "text": b'"x"',
    "number": b"7", "null": b"null", "two": b"{} {}", "comment": b"{/*x*/}", "not a number": b'{"cpu": NaN}',
    "deep array": b"[" * 100000, "deep object": b'{"a":' * 50000 + b"1" + b"}" * 50000,
    "no UTF-8": b'{"name": "\xff\xfe", "command": "\xc0\x80"}', "half a pair": b'{"name": "\\ud800"}',
    "zero": b'{"name": "a\\u0000b", "command": "a\\u0000b", "env": {"a": "\\u0000"}}',
    "twice": b'{"name": "a", "name": "b", "command": "true", "command": "false"}',
    "huge": b'{"cpu": 1e999999, "timeout": 99999999999999999999999999}',
}
WRONG = {"list": [1, {"x": []}], "negative": -1, "large": 1e300, "object": {"a": {"b": 1}}, "true": True,
         "empty": "", "long": "x" * 10000}
BODIES = {**BROKEN, **{kind: json.dumps({name: value for name in FIELDS}).encode()
                       for kind, value in WRONG.items()}}
# Those that have no body, or take any.
WITHOUT_BODY = re.compile(r"/(start|stop|pause|resume|archive|backup|recover|rotate|last-activity|public"
                          r"|expire|ttl|auto\w+)(/|$)")


def complain(answer, path):
    """What is wrong with the shape of an error, or None."""
    if path.startswith("/s3/"):  # that protocol's own
        is_one = re.search("<Error><Code>[A-Za-z]+</Code><Message>[^<>]+</Message></Error>", answer.text)
        return None if is_one else "no error of S3"
    try:
        says = answer.json()
    except (ValueError, AssertionError):
        return "no JSON"
    if says.get("statusCode") != answer.status or not says.get("message"):
        return "no status or message"
    return None if path.startswith("/api/cay/") != ("path" in says) else "another API's shape"


def test_bodies_that_are_nothing(daemon):
    """Every operation, with each of them: an error of the client's, in the form of the API."""
    front, wrong, asked = daemon.front(), [], 0
    for method, path in document(daemon):
        if method in ("GET", "DELETE") or WITHOUT_BODY.search(path):
            continue
        filled = re.sub(r"\{(\w+)\}", lambda m: daemon.box if m[1] == "who" else
                        ARGUMENTS.get(m[1], "none"), path)
        for kind, body in BODIES.items():
            answer = daemon.ann.ask(method, filled, body, Content_Type="application/json")
            asked += 1
            why = None
            if answer.status >= 500 and answer.status != 501:
                why = "it is ours"
            elif answer.status >= 400:
                why = complain(answer, path)
            elif kind in BROKEN and kind not in ("huge", "zero"):
                why = "it was taken"
            if why:
                wrong.append(f"{method} {path} {kind}: {answer.status} {why} {answer.text[:200]}")
    assert asked > 500 and wrong == []
    assert daemon.front() == front and daemon.state_of(daemon.box) == "started"


def test_looks_with_odd_queries(daemon):
    odd = ["", "limit=-1", "limit=99999999999999999999", "page=x", "limit=%00", "labels=%7B", "labels=[]", "cursor=%ff",
           "path=%00", "path=", "path=..%2F..%2F..%2Fetc%2Fpasswd", "pattern=%5B", "force=maybe",
           "a&a=&=a&&", "follow=x", "expiresInSeconds=1e9", "&" * 60, "x=1&" * 70, "sort=%27%3B--", "states=;"]
    front, wrong = daemon.front(), []
    for method, path in document(daemon):
        if method != "GET" or path.endswith(("/connect", "/create-connect", "/socket.io")):
            continue
        filled = re.sub(r"\{(\w+)\}", lambda m: daemon.box if m[1] == "who" else
                        ARGUMENTS.get(m[1], "none"), path)
        for query in odd:
            answer = daemon.ann.ask("GET", f"{filled}?{query}")
            if answer.status >= 500 and answer.status != 501:
                wrong.append(f"{path}?{query}: {answer.status} {answer.text[:200]}")
            elif answer.status >= 400 and complain(answer, path) and path.startswith("/api"):
                wrong.append(f"{path}?{query}: {complain(answer, path)} {answer.text[:200]}")
    assert wrong == [] and daemon.front() == front


def test_a_refusal_is_seen_by_who_sends_much(daemon):
    """The answer is read although the body was on its way, and it is what it would be without."""
    data = b"x" * (3 << 20)
    for path in ("/toolbox/none/files/upload?path=/tmp/x", "/toolbox/none/files/bulk-upload",
                 "/preview/none/8080/"):
        assert daemon.ann.ask("POST", path, data).status == 404, path
    assert daemon.ann.ask("POST", f"/preview/{daemon.box}/9/", data).status == 502
    assert daemon.ann.ask("POST", "/api/sandbox", data).status == 413
    # who asks first is told at once
    with socket.create_connection(("127.0.0.1", daemon.port), 60) as sock:
        sock.sendall(head(daemon, "Content-Length: 1000000000", "Expect: 100-continue",
                          path="/toolbox/none/files/upload?path=/tmp/x"))
        assert statuses(everything(sock)) == [404]


# ---- paths ----

@pytest.mark.parametrize("path", [
    "//api/cay/sandbox", "/api//cay/sandbox", "/api/cay//sandbox", "/api/./cay/sandbox", "/api/x/../cay/sandbox",
    "/api/%2e%2e/api/cay/sandbox", "/api/%2e/cay/sandbox", "/api%2fcay%2fsandbox", "/api/cay/sandbox%00",
    "/api/cay/sandbox%0a", "/api/cay/sandbox%252f", "/api/cay/sandbox;x=y", "/api;/cay/sandbox", "/api\\cay\\sandbox",
    "/%61pi/cay/sandbox%20", "/api/cay/sandbox/%ff", "/api/cay/sandbox/%c0%ae%c0%ae", "/api/cay/sandbox/%zz",
    "/api/cay/sandbox/%", "/api/cay/sandbox/..", "/api/cay/sandbox/.", "/api/cay/sandbox/%2e%2e%2fapi-keys",
    "/api/cay/sandbox/*", "/api/cay/sandbox/{who}", "/API/CAY/SANDBOX", "/api/cay/sandbox#x", "http://localhost/api/cay/sandbox",
    "*", "localhost:80", "/toolbox/../api/cay/sandbox", "/preview/../api/cay/sandbox",
    "/preview/lab/2280/../../../api/cay/api-keys", "/preview/lab/2280/%2e%2e/%2e%2e/api/cay/api-keys",
    "/api/toolbox/../cay/api-keys", "/api/toolbox/lab/toolbox/../../../cay/api-keys",
])
def test_paths_that_lead_elsewhere(daemon, path):
    """A path is what it says: nothing is put together or decoded twice."""
    text = say(daemon, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {daemon.ann.key}\r\n"
               "Connection: close\r\n\r\n".encode())
    assert len(statuses(text)) == 1 and statuses(text)[0] in (400, 403, 404, 405, 501), text


@pytest.mark.parametrize("path", ["/proc/1/environ", "../../../../etc/shadow", "/tmp/../proc/self/root/etc/shadow",
                                  "/dev/zero", "", "a\0b"])
def test_files_that_are_none_of_a_sandbox(daemon, path):
    quoted = path.replace("/", "%2F").replace("\0", "%00")
    for way in (f"/toolbox/{daemon.box}/files/info?path={quoted}", f"/toolbox/{daemon.box}/files/search?path={quoted}&pattern=x"):
        answer = daemon.ann.ask("GET", way)
        assert answer.status < 500 and "root:$" not in answer.text


# ---- tenants ----

def test_what_belongs_to_another_key_is_not_there(daemon):
    """Everything with an id but sandboxes, which test_keys walks: as if it did not exist."""
    bob = make_key(daemon, "bob", permissions=["sandboxes"])
    volume = daemon.ann.call("POST", "/api/cay/volumes", {"name": "precious"})["id"]
    link = daemon.ann.call("GET", f"/api/sandbox/{daemon.box}/ports/4000/signed-preview-url")
    none = "0123456789abcdef"
    pairs = [(f"/api/cay/volumes/{volume}", f"/api/cay/volumes/{none}"),
             ("/api/cay/volumes/by-name/precious", "/api/cay/volumes/by-name/gracious"),
             (f"/api/volumes/{volume}", f"/api/volumes/{none}"),
             ("/api/volumes/by-name/precious", "/api/volumes/by-name/gracious"),
             (f"/preview/{daemon.box}/4000/", f"/preview/{none}/4000/"), ("/preview/lab/4000/", "/preview/bal/4000/")]
    for method in ("GET", "DELETE", "POST", "PUT"):
        for there, absent in pairs:
            first, second = bob.ask(method, there), bob.ask(method, absent)
            assert first.status == second.status and first.status in (404, 405), (method, there, first.text)
    assert bob.ask("POST", f"/api/sandbox/{daemon.box}/ports/4000/signed-preview-url/{link['token']}/expire").status == 404
    made, none = (bob.ask("POST", "/api/sandbox", {"volumes": [{"volumeId": v, "mountPath": "/v"}]}).json()["message"]
                  for v in (volume, none))
    assert "there is no volume" in made and "there is no volume" in none
    for kind in ("/api/cay/volumes", "/api/volumes", "/api/cay/sandbox", "/api/sandbox"):
        assert "precious" not in bob.ask("GET", kind).text and daemon.box not in bob.ask("GET", kind).text
    for path in ("/api/cay/api-keys", "/api/cay/audit", "/api/cay/api-keys/ann"):
        assert bob.ask("GET", path).status == 403
    daemon.ann.call("DELETE", f"/api/cay/volumes/{volume}")
    daemon.ask("DELETE", "/api/cay/api-keys/bob")


# ---- pages of others ----

def ask(d, method, path, **headers):
    client = Client(d.port, headers.pop("key", d.ann.key))
    return client.ask(method, path, **headers)


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "localhost:80@evil.example",
                                  "evil.example:80", "localhost@evil", "localhost:x", "[::1", "[::2]", "127.0.0.2", "0.0.0.0", "",
                                  "localhost,evil.example", "8080-lab.evil.example", "4000-.localhost.evil", "x-localhost"])
def test_names_that_are_made_to_point_here(daemon, host):
    for path in ("/api/cay/sandbox", "/api/config", "/api/health", f"/preview/{daemon.box}/4000/"):
        assert ask(daemon, "GET", path, Host=host).status == 403, path
    assert refused(daemon.port, "/api/socket.io/?EIO=4&transport=websocket", host=host) == 403


EVENTS = "/api/socket.io/?EIO=4&transport=websocket"


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1", "http://localhost.evil", "x", ""])
def test_pages_of_another_origin_open_no_connection_and_change_nothing(daemon, origin):
    auth = {"Authorization": f"Bearer {daemon.ann.key}"}
    for path in (EVENTS, f"/toolbox/{daemon.box}/process/pty/none/connect"):
        assert refused(daemon.port, path, host=f"localhost:{daemon.port}", Origin=origin, **auth) == 403
    for method, path in (("POST", "/api/sandbox"), ("DELETE", f"/api/sandbox/{daemon.box}"),
                         ("POST", f"/toolbox/{daemon.box}/process/execute")):
        answer = ask(daemon, method, path, Origin=origin)
        assert answer.status == 403 and "Access-Control-Allow-Origin" not in answer.headers
    assert "Access-Control-Allow-Origin" not in ask(daemon, "GET", "/api/sandbox", Origin=origin).headers
    assert daemon.state_of(daemon.box) == "started"


def test_our_own_pages_and_programs_may(daemon):
    host = f"localhost:{daemon.port}"
    for headers in ({}, {"Origin": f"http://{host}"}):
        with WebSocket(daemon.port, EVENTS, host=host, headers=headers) as ws:
            assert ws.text().startswith("0{")
    assert ask(daemon, "POST", f"/api/sandbox/{daemon.box}/last-activity", Host=host, Origin=f"http://{host}").status == 201


# ---- previews ----

# Answers with what the path has as base64, and with the request at /echo.
SERVER = r'''
import base64, socket, threading

def head_of(c):
    data = b""
    while b"\r\n\r\n" not in data:
        piece = c.recv(65536)
        if not piece:
            return None
        data += piece
    return data

def serve(c):
    with c:
        head = head_of(c)
        word = head.split()[1].split(b"?")[0][1:] if head else b""
        if word == b"echo":
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(head) + head)
        elif word == b"forever":
            while True:
                c.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
        else:
            c.sendall(base64.urlsafe_b64decode(word))

s = socket.create_server(("127.0.0.1", 7000), backlog=100)
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
'''


@pytest.fixture(scope="module")
def app(daemon):
    code, out = daemon.exec(daemon.box, "/bin/sh", "-c", f"cat > /tmp/app.py <<'EOF'\n{SERVER}\nEOF\n"
                            "(python3 /tmp/app.py >/tmp/app.log 2>&1 &)")
    assert code == 0, out
    assert until(lambda: daemon.ann.ask("GET", f"/preview/{daemon.box}/7000/echo").status == 200)
    return daemon


def answered(d, answer, **headers):
    """What a client gets of an application's answer."""
    word = base64.urlsafe_b64encode(answer).decode()
    return say(d, head(d, "Connection: close", *(f"{name}: {value}" for name, value in headers.items()),
                       method="GET", path=f"/preview/{d.box}/7000/{word}"))


@pytest.mark.parametrize("answer", [
    b"", b"\r\n\r\n", b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 099 x\r\n\r\n", b"HTTP/2 200\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n", b"HTTP/1.1 101 x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b=c\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: a\nY: b\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n", b"HTTP/1.1 200 OK\r\nX Y: a\r\n\r\n", b"HTTP/1.1 200 OK\r\n: a\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX\r\n\r\n", b"HTTP/1.1 200 OK\nX: y\n\n", b"HTTP/1.1 100 Continue\r\n\r\n",
], ids=repr)
def test_answers_that_are_none(app, answer):
    text = answered(app, answer)
    assert statuses(text) == [502] and b"b=c" not in text, text


def test_an_answer_that_is_promised_for_ever(app):
    text = say(app, head(app, "Connection: close", method="GET", path=f"/preview/{app.box}/7000/forever"))
    assert statuses(text) == [502], text


@pytest.mark.parametrize("body", [b"zz\r\nabc", b"-1\r\nabc", b"ffffffffffffffff\r\nabc", b"3\r\nabcXX0\r\n\r\n", b"3\r\nab"])
def test_bodies_of_answers_that_break_off(app, body):
    """What is wrong behind the head is seen by the client as an end before its time."""
    text = answered(app, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
    assert statuses(text) == [200] and not text.endswith(b"0\r\n\r\n")


def test_what_stays_between_neighbours(app):
    text = answered(app, b"HTTP/1.1 200 OK\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nProxy-Authenticate: x\r\n"
                    b"Upgrade: h2c\r\nTrailer: x\r\nX-Stays: 1\r\nClear-Site-Data: \"*\"\r\nContent-Length: 2\r\n\r\nok").lower()
    assert b"x-stays: 1" in text and text.endswith(b"\r\n\r\nok")
    for name in (b"x-hop", b"keep-alive", b"proxy-auth", b"upgrade", b"trailer", b"clear-site"):
        assert name not in text, text
    seen = say(app, head(app, "Connection: close, X-Hop", "X-Hop: 1", "TE: trailers", "Proxy-Authorization: x", "Keep-Alive: 5",
                         "Upgrade: h2c", "HTTP2-Settings: x", "X-Forwarded-Proto: https", "X-Forwarded-Host: evil", "X-Stays: 1",
                         "Cookie: a=b", method="GET", path=f"/preview/{app.box}/7000/echo")).split(b"\r\n\r\n", 1)[1].lower()
    assert b"x-stays: 1" in seen and b"cookie: a=b" in seen and app.ann.key.lower().encode() not in seen
    for name in (b"x-hop", b"te: ", b"proxy-auth", b"keep-alive", b"upgrade", b"http2", b"evil", b"authorization"):
        assert name not in seen, seen


def test_cookies_stay_with_the_application_that_set_them(app):
    """On a host that all previews share, by their path; and none can be set for the daemon."""
    text = answered(app, b"HTTP/1.1 200 OK\r\nSet-Cookie: one=1; Path=/; Domain=localhost; HttpOnly\r\nSet-Cookie: two=2\r\n"
                    b"Set-Cookie: daytona-sandbox-auth-x=3\r\nContent-Length: 0\r\n\r\n").decode()
    cookies = re.findall("Set-Cookie: (.*)\r", text)
    path = f"; Path=/preview/{app.box}/7000/"
    assert cookies == [f"one=1; HttpOnly{path}", f"two=2{path}"]


def test_a_cookie_is_of_no_use_to_pages_elsewhere(app):
    """The page of another sandbox is of the same site, so that browsers send the cookie along."""
    token = app.ann.call("GET", f"/api/sandbox/{app.box}/ports/7000/preview-url")["token"]
    host = f"7000-{app.box}.localhost:{app.port}"

    def status(path="/echo", **headers):
        return ask(app, "GET", path, key=None, Host=host, Cookie=f"daytona-sandbox-auth-{app.box}={token}", **headers).status

    assert status() == 200 and status(Origin=f"http://{host}") == 200
    assert status(Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors") == 200
    assert status(Sec_Fetch_Site="same-site", Sec_Fetch_Mode="navigate") == 200
    assert status(Origin=f"http://7000-other.localhost:{app.port}") == 401
    assert status(Origin="null") == 401 and status(Sec_Fetch_Site="same-site", Sec_Fetch_Mode="no-cors") == 401
    assert status(Origin="http://evil", X_Daytona_Preview_Token=token) == 200  # who has the token says so
    assert refused(app.port, "/echo", host=host, Origin="http://evil", Cookie=f"daytona-sandbox-auth-{app.box}={token}") == 401


@pytest.mark.parametrize("path, wanted", [
    ("7000@evil/", 400), ("7000/http://evil/", 200), ("127.0.0.1:22/", 400), ("localhost/", 400), ("07000/", 400), ("7000%2f/", 400),
    ("+7000/", 400), ("7000.0/", 400), ("0x1b58/", 400), ("-1/", 400), ("65536/", 400), ("4294974296/", 400), ("", 404),
])
def test_ports_that_are_none(app, path, wanted):
    """Only a port is named, and only inside: there is no way to say where to."""
    text = say(app, head(app, "Connection: close", method="GET", path=f"/preview/{app.box}/{path}"))
    assert statuses(text) in ([wanted], [400], [502] if wanted == 200 else [wanted]), text


def test_other_upgrades_are_not_passed_on(app):
    for upgrade in ("h2c", "cay-init", "websocket2", "TLS/1.0"):
        seen = say(app, head(app, "Connection: Upgrade, close", f"Upgrade: {upgrade}", method="GET", path=f"/preview/{app.box}/7000/echo"))
        assert statuses(seen) == [200] and f"upgrade: {upgrade}".encode() not in seen.lower()


# ---- clients that take their time ----

PATIENCE = 5


@pytest.fixture(scope="module")
def hasty():
    """A daemon that waits for nobody longer than PATIENCE seconds."""
    with serving_tcp(env={"CAY_SERVER_CLIENT_TIMEOUT": str(PATIENCE)}) as d:
        d.ann = make_key(d, "ann")
        d.box = d.ann.create()["id"]
        yield d


def threads(d):
    return len(os.listdir(f"/proc/{d.front()}/task"))


def operations(d):
    return d.call("GET", "/api/cay/status")["operations"]


def connect(d, room=0):
    sock = socket.socket()
    if room:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    sock.settimeout(60)
    sock.connect(("127.0.0.1", d.port))
    return sock


def drip(sock, word, done):
    """A byte now and then, until the daemon hangs up; False if it does not."""
    sock.setblocking(False)
    end = time.monotonic() + 60
    while time.monotonic() < end and not done.is_set():
        try:
            sock.send(word)
            if sock.recv(4096) == b"":
                return True
        except BlockingIOError:
            pass
        except OSError:
            return True
        time.sleep(0.1)
    return False


def others_are_served(d):
    def serves():
        with contextlib.suppress(OSError, http.client.HTTPException):
            return d.ann.ask("GET", "/api/cay/sandbox").status == 200
        return False
    return until(serves)


def all_end(d, beginnings):
    """Clients that begin so, and go on with a byte now and then, are cut off."""
    done, ended = threading.Event(), []

    def one(begin, word):
        with connect(d) as sock:
            sock.sendall(begin)
            ended.append(drip(sock, word, done))

    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(one, *zip(*beginnings)))
    return ended == [True] * len(beginnings)


def test_slow_heads(hasty):
    """A head has its time as a whole, however often something comes."""
    before = threads(hasty)
    assert all_end(hasty, [
        (b"", b"G"), (b"GET / HTTP/1.1\r\n", b"X: y\r\n"), (b"", b"\r\n"),
        (b"GET /api/health HTTP/1.1\r\nHost: localhost\r\nX: ", b"y"), (HEALTH + b"\r\nGET", b"/")])
    assert until(lambda: threads(hasty) <= before)


def test_slow_bodies(hasty):
    """Whether it is kept or passed on as it comes, whole or in chunks."""
    before = threads(hasty)
    upload = f"/toolbox/{hasty.box}/files/upload?path=/tmp/slow"
    assert all_end(hasty, [(head(hasty, "Content-Length: 100000", path=path), b"x") for path in ("/api/sandbox", upload)]
                   + [(head(hasty, "Transfer-Encoding: chunked"), b"1\r\nx\r\n")])
    assert until(lambda: threads(hasty) <= before)


def test_many_slow_clients_at_once(hasty):
    """More than there is room for: the room is free again soon, and others get in meanwhile."""
    count, before = 1100, threads(hasty)
    with contextlib.ExitStack() as undo:
        socks = []
        for _ in range(count):
            with contextlib.suppress(OSError):
                socks.append(undo.enter_context(connect(hasty)))
                socks[-1].sendall(b"GET / HTTP/1.1\r\nX: ")
        assert threads(hasty) < 1100
        assert others_are_served(hasty)
        assert hasty.get("/healthz").text == "ok"  # the unix socket has room of its own
        assert until(lambda: threads(hasty) <= before + 10, 60)
    assert until(lambda: threads(hasty) <= before)


def test_no_key_takes_all_connections(daemon):
    """One may hold half of them, another half of what is left; who has too many is told so, and is
    served again when some are closed."""
    bob = make_key(daemon, "bob")

    def ask(undo, who):
        sock = undo.enter_context(connect(daemon))
        sock.sendall(b"GET /api/cay/sandbox HTTP/1.1\r\nHost: localhost\r\n"
                     b"Authorization: Bearer %s\r\n\r\n" % who.key.encode())
        return int(sock.recv(12).split()[1])

    def asks(undo, who, most):
        """How many are let in."""
        for count in range(most):
            status = ask(undo, who)
            if status != 200:
                assert status == 429
                return count
        return most

    with contextlib.ExitStack() as all_of_bob:
        with contextlib.ExitStack() as all_of_ann:
            assert asks(all_of_ann, daemon.ann, 600) == 512
            answer = daemon.ann.ask("GET", "/api/cay/sandbox")
            assert answer.status == 429 and answer.headers["Connection"] == "close" and \
                answer.headers["Retry-After"]
            assert "connections" in answer.text and "wait until one has ended" in answer.text
            assert 250 <= asks(all_of_bob, bob, 300) <= 256
        assert until(lambda: daemon.ann.ask("GET", "/api/cay/sandbox").status == 200)
        assert until(lambda: bob.ask("GET", "/api/cay/sandbox").status == 200)
    daemon.call("DELETE", "/api/cay/api-keys/bob")


def test_who_does_not_read(hasty):
    """An answer that nobody takes, from a file and from an application inside, ends; and so does
    what was opened for it inside."""
    code, out = hasty.exec(hasty.box, "/bin/sh", "-c", "truncate -s 200M /tmp/big; cd /tmp && "
                           "(python3 -m http.server 8080 >/dev/null 2>&1 &)")
    assert code == 0, out
    assert until(lambda: hasty.ann.ask("GET", f"/preview/{hasty.box}/8080/nothing").status == 404)
    assert until(lambda: operations(hasty) == 0)
    before = threads(hasty)
    with contextlib.ExitStack() as undo:
        for path in [f"/toolbox/{hasty.box}/files/download?path=/tmp/big", f"/preview/{hasty.box}/8080/big"] * 10:
            sock = undo.enter_context(connect(hasty, 4096))
            sock.sendall(head(hasty, method="GET", path=path))
            assert sock.recv(12) == b"HTTP/1.1 200"
        assert others_are_served(hasty)
        assert until(lambda: threads(hasty) <= before, 60)
        assert until(lambda: operations(hasty) == 0)


def test_who_reads_slowly_but_reads_is_served(hasty):
    """What takes longer than a client may be silent is not cut off while it moves; nor is a client
    cut off for what a command takes."""
    code, _ = hasty.exec(hasty.box, "/bin/sh", "-c", "truncate -s 12M /tmp/some")
    assert code == 0
    with connect(hasty, 65536) as sock:
        sock.sendall(head(hasty, "Connection: close", method="GET",
                          path=f"/toolbox/{hasty.box}/files/download?path=/tmp/some"))
        began, size = time.monotonic(), 0
        while piece := sock.recv(200000):
            size += len(piece)
            time.sleep(0.1)
        assert size > 12 << 20 and time.monotonic() - began > PATIENCE
    answer = hasty.ann.ask("POST", f"/toolbox/{hasty.box}/process/execute",
                           {"command": f"sleep {PATIENCE + 2}; echo late"})
    assert answer.status == 200 and answer.json()["result"] == "late\n"
