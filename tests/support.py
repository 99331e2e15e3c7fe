"""What the suites share: running the built cay, as root or as an ordinary user, and seeing what it
leaves on the host."""

import atexit
import functools
import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("CAY_BUILD", ROOT / "build"))
CAY = BUILD / "cay"
HELPERS = BUILD / "tests" / "helpers"
FULL = os.environ.get("CAY_STRESS") == "full"  # set by `make stress`
SLOWER = 6  # a sanitized program gets that part of the work

# Who is tested: root by default; CAY_TEST_USER names an ordinary user, who accepts what the host
# gives him. CAY_TEST_SUBIDS says that he has subordinate ids.
USER = os.environ.get("CAY_TEST_USER", "")
SINGLE_ID = bool(USER) and not os.environ.get("CAY_TEST_SUBIDS")
TIER = ["--tier", "basic"] if USER else []

as_root_only = pytest.mark.skipif(bool(USER), reason="this is about what only root gets")
needs_ids = pytest.mark.skipif(SINGLE_ID, reason="the tested user has one id only")


def until(condition, seconds=45.0):
    """Whether the condition came true in time: far more than it takes on a machine that stalls, less than the
    60 s after which the daemon hangs up on a silent client, which would end by itself what should end at once."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def suspend(pid):
    """Stops a process. A thread that runs on another processor goes on for a moment after SIGSTOP was sent."""
    os.kill(pid, signal.SIGSTOP)
    threads = [Path(f"/proc/{pid}/task/{task}/stat") for task in os.listdir(f"/proc/{pid}/task")]
    assert until(lambda: all(t.read_text().rsplit(")", 1)[1].split()[0] == "T" for t in threads if t.exists()))


def need_cay():
    if not CAY.exists():
        pytest.skip("cay is not built: ninja -C build")


@functools.cache
def is_sanitized():
    """True if cay was built with AddressSanitizer: slower, and larger."""
    return CAY.exists() and b"__asan_init" in CAY.read_bytes()


def amount(everyday, full=None):
    """How often to do something: as much as everyday runs have time for, or all of it."""
    count = full if FULL and full else everyday
    return max(count // SLOWER, 1) if is_sanitized() else count


@functools.cache
def state_home():
    """A state folder for the tested user, whose home may not exist; gone with this process."""
    folder = tempfile.mkdtemp(prefix="state-", dir="/tmp")
    os.chown(folder, pwd.getpwnam(USER).pw_uid, pwd.getpwnam(USER).pw_gid)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def state_dir():
    return Path(state_home()) / "cay" if USER else Path("/var/lib/cay")


def as_user():
    """How to become the tested user: arguments of subprocess, and the environment."""
    env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": os.environ.get("HOME", "/root"),
           "CAY_MANAGER_POOL_SIZE": "0"}  # what tests count is what they made
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
        if name in os.environ:
            env[name] = os.environ[name]
    if not USER:
        return {}, env
    entry = pwd.getpwnam(USER)
    env.update(HOME=entry.pw_dir, USER=USER, XDG_STATE_HOME=state_home())
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}, env


def own(path):
    """Gives a file or folder to the tested user."""
    if USER:
        os.chown(path, pwd.getpwnam(USER).pw_uid, pwd.getpwnam(USER).pw_gid)
    return path


def own_folder(path):
    """Makes a folder that the tested user owns."""
    path.mkdir()
    return own(path)


@pytest.fixture
def folder():
    """A folder that the tested user owns and reaches; pytest's own are closed to others."""
    path = Path(tempfile.mkdtemp(prefix="box-", dir="/tmp"))
    path.chmod(0o755)
    yield own(path)
    shutil.rmtree(path, ignore_errors=True)


def remove(top):
    """What an ordinary user with subordinate ids has made belongs to those. A process that brings
    layers of images to the disk may still write a mark in each."""
    deadline = time.monotonic() + 60
    while subprocess.run(["rm", "-rf", top], stderr=subprocess.DEVNULL).returncode != 0:
        assert time.monotonic() < deadline, f"{top} cannot be removed"
        time.sleep(0.1)


def cay(*args, input=b"", timeout=60, env=None, **more):
    """Runs cay to its end; output as bytes."""
    need_cay()
    who, base = as_user()
    if "stdin" not in more:
        more["input"] = input
    for stream in ("stdout", "stderr"):
        more.setdefault(stream, subprocess.PIPE)
    return subprocess.run([CAY, *map(os.fsencode, map(str, args))], timeout=timeout,
                          env={**base, **(env or {})}, **who, **more)


def start(*args, env=None, **more):
    """Starts cay; the caller waits for it."""
    need_cay()
    who, base = as_user()
    for stream in ("stdin", "stdout", "stderr"):
        more.setdefault(stream, subprocess.PIPE)
    return subprocess.Popen([CAY, *map(str, args)], env={**base, **(env or {})}, **who, **more)


def run(*args, **more):
    """`cay run` with the tested tier."""
    return cay("run", *TIER, *args, **more)


def sh(script, *options, **more):
    """A shell script in a fresh sandbox."""
    return run(*options, "--", "sh", "-c", script, **more)


def python(script, *options, **more):
    """A Python program in a fresh sandbox."""
    return run(*options, "--", "python3", "-c", script, **more)


