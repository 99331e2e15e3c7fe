"""The state that a daemon tells is the true one: a sandbox that ended says why, in its state, in its
events and in the daemon's log, whoever was killed or restarted before."""

import contextlib
import http.client
import os
import shutil
import signal
import subprocess
import threading
import time
import tomllib
from pathlib import Path

import pytest
from daemons import Refused, children, serving
from launching import is_alive, until
from support import as_root_only, cay, is_sanitized, ok, start, suspend
from test_run_image import base

SECONDS = 60


@pytest.fixture
def daemon(folder):
    with serving(folder) as daemon:
        yield daemon


def record_of(daemon, box):
    return tomllib.loads((daemon.state / "sandboxes" / box / "record").read_text())


def kill_first_process(daemon, box):
    """The sandbox's PID 1; the kernel ends everything else in it."""
    pid = record_of(daemon, box)["pid"]
    assert pid > 0
    os.kill(pid, signal.SIGKILL)
    assert until(lambda: not is_alive(pid), SECONDS)


def info(daemon, box):
    return daemon.call("GET", f"/api/cay/sandbox/{box}")


def events(daemon, box):
    return [(e["state"], e["text"]) for e in daemon.call("GET", f"/api/cay/sandbox/{box}/events")]


def settled(daemon, box, *states):
    """What the sandbox is, when it is in one of the states."""
    assert until(lambda: info(daemon, box)["state"] in states, SECONDS), \
        (info(daemon, box), daemon.log.read_text()[-3000:])
    return info(daemon, box)


def assert_told(daemon, box, state, reason):
    """In the sandbox itself, in its events and in the log."""
    now = settled(daemon, box, state)
    assert reason in (now["errorReason"] if state == "error" else now["stopReason"])
    told = [text for event, text in events(daemon, box) if event == state]
    assert reason in told[-1], events(daemon, box)
    assert any(box in line and reason in line for line in daemon.log.read_text().splitlines())


# ---- ends that nobody asked for ----

@pytest.mark.parametrize("who", ["nobody", "cay-launcher", "cayd-front", "all"])
def test_a_killed_sandbox_has_a_reason(daemon, who):
    box = daemon.create()["id"]
    if who == "all":
        daemon.kill()
        daemon.start()
    elif who != "nobody":
        daemon.kill_child(who)
    assert until(lambda: daemon.exec(box, "true")[0] == 0, SECONDS)  # it was adopted
    kill_first_process(daemon, box)
    assert_told(daemon, box, "error", "its first process ")
    assert daemon.call("POST", f"/api/cay/sandbox/{box}/start")["state"] == "started"
    assert info(daemon, box)["errorReason"] is None


@pytest.mark.parametrize("policy, state", [("keep", "error"), ("recreate", "started")])
def test_killed_while_no_daemon_ran(daemon, policy, state):
    box = daemon.create(onFailure=policy)["id"]
    daemon.stop()
    kill_first_process(daemon, box)
    daemon.start()
    settled(daemon, box, state)
    assert any(event == "error" and "its first process has ended" in text
               for event, text in events(daemon, box))
    assert "sandbox ended unasked" in daemon.log.read_text()


def rewrite_boot(daemon, box):
    """As if the machine had been another one's run when the sandbox was started."""
    path = daemon.state / "sandboxes" / box / "record"
    boot = record_of(daemon, box)["boot"]
    path.write_text(path.read_text().replace(boot, "00000000-1111-2222-3333-444444444444"))


@pytest.mark.parametrize("policy", ["keep", "recreate", "remove"])
def test_a_restart_of_the_host_is_nobodys_failure(daemon, policy):
    box = daemon.create(onFailure=policy)["id"]
    daemon.stop()
    kill_first_process(daemon, box)
    rewrite_boot(daemon, box)
    daemon.start()
    assert_told(daemon, box, "stopped", "the host was restarted")


def test_the_reason_outlives_who_saw_it(daemon):
    """The launcher sees the end and writes it down; the front dies before it has recorded it."""
    box = daemon.create()["id"]
    suspend(daemon.front())
    kill_first_process(daemon, box)
    assert until(lambda: record_of(daemon, box)["pid"] == 0, SECONDS)
    daemon.kill_child("cayd-front")
    assert until(daemon.serves, SECONDS)
    assert_told(daemon, box, "error", "killed by signal 9 (SIGKILL)")


