"""Keys on TCP: what their scopes allow, whose sandboxes they see, and how much they may have."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import re
import socket
import subprocess
import time
from pathlib import Path

import pytest
import support
from daemons import Answer, Refused, serving_tcp
from launching import Connection, until

ROUTES = [route for file in (support.ROOT / "src/api").rglob("*.c")
          for route in re.findall(r'\{"([A-Z]+)",\s*"(/[^"]+)"', file.read_text())]
SANDBOX_ROUTES = [(method, path) for method, path in ROUTES
                  if "/sandbox/{who}" in path or "/toolbox/{who}" in path]


class Client:
    """Somebody with a key."""

    def __init__(self, port, key):
        self.port, self.key = port, key

    def ask(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.key is not None:
            names["Authorization"] = f"Bearer {self.key}"
        if isinstance(body, dict):
            body = json.dumps(body)
        try:
            connection.request(method, path, body, names)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def call(self, method, path, body=None):
        answer = self.ask(method, path, body)
        if answer.status >= 400:
            raise Refused(answer)
        return answer.json() if answer.status != 204 else None

    def create(self, **wishes):
        if support.USER:
            wishes.setdefault("tier", "basic")
        return self.call("POST", "/api/cay/sandbox", wishes)

    def names(self):
        return sorted(box["name"] for box in self.call("GET", "/api/cay/sandbox"))

    def connect(self, who):
        sock = socket.create_connection(("127.0.0.1", self.port), 30)
        sock.sendall(f"GET /api/cay/sandbox/{who}/connect HTTP/1.1\r\nHost: localhost\r\n"
                     f"Authorization: Bearer {self.key}\r\nConnection: Upgrade\r\n"
                     f"Upgrade: cay-init\r\n\r\n".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = sock.recv(1)
            assert byte, head
            head += byte
        assert head.startswith(b"HTTP/1.1 101 "), head
        return Connection(sock)


@pytest.fixture(scope="module")
def daemon():
    with serving_tcp() as d:
        yield d


def make_key(daemon, name, **wishes):
    made = daemon.call("POST", "/api/cay/api-keys", {"name": name, **wishes})
    return Client(daemon.port, made["value"])


@pytest.fixture
def key(daemon):
    """Makes keys that are gone afterwards, with their sandboxes."""
    made = []

    def make(name, **wishes):
        made.append(name)
        return make_key(daemon, name, **wishes)

    yield make
    for box in daemon.list():
        daemon.call("DELETE", f"/api/cay/sandbox/{box['id']}?force=true")
    for name in made:
        daemon.ask("DELETE", f"/api/cay/api-keys/{name}")


# ---- what their programs printed ----

def test_a_long_output_is_for_its_key(daemon, key):
    tenant, other = key("tenant", permissions=["sandboxes"]), key("other", permissions=["sandboxes"])
    reader, admin = key("reader", permissions=["read"]), key("admin2", permissions=["admin"])
    place = tenant.call("POST", "/api/cay/python", {"code": "print('x' * 2000000)"})["stdout_file"]
    assert [who.ask("GET", place).status for who in (tenant, admin, other, reader)] == [200, 200, 404, 404]
    assert tenant.ask("GET", place).text == "x" * 2000000 + "\n"


# ---- what their sandboxes reach ----

def test_private_ranges_are_for_admins(daemon, key):
    tenant, admin = key("tenant", permissions=["sandboxes"]), key("admin2", permissions=["admin"])
    box = tenant.create(network="allow=a.com")
    with pytest.raises(Refused) as refusal:
        tenant.create(network="allow=a.com,10.0.0.0/8")
    assert refusal.value.status == 403 and "private" in refusal.value.error["message"]
    with pytest.raises(Refused) as refusal:
        tenant.call("POST", f"/api/cay/sandbox/{box['id']}/update", {"network": "allow=fd00::/16"})
    assert refusal.value.status == 403
    answer = tenant.ask("POST", "/api/cay/python", {"code": "1", "network": "allow=10.0.0.0/8"})
    assert answer.status == 403 and "private" in answer.json()["message"]
    assert admin.create(network="allow=10.0.0.0/8")["network"] == "allow=10.0.0.0/8"


def refused_network(client, method, path, **body):
    answer = client.ask(method, path, body)
    assert answer.status == 403 and "may not open the network" in answer.json()["message"], answer.text
    assert "network_max" in answer.text


OPEN = [("/api/cay/sandbox", {"network": "allow=a.com"}), ("/api/cay/sandbox", {"network": "allow=*"}),
        ("/api/cay/sandbox", {"network": "bridge", "engine": "docker", "image": "x"}),
        ("/api/cay/python", {"code": "1", "network": "allow=a.com"}),
        ("/api/sandbox", {"networkBlockAll": False}), ("/api/sandbox", {"domainAllowList": "a.com"}),
        ("/api/sandbox", {"networkAllowList": "11.0.0.0/8"})]


def test_keys_without_any_network():
    with serving_tcp(env={"CAY_MANAGER_NETWORK_MAX": "none"}) as daemon:
        tenant, admin = (make_key(daemon, f"of-{name}", permissions=[name]) for name in ("sandboxes", "admin"))
        for path, wishes in OPEN:
            refused_network(tenant, "POST", path, **wishes)
        box = tenant.create(network="none")["id"]
        for who in tenant, admin:  # whoever changes it: the sandbox is the tenant's
            for network in "allow=a.com", "allow=*":
                refused_network(who, "POST", f"/api/cay/sandbox/{box}/update", network=network)
            refused_network(who, "POST", f"/api/sandbox/{box}/network-settings", networkBlockAll=False)
        assert tenant.call("GET", f"/api/cay/sandbox/{box}")["network"] == "none"
        assert admin.create(network="allow=a.com")["network"] == "allow=a.com"
        assert tenant.call("POST", "/api/cay/python", {"code": "print(1)", "network": "none"})["stdout"] == "1\n"


def test_keys_without_any_network_where_bridge_is_the_default():
    env = {"CAY_MANAGER_NETWORK_MAX": "none", "CAY_SANDBOX_NETWORK": "bridge"}
    with serving_tcp(env=env) as daemon:
        tenant = make_key(daemon, "tenant", permissions=["sandboxes"])
        refused_network(tenant, "POST", "/api/cay/sandbox", engine="docker", image="x")
        for path in "/api/cay/sandbox", "/api/sandbox":  # of the engine native
            answer = tenant.ask("POST", path, {})
            assert answer.status == 501 and "bridge" in answer.json()["message"], answer.text
        assert daemon.list() == []


# ---- isolation ----

def refused_policy(client, key, **wishes):
    answer = client.ask("POST", "/api/cay/sandbox", wishes)
    assert answer.status == 403 and "may not use" in answer.json()["message"], answer.text
    assert key in answer.json()["remedy"]


def test_a_key_does_not_choose_its_isolation():
    """S5: any key could ask for Docker, a lower tier or the profile build."""
    with serving_tcp() as daemon:
        tenant, admin = (make_key(daemon, f"of-{name}", permissions=[name]) for name in ("sandboxes", "admin"))
        refused_policy(tenant, "engines", engine="docker", image="x")
        refused_policy(tenant, "profile_max", profile="build")
        refused_policy(tenant, "tier_min", tier="basic")
        assert tenant.create(profile="strict", engine="native")["profile"] == "strict"
        assert admin.create(profile="build", tier="basic")["profile"] == "build"
        assert daemon.create(profile="build")["profile"] == "build"  # by the socket


def test_a_key_chooses_what_it_is_let():
    env = {"CAY_MANAGER_ENGINES": "docker", "CAY_MANAGER_PROFILE_MAX": "build", "CAY_MANAGER_TIER_MIN": "rootless"}
    with serving_tcp(env=env) as daemon:
        tenant = make_key(daemon, "tenant", permissions=["sandboxes"])
        assert tenant.create(profile="build", tier="rootless")["profile"] == "build"
        refused_policy(tenant, "tier_min", tier="basic")
        refused_policy(tenant, "tier_min", engine="docker", image="x")  # Docker gives basic


@pytest.mark.parametrize("name, value, says", [
    ("ENGINES", "docker,lxc", "lxc"), ("PROFILE_MAX", "root", "strict or build"), ("TIER_MIN", "best", "basic"),
])
def test_a_policy_that_is_not_understood(name, value, says):
    done = support.cay("config", env={f"CAY_MANAGER_{name}": value})
    assert done.returncode == 2 and says in done.stderr.decode()


# ---- programs ----

def start_program(client, code):
    """The future of an answer, from a connection that is the program's alone."""
    pool = concurrent.futures.ThreadPoolExecutor(1)
    return pool.submit(client.ask, "POST", "/api/cay/python", {"code": code, "timeout": 120})


