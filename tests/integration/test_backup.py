"""Backups: a copy of what a sandbox has written, made while it lives, and used when its files are
lost. What goes wrong on the way leaves the sandbox as it was, and running."""

import contextlib
import os
import shutil
import signal
import subprocess

import pytest
import support
from daemons import Refused, free_port, serving
from launching import until
from test_archive import AS_ROOT, box, files_of, imagers, leftovers, open_way, run
from test_keys import make_key

pytestmark = support.as_root_only  # what runs has to be frozen
SOON = 60


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with serving(open_way(tmp_path_factory.mktemp("backup"))) as d:
        yield d


def look(daemon, who):
    return daemon.call("GET", f"/api/sandbox/{who}")


def begin(daemon, who):
    return daemon.call("POST", f"/api/sandbox/{who}/backup")["backupState"]


def state_of(daemon, who):
    with contextlib.suppress(OSError, Refused):
        return look(daemon, who)["backupState"]
    return ""


def back_up(daemon, who):
    assert begin(daemon, who) in ("Pending", "InProgress", "Completed")
    assert until(lambda: state_of(daemon, who) in ("Completed", "Error"), SOON)
    return look(daemon, who)


def backup_of(daemon, who):
    return daemon.state / "archives" / f"{who}.backup.tar.zst"


def lose_files(daemon, who):
    """As a broken disk would."""
    daemon.call("POST", f"/api/sandbox/{who}/stop")
    daemon.stop()
    shutil.rmtree(files_of(daemon, who))
    daemon.start()


def hold(daemon, who):
    """Begins a backup, and holds who makes it in the middle of it."""
    for _ in range(100):
        begin(daemon, who)
        if until(lambda: has_begun(daemon, who) or not under_way(daemon, who), SOON):
            held = imagers(daemon)
            for pid in held:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            if held and has_begun(daemon, who) and state_of(daemon, who) == "InProgress":
                return
            for pid in held:  # too late
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        assert until(lambda: not under_way(daemon, who), SOON)
    pytest.fail("no backup could be held")


def has_begun(daemon, who):
    """Something is written, by a process that ends with who started it."""
    with contextlib.suppress(FileNotFoundError):
        return (daemon.state / "archives" / f".new-backup-{who}").stat().st_size > 0
    return False


def under_way(daemon, who):
    return state_of(daemon, who) in ("Pending", "InProgress", "")


def fill(daemon, who):
    run(daemon, who, "sh", "-c", "head -c 10000000 /dev/urandom >/workspace/f; echo one >/workspace/v")


# ---- what it is good for ----

def test_files_that_are_lost_come_back(daemon):
    with box(daemon) as who:
        assert look(daemon, who)["backupState"] == "None"
        assert "backupCreatedAt" not in look(daemon, who)
        run(daemon, who, "sh", "-c", "echo kept >/workspace/f; rm /etc/hostname; mkdir /usr/local/x")
        made = back_up(daemon, who)
        assert made["backupState"] == "Completed" and made["backupCreatedAt"], made
        assert made["state"] == "started" and backup_of(daemon, who).exists()
        run(daemon, who, "sh", "-c", "echo later >/workspace/g")
        lose_files(daemon, who)
        lost = look(daemon, who)
        assert lost["state"] == "error" and lost["errorReason"] == "its files are gone"
        assert "backup of 20" in daemon.call("GET", f"/api/cay/sandbox/{who}")["errorRemedy"]
        assert daemon.call("POST", f"/api/sandbox/{who}/recover")["state"] == "started"
        assert run(daemon, who, "cat", "/workspace/f") == "kept\n"
        run(daemon, who, "sh", "-c", "test ! -e /workspace/g && test -d /usr/local/x")
        events = [e["text"] for e in daemon.call("GET", f"/api/cay/sandbox/{who}/events")]
        assert any("those of its backup" in text for text in events), events
        assert back_up(daemon, who)["backupState"] == "Completed"
    assert not backup_of(daemon, who).exists()


def test_it_runs_on(daemon):
    """It stands still while files are copied, and then goes on where it was."""
    with box(daemon) as who:
        # There is something before the backup: a busy host may not let the loop begin until after it.
        run(daemon, who, "sh", "-c", "(while :; do date +%s%N >/workspace/tick; done) >/dev/null 2>&1 & "
            "until [ -s /workspace/tick ]; do sleep 0.01; done")
        assert back_up(daemon, who)["backupState"] == "Completed"
        before = run(daemon, who, "cat", "/workspace/tick")
        assert until(lambda: run(daemon, who, "cat", "/workspace/tick") not in ("", before), SOON)


