"""Images, snapshots and builds belong to the key that made them. What is another key's is found by
no name, id or prefix, and every answer about it is that of what does not exist."""

import http.client
import json
import re

import pytest
import registry
import support
from daemons import Answer, serving_tcp
from launching import until
from support import cay, ok
from test_keys import make_key
from test_run_image import Store, base

pytestmark = [support.as_root_only,
              pytest.mark.skipif(support.is_sanitized(),
                                 reason="cay-init with a sanitizer needs libraries of the host")]

SOON = 60


class KeptOpen:
    """A client with one connection for all that it asks."""

    def __init__(self, client):
        self.key = client.key
        self.connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)

    def ask(self, method, path, body=None):
        self.connection.request(method, path, None if body is None else json.dumps(body),
                                {"Authorization": f"Bearer {self.key}"})
        return Answer(self.connection.getresponse())

    def call(self, method, path, body=None):
        answer = self.ask(method, path, body)
        assert answer.status < 300, answer.text
        return answer.json() if answer.text else None


def key(daemon, name, *scopes, **limits):
    return KeptOpen(make_key(daemon, name, permissions=list(scopes) or ["sandboxes", "images"], **limits))


@pytest.fixture(scope="module")
def daemon():
    with registry.fake(None) as server, \
            serving_tcp(env={"CAY_IMAGES_REGISTRIES": f"*,{server.host}"}) as d:
        Store(d.state).load("base:1", [base()])
        d.registry = server
        yield d


@pytest.fixture(scope="module")
def ann(daemon):
    return key(daemon, "ann")


@pytest.fixture(scope="module")
def bob(daemon):
    return key(daemon, "bob")


@pytest.fixture(scope="module")
def carl(daemon):
    return key(daemon, "carl", "sandboxes")


def create(client, **wishes):
    return client.call("POST", "/api/cay/sandbox", wishes)


def run(client, box, command):
    answer = client.call("POST", f"/api/toolbox/{box['id']}/toolbox/process/execute",
                         {"command": f"sh -c '{command}'"})
    assert answer["exitCode"] == 0, answer
    return answer["result"].strip()


def remove(client, box):
    assert client.ask("DELETE", f"/api/cay/sandbox/{box['id']}?force=true").status < 300


def snapshot(client, name, says, image="base:1"):
    """A snapshot of a sandbox with a file that says something."""
    box = create(client, image=image)
    run(client, box, f"echo {says} >/secret")
    answer = client.ask("POST", f"/api/sandbox/{box['id']}/snapshot", {"name": name})
    remove(client, box)
    return answer


def says(client, image):
    box = create(client, image=image)
    try:
        return run(client, box, "cat /secret")
    finally:
        remove(client, box)


def names(client):
    return {one["name"]: one for one in client.call("GET", "/api/snapshots?limit=200")["items"]}


def drop(client, *wanted):
    for name in wanted:
        client.ask("DELETE", f"/api/snapshots/{name}")


def without(answer, word):
    """Status, headers and body, without the word that was asked for and what differs each time."""
    volatile = ("Date", "X-Request-Id", "X-Cay-Request", "Content-Length")
    headers = sorted((k, v) for k, v in answer.headers.items() if k not in volatile)
    text = re.sub(r'"timestamp":"[^"]*"', "", answer.text)
    return answer.status, headers, text.replace(word, "WORD")


@pytest.fixture(scope="module")
def private(ann):
    assert snapshot(ann, "private-of-ann:1", "ANN").status < 300
    return names(ann)["private-of-ann:1"]["ref"]


# ---- whose it is ----

def test_own_ones_and_public_ones_are_listed(ann, bob, carl, private):
    assert {"private-of-ann:1", "base:1"} <= set(names(ann))
    assert names(ann)["private-of-ann:1"]["general"] is False
    assert names(ann)["base:1"]["general"] is True
    for other in (bob, carl):
        assert "base:1" in names(other) and "private-of-ann:1" not in names(other)


@pytest.mark.parametrize("method,path", [("GET", "/api/snapshots/{}"),
                                         ("GET", "/api/snapshots/{}/build-logs"),
                                         ("GET", "/api/snapshots/{}/build-logs-url"),
                                         ("POST", "/api/snapshots/{}/activate"),
                                         ("DELETE", "/api/snapshots/{}")])
