"""A host disk that is nearly full, or full: new writes are refused in time, nothing that was
acknowledged is lost, and what happened is reported."""

import contextlib
import json
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest
import support
from daemons import Refused, serving
from launching import until
from stressing import FULL

pytestmark = support.as_root_only

MB = 1 << 20


@pytest.fixture
def small_disk(folder):
    """A file system of 320 MB for a state folder."""
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=320m,nr_inodes=20k,mode=755", "full", disk],
                   check=True)
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def free(disk):
    fs = os.statvfs(disk)
    return fs.f_bavail * fs.f_frsize


def fill(disk, leave):
    """A file that leaves so many bytes."""
    ballast = disk / "ballast"
    with open(ballast, "wb") as f:
        os.posix_fallocate(f.fileno(), 0, free(disk) - leave)
    return ballast


def form(name, content):
    """The body and the type of a form with one file."""
    body = (b'--x\r\nContent-Disposition: form-data; name="file"; filename="%s"\r\n\r\n%s\r\n--x--\r\n'
            % (name.encode(), content))
    return body, "multipart/form-data; boundary=x"


def upload(daemon, box, path, content):
    body, kind = form("f", content)
    return daemon.ask("POST", f"/toolbox/{box}/files/upload?path={path}", body, Content_Type=kind)


# ---- the reserve ----

def refused_ways(daemon, box):
    """Every request that would write, with its answer."""
    yield "create", daemon.ask("POST", "/api/cay/sandbox", {"disk": "16m"})
    yield "Daytona's create", daemon.ask("POST", "/api/sandbox", {})
    yield "upload", upload(daemon, box, "/workspace/f", b"text")
    yield "archive", daemon.ask("POST", f"/api/cay/sandbox/{box}/archive")
    yield "backup", daemon.ask("POST", f"/api/sandbox/{box}/backup")
    yield "snapshot", daemon.ask("POST", f"/api/cay/sandbox/{box}/snapshot?name=full")
    yield "volume", daemon.ask("POST", "/api/cay/volumes", {"name": "full"})
    yield "image", daemon.ask("POST", "/api/snapshots", {"name": "x", "imageName": "nowhere"})


def test_below_the_reserve_new_writes_are_refused(small_disk):
    env = {"CAY_MANAGER_DISK_RESERVE": "96m", "CAY_MANAGER_POOL_SIZE": "0"}
    with serving(small_disk, env=env) as daemon:
        box = daemon.create(memory="64m", disk="16m")["id"]
        stopped = daemon.create(memory="64m", disk="16m")["id"]
        daemon.call("POST", f"/api/cay/sandbox/{stopped}/stop?grace=0")
        ballast = fill(small_disk, 80 * MB)
        for way, answer in refused_ways(daemon, box):
            assert answer.status == 507, (way, answer.status, answer.text)
            assert "disk_reserve" in answer.text, (way, answer.text)
        # what exists can be used, stopped, started and removed
        assert daemon.exec(box, "echo", "still") == (0, "still\n")
        assert daemon.call("POST", f"/api/cay/sandbox/{stopped}/start")["state"] == "started"
        daemon.call("DELETE", f"/api/cay/sandbox/{stopped}?force=true")
        ballast.unlink()
        assert daemon.create(memory="64m", disk="16m")["state"] == "started"
        assert upload(daemon, box, "/workspace/f", b"text").status == 200


def test_no_inodes_are_as_no_space(small_disk):
    with serving(small_disk, env={"CAY_MANAGER_POOL_SIZE": "0"}) as daemon:
        box = daemon.create(memory="64m", disk="16m")["id"]
        crowd = small_disk / "crowd"
        crowd.mkdir()
        with contextlib.suppress(OSError):
            for number in range(1 << 20):
                (crowd / str(number)).touch()
        with pytest.raises(Refused) as refused:
            daemon.create(memory="64m", disk="16m")
        assert refused.value.status == 507 and "inodes" in str(refused.value)
        assert daemon.exec(box, "sh", "-c", "echo text >f; cat f") == (0, "text\n")
        for file in crowd.iterdir():
            file.unlink()
        assert daemon.create(memory="64m", disk="16m")["state"] == "started"


def test_without_a_reserve_nothing_is_refused_early(small_disk):
    env = {"CAY_MANAGER_DISK_RESERVE": "0", "CAY_MANAGER_POOL_SIZE": "0"}
    with serving(small_disk, env=env) as daemon:
        fill(small_disk, 40 * MB)
        assert daemon.create(memory="64m", disk="16m")["state"] == "started"