@pytest.mark.parametrize("verb, state", [("stop", "stopped"), ("pause", "paused")])
def test_of_one_that_does_not_run(daemon, verb, state):
    with box(daemon) as who:
        run(daemon, who, "sh", "-c", "echo kept >/workspace/f")
        daemon.call("POST", f"/api/sandbox/{who}/{verb}")
        made = back_up(daemon, who)
        assert (made["backupState"], made["state"]) == ("Completed", state)


def test_an_archived_one_has_none_to_make(daemon):
    with box(daemon) as who:
        back_up(daemon, who)
        daemon.call("POST", f"/api/sandbox/{who}/archive")
        assert state_of(daemon, who) == "Completed"
        with pytest.raises(Refused) as e:
            begin(daemon, who)
        assert e.value.status == 409 and "archived" in e.value.error["message"]
        daemon.call("POST", f"/api/sandbox/{who}/start")
        assert backup_of(daemon, who).exists()


def test_the_audit_knows(daemon):
    with box(daemon) as who:
        back_up(daemon, who)
        rows = daemon.call("GET", "/api/cay/audit")
        assert any(r["action"] == "sandbox.backup" and r["object"] == who for r in rows)


# ---- what goes wrong ----

def test_one_at_a_time_and_deletion_ends_it(daemon):
    who = daemon.create()["id"]
    fill(daemon, who)
    hold(daemon, who)
    with pytest.raises(Refused) as e:
        daemon.call("POST", f"/api/sandbox/{who}/backup")
    assert e.value.status == 409, e.value.error
    daemon.call("DELETE", f"/api/sandbox/{who}?force=true")
    assert not backup_of(daemon, who).exists() and until(lambda: not leftovers(daemon), SOON)
    assert until(lambda: imagers(daemon) == [], SOON)


@pytest.mark.parametrize("victim", ["cay-image", "front", "daemon"])
def test_killed_midway(daemon, victim):
    with box(daemon) as who:
        fill(daemon, who)
        assert back_up(daemon, who)["backupState"] == "Completed"
        run(daemon, who, "sh", "-c", "echo two >/workspace/v")
        hold(daemon, who)
        before = backup_of(daemon, who).read_bytes()
        if victim == "daemon":
            daemon.kill()
            daemon.start()
        else:
            old = imagers(daemon) if victim == "cay-image" else [daemon.front()]
            for pid in old:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        assert until(lambda: state_of(daemon, who) == "Error", SOON), daemon.log.read_text()
        assert until(lambda: look(daemon, who)["state"] == "started", SOON)
        assert run(daemon, who, "cat", "/workspace/v") == "two\n"  # it goes on
        assert backup_of(daemon, who).read_bytes() == before and look(daemon, who)["backupCreatedAt"]
        assert back_up(daemon, who)["backupState"] == "Completed"
        assert until(lambda: not leftovers(daemon), SOON)


def test_a_daemon_that_ends_lets_it_go_on(daemon):
    with box(daemon) as who:
        fill(daemon, who)
        hold(daemon, who)
        daemon.stop()
        daemon.start()
        assert until(lambda: state_of(daemon, who) == "Error", SOON)
        assert until(lambda: look(daemon, who)["state"] == "started", SOON)
        assert run(daemon, who, "cat", "/workspace/v") == "one\n"


@pytest.mark.skipif(not AS_ROOT, reason="only root can mount a small disk")
def test_full_disk(daemon):
    folder = daemon.state / "archives"
    folder.mkdir(mode=0o700, exist_ok=True)
    with box(daemon) as who:
        fill(daemon, who)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=0700", "tmpfs", folder],
                       check=True)
        try:
            made = back_up(daemon, who)
            assert (made["backupState"], made["state"]) == ("Error", "started")
            assert not leftovers(daemon)
            events = [e["text"] for e in daemon.call("GET", f"/api/cay/sandbox/{who}/events")]
            assert any("its backup failed: " in text and "space" in text for text in events), events
        finally:
            subprocess.run(["umount", folder], check=True)
        assert back_up(daemon, who)["backupState"] == "Completed"


@pytest.mark.skipif(not AS_ROOT, reason="ordinary users have no disk limits")
def test_backups_count_for_the_disk_of_a_key(tmp_path):
    port = free_port()
    with serving(open_way(tmp_path), "--listen", f"127.0.0.1:{port}") as daemon:
        daemon.port = port
        key = make_key(daemon, "small", maxDisk="105m")
        who = key.call("POST", "/api/cay/sandbox", {"disk": "100m"})["id"]
        assert back_up(daemon, who)["backupState"] == "Completed"
        before = backup_of(daemon, who).read_bytes()
        fill(daemon, who)
        assert back_up(daemon, who)["backupState"] == "Error"
        assert backup_of(daemon, who).read_bytes() == before
        events = [e["text"] for e in daemon.call("GET", f"/api/cay/sandbox/{who}/events")]
        assert any("the key's disk has no more than 5.0 MB" in text for text in events), events
