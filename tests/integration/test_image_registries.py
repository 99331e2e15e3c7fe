"""Registries in the names of images that keys ask for: which addresses they may lead to, what is
told of those that do not work, and how much of everybody's time a silent one takes."""

import contextlib
import datetime
import http.client
import json
import socket
import threading
import time

import pytest
import registry
import support
from daemons import serving_tcp
from launching import until
from test_budget import used
from test_image_owners import create, key, remove, without
from test_run_image import Store, base

pytestmark = [support.as_root_only,
              pytest.mark.skipif(support.is_sanitized(),
                                 reason="cay-init with a sanitizer needs libraries of the host")]


@contextlib.contextmanager
def silent():
    """Accepts everybody and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=256) as server:
        ending, kept = threading.Event(), []

        def accept():
            server.settimeout(0.1)
            while not ending.is_set():
                with contextlib.suppress(TimeoutError):
                    kept.append(server.accept()[0])

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            ending.set()
            thread.join()
            for one in kept:
                one.close()


@pytest.fixture(scope="module")
def other():
    """A service of this machine that is nobody's business."""
    with registry.fake(None, every=registry.answer(200, b"secret")) as server:
        yield server


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    image = registry.make_image(tmp_path_factory.mktemp("image"), [base()])
    with registry.fake(image) as server:
        yield server


@pytest.fixture(scope="module")
def quiet():
    with silent() as host:
        yield host


@pytest.fixture(scope="module")
def daemon(good, quiet):
    with serving_tcp(env={"CAY_IMAGES_REGISTRIES": f"*,{good.host},{quiet}"}) as d:
        Store(d.state).load("base:1", [base()])
        yield d


@pytest.fixture(scope="module")
def ann(daemon):
    return key(daemon, "ann")


@pytest.fixture(scope="module")
def bob(daemon):
    return key(daemon, "bob")


def refused(client, image):
    answer = client.ask("POST", "/api/cay/sandbox", {"image": image})
    assert answer.status == 404, answer.text
    return without(answer, image)


# ---- addresses ----

def test_no_service_of_this_machine_is_reached(daemon, bob, other):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        closed = 1
        told = [refused(bob, f"{host}/a/b:1") for host in
                (other.host, f"127.0.0.1:{port}", f"127.0.0.1:{closed}", f"localhost:{port}",
                 "169.254.169.254", "10.255.255.1:5000", "192.168.0.1", f"[::1]:{port}",
                 "no-such-host.invalid")]
        listening.settimeout(0.2)
        with pytest.raises(TimeoutError):
            listening.accept()
    assert other.requests == []
    assert all(one == told[0] for one in told), told
    assert "keys may not use its address" in daemon.log.read_text()


def test_admins_are_told_more(daemon):
    answer = daemon.ask("POST", "/api/cay/sandbox", {"image": "127.0.0.1:1/a/b:1"})
    assert answer.status == 503 and "cannot be reached" in answer.text


def test_a_build_does_not_reach_it_either(bob, other):
    bob.call("POST", "/api/snapshots", {"name": "probe:1", "buildInfo": {
        "dockerfileContent": f"FROM {other.host}/a/b:1\nENV A=b\n", "contextHashes": []}})
    look = lambda: bob.call("GET", "/api/snapshots/probe:1")  # noqa: E731
    assert until(lambda: look()["state"] == "build_failed", 60)
    assert "could not be fetched" in look()["errorReason"] and other.requests == []
    log = bob.ask("GET", "/api/snapshots/probe:1/build-logs").text
    assert "may not use" not in log and "reached" not in log
    bob.ask("DELETE", "/api/snapshots/probe:1")


def test_a_listed_registry_is_used(bob, good):
    remove(bob, create(bob, image=good.name("tool:1")))
    assert good.requests


@pytest.mark.parametrize("way", ["redirect", "realm"])
def test_a_listed_registry_leads_nowhere_else(daemon, bob, good, other, way):
    """Neither by a redirect nor by the address of its token server."""
    answer = registry.redirect_to(f"http://{other.host}/inside")
    if way == "realm":
        realm = f'Bearer realm="http://{other.host}/token",service="x"'
        answer = registry.answer(401, b"{}", {"WWW-Authenticate": realm})
    good.overrides["manifest"] = answer
    try:
        told = bob.ask("POST", "/api/cay/sandbox", {"image": good.name("other:1")})
    finally:
        del good.overrides["manifest"]
    assert told.status >= 400 and other.requests == [], told.text


def test_only_listed_ones(good):
    """Without "*" others are not used, whatever their address is."""
    with serving_tcp(env={"CAY_IMAGES_REGISTRIES": good.host}) as d:
        ann = key(d, "ann")
        remove(ann, create(ann, image=good.name("tool:1")))
        first = refused(ann, "registry.example/a/b:1")
        assert refused(ann, "python:3") == first
        admin = d.ask("POST", "/api/cay/sandbox", {"image": "registry.example/a/b:1"})
        assert admin.status == 503  # he may, but there is no such host


# ---- what keys may use ----