def test_programs_count_for_their_key():
    """S2: POST /api/cay/python was outside every limit."""
    with serving_tcp() as daemon:
        tenant = make_key(daemon, "tenant", permissions=["sandboxes"], maxMemory=600 << 20)
        sleepers = []

        def one_is_refused():
            if not sleepers or sleepers[-1].done():  # our question may have been there first
                sleepers.append(start_program(tenant, "import time; time.sleep(5)"))
            return tenant.ask("POST", "/api/cay/python", {"code": "1"}).status == 429

        assert support.until(one_is_refused)
        refused = tenant.ask("POST", "/api/cay/sandbox", {})  # the same budget
        assert refused.status == 429 and "memory" in refused.json()["message"]
        assert sleepers[-1].result(60).status == 200
        assert tenant.call("POST", "/api/cay/python", {"code": "print(1)"})["stdout"] == "1\n"


def test_one_key_does_not_take_all_programs():
    with serving_tcp(env={"CAY_SANDBOX_MEMORY_LIMIT": "64m"}) as daemon:
        greedy, other = (make_key(daemon, name, permissions=["sandboxes"]) for name in ("greedy", "other"))
        running = [start_program(greedy, "import time; time.sleep(8)") for _ in range(40)]
        assert support.until(lambda: any(r.done() for r in running))  # it has its share
        assert other.call("POST", "/api/cay/python", {"code": "print(1)"})["stdout"] == "1\n"
        statuses = [r.result(100).status for r in running]
        assert set(statuses) == {200, 429} and statuses.count(200) >= 32, statuses


