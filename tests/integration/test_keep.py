"""Sandboxes that stay: they live on when the launcher is killed, the next one finds them, and what is
removed is gone."""

import io
import json
import operator
import os
import random
import signal
import tarfile
import threading
import time
from pathlib import Path

import pytest
import support
from keeping import Failed, Keep, gone, groups_of, marks, new_id, processes_of
from launching import STARTED, is_alive, until
from support import as_root_only


@pytest.fixture
def keep(folder):
    k = Keep(folder)
    yield k
    boxes = list(k.list())
    k.remove_all()
    # what a killed launcher did not come to is removed by the next one, in the background
    until(lambda: not list((Path(k.state) / "sandboxes").glob(".old-*")))
    k.close()
    assert gone(k.state, boxes) == []


def limited(keep, box):
    """Skips where this tier has no control groups."""
    if not groups_of(box):
        pytest.skip("no control groups for this user")


# ---- life ----

def test_many_operations_at_once(keep):
    box = keep.start()
    with keep.connect(box) as a, keep.connect(box) as b:
        a.exec("sh", "-c", "sleep 0.5; echo a")
        b.exec("sh", "-c", "echo b")
        assert b.finish()[:2] == (0, "b\n") and a.finish()[:2] == (0, "a\n")
    assert keep.list() == {box: "running"}


def test_files_survive_stop_and_start(keep):
    box = keep.start()
    keep.sh(box, "echo kept > /workspace/a; mkdir -p /opt/x && echo $$ > /opt/x/b; ln -s a /root/l;"
            "mkdir -p /usr/local/bin; echo 'echo tool' > /usr/local/bin/t; chmod 755 /usr/local/bin/t")
    keep.ask("stop", box)
    assert keep.state_of(box) == "stopped" and not groups_of(box)
    keep.start(box)
    look = "cat /workspace/a; readlink /root/l; stat -c %U:%G /workspace/a; sh /usr/local/bin/t"
    assert keep.sh(box, look) == "kept\na\nroot:root\ntool\n"


def test_stop_tells_of_the_end(keep):
    box = keep.start()
    pid = keep.pid(box)
    keep.ask("stop", box)
    assert not is_alive(pid)
    end = keep.ended(box)
    assert os.WTERMSIG(end["status"]) == 9 and not end["oom_killed"]
    keep.ask("stop", box)  # again is fine


def test_the_end_of_its_init_is_told_and_cleaned(keep):
    box = keep.start()
    os.kill(keep.pid(box), 9)
    keep.ended(box)
    assert keep.state_of(box) == "stopped" and until(lambda: not groups_of(box))
    keep.start(box)
    assert keep.sh(box, "echo back") == "back\n"


def test_what_is_not_there(keep):
    for op in ("stop", "pause", "resume", "stats"):
        with pytest.raises(Failed) as failure:
            keep.ask(op, new_id())
        assert failure.value.code == "not_found", op
    keep.ask("remove", new_id())


def test_what_does_not_fit_the_state(keep):
    box = keep.start()
    with pytest.raises(Failed) as failure:
        keep.start(box)
    assert failure.value.code == "conflict"
    keep.ask("stop", box)
    for op in ("pause", "resume"):
        with pytest.raises(Failed) as failure:
            keep.ask(op, box)
        assert failure.value.code == "conflict" and failure.value.remedy


def test_a_start_that_fails_leaves_nothing(keep):
    box = new_id()
    for fields in ({"memory": "1000t"}, {"image": "ab" * 32}, {"pids": 0}):
        with pytest.raises(Failed):
            keep.start(box, **fields)
    assert keep.list() == {} and gone(keep.state, [box]) == []
    keep.start(box)
    keep.ask("stop", box)
    with pytest.raises(Failed):
        keep.start(box, memory="1000t")
    assert keep.state_of(box) == "stopped"


def test_remove_leaves_nothing(keep):
    box = keep.start()
    keep.sh(box, "mkdir -p /opt/a/b/c; chmod 0 /opt/a/b; echo x > /workspace/y")
    pid = keep.pid(box)
    assert support.USER or pid in marks()
    keep.ask("remove", box)
    assert not is_alive(pid) and keep.list() == {}
    assert gone(keep.state, [box]) == [] and (support.USER or pid not in marks())


