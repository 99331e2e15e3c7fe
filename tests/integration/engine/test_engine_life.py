"""The life of a sandbox: stop, start, pause, removal, and that nothing is left of it."""

import threading

import pytest
import support
from daemons import Refused
from launching import STARTED, until

needs = pytest.mark.needs
MB = 1 << 20


# ---- life ----

def test_stop_and_start_keep_files(make):
    box = make()
    box.put("/workspace/kept", b"kept")
    box.says("echo also > /root/kept 2>/dev/null || echo also > /tmp/kept")
    box.do("stop")
    assert box.info()["state"] == "stopped"
    box.do("start")
    assert box.get("/workspace/kept") == b"kept"
    assert "also" in box.sh("cat /root/kept /tmp/kept 2>/dev/null").text


def test_an_archive_keeps_what_was_written(make):
    box = make()
    box.put("/workspace/kept", b"kept")
    box.do("archive")
    assert box.info()["state"] == "archived"
    box.do("start")
    assert box.get("/workspace/kept") == b"kept"


def test_a_snapshot_starts_another(engine, make):
    box = make(image=engine.shell)
    box.put("/workspace/kept", b"kept")
    box.do("stop")  # not every engine can hold one that runs
    support.ok(engine.cay("snapshot create", box.id, "engine-snapshot"))
    box.do("start")
    assert box.says("echo goes on") == "goes on\n"
    other = make(image="engine-snapshot")
    assert other.get("/workspace/kept") == b"kept"
    assert other.says("echo $FROM_IMAGE") == "yes\n"
    other.remove()
    support.ok(engine.cay("image rm", "engine-snapshot"))


def test_stop_ends_what_runs(make):
    box = make()
    with box.command("sleep", "1000") as c:
        c.expect(STARTED)
        box.do("stop", "?force=true")
        assert c.receive()[0] in (0, 20, 21)
    box.do("start")
    assert box.alive("sleep") == 0


def test_stop_gives_time_to_finish(make):
    box = make()
    with box.command("sh", "-c", "trap 'echo bye > /workspace/bye; exit' TERM; echo ready; "
                     "while :; do sleep 0.05; done") as c:
        c.expect(STARTED)
        c.receive()
        box.do("stop", "?grace=20s")
    box.do("start")
    assert box.get("/workspace/bye") == b"bye\n"


def test_stopping_twice_and_starting_twice(make):
    box = make()
    box.do("start")
    for verb, state in (("stop", "stopped"), ("stop", "stopped"), ("start", "started")):
        try:
            box.do(verb)
        except Refused as refused:
            assert refused.status == 409
        assert box.info()["state"] == state


def test_a_stopped_sandbox_runs_nothing(make):
    box = make()
    box.do("stop")
    assert box.execute("true").status >= 400


def test_the_environment_outlasts_a_restart(make):
    box = make(env={"LASTS": "yes"})
    box.do("stop")
    box.do("start")
    assert box.says("echo $LASTS") == "yes\n"


@needs("pause")
def test_pause_holds_and_resume_goes_on(make):
    box = make()
    with box.command("sh", "-c", "read x; echo went on", STDIN=1) as c:
        c.expect(STARTED)
        box.do("pause")
        assert box.info()["state"] == "paused"
        box.do("resume")
        c.feed(b"\n")
        assert c.end().text == "went on\n"


def test_removal(make, engine):
    box = make()
    box.remove()
    assert box.id not in [s["id"] for s in engine.daemon.list()]
    with pytest.raises(Refused) as refused:
        box.info()
    assert refused.value.status == 404


def test_removal_of_what_runs_needs_a_word(make, engine):
    box = make()
    with box.command("sleep", "1000") as c:
        c.expect(STARTED)
        with pytest.raises(Refused) as refused:
            engine.daemon.call("DELETE", f"/api/cay/sandbox/{box.id}")
        assert refused.value.status == 409
    box.remove()


def test_creations_at_once(make):
    made = []
    threads = [threading.Thread(target=lambda: made.append(make())) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert len({b.id for b in made}) == 4
    assert [b.says("echo up") for b in made] == ["up\n"] * 4


def test_the_daemon_comes_back_and_finds_it(make, engine):
    box = make()
    with box.command("sleep", "100000") as c:
        c.expect(STARTED)
        box.says("echo before > /workspace/before; sleep 22322 > /dev/null 2>&1 < /dev/null &")
    engine.daemon.kill()
    assert until(lambda: engine.daemon.process.poll() is not None)
    engine.daemon.start()
    assert until(lambda: box.info()["state"] == "started")
    assert box.get("/workspace/before") == b"before\n" and box.alive("22322") == 1


def test_an_end_that_nobody_asked_for_is_told(make):
    """PID 1 ends by itself: the state says so, and a start brings it back."""
    box = make()
    box.put("/workspace/kept", b"kept")
    with box.command("true") as c:
        c.end()
    c = box.daemon.connect(box.id)
    with c:
        c.request(18)  # SHUTDOWN without a time: PID 1 ends
        c.receive()
    assert until(lambda: box.info()["state"] in ("stopped", "error")), box.info()
    box.do("start")
    assert box.get("/workspace/kept") == b"kept"


# ---- and afterwards ----

def test_nothing_is_left(make, engine):
    """What a removed sandbox had is gone: processes, files of the state folder, sockets."""
    before = engine.traces()
    box = make()
    box.put("/workspace/x", b"x" * MB)
    box.command("sleep", "33433").close()
    box.remove()
    assert until(lambda: engine.traces() <= before), engine.traces() - before


def test_a_failed_creation_leaves_nothing(make, engine):
    before = engine.traces()
    with pytest.raises(Refused):
        make(user="nobody-knows-him", memory=1)
    assert until(lambda: engine.traces() <= before)
