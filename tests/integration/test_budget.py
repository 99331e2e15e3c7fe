"""The budget of a key: what counts, what the host keeps for itself, and that one key takes nothing from another."""

import concurrent.futures
import http.client
import json
import socket
import subprocess
from pathlib import Path

import pytest
import support
from daemons import serving_tcp
from test_events_socket import Viewer
from test_keys import make_key

PID_MAX = min(int(Path(f"/proc/sys/kernel/{name}").read_text()) for name in ("pid_max", "threads-max"))
PIDS = 2000  # that sandboxes may have together in these tests
SETTINGS = {"CAY_MANAGER_PIDS_RESERVE": str(PID_MAX - PIDS), "CAY_MANAGER_POOL_SIZE": "0",
            "CAY_SANDBOX_MEMORY_LIMIT": "32m", "CAY_SANDBOX_DISK_LIMIT": "32m", "CAY_SANDBOX_PIDS_LIMIT": "100"}


@pytest.fixture(scope="module")
def daemon():
    with serving_tcp(env=SETTINGS) as d:
        yield d


def body(**wishes):
    return {**({"tier": "basic"} if support.USER else {}), **wishes}


def remove_all(client):
    for box in client.call("GET", "/api/cay/sandbox"):
        client.call("DELETE", f"/api/cay/sandbox/{box['id']}?force=true")


@pytest.fixture
def key(daemon):
    made = []

    def make(name, **wishes):
        made.append((name, make_key(daemon, name, permissions=["sandboxes"], **wishes)))
        return made[-1][1]

    yield make
    for name, client in made:
        remove_all(client)
        daemon.call("DELETE", f"/api/cay/api-keys/{name}")


def test_the_processes_of_the_host_are_not_to_be_had(daemon, key):
    """S6: {"pids": pid_max} was accepted."""
    plain = key("plain")
    for wish in (PID_MAX, PIDS + 1):
        answer = plain.ask("POST", "/api/cay/sandbox", body(pids=wish))
        assert answer.status == 400 and str(wish) in answer.text, answer.text
    assert f"at most {PIDS}" in answer.text and "pids_reserve" in answer.text
    total = int(next(line.split()[1] for line in Path("/proc/meminfo").read_text().splitlines()
                     if line.startswith("MemTotal"))) * 1024
    answer = plain.ask("POST", "/api/cay/sandbox", body(memory=total - 1))
    assert answer.status == 400 and "memory_reserve" in answer.text, answer.text
    box = plain.create(pids=500)
    answer = plain.ask("POST", f"/api/cay/sandbox/{box['id']}/resize", {"pids": PID_MAX})
    assert answer.status == 400, answer.text


def test_a_sum_of_processes_belongs_to_the_host(key):
    """Neither one key nor several together get more than the host has; nobody is left without."""
    greedy, other = key("greedy"), key("other")
    first = greedy.create(pids=1000)
    answer = greedy.ask("POST", "/api/cay/sandbox", body(pids=900))
    assert answer.status == 507 and "pids_overcommit" in answer.text, answer.text
    assert answer.json()["code"] == "resource_exhausted"
    other.create(pids=500)
    greedy.call("POST", f"/api/cay/sandbox/{first['id']}/stop")
    other.create(pids=500)
    key("third").create(pids=100)
    again = greedy.ask("POST", f"/api/cay/sandbox/{first['id']}/start")  # is admitted again
    assert again.status == 507, again.text
    greedy.call("POST", f"/api/cay/sandbox/{first['id']}/resize", {"pids": 300})
    greedy.call("POST", f"/api/cay/sandbox/{first['id']}/start")


def test_processes_of_a_key(key):
    few = key("few", maxPids=250)
    few.create()
    box = few.create()
    for answer in (few.ask("POST", "/api/cay/sandbox", body()),
                   few.ask("POST", f"/api/cay/sandbox/{box['id']}/resize", {"pids": 151}),
                   few.ask("POST", "/api/cay/python", {"code": "1"})):
        assert answer.status == 429 and "processes (250) of key 'few'" in answer.text, answer.text
        assert int(answer.headers["Retry-After"]) > 0
    few.call("POST", f"/api/cay/sandbox/{box['id']}/resize", {"pids": 150})


