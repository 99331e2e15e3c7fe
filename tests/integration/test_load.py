"""Many keep-alive clients that create a sandbox, run a command in it and remove it. An oracle outside
counts: nothing is lost, nothing leaks, and whoever is refused is told when to come again."""

import http.client
import json
import re
import socket
import threading
import time

import pytest
from daemons import serving, serving_tcp
from keeping import need_keep
from launching import until
from stressing import FULL, what_stays

CYCLES = 3
WISHES = {"memory": 64 << 20, "pids": 64, "disk": 32 << 20}


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=300)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Client:
    """One connection, kept for all of its requests."""

    def __init__(self, daemon, key=None):
        self.connection = UnixConnection(daemon.socket)
        self.headers = {}
        if key:  # which counts on TCP only
            self.connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=300)
            self.headers = {"Authorization": f"Bearer {key}"}
        self.made, self.wrong = [], []
        self.refused = self.cycles = 0

    def ask(self, method, path, body=None):
        text = None if body is None else json.dumps(body)
        self.connection.request(method, path, text, self.headers)
        answer = self.connection.getresponse()
        return answer, answer.read()

    def expect(self, status, method, path, body=None):
        answer, text = self.ask(method, path, body)
        if answer.status != status:
            self.wrong.append(f"{method} {path}: {answer.status} {text.decode()[:200]}")
        return answer.status == status

    def create(self):
        """The id; None if it is refused."""
        answer, text = self.ask("POST", "/api/cay/sandbox", WISHES)
        if answer.status == 200:
            self.made.append(json.loads(text)["id"])
            return self.made[-1]
        if answer.status != 429 or not re.fullmatch("[1-9][0-9]?", answer.getheader("Retry-After", "")):
            self.wrong.append(f"create: {answer.status} {text.decode()[:200]}")
        self.refused += 1
        time.sleep(0.1)  # sooner than told, so that the queue stays full
        return None

    def cycle(self):
        box = self.create()
        if box is None:
            return
        self.expect(200, "POST", f"/toolbox/{box}/process/execute", {"command": "true"})
        if self.expect(204, "DELETE", f"/api/cay/sandbox/{box}?force=true"):
            self.cycles += 1

    def run(self, goes_on):
        try:
            while goes_on(self) and not self.wrong:
                self.cycle()
        except (OSError, http.client.HTTPException) as broken:
            self.wrong.append(repr(broken))


def run_all(clients, goes_on):
    threads = [threading.Thread(target=client.run, args=(goes_on,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not [wrong for client in clients for wrong in client.wrong]


def make_keys(daemon, names):
    return [daemon.call("POST", "/api/cay/api-keys", {"name": name})["value"] for name in names]


def metric(daemon, name):
    return float(re.search(rf"^{name} (\S+)$", daemon.get("/metrics").text, re.M).group(1))


def check_nothing_is_left(daemon, clients):
    made = [box for client in clients for box in client.made]
    assert len(made) == len(set(made)) == sum(client.cycles for client in clients)
    assert daemon.list() == []
    assert metric(daemon, "cay_create_queue_waiting") == 0
    daemon.stop()  # with what it keeps ready
    assert not what_stays(daemon.state, set(made))


def test_many_clients_and_a_short_queue(folder, clean_host):
    need_keep()
    settings = {"CAY_MANAGER_CREATING_MAX": "2", "CAY_MANAGER_QUEUE_SIZE": "6",
                "CAY_MANAGER_POOL_SIZE": "0"}
    with serving_tcp(folder, env=settings) as daemon:
        keys = make_keys(daemon, ["one", "two", "many"])
        clients = [Client(daemon, key) for key in keys[:2] + [keys[2]] * 28]
        run_all(clients, lambda client: client.cycles < CYCLES)
        refused = sum(client.refused for client in clients)
        assert refused > 0 and refused == metric(daemon, "cay_create_queue_refused_total")
        assert clients[0].refused + clients[1].refused == 0  # the key with many made room for them
        assert metric(daemon, "cay_create_queue_entered_total") == len(clients) * CYCLES
        check_nothing_is_left(daemon, clients)


def test_the_pool_is_filled_under_load(folder, clean_host):
    need_keep()
    settings = {"CAY_MANAGER_POOL_SIZE": "4", "CAY_SANDBOX_DISK_LIMIT": "32m"}
    with serving(folder, env=settings) as daemon:
        assert until(lambda: metric(daemon, "cay_pool_size") == 4)
        clients = [Client(daemon) for _ in range(2)]
        run_all(clients, lambda client: client.cycles < 15)
        # 4 were there; the pool used to be filled once a second at most
        assert metric(daemon, "cay_pool_hits_total") > 8
        assert 0 < metric(daemon, "cay_pool_hit_ratio") <= 1
        assert metric(daemon, "cay_pool_hits_total") + metric(daemon, "cay_pool_misses_total") == 30
        assert daemon.list() == []


def test_pages(folder, clean_host):
    with serving(folder, env={"CAY_MANAGER_POOL_SIZE": "0"}) as daemon:
        made = [daemon.create()["id"] for _ in range(5)]
        seen, query = [], "?limit=2"
        while query:
            answer = daemon.get(f"/api/cay/sandbox{query}")
            assert answer.status == 200 and len(answer.json()) <= 2
            seen += [box["id"] for box in answer.json()]
            cursor = answer.headers.get("X-Cay-Next-Cursor")
            query = f"?limit=2&cursor={cursor}" if cursor else None
        assert seen == made
        for query in ("?limit=0", "?limit=1001", "?limit=x", "?cursor=", "?cursor=5", "?cursor=x:y",
                      f"?cursor=:{made[0]}", f"?cursor={'9' * 40}:{made[0]}"):
            assert daemon.get(f"/api/cay/sandbox{query}").status == 400, query


@pytest.mark.skipif(not FULL, reason="make stress does this")
@pytest.mark.parametrize("count", [100, 300])
def test_crowds(folder, clean_host, count):
    need_keep()
    with serving(folder, env={"CAY_MANAGER_MAX_SANDBOXES": "2000"}) as daemon:
        clients = [Client(daemon) for _ in range(count)]
        end = time.monotonic() + 30
        run_all(clients, lambda client: time.monotonic() < end)
        done = [client.cycles for client in clients]
        fairness = sum(done) ** 2 / (count * sum(n * n for n in done))
        print(f"{count} clients: {sum(done) / 30:.1f} cycles/s, Jain's index {fairness:.3f}")
        assert fairness >= 0.95
        check_nothing_is_left(daemon, clients)
