"""The daemon: every route of docs/api.md with good and bad input, and that nothing which was
promised is lost, whichever of its processes dies."""

import contextlib
import http.client
import json
import os
import signal
import socket
import stat
import struct
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import support
from daemons import CAYD, Daemon, Refused, free_port, serving
from launching import (DONE, EXEC, INPUT, INPUT_END, REQUEST, STARTED, STDOUT, Connection, field,
                       is_alive, until)

KEYS = ["id", "name", "state", "image", "user", "workDir", "memory", "cpus", "disk", "pids",
        "labels", "env", "volumes", "network", "createdAt", "updatedAt", "lastActivityAt",
        "autoStopInterval", "autoArchiveInterval", "archiveSize", "autoDeleteInterval", "onFailure",
        "engine", "tier", "profile",
        "progress", "stopReason", "errorReason", "errorRemedy", "limitsNotKept"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One daemon for the tests that do it no harm."""
    folder = tmp_path_factory.mktemp("daemon")
    for path in (folder, *folder.parents):
        if path.parts[1:2] == ("tmp",) and path != Path("/tmp"):
            path.chmod(0o755)
    support.own(folder)
    with serving(folder) as daemon:
        yield daemon


@pytest.fixture
def daemon(folder, clean_host):
    """One of the test's own."""
    with serving(folder) as found:
        yield found


@pytest.fixture
def box(shared):
    """A sandbox in the shared daemon."""
    made = shared.create()
    yield made["id"]
    try:
        shared.call("DELETE", f"/api/cay/sandbox/{made['id']}?force=true")
    except Refused as refused:
        assert refused.status == 404


def refusal(daemon, method, path, body=None, **headers):
    answer = daemon.ask(method, path, body, **headers)
    error = answer.json()
    assert error["statusCode"] == answer.status
    assert list(error) == ["code", "message", "remedy", "statusCode"]
    return answer.status, error["code"], error["message"] + " | " + error["remedy"]


# ---- routes ----

def test_health(shared):
    answer = shared.get("/healthz")
    assert (answer.status, answer.text) == (200, "ok")
    assert answer.headers["Content-Type"].startswith("text/plain")


def test_status(shared, box):
    status = shared.call("GET", "/api/cay/status")
    assert list(status) == ["version", "sandboxes", "started", "operations", "limit",
                            "shuttingDown", "poolSize", "poolTarget", "poolHits", "poolMisses"]
    assert status["sandboxes"] >= 1 and status["started"] >= 1
    assert (status["limit"], status["shuttingDown"]) == (100, False)


def test_create_with_everything(shared):
    disk = {} if support.USER else {"disk": "1g"}  # an ordinary user can have no limit
    made = shared.create(name="full", env={"GREETING": "hällo \n%"}, labels={"team": "red"},
                         workDir="/data", memory=256 << 20, cpus=0.5, pids=64, **disk,
                         autoStopInterval=7, autoDeleteInterval=9, profile="strict")
    try:
        assert list(made) == KEYS
        wanted = {"name": "full", "state": "started", "image": "host", "workDir": "/data",
                  "memory": 256 << 20, "cpus": 0.5, "disk": 1 << 30 if disk else 0, "pids": 64,
                  **({"memory": 0, "cpus": 0} if support.USER else {}),  # limits that are not kept
                  "labels": {"team": "red"}, "env": {"GREETING": "hällo \n%"},
                  "autoStopInterval": 7, "autoDeleteInterval": 9, "errorReason": None}
        assert {key: made[key] for key in wanted} == wanted
        assert made == {**shared.call("GET", "/api/cay/sandbox/full"),
                        "lastActivityAt": made["lastActivityAt"]}
        _, headers = shared.upgrade("full")
        assert "X-Cay-Work-Dir: /data" in headers and "X-Cay-Name: full" in headers
        assert "X-Cay-Env: GREETING=h%C3%A4llo%20%0A%25" in headers
    finally:
        shared.call("DELETE", "/api/cay/sandbox/full?force=true")


def test_intervals_of_zero(shared):
    made = shared.create(autoStopInterval=0, autoDeleteInterval=-1)
    assert (made["autoStopInterval"], made["autoDeleteInterval"]) == (0, -1)
    shared.call("DELETE", f"/api/cay/sandbox/{made['id']}")


def test_get_by_id_prefix_and_name(shared, box):
    for who in (box, box[:10]):
        assert shared.call("GET", f"/api/cay/sandbox/{who}")["id"] == box
    shared.call("POST", f"/api/cay/sandbox/{box}/rename", {"name": "by-name"})
    assert shared.call("GET", "/api/cay/sandbox/by-name")["id"] == box


def change(daemon, who, verb, state):
    assert daemon.call("POST", f"/api/cay/sandbox/{who}/{verb}")["state"] == state
    assert daemon.state_of(who) == state


def test_pause(shared, box):
    try:
        change(shared, box, "pause", "paused")
    except Refused as refused:
        assert support.USER and refused.status == 501  # without a control group
    else:
        change(shared, box, "resume", "started")


def test_life(shared, box):
    change(shared, box, "stop", "stopped")
    change(shared, box, "start", "started")
    assert shared.ask("DELETE", f"/api/cay/sandbox/{box}?force=true").status == 204
    assert refusal(shared, "GET", f"/api/cay/sandbox/{box}")[:2] == (404, "not_found")


def test_files_stay_while_it_is_stopped(shared, box):
    assert shared.exec(box, "sh", "-c", "echo kept > /workspace/file")[0] == 0
    shared.call("POST", f"/api/cay/sandbox/{box}/stop")
    shared.call("POST", f"/api/cay/sandbox/{box}/start")
    assert shared.exec(box, "cat", "/workspace/file") == (0, "kept\n")


def test_labels(shared, box):
    changed = shared.call("PUT", f"/api/cay/sandbox/{box}/labels", {"labels": {"b": "2", "a": "x=y"}})
    assert changed["labels"] == {"a": "x=y", "b": "2"}
    ids = lambda query: [s["id"] for s in shared.list(query)]
    assert ids("?label=a%3Dx%3Dy") == ids("?label=b=2&label=a=x=y") == [box]
    assert ids("?label=b=2&label=c=3") == ids("?label=b") == []
    assert shared.call("PUT", f"/api/cay/sandbox/{box}/labels", {"labels": {}})["labels"] == {}


def test_rename(shared, box):
    renamed = shared.call("POST", f"/api/cay/sandbox/{box}/rename", {"name": "renamed"})
    assert (renamed["id"], renamed["name"]) == (box, "renamed")
    other = shared.create(name="taken")
    status, code, text = refusal(shared, "POST", f"/api/cay/sandbox/{box}/rename",
                                 {"name": "taken"})
    assert (status, code) == (409, "conflict") and "taken" in text
    shared.call("DELETE", f"/api/cay/sandbox/{other['id']}")


def test_stats(shared, box):
    stats = shared.call("GET", f"/api/cay/sandbox/{box}/stats")
    assert list(stats) == ["memoryBytes", "memoryLimit", "memoryPeak", "cpuMicros", "pids",
                           "oomKills", "oomAgeMs", "diskBytes", "diskLimit"]
    assert stats["diskLimit"] == (0 if support.USER else 5 << 30)
    if not support.USER:
        assert stats["pids"] >= 1 and stats["memoryLimit"] == 512 << 20


def test_head_is_get_without_a_body(shared):
    answer = shared.ask("HEAD", "/api/cay/sandbox")
    assert (answer.status, answer.text) == (200, "")


def test_json_is_the_only_format(shared, box):
    shared.call("PUT", f"/api/cay/sandbox/{box}/labels", {"labels": {"k": "a,b\\t"}})
    answer = shared.get(f"/api/cay/sandbox/{box}", Accept="text/tab-separated-values")
    assert answer.headers["Content-Type"] == "application/json"
    assert json.loads(answer.text)["labels"] == {"k": "a,b\\t"}
    answer = shared.get("/api/cay/sandbox/no-such-box", Accept="text/tab-separated-values")
    error = json.loads(answer.text)
    assert (answer.status, error["code"]) == (404, "not_found") and "no-such-box" in error["message"]


# ---- bad input ----

@pytest.mark.parametrize("method, path, body, status, part", [
    ("GET", "/", None, 404, "nothing at this path"),
    ("GET", "/api/cay", None, 404, "nothing at this path"),
    ("GET", "/api/cay/sandbox/x/y", None, 404, "nothing at this path"),
    ("GET", "/api/cay//sandbox", None, 400, "empty part"),
    ("GET", "/api/cay/sandbox/%zz", None, 400, "hex digits"),
    ("GET", "/healthz%00", None, 400, "zero byte"),
    ("GET", "/api/cay/sandbox/%ff", None, 400, "UTF-8"),
    ("GET", "/" + "a" * 5000, None, 400, "longer than"),
    ("GET", "/api/cay/sandbox/none", None, 404, "none"),
    ("POST", "/api/cay/sandbox/none/start", None, 404, "none"),
    ("DELETE", "/api/cay/sandbox/none", None, 404, "none"),
    ("DELETE", "/api/cay/sandbox/BOX?force=perhaps", None, 400, "neither true nor false"),
    ("POST", "/api/cay/sandbox", "{", 400, "request body"),
    ("POST", "/api/cay/sandbox", "[]", 400, "object"),
    ("POST", "/api/cay/sandbox", "\xff", 400, "request body"),
    ("POST", "/api/cay/sandbox", {"memroy": 1}, 400, "did you mean 'memory'?"),
    ("POST", "/api/cay/sandbox", {"name": "-x"}, 400, "name"),
    ("POST", "/api/cay/sandbox", {"name": "a" * 64}, 400, "name"),
    ("POST", "/api/cay/sandbox", {"memory": "much"}, 400, "memory"),
    ("POST", "/api/cay/sandbox", {"memory": 1 << 60}, None, "memory"),
    ("POST", "/api/cay/sandbox", {"cpus": -1}, 400, "cpus"),
    ("POST", "/api/cay/sandbox", {"env": {"A=B": ""}}, 400, "env"),
    ("POST", "/api/cay/sandbox", {"labels": {str(i): "" for i in range(100)}}, 400, "labels"),
    ("POST", "/api/cay/sandbox", {"volumes": ["/"]}, 400, ""),
    ("POST", "/api/cay/sandbox", {"image": "No Such Image"}, 400, ""),
    ("POST", "/api/cay/sandbox", {"tier": "best"}, 400, "tier"),
    ("PUT", "/api/cay/sandbox/BOX/labels", {}, 400, "labels"),
    ("POST", "/api/cay/sandbox/BOX/rename", {"name": "a b"}, 400, "name"),
    ("POST", "/api/cay/sandbox/BOX/rename", {"nmae": "a"}, 400, "did you mean 'name'?"),
    ("GET", "/api/cay/sandbox/BOX/connect", None, 400, "Upgrade"),
])
def test_bad_input(shared, box, method, path, body, status, part):
    path = path.replace("BOX", box)
    if isinstance(body, str):
        body = body.encode("latin-1")
    found, code, text = refusal(shared, method, path, body)
    assert part in text
    assert found == status if status else 400 <= found < 500 or found == 507


def test_wrong_method(shared):
    answer = shared.ask("PATCH", "/api/cay/sandbox")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, POST")
    assert answer.json()["code"] == "invalid_argument"


def test_bodies_that_are_too_large(shared):
    body = b'{"name": "' + b"a" * (1 << 20) + b'"}'
    assert refusal(shared, "POST", "/api/cay/sandbox", body)[0] == 413
    chunks = iter([b"x" * 65536] * 40)
    assert refusal(shared, "POST", "/api/cay/sandbox", chunks)[0] == 413


def test_a_body_that_is_far_too_large_is_not_read(shared):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(45)  # a client that says nothing is given 60 s
        sock.connect(str(shared.socket))
        sock.sendall(b"POST /api/cay/sandbox HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n")
        assert sock.recv(4096).startswith(b"HTTP/1.1 413 ")


def test_an_endless_body_is_hung_up_on(shared):
    connection = shared.http()
    connection.putrequest("POST", "/api/cay/sandbox")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    with pytest.raises(OSError):
        for _ in range(4096):
            connection.send(b"10000\r\n" + b"x" * 65536 + b"\r\n")
    connection.close()


def test_headers_that_are_too_large(shared):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(45)  # a client that says nothing is given 60 s
        sock.connect(str(shared.socket))
        try:
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"a" * (4 << 20))
        except OSError:
            return  # it hung up
        answer = sock.recv(100)
        assert answer == b"" or b" 431 " in answer or b" 413 " in answer or b" 414 " in answer


