"""Previews over TCP: who gets to a port inside, by what, and what passes both ways."""

import hashlib
import http.client
import json
import socket
import threading

import pytest
import support
from daemons import serving_tcp
from launching import until
from test_keys import make_key
from websockets_raw import WebSocket, refused

pytestmark = support.as_root_only

SERVER = r'''
import base64, hashlib, http.server, json, socketserver, sys, time

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = sys.argv[2]

    def log_message(self, *_):
        pass

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while (size := int(self.rfile.readline(), 16)) > 0:
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self, status, data, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def do_GET(self):
        if self.headers.get("Upgrade") == "websocket":
            return self.upgrade()
        if self.path.startswith("/status/"):
            return self.answer(int(self.path[8:]), b"it is so", X_App="yes")
        if self.path == "/big":
            return self.answer(200, b"x" * (20 << 20))
        if self.path == "/chunks":
            return self.chunks()
        if self.path == "/short":
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"only this")
            self.close_connection = True
            return
        if self.path == "/garbage":
            self.wfile.write(b"SSH-2.0-OpenSSH\r\n\r\n")
            self.close_connection = True
            return
        if self.path == "/cookies":
            return self.answer(200, b"", Set_Cookie="daytona-sandbox-auth-x=forged",
                               Clear_Site_Data='"*"')
        self.tell()

    def tell(self):
        data = self.body()
        self.answer(200, json.dumps({"method": self.command, "path": self.path,
                                     "headers": list(self.headers.items()), "size": len(data),
                                     "sha": hashlib.sha256(data).hexdigest()}).encode(),
                    Content_Type="application/json", X_Empty="")

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_HEAD = tell

    def chunks(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for word in (b"first", b"second"):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(word), word))
            self.wfile.flush()
            if word == b"first":
                open("/tmp/first-sent", "w").close()
                while not __import__("os").path.exists("/tmp/go-on"):
                    time.sleep(0.01)
        self.wfile.write(b"0\r\n\r\n")

    def upgrade(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        # with the first frame in the same packet as the head
        self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                         b"Connection: Upgrade\r\nSec-WebSocket-Protocol: binary\r\n"
                         b"Sec-WebSocket-Accept: " + accept.encode() + b"\r\n\r\n\x81\x05hello")
        self.wfile.flush()
        while (head := self.rfile.read(2)):
            mask, data = self.rfile.read(4), self.rfile.read(head[1] & 0x7f)
            plain = bytes(b ^ mask[i % 4] for i, b in enumerate(data))
            self.wfile.write(bytes([head[0], len(plain)]) + plain)
            self.wfile.flush()
        self.close_connection = True

class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
'''


@pytest.fixture(scope="module")
def daemon():
    with serving_tcp() as d:
        d.ann = make_key(d, "ann", permissions=["sandboxes"])
        box = d.ann.create(name="web")
        d.box = box["id"]
        serve(d, 8080, "HTTP/1.1")
        serve(d, 8081, "HTTP/1.0")
        yield d


def serve(d, port, version):
    script = (f"cat > /tmp/server.py <<'EOF'\n{SERVER}\nEOF\n"
              f"(python3 /tmp/server.py {port} {version} >/tmp/log.{port} 2>&1 &)")
    code, out = d.exec(d.box, "/bin/sh", "-c", script)
    assert code == 0, out
    assert until(lambda: d.ann.ask("GET", f"/preview/{d.box}/{port}/status/200").status == 200)


def ask(d, path, method="GET", body=None, host=None, **headers):
    """Without a key; (status, headers, content)."""
    connection = http.client.HTTPConnection("127.0.0.1", d.port, timeout=60)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    if host:
        names["Host"] = host
    connection.request(method, path, body, names)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, answer.headers, data


def link(d, port=8080):
    return d.ann.call("GET", f"/api/sandbox/{d.box}/ports/{port}/preview-url")


def path_of(url):
    return "/" + url.split("/", 3)[3]