def test_what_is_foreign_is_as_unknown(bob, private, method, path):
    for foreign, unknown in (("private-of-ann:1", "private-of-bnn:1"), (private, "f" * 64),
                             (private[:12], "f" * 12)):
        told = bob.ask(method, path.format(foreign))
        assert told.status in (404, 400 if len(foreign) == 64 else 404), (foreign, told.text)
        assert without(told, foreign) == without(bob.ask(method, path.format(unknown)), unknown)


def test_no_sandbox_of_a_foreign_image(bob, carl, private):
    for client in (bob, carl):
        for foreign, unknown in (("private-of-ann:1", "private-of-bnn:1"), (private, "f" * 64),
                                 (f"sha256:{private}", "sha256:" + "f" * 64)):
            told = client.ask("POST", "/api/cay/sandbox", {"image": foreign})
            assert told.status == 404, told.text
            other = client.ask("POST", "/api/cay/sandbox", {"image": unknown})
            assert without(told, foreign) == without(other, unknown)


def test_no_prefix_of_an_id(ann, bob, private):
    """Not even of an own one, and not of a public one."""
    for length in (4, 5, 12, 40, 63):
        for client in (ann, bob):
            told = client.ask("POST", "/api/cay/sandbox", {"image": private[:length]})
            assert told.status == 404, told.text
    told = bob.ask("POST", "/api/cay/sandbox", {"image": names(bob)["base:1"]["ref"][:12]})
    assert told.status == 404
    assert says(ann, private) == "ANN"
    assert says(ann, f"sha256:{private}") == "ANN"


def test_two_keys_may_use_one_name(daemon, ann, bob):
    assert snapshot(ann, "tool:1", "OF-ANN").status < 300
    assert snapshot(bob, "tool:1", "OF-BOB").status < 300
    assert (says(ann, "tool:1"), says(bob, "tool:1")) == ("OF-ANN", "OF-BOB")
    assert snapshot(bob, "tool:1", "AGAIN").status == 409  # his own
    drop(bob, "tool:1")
    assert "tool:1" not in names(bob) and says(ann, "tool:1") == "OF-ANN"
    drop(ann, "tool:1")


def test_the_operators_image_is_neither_removed_nor_replaced(daemon, ann, bob):
    told = bob.ask("DELETE", "/api/snapshots/base:1")
    assert told.status == 403 and "public" in told.text
    assert snapshot(bob, "base:1", "BACKDOOR").status < 300
    assert says(bob, "base:1") == "BACKDOOR"  # his own name hides the public one, from him alone
    box = create(ann, image="base:1")
    assert run(ann, box, "cat /secret 2>/dev/null || echo CLEAN") == "CLEAN"
    remove(ann, box)
    assert ok(cay("run", "--state-dir", daemon.state, "--image", "base:1", "--", "sh", "-c",
                  "cat /secret 2>/dev/null || echo CLEAN")) == "CLEAN\n"
    drop(bob, "base:1")
    assert names(bob)["base:1"]["general"] is True


def test_a_sandbox_outlives_its_image(ann, bob):
    assert snapshot(ann, "short:1", "SHORT").status < 300
    ref = names(ann)["short:1"]["ref"]
    box = create(ann, image="short:1")
    drop(ann, "short:1")
    assert ann.ask("POST", f"/api/cay/sandbox/{box['id']}/stop").status < 300
    assert ann.ask("POST", f"/api/cay/sandbox/{box['id']}/start").status < 300
    assert run(ann, box, "cat /secret") == "SHORT"
    for client in (ann, bob):
        assert client.ask("POST", "/api/cay/sandbox", {"image": ref}).status == 404
    remove(ann, box)


def test_identical_images_stay_until_the_last_owner_is_gone(daemon, ann, bob):
    """Both name the public image; each has a name, and each only loses its own."""
    for client in (ann, bob):
        client.call("POST", "/api/snapshots", {"name": "mine:1", "imageName": "base:1"})
    drop(ann, "mine:1")
    assert "mine:1" not in names(ann) and "mine:1" in names(bob)
    remove(bob, create(bob, image="mine:1"))
    drop(bob, "mine:1")
    remove(ann, create(ann, image="base:1"))


# ---- builds ----

def build(client, name, text):
    client.call("POST", "/api/snapshots", {"name": name, "buildInfo": {
        "dockerfileContent": text, "contextHashes": []}})
    assert until(lambda: client.call("GET", f"/api/snapshots/{name}")["state"] == "active", SOON)
    return client.ask("GET", f"/api/snapshots/{name}/build-logs").text