@pytest.mark.skipif(bool(support.USER), reason="as the tests of archives")
def test_what_comes_out_of_an_archive_is_admitted_again(key):
    """Archived sandboxes take no memory; when they start, theirs must be there."""
    client = key("small", maxMemory=64 << 20)
    box = client.create()["id"]
    client.call("POST", f"/api/cay/sandbox/{box}/archive")
    assert used(client, "memory") == 0 and used(client, "disk") == 32 << 20
    others = [client.create()["id"] for _ in range(2)]
    answer = client.ask("POST", f"/api/cay/sandbox/{box}/start")
    assert answer.status == 429 and "memory (64.0 MB) of key 'small'" in answer.text, answer.text
    assert client.call("GET", f"/api/cay/sandbox/{box}")["state"] == "archived"
    client.call("DELETE", f"/api/cay/sandbox/{others[0]}?force=true")
    client.call("POST", f"/api/cay/sandbox/{box}/start")
    assert used(client, "memory") == 64 << 20


def test_fifty_at_the_limit(key):
    """Creations, starts and resizes of fifty clients at once: the sum is never more than the limit."""
    client, limit = key("race", maxMemory=200 << 20), 200 << 20
    steps = [("POST", "/api/cay/sandbox", body(memory="48m"))] * 3 + \
            [("POST", "/api/cay/sandbox/race/resize", {"memory": "96m"}),
             ("POST", "/api/cay/sandbox/race/resize", {"memory": "32m"})]
    client.create(name="race")
    sums = []

    def act(i):
        answer = client.ask(*steps[i % len(steps)])
        assert answer.status in (200, 409, 429), answer.text
        sums.append(sum(box["memory"] for box in client.call("GET", "/api/cay/sandbox")))
        return answer.status

    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        statuses = list(pool.map(act, range(50)))
    assert max(sums) <= limit, max(sums)
    assert {200, 429} <= set(statuses), statuses


# ---- commands, viewers ----

def test_commands_of_a_key(key):
    few, other = key("few", maxCommands=2), key("other")
    box, elsewhere = few.create(), other.create()
    held = [few.connect(box["id"]) for _ in range(2)]  # an operation each, as cay exec has one
    answer = few.ask("POST", f"/api/toolbox/{box['id']}/toolbox/process/execute", {"command": "true"})
    assert answer.status == 429 and "concurrent commands (2) of key 'few'" in answer.text, answer.text
    assert int(answer.headers["Retry-After"]) > 0
    other.call("POST", f"/api/toolbox/{elsewhere['id']}/toolbox/process/execute", {"command": "true"})
    assert used(few, "commands") == 2
    held.pop().sock.close()
    assert support.until(lambda: used(few, "commands") == 1)
    few.call("POST", f"/api/toolbox/{box['id']}/toolbox/process/execute", {"command": "true"})
    held.pop().sock.close()


@pytest.mark.skipif(bool(support.USER), reason="as the tests of the socket")
@support.as_root_only
def test_python_programs_of_a_key(key):
    """S2: POST /api/cay/python was outside every quota."""
    few = key("pythons", maxPythonRuns=2)
    sleep = {"code": "import time; time.sleep(4)"}
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda _: few.ask("POST", "/api/cay/python", sleep), range(3)))
    assert sorted(a.status for a in answers) == [200, 200, 429], [a.text for a in answers]
    refused = next(a for a in answers if a.status == 429)
    assert "Python programs (2) of key 'pythons'" in refused.text and refused.headers["Retry-After"]
    small = key("memory", maxMemory="48m")
    small.create(name="a", memory="32m")
    refused = small.ask("POST", "/api/cay/python", {"code": "1"})
    assert refused.status == 429 and "Maximum memory" in refused.text, refused.text


def test_viewers_of_a_key(daemon, key):
    few = key("few", maxEventViewers=1)
    with Viewer(daemon, few.key):
        assert used(few, "eventViewers") == 1
        with Viewer(daemon, few.key) as second:
            assert "event viewers (1) of key 'few'" in second.welcome
    assert support.until(lambda: used(few, "eventViewers") == 0)


def connect(daemon, key):
    """A keep-alive connection that was used with a key: its socket, and the status of the answer."""
    sock = socket.create_connection(("127.0.0.1", daemon.port), 60)
    sock.sendall(f"GET /api/cay/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n".encode())
    answer = http.client.HTTPResponse(sock)
    answer.begin()
    answer.read()
    return sock, answer.status


