"""One daemon with both engines: each sandbox says which, and one engine that is away harms nothing of
the other."""

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest
import support
from docking import engine_of, make, refusal  # noqa: F401
from engines import DockerEngine
from launching import until

pytestmark = pytest.mark.skipif(bool(support.USER), reason="dockerd needs root")


class Both(DockerEngine):
    """The native one unless a sandbox says otherwise."""

    def start(self):
        super().start()
        self.begin("native")

    def begin(self, default):
        """The daemon anew, with this engine for sandboxes that do not say."""
        self.end_daemon()
        self.env["CAY_SANDBOX_ENGINE"] = default
        self.daemon.start()


engine = engine_of(Both)


def helpers(engine, name):
    """Programs of the daemon."""
    pid = engine.daemon.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(c) for c in children if Path(f"/proc/{c}/comm").read_text() == f"{name}\n"]


def rows(engine):
    return {row["id"]: row for row in engine.daemon.call("GET", "/api/cay/sandbox")}


def test_docker_is_started_when_it_is_asked_for(engine, make):
    assert helpers(engine, "cay-docker") == [] and len(helpers(engine, "cay-launcher")) == 1
    box = make(engine="docker")
    assert len(helpers(engine, "cay-docker")) == 1
    assert box.says("ls -d /.cay") == "/.cay\n"


def test_both_side_by_side(engine, make):
    one, other = make(image="host"), make(engine="docker")
    assert one.says("echo $0 native") != other.says("echo here; ls -d /.cay")
    found = rows(engine)
    assert (found[one.id]["engine"], found[other.id]["engine"]) == ("native", "docker")
    assert (found[one.id]["tier"], found[other.id]["tier"]) == ("full", "basic")
    assert found[one.id]["disk"] > 0 and found[other.id]["disk"] == 0
    table = engine.cay("ls").stdout.decode().splitlines()
    assert "ENGINE" in table[0] and any(re.search(rf"{other.id}.*docker$", line) for line in table)
    assert re.search(r"engine *docker", engine.cay("info", other.id).stdout.decode())
    for box in (one, other):
        box.do("pause")
        box.do("resume")
        box.do("stop")
        box.do("start")
        assert box.says("echo again") == "again\n"
    one.remove()
    assert other.says("echo stays") == "stays\n"


def test_the_command_line_chooses(engine):
    done = engine.cay("create", "--engine", "docker", "--image", engine.main, "--name", "by-cli")
    support.ok(done)
    assert json.loads(engine.cay("info", "-o", "json", "by-cli").stdout)["engine"] == "docker"
    assert engine.cay("exec", "by-cli", "--", "ls", "-d", "/.cay").stdout == b"/.cay\n"
    support.ok(engine.cay("rm", "--force", "by-cli"))


def test_what_an_engine_cannot_do(engine, make):
    status, message, remedy = refusal(make, engine="docker", disk="1g")
    assert status == 501 and "Docker engine limits no disks" in message and "native" in remedy
    status, message, _ = refusal(make, engine="docker", image="host")
    assert status == 501 and "host image" in message
    status, message, remedy = refusal(make, engine="other")
    assert status == 400 and "other" in message and "docker" in remedy
    volume = engine.daemon.call("POST", "/api/cay/volumes", {"name": "shared"})
    status, message, _ = refusal(make, engine="docker", volumes=["shared:/data"])
    assert status == 501 and "engine native" in message
    engine.daemon.call("DELETE", f"/api/cay/volumes/{volume['id']}")
    assert rows(engine) == {}


def test_limits_count_both(engine, make):
    engine.env["CAY_MANAGER_MAX_SANDBOXES"] = "1"
    try:
        engine.begin("native")
        make(engine="docker")
        _, message, _ = refusal(make, image="host")
        assert "Maximum number of sandboxes (1)" in message
    finally:
        del engine.env["CAY_MANAGER_MAX_SANDBOXES"]
        engine.begin("native")


