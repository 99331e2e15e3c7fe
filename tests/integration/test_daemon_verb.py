"""`cay daemon`: see, start, stop and restart the daemon of a state folder."""

import json
import os
import re
import select
import signal
import subprocess

import pytest
import support
from daemons import end_background, serving, serving_alone
from launching import until


@pytest.fixture
def state(folder):
    path = folder / "state"
    yield path
    end_background(path)


def run(state, *words, **more):
    return support.cay(*words, "--state-dir", state, **more)


def text(done):
    return done.stdout.decode()


def test_none_runs(state):
    done = run(state, "daemon", "status")
    assert done.returncode == 3 and text(done).startswith("daemon     stopped\n"), done.stderr
    assert not (state / "daemon").exists()  # it starts none
    shown = json.loads(run(state, "daemon", "status", "-o", "json").stdout)
    assert (shown["state"], shown["pid"], shown["healthy"]) == ("stopped", 0, False)
    done = run(state, "daemon", "stop")
    assert done.returncode == 0 and b"no daemon runs in" in done.stderr
    done = run(state, "daemon", "logs")
    assert done.returncode == 3 and b"journalctl" in done.stderr


def test_start_status_logs_stop(state):
    assert run(state, "daemon", "start").returncode == 0
    done = run(state, "daemon", "start")
    assert done.returncode == 0 and b"runs already" in done.stderr
    done = run(state, "daemon", "status")
    assert done.returncode == 0, done.stderr
    pid = int(re.match(r"daemon     running, process (\d+), version ", text(done)).group(1))
    assert f"state      {state}\n" in text(done) and f"socket     {state}/daemon/cay.sock\n" in text(done)
    assert "health     ok\n" in text(done) and f"log        {state}/daemon/log\n" in text(done)
    shown = json.loads(run(state, "daemon", "status", "-o", "json").stdout)
    assert (shown["state"], shown["pid"], shown["healthy"]) == ("running", pid, True)
    assert shown["keyFile"] == f"{state}/admin.key" and shown["sandboxes"] == 0
    lines = text(run(state, "daemon", "logs")).splitlines()
    assert any("version" in line for line in lines), lines
    assert text(run(state, "daemon", "logs", "-n", "1")).splitlines() == lines[-1:]
    assert text(run(state, "daemon", "logs", "-n", "0")) == ""
    done = run(state, "daemon", "stop")
    assert done.returncode == 0 and b"sandboxes keep running" in done.stderr
    assert run(state, "daemon", "status").returncode == 3 and not os.path.exists(f"/proc/{pid}")


def test_restart_keeps_sandboxes_and_options():
    with serving_alone() as daemon:
        box = daemon.create(name="kept")
        front = daemon.front()
        done = run(daemon.state, "daemon", "restart")
        assert done.returncode == 0, done.stderr
        assert until(lambda: daemon.front() not in (0, front)) and until(daemon.serves)
        shown = json.loads(run(daemon.state, "daemon", "status", "-o", "json").stdout)
        assert shown["pid"] == daemon.process.pid and shown["started"] == 1
        assert daemon.state_of(box["id"]) == "started"
        # what is stopped here is what `cay serve` runs in the foreground
        assert run(daemon.state, "daemon", "stop").returncode == 0
        assert daemon.process.wait(60) == 0


def test_restart_starts_one(state):
    assert run(state, "daemon", "restart").returncode == 0
    assert run(state, "daemon", "status").returncode == 0


def test_a_daemon_that_cannot_work_is_not_healthy():
    with serving_alone() as daemon:
        launcher = daemon.launcher()
        support.suspend(launcher)
        try:
            assert until(lambda: run(daemon.state, "daemon", "status").returncode == 10, 60)
            shown = json.loads(run(daemon.state, "daemon", "status", "-o", "json").stdout)
            assert shown["state"] == "running" and not shown["healthy"] and "launcher" in shown["reason"]
        finally:
            os.kill(launcher, signal.SIGCONT)


def test_no_signal_to_another_program(folder):
    """The front can write to the lock. A process in it that is no cayd gets no signal."""
    with serving(folder) as daemon:
        lock = daemon.state / "daemon/lock"
        own = lock.read_text()
        victim = subprocess.Popen(["sleep", "600"])
        try:
            lock.write_text(f"{victim.pid}\n")
            done = run(daemon.state, "daemon", "stop")
            assert done.returncode == 0 and b"no daemon runs" in done.stderr
            assert support.cay("serve", "--replace", "--state-dir", daemon.state).returncode != 0
            assert victim.poll() is None
        finally:
            lock.write_text(own)
            victim.kill()
            victim.wait()


def test_another_host_is_refused(state):
    done = run(state, "daemon", "stop", "--host", "http://127.0.0.1:1")
    assert done.returncode == 2 and b"of this machine" in done.stderr


def test_following_the_log(state):
    assert run(state, "daemon", "start").returncode == 0
    who, env = support.as_user()
    reader = subprocess.Popen([support.CAY, "daemon", "logs", "-f", "-n", "1", "--state-dir", state],
                              stdout=subprocess.PIPE, env=env, **who)
    try:
        assert b"\n" in reader.stdout.readline()  # it looks at the end of the log now
        assert run(state, "daemon", "restart").returncode == 0
        assert select.select([reader.stdout], [], [], 60)[0]
        assert b"\n" in reader.stdout.readline()
    finally:
        reader.kill()
        reader.wait()


def test_a_state_folder_in_a_new_folder(folder):
    """Root's front has another id and must pass the folders above."""
    state = folder / "new" / "deeper" / "state"
    try:
        support.ok(support.cay("ls", env={"CAY_STATE_DIR": str(state)}))
        shown = json.loads(support.cay("daemon", "status", "-o", "json", env={"CAY_STATE_DIR": str(state)}).stdout)
        assert shown["stateDir"] == str(state) and shown["state"] == "running"
    finally:
        end_background(state)