def test_connections_of_a_key(daemon, key):
    few, other = key("few", maxConnections=3), key("other")
    held = [connect(daemon, few.key) for _ in range(4)]
    assert [status for _, status in held] == [200, 200, 200, 429]
    assert connect(daemon, other.key)[1] == 200
    assert held[0][0].send(b"x") == 1  # what it has stays open
    held.pop(0)[0].close()
    assert support.until(lambda: connect(daemon, few.key)[1] == 200)
    for sock, _ in held:
        sock.close()


def test_one_key_does_not_take_all_connections(daemon, key):
    greedy, other = key("greedy"), key("other")
    held = [connect(daemon, greedy.key) for _ in range(530)]
    statuses = [status for _, status in held]
    assert statuses.count(200) <= 513 and statuses[-1] == 429, statuses.count(200)
    assert "connections that all keys share" in greedy.ask("GET", "/api/cay/status").text
    assert connect(daemon, other.key)[1] == 200
    for sock, _ in held:
        sock.close()
    assert support.until(lambda: usage(daemon, "?key=greedy")["connections"]["used"] == 0)


# ---- what it shows ----

def usage(client, query=""):
    return {row["name"]: row for row in client.call("GET", f"/api/cay/usage{query}")}


def used(client, name):
    return usage(client)[name]["used"]


def cay(daemon, *words, **env):
    who, base = support.as_user()
    return subprocess.run([support.BUILD / "cay", *words], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, **who,
                          env={**base, "CAY_HOST": f"unix://{daemon.socket}", **env})


def test_usage_of_a_key(daemon, key):
    ann, bob = key("ann", maxMemory="1g", maxPids=300), key("bob")
    ann.create(cpus=0.5)
    rows = usage(ann)
    assert rows["memory"] == {"name": "memory", "unit": "bytes", "used": 32 << 20, "limit": 1 << 30,
                              "left": (1 << 30) - (32 << 20)}
    assert rows["cpus"]["used"] == 0.5 and rows["cpus"]["limit"] is None
    assert (rows["pids"]["used"], rows["pids"]["left"]) == (100, 200)
    assert rows["sandboxes"]["left"] is None and rows["connections"]["left"] > 0
    assert usage(bob)["memory"]["used"] == 0
    assert usage(ann, "?key=ann")["memory"] == rows["memory"]  # connections come and go
    for name in ("bob", "nobody"):
        assert ann.ask("GET", f"/api/cay/usage?key={name}").status == 403
    assert {r["name"]: r for r in daemon.call("GET", "/api/cay/usage?key=ann")}["memory"] == rows["memory"]
    assert daemon.ask("GET", "/api/cay/usage?key=nobody").status == 404


def test_usage_as_people_see_it(daemon, key):
    ann = key("ann", maxMemory="1g")
    ann.create()
    shown = cay(daemon, "key", "info", "ann")
    assert shown.returncode == 0, shown.stderr
    lines = {line.split()[0]: line.split() for line in shown.stdout.splitlines()}
    assert lines["WHAT"] == ["WHAT", "USED", "LIMIT", "LEFT"]
    assert lines["memory"][1:] == ["32.0", "MB", "1.0", "GB", "992.0", "MB"], shown.stdout
    rows = json.loads(cay(daemon, "key", "info", "ann", "-o", "json").stdout)
    assert {row["name"] for row in rows} == set(lines) - {"WHAT"}
    own = cay(daemon, "key", "info", CAY_HOST=f"http://127.0.0.1:{daemon.port}", CAY_API_KEY=ann.key)
    assert "1.0 GB" in own.stdout, own.stderr
    assert cay(daemon, "key", "info", "nobody").returncode == 3


def test_usage_as_metrics(daemon, key):
    ann, bob = key("ann", maxMemory="1g"), key("bob")
    ann.create()
    bob.create()
    page = daemon.get("/metrics").text
    assert f'cay_key_used{{key="ann",item="memory"}} {32 << 20}' in page
    assert f'cay_key_limit{{key="ann",item="memory"}} {1 << 30}' in page
    assert 'cay_key_used{key="bob",item="pids"} 100' in page and "cay_keys_omitted 0" in page
    assert 'item="builds"' not in page  # nothing is built, and nothing is limited
    own = ann.ask("GET", "/metrics").text
    assert 'key="ann"' in own and 'key="bob"' not in own