def ok(result):
    """The output of a run that must have succeeded."""
    assert result.returncode == 0, result.stdout.decode(errors="replace") + \
        result.stderr.decode(errors="replace")
    return result.stdout.decode(errors="replace")


def told_by(result):
    """The JSON of a run, whatever became of it."""
    assert result.stderr == b"", result.stderr.decode(errors="replace")
    document = json.loads(result.stdout)
    assert document["exit_code"] == result.returncode
    return document


def refused(result, *parts, code=125):
    """The one line that a refused run prints: who speaks, what is wrong, what to do."""
    text = result.stderr.decode()
    assert result.returncode == code, (result.returncode, text)
    assert text.startswith("cay: ") and text.count("\n") == 1 and text.endswith("\n"), text
    assert text.isprintable() or text[:-1].isprintable(), text
    for part in parts:
        assert part in text, text
    return text


def note_retry(what):
    """A step was repeated within a test. scripts/test counts and prints these (tests/conftest.py)."""


def current_test():
    return os.environ.get("PYTEST_CURRENT_TEST", "").split(" ")[0].split("[")[0].rsplit("/", 1)[-1]


def given_time(attempt, holds, limits=(1.5, 6, 25)):
    """What attempt(seconds) returned under the first time limit with which it holds, or under the last:
    a busy machine may need longer to begin. A real defect fails under every limit."""
    for seconds in limits:
        if seconds != limits[0]:
            note_retry(f"{current_test()} with more time")
        result = attempt(seconds)
        if holds(result):
            break
    return result


def takes_less(attempt, seconds):
    """Whether one of three attempts, each of which returns how long it took, was that quick: a machine
    that stalls makes one of them slow, a defect all of them."""
    for i in range(3):
        if i > 0:
            note_retry(f"{current_test()} was too slow")
        if attempt() < seconds:
            return True
    return False


class _Process:
    def __init__(self, folder, uid):
        fields = (folder / "stat").read_text()
        self.name = fields[fields.index("(") + 1:fields.rindex(")")]
        state, parent = fields[fields.rindex(")") + 2:].split()[:2]
        if state == "Z":  # it has ended; the first process of a small container may never reap it
            raise ProcessLookupError
        self.parent = int(parent)
        owner = folder.stat().st_uid
        inside = 0x70000000 <= owner < 0x80000000
        self.of_cay = self.name.startswith("cay") or inside or owner == uid


def _all_processes():
    uid = pwd.getpwnam(USER).pw_uid if USER else -1
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found[int(entry.name)] = _Process(entry, uid)
            except OSError:
                continue  # it ended
    return found


def _is_ours(pid, everything):
    """True for what this test started, and for orphans, whose maker is gone. What has another maker
    that lives belongs to another user of this machine; a launcher is such a one."""
    top = pid
    while everything[top].of_cay:
        if everything[top].name == "cay-launcher":
            return False
        pid, top = top, everything[top].parent
        if top not in everything or top == 1 or everything[top].name == "systemd":
            return True
    while top in everything and top > 1:
        if top == os.getpid():
            return True
        top = everything[top].parent
    return False


def _groups(everything, empty):
    """Groups that hold processes of ours, or none if those are wanted too."""
    groups = set()
    for path, _, _ in os.walk("/sys/fs/cgroup"):  # which does not mind what vanishes meanwhile
        if "/cay/" not in path:
            continue
        try:
            members = [int(pid) for pid in Path(path, "cgroup.procs").read_text().split()]
        except OSError:
            continue
        ours = all(pid in everything and _is_ours(pid, everything) for pid in members)
        if ours and (members or empty):
            groups.add(path)
    return groups


def _mounts():
    """Those that cay could have made: in its state folder, or named after it."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line for line in lines if str(state_dir()) in line or "cay" in line}


def host_state(after=False):
    """What a run must leave as it was: mounts, control groups, processes of ours, temporary files
    and the state folder. Groups that are new and empty may be another's, if a launcher runs."""
    everything = _all_processes()
    pooled = after and any(p.name == "cay-launcher" for p in everything.values())
    processes = {(pid, p.name) for pid, p in everything.items()
                 if p.of_cay and _is_ours(pid, everything)}
    temporary = {p.name for p in Path("/tmp").iterdir() if "cay" in p.name}
    state = {str(p) for top in ("*", "images/*") for p in state_dir().glob(top)}
    once = ("images", "images/store", "docker-run")  # for all that follow
    state -= {str(state_dir() / name) for name in once}
    return {"mounts": _mounts(), "groups": _groups(everything, not pooled),
            "processes": processes, "temporary": temporary, "state": state}


def left_over(before, seconds=60.0):
    """What is there that was not before, and stays: the helper may need a moment."""
    deadline = time.monotonic() + seconds
    left = None
    while True:
        now = host_state(after=True)
        new = {(kind, item) for kind in now for item in now[kind] - before[kind]}
        left = new if left is None else left & new
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)


@pytest.fixture
def clean_host():
    """Fails a test that leaves something on the host."""
    run("--", "true")  # what the first run makes for good
    before = host_state()
    yield
    left = left_over(before)
    assert not left, f"left on the host: {sorted(left)}"