@pytest.mark.parametrize("garbage", [b"\0" * 100, b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01",
                                     b"GET /healthz HTTP/9.9\r\n\r\n", b"a" * 100000])
def test_garbage_harms_nobody(shared, garbage):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(45)  # a client that says nothing is given 60 s
        sock.connect(str(shared.socket))
        sock.sendall(garbage)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(4096):
            pass
    assert shared.get("/healthz").status == 200


def test_a_duplicate_name(shared):
    made = shared.create(name="twice")
    with pytest.raises(Refused) as refused:
        shared.create(name="twice")
    assert refused.value.status == 409 and "twice" in refused.value.error["message"]
    shared.call("DELETE", f"/api/cay/sandbox/{made['id']}")


def test_connecting_to_a_stopped_sandbox(shared, box):
    shared.call("POST", f"/api/cay/sandbox/{box}/stop")
    status, code, text = refusal(shared, "GET", f"/api/cay/sandbox/{box}/connect",
                                 Connection="Upgrade", Upgrade="cay-init")
    assert (status, code) == (409, "conflict") and "start" in text


def test_the_limit(folder):
    with serving(folder, env={"CAY_MANAGER_MAX_SANDBOXES": "2"}) as daemon:
        daemon.create()
        daemon.create()
        with pytest.raises(Refused) as refused:
            daemon.create()
        assert refused.value.status == 429
        assert refused.value.error["message"] == "Maximum number of sandboxes (2) reached"