# ---- keys themselves ----

def written_to(file):
    """Without the holes, which are nearly all of a disk of 5 GB: read as a whole, a few of those fill the memory."""
    with contextlib.suppress(FileNotFoundError), open(file, "rb") as f:  # of a request that has just ended
        end = 0
        while True:
            try:
                start = os.lseek(f.fileno(), end, os.SEEK_DATA)
            except OSError:  # nothing but a hole follows
                break
            end = os.lseek(f.fileno(), start, os.SEEK_HOLE)
            yield os.pread(f.fileno(), end - start, start)


def test_a_key_is_shown_once_and_kept_nowhere(daemon, key):
    made = daemon.call("POST", "/api/cay/api-keys", {"name": "once", "permissions": ["read"]})
    text = made["value"]
    assert re.fullmatch(r"cay_[A-Za-z0-9_-]{43}", text)
    assert made["permissions"] == ["read"] and made["expiresAt"] is None
    Client(daemon.port, text).call("GET", "/api/cay/sandbox")
    assert daemon.ask("GET", "/api/cay/api-keys").text.count(text) == 0
    assert daemon.call("GET", "/api/cay/api-keys/once")["value"] == "cay_********"
    assert Client(daemon.port, text).call("GET", "/api/cay/api-keys/current")["name"] == "once"
    for file in [*daemon.state.rglob("*"), daemon.log]:
        if file.is_file() and not file.is_symlink():
            assert not any(text.encode() in data for data in written_to(file)), file
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert text.encode() not in process.read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
    daemon.call("DELETE", "/api/cay/api-keys/once")


def test_whatever_is_wrong_with_a_key_the_answer_is_the_same(daemon, key):
    gone = key("gone")
    daemon.call("DELETE", "/api/cay/api-keys/gone")

    def expiring(seconds):
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
        made = key(f"soon-{seconds}", expiresAt=at)
        return made, made.ask("GET", "/api/cay/sandbox").status

    soon, status = support.given_time(expiring, lambda found: found[1] == 200, (7, 30))
    assert status == 200
    assert until(lambda: soon.ask("GET", "/api/cay/sandbox").status == 401)
    answers = [Client(daemon.port, text).ask("GET", "/api/cay/sandbox")
               for text in (None, "", "x", "cay_" + "A" * 43, gone.key, soon.key, soon.key[:-1],
                            soon.key + "A", "A" * 5000)]
    assert {(a.status, a.text, a.headers["WWW-Authenticate"]) for a in answers} == \
        {(401, answers[0].text, "Bearer")}