def test_overcommitment_is_in_the_metrics(small_disk):
    with serving(small_disk, env={"CAY_MANAGER_POOL_SIZE": "0"}) as daemon:
        for _ in range(2):
            daemon.create(memory="64m", disk="320m")
        page = daemon.get("/metrics").text
        values = dict(line.rsplit(" ", 1) for line in page.splitlines() if line[:1] != "#")
        assert float(values["cay_disk_limit_bytes"]) == 640 * MB
        assert float(values["cay_disk_overcommit_ratio"]) == 2
        assert float(values["cay_disk_reserve_bytes"]) == 16 * MB
        done = subprocess.run([support.BUILD / "cay", "doctor", "-o", "json", "--state-dir",
                               daemon.state], stdout=subprocess.PIPE, check=True)
        space = json.loads(done.stdout)["disk_space"]
        assert space["overcommitted"] and space["limit_bytes"] > 640 * MB
        assert space["total_bytes"] == 320 * MB


# ---- what was acknowledged is there afterwards ----

@pytest.fixture
def real_disk(folder):
    """The same with ext4 on a loop device, as hosts have it."""
    file, disk = folder / "file", folder / "disk"
    disk.mkdir()
    with open(file, "wb") as f:
        f.truncate((1000 if FULL else 256) * MB)
    subprocess.run(["mke2fs", "-q", "-F", file], check=True)
    subprocess.run(["mount", "-o", "loop", file, disk], check=True)
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


class Writers:
    """Threads that write files into sandboxes, each by a command of its own, and remember which
    were acknowledged: the command has ended with 0."""

    SCRIPT = "dd if=/dev/urandom of=$0 bs=64k count=16 2>/dev/null && sha256sum <$0"

    def __init__(self, daemon, boxes):
        self.daemon = daemon
        self.sums = {}
        self.refused = 0
        self.ended = threading.Event()
        self.threads = [threading.Thread(target=self.write, args=(box,)) for box in boxes]
        for thread in self.threads:
            thread.start()

    def write(self, box):
        number = 0
        while not self.ended.is_set():
            name = f"/workspace/f{number}"
            try:
                code, output = self.daemon.exec(box, "sh", "-c", self.SCRIPT, name)
            except (AssertionError, OSError):  # it was paused just then
                code = -1
            if code == 0:
                self.sums[box, name] = output.split()[0]
                number += 1
            else:
                self.refused += 1
                time.sleep(0.05)

    def end(self):
        self.ended.set()
        for thread in self.threads:
            thread.join(120)


def info(daemon, box):
    return daemon.call("GET", f"/api/cay/sandbox/{box}")


def states(daemon, boxes):
    return [info(daemon, box)["state"] for box in boxes]


def missing(daemon, sums):
    """Files that are not as they were acknowledged."""
    bad = []
    for box in sorted({box for box, _ in sums}):
        code, output = daemon.exec(box, "sh", "-c", "cd /workspace && sha256sum f*")
        found = {f"/workspace/{line.split()[1]}": line.split()[0] for line in output.splitlines()}
        bad += [(box, name) for (of, name), digest in sums.items()
                if of == box and found.get(name) != digest]
    return bad


def fill_slowly(disk, ended):
    """From outside, as fast as the host can, until nothing is left."""
    with contextlib.suppress(OSError), open(disk / "ballast", "wb", buffering=0) as f:
        while not ended.is_set():
            f.write(os.urandom(MB))
            time.sleep(0.05)


@pytest.mark.parametrize("from_outside", [False, True] if FULL else [True])
def test_what_was_acknowledged_survives_a_full_disk(real_disk, from_outside):
    """Without the reserve, hundreds of files are lost here."""
    env = {"CAY_MANAGER_DISK_RESERVE": "64m", "CAY_MANAGER_POOL_SIZE": "0"}
    with serving(real_disk, env=env) as daemon:
        boxes = [daemon.create(memory="96m", disk="200m")["id"] for _ in range(8 if FULL else 4)]
        writers = Writers(daemon, boxes)
        ended = threading.Event()
        if from_outside:
            outside = threading.Thread(target=fill_slowly, args=(real_disk, ended))
            outside.start()
        try:
            assert until(lambda: "paused" in states(daemon, boxes), 60), daemon.log.read_text()
            time.sleep(10 if FULL else 3)
        finally:
            writers.ended.set()
            ended.set()
            if from_outside:
                outside.join(60)
        held = [box for box in boxes if info(daemon, box)["state"] == "paused"]
        assert all("nearly full" in info(daemon, box)["errorReason"] for box in held)
        with contextlib.suppress(FileNotFoundError):
            (real_disk / "ballast").unlink()
        room = daemon.ask("DELETE", f"/api/cay/sandbox/{boxes[-1]}?force=true")
        kept = boxes[:-1]
        assert room.status < 300
        assert until(lambda: states(daemon, kept) == ["started"] * len(kept), 60), daemon.log.read_text()
        writers.end()
        sums = {key: digest for key, digest in writers.sums.items() if key[0] in kept}
        assert len(sums) > 10
        for box in kept:
            daemon.call("POST", f"/api/cay/sandbox/{box}/stop?grace=0")
            daemon.call("POST", f"/api/cay/sandbox/{box}/start")
        assert missing(daemon, sums) == []


