"""The runtime of containers ([docker] runtime): that it is passed on, what an unknown one gives, and
gVisor's, whose sandboxes have a kernel of their own. What sandboxes promise with it is in engine/."""

import contextlib
import json
import platform
import shutil
import subprocess

import hostile_shell
import pytest
import support
from dockerd import RuntimesDocker
from docking import Box, container, make, opened, refusal  # noqa: F401
from engines import DockerEngine, DockerRunscEngine
from launching import until

pytestmark = pytest.mark.skipif(bool(support.USER), reason="dockerd needs root")


class OtherDocker(RuntimesDocker):
    """runc under a name that nobody else uses, and under one that it does not deserve."""

    program = shutil.which("runc") or "runc"
    runtimes = {"another": (program,), "runsc-false": (program,)}


class OtherEngine(DockerEngine):
    peer = OtherDocker

    def start(self):
        self.env["CAY_DOCKER_RUNTIME"] = "another"
        super().start()


@pytest.fixture(scope="module")
def engine():
    with opened(OtherEngine) as found:
        yield found


def cay(engine, *words, **more):
    env = {**engine.env, **more.pop("env", {})}
    return subprocess.run([support.CAY, *words], env=env, text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=120)


def run(engine, runtime, *words):
    return cay(engine, "run", "--state-dir", engine.daemon.state, "--engine", "docker", "--image",
               engine.main, *words, env={"CAY_DOCKER_RUNTIME": runtime})


def test_the_runtime_is_docker_s(engine, make):
    box = make()
    assert container(engine, box)["HostConfig"]["Runtime"] == "another"
    assert engine.daemon.call("GET", f"/api/cay/sandbox/{box.id}")["tier"] == "basic"
    assert box.says("echo fine") == "fine\n"
    box.do("stop")
    box.do("start")
    assert box.says("echo fine") == "fine\n"


def test_no_tier_above_basic_by_a_name(engine):
    """Neither by a name that is not known, nor by one that is not the program's."""
    status, message, remedy = refusal(engine.daemon.call, "POST", "/api/cay/sandbox",
                                      {"image": engine.main, "tier": "rootless"})
    assert status == 501 and "Docker gives tier basic" in message and "--tier basic" in remedy
    done = run(engine, "runsc-false", "--", "true")
    assert done.returncode != 0 and "'runsc-false' is the program" in done.stderr, done.stderr


def test_an_unknown_runtime(engine):
    done = run(engine, "nosuch", "--", "true")
    assert done.returncode != 0, done.stdout
    assert "Docker has no runtime 'nosuch'; it has" in done.stderr and "another" in done.stderr
    assert "daemon.json" in done.stderr and "Traceback" not in done.stderr
    assert engine.docker("ps", "-aq").split() == [] or "nosuch" not in engine.docker("ps", "-a")


def test_an_invalid_name(engine):
    for name in ("a b", "../runc", "-x", "x" * 65):
        done = run(engine, name, "--", "true")
        assert done.returncode != 0 and "is not a runtime's name" in done.stderr, (name, done.stderr)


def test_doctor_lists_them(engine):
    rows = json.loads(cay(engine, "doctor", "-o", "json").stdout)["docker"]
    found = {row["name"]: row for row in rows}
    assert "another" in found["runtimes"]["detail"] and "runc (default)" in found["runtimes"]["detail"]
    assert found["runtime"]["ok"] and found["runtime"]["detail"] == "another, tier basic"
    rows = json.loads(cay(engine, "doctor", "-o", "json",
                          env={"CAY_DOCKER_RUNTIME": "nosuch"}).stdout)["docker"]
    bad = {row["name"]: row for row in rows}["runtime"]
    assert not bad["ok"] and "no runtime 'nosuch'" in bad["detail"] and "daemon.json" in bad["remedy"]


# ---- gVisor ----

@pytest.fixture(scope="module")
def gvisor():
    """Skips, with the reason, where runsc is not installed."""
    with opened(DockerRunscEngine) as found:
        yield found


@pytest.fixture(scope="module")
def box(gvisor):
    return Box(gvisor, gvisor.daemon.call("POST", "/api/cay/sandbox", {"image": gvisor.main}))


