"""The disk of a sandbox that stays: its limit holds, its neighbours and the host are safe from it,
and nothing of it is left behind."""

import os
import subprocess
import time
from pathlib import Path

import pytest
from keeping import Failed, Keep, gone, loops_of
from launching import until
from support import as_root_only

pytestmark = as_root_only

MB = 1 << 20


@pytest.fixture
def keep(folder):
    k = Keep(folder)
    yield k
    boxes = list(k.list())
    k.remove_all()
    k.close()
    assert gone(k.state, boxes) == []


def image_of(keep, box):
    return keep.state / "sandboxes" / box / "disk"


def attached(keep):
    return loops_of(keep.state)


def can_grow_while_mounted():
    """CAP_SYS_RESOURCE, which the root of a container may lack."""
    status = Path("/proc/self/status").read_text()
    bounding = int(status.split("CapBnd:")[1].split()[0], 16)
    return bool(bounding >> 24 & 1)


def df(keep, box):
    """Bytes that are free inside, and inodes."""
    blocks, inodes = keep.exec(box, "stat", "-f", "-c", "%a %d", "/").split()
    return int(blocks) * 4096, int(inodes)


# ---- the limit ----

def test_bytes_are_bounded(keep):
    box, other = keep.start(disk="32m"), keep.start(disk="32m")
    out = keep.sh(box, "dd if=/dev/urandom of=/opt/big bs=1M 2>&1; rm /opt/big;"
                       "dd if=/dev/urandom of=/usr/local/big bs=1M 2>&1; stat -c %s /usr/local/big")
    assert out.count("No space left") == 2
    assert 31 * MB <= int(out.split()[-1]) <= 33 * MB
    stats = keep.ask("stats", box)
    assert 31 * MB <= stats["disk"] <= 33 * MB and stats["disk_limit"] == 32 * MB
    assert image_of(keep, box).stat().st_blocks * 512 < 48 * MB
    assert df(keep, other)[0] >= 32 * MB
    keep.sh(other, "echo fine > /opt/file")


def test_files_are_bounded(keep):
    box, other = keep.start(disk="16m"), keep.start(disk="16m")
    out = keep.sh(box, "cd /opt; for i in $(seq 3000); do touch f$i 2>&1 || break; done; ls | wc -l",
                  seconds=60)
    assert "No space left" in out and 900 < int(out.split()[-1]) <= 1100
    keep.sh(other, "for i in 1 2 3; do : > /opt/$i; done")


def test_a_full_disk_starts_again(keep):
    box = keep.start(disk="16m")
    keep.sh(box, "dd if=/dev/urandom of=/opt/big bs=64k 2>/dev/null; sync; true")
    keep.ask("stop", box)
    keep.start(box, disk="16m")
    assert int(keep.exec(box, "stat", "-c", "%s", "/opt/big")) >= 15 * MB
    keep.sh(box, "rm /opt/big; sync")
    assert df(keep, box)[0] >= 15 * MB


def test_what_is_deleted_inside_is_free_outside(keep):
    box = keep.start(disk="64m")
    keep.sh(box, "dd if=/dev/urandom of=/opt/big bs=1M count=40 conv=fsync 2>/dev/null")
    image = image_of(keep, box)
    assert image.stat().st_blocks * 512 > 40 * MB
    keep.sh(box, "rm /opt/big; sync")
    assert until(lambda: image.stat().st_blocks * 512 < 20 * MB)


@pytest.mark.parametrize("disk", ["15m", "5t", "1"])
def test_sizes_that_cannot_be(keep, disk):
    with pytest.raises(Failed) as failed:
        keep.start(disk=disk)
    assert failed.value.code == "invalid_argument" and "16m" in failed.value.remedy
    assert gone(keep.state, []) == []


# ---- growing ----

def test_grows_when_stopped_and_when_it_runs(keep):
    box = keep.start(disk="16m")
    keep.sh(box, "echo before > /opt/file")
    keep.ask("stop", box)
    keep.ask("resize", box, disk="200m")
    keep.start(box, disk="200m")
    assert keep.sh(box, "cat /opt/file") == "before\n" and df(keep, box)[0] > 190 * MB
    assert keep.record(box)["disk"] == str(200 * MB)
    if can_grow_while_mounted():
        keep.ask("resize", box, disk="400m")
        assert df(keep, box)[0] > 390 * MB
    else:
        with pytest.raises(Failed, match="in use") as failed:
            keep.ask("resize", box, disk="400m")
        assert failed.value.code == "unsupported"
    assert keep.sh(box, "cat /opt/file") == "before\n"