# ---- progress ----

def lines_of(answer):
    return answer.text.split("\n")


def test_progress_of_a_creation(shared):
    wishes = {"tier": "basic"} if support.USER else {}
    answer = shared.ask("POST", "/api/cay/sandbox", wishes, X_Cay_Progress="lines")
    done, made, rest = lines_of(answer)[-3:]
    assert (answer.status, done, rest) == (200, "done", "")
    assert list(json.loads(made)) == KEYS
    shared.call("DELETE", f"/api/cay/sandbox/{json.loads(made)['id']}")


def test_progress_of_a_creation_that_fails(shared):
    wishes = {"image": "localhost:1/no/such:image"}
    answer = shared.ask("POST", "/api/cay/sandbox", wishes, X_Cay_Progress="lines")
    error, body, rest = lines_of(answer)[-3:]
    assert (answer.status, error, rest) == (200, "error", "")
    assert json.loads(body)["statusCode"] >= 400 and "localhost:1" in body


def test_a_missing_image(shared):
    status, _, text = refusal(shared, "POST", "/api/cay/sandbox", {"image": "localhost:1/no/such"})
    assert status >= 400 and "localhost:1" in text
    assert shared.list("?label=x=y") == []


# ---- operations ----

def test_exec(shared, box):
    assert shared.exec(box, "sh", "-c", "echo out; exit 3") == (3, "out\n")


