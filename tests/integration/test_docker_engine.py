"""What is the Docker engine's own: how its containers are made, and what becomes of sandboxes when
Docker, its daemon or a container is not as it was left. What sandboxes promise is in engine/."""

import contextlib
import functools
import http.server
import json
import os
import shutil
import socket
import socketserver
import subprocess
import threading

import hostile_shell
import pytest
import registry
import support
from daemons import Refused, serving
from dockerd import Docker
from docking import Box, container, engine_of, make, refusal  # noqa: F401
from engines import DockerEngine
from launching import until

pytestmark = pytest.mark.skipif(bool(support.USER), reason="dockerd needs root")

engine = engine_of(DockerEngine)


# ---- how containers are made ----

def test_a_container_is_hardened(engine, make):
    box = make(memory=64 << 20, cpus=0.5, pids=50)
    about = container(engine, box)
    host = about["HostConfig"]
    assert host["CapDrop"] == ["ALL"] and "SYS_ADMIN" not in host["CapAdd"]
    assert "no-new-privileges" in " ".join(host["SecurityOpt"])
    assert (host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (64 << 20, 64 << 20, 50)
    assert (host["CpuPeriod"], host["CpuQuota"]) == (100000, 50000)
    assert (host["NetworkMode"], host["Privileged"], host["IpcMode"]) == ("none", False, "private")
    assert host["CgroupnsMode"] == "private"
    seen = box.says("cat /proc/self/cgroup; cat /proc/vmallocinfo /proc/slabinfo /proc/interrupts "
                    "/proc/cmdline /proc/partitions 2>/dev/null; ls /sys/firmware; ls /proc/fs")
    assert all(line.endswith(":/") for line in seen.splitlines()), seen
    assert host["PidMode"] == "" and host["UsernsMode"] == "" and not host["Devices"]
    assert about["Config"]["Labels"]["cay.id"] == box.id
    assert about["Config"]["Labels"]["cay.home"] == str(engine.daemon.state)
    assert all(not m["RW"] for m in about["Mounts"]), about["Mounts"]


def test_attacks_from_inside(make):
    assert hostile_shell.succeeded(make()) == set()


def test_the_way_in_is_closed(engine, make):
    """Nothing of it answers from inside, and nothing can be changed."""
    box = make()
    assert box.says("ls /.cay").split() == ["enter", "made"]
    assert box.sh("echo x > /.cay/enter").code != 0
    assert box.sh("rm /.cay/enter").code != 0
    box.sh("/.cay/enter")  # what a sandbox may try: it finds nobody
    assert box.says("echo fine") == "fine\n"


def test_the_bounding_set_is_empty(make):
    assert "CapBnd:\t0000000000000000" in make().says("grep CapBnd /proc/self/status")


def test_the_profile_build_keeps_rights_over_files(make):
    box = make(profile="build")
    assert box.says("touch /tmp/x && chown 12:34 /tmp/x && stat -c %u:%g /tmp/x") == "12:34\n"
    assert make().sh("touch /tmp/x && chown 12:34 /tmp/x").code != 0


def test_root_inside_cannot_touch_cay_init(make):
    box = make()
    assert "Uid:\t65533\t65533" in box.says("cat /proc/1/status")
    for script in ("cat /proc/1/environ", "readlink /proc/1/fd/3", "cat < /proc/1/fd/3",
                   "readlink /proc/1/exe", "ls /proc/1/root/"):
        assert box.sh(script).code != 0, script


def test_more_isolation_than_docker_has_is_refused(make):
    status, message, remedy = refusal(make, tier="full")
    assert status == 501 and "basic" in message and "native" in remedy


def test_there_is_no_host_image(make):
    status, message, remedy = refusal(make, image="host")
    assert status == 501 and "--image" in remedy


def test_a_disk_limit_is_refused(make):
    assert refusal(make, disk=64 << 20)[0] in (400, 501)


def test_a_volume_that_is_not_the_one_that_was_checked(engine, make):
    """Docker opens folders by name: what it mounted is compared before anything runs."""
    top = engine.folder / "swapped"
    for name in ("one", "two"):
        (top / name).mkdir(parents=True)
    (top / "link").symlink_to("one")
    box = make(volumes=[f"{top}/link:/data"])
    box.do("stop")
    (top / "link").unlink()
    (top / "link").symlink_to("two")
    with pytest.raises(Refused) as refused:
        box.do("start")
    assert "volumes" in refused.value.error["message"]
    (top / "link").unlink()
    (top / "link").symlink_to("one")
    box.do("start")
    assert box.says("echo x > /data/file && cat /data/file") == "x\n"


def back_up(engine, box):
    """Until it is done; what came of it."""
    engine.daemon.call("POST", f"/api/sandbox/{box.id}/backup", {})
    about = functools.partial(engine.daemon.call, "GET", f"/api/sandbox/{box.id}")
    assert until(lambda: about()["backupState"] in ("Completed", "Error"), 60)
    return about()["backupState"]


def pins(engine):
    return dict(p.name.split(".") for p in engine.daemon.state.glob("**/pins/*"))


def images(engine):
    return engine.docker("images", "-q", "--no-trunc").split()


def test_a_backup_brings_back_what_docker_lost(engine, make):
    """Of a sandbox that runs on; the last one counts; in cay's store, not in Docker."""
    box = make()
    before = images(engine)
    for text in ("one", "two"):
        assert box.says(f"echo {text} > /kept; sleep 1000 >/dev/null 2>&1 & echo $! > /pid; cat /kept") == f"{text}\n"
        assert back_up(engine, box) == "Completed"
        assert box.sh("kill -0 $(cat /pid)").code == 0
    assert images(engine) == before and f"backup-{box.id}" in pins(engine)
    kept = pins(engine)[f"backup-{box.id}"]  # its owner's alone
    for name in (kept, f"sha256:{kept}", f"sha256:{kept[:8]}"):
        assert refusal(make, image=name)[0] == refusal(make, image=name, engine="native")[0] == 404
    box.sh("echo three > /kept")
    engine.docker("rm", "-f", f"cay-{box.id}")
    assert until(lambda: box.info()["state"] in ("stopped", "error"))
    box.do("start")
    assert box.says("cat /kept") == "two\n"
    box.do("stop")
    box.do("start")
    assert box.says("cat /kept") == "two\n"
    assert "backup" in json.dumps(engine.daemon.call("GET", f"/api/cay/sandbox/{box.id}/events"))
    box.remove()
    assert images(engine) == before and f"backup-{box.id}" not in pins(engine)


def test_of_backups_only_the_last_is_kept(engine, make):
    """Also if somebody was killed after he had kept a new one, and before he let the old one go."""
    box = make()
    assert back_up(engine, box) == "Completed"
    folder = next(engine.daemon.state.glob("**/pins"))
    first = {p.name for p in folder.glob(f"backup-{box.id}.*")}
    left = [f"backup-{box.id}.{digit * 64}" for digit in "05f"]
    for name in left:
        (folder / name).touch()
    assert back_up(engine, box) == "Completed"
    last = {p.name for p in folder.glob(f"backup-{box.id}.*")}
    assert len(first) == len(last) == 1 and not last & {*first, *left}
    (folder / left[0]).touch()
    box.remove()
    assert list(folder.glob(f"backup-{box.id}.*")) == []


def test_the_doctor_looks_at_it(engine):
    found = {row["name"]: row for row in json.loads(engine.cay("doctor", "-o", "json").stdout)["docker"]}
    assert found["docker"]["ok"] and engine.docker.address in found["docker"]["detail"]
    for limit in ("memory limit", "cpu limit", "process limit"):
        assert found[limit]["ok"], found[limit]
    assert not found["disk limit"]["ok"] and "pquota" in found["disk limit"]["remedy"]
    assert found["control groups"]["ok"] and "by cgroupfs" in found["control groups"]["detail"]
    assert found["network bridge"]["ok"] and found["place"]["ok"]
    assert found["seccomp"]["ok"] and not found["own ids"]["ok"] and "userns-remap" in found["own ids"]["remedy"]
    assert "API 1." in found["docker"]["detail"]


# ---- what others do to it ----

def test_a_container_killed_behind_our_back(engine, make):
    box = make()
    box.put("/workspace/kept", b"kept")
    engine.docker("kill", f"cay-{box.id}")
    assert until(lambda: box.info()["state"] in ("stopped", "error")), box.info()
    box.do("start")
    assert box.get("/workspace/kept") == b"kept"


def test_a_container_removed_behind_our_back(engine, make):
    box = make()
    engine.docker("rm", "-f", f"cay-{box.id}")
    assert until(lambda: box.info()["state"] in ("stopped", "error")), box.info()
    status, message, remedy = refusal(box.do, "start")
    assert "removed from Docker" in message and "make another" in remedy
    box.remove()
    assert not (engine.daemon.state / "docker" / box.id).exists()


def plant(engine, ident, home):
    """A container with our labels that we did not make; its name."""
    engine.docker("create", "--network", "none", "--name", f"cay-{ident}", "--label",
                  f"cay.id={ident}", "--label", f"cay.home={home}",
                  engine.docker("images", "-q", "cay").split()[0], "true")
    return f"cay-{ident}"


def test_a_container_that_nobody_knows_goes(engine, make):
    """One of ours without a record: its daemon was ended between the two."""
    make()
    ident = "00000000000000aa"
    plant(engine, ident, engine.daemon.state)
    engine.daemon.stop()
    engine.daemon.start()
    assert until(lambda: f"cay-{ident}" not in engine.docker("ps", "-a", "--format", "{{.Names}}"))


def test_a_container_of_another_state_folder_stays(engine, make):
    make()
    name = plant(engine, "00000000000000bb", "/elsewhere")
    try:
        engine.daemon.stop()
        engine.daemon.start()
        make()  # it has looked at what there is
        assert name in engine.docker("ps", "-a", "--format", "{{.Names}}")
    finally:
        engine.docker("rm", name)


def test_a_container_of_another_with_our_name(engine, make):
    """As with a copy of a state folder: it is neither started, nor stopped, nor removed."""
    box = make()
    box.do("stop")
    engine.docker("rm", f"cay-{box.id}")
    name = plant(engine, box.id, "/elsewhere")
    try:
        status, message, remedy = refusal(box.do, "start")
        assert status == 409 and name in message and name in remedy
        box.remove()
        assert json.loads(engine.docker("inspect", name))[0]["State"]["Status"] == "created"
    finally:
        engine.docker("rm", name)


def test_an_image_removed_from_docker(engine, make):
    """What was made from it stays usable, and the next one brings it again."""
    box = make()
    box.do("stop")
    engine.docker("rmi", "-f", *engine.docker("images", "-q", "cay").split())
    other = make()
    assert other.says("echo loaded") == "loaded\n"
    box.do("start")
    assert box.says("echo started") == "started\n"


# ---- a disk that is full ----

class SmallDocker(Docker):
    """One whose data lie on a small file system."""

    def start(self):
        data = self.home / "data"
        if not os.path.ismount(data):
            data.mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", data], check=True)
        super().start()

    def fill(self):
        """Leaves next to nothing; what was written, to be removed again."""
        path = self.home / "data/filler"
        with open(path, "wb", buffering=0) as f, contextlib.suppress(OSError):
            while f.write(bytes(4096)) == 4096:
                pass
        return path


class SmallEngine(DockerEngine):
    peer = SmallDocker


@pytest.fixture(scope="module")
def small():
    why = SmallEngine.missing()
    if why:
        pytest.skip(why)
    found = SmallEngine()
    try:
        found.start()
        yield found
    finally:
        found.close()


def test_a_pull_that_finds_no_room(small, folder):
    image = registry.make_image(folder, [{"large": os.urandom(8 << 20)}], docker=True)
    with registry.fake(image) as server:
        before = small.traces()
        filler = small.docker.fill()
        status, message, remedy = refusal(small.daemon.call, "POST", "/api/cay/sandbox",
                                          {"image": server.name("large:1")})
        assert status == 507 and "no space left on device" in message and "room" in remedy
        assert until(lambda: small.traces() <= before), small.traces() - before
        filler.unlink()


def test_docker_s_disk_is_full(small):
    """What needs it fails with the reason and leaves nothing; with room again, all is as before."""
    ask = functools.partial(small.daemon.call, "POST", "/api/cay/sandbox", {"image": small.main})
    before = small.traces()
    filler = small.docker.fill()
    status, message, remedy = refusal(ask)
    assert status >= 500 and "no space left on device" in message and "room" in remedy
    assert until(lambda: small.traces() <= before), small.traces() - before
    filler.unlink()
    box = Box(small, ask())
    filler = small.docker.fill()
    done = box.sh("dd if=/dev/zero of=/workspace/large bs=1024 count=200000")
    assert done.code != 0 and b"No space left" in done.err
    assert box.says("echo usable") == "usable\n" and box.info()["state"] == "started"
    filler.unlink()
    assert box.says("rm -f /workspace/large; echo x > /workspace/x; cat /workspace/x") == "x\n"


# ---- a Docker that can limit disks ----

class QuotaDocker(Docker):
    """One whose data lie on a file system with quotas."""

    def start(self):
        data, disk = self.home / "data", self.home / "disk"
        if not os.path.ismount(data):
            data.mkdir()
            with open(disk, "wb") as f:
                f.truncate(512 << 20)
            subprocess.run(["mkfs.btrfs", "-q", disk], check=True)
            done = subprocess.run(["mount", "-o", "loop", disk, data], stderr=subprocess.PIPE)
            if done.returncode != 0:
                pytest.skip(f"no btrfs here: {done.stderr.decode()}")
        super().start()

    def options(self):
        return ["--storage-driver", "btrfs"]

    def stop(self):
        self.stop_daemon()
        super().stop()
        subprocess.run(["umount", self.home / "data"], check=False)


class QuotaEngine(DockerEngine):
    peer = QuotaDocker

    @classmethod
    def missing(cls):
        return super().missing() or ("" if shutil.which("mkfs.btrfs") else "btrfs-progs is not installed: "
                                     "scripts/setup --test")


with_quotas = engine_of(QuotaEngine)


def test_a_disk_that_is_limited(with_quotas):
    """Where Docker's storage can: it bites, stays over a stop, and is told."""
    ask = functools.partial(with_quotas.daemon.call, "POST", "/api/cay/sandbox")
    box = Box(with_quotas, ask({"image": with_quotas.main, "disk": 16 << 20}))
    other = Box(with_quotas, ask({"image": with_quotas.main}))
    try:
        for _ in range(2):
            done = box.sh("dd if=/dev/zero of=/large bs=65536 count=512")
            assert done.code != 0 and (b"No space" in done.err or b"quota" in done.err), done.err
            assert box.stats()["diskLimit"] == 16 << 20 and box.info()["disk"] == 16 << 20
            assert box.says("rm -f /large; echo x > /small; cat /small") == "x\n"
            box.do("stop")
            box.do("start")
        assert other.sh("dd if=/dev/zero of=/large bs=65536 count=512").code == 0
        assert other.stats()["diskLimit"] == 0
        assert refusal(with_quotas.daemon.call, "POST", f"/api/cay/sandbox/{box.id}/resize",
                       {"disk": 32 << 20})[0] in (400, 501)
    finally:
        box.remove()
        other.remove()
    done = with_quotas.cay("run", "--engine", "docker", "--image", with_quotas.main, "--disk", "16m", "--",
                           "dd", "if=/dev/zero", "of=/large", "bs=65536", "count=512")
    assert done.returncode == 1 and (b"No space" in done.stderr or b"quota" in done.stderr), done
    found = {row["name"]: row
             for row in json.loads(with_quotas.cay("doctor", "-o", "json").stdout)["docker"]}
    assert found["disk limit"]["ok"] and "btrfs" in found["disk limit"]["detail"]


# ---- ends of processes ----

def test_the_launcher_is_killed(engine, make):
    """Sandboxes do not notice; the next one finds them."""
    box = make()
    engine.daemon.kill_child("cay-docker")
    assert box.says("echo here") == "here\n"
    assert until(lambda: box.engine.daemon.ask("POST", f"/api/cay/sandbox/{box.id}/stop",
                                               {}).status == 200, 20)
    box.do("start")
    assert box.says("echo again") == "again\n"


def test_docker_ends_and_comes_back(engine, make):
    box = make()
    box.put("/workspace/kept", b"kept")
    engine.docker.stop_daemon()
    engine.docker.start()
    assert until(lambda: box.info()["state"] in ("stopped", "error")), box.info()
    box.do("start")
    assert box.get("/workspace/kept") == b"kept"


# ---- a Docker that cannot be used ----

def refused_start(state, address, **env):
    """What the daemon says, which ends at once."""
    done = subprocess.run([support.BUILD / "cayd", "--state-dir", state],
                          env={"PATH": "/usr/bin:/bin", "CAY_SANDBOX_ENGINE": "docker",
                               "DOCKER_HOST": address, **env},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=60)
    assert done.returncode != 0
    return done.stderr.decode().splitlines()[-1]


@pytest.mark.parametrize("address, parts", [
    ("unix:///nowhere/docker.sock", ["there is no Docker at unix:///nowhere/docker.sock", "dockerd"]),
    ("tcp://127.0.0.1:1", ["Docker at tcp://127.0.0.1:1 does not answer", "dockerd"]),
    ("ssh://host", ["DOCKER_HOST", "ssh -N -L 2375:", "tcp://127.0.0.1:2375"]),
])
def test_no_docker(folder, address, parts):
    said = refused_start(folder / "state", address)
    assert said.startswith("cay: ") and all(part in said for part in parts), said


def test_a_docker_that_may_not_be_used(folder):
    """By a daemon of an ordinary user."""
    programs = folder / "programs"
    programs.mkdir()
    for program in ("cayd", "cay-docker", "cay-image"):  # a build folder may be closed to others
        shutil.copy(support.BUILD / program, programs)
    (folder / "state").mkdir()
    shutil.chown(folder / "state", "nobody")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(folder / "docker.sock"))
        (folder / "docker.sock").chmod(0o600)
        sock.listen()
        done = subprocess.run(["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups",
                               programs / "cayd", "--state-dir", folder / "state"],
                              env={"PATH": "/usr/bin:/bin", "CAY_SANDBOX_ENGINE": "docker",
                                   "DOCKER_HOST": f"unix://{folder}/docker.sock"},
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60)
    said = done.stderr.decode().splitlines()[-1]
    assert done.returncode != 0 and "may not be used" in said and "group docker" in said, said


