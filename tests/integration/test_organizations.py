"""Keys of one organisation share everything that they make; other organisations see nothing of it. The limits
of an organisation hold for its keys together. Routes come from /openapi.json, as in test_tenancy.py."""

import json
import re
import socket

import pytest
import support
from daemons import serving_tcp
from support import cay, ok
from test_keys import make_key
from test_run_image import base
from test_tenancy import MARK, Keeping, Victim, compare, paths, put, tries
from websocket import WebSocket

CHANGING = ("connections", "disk", "diskOutputs")  # outputs are not kept by a restart


@pytest.fixture(scope="module")
def daemon():
    with serving_tcp() as d:
        ok(cay("image", "import", "--state-dir", d.state, "-", "tenancy-base", input=base()))
        d.org = d.call("POST", "/api/cay/organizations", {"name": f"{MARK}-org"})["id"]
        d.other = d.call("POST", "/api/cay/organizations", {"name": "others"})["id"]
        yield d


@pytest.fixture(scope="module")
def ann(daemon):
    if support.is_sanitized():
        pytest.skip("a sanitized cay-init needs libraries of the host, which images lack")
    return Victim(daemon, organization=f"{MARK}-org")


@pytest.fixture(scope="module")
def sibling(daemon):
    return make_key(daemon, "sue", permissions=["sandboxes", "images"], organization=f"{MARK}-org")


@pytest.fixture(scope="module")
def stranger(daemon):
    client = make_key(daemon, "bob", permissions=["sandboxes", "images", "read"], organization="others")
    client.box = client.create(name="bobs", memory="128m")["id"]
    return client


def test_every_route_with_every_identifier_of_another_organisation(daemon, ann, stranger):
    before = ann.picture()
    asker, count = Keeping(stranger), 0
    for path, methods in paths(daemon).items():
        for names, there, absent in tries(ann, path):
            for method in methods:
                count += compare(asker, method, path, names, there, absent)
    assert count > 400
    assert ann.picture() == before


def test_a_key_of_the_organisation_reads_every_route_as_the_one_that_made_it(daemon, ann, sibling):
    """Whatever the one can look at, the other can, with the same status."""
    own, other, count = Keeping(ann.client), Keeping(sibling), 0
    for path, methods in paths(daemon).items():
        if "get" not in methods or "follow" in path:
            continue
        for names, there, absent in tries(ann, path):
            statuses = [asker.ask("get", put(path, names, there))[0] for asker in (own, other)]
            assert statuses[0] == statuses[1], (path, there, statuses)
            count += statuses[0] == 200
    assert count > 30


def test_the_other_key_uses_changes_and_removes_what_was_made(ann, sibling):
    call = sibling.call
    assert ann.box in [s["id"] for s in call("GET", "/api/cay/sandbox")]
    assert call("POST", f"/toolbox/{ann.box}/process/execute",
                {"command": "cat /workspace/f /data/f"})["result"] == f"{MARK}\n{MARK}\n"
    made = call("POST", "/api/cay/sandbox", {"name": "from-hers", "image": ann.snapshot, "memory": "64m",
                                             "volumes": [f"{MARK}-volume:/data"]})
    assert call("POST", f"/toolbox/{made['id']}/process/execute", {"command": "cat /data/f"})["result"] == f"{MARK}\n"
    ann.client.call("DELETE", "/api/cay/sandbox/from-hers?force=true")
    assert ann.snapshot in [s["name"] for s in call("GET", "/api/snapshots")["items"]]
    taken = sibling.ask("POST", "/api/cay/sandbox", {"name": f"{MARK}-box", "memory": "64m"})
    assert taken.status == 409, taken.text
    volume = ann.client.call("POST", "/api/cay/volumes", {"name": "short"})["id"]
    call("DELETE", f"/api/cay/volumes/{volume}")
    ann.client.call("POST", "/api/snapshots", {"name": "also:1", "imageName": "tenancy-base"})
    assert sibling.ask("DELETE", "/api/snapshots/also:1").status == 200
    assert "also:1" not in [s["name"] for s in ann.client.call("GET", "/api/snapshots")["items"]]


def test_events_reach_the_other_key(ann, sibling):
    sock = WebSocket(socket.create_connection(("127.0.0.1", sibling.port), 60),
                     "/api/socket.io/?EIO=4&transport=websocket")
    with sock:
        assert sock.receive().startswith("0")
        sock.send(f'40{{"token":"{sibling.key}"}}')
        assert sock.receive().startswith("40")
        ann.client.call("POST", f"/api/cay/sandbox/{ann.box}/pause")
        ann.client.call("POST", f"/api/cay/sandbox/{ann.box}/resume")
        while ann.box not in sock.receive():
            pass