def test_a_kernel_of_its_own(gvisor, box):
    """The tier is higher, and the host's kernel is not the one inside."""
    about = gvisor.daemon.call("GET", f"/api/cay/sandbox/{box.id}")
    assert about["tier"] == "rootless" and about["engine"] == "docker"
    host = container(gvisor, box)["HostConfig"]
    assert (host["Runtime"], host["NetworkMode"], host["Privileged"]) == ("runsc", "none", False)
    assert platform.release() not in box.says("cat /proc/version; uname -r")


def test_attacks_from_inside(box):
    """A separate kernel has few of the things that they look for."""
    assert hostile_shell.succeeded(box) == set()


def test_commands_have_no_rights(box):
    status = dict(line.split(":\t", 1) for line in box.says("cat /proc/self/status").splitlines()
                  if ":\t" in line)
    assert {status[k] for k in ("CapPrm", "CapEff", "CapInh")} == {"0" * 16}
    assert status["Seccomp"].strip() == "2"


def test_the_way_in_is_closed(box):
    """cay-init's socket is in a mount that only its id may enter; nothing of it can be changed."""
    assert box.sh("ls /.cay-way").code != 0 and box.sh("cat /.cay-way/init").code != 0
    assert box.sh("chmod 777 /.cay-way").code != 0 and box.sh("mv /.cay-way /w").code != 0
    assert box.sh("echo x > /.cay/init").code != 0
    assert box.sh("id", USER="65533").code != 0
    assert box.says("echo fine") == "fine\n"


@pytest.mark.parametrize("wish, words", [
    ({"tier": "full"}, "Docker gives tier rootless"),
    ({"profile": "build"}, "no profile build"),
    ({"network": "allow=example.org"}, "kernel of its own"),
    ({"network": "bridge"}, "kernel of its own"),
    ({"volumes": ["/tmp:/v"]}, "kernel of its own"),
])
def test_what_is_refused(gvisor, wish, words):
    status, message, _ = refusal(gvisor.daemon.call, "POST", "/api/cay/sandbox",
                                 {"image": gvisor.main, **wish})
    assert status in (400, 501) and words in message, message


def test_run(gvisor):
    done = run(gvisor, "runsc", "--tier", "rootless", "-o", "json", "--", "uname", "-r")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["tier"] == "rootless" and told["stdout"].startswith("4.")


@pytest.mark.parametrize("limit, script", [
    ({"memory": 96 << 20}, "head -c 900m /dev/zero | tail -c 800m | wc -c"),
    ({"pids": 48}, "for i in $(seq 200); do sleep 1000 & done; wait"),
])
def test_a_limit_ends_the_sandbox(gvisor, limit, script):
    """It is kept by ending everything: the kernel inside is one process of the host. Others do not
    notice."""
    one = Box(gvisor, gvisor.daemon.call("POST", "/api/cay/sandbox", {"image": gvisor.main, **limit}))
    try:
        with contextlib.suppress(AssertionError, OSError):  # the connection breaks off
            with one.command("sh", "-c", script) as command:
                command.end()
        assert until(lambda: one.info()["state"] == "error"), one.info()
        assert one.info()["errorReason"]
        one.do("start")
        assert one.says("echo usable") == "usable\n"
    finally:
        one.remove()


def test_limits_of_what_runs_stay(gvisor, box):
    status, message, remedy = refusal(gvisor.daemon.call, "POST",
                                      f"/api/sandbox/{box.id}/resize", {"memory": 2})
    assert status == 501 and "cannot change the limits of what runs" in message, message
    assert "stop the sandbox" in remedy


def test_another_kernel_after_a_restart(gvisor, box):
    """A container keeps its runtime: with another one configured it is not started as if it had that,
    and what runs goes on to be reached."""
    low = Box(gvisor, gvisor.daemon.call("POST", "/api/cay/sandbox",
                                         {"image": gvisor.main, "tier": "basic"}))
    gvisor.daemon.stop()
    gvisor.env["CAY_DOCKER_RUNTIME"] = ""
    gvisor.daemon.start()
    try:
        for one in (box, low):
            assert one.says("echo reached") == "reached\n"
            one.do("stop")
        status, message, _ = refusal(box.do, "start")
        assert status == 501 and "tier rootless was asked for" in message
        status, message, remedy = refusal(low.do, "start")
        assert status == 409 and "runtime that has its own kernel" in message and "[docker]" in remedy
    finally:
        gvisor.daemon.stop()
        gvisor.env["CAY_DOCKER_RUNTIME"] = "runsc"
        gvisor.daemon.start()
    for one in (box, low):
        one.do("start")
        assert one.says("echo again") == "again\n"
        one.remove()
