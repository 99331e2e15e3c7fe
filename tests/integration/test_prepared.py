"""`cay run` and `cay python` with a daemon that prepares sandboxes: the same results as without, and a way back to making one
itself wherever the daemon's would not be the same."""

import concurrent.futures
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import stressing
from daemons import children, own_folder, serving_alone
from launching import need_launcher
from support import BUILD, CAY, as_root_only, is_sanitized, suspend, until

pytestmark = as_root_only

TAKEN = "sandbox prepared by the daemon"
MADE = "sandbox made by this process"
ANSWER_EVENT = struct.Struct("I")
REFUSED = 2


@pytest.fixture(scope="module")
def daemon():
    need_launcher()
    with serving_alone() as d:
        yield d


def command(d, *args):
    return [CAY, "run", "--state-dir", d.state, *args]


def run(d, *args, env=None, **more):
    more.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run(command(d, *args), capture_output=True, timeout=60,
                          env={**os.environ, **(env or {})}, **more)


def way(d, *options, before=(), **more):
    """How `cay run` got its sandbox: the event, and the reason if it made it itself."""
    done = subprocess.run([*before, *command(d, "--verbose", *options, "--", "true")],
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=60, **more)
    text = done.stderr.decode()
    if TAKEN in text:
        return TAKEN, ""
    found = re.search(rf'event="{MADE}" why="?([^"\n]*)', text)
    assert found, text
    return MADE, found[1]


def is_ready(d):
    """Whether the daemon hands sandboxes over; the first may take it too long on a busy machine."""
    return until(lambda: way(d)[0] == TAKEN)


def find(*argv):
    """Processes with this command line."""
    line = b"\0".join(map(os.fsencode, argv)) + b"\0"
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cmdline").read_bytes() == line:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def start_sleeping(d, *args):
    """A run that the daemon serves, and the argument that tells its command from others."""
    assert is_ready(d)
    number = f"1000.{time.monotonic_ns()}"
    box = subprocess.Popen(command(d, *args, "--", "sleep", number), stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert until(lambda: find("sleep", number)), box.communicate()
    return box, number


# ---- the same as without ----

SAME = [
    ["true"],
    ["false"],
    ["sh", "-c", "echo out; echo err >&2; exit 7"],
    ["sh", "-c", "kill -SEGV $$"],
    ["sh", "-c", "kill -9 $$"],
    ["no-such-command"],
    ["/etc/passwd"],
    ["sh", "-c", "pwd; id; umask; ulimit -a; echo $$; tty"],
    ["sh", "-c", "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp:|Cpus_allowed|Umask)' /proc/self/status"],
    ["sh", "-c", "env | sed s/^HOSTNAME=.*/HOSTNAME/ | sort"],
    ["sh", "-c", "test $(hostname) = $HOSTNAME && hostname | grep -Ec '^[0-9a-f]{16}$'"],
    ["sh", "-c", "awk '{print $2, $3, substr($4, 1, 2)}' /proc/mounts | sort -u"],
    ["sh", "-c", "stat -c '%A %U %G %n' / /* /dev/* /workspace /tmp /var/* /etc/*"],
    ["sh", "-c", "cat /proc/self/cgroup /proc/net/dev | sed 's/[0-9]//g'; ls /proc/self/fd"],
    ["sh", "-c", "df -B1 --output=size,itotal / /tmp /dev/shm"],
    ["sh", "-c", "ps -e -o pid,user,comm; cat /proc/1/comm"],
    ["python3", "-c", "import os; print(os.sched_getaffinity(0), os.getpriority(0, 0), os.getsid(0), os.getpgrp())"],
]
OPTIONS = [
    [],
    ["-m", "64m", "--pids", "9", "--cpus", "0.5", "--disk", "8m"],
    ["--user", "user", "--workdir", "/a/b", "-e", "A=1", "-e", "PATH=/bin"],
    ["--read-only"],
    ["--name", "lab"],
    ["--profile", "build"],
    ["-o", "json", "--label", "a=b"],
    ["--timeout", "20", "--output-max", "100", "--idle-output-timeout", "15"],
]


def plain(done):
    """Without what differs from run to run."""
    out = re.sub(rb'"(\w+_ms)":[0-9.]+', rb'"\1":0', done.stdout)
    return done.returncode, out, done.stderr


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: " ".join(o) or "none")
def test_results_are_the_same(daemon, options):
    """Each command both ways."""
    assert is_ready(daemon)
    assert until(lambda: way(daemon, *options)[0] == TAKEN), way(daemon, *options)
    for argv in SAME:
        here = plain(run(daemon, *options, "--no-daemon", "--", *argv))
        there = plain(run(daemon, *options, "--", *argv))
        assert here == there, argv