def test_a_removed_key_stops_at_once_and_stays_away_after_a_restart(folder):
    with serving_tcp(folder) as daemon:
        one, two = make_key(daemon, "one"), make_key(daemon, "two")
        one.create(name="lab")
        daemon.stop()
        daemon.start()
        assert one.names() == ["lab"] and two.names() == []  # keys and owners stay
        daemon.call("DELETE", "/api/cay/api-keys/one")
        assert one.ask("GET", "/api/cay/sandbox").status == 401
        daemon.kill_child("cayd-front")
        assert until(daemon.serves)
        assert one.ask("GET", "/api/cay/sandbox").status == 401 and two.names() == []
        assert [box["name"] for box in daemon.list()] == ["lab"]
        again = make_key(daemon, "one")  # the name does not bring the sandboxes back
        assert again.names() == []


@pytest.mark.parametrize("body, part", [
    ({}, "name"),
    ({"name": "a b"}, "name"),
    ({"name": "a" * 64}, "name"),
    ({"name": "admin"}, "another name"),
    ({"name": "cay"}, "another name"),
    ({"name": "x", "permissions": ["root"]}, "sandboxes, images, read or admin"),
    ({"name": "x", "permissions": ["read:audit_logs"]}, "is no scope"),
    ({"name": "x", "permissions": "read"}, "permissions"),
    ({"name": "x", "expiresAt": "tomorrow"}, "no time"),
    ({"name": "x", "expiresAt": "2026-02-30T00:00:00Z"}, "no time"),
    ({"name": "x", "expiresAt": "2020-01-01T00:00:00Z"}, "expired"),
    ({"name": "x", "maxSandboxes": -1}, "maxSandboxes"),
    ({"name": "x", "maxMemory": "much"}, "maxMemory"),
    ({"name": "x", "maxCpus": 0}, "maxCpus"),
    ({"name": "x", "permisions": []}, "did you mean 'permissions'?"),
])
def test_bad_keys(daemon, body, part):
    answer = daemon.ask("POST", "/api/cay/api-keys", body)
    assert answer.status == 400 and part in answer.text
    assert daemon.ask("GET", "/api/cay/api-keys/x").status == 404


def test_a_name_is_given_once(daemon, key):
    key("ci")
    answer = daemon.ask("POST", "/api/cay/api-keys", {"name": "ci"})
    assert answer.status == 409 and "cay key rm ci" in answer.text
    assert daemon.ask("DELETE", "/api/cay/api-keys/nobody").status == 404


# ---- scopes ----

def allowed(client, method, path, body=None):
    answer = client.ask(method, path, body)
    assert answer.status != 401
    if answer.status == 403:
        assert "needs the scope" in answer.text
    return answer.status != 403


def test_scopes(daemon, key):
    """Which scope opens what, one route of each kind."""
    tries = [("GET", "/api/cay/sandbox", "read sandboxes admin"),
             ("GET", "/api/cay/sandbox/none", "read sandboxes admin"),
             ("POST", "/api/cay/sandbox", "sandboxes admin"),
             ("POST", "/api/cay/sandbox/none/start", "sandboxes admin"),
             ("DELETE", "/api/cay/sandbox/none", "sandboxes admin"),
             ("PUT", "/api/cay/sandbox/none/labels", "sandboxes admin"),
             ("POST", "/api/cay/sandbox/none/rename", "sandboxes admin"),
             ("GET", "/api/cay/sandbox/none/connect", "sandboxes admin"),
             ("GET", "/api/cay/status", "read sandboxes images admin"),
             ("GET", "/api/cay/api-keys/current", "read sandboxes images admin"),
             ("GET", "/api/cay/api-keys", "admin"),
             ("GET", "/api/cay/api-keys/none", "admin"),
             ("POST", "/api/cay/api-keys", "admin"),
             ("DELETE", "/api/cay/api-keys/none", "admin"),
             ("GET", "/api/cay/audit", "admin"),
             ("GET", "/api/cay/audit/verify", "admin"),
             ("DELETE", "/api/cay/audit", "admin")]
    for scope in ("read", "sandboxes", "images", "admin"):
        client = key(scope + "-key", permissions=[scope])
        for method, path, scopes in tries:
            body = '{"no such": "key"}' if method == "POST" else None
            assert allowed(client, method, path, body) == (scope in scopes.split()), (scope, path)