def test_daytonas_routes_name_the_organisation(daemon, ann, sibling, stranger):
    for client, org, name in ((ann.client, daemon.org, f"{MARK}-org"), (sibling, daemon.org, f"{MARK}-org"),
                              (stranger, daemon.other, "others")):
        listed = client.call("GET", "/api/organizations")
        assert [(o["id"], o["name"], o["personal"]) for o in listed] == [(org, name, False)]
        assert client.call("GET", f"/api/organizations/{org}")["name"] == name
    foreign = [stranger.ask("GET", f"/api/organizations/{who}") for who in (daemon.org, "0123456789abcdef")]
    assert [a.status for a in foreign] == [404, 404]
    assert sibling.call("GET", f"/api/sandbox/{ann.box}")["organizationId"] == daemon.org
    assert sibling.call("GET", f"/api/sandbox/{ann.box}/organization")["id"] == daemon.org
    assert sibling.call("GET", "/api/object-storage/push-access")["organizationId"] == daemon.org
    alone = make_key(daemon, "alone")
    assert [o["personal"] for o in alone.call("GET", "/api/organizations")] == [True]
    everything = {o["id"] for o in daemon.call("GET", "/api/organizations")}
    assert {daemon.org, daemon.other} <= everything


def test_limits_of_the_organisation_hold_for_its_keys_together(daemon):
    daemon.call("POST", "/api/cay/organizations", {"name": "small", "maxSandboxes": 3, "maxMemory": "256m",
                                                   "maxVolumes": 1})
    one = make_key(daemon, "one", organization="small", maxSandboxes=2)
    two = make_key(daemon, "two", organization="small")
    for i in range(2):
        one.create(name=f"s{i}", memory="32m")
    own = one.ask("POST", "/api/cay/sandbox", {"memory": "32m"})
    assert own.status == 429 and "key 'one'" in own.text, own.text
    two.create(name="s2", memory="32m")
    full = two.ask("POST", "/api/cay/sandbox", {"memory": "32m"})
    assert full.status == 429 and "organisation 'small'" in full.text and full.headers["Retry-After"], full.text
    two.call("DELETE", "/api/cay/sandbox/s0?force=true")  # sees it; the place is the organisation's
    big = two.ask("POST", "/api/cay/sandbox", {"memory": "200m"})
    assert big.status == 429 and "Maximum memory" in big.text, big.text
    one.call("POST", "/api/cay/volumes", {"name": "v"})
    assert two.ask("POST", "/api/cay/volumes", {"name": "w"}).status == 429
    usage = {row["name"]: row for row in two.call("GET", "/api/cay/usage?organization=small")}
    assert (usage["sandboxes"]["used"], usage["sandboxes"]["left"]) == (2, 1)
    mine = {row["name"]: row for row in two.call("GET", "/api/cay/usage")}
    assert (mine["sandboxes"]["used"], mine["sandboxes"]["left"]) == (1, 1)
    assert make_key(daemon, "three").ask("GET", "/api/cay/usage?organization=small").status == 403