def test_limits_strike(daemon):
    assert is_ready(daemon)
    done = run(daemon, "--timeout", "1", "--", "sh", "-c", "echo began; sleep 1000")
    assert (done.returncode, done.stdout) == (124, b"began\n"), done
    assert b"--timeout" in done.stderr
    done = run(daemon, "-m", "48m", "--", "sh", "-c", "python3 -c 'bytearray(200 << 20)'; echo $?")
    assert (done.returncode, done.stdout) == (0, b"137\n"), done
    assert b"out of memory" in done.stderr
    done = run(daemon, "-m", "48m", "--", "true")  # the slot's counter is not this one's
    assert (done.returncode, done.stderr) == (0, b""), done
    done = run(daemon, "--pids", "5", "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do sleep 9 & done")
    assert done.returncode != 0 and b"fork" in done.stderr, done


def test_each_run_has_a_fresh_sandbox(daemon):
    assert is_ready(daemon)
    script = "ls -A /workspace /tmp /var/tmp /dev/shm | grep -c x; touch /workspace/x /tmp/x /dev/shm/x; ipcmk -Q >&2; ipcs -q | wc -l"
    outputs = {run(daemon, "--", "sh", "-c", script).stdout for _ in range(8)}
    assert len(outputs) == 1 and outputs.pop().startswith(b"0\n")


def test_closed_output_is_an_error(daemon):
    assert is_ready(daemon)
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *map(str, command(daemon, "--", "echo", "x"))],
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    alone = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *map(str, command(daemon, "--no-daemon", "--", "echo", "x"))],
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert plain(done) == plain(alone)


# ---- the way back ----

@pytest.mark.parametrize("options, why", [
    (["--no-daemon"], "--no-daemon"),
    (["-v", "/tmp:/mnt"], "it has volumes"),
    (["--network", "allow=example.org"], "it has a network"),
])
def test_options_that_need_a_sandbox_of_ones_own(daemon, options, why):
    assert is_ready(daemon)
    assert way(daemon, *options) == (MADE, why)


def test_the_configuration_can_forbid_it(daemon):
    assert is_ready(daemon)
    assert way(daemon, env={**os.environ, "CAY_SANDBOX_USE_DAEMON": "false"}) == \
        (MADE, "sandbox.use_daemon is false")


def test_what_a_sandbox_would_inherit_must_be_the_same(daemon):
    assert is_ready(daemon)
    assert way(daemon, before=["sh", "-c", 'umask 077; exec "$@"', "sh"]) == (MADE, "the daemon has another umask")
    assert way(daemon, before=["unshare", "-m"]) == (MADE, "the daemon sees another file tree")
    if len(os.sched_getaffinity(0)) > 1:
        assert way(daemon, before=["taskset", "-c", str(min(os.sched_getaffinity(0)))]) == \
            (MADE, "the daemon may use other processors")


