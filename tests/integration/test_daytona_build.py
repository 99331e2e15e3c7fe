"""Dockerfiles in Daytona's protocol: built in the background, with their log, given up when nobody
wants them any more, and nobody else's business."""

import http.client

import pytest
import support
from daemons import children, name_of, serving_tcp
from launching import until
from test_daytona_control import API, Sdk, refusal
from test_keys import make_key
from test_run_image import Store, base

pytestmark = [support.as_root_only,
              pytest.mark.skipif(support.is_sanitized(),
                                 reason="cay-init with a sanitizer needs libraries of the host")]

ENDLESS = "FROM plain\nRUN echo it has begun; /bin/busybox sleep 1000\n"
SOON = 60


@pytest.fixture(scope="module")
def daemon():
    with serving_tcp() as d:
        Store(d.state).load("plain", [base()])
        yield d


@pytest.fixture
def sdk(daemon):
    yield Sdk(daemon.port, daemon.key)
    for box in daemon.list():
        daemon.call("DELETE", f"/api/cay/sandbox/{box['id']}?force=true")


def info(dockerfile):
    return {"dockerfileContent": dockerfile, "contextHashes": []}


def snapshot(client, name, dockerfile):
    made = client.call("POST", "/snapshots", {"name": name, "buildInfo": info(dockerfile)})
    API.check("SnapshotDto", made)
    return made


def state_of(client, name):
    found = client.call("GET", f"/snapshots/{name}")
    API.check("SnapshotDto", found)
    return found["state"]


def follow(client, path):
    """The answer to a look at a log, which is read as it comes."""
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=SOON)
    connection.request("GET", f"/api{path}/build-logs?follow=true",
                       headers={"Authorization": f"Bearer {client.key}"})
    return connection.getresponse()


def builders(daemon):
    """How many images are being made."""
    return [name_of(pid) for pid in children(daemon.process.pid)].count("cay-image")


# ---- snapshots ----

def test_a_snapshot_is_built(sdk):
    made = snapshot(sdk, "built", "FROM plain\nRUN echo hello >/said\nENV A=b\n")
    assert made["state"] == "building" and made["errorReason"] is None
    assert until(lambda: state_of(sdk, "built") == "active", SOON)
    log = sdk.ask("GET", "/snapshots/built/build-logs")
    assert log.headers["Content-Type"].startswith("text/plain") and "RUN echo hello" in log.text
    url = sdk.call("GET", "/snapshots/built/build-logs-url")["url"]
    assert url == f"http://127.0.0.1:{sdk.port}/api/snapshots/built/build-logs"
    box = sdk.make(snapshot="built")
    assert box["state"] == "started" and box["env"]["A"] == "b"
    refusal(sdk, 409, "built")("POST", "/snapshots", {"name": "built:latest",
                                                      "buildInfo": info("FROM plain\nENV A=c")})
    sdk.ask("DELETE", f"/sandbox/{box['id']}")
    assert sdk.ask("DELETE", "/snapshots/built").status == 200
    refusal(sdk, 404)("GET", "/snapshots/built")
    refusal(sdk, 404, "no log")("GET", "/snapshots/built/build-logs")


def test_a_name_with_folders(sdk):
    snapshot(sdk, "team/tool:1", "FROM plain\nENV A=b\n")
    assert until(lambda: state_of(sdk, "team%2Ftool:1") == "active", SOON)
    url = sdk.call("GET", "/snapshots/team%2Ftool:1/build-logs-url")["url"]
    path = url.removeprefix(f"http://127.0.0.1:{sdk.port}/api")
    assert "ENV A=b" in sdk.ask("GET", path).text
    assert sdk.ask("DELETE", "/snapshots/team%2Ftool:1").status == 200


def test_deletion_gives_a_build_up(daemon, sdk):
    assert snapshot(sdk, "endless", ENDLESS)["state"] == "building"
    answer = follow(sdk, "/snapshots/endless")
    seen = b""
    while b"it has begun\n" not in seen.replace(b"echo it has begun", b""):
        piece = answer.read1(4096)
        assert piece, seen
        seen += piece
    assert builders(daemon) == 1
    refusal(sdk, 409, "being built")("POST", "/snapshots",
                                     {"name": "endless", "buildInfo": info(ENDLESS)})
    assert sdk.ask("DELETE", "/snapshots/endless").status == 200
    answer.read()  # it ends
    refusal(sdk, 404)("GET", "/snapshots/endless")
    assert until(lambda: builders(daemon) == 0, SOON)


