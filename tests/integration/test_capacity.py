"""Many persistent sandboxes alive at once through the daemon."""

import contextlib
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import support
from daemons import CAYD, children, name_of, serving
from launching import until
from stressing import amount

ALIVE = amount(1000, 5000)
LOAD = support.BUILD / "bench/cay-load"
BODY = '{"tier": "basic"}' if support.USER else "{}"
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


def workers(daemon):
    return [int(pid) for pid in children(daemon.launcher()) if name_of(pid) == "cay-worker"]


def test_killed_workers_cost_only_what_they_did(folder, clean_host):
    """A creation fails, with nothing left of it; a removal that was begun is finished later."""
    with serving(folder, env={"CAY_MANAGER_POOL_SIZE": "0"}) as daemon:
        stays = daemon.create()["id"]
        before = len(workers(daemon))
        with ThreadPoolExecutor(1) as pool:
            report = pool.submit(load, daemon, "-c", "4", "-t", "4", "-b", BODY)
            for _ in range(8):
                time.sleep(0.3)
                for pid in workers(daemon)[:3]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            told, why = report.result()
        assert int(told["cycles"]) > 0, why
        assert {name for name in told if name.startswith("failed")} <= {"failed_507"}, why
        assert daemon.exec(stays, "true")[0] == 0
        assert daemon.exec(daemon.create()["id"], "true")[0] == 0
        assert before > 0 and until(lambda: len(workers(daemon)) > 0)
        remove_all(daemon)
        assert daemon.list() == []


def test_more_than_the_host_can_run_is_refused_at_the_start(folder):
    (folder / "state").mkdir()
    support.own(folder / "state")
    who, env = support.as_user()
    done = subprocess.run(["sh", "-c", 'ulimit -n 1000; exec "$@"', "sh", CAYD, "--state-dir",
                           folder / "state"], capture_output=True, text=True, timeout=60,
                          env={**env, "CAY_MANAGER_MAX_SANDBOXES": "1000000"}, **who)
    assert done.returncode != 0
    assert "max_sandboxes" in done.stderr and "allow for" in done.stderr, done.stderr


@pytest.mark.skipif(bool(support.USER), reason="an ordinary user's sandboxes share one id range")
def test_more_may_exist_than_can_run(folder, clean_host):
    """max_sandboxes counts stopped ones too; those that run are bounded by the host's id ranges."""
    with serving(folder, env={"CAY_MANAGER_MAX_SANDBOXES": "50000"}) as daemon:
        assert daemon.exec(daemon.create()["id"], "true")[0] == 0


@pytest.mark.skipif(bool(support.USER), reason="an ordinary user's sandboxes have no disk file")
def test_a_missing_disk_is_not_replaced_by_an_empty_one(folder, clean_host):
    with serving(folder, env={"CAY_MANAGER_POOL_SIZE": "0"}) as daemon:
        box = daemon.create(disk="32m")["id"]
        daemon.call("POST", f"/api/cay/sandbox/{box}/stop")
        disk = daemon.state / "sandboxes" / box / "disk"
        disk.rename(disk.with_name("elsewhere"))
        answer = daemon.ask("POST", f"/api/cay/sandbox/{box}/start")
        assert answer.status == 500 and "files are lost" in answer.text, answer.text
        told = daemon.call("GET", f"/api/cay/sandbox/{box}")
        assert told["state"] == "error" and "files are lost" in told["errorReason"], told
        disk.with_name("elsewhere").rename(disk)  # put back, it starts again
        daemon.call("POST", f"/api/cay/sandbox/{box}/start")
        assert daemon.exec(box, "true")[0] == 0
