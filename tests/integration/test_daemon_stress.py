"""The daemon under load for long: nothing grows, nobody is refused who should not be, and what is on
a full disk is told and not lost."""

import contextlib
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import support
from daemons import Daemon, Refused, serving
from launching import DONE, INPUT, INPUT_END, WRITE, until
from stressing import FULL, amount, family, what_stays

CYCLES = amount(200, 10000)  # 10 to 50 each second, by what else the machine does


@pytest.fixture
def daemon(folder):
    with serving(folder, env={"CAY_MANAGER_POOL_SIZE": "0"}) as found:
        yield found


# ---- growth ----

def memory_of(pid):
    """What it has written, in KiB. Pages of the program itself come and go, and whether they are
    shared with another process is the kernel's business: it takes those away that rest. Files that
    stay mapped are counted by their mappings."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) for line in text.splitlines()
               if line.startswith(("Private_Dirty", "Swap:")))


def measure(daemon):
    """Everything that could grow."""
    pids = {"supervisor": daemon.process.pid, "front": daemon.front(), "launcher": daemon.launcher()}
    found = {}
    for name, pid in pids.items():
        found[f"{name} fds"] = len(os.listdir(f"/proc/{pid}/fd"))
        found[f"{name} KiB"] = memory_of(pid)
        found[f"{name} mappings"] = Path(f"/proc/{pid}/maps").read_text().count("\n")
        found[f"{name} mounts"] = Path(f"/proc/{pid}/mountinfo").read_text().count("\n")
        found[f"{name} threads"] = len(os.listdir(f"/proc/{pid}/task"))
    found["processes"] = len(family(daemon.process.pid))
    for name in ("cay.db", "cay.db-wal"):
        found[name] = (daemon.state / "daemon" / name).stat().st_size // 1024
    found["files"] = sum(len(files) + len(folders) for path, folders, files in os.walk(daemon.state)
                         if "/images/" not in path)
    return found


# How much each may grow from the middle of the run to its end. Rows of the audit are kept, so the
# database has a slope that is allowed for each cycle.
ALLOWED = {"KiB": 400, "fds": 3, "mappings": 32, "mounts": 0, "threads": 2, "processes": 1, "files": 2,
           "cay.db-wal": 64}
AUDIT_KIB = 2.0


def allowed(what, before):
    if what == "cay.db":
        return 64 + AUDIT_KIB * CYCLES / 2
    if what == "cay.db-wal":  # written back when it has 1,000 pages, and used again from then on
        return max(ALLOWED[what], 6144 - before)
    if support.is_sanitized() and what.endswith("KiB"):
        return 20000  # freed memory is kept for a while, on purpose
    return next((ALLOWED[kind] for kind in ALLOWED if what.endswith(kind)), 0)


def grown(half, end):
    """What is more than it may be, with how much it is."""
    return {what: end[what] for what, before in half.items()
            if end[what] > before + allowed(what, before)}


def cycle(daemon, _):
    box = daemon.create(memory="64m")["id"]
    assert daemon.exec(box, "echo", "done") == (0, "done\n")
    daemon.call("DELETE", f"/api/cay/sandbox/{box}")


def test_cycles_leave_nothing(daemon, folder):
    """Create, exec, delete, over and over: from the middle to the end nothing grows."""
    def run(count):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda n: cycle(daemon, n), range(count)))

    run(CYCLES // 2)
    time.sleep(0.5)  # threads of the last requests end
    half = measure(daemon)
    run(CYCLES - CYCLES // 2)
    # They may take longer to end; what has leaked does not go.
    assert until(lambda: not grown(half, measure(daemon))), (half, grown(half, measure(daemon)))
    assert daemon.list() == []
    assert not what_stays(daemon.state, set(), lambda: family(daemon.process.pid))


# ---- many ----

def test_100_at_once(folder):
    """All of them, and not one more."""
    with serving(folder, env={"CAY_MANAGER_MAX_SANDBOXES": "100"}) as daemon:
        with ThreadPoolExecutor(100) as pool:
            made = list(pool.map(lambda n: daemon.create(name=f"n{n}", memory="32m")["id"],
                                 range(100)))
            assert len(set(made)) == 100
            with pytest.raises(Refused) as refused:
                daemon.create()
            assert "Maximum number of sandboxes (100) reached" in refused.value.error["message"]
            assert refused.value.status == 429
            assert set(pool.map(lambda who: daemon.exec(who, "echo", "hi"), made)) == {(0, "hi\n")}
            list(pool.map(lambda who: daemon.call("DELETE", f"/api/cay/sandbox/{who}"), made))
        assert daemon.list() == []
        assert not what_stays(daemon.state, set(made), lambda: family(daemon.process.pid))


def test_50_clients_for_long(daemon):
    """Every command of every client has its own answer."""
    box = daemon.create(pids=1000, memory="1g", cpus=2)["id"]
    end = time.monotonic() + (60 if FULL else 4)
    counts = [0] * 50

    def client(number):
        while time.monotonic() < end or counts[number] == 0:
            text = f"{number}-{counts[number]}"
            assert daemon.exec(box, "sh", "-c", f"echo {text}; exit {number}") == \
                (number, text + "\n")
            counts[number] += 1

    with ThreadPoolExecutor(50) as pool:
        list(pool.map(client, range(50)))
    assert min(counts) > 0, counts
    assert until(lambda: daemon.call("GET", "/api/cay/status")["operations"] == 0)


def test_the_reaper_ends_no_command(folder):
    """Looking every second: what runs goes on, what is idle is stopped."""
    idle_seconds = 3
    with serving(folder, env={"CAY_MANAGER_CLEANUP_INTERVAL": "1",
                              "CAY_MANAGER_IDLE_TIMEOUT": str(idle_seconds)}) as daemon:
        idle = daemon.create(memory="64m")["id"]

        def say(who, since, words, script):
            """Unless it was us who left it alone for so long, it still runs."""
            try:
                done = daemon.exec(who, "sh", "-c", script)
            except AssertionError:  # no connection
                assert time.monotonic() - since >= idle_seconds
                daemon.call("POST", f"/api/cay/sandbox/{who}/start")
            else:
                assert done == (0, words)

        def work(_):
            """One long command, and many short ones that leave pauses."""
            used = time.monotonic()
            who = daemon.create(memory="64m")["id"]
            say(who, used, "whole\n", f"sleep {idle_seconds + 2}; echo whole")
            for turn in range(40):
                used = time.monotonic()
                time.sleep(0.02)
                say(who, used, f"{turn}\n", f"echo {turn}")

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        assert until(lambda: daemon.state_of(idle) == "stopped")
        assert until(lambda: {s["state"] for s in daemon.list()} == {"stopped"})


# ---- clocks ----

@support.as_root_only
@pytest.mark.parametrize("offset", [-1000, 100000])
def test_another_time_since_boot(folder, offset):
    """A daemon whose monotonic clock is far from ours: it stops and removes nothing early, and finds
    its sandboxes when it is started without the offset, which for it is a jump."""
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    if uptime + offset < 60:
        offset = 100000
    first = Daemon(folder, env={"CAY_MANAGER_CLEANUP_INTERVAL": "1"})
    who = first.create(autoStopInterval=5)["id"]
    first.stop()
    jumped = Daemon.__new__(Daemon)
    jumped.__dict__.update(first.__dict__)
    jumped.spawn = lambda *options, **more: subprocess.Popen(
        ["unshare", "--time", "--fork", "--kill-child", f"--monotonic={offset}", "--", support.BUILD / "cayd", "--state-dir", first.state, *options],
        env={**support.as_user()[1], **first.env}, stdin=subprocess.DEVNULL, **more)
    jumped.start()
    try:
        time.sleep(2.5)  # two rounds of the reaper
        assert jumped.state_of(who) == "started"
        assert jumped.exec(who, "echo", "alive") == (0, "alive\n")
    finally:
        inner = Path(f"/proc/{jumped.process.pid}/task/{jumped.process.pid}/children").read_text()
        os.kill(int(inner.split()[0]), 15)
        jumped.process.wait(60)
    first.start()
    assert first.state_of(who) == "started" and first.exec(who, "echo", "still") == (0, "still\n")
    first.clean_up()


# ---- a full disk ----

def write(daemon, box, path, content):
    with daemon.connect(box) as c:
        c.request(WRITE, ("PATH", path))
        c.send(INPUT, content)
        c.send(INPUT_END)
        return c.receive()[0] == DONE


@pytest.fixture
def small_disk(folder):
    """A state folder of 256 MB, seen by everybody on the host for as long as the test runs."""
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256m,mode=755", "stress-disk", disk],
                   check=True)
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


@support.as_root_only
def test_a_full_disk_loses_nothing(small_disk):
    """Everything acknowledged before and while the disk is full is there afterwards, and who is
    refused hears what to do."""
    with serving(small_disk) as daemon:
        ballast = small_disk / "ballast"
        kept = {daemon.create(memory="64m", disk="16m")["id"]: {} for _ in range(2)}
        with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as f:
            while f.write(bytes(4096)) == 4096:
                pass
        refusals = []
        for turn in range(30):
            try:
                kept[daemon.create(memory="64m", disk="16m")["id"]] = {}
            except Refused as refused:
                refusals.append(refused)
        assert refusals, "the disk was not full: this says nothing"
        for refused in refusals:
            assert refused.status in (507, 503, 429, 500) and refused.error["remedy"], refused
            assert "space" in str(refused).lower(), refused
        daemon.kill_child("cayd-front")  # it must come back although the disk is full
        assert until(daemon.serves)
        assert set(kept) == {s["id"] for s in daemon.list()}
        ballast.unlink()
        # Those that were held because there was no room go on by themselves.
        assert until(lambda: {s["state"] for s in daemon.list()} == {"started"})
        for box in kept:
            assert write(daemon, box, "/workspace/after", b"room again")
            assert daemon.exec(box, "cat", "/workspace/after") == (0, "room again")
        assert daemon.create(memory="64m", disk="16m")["state"] == "started"
