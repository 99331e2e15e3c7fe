"""Limits bite, and what they bit stays usable."""

import time

import pytest
from boxes import TIMED_OUT
from launching import until

needs = pytest.mark.needs
MB = 1 << 20


EAT = "x=$(head -c 400000000 /dev/zero | tr '\\0' a); echo ate ${#x}"


@needs("memory")
def test_the_memory_limit_bites(make):
    box = make(memory=64 * MB)
    done = box.sh(EAT)
    assert done.code != 0 and "ate" not in done.text
    assert box.says("echo usable") == "usable\n"
    assert box.stats()["memoryLimit"] == 64 * MB


@pytest.mark.parametrize("user", ["0", "1000"])
def test_the_kernel_is_told_who_may_go(box, user):
    """When memory runs out, commands go before whoever serves them: they have the higher score."""
    scores = box.says("cat /proc/1/oom_score_adj /proc/self/oom_score_adj", USER=user).split()
    assert int(scores[1]) == min(int(scores[0]) + 250, 1000)


@needs("memory")
def test_memory_is_counted(make):
    box = make(memory=128 * MB)
    assert 0 < box.stats()["memoryBytes"] <= 128 * MB


@needs("memory", "resize")
def test_a_new_memory_limit(make):
    box = make(memory=64 * MB)
    box.daemon.call("POST", f"/api/cay/sandbox/{box.id}/resize", {"memory": 96 * MB})
    assert box.stats()["memoryLimit"] == 96 * MB


@needs("pids")
def test_the_process_limit_bites(make):
    box = make(pids=32)
    box.sh("for i in 1 2 3 4 5 6 7 8 9 10; do (for j in 1 2 3 4 5 6 7 8; do sleep 1000 & done); done",
           TIMEOUT_MS=2000)
    assert box.stats()["pids"] <= 32
    assert until(lambda: box.sh("echo usable").text == "usable\n")


@needs("pids")
def test_a_fork_bomb_is_ended_by_its_timeout(make):
    box = make(pids=64)
    done = box.sh("b() { b | b & }; b; sleep 100", TIMEOUT_MS=1000)
    assert done.code != 0
    assert until(lambda: box.sh("echo usable").text == "usable\n")


@needs("cpu")
def test_the_processor_limit_bites(make):
    box = make(cpus=0.2)
    before, began = box.stats()["cpuMicros"], time.monotonic()
    assert box.sh("while :; do :; done", TIMEOUT_MS=1500).code == TIMED_OUT
    used = (box.stats()["cpuMicros"] - before) / 1e6
    assert used < 0.6 * (time.monotonic() - began)


@needs("disk")
def test_the_disk_limit_bites(make):
    box = make(disk=64 * MB)
    done = box.sh("head -c 200000000 /dev/zero > /workspace/full")
    assert done.code != 0 and b"space" in done.err.lower()
    box.says("rm /workspace/full")
    box.put("/workspace/fits", b"x" * MB)


@needs("disk")
def test_a_full_disk_leaves_the_old_file(make):
    box = make(disk=64 * MB)
    box.put("/workspace/old", b"old")
    box.sh("head -c 200000000 /dev/zero > /workspace/full")
    reply = box.file("POST", "/upload-v2", b"n" * 10 * MB, path="/workspace/old")
    assert reply.status >= 400 and box.get("/workspace/old") == b"old"


@needs("disk")
def test_disk_use_is_counted(make):
    box = make(disk=128 * MB)
    box.put("/workspace/use", b"x" * 20 * MB)
    assert until(lambda: box.stats()["diskBytes"] >= 20 * MB)


def test_statistics(box):
    seen = box.stats()
    assert set(seen) == {"memoryBytes", "memoryLimit", "memoryPeak", "cpuMicros", "pids", "oomKills", "oomAgeMs",
                         "diskBytes", "diskLimit"}


def test_a_read_only_root(make):
    box = make(readOnly=True)
    assert box.sh("echo x > /etc/none").code != 0
    assert box.says("echo x > /tmp/some && echo y > /workspace/some && echo fine") == "fine\n"
    assert "localhost" in box.says("cat /etc/hosts")