def test_bytes_that_come_with_the_head(shared, box):
    """A client need not wait for the answer to send its request."""
    payload = field("VERSION", 1) + field("OP", EXEC) + field("ARG", "/bin/echo") + \
        field("ARG", "early") + field("STDIN", 0)
    sock, _ = shared.upgrade(box, struct.pack("<IBxxx", len(payload), REQUEST) + payload)
    with Connection(sock) as c:
        assert c.finish()[:2] == (0, "early\n")
        assert c.ended()


def test_much_input_and_output(shared, box):
    """Both directions at once, more than any buffer holds."""
    data = os.urandom(65536) * 16
    with shared.connect(box) as c:
        c.request(6, ("PATH", "/workspace/big"), ("MODE", 0o644))  # WRITE
        for at in range(0, len(data), 65536):
            c.send(INPUT, data[at:at + 65536])
        c.send(INPUT_END)
        c.expect(DONE)
    with shared.connect(box) as c:
        c.request(5, ("PATH", "/workspace/big"))  # READ
        got = b""
        while (frame := c.receive())[0] == STDOUT:
            got += frame[1]
        assert frame[0] == DONE and got == data


def test_the_end_of_a_client_ends_its_command(shared, box):
    c = shared.connect(box)
    c.exec("sleep", "1000")
    c.expect(STARTED)
    assert shared.call("GET", "/api/cay/status")["operations"] == 1
    c.close()
    assert until(lambda: shared.call("GET", "/api/cay/status")["operations"] == 0)
    assert until(lambda: "sleep" not in shared.exec(box, "sh", "-c", "cat /proc/[0-9]*/cmdline")[1])


def test_100_operations_at_once(shared, box):
    shared.call("DELETE", f"/api/cay/sandbox/{box}?force=true")
    made = shared.create(pids=1000, memory=1 << 30)["id"]
    connections = []
    try:
        for _ in range(100):
            c = shared.connect(made)
            c.exec("sh", "-c", "read line; echo got $line", STDIN=1)
            connections.append(c)
        assert shared.call("GET", "/api/cay/status")["operations"] == 100
        for number, c in enumerate(connections):
            c.send(INPUT, b"%d\n" % number)
        for number, c in enumerate(connections):
            assert c.finish()[:2] == (0, f"got {number}\n")
    finally:
        for c in connections:
            c.close()
        shared.call("DELETE", f"/api/cay/sandbox/{made}?force=true")


def test_removal_waits_for_nobody_with_force(shared, box):
    with shared.connect(box) as c:
        c.exec("sleep", "1000")
        c.expect(STARTED)
        assert refusal(shared, "DELETE", f"/api/cay/sandbox/{box}")[:2] == (409, "conflict")
        shared.call("DELETE", f"/api/cay/sandbox/{box}?force=true")
        assert c.ended()


def test_keep_alive(shared):
    connection = shared.http()
    for _ in range(20):
        connection.request("GET", "/api/cay/status")
        answer = connection.getresponse()
        assert answer.status == 200 and json.loads(answer.read())["limit"] == 100
    connection.close()


def test_50_clients(shared, box):
    def client(number):
        for turn in range(10):
            if turn % 2:
                assert shared.exec(box, "echo", f"{number}-{turn}") == (0, f"{number}-{turn}\n")
            else:
                assert shared.call("GET", f"/api/cay/sandbox/{box}")["id"] == box
        return number
    shared.call("DELETE", f"/api/cay/sandbox/{box}?force=true")
    made = shared.create(pids=1000, memory=1 << 30)["id"]
    box = made
    with ThreadPoolExecutor(50) as pool:
        assert sorted(pool.map(client, range(50))) == list(range(50))
    shared.call("DELETE", f"/api/cay/sandbox/{made}?force=true")