def test_ordinary_users_make_their_own(daemon):
    """And cannot reach the daemon's socket, whatever program they use."""
    with tempfile.TemporaryDirectory(prefix="box-", dir="/tmp") as home:
        os.chmod(home, 0o755)
        os.chown(home, 65534, 65534)
        done = subprocess.run([CAY, "run", "--verbose", "--tier", "basic", "--", "true"], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=60, user=65534, group=65534, extra_groups=[],
                              env={"PATH": os.environ["PATH"], "XDG_STATE_HOME": home, "HOME": home})
        assert f'event="{MADE}" why="only root\'s daemon prepares sandboxes"' in done.stderr.decode()
    dial = "import socket, sys; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", dial, daemon.state / "daemon/prepared.sock"], capture_output=True,
                          user=65534, group=65534, extra_groups=[])
    assert b"PermissionError" in done.stderr


def test_no_daemon_is_started(daemon):
    with tempfile.TemporaryDirectory(prefix="box-", dir="/tmp") as state:
        done = subprocess.run([CAY, "run", "--verbose", "--state-dir", state, "--", "true"], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=60)
        assert done.returncode == 0 and b"no daemon that prepares sandboxes is running" in done.stderr, done.stderr
        assert not (Path(state) / "daemon").exists()


def ask(d, message, with_descriptor=True):
    """What the daemon answers to any message: its event, and the text."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s, open("/dev/null") as null:
        s.settimeout(60)
        s.connect(str(d.state / "daemon/prepared.sock"))
        socket.send_fds(s, [message], [null.fileno()] if with_descriptor else [])
        answer = s.recv(65536)
    return (ANSWER_EVENT.unpack_from(answer)[0], answer) if answer else (0, b"")


@pytest.mark.parametrize("message", [
    b"x", b"0.0.1".ljust(64, b"\0"), b"0.0.1".ljust(9000, b"\0"), b"x" * 64, b"\xff" * 9000, bytes(9000)])
@pytest.mark.parametrize("with_descriptor", [True, False])
def test_requests_of_other_versions_are_refused(daemon, message, with_descriptor):
    assert is_ready(daemon)
    event, text = ask(daemon, message, with_descriptor)
    assert event == REFUSED and b"another version" in text
    assert way(daemon)[0] == TAKEN


def test_a_daemon_that_does_not_answer_is_not_waited_for(daemon):
    assert is_ready(daemon)
    front = daemon.front()
    suspend(front)
    try:
        assert way(daemon) == (MADE, "the daemon does not answer")
    finally:
        os.kill(front, signal.SIGCONT)
    assert is_ready(daemon)


# ---- ends ----

def test_a_killed_client_leaves_nothing(daemon):
    box, number = start_sleeping(daemon)
    box.kill()
    box.communicate()
    assert until(lambda: not find("sleep", number))
    assert until(lambda: "cay_prepared_running 0" in daemon.get("/metrics").text)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_reach_the_command(daemon, number):
    box, _ = start_sleeping(daemon)
    box.send_signal(number)
    assert box.wait(60) == 128 + number
    box.communicate()


@pytest.mark.parametrize("name", ["cayd-front", "cay-launcher"])
def test_a_run_ends_with_what_serves_it(name):
    """It says why, and does not hang; the next one is served again."""
    need_launcher()
    with serving_alone() as d:
        box, number = start_sleeping(d)
        d.kill_child(name)
        out, err = box.communicate(timeout=60)
        assert (box.returncode, out) == (125, b""), err
        assert b"the daemon ended, and with it the sandbox" in err and b"--no-daemon" in err
        assert until(lambda: not find("sleep", number))
        assert is_ready(d)


def test_a_stop_waits_for_short_runs():
    need_launcher()
    with serving_alone() as d:
        assert is_ready(d)
        box = subprocess.Popen(command(d, "--", "sh", "-c", "echo began; sleep 1; echo done"), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        first = box.stdout.readline()
        d.process.terminate()
        assert until(lambda: not (d.state / "daemon/prepared.sock").exists())
        assert way(d)[0] == MADE
        out, err = box.communicate(timeout=60)
        assert (box.returncode, first + out, err) == (0, b"began\ndone\n", b"")
        assert d.process.wait(60) == 0
        d.start()
        assert is_ready(d)


def test_fifty_at_once(daemon):
    assert is_ready(daemon)
    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        every = list(pool.map(lambda i: run(daemon, "--", "sh", "-c", f"cat; hostname; exit {i}"), range(50)))
    assert [done.returncode for done in every] == list(range(50)), [done.stderr for done in every]
    assert len({done.stdout for done in every}) == 50
    assert until(lambda: "cay_prepared_running 0" in daemon.get("/metrics").text)


def test_sandboxes_that_are_ready_are_few_and_only_after_the_first_run():
    need_launcher()
    with serving_alone() as d:
        inits = lambda: [pid for pid in children(d.launcher()) if Path(f"/proc/{pid}/comm").read_text() == "cay-init\n"]
        before = len(inits())
        assert is_ready(d)
        assert until(lambda: len(inits()) == before + 4)
        totals = d.get("/metrics").text
        assert re.search(r'cay_prepared_total\{kind="command"\} [1-9]', totals), totals


CHANGE = r"""
cp /etc/inputrc "$1/inputrc" && mount --bind "$1/inputrc" /etc/inputrc
"$2/cayd" --state-dir "$1/state" 2>>"$1/log" & daemon=$!
trap 'kill $daemon; wait $daemon' EXIT
say() { "$2/cay" run --verbose --state-dir "$1/state" -- tail -1 /etc/inputrc 2>>"$1/ways"; }
for _ in $(seq 200); do say "$@" >/dev/null; grep -q 'prepared by' "$1/ways" && break; sleep 0.2; done
say "$@"
echo '# changed' >>"$1/inputrc"
for _ in 1 2 3 4 5 6; do say "$@"; done
"""


@pytest.mark.skipif(not Path("/etc/inputrc").exists(), reason="the host has no such file")
def test_a_change_of_the_host_is_seen():
    """What was prepared before is of no use then. In a mount namespace of its own, where a file of /etc is ours."""
    need_launcher()
    with own_folder() as top:
        (top / "state").mkdir()
        done = subprocess.run(["unshare", "-m", "--propagation", "private", "bash", "-c", CHANGE, "bash", top, BUILD],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        first, *rest = done.stdout.splitlines()
        assert "# changed" not in first and rest == ["# changed"] * 6, done
        ways = (top / "ways").read_text().splitlines()
        assert sum(TAKEN in line for line in ways[-7:]) >= 3, ways


# ---- Python ----

def python(d, *args, **more):
    more.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([CAY, "python", "--state-dir", d.state, *args], capture_output=True, timeout=60, **more)


def python_way(d, *options):
    """The event, the reason if it made its sandbox itself, and whether the interpreter was warm."""
    done = python(d, "--verbose", "-o", "json", *options, "-c", "print(1)")
    told, text = json.loads(done.stdout), done.stderr.decode()
    assert told["stdout"] == "1\n", told
    found = re.search(rf'event="{MADE}" why="?([^"\n]*)', text)
    assert TAKEN in text or found, text
    return (MADE if found else TAKEN), found[1] if found else "", told["interpreter"]["warm"]


def hits(d):
    return int(re.search(r"^cay_python_hits_total (\d+)", d.get("/metrics").text, re.M)[1])


def python_is_ready(d):
    """Whether interpreters wait: one was taken."""
    def takes():
        before = hits(d)
        return python_way(d) == (TAKEN, "", True) and hits(d) > before
    return until(takes)


PROGRAMS = [
    "print(1)",
    "import sys; print(sys.argv, sys.flags, sys.path[:2], sys.version); sys.exit(3)",
    "import os, socket; print(os.getcwd(), os.getpid() > 1, os.getuid(), socket.gethostname() == os.environ['HOSTNAME'])",
    "import os; e = dict(os.environ); e.pop('HOSTNAME'); print(sorted(e.items()))",
    "import sys; print(sys.stdin.read())",
    "open('a', 'w').write('x'); 1/0",
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "import resource; print([resource.getrlimit(i) for i in range(16)])",
    "import os; os.write(1, b'x' * 3000000)",
    "import threading, subprocess; t = threading.Thread(target=print, args=('t',)); t.start(); t.join(); print(subprocess.run(['id'], capture_output=True))",
    "x = bytearray(900 << 20)",
    "def f(",
]


def plain_python(done):
    """Without what differs from run to run."""
    told = json.loads(done.stdout)
    told.pop("duration_ms")
    told.pop("phases", None)
    for name in ("stdout_file", "stderr_file"):
        if told.get(name):
            text = name.removesuffix("_file")
            told[text] = told[text].replace(told[name], "FILE")
            os.unlink(told[name])
            told[name] = "FILE"
    return done.returncode, told, done.stderr


@pytest.mark.parametrize("options", [[], ["-e", "A=1"], ["-w", "/x/y"], ["--cold"], ["-u", "user"], ["-m", "300m"]],
                         ids=lambda o: " ".join(o) or "none")
def test_programs_are_the_same(daemon, options):
    assert python_is_ready(daemon)
    assert until(lambda: python_way(daemon, *options)[0] == TAKEN), python_way(daemon, *options)
    for program in PROGRAMS:
        both = [plain_python(python(daemon, "-o", "json", *options, *way, "-c", program, "a", "b", input=None,
                                    stdin=open("/etc/hostname"))) for way in ([], ["--no-daemon"])]
        assert both[0] == both[1], program


@pytest.mark.parametrize("options, why", [
    (["--no-daemon"], "--no-daemon"),
    (["-v", "/tmp:/mnt"], "it has volumes"),
    (["--network", "allow=example.org"], "it has a network"),
])
def test_options_of_python_that_need_a_sandbox_of_ones_own(daemon, options, why):
    assert python_is_ready(daemon)
    assert python_way(daemon, *options)[:2] == (MADE, why)


def test_other_modules_than_the_daemons_are_not_preloaded(daemon):
    assert python_is_ready(daemon)
    done = python(daemon, "--verbose", "-c", "import sys; print('fractions' in sys.modules)",
                  env={**os.environ, "CAY_PYTHON_PRELOAD": "fractions"})
    assert b"the daemon preloads other modules" in done.stderr and done.stdout == b"True\n", done


def test_an_interpreter_is_used_once(daemon):
    assert python_is_ready(daemon)
    for _ in range(8):
        done = python(daemon, "-c", "import sys, os; print(hasattr(sys, 'x'), os.listdir()); sys.x = 1; open('f', 'w')")
        assert done.stdout == b"False []\n", done


def test_a_killed_client_of_python_leaves_nothing(daemon):
    assert python_is_ready(daemon)
    number = f"1000.{time.monotonic_ns()}"
    box = subprocess.Popen([CAY, "python", "--state-dir", daemon.state, "-c",
                            f"import subprocess; subprocess.run(['sleep', '{number}'])"], stdin=subprocess.DEVNULL)
    assert until(lambda: find("sleep", number))
    box.kill()
    box.wait()
    assert until(lambda: not find("sleep", number))


def test_other_languages(daemon):
    assert is_ready(daemon)
    words = [CAY, "run-code", "--state-dir", daemon.state, "--verbose", "--language", "bash", "-c", "echo $1; exit 4", "x"]
    done = subprocess.run(words, capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (4, b"x\n") and TAKEN.encode() in done.stderr, done


# ---- the tests of `cay run` and `cay python` themselves ----

@pytest.mark.skipif(is_sanitized(), reason="it takes too long")
@pytest.mark.parametrize("name, some", [("test_run.py", "exit or stream or signal"), ("test_tty.py", "terminal or size"),
                                        ("test_python.py", "argv or exit or exception")])
def test_the_suite_passes_with_a_daemon(name, some):
    """All of it by `make stress`."""
    need_launcher()
    chosen = [] if stressing.FULL else ["-k", some]
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", Path(__file__).parent / name, *chosen],
                          env={**os.environ, "CAY_TEST_DAEMON": "1"}, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    served = re.search(r"prepared by the daemon: (\d+)", done.stdout + done.stderr)
    assert served and int(served[1]) > 1, done.stdout[-1000:]
