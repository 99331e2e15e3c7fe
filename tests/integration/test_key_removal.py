"""A key that is removed or expires stops at once: what runs, what streams, what waits for its turn, and
what others were let in by."""

import base64
import concurrent.futures
import hashlib
import hmac
import http.client
import json
import socket
import threading
import time
import urllib.parse

import pytest
from daemons import serving_tcp
from launching import until
from test_keys import make_key
from websocket import WebSocket

GATE = "while [ ! -e /workspace/go ]; do sleep 0.05; done"
SERVER = ("import http.server,sys\n"
          "class H(http.server.BaseHTTPRequestHandler):\n"
          "    def do_GET(self):\n"
          "        self.send_response(200)\n"
          "        if self.path == '/slow':\n"
          "            self.end_headers(); self.wfile.write(b'first'); self.wfile.flush()\n"
          "            import time; time.sleep(1000)\n"
          "        self.send_header('Content-Length', '2'); self.end_headers(); self.wfile.write(b'ok')\n"
          "http.server.ThreadingHTTPServer(('127.0.0.1', 8000), H).serve_forever()\n")


@pytest.fixture(scope="module")
def daemon():
    with serving_tcp() as d:
        yield d


class Tenant:
    """A key with a sandbox."""

    def __init__(self, daemon, name, **wishes):
        self.daemon, self.name = daemon, name
        self.client = make_key(daemon, name, permissions=["sandboxes"], **wishes)
        self.box = self.client.create(memory="128m")["id"]

    def toolbox(self, method, path, body=None):
        return self.client.ask(method, f"/toolbox/{self.box}{path}", body)

    def open(self, method, path, body=None, headers=()):
        """A request whose answer is not waited for: its connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.client.port, timeout=60)
        connection.request(method, path, json.dumps(body) if body is not None else None,
                           {"Authorization": f"Bearer {self.client.key}", **dict(headers)})
        return connection

    def remove(self):
        self.daemon.call("DELETE", f"/api/cay/api-keys/{self.name}")

    def inside(self, command):
        """By whoever runs the daemon."""
        answer = self.daemon.ask("POST", f"/toolbox/{self.box}/process/execute",
                                 {"command": command})
        assert answer.status == 200, answer.text
        return json.loads(answer.text)

    def has(self, path):
        return self.inside(f"test -e {path}")["exitCode"] == 0


@pytest.fixture
def tenant(daemon):
    made = []

    def make(name="tenant", **wishes):
        made.append(Tenant(daemon, name, **wishes))
        return made[-1]

    yield make
    for one in made:
        daemon.ask("DELETE", f"/api/cay/sandbox/{one.box}?force=true")
        daemon.ask("DELETE", f"/api/cay/api-keys/{one.name}")


def is_cut(connection):
    """It ends without an answer."""
    try:
        connection.getresponse()
        return False
    except (http.client.RemoteDisconnected, ConnectionError):
        return True
    finally:
        connection.close()


def test_a_running_command_is_cut_and_ended(tenant):
    one, two = tenant("one"), tenant("two")
    path = f"/toolbox/{one.box}/process/execute"
    running = one.open("POST", path, {"command": "touch /tmp/began; exec sleep 987"})
    other = two.open("POST", f"/toolbox/{two.box}/process/execute", {"command": GATE + "; echo done"})
    assert until(lambda: one.has("/tmp/began"))
    one.remove()
    assert is_cut(running)
    assert until(lambda: one.inside("pgrep -x sleep")["exitCode"] == 1)  # as if it had hung up
    assert one.client.ask("POST", path, {"command": "true"}).status == 401
    assert two.inside("touch /workspace/go")["exitCode"] == 0
    answer = other.getresponse()
    assert answer.status == 200 and json.loads(answer.read())["result"] == "done\n"
    other.close()


def test_a_queued_command_is_not_run(tenant):
    one = tenant()
    session = "/process/session/s"
    assert one.toolbox("POST", "/process/session", {"sessionId": "s"}).status == 201
    first = one.toolbox("POST", session + "/exec", {"command": GATE, "runAsync": True})
    assert first.status == 202
    queued = one.open("POST", f"/toolbox/{one.box}{session}/exec", {"command": "touch /workspace/ran"})
    time.sleep(1)  # it is queued by then; if not, it is refused, which is as good
    one.remove()
    assert is_cut(queued)
    one.inside("touch /workspace/go")
    admin = one.daemon
    assert until(lambda: "exitCode" in admin.call(
        "GET", f"/toolbox/{one.box}{session}/command/{json.loads(first.text)['cmdId']}"))
    assert admin.ask("POST", f"/toolbox/{one.box}{session}/exec", {"command": "true"}).status == 200
    assert not one.has("/workspace/ran")
    commands = admin.call("GET", f"/toolbox/{one.box}{session}")["commands"]
    assert [c["command"] for c in commands] == [GATE, "true"]


def follow(one):
    """A stream of logs that has begun."""
    assert one.toolbox("POST", "/process/session", {"sessionId": "f"}).status == 201
    made = one.toolbox("POST", "/process/session/f/exec",
                       {"command": f"echo begun; {GATE}", "runAsync": True})
    number = json.loads(made.text)["cmdId"]
    path = f"/toolbox/{one.box}/process/session/f/command/{number}/logs?follow=true"
    connection = one.open("GET", path)
    answer = connection.getresponse()
    assert answer.read1(100) == b"begun\n"
    return connection, answer, path


def ends(answer):
    try:
        while answer.read1(4096):
            pass
    except (http.client.HTTPException, ConnectionError):
        pass
    return True


def test_streams_and_websockets_end(tenant):
    one = tenant()
    connection, answer, path = follow(one)
    sock = WebSocket(socket.create_connection(("127.0.0.1", one.client.port), 60), path,
                     Authorization=f"Bearer {one.client.key}")
    assert sock.receive().endswith(b"begun\n")
    one.remove()
    assert ends(answer)
    with pytest.raises((EOFError, ConnectionError)):
        while sock.receive() is not None:
            pass
        raise EOFError
    connection.close()


def test_an_upload_is_cut(tenant):
    one = tenant()
    sock = socket.create_connection(("127.0.0.1", one.client.port), 60)
    sock.sendall(f"POST /toolbox/{one.box}/files/upload-v2?path=/workspace/half HTTP/1.1\r\n"
                 f"Host: localhost\r\nAuthorization: Bearer {one.client.key}\r\n"
                 "Content-Length: 1000000\r\n\r\n".encode() + b"x" * 1000)
    time.sleep(0.3)
    one.remove()
    assert sock.recv(4096) == b""
    sock.close()
    assert not one.has("/workspace/half")


def sign(key, path, expires):
    text = f"v1:files:GET:{path}:{expires}".encode()
    mac = hmac.new(key.encode(), text, hashlib.sha256).digest()
    return "v1_" + base64.urlsafe_b64encode(mac).decode().rstrip("=")


def anonymous(one, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", one.client.port, timeout=60)
    try:
        connection.request("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        return connection.getresponse().status
    finally:
        connection.close()


def test_previews_and_signed_urls_close(tenant):
    one = tenant()
    one.toolbox("POST", "/process/session", {"sessionId": "web"})
    command = "python3 -c " + "'" + SERVER.replace("'", '"') + "'"
    one.toolbox("POST", "/process/session/web/exec", {"command": command, "runAsync": True})
    url = one.client.call("GET", f"/api/sandbox/{one.box}/ports/8000/preview-url")
    signed = one.client.call("GET", f"/api/sandbox/{one.box}/ports/8000/signed-preview-url"
                                    "?expiresInSeconds=600")
    one.toolbox("POST", "/process/execute", {"command": "echo x > /workspace/f"})
    key = one.client.call("GET", f"/api/sandbox/{one.box}/signing-key")
    query = urllib.parse.urlencode({"path": "/workspace/f", "expires": "0",
                                    "signature": sign(key, "/workspace/f", "0")})
    ways = [(f"/preview/{one.box}/8000/", {"X_Daytona_Preview_Token": url["token"]}),
            (f"/preview/{signed['token']}/8000/", {}),
            (f"/toolbox/{one.box}/files/download?{query}", {})]
    assert until(lambda: [anonymous(one, path, **headers) for path, headers in ways] == [200] * 3)
    slow = http.client.HTTPConnection("127.0.0.1", one.client.port, timeout=60)
    slow.request("GET", f"/preview/{one.box}/8000/slow",
                 headers={"X-Daytona-Preview-Token": url["token"]})
    answer = slow.getresponse()
    assert answer.read1(100) == b"first"
    one.client.call("POST", f"/api/sandbox/{one.box}/public/true")
    assert anonymous(one, f"/preview/{one.box}/8000/") == 200
    one.remove()
    assert ends(answer)
    slow.close()
    ways.append((f"/preview/{one.box}/8000/", {}))
    assert [anonymous(one, path, **headers) for path, headers in ways] == [401] * 4
    assert anonymous(one, ways[-1][0], Authorization=f"Bearer {one.daemon.key}") == 200


def test_a_key_that_expires_is_cut_by_the_clock(tenant):
    """No request comes that could notice."""
    when = int(time.time()) + 8
    one = tenant(expiresAt=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when)))
    connection, answer, _ = follow(one)
    assert time.time() < when, "the machine is too slow for this test"
    assert ends(answer) and time.time() >= when
    connection.close()
    assert one.client.ask("GET", "/api/cay/sandbox").status == 401
    assert one.has("/")


def test_a_creation_that_is_not_waited_for_leaves_nothing(daemon):
    client = make_key(daemon, "brief", permissions=["sandboxes"])
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        made = [pool.submit(client.ask, "POST", "/api/cay/sandbox?wait=false", {"memory": "32m"})
                for _ in range(24)]
        threading.Event().wait(0.05)
        daemon.call("DELETE", "/api/cay/api-keys/brief")
        for one in made:
            one.exception()
    def left():
        return [box for box in daemon.list() if box["state"] not in ("started", "stopped")]
    assert until(lambda: not left())
    for box in daemon.list():
        daemon.call("DELETE", f"/api/cay/sandbox/{box['id']}?force=true")


def test_a_key_that_removes_itself_hears_so(daemon):
    client = make_key(daemon, "itself", permissions=["admin"])
    answer = client.ask("DELETE", "/api/cay/api-keys/itself")
    assert answer.status == 204 and answer.headers["Connection"] == "close"
    assert client.ask("GET", "/api/cay/sandbox").status == 401
