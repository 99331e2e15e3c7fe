"""What sandboxes that stay reach, and that it is so again after whatever has died."""

import json
import os
import signal
import subprocess

import pytest

import daemons
import support
from daemons import Refused
from launching import until
from networks import HOST, PUBLIC, net  # noqa: F401
from support import folder  # noqa: F401


class Daemon(daemons.Daemon):
    """One that runs on the host of the world."""

    def __init__(self, world, *args, **more):
        self.world = world
        super().__init__(*args, **more)

    def spawn(self, *options, **more):
        _, env = support.as_user()
        return subprocess.Popen([*self.world.command(daemons.CAYD), "--state-dir", self.state,
                                 *options], env={**env, **self.env}, stdin=subprocess.DEVNULL,
                                **more)

    def proxy(self):
        return self.child("cay-egress")

    def fetch(self, who, url):
        """Status and body of what curl inside gets."""
        code, out = self.exec(who, "curl", "-sS", "-m", "20", "-w", "\n%{http_code}", url)
        body, status = out.rsplit("\n", 1)
        return int(status), body

    def reaches(self, who, url="http://a.com/"):
        status, body = self.fetch(who, url)
        return status == 200 and json.loads(body)["where"] == "internet"

    def update(self, who, **wishes):
        return self.call("POST", f"/api/cay/sandbox/{who}/update", wishes)


@pytest.fixture
def daemon(net, folder):  # noqa: F811
    made = Daemon(net, folder)
    try:
        yield made
    finally:
        made.clean_up()
        assert until(lambda: made.proxy() == 0)


def test_a_sandbox_reaches_what_its_list_has(daemon):
    box = daemon.create(network="allow=a.com")
    assert box["network"] == "allow=a.com"
    assert daemon.reaches(box["id"])
    status, body = daemon.fetch(box["id"], "http://b.org/")
    assert status == 403 and "b.org is not on" in body
    assert daemon.fetch(box["id"], f"http://{HOST}/")[0] == 403
    assert until(lambda: "a sandbox does not connect" in daemon.log.read_text())
    closed = daemon.create()
    assert closed["network"] == "none"
    assert daemon.exec(closed["id"], "sh", "-c", "env | grep -ci proxy")[1] == "0\n"


def test_one_does_not_use_what_another_has(daemon):
    first, other = daemon.create(network="allow=a.com"), daemon.create(network="allow=b.org")
    assert daemon.reaches(first["id"]) and daemon.reaches(other["id"], "http://b.org/")
    assert daemon.fetch(first["id"], "http://b.org/")[0] == 403
    assert daemon.fetch(other["id"], "http://a.com/")[0] == 403


def test_a_list_is_changed_while_it_runs(daemon):
    who = daemon.create()["id"]
    daemon.update(who, network="allow=a.com")
    assert daemon.reaches(who)
    daemon.update(who, network="allow=b.org")
    assert daemon.fetch(who, "http://a.com/")[0] == 403 and daemon.reaches(who, "http://b.org/")
    assert daemon.update(who, network="none")["network"] == "none"
    assert daemon.fetch(who, "http://b.org/")[0] == 403
    with pytest.raises(Refused) as refusal:
        daemon.update(who, network="allow=127.0.0.1")
    assert refusal.value.status == 400
    assert daemon.call("GET", f"/api/cay/sandbox/{who}")["network"] == "none"


def test_what_is_open_is_cut_when_the_list_changes(daemon):
    who = daemon.create(network="allow=a.com")["id"]
    script = ("import socket; s = socket.create_connection(('127.0.0.1', 3128));"
              "s.sendall(b'CONNECT a.com:443 HTTP/1.1\\r\\n\\r\\n');"
              "print(s.recv(100)[:12].decode(), flush=True); print(s.recv(1))")
    with daemon.connect(who) as c:
        c.exec("python3", "-c", script)
        assert until(lambda: "a sandbox connects" in daemon.log.read_text())
        daemon.update(who, network="allow=b.org")
        assert c.finish()[1] == "HTTP/1.1 200\nb''\n"


def test_it_is_there_again_after_a_start_and_a_pause(daemon):
    who = daemon.create(network="allow=a.com")["id"]
    pauses = [] if support.USER else [("pause", "resume")]  # which needs a control group
    for stop, start in [("stop", "start"), *pauses]:
        daemon.call("POST", f"/api/cay/sandbox/{who}/{stop}")
        daemon.call("POST", f"/api/cay/sandbox/{who}/{start}")
        assert daemon.reaches(who), stop


@pytest.mark.parametrize("name", ["cay-egress", "cayd-front"])
def test_it_is_there_again_when_a_process_was_killed(daemon, name):
    boxes = [daemon.create(network="allow=a.com")["id"] for _ in range(2)]
    os.kill(daemon.child(name), signal.SIGKILL)
    for who in boxes:
        assert until(lambda: reaches_now(daemon, who)), daemon.log.read_text()


def reaches_now(daemon, who):
    """False while what was killed is not back."""
    try:
        return daemon.reaches(who)
    except (OSError, AssertionError, Refused, ValueError):
        return False


def test_it_is_there_again_with_another_daemon(daemon):
    who = daemon.create(network="allow=a.com")["id"]
    daemon.stop()
    daemon.start()
    assert until(lambda: reaches_now(daemon, who)), daemon.log.read_text()
    daemon.kill()
    daemon.start()
    assert until(lambda: reaches_now(daemon, who)), daemon.log.read_text()