@pytest.mark.parametrize("source", ["/", "/etc", "/tmp/../etc", "./x", "~", "../x", " /etc"])
def test_a_key_gets_no_folder_of_the_host(daemon, key, source):
    answer = key("one").ask("POST", "/api/cay/sandbox", {"volumes": [f"{source}:/data:ro"]})
    assert answer.status == 403 and "scope 'admin'" in answer.text
    assert daemon.list() == []


# ---- owners ----

def test_every_foreign_sandbox_is_as_if_it_were_not_there(daemon, key):
    one, two = key("one"), key("two", permissions=["sandboxes", "images"])
    box = one.create(name="precious")
    two.create(name="own")
    unknown = "0123456789abcdef"
    assert len(SANDBOX_ROUTES) > 40
    for method, path in SANDBOX_ROUTES:
        for who, nobody in ((box["id"], unknown), (box["id"][:8], unknown[:8]),
                            ("precious", "gracious")):
            there, absent = (two.ask(method, path.replace("{who}", name), "{}",
                                     Connection="Upgrade", Upgrade="cay-init")
                             for name in (who, nobody))
            assert there.status == absent.status == 404, (method, path, who)
            texts = [re.sub('"timestamp":"[^"]*"', "", answer.text.replace(name, "X"))
                     for answer, name in ((there, who), (absent, nobody))]
            assert texts[0] == texts[1]
            assert set(there.headers) == set(absent.headers)
    assert two.names() == ["own"] and one.names() == ["precious"]
    assert two.call("GET", "/api/cay/status")["sandboxes"] == 1
    assert daemon.state_of(box["id"]) == "started"


def test_names_are_unique_for_each_owner(daemon, key):
    one, two = key("one"), key("two")
    first, second = one.create(name="lab"), two.create(name="lab")
    assert one.call("GET", "/api/cay/sandbox/lab")["id"] == first["id"]
    assert two.call("GET", "/api/cay/sandbox/lab")["id"] == second["id"]
    answer = one.ask("POST", "/api/cay/sandbox", {"name": "lab"})
    assert answer.status == 409
    two.call("POST", "/api/cay/sandbox/lab/rename", {"name": "other"})
    two.call("POST", "/api/cay/sandbox/other/rename", {"name": "lab"})
    # who sees both must say which; of his own he need not
    answer = daemon.ask("GET", "/api/cay/sandbox/lab")
    assert answer.status == 409 and first["id"] in answer.text and second["id"] in answer.text
    own = daemon.create(name="lab")
    assert daemon.call("GET", "/api/cay/sandbox/lab")["id"] == own["id"]
    # and a near name of another is no suggestion
    assert "lab" not in key("three").ask("GET", "/api/cay/sandbox/lap").json()["remedy"]


def test_a_command_with_a_key(daemon, key):
    client = key("one")
    client.create(name="lab")
    with client.connect("lab") as c:
        c.exec("echo", "far away")
        assert c.finish()[:2] == (0, "far away\n")


def test_removing_a_key_cuts_its_connections(daemon, key):
    one, two = key("one"), key("two")
    one.create(name="lab")
    two.create(name="lab")
    with one.connect("lab") as cut, two.connect("lab") as kept:
        cut.exec("sleep", "1000")
        kept.exec("sleep", "1000")
        daemon.call("DELETE", "/api/cay/api-keys/one")
        cut.sock.settimeout(60)
        while cut.sock.recv(4096):
            pass
        kept.sock.settimeout(0.2)
        with pytest.raises(TimeoutError):
            while kept.sock.recv(4096):
                pass


# ---- quotas ----

def test_twenty_at_once_and_five_allowed(daemon, key):
    client = key("few", maxSandboxes=5)
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        body = {"memory": "32m", **({"tier": "basic"} if support.USER else {})}
        answers = list(pool.map(lambda _: client.ask("POST", "/api/cay/sandbox", body), range(20)))
    codes = [answer.status for answer in answers]
    refusals = {a.text for a in answers if a.status != 200}
    assert codes.count(200) == 5 and len(client.names()) == 5
    assert len(refusals) == 1 and \
        "Maximum number of sandboxes (5) of key 'few' reached" in refusals.pop()
    client.call("DELETE", f"/api/cay/sandbox/{client.names()[0]}?force=true")
    client.create(memory="32m")