def test_an_idle_stop_has_a_reason(folder):
    with serving(folder, env={"CAY_MANAGER_IDLE_TIMEOUT": "1s",
                              "CAY_MANAGER_CLEANUP_INTERVAL": "1s"}) as daemon:
        box = daemon.create()["id"]
        assert_told(daemon, box, "stopped", "nothing was done in it for 1 s (idle_timeout)")


def test_a_start_shows_no_stop(daemon):
    """Whoever looks meanwhile sees the way up only."""
    box = daemon.create()["id"]
    for _ in range(3):
        daemon.call("POST", f"/api/cay/sandbox/{box}/stop")
        assert info(daemon, box)["state"] == "stopped"
        last = daemon.call("GET", f"/api/cay/sandbox/{box}/events")[-1]["number"]
        seen, done = set(), threading.Event()

        def look():
            while not done.is_set():
                seen.add(info(daemon, box)["state"])

        viewer = threading.Thread(target=look)
        viewer.start()
        daemon.call("POST", f"/api/cay/sandbox/{box}/start")
        done.set()
        viewer.join(SECONDS)
        news = daemon.call("GET", f"/api/cay/sandbox/{box}/events?after={last}")
        assert seen <= {"stopped", "starting", "started"}, seen
        assert [e["state"] for e in news] in (["starting", "started"], ["started"]), news


# ---- snapshots ----

@pytest.fixture
def boxed(daemon):
    """A sandbox of an image, with files that take a moment to copy."""
    if is_sanitized():
        pytest.skip("a sanitized cay-init needs libraries of the host, which images lack")
    ok(cay("image", "import", "--state-dir", daemon.state, "-", "truth-base", input=base()))
    box = daemon.create(image="truth-base")["id"]
    assert daemon.exec(box, "sh", "-c", "cat /dev/urandom | busybox head -c 150000000 >/file")[0] == 0
    return box


def make_snapshot(daemon, box):
    with contextlib.suppress(OSError, Refused, http.client.HTTPException):
        daemon.call("POST", f"/api/cay/sandbox/{box}/snapshot", {"name": "truth-copy"})


def leftovers(daemon):
    return list((daemon.state / "images/store/work").iterdir())


@as_root_only
@pytest.mark.parametrize("who", ["front", "all"])
def test_a_snapshot_that_is_cut_off(daemon, boxed, who):
    """The sandbox goes on, and nothing stays of what was copied."""
    client = threading.Thread(target=make_snapshot, args=(daemon, boxed))
    client.start()
    assert until(lambda: leftovers(daemon), SECONDS)
    if who == "front":
        daemon.kill_child("cayd-front")
    else:
        for pid in [daemon.process.pid, *map(int, children(daemon.process.pid))]:
            os.kill(pid, signal.SIGKILL)
        daemon.process.wait(SECONDS)
        daemon.start()
    client.join(SECONDS)
    assert until(daemon.serves, SECONDS)
    settled(daemon, boxed, "started")
    assert daemon.exec(boxed, "sh", "-c", "echo alive") == (0, "alive\n")
    assert "it was paused for a snapshot that was cut off" in daemon.log.read_text()
    assert until(lambda: not leftovers(daemon), SECONDS), leftovers(daemon)


@as_root_only
def test_a_snapshot_whose_client_is_killed(daemon, boxed):
    """The daemon makes it, and lets the sandbox go on."""
    client = start("snapshot", "create", "--state-dir", daemon.state, boxed, "truth-killed")
    assert until(lambda: info(daemon, boxed)["state"] == "paused", SECONDS)
    client.kill()
    client.communicate(timeout=SECONDS)
    settled(daemon, boxed, "started")


@as_root_only
def test_a_snapshot_by_a_named_socket(daemon, boxed, folder):
    """The client's own state folder is not looked at."""
    env = {"CAY_HOST": f"unix://{daemon.socket}", "CAY_STATE_DIR": str(folder / "other")}
    ok(cay("snapshot", "create", boxed, "truth-copy", env=env))
    assert not (folder / "other").exists()
    assert "truth-copy" in ok(cay("image", "ls", "--state-dir", daemon.state))
    assert daemon.state_of(boxed) == "started"


# ---- files that are gone ----

