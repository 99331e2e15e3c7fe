"""State folders that a daemon must not touch, those of another daemon or of a newer version; and
requests that make no sense."""

import contextlib
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import pytest
from daemons import CAYD, end_background, serving
from support import TIER, cay, need_cay, ok, own, refused


@pytest.fixture
def used(folder):
    """A state folder with a sandbox, whose daemon has ended."""
    need_cay()
    if not CAYD.exists():
        pytest.skip("cayd is not built: ninja -C build")
    state = folder / "state"
    try:
        ok(cay("create", "--state-dir", state, *TIER, "--name", "kept"))
        ok(cay("stop", "--state-dir", state, "kept"))
        end_background(state)
        yield state
        cay("rm", "--state-dir", state, "-f", "kept")
    finally:
        end_background(state)


def pragma(state, text):
    with contextlib.closing(sqlite3.connect(state / "daemon/cay.db", isolation_level=None)) as db:
        return db.execute(f"PRAGMA {text}").fetchall()


def test_one_of_a_newer_version(used):
    version = pragma(used, "user_version")[0][0]
    pragma(used, "user_version = 999")
    refused(cay("ls", "--state-dir", used), "layout 999", "newer", code=10)
    assert pragma(used, "user_version") == [(999,)]
    pragma(used, f"user_version = {version}")
    assert "kept" in ok(cay("ls", "-a", "--state-dir", used))


def test_another_daemon_is_named(folder):
    with serving(folder) as daemon:
        second = daemon.spawn(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        _, err = second.communicate(timeout=60)
        assert second.returncode != 0 and str(daemon.process.pid) in err.decode()


@pytest.fixture(scope="module")
def shared():
    path = Path(tempfile.mkdtemp(prefix="bad-", dir="/tmp"))
    path.chmod(0o755)
    own(path)
    with serving(path) as daemon:
        yield daemon
    shutil.rmtree(path, ignore_errors=True)


@pytest.mark.parametrize("body, part", [
    ({"autoStopInterval": -1}, "autoStopInterval"),
    ({"autoDeleteInterval": -5}, "autoDeleteInterval"),
    ({"labels": {"a": "x" * 100_000}}, "label"),
    ({"labels": {f"k{i}": "v" for i in range(5000)}}, "labels"),
    ({"labels": {"a\x01b": "v"}}, "label"),
    ({"name": "../x"}, "name"),
    ({"name": "ä"}, "name"),
    ({"name": "n" * 64}, "name"),
    ({"name": "a b"}, "name"),
    ({"memory": -1}, "memory"),
    ({"cpus": 0}, "cpus"),
    ({"pids": 0}, "pids"),
    ({"workDir": "relative"}, "work"),
    ({"env": {"A=B": "x"}}, "env"),
    ({"nmae": "x"}, "did you mean"),
])
def test_requests_that_make_no_sense(shared, body, part):
    answer = shared.ask("POST", "/api/cay/sandbox", body)
    assert answer.status == 400, answer.text
    error = answer.json()
    assert error["code"] == "invalid_argument" and part in error["message"] + error["remedy"]
    assert shared.list() == []
