"""State folders that a daemon must not touch: those of another daemon, of a newer version, damaged
ones; and what users are told."""

import os
import shutil
import sqlite3
import subprocess

import pytest
from daemons import CAYD, end_background, serving
from support import TIER, as_root_only, cay, need_cay, ok, refused


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


def database(state):
    return sqlite3.connect(state / "daemon/cay.db", isolation_level=None)


def test_one_of_a_newer_version(used):
    with database(used) as db:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        db.execute("PRAGMA user_version = 999")
    before = (used / "daemon/cay.db").read_bytes()
    done = refused(cay("ls", "--state-dir", used), "layout 999", code=10)
    assert "newer" in str(done or cay("ls", "--state-dir", used).stderr)
    assert (used / "daemon/cay.db").read_bytes() == before  # nothing was changed
    with database(used) as db:
        db.execute(f"PRAGMA user_version = {version}")
    assert "kept" in ok(cay("ls", "-a", "--state-dir", used))


@as_root_only
def test_a_damaged_one_can_be_rescued(used):
    """As docs/operating.md has it."""
    if shutil.which("sqlite3") is None:
        pytest.skip("sqlite3 is not installed: apt-get install sqlite3")
    file = used / "daemon/cay.db"
    with database(used) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = file.read_bytes()
    # the last page is an index or a trigger's table, never the only copy of a sandbox
    file.write_bytes(whole[:-2048] + os.urandom(2048))
    if b"damaged" not in cay("ls", "--state-dir", used).stderr:
        pytest.skip("this page was not in use")
    refused(cay("ls", "--state-dir", used), ".recover", code=10)
    text = subprocess.run(["sqlite3", "-readonly", file, "SELECT name FROM sandbox"],
                          capture_output=True, text=True).stdout
    new = used / "daemon/cay.db.new"
    recovered = subprocess.run(["sqlite3", file, ".recover"], capture_output=True)
    subprocess.run(["sqlite3", new], input=recovered.stdout, capture_output=True)
    assert text == "kept\n" and new.exists()
    file.write_bytes(whole)


def test_another_daemon_is_named(folder):
    with serving(folder) as daemon:
        second = daemon.spawn(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        _, err = second.communicate(timeout=60)
        assert second.returncode != 0 and str(daemon.process.pid) in err.decode()


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
    answer = shared.ask("POST", "/api/sandbox", body)
    assert answer.status == 400, answer.text
    error = answer.json()
    assert error["code"] == "invalid_argument" and part in error["message"] + error["remedy"]
    assert shared.list() == []


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    import tempfile
    from pathlib import Path

    from support import own
    path = Path(tempfile.mkdtemp(prefix="bad-", dir="/tmp"))
    path.chmod(0o755)
    own(path)
    with serving(path) as daemon:
        yield daemon
    shutil.rmtree(path, ignore_errors=True)