def test_builds_and_their_logs_outlast_a_front(daemon, sdk):
    snapshot(sdk, "broken-before", "FROM plain\nRUN echo said before; exit 3\n")
    assert until(lambda: state_of(sdk, "broken-before") == "build_failed", SOON)
    reason = sdk.call("GET", "/snapshots/broken-before")["errorReason"]
    snapshot(sdk, "cut-off", ENDLESS)
    answer = follow(sdk, "/snapshots/cut-off")
    seen = b""
    while b"it has begun\n" not in seen.replace(b"echo it has begun", b""):
        seen += answer.read1(4096)
    daemon.kill_child("cayd-front")
    assert until(daemon.serves, SOON)
    assert sdk.call("GET", "/snapshots/broken-before")["errorReason"] == reason
    assert "said before" in sdk.ask("GET", "/snapshots/broken-before/build-logs").text
    found = sdk.call("GET", "/snapshots/cut-off")
    assert found["state"] == "build_failed" and "the daemon ended" in found["errorReason"]
    log = sdk.ask("GET", "/snapshots/cut-off/build-logs").text
    assert "it has begun" in log and log.endswith("the daemon ended while it was being built\n")
    assert until(lambda: builders(daemon) == 0, SOON)
    for name in ("broken-before", "cut-off"):
        assert sdk.ask("DELETE", f"/snapshots/{name}").status == 200
        refusal(sdk, 404)("GET", f"/snapshots/{name}")


def test_others_wait_their_turn(daemon, sdk):
    names = [f"wait-{i}" for i in range(4)]
    states = [snapshot(sdk, name, ENDLESS.replace("begun", f"begun {name}"))["state"]
              for name in names]
    assert states == ["building", "building", "pending", "pending"]
    listed = {s["name"]: s["state"] for s in sdk.call("GET", "/snapshots?name=wait")["items"]}
    assert listed == dict(zip(names, states))
    assert sdk.ask("DELETE", "/snapshots/wait-3").status == 200
    assert sdk.ask("DELETE", "/snapshots/wait-0").status == 200
    assert until(lambda: state_of(sdk, "wait-2") == "building", SOON)
    for name in names[1:3]:
        assert sdk.ask("DELETE", f"/snapshots/{name}").status == 200
    assert until(lambda: builders(daemon) == 0, SOON)


def test_too_many_at_once(daemon, sdk):
    mine = Sdk(daemon.port, make_key(daemon, "many", permissions=["sandboxes", "images"]).key)
    for i in range(8):
        snapshot(mine, f"many-{i}", ENDLESS)
    refusal(mine, 429, "8 of the 24 unfinished builds")("POST", "/snapshots",
                                   {"name": "many-8", "buildInfo": info(ENDLESS)})
    for i in reversed(range(8)):
        assert mine.ask("DELETE", f"/snapshots/many-{i}").status == 200
    assert until(lambda: builders(daemon) == 0, SOON)
    daemon.call("DELETE", "/api/cay/api-keys/many")


@pytest.mark.parametrize("dockerfile, words", [
    ("FROM plain\nRUN echo bad luck; exit 7\n", ["exit code 7", "bad luck"]),
    ("FROM plain\nCOPY here /there\n", ["context"]),
    ("FROM plain\nFLY away\n", ["FLY"]),
    ("RUN true\n", ["FROM"]),
])
def test_what_cannot_be_built(sdk, dockerfile, words):
    snapshot(sdk, "bad", dockerfile)
    assert until(lambda: state_of(sdk, "bad") == "build_failed", SOON)
    found = sdk.call("GET", "/snapshots/bad")
    assert all(word in found["errorReason"] for word in words), found
    assert "error: " in sdk.ask("GET", "/snapshots/bad/build-logs").text
    refusal(sdk, 400)("POST", "/sandbox", {"snapshot": "bad"})
    snapshot(sdk, "bad", "FROM plain\nENV A=b\n")  # a failed one is in nobody's way
    assert until(lambda: state_of(sdk, "bad") == "active", SOON)
    assert sdk.ask("DELETE", "/snapshots/bad").status == 200


@pytest.mark.parametrize("name", ["UPPER", "a b", "x@sha256:" + "0" * 64, ""])
def test_names_that_no_image_can_have(sdk, name):
    refusal(sdk, 400)("POST", "/snapshots", {"name": name, "buildInfo": info("FROM plain\nENV A=b")})


# ---- sandboxes ----

def test_a_sandbox_is_built(sdk):
    made = sdk.make(name="lab", buildInfo=info("FROM plain\nRUN echo hello >/said\nENV A=b\n"))
    assert (made["state"], made["desiredState"]) == ("pending_build", "started")
    assert "snapshot" not in made
    assert until(lambda: sdk.look("lab")["state"] == "started", SOON)
    assert sdk.look("lab")["env"]["A"] == "b"
    assert "RUN echo hello" in follow(sdk, "/sandbox/lab").read().decode()
    # it lasts: another daemon knows its image
    assert sdk.post("lab", "/stop")["state"] == "stopped"
    assert sdk.post("lab", "/start")["state"] == "started"


