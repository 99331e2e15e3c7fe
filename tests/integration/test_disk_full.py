"""A host disk that is nearly full, or full: new writes are refused in time, nothing that was
acknowledged is lost, and what happened is reported."""

import contextlib
import os
import subprocess

import pytest
import support
from daemons import Refused, serving

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