def test_builds_of_one_name_and_their_caches(ann, bob):
    text = "FROM base:1\nRUN echo built >/made\n"
    first = build(ann, "built:1", text)
    assert bob.ask("GET", "/api/snapshots/built:1").status == 404
    assert bob.ask("GET", "/api/snapshots/built:1/build-logs").status == 404
    assert build(bob, "built:1", text) == first  # nothing came from ann's cache
    drop(ann, "built:1")
    again = build(ann, "built:1", text)
    assert again != first and "ached" in again  # from her own
    told = bob.ask("POST", "/api/snapshots", {"name": "on-foreign:1", "buildInfo": {
        "dockerfileContent": "FROM private-of-ann:1\nENV A=b\n", "contextHashes": []}})
    assert told.status < 300, told.text
    look = lambda: bob.call("GET", "/api/snapshots/on-foreign:1")["state"]  # noqa: E731
    assert until(lambda: look() == "build_failed", SOON)
    drop(ann, "built:1")
    drop(bob, "built:1", "on-foreign:1")


# ---- pulls ----

def blobs(server):
    return sorted(path for path in server.paths() if "/blobs/" in path)


def test_a_pull_does_not_tell_what_others_have(daemon, ann, bob, tmp_path):
    server = daemon.registry
    server.image = registry.make_image(tmp_path, [base(), {"more": b"x" * 1000}])
    server.by_digest = {blob.digest: blob for blob in server.image.blobs()}
    ways = []
    for client in (ann, bob):
        server.requests.clear()
        answer = client.ask("POST", "/api/cay/sandbox", {"image": server.name("pulled:1")})
        assert answer.status < 300, answer.text
        remove(client, answer.json())
        ways.append(blobs(server))
    assert ways[0] == ways[1] and len(ways[0]) == 2  # the base is public, and known
    server.requests.clear()
    remove(bob, create(bob, image=server.name("pulled:1")))
    assert server.requests == []  # it is his by now
    drop(ann, server.name("pulled:1").replace("/", "%2F"))
    remove(bob, create(bob, image=server.name("pulled:1")))


# ---- who sees all ----

def test_admins_see_all(daemon, ann, private):
    listed = {one["name"] for one in daemon.call("GET", "/api/snapshots?limit=200")["items"]}
    assert {"base:1", "private-of-ann:1"} <= listed
    rows = ok(cay("image", "ls", "--state-dir", daemon.state)).splitlines()
    assert rows[0].split()[-1] == "OWNER"
    line, = [row for row in rows if row.startswith("private-of-ann")]
    owner = line.split()[-1]
    assert line.split()[2] == private[:12]
    assert "private-of-ann:1" in ok(cay("image", "ls", "-q", "--owner", owner, "--state-dir",
                                        daemon.state))
    # by name he means what is public: no key can put something in the way of an admin
    assert daemon.ask("POST", "/api/cay/sandbox", {"image": private}).status < 300
    assert cay("image", "inspect", "--state-dir", daemon.state, "private-of-ann:1").returncode == 3
    assert daemon.ask("GET", f"/api/snapshots/private-of-ann:1?owner={owner}").status == 200
    for box in daemon.list():
        daemon.call("DELETE", f"/api/cay/sandbox/{box['id']}?force=true")


def test_an_admin_makes_images_public_and_private(daemon, ann, bob):
    assert snapshot(ann, "shared:1", "SHARED").status < 300
    rows = ok(cay("image", "ls", "--state-dir", daemon.state)).splitlines()
    owner, = [row.split()[-1] for row in rows if row.startswith("shared")]
    ok(cay("image", "public", "--owner", owner, "--state-dir", daemon.state, "shared:1"))
    assert says(bob, "shared:1") == "SHARED"
    ok(cay("image", "public", "--private", "--state-dir", daemon.state, "shared:1"))
    assert "shared:1" not in names(bob) and "shared:1" in names(ann)
    assert bob.ask("POST", "/api/cay/sandbox", {"image": "shared:1"}).status == 404
    assert ok(cay("run", "--state-dir", daemon.state, "--image", "shared:1", "--", "cat",
                  "/secret")) == "SHARED\n"
    ok(cay("image", "public", "--state-dir", daemon.state, "shared:1"))
    assert says(bob, "shared:1") == "SHARED"
    ok(cay("image", "rm", "--state-dir", daemon.state, "shared:1"))
    assert says(ann, "shared:1") == "SHARED"
    ok(cay("image", "rm", "--owner", owner, "--state-dir", daemon.state, "shared:1"))
    assert "shared:1" not in names(ann)