# ---- uploads ----

def test_an_upload_is_on_the_disk_when_it_is_acknowledged(small_disk, folder):
    """A copy of the disk, made at that moment, is what a power failure would leave."""
    mount = folder / "after"
    mount.mkdir()
    with serving(small_disk, env={"CAY_MANAGER_POOL_SIZE": "0"}) as daemon:
        box = daemon.create(memory="64m", disk="32m")["id"]
        image = daemon.state / "sandboxes" / box / "disk"
        for number, content in enumerate((b"short", os.urandom(MB))):
            assert upload(daemon, box, f"/workspace/f{number}", content).status == 200
            copy = folder / f"copy{number}"
            subprocess.run(["cp", "--sparse=always", image, copy], check=True)
            subprocess.run(["mount", "-o", "loop", copy, mount], check=True)
            try:
                assert (mount / f"fs/workspace/f{number}").read_bytes() == content
            finally:
                subprocess.run(["umount", mount], check=True)


# ---- file systems with errors ----

def device_of(image):
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if path.read_text().strip() == str(image):
                return path.parent.parent.name
    return None


def events_of(daemon, box):
    return [e["text"] for e in daemon.call("GET", f"/api/cay/sandbox/{box}/events")]


def metric(daemon, name):
    return float(next(line.split()[1] for line in daemon.get("/metrics").text.splitlines()
                      if line.startswith(name + " ")))


def test_errors_of_a_file_system_are_noticed_and_repaired(small_disk):
    with serving(small_disk, env={"CAY_MANAGER_POOL_SIZE": "0"}) as daemon:
        box = daemon.create(memory="64m", disk="32m")["id"]
        assert upload(daemon, box, "/workspace/f", b"text").status == 200
        image = daemon.state / "sandboxes" / box / "disk"
        Path(f"/sys/fs/ext4/{device_of(image)}/trigger_fs_error").write_text("test")
        assert until(lambda: "errors" in (info(daemon, box)["errorReason"] or ""), 60)
        assert metric(daemon, "cay_sandboxes_damaged") == 1
        assert any("errors" in text for text in events_of(daemon, box))
        assert "the file system of a sandbox has errors" in daemon.log.read_text()
        daemon.call("POST", f"/api/cay/sandbox/{box}/stop?grace=0")
        assert daemon.call("POST", f"/api/cay/sandbox/{box}/start")["state"] == "started"
        assert until(lambda: any("repaired" in text for text in events_of(daemon, box)), 60)
        assert "was repaired" in daemon.log.read_text()
        assert daemon.exec(box, "cat", "/workspace/f") == (0, "text")
        assert daemon.exec(box, "sh", "-c", "echo new >/workspace/g") == (0, "")
        assert metric(daemon, "cay_sandboxes_damaged") == 0
        assert image.stat().st_uid == 0


def test_what_cannot_be_repaired_is_an_error(small_disk):
    with serving(small_disk, env={"CAY_MANAGER_POOL_SIZE": "0"}) as daemon:
        box = daemon.create(memory="64m", disk="32m")["id"]
        daemon.call("POST", f"/api/cay/sandbox/{box}/stop?grace=0")
        image = daemon.state / "sandboxes" / box / "disk"
        assert until(lambda: device_of(image) is None, 60)
        size = image.stat().st_size
        with open(image, "r+b") as f:
            f.write(os.urandom(MB))
            f.truncate(MB)
            f.truncate(size)
        with pytest.raises(Refused) as refused:
            daemon.call("POST", f"/api/cay/sandbox/{box}/start")
        assert refused.value.status == 500 and "repaired" in str(refused.value), refused.value
        assert info(daemon, box)["state"] == "error"
        daemon.call("DELETE", f"/api/cay/sandbox/{box}?force=true")
