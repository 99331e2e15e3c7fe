"""Many persistent sandboxes alive at once through the daemon."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import support
from daemons import serving
from stressing import amount

ALIVE = amount(200, 5000)
LOAD = support.BUILD / "bench/cay-load"
DESCRIPTORS_EACH = 2  # what a sandbox may cost the launcher


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def load(daemon, *options):
    """What the generator reports: name -> text."""
    done = subprocess.run([LOAD, "-s", daemon.socket, *options], capture_output=True, text=True,
                          timeout=1800)
    assert done.returncode == 0, done.stderr
    return dict(word.split("=", 1) for word in done.stdout.split()), done.stderr


def remove_all(daemon):
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda s: daemon.call("DELETE", f"/api/cay/sandbox/{s['id']}?force=true"),
                      daemon.list()))


@pytest.mark.skipif(bool(support.USER), reason="an ordinary user has one sandbox after the other")
def test_many_are_alive_at_once(folder, clean_host):
    settings = {"CAY_MANAGER_MAX_SANDBOXES": str(ALIVE + 10), "CAY_MANAGER_POOL_SIZE": "0"}
    with serving(folder, env=settings) as daemon:
        daemon.call("DELETE", f"/api/cay/sandbox/{daemon.create(disk='32m')['id']}?force=true")
        before = descriptors(daemon.launcher())
        report, why = load(daemon, "-c", "8", "-a", str(ALIVE), "-t", "0")
        assert [name for name in report if name.startswith("failed")] == [], why
        boxes = [s["id"] for s in daemon.list() if s["state"] == "started"]
        assert len(boxes) == ALIVE
        assert descriptors(daemon.launcher()) - before <= DESCRIPTORS_EACH * ALIVE
        for box in boxes[::max(ALIVE // 20, 1)]:
            assert daemon.exec(box, "sh", "-c", "echo here > /workspace/f; exit 3")[0] == 3
        daemon.kill_child("cay-launcher")  # the next one takes all of them over
        assert daemon.exec(boxes[0], "cat", "/workspace/f") == (0, "here\n")
        daemon.create(disk="32m")
        assert descriptors(daemon.launcher()) - before <= DESCRIPTORS_EACH * ALIVE
        remove_all(daemon)
        assert not [p for p in Path(daemon.state, "sandboxes").iterdir() if len(p.name) == 16]
