"""Verbs against daemons elsewhere: another cay by TLS, and a Daytona that is no cay."""

import json
import os
import socket
import subprocess
import threading
import time

import pytest
import support
from daemons import free_port, serving
from remotes import Foreign, Remote
from support import cay, ok, refused
from test_tls import make_certificate, openssl, settings, tls  # noqa: F401 (tls is a fixture)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    path = tmp_path_factory.mktemp("remote")
    for folder in (path, *list(path.parents)[:2]):
        os.chmod(folder, 0o755)
    return support.own(path)


@pytest.fixture(scope="module")
def by_tls(place):
    """Another cay, reached by TLS."""
    ca = support.own_folder(place / "ca")
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", ca / "ca.key", "-out", ca / "ca.pem", "-days", "2", "-subj", "/CN=test")
    cert, key = make_certificate(ca, "one", ca)
    os.chmod(ca / "ca.pem", 0o644)
    port = free_port()
    folder = support.own_folder(place / "tls")
    with serving(folder, "--listen", f"127.0.0.1:{port}", env=settings(cert, key)) as daemon:
        yield Remote(daemon, f"https://127.0.0.1:{port}", daemon.state / "admin.key",
                     {"CAY_REMOTE_CA_FILE": str(ca / "ca.pem")})


@pytest.fixture(scope="module")
def by_daytona(place):
    """A Daytona: only its protocol is spoken."""
    port = free_port()
    folder = support.own_folder(place / "foreign")
    with serving(folder, "--listen", f"127.0.0.1:{port}") as daemon:
        foreign = Foreign(port)
        try:
            remote = Remote(daemon, foreign.url, daemon.state / "admin.key")
            remote.asked = foreign.asked
            yield remote
        finally:
            foreign.close()


@pytest.fixture(params=["tls", "daytona"])
def remote(request):
    return request.getfixturevalue("by_" + request.param)


@pytest.fixture
def lab(remote):
    name = "lab-%d" % time.monotonic_ns()
    remote.ok("create", "--name", name, *support.TIER)
    yield name
    remote("rm", "-f", name)


def test_life(remote):
    tier = support.TIER if remote.url.startswith("https") else []
    assert remote.ok("create", "--name", "life", "-l", "team=a", *tier) == "life\n"
    assert "life" in remote.ok("ls")
    assert [s["state"] for s in json.loads(remote.ok("ls", "-o", "json"))
            if s["name"] == "life"] == ["started"]
    remote.ok("stop", "life")
    assert "life" not in remote.ok("ls") and "life" in remote.ok("ls", "-a")
    remote.ok("start", "life")
    assert json.loads(remote.ok("info", "life", "-o", "json"))["labels"] == {"team": "a"}
    remote.ok("rm", "-f", "life")
    refused(remote("info", "life"), code=3)