def test_the_helper_is_killed(engine, make):
    """Its sandboxes do not notice, and the next request has another one."""
    box = make(engine="docker")
    os.kill(helpers(engine, "cay-docker")[0], signal.SIGKILL)
    assert box.says("echo lives") == "lives\n"
    assert until(lambda: box.stats()["memoryLimit"] > 0)
    box.do("stop")
    box.do("start")
    assert box.says("echo lives") == "lives\n"


def test_the_daemon_comes_back(engine, make):
    one, other = make(image="host"), make(engine="docker")
    engine.daemon.kill()
    engine.daemon.start()
    assert one.says("echo one") == "one\n" and other.says("echo other") == "other\n"


def test_docker_is_away(engine, make):
    """Nothing of its sandboxes is changed or removed, and they say why nothing can be done."""
    one, other = make(image="host"), make(engine="docker")
    other.says("echo kept > /workspace/file")
    engine.daemon.kill()
    engine.docker.stop_daemon()
    try:
        engine.daemon.start()
        assert one.says("echo works") == "works\n"
        assert rows(engine)[other.id]["state"] == "started"
        events = engine.daemon.call("GET", f"/api/cay/sandbox/{other.id}/events")
        assert any("engine docker is away" in e["text"] for e in events), events
        assert until(lambda: engine.daemon.get("/healthz").status == 503)
        checks = engine.daemon.get("/healthz?verbose").json()["checks"]
        assert checks["engine.docker"]["status"] == "fail" and checks["engine.docker"]["reason"]
        assert checks["engine.native"]["status"] == "ok"
        assert engine.daemon.get("/readyz").status == 200  # the default engine works
        status, message, remedy = refusal(other.do, "stop")
        assert status == 503 and "socket" in message and remedy
        assert other.id in rows(engine)
        status, _, _ = refusal(make, engine="docker")  # of which nothing is left
        assert status == 503 and set(rows(engine)) == {one.id, other.id}
    finally:
        engine.docker.start()
    assert until(lambda: engine.daemon.get("/healthz").status == 200, 90)
    assert until(lambda: rows(engine)[other.id]["state"] != "started")
    other.do("start")
    assert other.says("cat /workspace/file") == "kept\n"


def test_docker_hangs(engine, make):
    """It takes connections and never answers: what is native is served meanwhile, and what is not says why."""
    one, other = make(image="host"), make(engine="docker")
    engine.daemon.kill()
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        before = engine.env["DOCKER_HOST"]
        engine.env["DOCKER_HOST"] = f"tcp://127.0.0.1:{mute.getsockname()[1]}"
        try:
            began = time.monotonic()
            engine.daemon.start()
            assert one.says("echo served") == "served\n"
            assert time.monotonic() - began < 60  # an answer is waited for as long as that, elsewhere
            assert rows(engine)[other.id]["state"] == "started"
            path = f"/api/cay/sandbox/{other.id}/events"
            assert until(lambda: any("engine docker is away" in e["text"] and "does not answer" in e["text"]
                                     for e in engine.daemon.call("GET", path)), 60)
            one.do("stop")
            one.do("start")
        finally:
            engine.env["DOCKER_HOST"] = before
            engine.daemon.kill()
    engine.daemon.start()
    assert other.says("echo lives") == "lives\n"


def test_a_new_database_and_containers_of_before(engine, make):
    """Whose they are nobody knows any more: they are not taken for what was left, and removed."""
    box = make(engine="docker")
    engine.daemon.stop()
    kept = engine.daemon.state / "kept"
    (engine.daemon.state / "daemon").rename(kept)
    try:
        engine.daemon.start()
        assert rows(engine) == {} and len(engine.docker("ps", "-q").split()) == 1
        assert until(lambda: "an engine is left alone" in engine.daemon.log.read_text())
        assert len(engine.docker("ps", "-q").split()) == 1
    finally:
        engine.daemon.stop()
        shutil.rmtree(engine.daemon.state / "daemon")
        kept.rename(engine.daemon.state / "daemon")
    engine.daemon.start()
    assert box.says("echo known") == "known\n"


