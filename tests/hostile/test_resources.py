"""Section F of the checklist: a sandbox that wants everything gets its share, and the host and cay
itself do not notice."""

import contextlib
import ctypes
import json
import os
import platform
import re
import subprocess
import textwrap
import threading
import time
from pathlib import Path

import pytest

import support
from inside import box, code, descendants, need_wall, owned, probe, status, walls
from support import until

MB = 1 << 20
LOSS_MAX = 256 * MB


def run_json(script, *options, **more):
    """The JSON result of a Python script, which may well be killed."""
    done = support.python(script, "-o", "json", *options, **more)
    return json.loads(done.stdout)


def available():
    return int(re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())[1]) * 1024


class Lowest:
    """The least memory that the host had meanwhile."""

    def __enter__(self):
        self.start = self.least = available()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while not self.stop.wait(0.02):
            self.least = min(self.least, available())

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()

    def taken(self):
        return self.start - self.least


def run_watched(script, *options):
    """The result, and what the host lost meanwhile. Others take memory too, for some seconds at a time (a
    machine that boots in the suite beside us, a compiler); what a sandbox takes, it takes each time."""
    for _ in range(10):
        with Lowest() as host:
            result = run_json(script, *options, timeout=180)
        if host.taken() < LOSS_MAX:
            break
        time.sleep(2)  # for them to have what they want
    return result, host.taken()


# ---- processes ----