def test_the_url_opens_with_its_token_only(daemon):
    given = link(daemon)
    path = path_of(given["url"])
    assert given["sandboxId"] == daemon.box and path == f"/preview/{daemon.box}/8080"
    assert ask(daemon, path + "/status/200")[0] == 401
    assert ask(daemon, path + "/status/200", X_Daytona_Preview_Token="wrong")[0] == 401
    assert ask(daemon, path + "/status/200", X_Daytona_Preview_Token=given["token"])[0] == 200
    assert ask(daemon, f"{path}/status/200?DAYTONA_SANDBOX_AUTH_KEY={given['token']}x")[0] == 401
    status, headers, _ = ask(daemon, path, X_Daytona_Preview_Token=given["token"])
    assert (status, headers["Location"]) == (308, path + "/")


def test_keys(daemon):
    assert daemon.ann.ask("GET", "/preview/web/8080/status/200").status == 200
    bob = make_key(daemon, "bob", permissions=["sandboxes"])
    eve = make_key(daemon, "eve", permissions=["read"])
    assert bob.ask("GET", f"/preview/{daemon.box}/8080/").status == 404
    assert bob.ask("GET", f"/api/sandbox/{daemon.box}/ports/8080/preview-url").status == 404
    assert eve.ask("GET", f"/preview/{daemon.box}/8080/").status in (403, 404)
    for name in ("bob", "eve"):
        daemon.ask("DELETE", f"/api/cay/api-keys/{name}")


def test_what_the_application_gets(daemon):
    token = link(daemon)["token"]
    _, headers, data = ask(daemon, f"/preview/{daemon.box}/8080/a//b%20c?x=1&"
                           f"DAYTONA_SANDBOX_AUTH_KEY={token}&y=%2F", Cookie="a=b",
                           Authorization="Basic bWU6", X_Own="1", Connection="X-Hop", X_Hop="1")
    seen = json.loads(data)
    names = {name.lower(): value for name, value in seen["headers"]}
    assert seen["path"] == "/a//b%20c?x=1&y=%2F"
    assert names["cookie"] == "a=b" and names["authorization"] == "Basic bWU6"
    assert names["x-own"] == "1" and "x-hop" not in names and token not in data.decode()
    assert headers["Content-Type"] == "application/json" and "Cache-Control" not in headers
    seen = daemon.ann.ask("GET", f"/preview/{daemon.box}/8080/").text
    assert daemon.ann.key not in seen and "Authorization" not in seen


@pytest.mark.parametrize("status", [200, 201, 204, 301, 304, 400, 401, 404, 418, 500, 503])
def test_its_status_is_passed_on(daemon, status):
    answer = daemon.ann.ask("GET", f"/preview/{daemon.box}/8080/status/{status}")
    assert answer.status == status and answer.headers["X-App"] == "yes"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_methods(daemon, method):
    seen = daemon.ann.ask(method, f"/preview/{daemon.box}/8080/m", "some").json()
    assert (seen["method"], seen["size"]) == (method, 4)


def test_head(daemon):
    answer = daemon.ann.ask("HEAD", f"/preview/{daemon.box}/8080/")
    assert answer.status == 200 and int(answer.headers["Content-Length"]) > 10


@pytest.mark.parametrize("port", [8080, 8081])
def test_large_bodies_both_ways(daemon, port):
    assert len(daemon.ann.ask("GET", f"/preview/{daemon.box}/{port}/big").text) == 20 << 20
    data = bytes(range(256)) * (5 << 12)
    status, _, answer = ask(daemon, f"/preview/{daemon.box}/{port}/up", "POST", data,
                            Authorization=f"Bearer {daemon.ann.key}")
    seen = json.loads(answer)
    assert (status, seen["size"]) == (200, len(data))
    assert seen["sha"] == hashlib.sha256(data).hexdigest()


def test_a_body_in_chunks(daemon):
    pieces = [b"one", b"x" * 100000, b"three"]
    status, _, answer = ask(daemon, f"/preview/{daemon.box}/8080/up", "POST", iter(pieces),
                            Authorization=f"Bearer {daemon.ann.key}")
    seen = json.loads(answer)
    assert (status, seen["sha"]) == (200, hashlib.sha256(b"".join(pieces)).hexdigest())