@as_root_only
def test_a_disk_that_is_gone_is_not_replaced(daemon):
    box = daemon.create()["id"]
    daemon.exec(box, "sh", "-c", "echo precious >/workspace/file")
    daemon.call("POST", f"/api/cay/sandbox/{box}/stop")
    place = daemon.state / "sandboxes" / box
    shutil.move(place / "disk", daemon.state / "kept")
    with pytest.raises(Refused) as refused:
        daemon.call("POST", f"/api/cay/sandbox/{box}/start")
    assert refused.value.status == 500 and "is missing" in refused.value.error["message"]
    assert_told(daemon, box, "error", "its files are lost")
    shutil.move(daemon.state / "kept", place / "disk")
    assert daemon.call("POST", f"/api/cay/sandbox/{box}/start")["state"] == "started"
    assert daemon.exec(box, "cat", "/workspace/file") == (0, "precious\n")


# ---- commands that a limit ends ----

def assert_command_told(daemon, box, reason):
    told = f"a command was ended: {reason}"
    assert until(lambda: told in [text for _, text in events(daemon, box)], SECONDS), \
        events(daemon, box)
    assert any(box in line and told in line for line in daemon.log.read_text().splitlines())


@pytest.mark.parametrize("limit, reason", [
    ("--timeout", "it ran longer than its time limit"),
    ("--idle-output-timeout", "it printed nothing for longer than it may"),
])
def test_an_exec_that_a_limit_ends_leaves_an_event(daemon, limit, reason):
    """Its bytes pass the front; who waits for them is not the only one to be told."""
    box = daemon.create()["id"]
    done = cay("exec", "--state-dir", daemon.state, limit, "1s", box, "sleep", "600")
    assert done.returncode == 124, done.stderr
    assert_command_told(daemon, box, reason)


@as_root_only
def test_an_exec_that_runs_out_of_memory_leaves_an_event(daemon):
    box = daemon.create(memory="64m")["id"]
    assert daemon.exec(box, "tail", "/dev/zero")[0] == 137
    assert_command_told(daemon, box, "the sandbox ran out of memory")
    assert info(daemon, box)["state"] == "started"


@as_root_only
def test_a_later_kill_is_not_out_of_memory(daemon):
    """The kernel's counter is of the whole life of the sandbox."""
    box = daemon.create(memory="64m")["id"]
    assert daemon.exec(box, "tail", "/dev/zero")[0] == 137
    assert_command_told(daemon, box, "the sandbox ran out of memory")
    time.sleep(1.5)  # it has outlived that
    kill_first_process(daemon, box)
    assert_told(daemon, box, "error", "killed by signal 9 (SIGKILL)")


# ---- when memory runs out ----

def oom_score(pid):
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


def can_lower_oom_score():
    """Root in a container often lacks CAP_SYS_RESOURCE."""
    script = "echo -500 >/proc/self/oom_score_adj"
    return subprocess.run(["sh", "-c", script], stderr=subprocess.DEVNULL).returncode == 0


@as_root_only
def test_the_daemon_is_protected_and_sandboxes_are_not(daemon):
    box = daemon.create()["id"]
    if can_lower_oom_score():
        for pid in (daemon.process.pid, daemon.front(), daemon.launcher()):
            assert oom_score(pid) <= -500
    else:
        assert "not protected when memory runs out" in daemon.log.read_text()
    assert oom_score(record_of(daemon, box)["pid"]) >= 0
    assert int(daemon.exec(box, "cat", "/proc/self/oom_score_adj")[1]) >= 0


def test_prune_takes_only_what_somebody_stopped(daemon):
    left, stopped = daemon.create(name="left")["id"], daemon.create(name="asked")["id"]
    daemon.call("POST", f"/api/cay/sandbox/{stopped}/stop")
    daemon.stop()
    kill_first_process(daemon, left)
    rewrite_boot(daemon, left)
    daemon.start()
    assert settled(daemon, left, "stopped")["stopReason"]

    def prune(*options):
        return ok(cay("prune", "-q", "--force", *options, "--state-dir", daemon.state)).split()
    shown = cay("prune", "--dry-run", "--state-dir", daemon.state)
    assert shown.stdout == b"asked\n" and b"1 that stopped without being asked is kept" in shown.stderr
    assert prune() == [stopped]
    assert prune() == []
    assert prune("--idle") == [left]