def test_images_that_keys_may_use(good):
    """Others are as if they did not exist, public ones too; one's own are one's own."""
    env = {"CAY_IMAGES_ALLOWED": f"base:*,{good.host}/team/*", "CAY_IMAGES_REGISTRIES": good.host,
           "CAY_SANDBOX_IMAGE": "base:1"}
    with serving_tcp(env=env) as d:
        for name in ("base:1", "other:1"):
            Store(d.state).load(name, [base(), {name.replace(":", "-"): b"x"}])
        ann = key(d, "ann")
        assert {one["name"] for one in ann.call("GET", "/api/snapshots")["items"]} == {"base:1"}
        other, = [one["ref"] for one in d.call("GET", "/api/snapshots")["items"]
                  if one["name"] == "other:1"]
        for image in ("other:1", other, f"sha256:{other}"):
            refused(ann, image)
        remove(ann, create(ann, image=good.name("team/tool:1")))
        told = ann.ask("POST", "/api/cay/sandbox", {"image": good.name("elsewhere/tool:1")})
        assert told.status == 403 and "[images] allowed" in told.text
        told = ann.ask("POST", "/api/cay/sandbox", {"image": "host"})
        assert told.status == 403 and "[images] allowed" in told.text
        box = create(ann)
        ann.call("POST", f"/api/sandbox/{box['id']}/snapshot", {"name": "mine:1"})
        remove(ann, box)
        remove(ann, create(ann, image="mine:1"))
        for image in ("other:1", "host"):
            assert d.ask("POST", "/api/cay/sandbox", {"image": image}).status == 200
        for box in d.list():
            d.call("DELETE", f"/api/cay/sandbox/{box['id']}?force=true")


def test_lifetime_and_previews_of_keys():
    env = {"CAY_MANAGER_LIFETIME_MAX": "1h", "CAY_MANAGER_PUBLIC_PREVIEWS": "false"}
    with serving_tcp(env=env) as d:
        ann = key(d, "ann")
        hour = 3600 * 1000

        def ends(made):
            at = datetime.datetime.fromisoformat(made["autoDestroyAt"].replace("Z", "+00:00"))
            return at.timestamp() * 1000

        made = ann.call("POST", "/api/sandbox", {})
        assert abs(ends(made) - (time.time() * 1000 + hour)) < hour / 2
        path = f"/api/sandbox/{made['id']}"
        told = ann.ask("POST", f"{path}/public/true")
        assert told.status == 403 and "public_previews" in told.text
        assert ann.ask("POST", f"{path}/public/false").status == 200
        told = ann.ask("POST", "/api/sandbox", {"public": True})
        assert told.status == 403 and "public_previews" in told.text
        assert d.ask("POST", "/api/sandbox", {"public": True}).status == 200
        told = ann.ask("POST", "/api/sandbox", {"ttlMinutes": 120})
        assert told.status == 403 and "lifetime_max" in told.text, told.text
        assert ends(ann.call("POST", "/api/sandbox", {"ttlMinutes": 5})) < ends(made)
        assert "autoDestroyAt" not in d.call("POST", "/api/sandbox", {})
        for box in d.list():
            d.call("DELETE", f"/api/cay/sandbox/{box['id']}?force=true")


# ---- silence ----

class Asking(threading.Thread):
    """One request, of which the answer may take long."""

    def __init__(self, client, image):
        super().__init__(daemon=True)
        self.connection = http.client.HTTPConnection("127.0.0.1", client.connection.port,
                                                     timeout=120)
        self.connection.request("POST", "/api/cay/sandbox", json.dumps({"image": image}),
                                {"Authorization": f"Bearer {client.key}"})
        self.answer = None
        self.start()

    def run(self):
        with contextlib.suppress(Exception):  # it is closed at the end
            response = self.connection.getresponse()
            self.answer = response.status, response.headers.get("Retry-After"), response.read()

    def end(self):
        with contextlib.suppress(OSError):
            self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.join(60)
        self.connection.close()


def test_a_silent_registry_stops_nobody_else(ann, bob, good, quiet):
    asking = [Asking(ann, f"{quiet}/t/p:{i}") for i in range(40)]
    try:
        assert until(lambda: sum(one.answer is not None for one in asking) >= 32, 60)
        time.sleep(0.2)
        waiting = [one for one in asking if one.answer is None]
        assert len(waiting) == 8  # her share
        for one in asking:
            if one.answer is not None:
                status, after, text = one.answer
                assert status == 429 and int(after) >= 1 and b"this key" in text, one.answer
        # what is here, for both
        for client in (ann, bob):
            assert client.ask("GET", "/api/snapshots").status == 200
            remove(client, create(client, image="base:1"))
        remove(bob, create(bob, image=good.name("meanwhile:1")))
    finally:
        for one in asking:
            one.end()


def test_pulls_of_a_key_are_counted(daemon, quiet):
    few = key(daemon, "few", maxPulls=1)
    first = Asking(few, f"{quiet}/t/first:1")
    try:
        assert until(lambda: used(few, "pulls") == 1)
        answer = few.ask("POST", "/api/cay/sandbox", {"image": f"{quiet}/t/second:1"})
        assert answer.status == 429 and "concurrent pulls (1) of key 'few'" in answer.text, answer.text
    finally:
        first.end()  # the pull goes on until its deadline


def test_a_pull_has_a_deadline(quiet):
    with serving_tcp(env={"CAY_IMAGES_REGISTRIES": quiet, "CAY_IMAGES_PULL_TIMEOUT": "1"}) as d:
        ann = key(d, "ann")
        answer = ann.ask("POST", "/api/cay/sandbox", {"image": f"{quiet}/t/p:1"})
        assert answer.status == 504 and "pull_timeout" in answer.text
