"""Nothing stays: the host after many runs, after runs that were killed at any moment, and with many
at once, is the host before."""

import fcntl
import os
import random
import signal
import struct
import subprocess
import time

from support import (TIER, amount, as_root_only, host_state, is_sanitized, left_over, ok, own, run,
                     start)

RUNS = amount(240, 1000)
F_OFD_GETLK = 36  # fcntl has no name for it
KILLS = amount(72, 200)
AT_ONCE = 4
# A run takes so long from its first to its last instruction, with some to spare.
SPAN = 0.2 if is_sanitized() else 0.012


def spawn(*args):
    return start("run", *TIER, *args, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                 stderr=subprocess.PIPE)


def in_batches(count, begin, end):
    """Keeps AT_ONCE runs going until there were so many; each result goes to `end`."""
    for _ in range(count // AT_ONCE):
        for box in [begin() for _ in range(AT_ONCE)]:
            end(box)


def test_many_runs(clean_host):
    def end(box):
        _, err = box.communicate(timeout=60)
        assert (box.returncode, err) == (0, b"")
    in_batches(RUNS, lambda: spawn("--", "/bin/true"), end)


def interrupted(count, numbers, dice):
    """Runs that get a signal at a random moment; how they ended."""
    codes = []

    def begin():
        box = spawn("--", "sh", "-c", "sleep 0.005 & echo x; wait")
        return box, time.monotonic() + dice.uniform(0, SPAN), dice.choice(numbers)

    def end(item):
        box, moment, number = item
        time.sleep(max(0, moment - time.monotonic()))
        box.send_signal(number)
        box.communicate(timeout=60)
        codes.append(box.returncode)
    in_batches(count, begin, end)
    return codes


def test_killed_at_any_moment(clean_host):
    seed = random.randrange(1 << 32)
    codes = interrupted(KILLS, [signal.SIGKILL], random.Random(seed))
    assert set(codes) <= {0, -signal.SIGKILL}, f"seed {seed}"
    assert -signal.SIGKILL in codes, f"seed {seed}"


def test_signalled_at_any_moment(clean_host):
    """The default action before cay watches for it, 128+n afterwards, 0 when it came too late."""
    seed = random.randrange(1 << 32)
    numbers = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
    codes = interrupted(KILLS, numbers, random.Random(seed))
    assert set(codes) <= {0, *(-n for n in numbers), *(128 + n for n in numbers)}, f"seed {seed}"


def test_killed_with_busy_sandbox(clean_host):
    """What runs inside forks, leaves its session and ignores signals."""
    script = "trap '' TERM HUP INT; for i in 1 2 3; do (setsid sh -c 'trap \"\" TERM; " \
             "while :; do sleep 0.01; done' &); done; echo ready; while :; do :; done"
    for _ in range(5):
        box = start("run", *TIER, "--", "sh", "-c", script, stdin=subprocess.DEVNULL)
        assert box.stdout.readline() == b"ready\n"
        box.kill()
        box.communicate(timeout=60)


def test_many_at_once(clean_host):
    count = 10 if is_sanitized() else 50
    boxes = [start("run", *TIER, "--memory", "64m", "--", "sh", "-c", f"cat; echo {i}")
             for i in range(count)]
    for i, box in enumerate(boxes):
        out, err = box.communicate(b"in\n", timeout=60)
        assert (box.returncode, out) == (0, f"in\n{i}\n".encode()), err


def test_same_name_twice(clean_host):
    boxes = [start("run", *TIER, "--name", "twin", "--", "sh", "-c", "hostname; cat")
             for _ in range(2)]
    assert [box.stdout.readline() for box in boxes] == [b"twin\n"] * 2
    for box in boxes:
        box.communicate(timeout=60)
        assert box.returncode == 0


def is_leased(base):
    """True if the id range is held, by the lock on its byte of the host's lease file."""
    at = (base - 0x70000000) // 65536
    with open("/run/cay-ids", "rb") as file:
        # struct flock: type, whence, start, length, pid
        ask = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, at, 1, 0)
        return struct.unpack("hhqqi4x", fcntl.fcntl(file, F_OFD_GETLK, ask))[0] != fcntl.F_UNLCK


@as_root_only
def test_id_leases_are_given_back(clean_host, folder):
    """Each sandbox has ids of its own, also with another state folder, and gives them back."""
    states = [[], ["--state-dir", str(folder)], []]
    boxes = [start("run", *state, "--", "sh", "-c", "cat /proc/self/uid_map; cat")
             for state in states]
    bases = [int(box.stdout.readline().split()[1]) for box in boxes]
    assert len(set(bases)) == 3
    assert all(is_leased(base) for base in bases)
    boxes[0].communicate(timeout=60)
    for box in boxes[1:]:
        box.kill()
        box.communicate(timeout=60)
    deadline = time.monotonic() + 60
    while any(map(is_leased, bases)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_leased, bases))


def test_first_run_of_many_at_once(folder):
    """The image is made by whoever is first; nothing of the attempts stays."""
    own(folder)
    before = host_state()
    boxes = [spawn("--state-dir", folder, "--", "true") for _ in range(8)]
    for box in boxes:
        _, err = box.communicate(timeout=60)
        assert box.returncode == 0, err
    assert left_over(before) == set()
    images = sorted(p.name for p in (folder / "images" / "host").iterdir())
    assert len([name for name in images if len(name) == 16]) == 1, images


def test_killed_while_making_the_image(folder):
    """A half-made image is never used, and does not stay."""
    own(folder)
    dice = random.Random(5)
    for _ in range(20):
        box = spawn("--state-dir", folder, "--", "true")
        time.sleep(dice.uniform(0, SPAN * 2))
        box.kill()
        box.communicate(timeout=60)
    assert ok(run("--state-dir", folder, "--", "sh", "-c", "id -un; pwd")) == "root\n/workspace\n"
    images = sorted(p.name for p in (folder / "images" / "host").iterdir())
    assert len(images) <= 3, images