def test_a_sandbox_that_could_not_be_built(sdk):
    made = sdk.make(buildInfo=info("FROM plain\nRUN echo bad luck; exit 7\n"))
    assert until(lambda: sdk.look(made["id"])["state"] == "build_failed", SOON)
    found = sdk.look(made["id"])
    assert "exit code 7" in found["errorReason"] and "bad luck" in found["errorReason"]
    refusal(sdk, 409, "exit code 7")("POST", f"/sandbox/{made['id']}/start")
    assert sdk.ask("DELETE", f"/sandbox/{made['id']}").status == 200


def test_deletion_of_a_sandbox_gives_its_build_up(daemon, sdk):
    made = sdk.make(buildInfo=info(ENDLESS))
    assert until(lambda: builders(daemon) == 1, SOON)
    assert until(lambda: sdk.look(made["id"])["state"] == "building_snapshot", SOON)
    found = sdk.call("GET", "/sandbox?states=building_snapshot")["items"]
    assert [box["id"] for box in found] == [made["id"]]
    assert sdk.ask("DELETE", f"/sandbox/{made['id']}").status == 200
    assert until(lambda: builders(daemon) == 0, SOON)
    refusal(sdk, 404)("GET", f"/sandbox/{made['id']}")


def test_a_build_that_a_daemon_does_not_live_to_see(daemon, sdk):
    made = sdk.make(buildInfo=info(ENDLESS))
    assert until(lambda: builders(daemon) == 1, SOON)
    daemon.stop()
    daemon.start()
    assert until(lambda: builders(daemon) == 0, SOON)
    answer = sdk.ask("GET", f"/sandbox/{made['id']}")
    assert answer.status == 404 or answer.json()["state"] == "build_failed", answer.text


def test_a_sandbox_without_a_build(sdk):
    made = sdk.make()
    refusal(sdk, 404, "no log of a build")("GET", f"/sandbox/{made['id']}/build-logs-url")
    refusal(sdk, 404, "no log of a build")("GET", f"/sandbox/{made['id']}/build-logs")


# ---- who may ----

def test_builds_of_others(daemon, sdk):
    ann = Sdk(daemon.port, make_key(daemon, "ann", permissions=["sandboxes", "images"]).key)
    bob = Sdk(daemon.port, make_key(daemon, "bob", permissions=["sandboxes", "images"]).key)
    eve = Sdk(daemon.port, make_key(daemon, "eve", permissions=["sandboxes"]).key)
    snapshot(ann, "private", "FROM plain\nRUN echo of ann; exit 1\n")
    assert until(lambda: state_of(ann, "private") == "build_failed", SOON)
    assert state_of(sdk, "private") == "build_failed"  # who may do everything sees it
    refusal(bob, 404)("GET", "/snapshots/private")
    refusal(bob, 404)("GET", "/snapshots/private/build-logs")
    refusal(bob, 404)("GET", "/snapshots/private/build-logs-url")
    refusal(bob, 404)("DELETE", "/snapshots/private")
    assert bob.call("GET", "/snapshots?name=private")["total"] == 0
    refusal(eve, 403, "images")("POST", "/snapshots", {"name": "mine",
                                                       "buildInfo": info("FROM plain\nENV A=b")})
    assert ann.ask("DELETE", "/snapshots/private").status == 200
    box = eve.make(buildInfo=info("FROM plain\nENV A=b\n"))  # for a sandbox of her own
    assert until(lambda: eve.look(box["id"])["state"] == "started", SOON)
    refusal(bob, 404)("GET", f"/sandbox/{box['id']}/build-logs")
    assert eve.ask("DELETE", f"/sandbox/{box['id']}").status == 200
    for name in ("ann", "bob", "eve"):
        daemon.call("DELETE", f"/api/cay/api-keys/{name}")


# ---- limits ----

def test_a_build_that_takes_too_long(folder):
    with serving_tcp(folder, env={"CAY_IMAGES_BUILD_TIMEOUT": "1"}) as d:
        sdk = Sdk(d.port, d.key)
        Store(d.state).load("plain", [base()])
        snapshot(sdk, "late", ENDLESS)
        assert until(lambda: state_of(sdk, "late") == "build_failed", SOON)
        assert "too long" in sdk.call("GET", "/snapshots/late")["errorReason"]
        assert until(lambda: builders(d) == 0, SOON)


def test_a_log_without_end(sdk):
    snapshot(sdk, "loud", "FROM plain\nRUN while :; do echo 0123456789012345678901234567890; done"
                          " | head -c 3000000\n")
    assert until(lambda: state_of(sdk, "loud") == "active", SOON)
    log = sdk.ask("GET", "/snapshots/loud/build-logs").text
    assert 1 << 20 <= len(log) < (1 << 20) + 200 and "longer than what is kept" in log[-200:]
    assert sdk.ask("DELETE", "/snapshots/loud").status == 200