def test_nobody_listens(folder):
    """As where dockerd was killed: its socket is still there."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(folder / "docker.sock"))
    said = refused_start(folder / "state", f"unix://{folder}/docker.sock")
    assert "nobody listens there" in said and "start dockerd" in said, said


class Relay(socketserver.ThreadingUnixStreamServer):
    """Passes connections on to Docker, until it cuts them all."""

    daemon_threads = True

    def __init__(self, path, target):
        self.target = target
        self.open = []
        super().__init__(str(path), Relay.Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def cut(self):
        for sock in self.open:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            with socket.socket(socket.AF_UNIX) as other:
                other.connect(self.server.target)
                self.server.open += [self.request, other]
                threading.Thread(target=self.carry, args=(other, self.request), daemon=True).start()
                self.carry(self.request, other)

        @staticmethod
        def carry(source, target):
            with contextlib.suppress(OSError):
                while data := source.recv(65536):
                    target.sendall(data)
                target.shutdown(socket.SHUT_WR)


def test_its_log_in_json(engine, folder):
    """cay-docker logs as the daemon does that started it."""
    sock = folder / "relay.sock"
    with Relay(sock, engine.docker.address.removeprefix("unix://")) as relay, \
            serving(folder, "--log-format", "json",
                    env={"CAY_SANDBOX_ENGINE": "docker", "DOCKER_HOST": f"unix://{sock}"}) as daemon:
        assert until(lambda: daemon.call("GET", "/api/cay/status")["version"])
        for _ in range(60):  # the stream of events may not have begun
            relay.cut()
            if until(lambda: "tells of no ends" in daemon.log.read_text(), 1):
                break
        lines = [json.loads(line) for line in daemon.log.read_text().splitlines()]
        assert any("tells of no ends" in line["event"] for line in lines), lines
        relay.shutdown()


class Old(http.server.BaseHTTPRequestHandler):
    body = b'{"ApiVersion": "1.30"}'
    status = 200

    def do_GET(self):
        body = self.body
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self):
        return "local"

    def log_message(self, *_):
        pass


class Other(Old):
    body = b"<html>It works!</html>"


class OtherWithout(Other):
    status = 404


@pytest.mark.parametrize("kind, parts", [(Old, ["1.30", "19.03"]),
                                         (Other, ["is not Docker", "set DOCKER_HOST"]),
                                         (OtherWithout, ["is not Docker", "set DOCKER_HOST"])])
def test_what_answers_is_too_old_or_another(folder, kind, parts):
    with socketserver.ThreadingUnixStreamServer(str(folder / "sock"), kind) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        said = refused_start(folder / "state", f"unix://{folder}/sock")
        server.shutdown()
    assert all(part in said for part in parts), said