def test_volumes_of_a_key_are_counted(daemon, key):
    client = key("two", maxVolumes=2)
    made = [client.call("POST", "/api/cay/volumes", {"name": f"v{i}"})["id"] for i in range(2)]
    answer = client.ask("POST", "/api/cay/volumes", {"name": "v2"})
    assert answer.status == 429 and \
        "Maximum number of volumes (2) of key 'two' reached" in answer.text
    box = client.create(memory="32m", volumes=["v0:/data:ro"])
    assert box["volumes"] == [f"{made[0]}:/data:ro"]
    client.call("DELETE", f"/api/cay/sandbox/{box['id']}?force=true")
    for volume in made:
        client.call("DELETE", f"/api/cay/volumes/{volume}")
    again = client.call("POST", "/api/cay/volumes", {"name": "v2"})
    client.call("DELETE", f"/api/cay/volumes/{again['id']}")


@pytest.mark.parametrize("limit, fits, too_much, words", [
    ({"maxMemory": "100m"}, {"memory": "60m"}, {"memory": "60m"}, "memory (100.0 MB)"),
    ({"maxCpus": 1.5}, {"cpus": 1}, {"cpus": 1}, "processors (1.5)"),
    ({"maxDisk": "1g"}, {"disk": "600m"}, {"disk": "600m"}, "disk (1.0 GB)"),
])
def test_what_sandboxes_take_together(daemon, key, limit, fits, too_much, words):
    if support.USER and "disk" in fits:
        pytest.skip("an ordinary user has no disk limits")
    client = key("small", **limit)
    box = client.create(name="a", **fits)
    client.call("POST", "/api/cay/sandbox/a/stop")  # which gives nothing back
    with pytest.raises(Refused) as refused:
        client.create(**too_much)
    assert refused.value.error["code"] == "limit_reached"
    assert words in refused.value.error["message"] and refused.value.error["remedy"]
    client.call("POST", "/api/cay/sandbox/a/start")
    client.call("DELETE", f"/api/cay/sandbox/{box['id']}?force=true")
    client.create(**too_much)


# ---- as people type it ----

def cay(daemon, *words, code=0, **env):
    who, base = support.as_user()
    env = {**base, "CAY_HOST": f"unix://{daemon.socket}", **env}
    done = subprocess.run([support.BUILD / "cay", *words], env=env, capture_output=True, text=True,
                          timeout=60, stdin=subprocess.DEVNULL, **who)
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done


def test_cli(daemon, key):
    made = cay(daemon, "key", "create", "ci", "--scope", "sandboxes,read", "--max-sandboxes", "3",
               "--memory", "1g", "--cpus", "2.5", "--disk", "10g", "--expires", "30d")
    text = made.stdout.strip()
    assert re.fullmatch(r"cay_[\w-]{43}", text) and "only now" in made.stderr
    line = cay(daemon, "key", "ls").stdout.splitlines()[1].split()
    assert line[:3] == ["ci", "read,sandboxes", "3"] and "2.5" in line
    assert [k["name"] for k in json.loads(cay(daemon, "key", "ls", "-o", "json").stdout)] == ["ci"]
    far = {"CAY_HOST": f"http://127.0.0.1:{daemon.port}", "CAY_API_KEY": text}
    assert cay(daemon, "ls", "-q", **far).stdout == ""
    assert "scope 'admin'" in cay(daemon, "key", "ls", code=9, **far).stderr
    assert "'ci' exists" in cay(daemon, "key", "create", "ci", code=4).stderr
    cay(daemon, "key", "rm", "ci")
    assert "not valid" in cay(daemon, "ls", code=8, **far).stderr
    cay(daemon, "key", "rm", "ci", code=3)
    as_json = json.loads(cay(daemon, "key", "create", "ci", "-o", "json").stdout)
    assert as_json["permissions"] == ["sandboxes"] and as_json["value"].startswith("cay_")
    cay(daemon, "key", "rm", "ci")
