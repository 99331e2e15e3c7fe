"""The state that a daemon tells is the true one: a sandbox that ended says why, in its state, in its
events and in the daemon's log, whoever was killed or restarted before."""

import os
import signal
import tomllib

import pytest
from daemons import serving
from launching import is_alive, until

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
    os.kill(daemon.front(), signal.SIGSTOP)
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
