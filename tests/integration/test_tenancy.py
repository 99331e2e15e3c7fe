"""Two keys, and every route of /openapi.json: with whatever identifier of the other's, the answer is the one
for an identifier that does not exist; nothing of the other's is seen, and nothing of it changes.

Routes come from the document, so that a new one is covered by itself. A parameter that is not known here
fails the test: add what the other key has of it to Victim.fill()."""

import concurrent.futures
import contextlib
import http.client
import json
import re
import socket
import threading
import time

import pytest
import support
from daemons import serving_tcp
from launching import until
from support import cay, ok
from test_keys import make_key
from test_run_image import base
from websocket import WebSocket

MARK = "annssecret"  # part of every name and content of hers
METHODS = ("get", "post", "put", "patch", "delete")
BODIES = ["{}", json.dumps({"name": "x", "command": "true", "sessionId": "x", "code": "1", "id": "x",
                            "path": "/workspace", "labels": {"a": "b"}, "cpu": 1, "cpus": 1,
                            "memory": "64m", "autoStopInterval": 1, "data": "x", "cols": 80, "rows": 24})]
UPGRADES = [{}, {"Connection": "Upgrade", "Upgrade": "cay-init"},
            {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
             "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}]
# What a path may have that is nobody's.
CONSTANT = {"minutes": "7", "flag": "true", "port": "8000", "region": "us", "organization": "x",
            "bucket": "cay", "file": "context.tar", "path": "x"}


class Keeping:
    """A client that keeps its connection."""

    def __init__(self, client):
        self.client = client
        self.http = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)

    def ask(self, method, path, body=None, **headers):
        """Status, headers and text; an upgraded connection has no text."""
        headers["Authorization"] = f"Bearer {self.client.key}"
        self.http.request(method.upper(), path, body, headers)
        answer = self.http.getresponse()
        if answer.status == 101:
            self.http.close()
            return 101, {}, ""
        return answer.status, dict(answer.getheaders()), answer.read().decode(errors="replace")


class Victim:
    """Everything that one key can have."""

    def __init__(self, daemon, name="ann", **limits):
        self.daemon, self.name = daemon, name
        self.client = make_key(daemon, name, permissions=["sandboxes", "images"], **limits)
        call = self.client.call
        self.volume = call("POST", "/api/cay/volumes", {"name": f"{MARK}-volume"})
        self.box = self.client.create(name=f"{MARK}-box", memory="128m", env={"A": MARK},
                                      labels={"of": MARK}, volumes=[f"{MARK}-volume:/data"])["id"]
        toolbox = f"/toolbox/{self.box}"
        self.inside(f"echo {MARK} > /workspace/f; echo {MARK} > /data/f")
        self.client.ask("POST", f"{toolbox}/process/session", {"sessionId": f"{MARK}-session"})
        self.command = call("POST", f"{toolbox}/process/session/{MARK}-session/exec",
                            {"command": f"echo {MARK}"})["cmdId"]
        call("POST", f"{toolbox}/process/pty", {"id": f"{MARK}-pty"})
        self.context = call("POST", f"{toolbox}/process/interpreter/context", {})["id"]
        self.output = call("POST", "/api/cay/python",
                           {"code": f"print('{MARK}' * 200000)"})["stdout_file"].rsplit("/", 1)[1]
        self.token = call("GET", f"/api/sandbox/{self.box}/ports/8000/signed-preview-url"
                                 "?expiresInSeconds=3600")["token"]
        self.snapshot = f"{MARK}-snapshot:1"
        self.make_snapshot()

    def make_snapshot(self):
        image = self.client.create(name=f"{MARK}-imaged", image="tenancy-base", memory="64m")["id"]
        self.client.call("POST", f"/api/cay/sandbox/{image}/snapshot", {"name": self.snapshot})
        self.client.call("DELETE", f"/api/cay/sandbox/{image}?force=true")

    def inside(self, command):
        """By whoever runs the daemon."""
        answer = self.daemon.ask("POST", f"/toolbox/{self.box}/process/execute",
                                 {"command": command})
        assert answer.status == 200, answer.text
        return json.loads(answer.text)["result"]

    def fill(self, path, name):
        """What she has of a parameter: pairs of hers and one that nobody has."""
        unknown = "0123456789abcdef"
        names = {"volumes": [(f"{MARK}-volume", "gracious-volume")], "api-keys": [(self.name, "eve")],
                 "organizations": [(f"{MARK}-org", "gracious-org")],
                 "snapshots": [(self.snapshot, "gracious-snapshot:1")],
                 "context": [(self.context, unknown)]}
        boxes = [(self.box, unknown), (self.box[:8], unknown[:8]), (f"{MARK}-box", "gracious-box")]
        known = {"who": boxes, "box": boxes, "id": [(self.volume["id"], unknown)],
                 "volume": [(self.volume["id"], unknown), *names["volumes"]],
                 "session": [(f"{MARK}-session", "gracious-session")], "command": [(self.command, "77")],
                 "pty": [(f"{MARK}-pty", "gracious-pty")], "context": [(self.context, unknown)],
                 "output": [(self.output, unknown[0] * len(self.output))],
                 "token": [(self.token, self.box[::-1] + self.token[16:])],
                 "hash": [("a" * 64, "b" * 64)]}
        if name == "name":
            kinds = [part for part in path.split("/") if part in names]
            assert kinds, f"what is {{name}} in {path}? Add it to Victim.fill()"
            return names[kinds[-1]]
        assert name in known, f"the parameter {{{name}}} of {path} is new: add it to Victim.fill()"
        return known[name]

    def picture(self):
        """All that she has, as whoever runs the daemon sees it, without what time changes."""
        call = self.client.call
        toolbox = f"/toolbox/{self.box}"
        record = call("GET", f"/api/cay/sandbox/{self.box}")
        for key in ("lastActivityAt", "updatedAt", "activeAt", "lastActivity"):
            record.pop(key, None)
        return {
            "record": record,
            "volumes": call("GET", "/api/cay/volumes"),
            "snapshot": [s["name"] for s in self.daemon.call("GET", "/api/snapshots")["items"]
                         if MARK in s["name"]],
            "signing": call("GET", f"/api/sandbox/{self.box}/signing-key"),
            "preview": call("GET", f"/api/sandbox/{self.box}/ports/8000/preview-url")["token"],
            "files": self.inside("cd / && find /workspace /data -type f | sort | xargs sha256sum"),
            "sessions": call("GET", f"{toolbox}/process/session"),
            "ptys": [p["id"] for p in call("GET", f"{toolbox}/process/pty")["sessions"]],
            "contexts": [c["id"] for c in
                         call("GET", f"{toolbox}/process/interpreter/context")["contexts"]],
            "output": len(self.client.ask("GET", f"/api/cay/python/output/{self.output}").text),
            "key": self.daemon.call("GET", f"/api/cay/api-keys/{self.name}"),
        }


@pytest.fixture(scope="module")
def daemon():
    with serving_tcp() as d:
        ok(cay("image", "import", "--state-dir", d.state, "-", "tenancy-base", input=base()))
        yield d


@pytest.fixture(scope="module")
def victim(daemon):
    if support.is_sanitized():
        pytest.skip("a sanitized cay-init needs libraries of the host, which images lack")
    return Victim(daemon)


@pytest.fixture(scope="module")
def intruder(daemon):
    client = make_key(daemon, "bob", permissions=["sandboxes", "images", "read"])
    client.box = client.create(name="bobs", memory="128m")["id"]
    client.ask("POST", f"/toolbox/{client.box}/process/session", {"sessionId": "s"})
    return client


def paths(daemon):
    document = daemon.call("GET", "/openapi.json")
    assert len(document["paths"]) > 100
    return {path: [m for m in METHODS if m in ways] for path, ways in document["paths"].items()}


def put(path, names, values):
    for name, value in zip(names, values):
        path = path.replace(f"{{{name}}}", value)
    return path


def plain(answer, sent):
    """An answer without what differs between any two: the identifier that was sent, times, ids of requests."""
    status, headers, text = answer
    for value in sorted(sent, key=len, reverse=True):
        text = text.replace(value, "X")
    text = re.sub(r'"timestamp":"[^"]*"|<RequestId>[^<]*</RequestId>', "", text)
    kept = {name: value for name, value in headers.items()
            if name.lower() not in ("date", "x-request-id", "content-length", "connection")}
    return status, kept, text


def tries(victim, path, own=None):
    """Pairs of lists of values for the path's parameters: hers, and those that nobody has. With a sandbox of
    one's own the first parameter is that, and only the others are hers."""
    names = re.findall(r"{([^}]+)}", path)
    base_values = []
    for name in names:
        value = CONSTANT[name] if name in CONSTANT else victim.fill(path, name)[0][0]
        base_values.append(value)
    for at, name in enumerate(names):
        if name in CONSTANT or (own is not None and name in ("who", "box")):
            continue
        for hers, nobodys in victim.fill(path, name):
            there, absent = list(base_values), list(base_values)
            there[at], absent[at] = hers, nobodys
            if own is not None:
                there = [own if n in ("who", "box") else v for n, v in zip(names, there)]
                absent = [own if n in ("who", "box") else v for n, v in zip(names, absent)]
            elif names[0] in ("who", "box") and at > 0:
                continue  # the sandbox itself is foreign already
            yield names, there, absent


def compare(asker, method, path, names, there, absent):
    """How often it was asked."""
    count = 0
    for headers in UPGRADES if method == "get" else UPGRADES[:1]:
        for body in BODIES if method != "get" else [None]:
            answers = [plain(asker.ask(method, put(path, names, values), body, **headers), values)
                       for values in (there, absent)]
            what = (method, put(path, names, there), body, answers)
            assert answers[0] == answers[1], what
            assert answers[0][0] in (400, 401, 403, 404, 405, 409, 426, 501), what
            assert MARK not in answers[0][2], what
            if names[0] in ("who", "box", "volume", "output", "id"):
                assert answers[0][0] == 404, what
            count += 1
    return count


def test_every_route_with_every_identifier_of_the_other(daemon, victim, intruder):
    before = victim.picture()
    asker = Keeping(intruder)
    count = 0
    for path, methods in paths(daemon).items():
        for names, there, absent in tries(victim, path):
            for method in methods:
                count += compare(asker, method, path, names, there, absent)
    assert count > 400
    assert victim.picture() == before


def test_the_others_identifiers_in_a_sandbox_of_ones_own(daemon, victim, intruder):
    before = victim.picture()
    asker = Keeping(intruder)
    for path, methods in paths(daemon).items():
        names = re.findall(r"{([^}]+)}", path)
        if len(names) < 2 or names[0] not in ("who", "box") or path.startswith("/api/cay/sandbox/{who}/context"):
            continue
        for names, there, absent in tries(victim, path, own=intruder.box):
            for method in methods:
                for body in BODIES if method != "get" else [None]:
                    answers = [plain(asker.ask(method, put(path, names, values), body), values)
                               for values in (there, absent)]
                    assert answers[0] == answers[1], (method, path, there, answers)
                    assert MARK not in answers[0][2]
    assert victim.picture() == before


def test_no_list_tells_of_the_other(daemon, victim, intruder):
    asker = Keeping(intruder)
    secrets = [MARK, victim.box, victim.volume["id"], victim.context, victim.output, victim.client.key]
    queries = ["", "?all=true", f"?name={MARK}-box", f"?labels=%7B%22of%22%3A%22{MARK}%22%7D",
               f"?search={MARK}", "?limit=100", "?page=1", f"?owner={victim.box}", "?includeErroredDeleted=true"]
    for path, methods in paths(daemon).items():
        if "{" in path or "get" not in methods:
            continue
        for query in queries:
            status, headers, text = asker.ask("get", path + query)
            text = text.replace(query[1:], "").replace(f"{MARK}-box", "").replace(query.split("=")[-1], "")
            found = [s for s in secrets if s in text and s not in query]
            assert not found, (path, query, status, text[:2000])
            assert status < 500, (path, query, text)


REFERENCES = [
    ("/api/cay/sandbox", lambda v, there: {"volumes": [
        f"{MARK + '-volume' if there else 'gracious-volume'}:/data"]}),
    ("/api/cay/sandbox", lambda v, there: {"volumes": [
        f"{v.volume['id'] if there else '0123456789abcdef'}:/data"]}),
    ("/api/sandbox", lambda v, there: {"volumes": [
        {"volumeId": v.volume["id"] if there else "0123456789abcdef", "mountPath": "/data"}]}),
    ("/api/cay/sandbox", lambda v, there: {"image": v.snapshot if there else "gracious-snapshot:1"}),
    ("/api/sandbox", lambda v, there: {"snapshot": v.snapshot if there else "gracious-snapshot:1"}),
]


@pytest.mark.parametrize("number", range(len(REFERENCES)))
def test_bodies_that_name_what_is_the_others(victim, intruder, number):
    path, body = REFERENCES[number]
    before = victim.picture()
    asker = Keeping(intruder)
    sent = [f"{MARK}-volume", "gracious-volume", victim.volume["id"], "0123456789abcdef",
            f"{MARK}-snapshot", "gracious-snapshot"]
    answers = [plain(asker.ask("post", path, json.dumps(body(victim, there))), sent)
               for there in (True, False)]
    assert answers[0] == answers[1] and 400 <= answers[0][0] <= 504, answers
    assert victim.picture() == before


def test_a_name_of_the_others_is_free(victim, intruder):
    """That a name is taken would tell that it exists."""
    before = victim.picture()
    made = intruder.create(name=f"{MARK}-box", memory="64m")
    volume = intruder.call("POST", "/api/cay/volumes", {"name": f"{MARK}-volume"})
    assert made["id"] != victim.box and volume["id"] != victim.volume["id"]
    intruder.call("DELETE", f"/api/cay/sandbox/{MARK}-box?force=true")
    intruder.call("DELETE", f"/api/cay/volumes/{volume['id']}")
    assert victim.picture() == before


def test_the_socket_of_events_is_silent_about_the_other(victim, intruder):
    sock = WebSocket(socket.create_connection(("127.0.0.1", intruder.port), 60),
                     "/api/socket.io/?EIO=4&transport=websocket")
    with sock:
        assert sock.receive().startswith("0")
        sock.send(f'40{{"token":"{intruder.key}"}}')
        assert sock.receive().startswith("40")
        victim.client.call("POST", f"/api/cay/sandbox/{victim.box}/pause")
        victim.client.call("POST", f"/api/cay/sandbox/{victim.box}/resume")
        intruder.call("POST", f"/api/cay/sandbox/{intruder.box}/pause")
        intruder.call("POST", f"/api/cay/sandbox/{intruder.box}/resume")
        heard = []
        while not (heard and intruder.box in heard[-1] and '"newState":"started"' in heard[-1]):
            heard.append(sock.receive())
        assert victim.box not in "".join(heard) and MARK not in "".join(heard)


# ---- one that takes all it can get ----

class Greedy:
    """A key with as many of everything as it gets, until it is told to stop."""

    def __init__(self, client):
        self.client, self.over = client, threading.Event()
        self.socks, self.refused = [], 0

    def repeat(self, method, path, body):
        while not self.over.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                answer = self.client.ask(method, path, body)
                self.refused += answer.status == 429
                assert answer.status < 500 or answer.status == 503, answer.text

    def open_connections(self, count):
        head = (f"GET /api/cay/status HTTP/1.1\r\nHost: localhost\r\n"
                f"Authorization: Bearer {self.client.key}\r\n\r\n").encode()
        for _ in range(count):
            sock = socket.create_connection(("127.0.0.1", self.client.port), 60)
            sock.sendall(head)
            self.socks.append(sock)

    def jobs(self):
        toolbox = f"/toolbox/{self.client.box}"
        sleep = {"command": "sleep 5", "timeout": 10}
        return [*[("POST", toolbox + "/process/execute", sleep)] * 16,
                *[("POST", "/api/cay/python", {"code": "import time; time.sleep(3)"})] * 8,
                *[("POST", "/api/cay/sandbox?wait=false", {"memory": "16m"})] * 2,
                *[("GET", "/api/cay/sandbox", None)] * 2,
                ("GET", toolbox + "/files/search?path=/usr&pattern=*x*", None)]


def test_a_greedy_key_does_not_keep_others_from_being_served(daemon, intruder):
    other = make_key(daemon, "carol", permissions=["sandboxes"])
    greedy = Greedy(make_key(daemon, "greedy", permissions=["sandboxes"], maxSandboxes=12))
    greedy.client.box = greedy.client.create(name="greedy", memory="128m")["id"]
    greedy.open_connections(300)
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        running = [pool.submit(greedy.repeat, *job) for job in greedy.jobs()]
        try:
            time.sleep(1)
            for i in range(5):
                box = other.create(name=f"c{i}", memory="32m")["id"]
                made = other.ask("POST", f"/toolbox/{box}/process/execute", {"command": "echo hi"})
                assert made.status == 200 and json.loads(made.text)["result"] == "hi\n", made.text
                assert other.ask("POST", "/api/cay/python", {"code": "print(1)"}).status == 200
                assert other.ask("GET", "/api/cay/sandbox").status == 200
                volume = other.call("POST", "/api/cay/volumes", {"name": f"v{i}"})["id"]
                other.call("DELETE", f"/api/cay/volumes/{volume}")
                other.call("DELETE", f"/api/cay/sandbox/{box}?force=true")
        finally:
            greedy.over.set()
    for sock in greedy.socks:
        sock.close()
    for one in running:
        one.result()
    assert until(lambda: len(greedy.client.names()) <= 12)