def test_pieces_come_when_they_are_sent(daemon):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
    connection.request("GET", f"/preview/{daemon.box}/8080/chunks",
                       headers={"Authorization": f"Bearer {daemon.ann.key}"})
    answer = connection.getresponse()
    assert answer.read1(100) == b"first"
    daemon.exec(daemon.box, "/bin/touch", "/tmp/go-on")
    assert answer.read() == b"second"
    connection.close()


def test_what_breaks_off_is_seen_to(daemon):
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        daemon.ann.ask("GET", f"/preview/{daemon.box}/8080/short")


@pytest.mark.parametrize("path, status", [("8080/garbage", 502), ("9/", 502), ("8080/a b", 400),
                                          ("0/", 400), ("65536/", 400), ("8%308/", 400), ("x", 400)])
def test_what_cannot_be_passed_on_says_why(daemon, path, status):
    sock = socket.create_connection(("127.0.0.1", daemon.port), 30)
    sock.sendall(f"GET /preview/{daemon.box}/{path} HTTP/1.1\r\nHost: localhost\r\n"
                 f"Authorization: Bearer {daemon.ann.key}\r\nConnection: close\r\n\r\n".encode())
    answer = b""
    while data := sock.recv(4096):
        answer += data
    sock.close()
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer
    assert status == 400 or b'"message"' in answer


def test_websockets(daemon):
    headers = {"Authorization": f"Bearer {daemon.ann.key}", "Sec-WebSocket-Protocol": "binary"}
    with WebSocket(daemon.port, f"/preview/{daemon.box}/8080/ws", headers=headers) as ws:
        assert "Sec-WebSocket-Protocol: binary" in ws.head
        assert ws.text() == "hello"
        for word in ("one", "two"):
            ws.send_text(word)
            assert ws.text() == word
    assert refused(daemon.port, f"/preview/{daemon.box}/8080/ws") == 401


def test_by_host(daemon):
    token, host = link(daemon)["token"], f"8080-{daemon.box}.localhost:{daemon.port}"
    assert ask(daemon, "/x", host=host)[0] == 401
    status, headers, data = ask(daemon, f"/x?DAYTONA_SANDBOX_AUTH_KEY={token}", host=host)
    assert status == 200 and json.loads(data)["path"] == "/x"
    cookie = headers["Set-Cookie"].split(";")[0]
    assert "HttpOnly" in headers["Set-Cookie"]
    status, _, data = ask(daemon, "/y", host=host, Cookie=f"{cookie}; own=1")
    assert status == 200 and token not in data.decode() and "own=1" in data.decode()
    # nothing of the daemon's own is at such a host, and no other host leads here
    status, _, data = ask(daemon, "/api/cay/status", host=host, X_Daytona_Preview_Token=token)
    assert json.loads(data)["path"] == "/api/cay/status"
    assert ask(daemon, "/x", host=f"8080-{daemon.box}.evil.example",
               X_Daytona_Preview_Token=token)[0] == 403


def test_pages_are_fenced_where_they_share_our_host(daemon):
    token = link(daemon)["token"]
    _, headers, _ = ask(daemon, f"/preview/{daemon.box}/8080/cookies",
                        X_Daytona_Preview_Token=token)
    assert "sandbox" in headers["Content-Security-Policy"]
    assert "allow-same-origin" not in headers["Content-Security-Policy"]
    assert headers["Set-Cookie"] is None and headers["Clear-Site-Data"] is None
    _, headers, _ = ask(daemon, "/", host=f"8080-{daemon.box}.localhost",
                        X_Daytona_Preview_Token=token)
    assert headers["Content-Security-Policy"] is None