def test_remove_and_stop_at_once(keep):
    boxes = [keep.start() for _ in range(4)]
    numbers = [keep.begin(op, box) for box in boxes for op in ("stop", "remove", "remove")]
    for number in numbers:
        try:
            keep.finish(number)
        except Failed as failure:  # the stop came after the end
            assert failure.code == "not_found"
    assert keep.list() == {} and gone(keep.state, boxes) == []


def test_a_volume(keep, folder):
    shared = folder / "shared"
    shared.mkdir()
    support.own(shared)
    box = keep.start(volume=f"{shared}:/data")
    keep.sh(box, "echo out > /data/f")
    assert (shared / "f").read_text() == "out\n"


# ---- limits ----

def test_pause_and_resume(keep):
    box = keep.start()
    limited(keep, box)
    with keep.connect(box) as c:
        c.exec("sh", "-c", "while :; do echo x >> /workspace/count; sleep 0.02; done")
        c.expect(STARTED)
        counter = Path(f"/proc/{keep.pid(box)}/root/workspace/count")
        assert until(lambda: counter.exists() and counter.stat().st_size > 4)
        keep.ask("pause", box)
        size = counter.stat().st_size
        time.sleep(0.3)
        assert counter.stat().st_size == size and keep.state_of(box) == "paused"
        keep.ask("pause", box)  # again is fine
        keep.ask("resume", box)
        assert until(lambda: counter.stat().st_size > size) and keep.state_of(box) == "running"


def test_a_paused_one_can_be_stopped_and_removed(keep):
    boxes = [keep.start(), keep.start()]
    limited(keep, boxes[0])
    for box in boxes:
        keep.ask("pause", box)
    keep.ask("stop", boxes[0])
    assert keep.state_of(boxes[0]) == "stopped"
    keep.ask("remove", boxes[1])
    assert keep.list() == {boxes[0]: "stopped"}


def test_memory_limit_and_resize(keep):
    box = keep.start(memory="64m")
    limited(keep, box)
    eat = "import sys; x = bytearray(100 << 20); print(len(x))"
    with keep.connect(box) as c:
        c.exec("python3", "-c", eat)
        assert c.finish()[0] != 0
    keep.ask("resize", box, memory="256m")
    assert keep.exec(box, "python3", "-c", eat) == f"{100 << 20}\n"
    stats = keep.ask("stats", box)
    assert stats["limit"] == 256 << 20 and stats["oom_kills"] == 1
    with pytest.raises(Failed):
        keep.ask("resize", box, memory="1000t")


def test_stats_count_what_was_written(keep):
    box = keep.start()
    keep.sh(box, "dd if=/dev/zero of=/opt/big bs=1M count=8 2>/dev/null")
    stats = keep.ask("stats", box)
    assert 8 << 20 <= stats["disk"] < 9 << 20
    keep.ask("stop", box)
    stats = keep.ask("stats", box)
    assert stats["disk"] >= 8 << 20 and stats["memory"] == stats["pids"] == 0


# ---- the death of the launcher ----

def test_survives_the_launcher(keep):
    box = keep.start()
    pid = keep.pid(box)
    with keep.connect(box) as c:
        c.exec("sh", "-c", "sleep 1; echo finished")
        c.expect(STARTED)
        keep.kill_launcher()
        assert keep.sh(box, "echo without") == "without\n"
        keep.restart()
        assert c.finish()[:2] == (0, "finished\n")
    assert keep.list() == {box: "running"} and keep.pid(box) == pid
    keep.ask("stop", box)
    # kernels before 6.15 do not tell how the child of another process ended
    assert keep.ended(box)["status"] in (-1, signal.SIGKILL)
    assert not is_alive(pid) and not groups_of(box)
    keep.start(box)
    assert keep.sh(box, "echo again") == "again\n"


def test_survives_a_launcher_that_is_asked_to_end(keep):
    box = keep.start()
    os.kill(keep.launcher, signal.SIGTERM)
    keep.restart()
    assert keep.list() == {box: "running"} and keep.sh(box, "echo on") == "on\n"