def test_20_creations_at_once(shared):
    with ThreadPoolExecutor(20) as pool:
        made = list(pool.map(lambda n: shared.create(name=f"many-{n}")["id"], range(20)))
        assert len(set(made)) == 20
        list(pool.map(lambda who: shared.call("DELETE", f"/api/cay/sandbox/{who}"), made))


def test_descriptors_do_not_grow(shared, box):
    def count():
        return len(os.listdir(f"/proc/{shared.front()}/fd"))
    for _ in range(3):
        shared.exec(box, "true")
    before = count()
    for turn in range(50):
        shared.exec(box, "true")
        if turn % 10 == 0:
            shared.ask("POST", "/api/cay/sandbox", {"image": "localhost:1/a"}, X_Cay_Progress="lines")
    assert until(lambda: count() <= before + 2), (before, count())


# ---- who may ----

def status_of(pid):
    return dict(line.split(":\t", 1) for line in
                Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)


def test_the_front_has_no_rights(shared):
    status = status_of(shared.front())
    assert status["NoNewPrivs"] == "1"
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
    if not support.USER:
        ids = set(status["Uid"].split()) | set(status["Gid"].split())
        assert len(ids) == 1 and int(ids.pop()) & ~0xffff == 0x7ffe0000
        assert status["Groups"].strip() == ""