def test_a_removed_key_leaves_what_the_organisation_has(daemon):
    daemon.call("POST", "/api/cay/organizations", {"name": "heirs", "maxSandboxes": 2})
    gone = make_key(daemon, "gone", organization="heirs", permissions=["sandboxes", "images"])
    heir = make_key(daemon, "heir", organization="heirs", permissions=["sandboxes", "images"])
    box = gone.create(name="inherited", memory="64m")["id"]
    volume = gone.call("POST", "/api/cay/volumes", {"name": "inherited"})["id"]
    gone.call("POST", "/api/snapshots", {"name": "inherited:1", "imageName": "tenancy-base"})
    stream = socket.create_connection(("127.0.0.1", gone.port), 60)
    gone.ask("POST", f"/toolbox/{box}/process/session", {"sessionId": "s"})
    command = gone.call("POST", f"/toolbox/{box}/process/session/s/exec",
                        {"command": "sleep 60", "runAsync": True})["cmdId"]
    stream.sendall((f"GET /toolbox/{box}/process/session/s/command/{command}/logs?follow=true HTTP/1.1\r\n"
                    f"Host: localhost\r\nAuthorization: Bearer {gone.key}\r\n\r\n").encode())
    assert b"200" in stream.recv(4096)
    daemon.call("DELETE", "/api/cay/api-keys/gone")
    while stream.recv(4096):
        pass  # it ends
    assert gone.ask("GET", "/api/cay/sandbox").status == 401
    assert heir.call("GET", "/api/cay/sandbox/inherited")["id"] == box
    heir.call("POST", f"/api/cay/sandbox/{box}/stop")
    heir.call("POST", f"/api/cay/sandbox/{box}/start")
    assert heir.call("POST", f"/toolbox/{box}/process/execute", {"command": "echo hi"})["result"] == "hi\n"
    used = {row["name"]: row["used"] for row in heir.call("GET", "/api/cay/usage?organization=heirs")}
    assert used["sandboxes"] == 1 and used["volumes"] == 1
    heir.create(name="second", memory="64m")
    assert heir.ask("POST", "/api/cay/sandbox", {"memory": "64m"}).status == 429
    heir.call("DELETE", "/api/cay/sandbox/inherited?force=true")
    heir.call("DELETE", f"/api/cay/volumes/{volume}")
    assert heir.ask("DELETE", "/api/snapshots/inherited:1").status == 200
    used = {row["name"]: row["used"] for row in heir.call("GET", "/api/cay/usage?organization=heirs")}
    assert used["sandboxes"] == 1 and used["volumes"] == 0


def test_an_organisation_with_keys_stays(daemon):
    daemon.call("POST", "/api/cay/organizations", {"name": "brief"})
    make_key(daemon, "member", organization="brief")
    refused = daemon.ask("DELETE", "/api/cay/organizations/brief")
    assert refused.status == 409 and "cay key rm" in refused.text
    daemon.call("DELETE", "/api/cay/api-keys/member")
    daemon.call("DELETE", "/api/cay/organizations/brief")
    assert daemon.ask("GET", "/api/cay/organizations/brief").status == 404


@pytest.mark.parametrize("body, status", [
    ({"name": "x", "organization": "nobodys"}, 404),
    ({"name": "x", "organization": "others", "permissions": ["admin"]}, 400),
    ({"name": "others"}, 409),
    ({"name": "x", "organization": "bob"}, 404),  # a key is no organisation
])
def test_keys_that_cannot_be_made(daemon, stranger, body, status):
    answer = daemon.ask("POST", "/api/cay/api-keys", body)
    assert answer.status == status, answer.text


@pytest.mark.parametrize("body, status", [
    ({"name": "bob"}, 409),
    ({"name": "new", "permissions": ["read"]}, 400),
    ({"name": "new", "organization": "others"}, 400),
    ({"name": "new", "expiresAt": "2100-01-01T00:00:00Z"}, 400),
])
def test_organisations_that_cannot_be_made(daemon, stranger, body, status):
    assert daemon.ask("POST", "/api/cay/organizations", body).status == status


def test_commands(daemon):
    where = ("--state-dir", daemon.state)
    ok(cay("org", "create", *where, "team", "--memory", "1g"))
    assert ok(cay("key", "create", *where, "tim", "--org", "team")).startswith("cay_")
    assert re.search(r"^team +- +1\.0 GB", ok(cay("org", "ls", *where)), re.M)
    assert re.search(r"^tim .*team$", ok(cay("key", "ls", *where)), re.M)
    assert "memory" in ok(cay("org", "info", *where, "team"))
    assert json.loads(ok(cay("key", "ls", *where, "-o", "json")))
    refused = cay("key", "create", *where, "tom", "--org", "teem")
    assert refused.returncode != 0 and "cay org create" in refused.stderr.decode()
    ok(cay("key", "rm", *where, "tim"))
    ok(cay("org", "rm", *where, "team"))


def test_a_restart_forgets_nothing(daemon, ann, sibling):
    """Owners, makers and sums are what they were."""
    before = {row["name"]: row["used"] for row in
              daemon.call("GET", f"/api/cay/usage?organization={MARK}-org") if row["name"] not in CHANGING}
    daemon.stop()
    daemon.start()
    after = {row["name"]: row["used"] for row in
             daemon.call("GET", f"/api/cay/usage?organization={MARK}-org") if row["name"] not in CHANGING}
    assert before == after
    assert sibling.call("GET", f"/api/cay/sandbox/{ann.box}")["id"] == ann.box