def test_survives_the_client(folder):
    k = Keep(folder)
    box = k.start()
    k.sh(box, "echo here > /workspace/a")
    k.close()
    again = Keep(folder)
    try:
        assert again.list() == {box: "running"} and again.sh(box, "cat /workspace/a") == "here\n"
    finally:
        again.remove_all()
        again.close()
    assert gone(k.state, [box]) == []


def test_paused_is_still_paused_after_a_restart(keep):
    box = keep.start()
    limited(keep, box)
    keep.ask("pause", box)
    keep.kill_launcher()
    keep.restart()
    assert keep.state_of(box) == "paused"
    keep.ask("resume", box)
    assert keep.sh(box, "echo on") == "on\n"


def test_adopted_ones_have_limits_and_stats(keep):
    box = keep.start(memory="64m")
    limited(keep, box)
    keep.kill_launcher()
    keep.restart()
    keep.ask("resize", box, memory="128m")
    stats = keep.ask("stats", box)
    assert stats["limit"] == 128 << 20 and stats["pids"] == 1
    keep.kill_launcher()
    keep.restart()
    assert keep.ask("stats", box)["limit"] == 128 << 20


def test_who_dies_while_nobody_looks_is_found_dead(keep):
    box = keep.start()
    pid = keep.pid(box)
    keep.kill_launcher()
    os.kill(pid, 9)
    assert until(lambda: not is_alive(pid))
    keep.restart()
    assert keep.ended(box)["status"] == -1  # nobody has to ask
    assert keep.state_of(box) == "stopped" and not groups_of(box)
    assert keep.record(box)["pid"] == "0"


def test_who_dies_after_a_restart_is_told_of(keep):
    box = keep.start()
    keep.kill_launcher()
    keep.restart()
    time.sleep(0.3)
    os.kill(keep.pid(box), 9)
    assert keep.ended(box)["status"] in (-1, signal.SIGKILL)


def test_without_a_launcher_it_is_unavailable(keep):
    keep.kill_launcher()
    with pytest.raises(Failed) as failure:
        until(lambda: keep.list() is None)
    assert failure.value.code == "unavailable"
    keep.restart()


def test_a_second_launcher_is_refused(keep, folder):
    keep.start()
    other = Keep(folder)
    try:
        with pytest.raises(Failed) as failure:
            other.list()
        assert failure.value.code == "conflict" and failure.value.remedy
    finally:
        other.close()
    assert len(keep.list()) == 1


def test_a_record_that_lies_is_no_sandbox_that_runs(keep):
    """The process is another one, or of another boot."""
    box = keep.start()
    keep.ask("stop", box)
    path = keep.state / "sandboxes" / box / "record"
    text = path.read_text()
    for spoilt in (text.replace("pid = 0", f"pid = {os.getpid()}"), "", "format = 9\n", text[:40]):
        path.write_text(spoilt)
        keep.kill_launcher()
        keep.restart()
        assert keep.state_of(box) == "stopped"
    assert is_alive(os.getpid())
    keep.start(box)


@as_root_only
def test_ids_of_the_living_stay_marked(keep):
    boxes = [keep.start() for _ in range(3)]
    keep.kill_launcher()
    assert len({keep.record(box)["base"] for box in boxes}) == 3
    assert {keep.pid(box) for box in boxes} <= marks()
    keep.restart()


# ---- images ----

BUSYBOX = Path("/bin/busybox")