def test_front_and_launcher_have_filters(shared, box):
    for pid in shared.front(), shared.launcher():
        status = status_of(pid)
        assert status["Seccomp"] == "2", "of mode filter"
        assert status["NoNewPrivs"] == "1"
    for task in Path(f"/proc/{shared.front()}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            assert status_of(task.name)["Seccomp"] == "2", "of every thread"
    inside = shared.exec(box, "grep", "^Seccomp", "/proc/self/status")
    assert "Seccomp:\t2\n" in inside[1], "its own comes on top of the launcher's"


def test_modes(shared):
    assert stat.S_IMODE(shared.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE((shared.state / "daemon").stat().st_mode) == 0o700
    assert stat.S_IMODE((shared.state / "admin.key").stat().st_mode) == 0o600


@support.as_root_only
def test_another_user_is_refused(shared):
    script = ("import os, socket, sys\n"
              "os.setresuid(1, 1, 1)\n"
              "s = socket.socket(socket.AF_UNIX)\n"
              "try:\n    s.connect(sys.argv[1]); sys.exit(1)\n"
              "except PermissionError:\n    pass\n")
    subprocess.run(["python3", "-c", script, shared.socket], check=True)


@support.as_root_only
def test_a_peer_of_another_user_is_answered_403(folder):
    path = folder / "open.sock"
    with serving(folder, "--socket", path, path=path):
        path.chmod(0o666)
        script = ("import os, socket, sys\n"
                  "os.setresuid(1, 1, 1)\n"
                  "s = socket.socket(socket.AF_UNIX)\n"
                  "s.connect(sys.argv[1])\n"
                  "s.sendall(b'GET /api/cay/sandbox HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')\n"
                  "print(s.recv(4096).decode())\n")
        shown = subprocess.run(["python3", "-c", script, path], check=True, capture_output=True)
        assert shown.stdout.startswith(b"HTTP/1.1 403 ") and b"forbidden" in shown.stdout


def tcp(port, path="/api/cay/sandbox", **headers):

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("GET", path, headers=names)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_tcp_needs_the_key_and_the_right_host(folder):
    port = free_port()
    with serving(folder, "--listen", f"127.0.0.1:{port}",
                 env={"CAY_SERVER_ALLOWED_HOSTS": "box.example"}) as daemon:
        key = (daemon.state / "admin.key").read_text().strip()
        assert len(key) >= 32
        good = f"Bearer {key}"
        assert tcp(port, Authorization=good) == (200, "[]\n")
        assert tcp(port, Authorization=good, Host="localhost:1")[0] == 200
        assert tcp(port, Authorization=good, Host="box.example")[0] == 200
        assert tcp(port, Authorization=good, Host="evil.example")[0] == 403
        for bad in (None, "", "Bearer ", f"Bearer {key}x", f"Bearer {key[:-1]}", f"Basic {key}"):
            headers = {} if bad is None else {"Authorization": bad}
            status, text = tcp(port, **headers)
            assert status == 401 and key not in text
        daemon.stop()
        daemon.start()
        assert tcp(port, Authorization=good)[0] == 200  # the key stays


def test_operations_over_tcp(folder):
    port = free_port()
    with serving(folder, "--listen", f"127.0.0.1:{port}") as daemon:
        key = (daemon.state / "admin.key").read_text().strip()
        who = daemon.create()["id"]
        with socket.create_connection(("127.0.0.1", port), 20) as sock:
            sock.sendall(f"GET /api/cay/sandbox/{who}/connect HTTP/1.1\r\nHost: localhost\r\n"
                         f"Authorization: Bearer {key}\r\nConnection: keep-alive, Upgrade\r\n"
                         f"Upgrade: cay-init\r\n\r\n".encode())
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += sock.recv(1)
            assert head.startswith(b"HTTP/1.1 101 ")
            with Connection(sock) as c:
                c.exec("echo", "far away")
                assert c.finish()[:2] == (0, "far away\n")


def test_the_configuration_names_an_address(folder):
    port = free_port()
    config = folder / "cay.toml"
    config.write_text(f'[server]\nlisten = "127.0.0.1:{port}"\n')
    with serving(folder, "--config", config) as daemon:
        key = (daemon.state / "admin.key").read_text().strip()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/healthz", headers={"Authorization": f"Bearer {key}"})
        assert connection.getresponse().status == 200
        connection.close()


def test_no_tcp_unless_asked_for(daemon):
    def listening(pid):
        inodes = set()
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):  # it was of a request that has just ended
                inodes.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
        rows = [line.split() for name in ("tcp", "tcp6")
                for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
        return [row for row in rows if f"socket:[{row[9]}]" in inodes]
    assert listening(daemon.process.pid) == listening(daemon.front()) == []


@pytest.mark.parametrize("options, part", [
    (["--listen", "nonsense"], "ADDRESS:PORT"),
    (["--listen", "example.com:80"], "numeric"),
    (["--listen", "127.0.0.1:99999"], "ADDRESS:PORT"),
    (["--listen", "192.0.2.1:1"], "192.0.2.1:1"),
    (["--socket", "/" + "x" * 120], "longer than"),
    (["--socket", "/no/such/folder/s"], "No such file"),
    (["--config", "/no/such/file"], "/no/such/file"),
    (["--sokcet", "x"], "--socket"),
])
def test_starts_that_fail(folder, options, part):
    (folder / "state").mkdir()
    support.own(folder / "state")
    who, env = support.as_user()
    for more in ([], ["--background"]):
        done = subprocess.run([CAYD, "--state-dir", folder / "state", *options, *more], env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, **who)
        text = done.stderr.decode()
        assert done.returncode != 0 and part in text and text.startswith("cay: "), text


@support.as_root_only
def test_a_state_folder_that_the_front_cannot_reach(folder):
    folder.chmod(0o700)
    (folder / "state").mkdir()
    done = subprocess.run([CAYD, "--state-dir", folder / "state"], capture_output=True, timeout=60)
    assert done.returncode != 0 and b"chmod o+x" in done.stderr


# ---- two daemons ----

def test_a_second_daemon_names_the_first(daemon):
    second = daemon.spawn(stderr=subprocess.PIPE)
    _, text = second.communicate(timeout=60)
    assert second.returncode == 4
    assert f"(process {daemon.process.pid}); use that one, stop it with 'cay daemon stop'" in text.decode()
    assert daemon.get("/healthz").status == 200


def has_open(pid, path):
    with contextlib.suppress(OSError):
        return str(path) in [os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()]
    return False


def test_the_next_daemon_waits_for_one_that_is_ending(daemon):
    lock, front, first = daemon.state / "daemon/lock", daemon.front(), daemon.process
    os.kill(front, signal.SIGSTOP)  # so that it cannot end before the next one is there
    try:
        first.terminate()
        assert until(lambda: "ending" in lock.read_text())
        with open(daemon.log, "ab") as log:
            daemon.process = daemon.spawn(stdout=log, stderr=log)
        assert until(lambda: has_open(daemon.process.pid, lock)), daemon.log.read_text()
    finally:
        with contextlib.suppress(ProcessLookupError):  # it is given 10 s, which may be over by now
            os.kill(front, signal.SIGCONT)
    assert first.wait(60) == 0
    assert until(daemon.serves), daemon.log.read_text()
    assert lock.read_text() == f"{daemon.process.pid}\n"


def test_background(folder):
    """It returns when it serves; one that serves already is as good."""
    state = folder / "state"
    state.mkdir()
    support.own(state)
    who, env = support.as_user()
    argv = [CAYD, "--background", "--state-dir", state]
    starters = [subprocess.Popen(argv, env=env, **who) for _ in range(5)]
    assert [s.wait(60) for s in starters] == [0] * 5
    pid = int((state / "daemon/lock").read_text())
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(state / "daemon/cay.sock"))
        assert os.getsid(pid) != os.getsid(0)
    finally:
        os.kill(pid, signal.SIGTERM)
        assert until(lambda: not is_alive(pid))
    assert not (state / "daemon/cay.sock").exists()


# ---- deaths ----

def busy(daemon, who):
    """A command that goes on whatever happens to the daemon."""
    assert daemon.exec(who, "sh", "-c", "while :; do date +%s.%N > /workspace/beat; sleep 0.02; "
                                        "done >/dev/null 2>&1 & echo ok") == (0, "ok\n")


def beats(daemon, who):
    read = lambda: daemon.exec(who, "cat", "/workspace/beat")[1]
    first = read()
    return until(lambda: read() != first)


@pytest.mark.parametrize("victim", ["cayd-front", "cay-launcher"])
def test_death_of_a_child(daemon, victim):
    who = daemon.create(name="lab", labels={"a": "b"})["id"]
    busy(daemon, who)
    for _ in range(3):
        daemon.kill_child(victim)
        assert daemon.call("GET", "/api/cay/sandbox/lab")["labels"] == {"a": "b"}
        assert daemon.state_of(who) == "started" and beats(daemon, who)
    other = daemon.create()["id"]
    assert daemon.exec(other, "echo", "new") == (0, "new\n")
    assert daemon.call("POST", "/api/cay/sandbox/lab/stop")["state"] == "stopped"
    assert daemon.call("POST", "/api/cay/sandbox/lab/start")["state"] == "started"


def test_death_of_the_supervisor(daemon):
    who = daemon.create(name="lab")["id"]
    busy(daemon, who)
    front, launcher = daemon.front(), daemon.launcher()
    daemon.kill()
    daemon.start()
    assert not is_alive(front) and until(lambda: not is_alive(launcher))
    assert daemon.state_of("lab") == "started" and beats(daemon, who)


def test_death_of_all_at_once(daemon):
    who = daemon.create(name="lab")["id"]
    stopped = daemon.create(name="off")["id"]
    daemon.call("POST", "/api/cay/sandbox/off/stop")
    busy(daemon, who)
    for pid in (daemon.process.pid, daemon.front(), daemon.launcher()):
        with contextlib.suppress(ProcessLookupError):  # the first takes the others with it
            os.kill(pid, signal.SIGKILL)
    daemon.process.wait(60)
    daemon.start()
    assert {s["id"]: s["state"] for s in daemon.list()} == {who: "started", stopped: "stopped"}
    assert beats(daemon, who)


def test_nothing_acknowledged_is_lost(daemon):
    """The front dies again and again while clients create; whatever was answered is there."""
    promised, stop = [], threading.Event()

    def client():
        while not stop.is_set():
            try:
                promised.append(daemon.create()["id"])
            except (OSError, Refused, ValueError, http.client.HTTPException):
                time.sleep(0.02)
    threads = [threading.Thread(target=client) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        time.sleep(0.3)
        if len(promised) < 60:
            daemon.kill_child("cayd-front")
    stop.set()
    for thread in threads:
        thread.join(60)
    assert promised
    assert until(daemon.serves)
    assert until(lambda: {s["state"] for s in daemon.list()} == {"started"}), \
        [(s["id"], s["state"], s.get("errorReason")) for s in daemon.list() if s["state"] != "started"]
    assert set(promised) <= {s["id"] for s in daemon.list()}


@support.as_root_only
def test_out_of_memory_before_the_front_was_replaced(daemon):
    """A new front takes no old kill for news, and misses none that comes."""
    box = daemon.create(memory="64m")["id"]
    hog = ("python3", "-c", "x = bytearray(400 << 20)")

    def figures():
        stats = daemon.call("GET", f"/api/cay/sandbox/{box}/stats")
        return stats["oomKills"], stats["oomAgeMs"]

    assert figures() == (0, -1)
    assert daemon.exec(box, *hog)[0] == 137
    kills, age = figures()
    assert kills == 1 and age >= 0
    daemon.kill_child("cayd-front")
    assert until(daemon.serves)
    assert figures() == (1, -1)
    assert daemon.exec(box, *hog)[0] == 137
    kills, age = figures()
    assert kills == 2 and age >= 0
    daemon.call("POST", f"/api/cay/sandbox/{box}/stop")
    daemon.call("POST", f"/api/cay/sandbox/{box}/start")
    assert daemon.exec(box, *hog)[0] == 137
    assert figures()[0] == 1 and figures()[1] >= 0


def test_clients_wait_while_the_front_is_replaced(daemon):
    front = daemon.front()
    assert front
    os.kill(front, signal.SIGKILL)
    time.sleep(0.02)
    assert daemon.get("/healthz").text == "ok"


# ---- ends ----

def test_sandboxes_stay_when_the_daemon_ends(daemon):
    who = daemon.create()["id"]
    busy(daemon, who)

    def end():
        if daemon.process.poll() is not None:
            daemon.start()
        return daemon.stop()

    assert support.takes_less(end, 9)  # those who use it would get 10 s
    assert not daemon.socket.exists()
    daemon.start()
    assert daemon.state_of(who) == "started" and beats(daemon, who)


def test_requests_under_way_are_finished(daemon):
    """A command that ends soon enough is not cut off, and new connections are not taken."""
    who = daemon.create()["id"]
    with daemon.connect(who) as c:
        c.exec("sh", "-c", "sleep 2; echo finished")
        c.expect(STARTED)
        daemon.process.terminate()
        time.sleep(0.3)
        assert c.finish()[:2] == (0, "finished\n")
    assert daemon.process.wait(60) == 0


def test_what_does_not_end_is_cut_off(daemon):
    who = daemon.create()["id"]
    with daemon.connect(who) as c:
        c.exec("sleep", "1000")
        c.expect(STARTED)
        assert 5 < daemon.stop(60)


def test_ctrl_c_in_a_terminal(folder):
    """The whole process group gets it."""
    daemon = Daemon(folder)
    daemon.stop()
    daemon.process = daemon.spawn(start_new_session=True)
    assert until(daemon.serves)
    os.killpg(daemon.process.pid, signal.SIGINT)
    assert daemon.process.wait(60) == 0


# ---- systemd ----

def test_notification_and_passed_sockets(folder):
    notify, listen = folder / "notify", folder / "passed.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told, \
            socket.socket(socket.AF_UNIX) as passed:
        told.bind(str(notify))
        support.own(notify)
        told.settimeout(60)
        passed.bind(str(listen))
        support.own(listen)
        passed.listen()
        (folder / "state").mkdir()
        support.own(folder / "state")
        who, env = support.as_user()
        env.update(NOTIFY_SOCKET=str(notify), LISTEN_FDS="1")
        script = 'LISTEN_PID=$$ exec "$0" --state-dir "$1"'
        process = subprocess.Popen(["sh", "-c", script, CAYD, folder / "state"], env=env,
                                   pass_fds=[3], preexec_fn=lambda: os.dup2(passed.fileno(), 3),
                                   **who)
        try:
            said = told.recv(100)
            while said.startswith(b"WATCHDOG=1"):  # from its first moment on, however long it needs
                said = told.recv(100)
            assert said.splitlines()[0] == b"READY=1"
            assert not (folder / "state/daemon/cay.sock").exists()
            client = Daemon.__new__(Daemon)
            client.socket = listen
            assert client.get("/healthz").text == "ok"
        finally:
            process.terminate()
            assert process.wait(60) == 0
        said = [told.recv(100)]
        while said[-1].startswith((b"WATCHDOG=1", b"STATUS=")):
            said.append(told.recv(100))
        assert said[-1].splitlines()[0] == b"STOPPING=1" and listen.exists()


# ---- cay serve ----

def test_serve_hands_over(folder):
    support.need_cay()
    (folder / "state").mkdir()
    support.own(folder / "state")
    process = support.start("serve", "--state-dir", folder / "state", "--socket", folder / "s.sock")
    try:
        client = Daemon.__new__(Daemon)
        client.socket, client.process = folder / "s.sock", process
        assert until(client.serves)
    finally:
        process.terminate()
        assert process.wait(60) == 0
        process.communicate()


def test_the_tier_of_the_configuration(folder):
    """Who cannot say it, as clients of Daytona's protocol, gets what is configured."""
    with serving(folder, env={"CAY_SANDBOX_TIER": "basic"}) as daemon:
        made = daemon.call("POST", "/api/sandbox", {"env": {}})
        assert made["state"] == "started"
        assert daemon.call("GET", f"/api/cay/sandbox/{made['id']}")["tier"] == "basic"
    refused = subprocess.run([support.BUILD / "cayd", "--state-dir", folder / "state"],
                             env={**os.environ, "CAY_SANDBOX_TIER": "soft"}, capture_output=True,
                             stdin=subprocess.DEVNULL, text=True, timeout=60)
    assert refused.returncode != 0 and "is no tier" in refused.stderr


def open_files(pid):
    """What its descriptors lead to; those that are closed meanwhile are left out."""
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.add(os.readlink(descriptor))
    return found


def test_inherited_descriptors_are_closed(folder, clean_host):
    """What a careless caller left open is open in none of its processes."""
    with open(folder / "left-open", "wb") as left:
        class Careless(Daemon):
            def spawn(self, *options, **more):
                return super().spawn(*options, pass_fds=[left.fileno()], **more)
        daemon = Careless(folder)
        try:
            for pid in (daemon.process.pid, daemon.front(), daemon.launcher()):
                held = open_files(pid)
                assert str(folder / "left-open") not in held, pid
        finally:
            daemon.clean_up()