def test_signed(daemon):
    base = f"/api/sandbox/{daemon.box}/ports/8080/signed-preview-url"
    given = daemon.ann.call("GET", base + "?expiresInSeconds=600")
    token, path = given["token"], path_of(given["url"])
    assert (given["sandboxId"], given["port"]) == (daemon.box, 8080)
    assert ask(daemon, path + "/status/200")[0] == 200
    assert ask(daemon, "/status/200", host=f"8080-{token}.localhost")[0] == 200
    assert ask(daemon, f"/preview/{token}/8081/status/200")[0] == 401
    forged = token[:16] + "ffffffff" + token[24:]
    assert ask(daemon, f"/preview/{forged}/8080/status/200")[0] == 401
    last = "0" if token[-1] != "0" else "1"
    assert ask(daemon, f"/preview/{token[:-1]}{last}/8080/status/200")[0] == 401
    assert daemon.ann.ask("POST", f"{base}/{token}/expire").status == 200
    assert ask(daemon, path + "/status/200")[0] == 401
    assert daemon.ann.ask("POST", f"{base}/{token}/expire").status == 404
    for bad in ("0", "86401", "x", "-1"):
        assert daemon.ann.ask("GET", f"{base}?expiresInSeconds={bad}").status == 400
    short = daemon.ann.call("GET", base + "?expiresInSeconds=1")
    assert until(lambda: ask(daemon, path_of(short["url"]) + "/status/200")[0] == 401)


def test_signed_ones_outlive_the_daemon_and_end_with_the_key(daemon):
    base = f"/api/sandbox/{daemon.box}/ports/8080/signed-preview-url"
    opened, given_up = (daemon.ann.call("GET", f"{base}?expiresInSeconds={s}") for s in (600, 601))
    assert daemon.ann.ask("POST", f"{base}/{given_up['token']}/expire").status == 200
    daemon.stop()
    daemon.start()
    assert until(lambda: ask(daemon, path_of(opened["url"]) + "/status/200")[0] == 200)
    assert ask(daemon, path_of(given_up["url"]) + "/status/200")[0] == 401
    assert daemon.ann.ask("POST", f"/api/sandbox/{daemon.box}/signing-key/rotate").status == 200
    assert ask(daemon, path_of(opened["url"]) + "/status/200")[0] == 401
    again = daemon.ann.call("GET", base)
    assert ask(daemon, path_of(again["url"]) + "/status/200")[0] == 200


def test_revoking_many(daemon):
    base = f"/api/sandbox/{daemon.box}/ports/8081/signed-preview-url"
    statuses = set()
    for seconds in range(1000, 1000 + 260):
        token = daemon.ann.call("GET", f"{base}?expiresInSeconds={seconds}")["token"]
        statuses.add(daemon.ann.ask("POST", f"{base}/{token}/expire").status)
        if 507 in statuses:
            break
    assert statuses == {200, 507}


def test_public_but_for_what_runs_commands(daemon):
    daemon.ann.call("POST", f"/api/sandbox/{daemon.box}/public/true")
    try:
        assert ask(daemon, f"/preview/{daemon.box}/8080/status/200")[0] == 200
        for port in (2280, 22222, 33333):
            assert ask(daemon, f"/preview/{daemon.box}/{port}/work-dir")[0] == 401
    finally:
        daemon.ann.call("POST", f"/api/sandbox/{daemon.box}/public/false")
    assert ask(daemon, f"/preview/{daemon.box}/8080/status/200")[0] == 401


def test_port_2280_is_the_toolbox(daemon):
    given = link(daemon, 2280)
    path = path_of(given["url"]) + "/port"
    status, _, data = ask(daemon, path, X_Daytona_Preview_Token=given["token"])
    assert status == 200 and set(json.loads(data)["ports"]) >= {8080, 8081}
    direct = f"/toolbox/{daemon.box}/port?DAYTONA_SANDBOX_AUTH_KEY={given['token']}"
    assert ask(daemon, direct)[0] == 200
    assert ask(daemon, "/api/sandbox", X_Daytona_Preview_Token=given["token"])[0] == 401


def test_a_token_of_a_port_does_not_open_the_toolbox(daemon):
    """Who gets the address of a page may look at it, and run nothing."""
    page, tools = link(daemon)["token"], link(daemon, 2280)["token"]
    assert page != tools
    for path in (f"/toolbox/{daemon.box}/port", f"/preview/{daemon.box}/2280/port"):
        assert ask(daemon, path, X_Daytona_Preview_Token=page)[0] == 401
        assert ask(daemon, f"{path}?DAYTONA_SANDBOX_AUTH_KEY={page}")[0] == 401
        assert ask(daemon, path, X_Daytona_Preview_Token=tools)[0] == 200
    assert ask(daemon, f"/preview/{daemon.box}/8080/status/200", X_Daytona_Preview_Token=page)[0] == 200
    assert ask(daemon, f"/preview/{daemon.box}/8080/status/200", X_Daytona_Preview_Token=tools)[0] == 401


