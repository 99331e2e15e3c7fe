"""A damaged database: what can be read is served, nothing is changed, and nobody loses a sandbox."""

import contextlib
import os
import signal
import sqlite3

import pytest
import support
from daemons import CAYD, serving
from launching import is_alive, until

PAGE = 4096


@pytest.fixture
def daemon(folder):
    support.need_cay()
    if not CAYD.exists():
        pytest.skip("cayd is not built: ninja -C build")
    with serving(folder) as made:
        yield made
        accept(made)


def database(daemon):
    return daemon.state / "daemon" / "cay.db"


def mark(daemon):
    return daemon.state / "daemon" / "rescue.txt"


def answers(daemon):
    """It serves, whatever it says of its health."""
    try:
        return daemon.process.poll() is None and daemon.front() != 0 and \
            daemon.get("/healthz").status in (200, 503)
    except OSError:
        return False


def restart(daemon):
    with open(daemon.log, "ab") as log:
        daemon.process = daemon.spawn(*daemon.options, stdout=log, stderr=log)
    assert until(lambda: answers(daemon)), daemon.log.read_text()


def accept(daemon):
    """As an operator who goes on with what was saved."""
    if mark(daemon).exists():
        if daemon.process.poll() is None:
            daemon.stop()
        mark(daemon).unlink()
        daemon.start()


def put_junk(path, at, length):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(b"\xa5" * length)


def assert_changes_nothing(daemon, box):
    answer = daemon.get("/healthz")
    assert answer.status == 503 and "damaged" in answer.text
    assert daemon.get("/readyz").status == 503 and daemon.get("/livez").status == 200
    for method, path, body in [("POST", "/api/cay/sandbox", {}),
                               ("POST", f"/api/cay/sandbox/{box}/stop", None),
                               ("DELETE", f"/api/cay/sandbox/{box}?force=true", None),
                               ("POST", "/api/cay/volumes", {"name": "v"}),
                               ("POST", "/api/cay/api-keys", {"name": "k"}),
                               ("POST", "/api/sandbox", {}),
                               ("POST", f"/toolbox/{box}/env", {"A": "b"})]:
        answer = daemon.ask(method, path, body)
        assert answer.status == 503 and "damaged" in answer.text, (path, answer.status, answer.text)
    assert "rescue.txt" in daemon.ask("POST", "/api/cay/sandbox", {}).json()["remedy"]


def kept_folders(daemon):
    return list((daemon.state / "daemon").glob("damaged-*"))


def test_nothing_is_left_of_it(daemon):
    """Then the launcher knows the sandboxes still."""
    box = daemon.create(name="kept", memory=100 << 20)["id"]
    assert daemon.exec(box, "sh", "-c", "echo precious > /root/file")[0] == 0
    daemon.stop()
    put_junk(database(daemon), 0, database(daemon).stat().st_size)
    damaged = database(daemon).read_bytes()
    restart(daemon)
    [found] = daemon.list()
    assert (found["id"], found["name"], found["state"]) == (box, box, "started")
    assert found["memory"] == 100 << 20
    assert daemon.exec(box, "cat", "/root/file") == (0, "precious\n")
    assert_changes_nothing(daemon, box)
    assert box in mark(daemon).read_text()
    [kept] = kept_folders(daemon)
    assert (kept / "cay.db").read_bytes() == damaged
    accept(daemon)
    assert daemon.get("/healthz").status == 200
    daemon.call("POST", f"/api/cay/sandbox/{box}/stop?force=true")
    daemon.call("POST", f"/api/cay/sandbox/{box}/start")
    assert daemon.exec(box, "cat", "/root/file") == (0, "precious\n")


def table_page(daemon, table):
    """Where the first page of a table or an index is."""
    with contextlib.closing(sqlite3.connect(database(daemon))) as db:
        return db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?",
                          [table]).fetchone()[0]


def test_a_page_elsewhere(daemon):
    """The audit's, say: every sandbox is there, with its name."""
    box = daemon.create(name="lab", labels={"a": "b"})["id"]
    daemon.stop()
    put_junk(database(daemon), (table_page(daemon, "audit") - 1) * PAGE, PAGE)
    restart(daemon)
    [found] = daemon.list()
    assert (found["id"], found["name"], found["labels"]) == (box, "lab", {"a": "b"})
    assert_changes_nothing(daemon, box)
    text = mark(daemon).read_text()
    assert "audit" in text and "cannot be read" in text
    daemon.kill()  # it stays so until somebody has decided
    restart(daemon)
    assert daemon.get("/healthz").status == 503
    assert len(kept_folders(daemon)) == 1
    accept(daemon)
    assert daemon.state_of("lab") == "started"


def test_a_backup_is_restored(daemon):
    box = daemon.create(name="lab")["id"]
    daemon.stop()
    good = database(daemon).read_bytes()
    put_junk(database(daemon), PAGE, 3 * PAGE)
    restart(daemon)
    assert [s["id"] for s in daemon.list()] == [box]
    daemon.stop()
    database(daemon).write_bytes(good)
    for name in "cay.db-wal", "cay.db-shm":
        (database(daemon).parent / name).unlink(missing_ok=True)
    accept(daemon)
    assert daemon.state_of("lab") == "started"


def test_the_log(daemon):
    """Sandboxes that only the damaged log knew would be taken for leftovers, and removed."""
    boxes = [daemon.create(name=f"n{i}")["id"] for i in range(4)]
    front, launcher = daemon.front(), daemon.launcher()
    os.kill(front, signal.SIGSTOP)  # or it would tidy up behind its supervisor
    daemon.kill()
    os.kill(front, signal.SIGKILL)
    assert until(lambda: not is_alive(front) and not is_alive(launcher))
    log = daemon.state / "daemon" / "cay.db-wal"
    assert log.stat().st_size > 4 * PAGE
    put_junk(log, 0, 32)
    restart(daemon)
    assert sorted(s["id"] for s in daemon.list()) == sorted(boxes)
    assert_changes_nothing(daemon, boxes[0])
    for box in boxes:
        assert daemon.exec(box, "true")[0] == 0