def test_nothing_stays_of_one_that_ended(daemon):
    """A listener that is still open would keep its network namespace."""
    who = daemon.create(network="allow=a.com")["id"]
    assert daemon.reaches(who)
    fds = f"/proc/{daemon.proxy()}/fd"
    own = 4 if support.USER else 5  # as root with the pipe to cay-names
    assert until(lambda: len(os.listdir(fds)) == own + 1), os.listdir(fds)  # its connection is gone
    daemon.call("DELETE", f"/api/cay/sandbox/{who}?force=true")
    assert until(lambda: len(os.listdir(fds)) == own), os.listdir(fds)


def test_a_bridge_is_refused(daemon):
    with pytest.raises(Refused) as refusal:
        daemon.create(network="bridge")
    assert refusal.value.status == 501


def test_daytonas_lists(daemon):
    made = daemon.call("POST", "/api/sandbox", {"domainAllowList": "a.com,*.b.org",
                                                "networkAllowList": f"{PUBLIC}/32"})
    assert not made["networkBlockAll"] and made["domainAllowList"] == "a.com,*.b.org"
    assert made["networkAllowList"] == f"{PUBLIC}/32"
    assert daemon.reaches(made["id"])
    path = f"/api/sandbox/{made['id']}/network-settings"
    assert daemon.call("POST", path, {"networkBlockAll": True})["networkBlockAll"]
    assert daemon.fetch(made["id"], "http://a.com/")[0] == 403
    daemon.call("POST", path, {"networkBlockAll": False})
    assert daemon.reaches(made["id"], "http://b.org/")


# ---- places of the proxy ----

HOLD = r"""
import socket, sys, time
wanted = int(sys.argv[1])
held = [socket.create_connection(("127.0.0.1", 3128), 20) for _ in range(wanted)]
time.sleep(1)
refused = []
for one in held:
    one.setblocking(False)
    try:
        refused.append(one.recv(400).decode().split("\r\n")[0])
    except BlockingIOError:
        pass
print(wanted - len(refused), (refused or [""])[0], flush=True)
time.sleep(10)
"""


class Holder:
    """A sandbox of a key that holds connections for some seconds: how many it got, and why not more."""

    def __init__(self, daemon, key, wanted):
        self.daemon = daemon
        self.box = daemon.as_key(key, "POST", "/api/cay/sandbox", {"network": "allow=a.com", "memory": "64m"})["id"]
        self.process = subprocess.Popen([support.CAY, "exec", self.box, "python3", "-c", HOLD, str(wanted)],
                                        env={**support.as_user()[1], "CAY_HOST": f"unix://{daemon.socket}"},
                                        stdout=subprocess.PIPE, text=True)

    def told(self):
        count, why = self.process.stdout.readline().rstrip("\n").split(" ", 1)
        return int(count), why


class KeyDaemon(Daemon):
    port = 3987

    def as_key(self, key, method, path, body=None):
        """By TCP, which is in the world's network."""
        words = ["curl", "-sS", "-m", "60", "-X", method, "-H", f"Authorization: Bearer {key}",
                 f"http://127.0.0.1:{self.port}{path}"] + (["-d", json.dumps(body)] if body else [])
        done = subprocess.run(self.world.command(*words), capture_output=True, text=True, timeout=90)
        return json.loads(done.stdout)

    def make_key(self, name, **limits):
        return self.call("POST", "/api/cay/api-keys", {"name": name, **limits})["value"]

    def proxied(self, name):
        rows = self.call("GET", f"/api/cay/usage?key={name}")
        return next(row["used"] for row in rows if row["name"] == "proxyConnections")


@pytest.fixture
def key_daemon(net, folder):  # noqa: F811
    made = KeyDaemon(net, folder, "--listen", f"127.0.0.1:{KeyDaemon.port}", env={"CAY_MANAGER_POOL_SIZE": "0"})
    try:
        yield made
    finally:
        made.clean_up()


@support.as_root_only
def test_one_key_does_not_take_all_places(key_daemon):
    """S11: 17 sandboxes of one owner took all 1,024, and others were told of 64 that they did not have."""
    greedy, other = key_daemon.make_key("greedy"), key_daemon.make_key("other")
    holders = [Holder(key_daemon, greedy, 64) for _ in range(9)]
    told = [holder.told() for holder in holders]
    assert sum(count for count, _ in told) == 512, told
    assert any("which is their share" in why for _, why in told), told
    box = key_daemon.as_key(other, "POST", "/api/cay/sandbox", {"network": "allow=a.com", "memory": "64m"})["id"]
    assert key_daemon.reaches(box)
    assert until(lambda: key_daemon.proxied("greedy") == 512)
    assert until(lambda: key_daemon.proxied("greedy") == 0)  # their holders have ended
    for holder in holders:
        holder.process.communicate(timeout=60)


@support.as_root_only
def test_the_limit_of_a_key_at_the_proxy(key_daemon):
    few = key_daemon.make_key("few", maxProxyConnections=10)
    first, second = Holder(key_daemon, few, 6), Holder(key_daemon, few, 6)
    told = [first.told(), second.told()]
    assert sum(count for count, _ in told) == 10, told
    assert any("which is its limit" in why for _, why in told), told
    assert until(lambda: key_daemon.proxied("few") == 10)
    os.kill(key_daemon.proxy(), signal.SIGKILL)  # with it go its connections
    assert until(lambda: key_daemon.proxied("few") == 0)
    for holder in (first, second):
        holder.process.communicate(timeout=60)
