"""What a key has on the disk beside its sandboxes counts for its disk: images, snapshots, steps of builds, uploads
and outputs. It is refused beyond the limit, given back by a removal, and the same after a kill."""

import hashlib
import os
import signal

import pytest
import support
from daemons import serving_tcp
from launching import until
from support import cay, ok
from test_contexts import Bucket
from test_daytona_control import Sdk
from test_keys import make_key
from test_run_image import base

MB = 1000 * 1000


@pytest.fixture(scope="module")
def daemon():
    if support.is_sanitized():
        pytest.skip("a sanitized cay-init needs libraries of the host, which images lack")
    with serving_tcp() as d:
        ok(cay("image", "import", "--state-dir", d.state, "-", "disk-base", input=base()))
        yield d


def usage(client, query=""):
    return {row["name"]: row for row in client.call("GET", "/api/cay/usage" + query)}


def snapshot(client, name, megabytes, status=200):
    """A snapshot of so much that is new."""
    box = client.create(image="disk-base", memory="128m", disk="64m")["id"]
    wrote = client.call("POST", f"/toolbox/{box}/process/execute",
                        {"command": f"head -c {megabytes}000000 /dev/urandom > /file-{name}"})
    assert wrote["exitCode"] == 0, wrote
    answer = client.ask("POST", f"/api/cay/sandbox/{box}/snapshot", {"name": f"{name}:1"})
    assert answer.status == status, answer.text
    client.call("DELETE", f"/api/cay/sandbox/{box}?force=true")
    return answer


def remove(client, name):
    assert client.ask("DELETE", f"/api/snapshots/{name}:1").status == 200


def test_snapshots_count_without_what_is_public(daemon):
    ann = make_key(daemon, "ann", permissions=["sandboxes", "images"], maxDisk="100m")
    snapshot(ann, "one", 5)
    used = usage(ann)
    assert 5 * MB <= used["diskImages"]["used"] < 6 * MB
    assert used["disk"]["used"] == used["diskImages"]["used"] and used["diskImages"]["limit"] is None
    ann.call("POST", "/api/snapshots", {"name": "again:1", "imageName": "disk-base"})  # public: for nothing
    assert usage(ann)["diskImages"]["used"] == used["diskImages"]["used"]
    text = daemon.get("/metrics").text
    assert f'cay_key_used{{key="ann",item="diskImages"}} {used["diskImages"]["used"]}' in text
    assert "diskImages" in ok(cay("key", "info", "--state-dir", daemon.state, "ann"))
    remove(ann, "one")
    assert usage(ann)["diskImages"]["used"] == 0


def test_beyond_the_limit_is_refused_and_leaves_nothing(daemon):
    bob = make_key(daemon, "bob", permissions=["sandboxes", "images"], maxDisk="80m")
    snapshot(bob, "first", 10)
    refused = snapshot(bob, "second", 20, status=429)  # 64m of its sandbox are in use as well
    assert "Maximum disk" in refused.text and "key 'bob'" in refused.text and refused.headers["Retry-After"]
    assert [s["name"] for s in bob.call("GET", "/api/snapshots")["items"] if "second" in s["name"]] == []
    assert usage(bob)["diskImages"]["used"] < 11 * MB
    layers = os.path.join(daemon.state, "images/store/layers")
    sizes = [os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(layers) for name in names]
    assert not any(size == 20 * MB for size in sizes)
    remove(bob, "first")
    snapshot(bob, "second", 10)


def test_every_owner_pays_for_a_shared_layer(daemon):
    """Two keys build the same; both have it, and pay for it."""
    one = make_key(daemon, "one", permissions=["sandboxes", "images"], maxDisk="1g")
    two = make_key(daemon, "two", permissions=["sandboxes", "images"])
    for client in (one, two):
        client.call("POST", "/api/snapshots", {"name": "built:1", "buildInfo": {
            "dockerfileContent": "FROM disk-base\nRUN head -c 3000000 /dev/zero > /file\n"}})
        assert until(lambda: client.call("GET", "/api/snapshots/built:1")["state"] == "active", 60)
    assert usage(one)["diskImages"]["used"] == usage(two)["diskImages"]["used"] >= 3 * MB
    remove(one, "built")
    assert usage(one)["diskImages"]["used"] == 0  # with the steps in the cache, since it has a limit
    assert usage(two)["diskImages"]["used"] >= 3 * MB


def test_steps_of_a_build_that_fails_count(daemon):
    key = make_key(daemon, "failing", permissions=["sandboxes", "images"])
    key.ask("POST", "/api/snapshots", {"name": "half:1", "buildInfo": {
        "dockerfileContent": "FROM disk-base\nRUN head -c 2000000 /dev/urandom > /file\nRUN false\n"}})
    assert until(lambda: key.call("GET", "/api/snapshots/half:1")["state"] in ("build_failed", "error"), 60)
    assert until(lambda: usage(key)["diskImages"]["used"] >= 2 * MB)


def test_an_organisation_pays_with_the_key_that_made_it(daemon):
    daemon.call("POST", "/api/cay/organizations", {"name": "org", "maxDisk": "90m"})
    ann = make_key(daemon, "organn", permissions=["sandboxes", "images"], organization="org")
    sue = make_key(daemon, "orgsue", permissions=["sandboxes", "images"], organization="org")
    snapshot(ann, "shared", 8)
    assert usage(sue)["diskImages"]["used"] == 0
    assert usage(ann)["diskImages"]["used"] == usage(sue, "?organization=org")["diskImages"]["used"] >= 8 * MB
    refused = snapshot(sue, "more", 20, status=429)
    assert "organisation 'org'" in refused.text
    daemon.call("DELETE", "/api/cay/api-keys/organn")
    assert usage(sue, "?organization=org")["diskImages"]["used"] >= 8 * MB
    remove(sue, "shared")
    assert usage(sue, "?organization=org")["diskImages"]["used"] == 0


def test_outputs_count(daemon):
    key = make_key(daemon, "writer")
    long = key.call("POST", "/api/cay/python", {"code": "print('x' * 3000000)"})
    assert long["stdout_file"]
    assert usage(key)["diskOutputs"]["used"] >= 3 * MB


def test_uploads_count_and_are_refused(daemon):
    key = make_key(daemon, "loader", permissions=["sandboxes", "images"], maxDisk="2m")
    bucket = Bucket(Sdk(daemon.port, key.key))
    small, large = b"a" * MB, b"b" * (3 * MB)
    bucket.put(hashlib.md5(small).hexdigest(), small)
    assert usage(key)["diskUploads"]["used"] == MB
    status, text = bucket.send("PUT", bucket.key(hashlib.md5(large).hexdigest()), large)
    assert status == 429 and "Maximum disk" in text, text


@pytest.mark.parametrize("whole", [False, True])
def test_a_kill_leaves_no_drift(daemon, whole):
    key = make_key(daemon, f"killed{whole}", permissions=["sandboxes", "images"])
    snapshot(key, f"kept{int(whole)}", 4)
    key.call("POST", "/api/cay/volumes", {"name": "v"})

    def disk():
        return {name: row["used"] for name, row in usage(key).items() if name.startswith("disk")}
    before = disk()
    assert before["diskImages"] >= 4 * MB and before["diskVolumes"] > 0
    if whole:
        daemon.kill()
        daemon.start()
    else:
        os.kill(daemon.front(), signal.SIGKILL)
        assert until(daemon.serves)
    assert disk() == before