@pytest.fixture
def image(keep):
    """The id of a small image, which has the name box:1."""
    if support.is_sanitized():
        pytest.skip("with a sanitizer cay-init needs libraries that the image has not")
    if not BUSYBOX.exists():
        pytest.skip("busybox-static is not installed: scripts/setup --test")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.add(BUSYBOX, "bin/busybox")
        for name in ("sh", "cat", "echo", "stat"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        release = tarfile.TarInfo("etc/release")
        release.size = 4
        tar.addfile(release, io.BytesIO(b"mine"))
    done = support.cay("image", "import", "--state-dir", keep.state, "-o", "json", "-", "box:1",
                       input=out.getvalue())
    support.ok(done)
    found = json.loads(done.stdout)
    return found["id"].removeprefix("sha256:")


def images(keep, *args):
    return support.ok(support.cay("image", *args, "--state-dir", keep.state))


def test_an_image_of_the_store(keep, image):
    box = keep.start(image=image)
    assert keep.sh(box, "cat /etc/release; echo new > /etc/release; stat -c %u /bin/busybox") == \
        "mine0\n"
    keep.ask("stop", box)
    keep.start(box, image=image)
    assert keep.sh(box, "cat /etc/release") == "new\n"
    keep.ask("stop", box)
    with pytest.raises(Failed) as failure:
        keep.start(box)
    assert failure.value.code == "conflict"


def test_a_prune_keeps_what_a_sandbox_needs(keep, image):
    box = keep.start(image=image)
    images(keep, "rm", "box:1")
    keep.kill_launcher()
    images(keep, "prune", "-a")
    assert keep.sh(box, "cat /etc/release") == "mine"
    keep.restart()
    keep.ask("stop", box)
    keep.kill_launcher()
    images(keep, "prune", "-a")
    keep.restart()
    keep.start(box, image=image)
    assert keep.sh(box, "cat /etc/release") == "mine"
    keep.ask("remove", box)
    images(keep, "prune", "-a")
    with pytest.raises(Failed) as failure:
        keep.start(box, image=image)
    assert failure.value.code == "not_found"


# ---- many ----

def test_50_at_once(keep):
    boxes = [new_id() for _ in range(50)]
    for number in [keep.begin("start", box, memory="64m") for box in boxes]:
        keep.finish(number)
    assert keep.list() == dict.fromkeys(boxes, "running")
    keep.kill_launcher()
    keep.restart()
    assert keep.list() == dict.fromkeys(boxes, "running")
    assert {keep.sh(box, "echo $((6 * 7))") for box in boxes} == {"42\n"}
    for number in [keep.begin("stop", box) for box in boxes]:
        keep.finish(number)
    assert keep.list() == dict.fromkeys(boxes, "stopped") and not processes_of(keep.state)


def test_cycles_cost_the_launcher_nothing(keep):
    def cycle():
        box = keep.start()
        keep.ask("stats", box)
        keep.ask("stop", box)
        keep.start(box)
        keep.ask("remove", box)

    def children():
        return Path(f"/proc/{keep.launcher}/task/{keep.launcher}/children").read_text().split()

    def held():
        return len(os.listdir(f"/proc/{keep.launcher}/fd")), len(children())

    def is_at_rest():
        """The jobs that removed files are gone: they end a moment after their answer."""
        try:
            return all(Path(f"/proc/{pid}/comm").read_text() != "cay-job\n" for pid in children())
        except OSError:
            return False  # one of them just now

    cycle()
    assert until(is_at_rest)
    before = held()
    for _ in range(30):
        cycle()
    assert until(lambda: all(map(operator.le, held(), before))), (before, held())


def busy(keep, box, stop):
    """Starts, stops and removes one as long as it goes."""
    while not stop.is_set():
        for op in random.choice((("start", "stop"), ("start", "remove"), ("start", "stop", "remove"))):
            try:
                keep.ask(op, box)
            except Failed as failure:
                if failure.code == "unavailable":
                    return
                assert failure.code in ("conflict", "not_found"), failure


def test_killed_at_any_moment(keep):
    boxes = [new_id() for _ in range(4)]
    for _ in range(50):
        stop = threading.Event()
        threads = [threading.Thread(target=busy, args=(keep, box, stop)) for box in boxes]
        for thread in threads:
            thread.start()
        time.sleep(random.uniform(0.01, 0.25))
        keep.kill_launcher()
        stop.set()
        for thread in threads:
            thread.join(60)
        keep.restart()
        assert until(lambda: agrees(keep, boxes)), (keep.list(), processes_of(keep.state))
        for box in processes_of(keep.state):
            assert until(lambda box=box: serves(keep, box) or keep.state_of(box) != "running")


def serves(keep, box):
    try:
        return keep.sh(box, "echo alive") == "alive\n"
    except (OSError, AssertionError):  # it was dying
        return False


def agrees(keep, boxes):
    """What the launcher says is what there is. One that was dying needs a moment."""
    running = {box for box, state in keep.list().items() if state == "running"}
    grouped = {box for box in boxes if groups_of(box)}
    return running == set(processes_of(keep.state)) and grouped <= running