def test_a_start_with_more_grows(keep):
    box = keep.start(disk="16m")
    keep.ask("stop", box)
    keep.start(box, disk="64m")
    assert df(keep, box)[0] > 60 * MB
    keep.ask("stop", box)
    keep.start(box, disk="16m")  # it keeps what it has
    assert df(keep, box)[0] > 60 * MB and keep.ask("stats", box)["disk_limit"] == 64 * MB


def test_never_shrinks(keep):
    box = keep.start(disk="64m")
    for _ in range(2):
        with pytest.raises(Failed, match="smaller") as failed:
            keep.ask("resize", box, disk="32m")
        assert failed.value.code == "conflict"
        keep.ask("stop", box)


# ---- what is there already ----

def test_one_without_a_limit_stays_so(keep):
    """As sandboxes were made before there were limits."""
    box = keep.start(disk=None)
    assert (keep.state / "sandboxes" / box / "fs").is_dir() and not image_of(keep, box).exists()
    keep.sh(box, "echo old > /opt/file")
    keep.ask("stop", box)
    keep.start(box, disk="16m")
    assert keep.sh(box, "cat /opt/file") == "old\n"
    assert keep.ask("stats", box)["disk_limit"] == 0
    with pytest.raises(Failed, match="no disk limit"):
        keep.ask("resize", box, disk="1g")


def test_a_damaged_disk_is_told_of(keep):
    box = keep.start(disk="64m")
    keep.sh(box, "echo mine > /opt/file; sync")
    keep.ask("stop", box)
    assert until(lambda: attached(keep) == [])
    image = image_of(keep, box)
    with image.open("r+b") as f:
        f.seek(1024)
        f.write(os.urandom(1024))
    with pytest.raises(Failed, match="cannot be repaired") as failed:
        keep.start(box, disk="64m")
    assert failed.value.code == "internal" and str(image) in failed.value.remedy
    assert keep.state_of(box) == "stopped" and until(lambda: attached(keep) == [])
    subprocess.run(["e2fsck", "-fy", "-", "32768", "-B", "4096", image], stdout=subprocess.DEVNULL)
    keep.ask("remove", box)


def test_a_damaged_disk_is_repaired_at_the_start(keep):
    """From a copy of the superblock, which the first group does not have."""
    box = keep.start(disk="300m")
    keep.sh(box, "echo mine > /opt/file; sync")
    keep.ask("stop", box)
    assert until(lambda: attached(keep) == [])
    with image_of(keep, box).open("r+b") as f:
        f.seek(1024)
        f.write(os.urandom(1024))
    keep.start(box, disk="300m")
    assert keep.sh(box, "cat /opt/file; echo new > /opt/new; cat /opt/new") == "mine\nnew\n"
    assert image_of(keep, box).stat().st_uid == 0


@pytest.mark.parametrize("damage", ["empty", "folder", "link"])
def test_what_is_no_disk_is_refused(keep, damage):
    box = keep.start(disk="16m")
    keep.ask("stop", box)
    assert until(lambda: attached(keep) == [])
    image = image_of(keep, box)
    image.unlink()
    if damage == "empty":
        image.touch()
    elif damage == "folder":
        image.mkdir()
    else:
        image.symlink_to("/etc/passwd")
    with pytest.raises(Failed):
        keep.start(box, disk="16m")
    assert keep.state_of(box) == "stopped" and until(lambda: attached(keep) == [])


# ---- nothing is left ----

def test_one_device_for_one_file(keep):
    """Also when it is stopped and started faster than the kernel lets go."""
    box = keep.start(disk="16m")
    for _ in range(15):
        assert attached(keep) == [str(image_of(keep, box))]
        keep.ask("stop", box)
        keep.start(box, disk="16m")
    keep.ask("stop", box)
    assert until(lambda: attached(keep) == [])


def test_a_crash_loses_nothing_that_was_synced(keep):
    """Killed with everything that runs in it, and its launcher."""
    box = keep.start(disk="32m")
    keep.sh(box, "echo safe > /opt/file; sync")
    pid = keep.pid(box)
    keep.kill_launcher()
    os.kill(pid, 9)
    assert until(lambda: attached(keep) == [])
    image = image_of(keep, box)
    assert subprocess.run(["e2fsck", "-fn", image], stdout=subprocess.DEVNULL).returncode == 0
    keep.restart()
    keep.start(box, disk="32m")
    assert keep.sh(box, "cat /opt/file") == "safe\n"


def test_many_leave_nothing(keep):
    for _ in range(5):
        boxes = [None] * 8
        numbers = []
        for i in range(8):
            boxes[i] = f"{time.monotonic_ns():016x}"[-16:]
            numbers.append(keep.begin("start", boxes[i], disk="16m"))
        for number in numbers:
            keep.finish(number)
        assert until(lambda: len(attached(keep)) == 8)  # and none of those before
        keep.remove_all()
    assert gone(keep.state, []) == [] and until(lambda: attached(keep) == [])