def test_a_token_opens_its_own_sandbox_only(daemon):
    other = daemon.ann.create(name="other")["id"]
    token = link(daemon)["token"]
    assert ask(daemon, f"/preview/{other}/8080/", X_Daytona_Preview_Token=token)[0] == 401
    assert ask(daemon, f"/toolbox/{other}/port", X_Daytona_Preview_Token=token)[0] == 401
    daemon.ann.ask("DELETE", f"/api/cay/sandbox/{other}?force=true")
    assert ask(daemon, f"/preview/{other}/8080/", X_Daytona_Preview_Token=token)[0] == 401


def test_only_the_sandbox_itself_is_reached(daemon):
    """The daemon listens on a port of the host's loopback, which is not the sandbox's."""
    assert daemon.ann.ask("GET", f"/preview/{daemon.box}/{daemon.port}/healthz").status == 502


def test_ports(daemon):
    base = f"/toolbox/{daemon.box}/port"
    assert daemon.ann.call("GET", f"{base}/8080/in-use") == {"isInUse": True}
    assert daemon.ann.call("GET", f"{base}/8999/in-use") == {"isInUse": False}
    assert daemon.ann.ask("GET", f"{base}/80/in-use").status == 400


def test_who_goes_away_is_noticed(daemon):
    """An answer that never comes does not keep the sandbox busy once its client has gone."""
    code, _ = daemon.exec(daemon.box, "/bin/sh", "-c", "(python3 -c 'import socket, time\n"
                          "s = socket.socket(); s.bind((\"127.0.0.1\", 8082)); s.listen(5)\n"
                          "c = s.accept(); time.sleep(1000)' >/dev/null 2>&1 &)")
    assert code == 0

    def operations():
        return daemon.call("GET", "/api/cay/status")["operations"]

    assert until(lambda: daemon.ann.call(
        "GET", f"/toolbox/{daemon.box}/port")["ports"].count(8082) == 1, 20)
    assert until(lambda: operations() == 0)  # what looked at the ports has gone too
    sock = socket.create_connection(("127.0.0.1", daemon.port), 30)
    sock.sendall(f"GET /preview/{daemon.box}/8082/ HTTP/1.1\r\nHost: localhost\r\n"
                 f"Authorization: Bearer {daemon.ann.key}\r\n\r\n".encode())
    assert until(lambda: operations() == 1)
    sock.close()
    assert until(lambda: operations() == 0)


def test_many_at_once(daemon):
    results = []

    def one():
        results.append(daemon.ann.ask("GET", f"/preview/{daemon.box}/8080/status/200").status)

    threads = [threading.Thread(target=one) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [200] * 20


def test_one_that_does_not_run_is_started_if_asked(daemon):
    """A server that goes on after a pause, and none after a stop: it has to be started inside."""
    path = f"/preview/{daemon.box}/8080/status/200"
    token = link(daemon)["token"]
    daemon.ann.call("POST", f"/api/cay/sandbox/{daemon.box}/pause")
    assert daemon.ann.ask("GET", path).status == 409
    assert ask(daemon, path, X_Daytona_Preview_Token=token, X_Cay_Start="true")[0] == 409
    assert daemon.ann.ask("GET", path, X_Cay_Start="no").status == 409
    assert daemon.ann.ask("GET", path, X_Cay_Start="true").status == 200
    assert daemon.ann.ask("GET", path, X_Cay_Start="true").status == 200  # it runs
    daemon.ann.call("POST", f"/api/cay/sandbox/{daemon.box}/stop")
    assert daemon.ann.ask("GET", path, X_Cay_Start="true").status == 502
    assert daemon.ann.call("GET", f"/api/cay/sandbox/{daemon.box}")["state"] == "started"
    serve(daemon, 8080, "HTTP/1.1")
    serve(daemon, 8081, "HTTP/1.0")
    seen = daemon.ann.ask("GET", f"/preview/{daemon.box}/8080/", X_Cay_Start="true").text
    assert "x-cay-start" not in seen.lower()