BOMBS = {
    "shell": "bomb() { bomb | bomb & }; bomb; exec sleep 60",  # a fork for it could fail
    "fork": """python3 -c '
import os
while True:
    try: os.fork()
    except OSError: pass'""",
    "detached": """python3 -c '
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    try: os.fork() or os.setsid()
    except OSError: pass'""",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_f1_a_fork_bomb_stays_in_its_sandbox(bomb):
    """The number of processes stays at its limit, the host goes on making its own, and the end
    comes in time, for all of them."""
    need_wall("process limit")
    need_wall("own id range")

    def explode(seconds):
        """How many there were at most."""
        most, end = 0, time.monotonic() + seconds + 60
        process = support.start("run", "--pids", "40", "--timeout", seconds, "--", "sh", "-c",
                                "cat /proc/self/uid_map; " + BOMBS[bomb], stderr=subprocess.DEVNULL)
        with process:
            base = int(process.stdout.readline().split()[1])
            while process.poll() is None and time.monotonic() < end:
                most = max(most, len(owned(base)))
                assert subprocess.run(["true"], check=False).returncode == 0
        assert process.returncode == 124
        assert until(lambda: not owned(base))
        return most

    most = support.given_time(explode, lambda most: most > 30 or bomb == "shell", (3, 10, 30))
    assert most <= 42 and (most > 30 or bomb == "shell"), most  # a shell that cannot fork gives up


def kernel():
    return tuple(int(n) for n in re.findall(r"\d+", platform.release())[:2])


CROWD = """
import os, signal
count = 0
try:
    while True:
        if os.fork() == 0:
            signal.pause()
            os._exit(0)
        count += 1
except OSError:
    print(count, flush=True)
"""


@pytest.mark.skipif(kernel() < (6, 14), reason="pid_max is the whole host's before Linux 6.14")
def test_f1_some_processes_are_left_for_the_host():
    """A second wall, which does not depend on control groups: seven eighths of pid_max, here of a pid
    namespace with few."""
    need_wall("process limit")
    need_wall("own id range")
    support.need_cay()
    script = "echo 1000 > /proc/sys/kernel/pid_max && exec \"$@\""
    done = subprocess.run(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script,
                           "sh", support.CAY, "run", "--no-daemon", "--pids", "990", "--", "python3", "-c",
                           CROWD], text=True, capture_output=True, timeout=120, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    assert 700 <= int(done.stdout) <= 875, done.stdout


def test_f1_threads_count_too():
    """Threads are processes to the limit, and to be told so is all that happens."""
    need_wall("process limit")
    seen = probe("""
        import threading
        count, gate = 0, threading.Event()
        try:
            while count < 500:
                threading.Thread(target=gate.wait).start()
                count += 1
        except RuntimeError:
            pass
        gate.set()
        report["count"] = count
        """, "--pids", "50")
    assert 40 <= seen["count"] <= 50


# ---- memory ----

HOGS = {
    "heap": "b = bytearray(400 << 20)",
    "mapped": "import mmap; m = mmap.mmap(-1, 400 << 20); m.write(bytes(400 << 20))",
    "memfd": """
import os
f = os.memfd_create('x')
while True: os.write(f, bytes(1 << 20))""",
    "sysv": """
import contextlib
import ctypes
libc = ctypes.CDLL(None); libc.shmat.restype = ctypes.c_void_p
while True:
    s = libc.shmget(0, 8 << 20, 0o1600); p = libc.shmat(s, None, 0)
    ctypes.memset(ctypes.c_void_p(p), 1, 8 << 20)""",
    "forked": """
import os, time
for _ in range(8):
    if os.fork() == 0:
        b = bytearray(16 << 20); time.sleep(300)
os.wait()
time.sleep(1)""",
}


@pytest.mark.parametrize("hog", HOGS)
def test_f2_a_memory_hog_is_ended_and_told(hog):
    """Whatever kind of memory it takes, it gets its limit, is killed, and cay says why; the host
    loses no more than the limit."""
    need_wall("memory limit")
    result, loss = run_watched(HOGS[hog], "-m", "64m", "--timeout", "120")
    assert result["oom_killed"], result
    assert result["exit_code"] != 124
    assert loss < LOSS_MAX


TAKE = """
import contextlib
import ctypes, fcntl, os, resource, socket
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
held = []
try:
"""
REFUSED = """
except OSError as e:
    print("refused", e)
"""
KERNEL_MEMORY = {
    "pipes": """
while True:
    r, w = os.pipe()
    fcntl.fcntl(w, 1031, 1 << 20)
    os.set_blocking(w, False)
    held.append((r, w)); os.write(w, bytes(1 << 20))""",
    "sockets": """
while True:
    a, b = socket.socketpair(); a.setblocking(False)
    a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    held.append((a, b))
    try:
        while True: a.send(bytes(1 << 16))
    except BlockingIOError: pass""",
    "files": "while True: held.append(os.open('/', os.O_RDONLY))",
    "folders": """
os.chdir('/tmp')
for i in range(10**7):
    os.mkdir('d' * 200 + str(i))""",
    "names": """
for i in range(3 * 10**5):
    try: os.stat('/tmp/' + 'x' * 200 + str(i))
    except OSError: pass
raise OSError('looked')""",
    "watches": """
libc = ctypes.CDLL(None, use_errno=True)
os.chdir('/tmp')
for i in range(10**7):
    os.mkdir(str(i))
    watch = libc.inotify_add_watch(libc.inotify_init(), str(i).encode(), 0xfff)
    if watch < 0: raise OSError('no watch')""",
    "attributes": """
open('/tmp/f', 'w').close()
for i in range(10**6): os.setxattr('/tmp/f', f'user.{i}', bytes(60000))""",
}


@pytest.mark.parametrize("kind", KERNEL_MEMORY)
def test_f2_kernel_memory_counts(kind):
    """What the kernel keeps for a sandbox is the sandbox's: it comes to an error or an end, and
    the host loses no more than the limit."""
    need_wall("memory limit")
    script = TAKE + textwrap.indent(KERNEL_MEMORY[kind], "    ") + REFUSED
    result, loss = run_watched(script, "-m", "64m", "--timeout", "120")
    assert result["oom_killed"] or result["stdout"].startswith("refused"), result
    assert not result["timed_out"]
    assert loss < LOSS_MAX


def test_f3_reading_much_needs_no_memory():
    """The page cache of what a sandbox reads is given back when it is needed: no kill."""
    need_wall("memory limit")
    result = run_json("""
import os
total = 0
for top, _, files in os.walk('/usr/lib'):
    for name in files:
        path = os.path.join(top, name)
        if total < 200 << 20 and os.path.isfile(path) and not os.path.islink(path):
            try: total += len(open(path, 'rb').read(1 << 22))
            except OSError: pass
print(total)""", "-m", "32m")
    assert result["exit_code"] == 0 and not result["oom_killed"], result
    assert int(result["stdout"]) > 50 * MB


# ---- disk ----

def test_f4_a_full_disk_is_an_error_not_a_kill():
    """With the sizes that cay chooses itself, writing without end gives "no space left" in every
    folder, all of them share one limit, and the sandbox goes on."""
    need_wall("memory limit")
    result = run_json("""
import os
total = 0
for folder in ('/tmp', '/workspace', '/dev/shm', '/usr/local', '/root', '/run'):
    try:
        with open(folder + '/fill', 'wb', buffering=0) as f:
            while True: total += f.write(bytes(1 << 20))
    except OSError as e:
        assert e.errno == 28, e
for folder in ('/tmp', '/workspace'): os.unlink(folder + '/fill')
open('/tmp/again', 'wb').write(bytes(1 << 20))
print(total >> 20)""")
    assert result["exit_code"] == 0 and not result["oom_killed"], result
    assert 200 < int(result["stdout"]) <= 256


def test_f4_inodes_run_out_as_an_error():
    """Files without content end at a limit too, and do not cost the host its memory."""
    need_wall("memory limit")
    result = run_json("""
import os
count = 0
os.chdir('/tmp')
try:
    while count < 200000:
        os.close(os.open(str(count), os.O_CREAT)); count += 1
except OSError as e:
    assert e.errno == 28, e
print(count)""")
    assert result["exit_code"] == 0 and not result["oom_killed"], result
    assert 10000 < int(result["stdout"]) <= 16384 + 48  # and what cay counts for itself


def test_f4_sparse_and_reserved_space_counts():
    """Space that is reserved is taken; a hole is not, and a file larger than the disk is no way
    past its limit."""
    seen = probe("""
        fd = os.open("/tmp/f", os.O_RDWR | os.O_CREAT)
        report["reserve"] = attempt(os.posix_fallocate, fd, 0, 64 << 20)
        report["hole"] = attempt(os.ftruncate, fd, 1 << 40)
        report["end"] = attempt(os.pwrite, fd, b"x", (1 << 40) - 1)
        def fill():
            for at in range(0, 64 << 20, 1 << 16):
                os.pwrite(fd, bytes(1 << 16), at)
        report["fill"] = attempt(fill)
        """, "-m", "128m", "--disk", "16m")
    assert seen["reserve"] == seen["fill"] == "ENOSPC"
    assert seen["hole"] == seen["end"] == "ok"


# ---- output ----

def peak(pid):
    return int(status(pid)["VmHWM"].split()[0]) * 1024


def peaks_until_the_end(process):
    """Of the process and all below it, as long as they are there."""
    sizes, end = [], time.monotonic() + 60
    while process.poll() is None and time.monotonic() < end:
        for pid in [process.pid, *descendants(process.pid)]:
            with contextlib.suppress(OSError, KeyError):  # it has just ended
                sizes.append(peak(pid))
        time.sleep(0.1)
    return sizes


def test_f5_output_stops_at_its_limit():
    """--output-max is exact, over both streams, and ends whatever writes on."""
    for script in ("yes", "yes >&2", "yes & yes >&2"):
        done = support.sh(script, "--output-max", "300k")
        assert done.returncode == 124
        told = done.stderr[:-len(b"cay: ended: it printed more than --output-max\n")]
        assert len(done.stdout) + len(told) == 300 * 1024


def test_f5_a_slow_reader_holds_back_the_writer_not_cay():
    """While nobody reads, the command waits, and neither cay nor the process that serves it grows;
    the time limit holds all the same."""
    begin = time.monotonic()
    process = support.start("run", *support.TIER, "--timeout", "4", "--", "yes")
    with process:
        process.stdout.read(1)
        sizes = peaks_until_the_end(process)
        # More than a few buffers would mean that somebody kept it.
        kept = len(process.stdout.read())
    assert process.returncode == 124
    assert time.monotonic() - begin < 60
    assert kept < 2 * MB
    assert support.is_sanitized() or max(sizes) < 24 * MB, sizes


def test_f5_captured_output_is_bounded():
    """With -o json, where cay keeps the output itself, it keeps a bounded part and says so."""
    process = support.start("run", *support.TIER, "-o", "json", "--timeout", "4", "--", "sh", "-c",
                            "yes & yes >&2; wait", stdin=subprocess.DEVNULL)
    with process:
        time.sleep(1.5)
        size = peak(process.pid)
        out, _ = process.communicate(timeout=60)
    result = json.loads(out)
    assert result["output_truncated"]
    assert len(result["stdout"]) <= 16 * MB and len(result["stderr"]) <= 16 * MB
    assert support.is_sanitized() or size < 128 * MB, size


# ---- what stays ----

# Leaves processes that ignore what can be ignored, in sessions of their own, without a parent,
# holding the output open.
LINGER = """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    def beat():
        for number in set(range(1, 32)) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
            signal.signal(number, signal.SIG_IGN)
        for _ in range(3000):
            put("/v/beat", "x")
            time.sleep(0.02)
    for _ in range(5):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                beat()
            os._exit(0)
    while not os.path.exists("/v/beat"):
        time.sleep(0.01)
    report["base"] = int(read("/proc/self/uid_map").split()[1])
    """


@pytest.mark.parametrize("ending", ["timeout", "exit", "kill"])
def test_f6_nothing_outlives_the_sandbox(ending, folder):
    """Processes in sessions of their own, without parents, deaf to signals and holding the output
    open end with the command: after a time limit, a normal end, and when cay itself is killed."""
    for limit in (3, 20) if ending == "timeout" else (1000,):  # a busy machine may need longer to begin
        begin = time.monotonic()
        process = support.start("run", *support.TIER, "--timeout", limit, "-v", f"{folder}:/v", "--",
                                *code(LINGER, then="" if ending == "exit" else "time.sleep(1000)"))
        if told := process.stdout.readline():
            break
        process.communicate()
    with process:
        base = json.loads(told)["base"]
        members = descendants(process.pid)
        if ending == "kill":
            process.kill()
        process.wait(60)
    assert process.returncode == {"timeout": 124, "exit": 0, "kill": -9}[ending]
    assert time.monotonic() - begin < 60
    assert until(lambda: not [pid for pid in members if Path(f"/proc/{pid}").exists()])
    assert not walls()["own id range"] or until(lambda: not owned(base))
    beat = (folder / "beat").stat().st_mtime_ns
    time.sleep(0.15)
    assert (folder / "beat").stat().st_mtime_ns == beat


def test_f7_orphans_are_reaped():
    """Processes whose parents are gone leave no zombies."""
    seen = probe("""
        for _ in range(100):
            if os.fork() == 0:
                if os.fork() == 0:
                    os._exit(0)
                os._exit(0)
        for _ in range(100):
            os.wait()
        end = time.time() + 60
        while time.time() < end:
            states = []
            for pid in filter(str.isdigit, os.listdir("/proc")):
                attempt(lambda: states.append(read(f"/proc/{pid}/stat").rsplit(")")[-1].split()[0]))
            if len(states) <= 3 and "Z" not in states:  # the init, who serves, and we
                break
            time.sleep(0.05)
        report["states"] = states
        """)
    assert len(seen["states"]) <= 3 and "Z" not in seen["states"]


def test_f8_descriptors_and_terminals_are_bounded():
    """Open files and pseudo terminals end at limits that a sandbox cannot raise, and use up nothing
    of a neighbour."""
    seen = probe("""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        report["hard"] = hard
        more = struct.pack("<QQ", hard + 1, hard + 1)
        report["raise"] = syscall(160, resource.RLIMIT_NOFILE, more)
        held = []
        def open_all(path):
            while True:
                held.append(os.open(path, os.O_RDWR | os.O_NOCTTY))
        report["terminals"] = [attempt(open_all, "/dev/ptmx"), len(held)]
        report["files"] = attempt(open_all, "/dev/null")
        """)
    assert seen["hard"] <= 65536 and seen["raise"] == "EPERM"
    assert seen["terminals"] == ["ENOSPC", 64] and seen["files"] == "EMFILE"


# ---- processors ----

SPIN = """
    def spin():
        end = time.monotonic() + float(sys.argv[1])
        while time.monotonic() < end:
            pass
    for _ in range(int(sys.argv[2])):
        if os.fork() == 0:
            spin()
            os._exit(0)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    report["used"] = used.ru_utime + used.ru_stime
    """


def test_f9_the_processor_quota_holds():
    """Four hogs together get the quota, and not more."""
    need_wall("cpu limit")
    begin = time.monotonic()
    seen = probe(SPIN, "--cpus", "0.25", args=["2", "4"])
    wall = time.monotonic() - begin
    assert seen["used"] <= 0.25 * wall * 1.2 + 0.05


@pytest.mark.parametrize("cpus", ["0.1", "2"])
def test_f9_hogs_do_not_hold_up_the_end(cpus):
    """The time limit comes although every processor of the sandbox is busy and its init hardly
    gets a turn."""
    begin = time.monotonic()
    done = support.sh("for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; wait",
                      "--cpus", cpus, "--timeout", "1")
    assert done.returncode == 124
    assert time.monotonic() - begin < 60


# ---- objects of the host ----

ENDINGS = [("true", [], 0), ("exit 3", [], 3), ("kill -9 $$", [], 137),
           ("sleep 1000", ["--timeout", "0.1"], 124), ("cat /dev/zero", ["--output-max", "10k"], 124),
           ("true", ["-v", "/no:/x"], 125), ("true", ["-v", "/usr:/bin/x"], 125),
           ("true", ["-w", "/proc/1/cwd"], 125)]


def test_f10_churn_leaves_nothing(clean_host):
    """Many sandboxes, ended in every way, leave no mount, group, process or file."""
    for script, options, expected in ENDINGS * 5:
        assert support.sh(script, *options).returncode == expected, (script, options)


EXHAUST = """
    held, counts = [], {}
    def until_refused(name, call, most=100000):
        counts[name] = 0
        while counts[name] < most and attempt(lambda: held.append(call())) == "ok":
            counts[name] += 1
    def watch():
        fd = libc.inotify_init()
        if fd < 0:
            raise OSError(ctypes.get_errno(), "")
        return fd
    def queue():
        if libc.sigqueue(os.getpid(), 40, ctypes.c_void_p(0)) < 0:
            raise OSError(ctypes.get_errno(), "")
    def message_queue():
        if libc.msgget(0, 0o1600) < 0:
            raise OSError(ctypes.get_errno(), "")
    signal.pthread_sigmask(signal.SIG_BLOCK, {40})
    until_refused("inotify", watch)
    until_refused("terminals", lambda: os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
    until_refused("signals", queue)
    until_refused("messages", message_queue)
    until_refused("files", lambda: os.open("/dev/null", os.O_RDONLY))
    report["counts"] = counts
    """


def test_h8_what_is_counted_by_user_is_counted_by_sandbox():
    """A sandbox that has used up its inotify instances, terminals, signals, queues and files has
    used up nothing of the host's or of a neighbour."""
    need_wall("own id range")
    with box(EXHAUST) as greedy:
        counts = greedy.report["counts"]
        assert all(0 < count < 100000 for count in counts.values()), counts
        fd = ctypes.CDLL(None, use_errno=True).inotify_init()
        assert fd >= 0, "the host has no inotify instance left"
        os.close(fd)
        for fd in os.openpty():
            os.close(fd)
        assert probe(EXHAUST)["counts"] == counts