def test_what_nobody_knows_is_removed(engine, make):
    """Of the other engine too, although no sandbox of it is known."""
    box = make(engine="docker")
    engine.daemon.kill()
    with sqlite3.connect(engine.daemon.state / "daemon/cay.db") as db:
        db.execute("DELETE FROM sandbox WHERE id = ?", (box.id,))
    engine.daemon.start()
    assert until(lambda: engine.docker("ps", "-aq").split() == [])
    assert list((engine.daemon.state / "docker").glob("0*")) == []


def test_the_other_way_round(engine, make):
    """Docker unless a sandbox says otherwise."""
    engine.begin("docker")
    try:
        assert helpers(engine, "cay-launcher") == []
        one, other = make(), make(engine="native", image="host")
        assert len(helpers(engine, "cay-launcher")) == 1
        found = rows(engine)
        assert (found[one.id]["engine"], found[other.id]["engine"]) == ("docker", "native")
        assert found[other.id]["tier"] == "full" and found[other.id]["disk"] > 0
        assert other.says("echo inside") == "inside\n"
        one.remove()
        other.remove()
    finally:
        engine.begin("native")


def test_the_configured_engine_is_changed(engine, make):
    """Neither takes what the other has for lost."""
    one, other = make(image="host"), make(engine="docker")
    for default in ("docker", "native"):
        engine.begin(default)
        assert one.says("echo one") == "one\n" and other.says("echo other") == "other\n"


def images(engine):
    return set(engine.docker("images", "-aq", "--no-trunc").split())


def test_an_archive(engine, make):
    """What was written, changed and removed, with owners and links; the container is gone meanwhile."""
    before = images(engine)
    box = make(engine="docker", profile="build")
    box.says("echo kept > /workspace/file; rm /etc/group; ln -s file /workspace/link; mkdir /data; "
             "touch /data/x; chown 12:34 /data/x")
    box.do("archive")
    assert rows(engine)[box.id]["state"] == "archived" and rows(engine)[box.id]["archiveSize"] > 0
    assert engine.docker("ps", "-aq").split() == []
    engine.daemon.kill()
    engine.daemon.start()
    assert rows(engine)[box.id]["state"] == "archived"
    for turn in range(2):  # what is archived again has all of it
        box.do("start")
        assert box.says("cat /workspace/link; stat -c %u:%g /data/x; test -e /etc/group || echo gone") == \
            "kept\n12:34\ngone\n"
        box.says(f"echo {turn} >> /workspace/turns")
        box.do("archive")
    box.do("start")
    assert box.says("cat /workspace/turns") == "0\n1\n"
    box.remove()
    assert images(engine) == before


def test_an_archived_one_is_removed(engine, make):
    before = images(engine)
    box = make(engine="docker")
    box.do("archive")
    box.remove()
    assert images(engine) == before and list((engine.daemon.state / "images/pins").glob("*")) == []


def test_a_snapshot(engine, make):
    """An image of cay's store, for either engine, with what its own image said of commands."""
    box = make(engine="docker")
    box.says("echo kept > /workspace/file")
    support.ok(engine.cay("snapshot", "create", box.id, "of-docker"))
    assert rows(engine)[box.id]["state"] == "started" and box.says("echo on") == "on\n"
    about = json.loads(engine.cay("image inspect", "of-docker").stdout)
    assert "/.cay" not in json.dumps(about)
    for kind in ("docker", "native"):
        copy = make(engine=kind, image="of-docker")
        assert copy.says("cat /workspace/file; echo $FROM_IMAGE") == "kept\nyes\n"
        copy.remove()
    assert engine.cay("snapshot", "create", box.id, "of-docker").returncode != 0  # the name is taken
    box.remove()
    support.ok(engine.cay("image rm", "of-docker"))


def test_nothing_is_left(engine):
    assert rows(engine) == {}
    assert engine.docker("ps", "-aq").split() == []
    assert subprocess.run(engine.command("cay", "ls", "--state-dir", engine.daemon.state), env=engine.env,
                          stdout=subprocess.PIPE, timeout=60).returncode == 0
