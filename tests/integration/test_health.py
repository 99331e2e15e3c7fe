"""/livez, /readyz and /healthz: what a load balancer, an operator and systemd see of a daemon that is
well, and of one that is not."""

import contextlib
import http.client
import json
import os
import resource
import signal
import socket
import subprocess

import pytest
import support
from daemons import own_folder, serving, serving_tcp
from launching import until

PATIENCE = 90  # a launcher counts as hung after 15 s


@pytest.fixture(autouse=True)
def needs(clean_host):
    support.need_cay()


def detail(daemon):
    answer = daemon.get("/healthz?verbose=1")
    found = answer.json()
    assert (answer.status == 200) == (found["status"] == "ok"), found
    assert (found["status"] == "ok") == all(c["status"] == "ok" for c in found["checks"].values())
    return found


def failed(daemon):
    """The checks that fail, with their reasons."""
    return {name: check["reason"] for name, check in detail(daemon)["checks"].items()
            if check["status"] != "ok"}


def ask(port, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_who_may_ask():
    with serving_tcp() as daemon:
        for path in ("/livez", "/readyz"):
            assert ask(daemon.port, path) == (200, "ok")
            # a probe knows an address, not our names
            assert ask(daemon.port, path, Host="10.1.2.3:3986") == (200, "ok")
            assert daemon.get(path).text == "ok"
        assert ask(daemon.port, "/healthz")[0] == 401
        key = {"Authorization": f"Bearer {daemon.key}"}
        assert ask(daemon.port, "/healthz", **key) == (200, "ok")
        status, text = ask(daemon.port, "/healthz", Accept="application/json", **key)
        assert status == 200 and json.loads(text)["status"] == "ok"
        assert ask(daemon.port, "/livez/", Host="x")[0] == 200
        assert ask(daemon.port, "/livez/more", Host="x")[0] in (401, 403)


def test_the_detail(folder):
    with serving(folder) as daemon:
        assert until(lambda: "descriptors.launcher" in detail(daemon)["checks"])
        checks = detail(daemon)["checks"]
        for name in ("database", "rescue", "engine.native", "watcher", "disk.state",
                     "descriptors.front", "descriptors.supervisor"):
            assert checks[name]["status"] == "ok", name
        assert 0 < checks["disk.state"]["left"] <= checks["disk.state"]["total"]
        front = checks["descriptors.front"]
        assert 0 < front["left"] < front["total"]
        assert "engine.docker" not in checks  # nobody uses it


def test_a_hung_launcher(folder):
    with serving(folder) as daemon:
        launcher = daemon.launcher()
        support.suspend(launcher)
        try:
            assert until(lambda: daemon.get("/readyz").status == 503, PATIENCE)
            assert daemon.get("/readyz").text == "not ready"
            assert daemon.get("/livez").status == 200
            assert "has not answered" in failed(daemon)["engine.native"]
            short = daemon.get("/healthz")
            assert short.status == 503 and "has not answered" in short.json()["message"]
            assert daemon.get("/api/health/ready").status == 503
            assert until(lambda: 'event="not ready"' in daemon.log.read_text())
        finally:
            os.kill(launcher, signal.SIGCONT)
        assert until(lambda: daemon.get("/readyz").status == 200, PATIENCE)
        assert failed(daemon) == {}
        assert until(lambda: 'event="ready again"' in daemon.log.read_text())


@pytest.mark.skipif(bool(support.USER), reason="mounting a file system needs root")
def test_no_inodes():
    with own_folder() as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=4000,size=512m,mode=755", "cay-test",
                        folder], check=True)
        try:
            with serving(folder) as daemon:
                filler = folder / "filler"
                filler.mkdir()
                info = os.statvfs(folder)
                for i in range(info.f_favail - 10):
                    (filler / str(i)).touch()
                assert until(lambda: "inodes.state" in failed(daemon))
                assert daemon.get("/healthz").status == 503
                assert daemon.get("/livez").status == 200
                for path in filler.iterdir():
                    path.unlink()
                assert until(lambda: failed(daemon) == {})
        finally:
            # what the daemon started may still close its files
            assert until(lambda: subprocess.run(["umount", folder], stderr=subprocess.DEVNULL).returncode == 0)


def test_no_descriptors(folder):
    """Those that are left for connections are counted, before none is accepted any more. A daemon
    with too few for its sandboxes does not start, so clients use them up."""
    limit = 400
    with serving(folder, env={"CAY_MANAGER_MAX_SANDBOXES": "1"}) as daemon, contextlib.ExitStack() as idle:
        daemon.stop()
        daemon.process = daemon.spawn(
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))
        assert until(daemon.serves)
        assert failed(daemon) == {}
        left = limit - len(os.listdir(f"/proc/{daemon.front()}/fd"))
        for _ in range(left - 30):
            sock = idle.enter_context(socket.socket(socket.AF_UNIX))
            sock.connect(str(daemon.socket))
        assert until(lambda: "descriptors.front" in failed(daemon))
        assert daemon.get("/healthz").status == 503 and daemon.get("/livez").status == 200
        idle.close()
        assert until(lambda: failed(daemon) == {})


def test_an_ending_daemon_is_not_ready(folder):
    """Who holds a connection learns it there; new ones wait for the next daemon."""
    with serving(folder) as daemon:
        box = daemon.create()["id"]
        kept = daemon.http()
        kept.request("GET", "/readyz")
        assert kept.getresponse().read() == b"ok"
        with daemon.connect(box) as c:
            c.exec("sleep", "1000")
            daemon.process.terminate()

            def refused():
                try:
                    kept.request("GET", "/readyz")
                    answer = kept.getresponse()
                    answer.read()
                    return answer.status == 503
                except OSError:  # closed: that is an answer too
                    return True
            assert until(refused)
        assert daemon.process.wait(60) == 0
        daemon.start()
