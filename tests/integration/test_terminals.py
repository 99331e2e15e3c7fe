"""Terminals that stay in a sandbox, through a real daemon and from real terminals."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from daemons import own_folder, serving
from launching import (ENTRY, INPUT, STARTED, STDOUT, TERMINAL_ATTACH, field, fields_of,
                       until)
from support import TIER, cay, is_sanitized, needs_ids, ok, own, refused
from test_reload import reload, write
from test_tty import Terminal

SLOW = 4 if is_sanitized() else 1
WINDOW = 5
LEAVE = "\x10\x11"
KEPT = 256 * 1024
# without the noise of prompts
QUIET = ["sh", "-c", "stty -echo; echo ready; exec cat"]


class Terminals:
    """The terminals of one sandbox."""

    def __init__(self, daemon, box):
        self.daemon = daemon
        self.box = box

    def words(self, name, *args):
        return [name, "--state-dir", str(self.daemon.state), *args]

    def verb(self, name, *args, **more):
        return cay("terminal", *self.words(name, *args), **more)

    def make(self, name, *command, options=()):
        words = ["--", *command] if command else []
        assert ok(self.verb("create", *options, self.box, name, *words)).strip() == name
        return name

    def list(self):
        return {t["name"]: t for t in json.loads(ok(self.verb("ls", "-o", "json", self.box)))}

    def attach(self, name, *options, **size):
        return Terminal(words=["terminal", *self.words("attach", *options, self.box, name)], **size)

    def shell(self, name, *options, **size):
        return Terminal(words=self.words("shell", "--name", name, *options, self.box), **size)

    def exec(self, script):
        return ok(cay("exec", "--state-dir", self.daemon.state, self.box, "--", "sh", "-c", script))

    def leave(self, terminal):
        terminal.type(LEAVE)
        terminal.expect("detached")
        assert terminal.end() == 0

    def ended(self, name):
        assert until(lambda: not self.list()[name]["running"], 60)
        return self.list()[name]

    def remove(self, *names):
        ok(self.verb("rm", self.box, *names))


@contextlib.contextmanager
def serve(**env):
    folder = Path(tempfile.mkdtemp(prefix="terminal-", dir="/tmp"))
    folder.chmod(0o755)
    with serving(own(folder), env=env) as daemon:
        yield daemon
    subprocess.run(["rm", "-rf", folder], check=False)


@pytest.fixture(scope="module")
def daemon():
    with serve() as daemon:
        yield daemon


@pytest.fixture(scope="module")
def box(daemon):
    box = ok(cay("create", "--state-dir", daemon.state, *TIER, "--name", "lab",
                 "-e", "FROM=create")).strip()
    return Terminals(daemon, box)


@pytest.fixture
def terminals(box):
    yield box
    left = list(box.list())
    if left:
        box.remove(*left)
    assert box.exec("ls /run/cay-session /tmp/.cay-session 2>/dev/null || :").split() in (
        [], ["/run/cay-session:"], ["/tmp/.cay-session:"])


# ---- coming and going ----

def test_a_shell_stays(terminals):
    with terminals.shell("main", rows=33, columns=77) as t:
        t.expect("leave it with ctrl-p,ctrl-q")
        t.type("X=stays; cd /tmp; echo $((40 + 2)) $TERM $FROM; stty size\r")
        t.expect("42 xterm-256color create\r\n33 77\r\n")
        assert terminals.list()["main"]["state"] == "attached"
        terminals.leave(t)
    assert until(lambda: terminals.list()["main"]["state"] == "idle")
    with terminals.shell("main", rows=20, columns=60) as t:
        t.expect("42 xterm-256color create\r\n33 77\r\n")  # what was printed before
        t.type("echo $X $PWD; stty size; exit 7\r")
        t.expect("stays /tmp\r\n20 60\r\n")
        assert t.end() == 7
    assert until(lambda: terminals.list()["main"]["viewers"] == 0)
    state = terminals.list()["main"]
    assert (state["state"], state["exit_code"]) == ("ended", 7)
    with terminals.shell("main") as t:  # a new one, since that has ended
        t.type("echo x$X-; exit 3\r")
        t.expect("x-\r\n")
        assert t.end() == 3


def test_what_ended_is_kept(terminals):
    terminals.make("t", "sh", "-c", "echo last words; exit 9")
    assert terminals.ended("t")["exit_code"] == 9
    for _ in range(2):
        done = terminals.verb("attach", terminals.box, "t")
        assert (done.returncode, done.stdout) == (9, b"last words\r\n")
    refused(terminals.verb("create", terminals.box, "t"), "there is a terminal 't' already", code=4)
    terminals.remove("t")
    refused(terminals.verb("attach", terminals.box, "t"), "no terminal 't'", code=125)


def test_options_of_create(terminals):
    terminals.make("t", "sh", "-c", "pwd; echo $A $TERM; stty size",
                   options=["-w", "/tmp/new", "-e", "A=1", "-e", "TERM=vt100", "--rows", "10",
                            "--cols", "20"])
    terminals.ended("t")
    assert ok_code(terminals.verb("attach", terminals.box, "t")) == "/tmp/new\r\n1 vt100\r\n10 20\r\n"
    state = terminals.list()["t"]
    assert (state["rows"], state["cols"]) == (10, 20)
    assert state["command"].startswith("sh -c pwd;")


def ok_code(done):
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


@needs_ids
def test_another_user(terminals):
    terminals.make("t", "sh", "-c", "id -u; echo by name > $(tty)", options=["-u", "nobody"])
    terminals.ended("t")
    assert ok_code(terminals.verb("attach", terminals.box, "t")) == "65534\r\nby name\r\n"


def test_survives_the_daemon(terminals):
    with terminals.shell("main") as t:
        t.type("X=$((6 * 7)); echo s$((1))et\r")
        t.expect("s1et\r\n")
        terminals.daemon.kill()
        t.expect("waiting for it to come back", 60)
        terminals.daemon.start()
        t.expect("attached to terminal 'main' again", 60)
        t.expect("s1et\r\n")  # what it had shown
        t.type("echo got $X\r")
        t.expect("got 42\r\n")
        terminals.leave(t)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_for_the_viewer_is_a_farewell(terminals, number):
    terminals.make("t", *QUIET)
    with terminals.attach("t") as t:
        t.expect("ready")
        t.process.send_signal(number)
        assert t.end() == 128 + number
    assert until(lambda: terminals.list()["t"]["viewers"] == 0)
    assert terminals.list()["t"]["running"]


def test_a_viewer_who_is_killed(terminals):
    terminals.make("t", *QUIET)
    with terminals.attach("t") as t:
        t.expect("ready")
        t.process.kill()
        t.process.wait()
    assert until(lambda: terminals.list()["t"]["viewers"] == 0)
    with terminals.attach("t") as t:
        t.expect("ready")
        terminals.leave(t)


def test_a_terminal_that_vanishes(terminals):
    """The window is closed."""
    terminals.make("t", *QUIET)
    t = terminals.attach("t")
    t.expect("ready")
    os.close(t.slave)
    os.close(t.master)
    t.process.wait(60)
    assert until(lambda: terminals.list()["t"]["viewers"] == 0)
    assert terminals.list()["t"]["running"]


# ---- keys ----

def test_other_keys_leave(terminals):
    terminals.make("t", *QUIET)
    with terminals.attach("t", "--detach-keys", "ctrl-a,d") as t:
        t.expect("leave it with ctrl-a,d")
        t.expect("ready")
        t.type("\x10x\r")
        t.expect("\x10x\r\n")
        t.type("\x01d")
        assert t.end() == 0


def test_half_of_the_keys_are_the_programs(terminals):
    """Ctrl-P alone is the shell's: it gets it without a second key."""
    terminals.make("t", "sh", "-c", "stty raw -echo; echo ready; dd bs=1 count=1 2>/dev/null | od -c")
    with terminals.attach("t") as t:
        t.expect("ready")
        t.type("\x10")
        t.expect("020")
        assert t.end() == 0


@pytest.mark.parametrize("keys", ["ctrl-", "ab", "ctrl-1", "a,b,c,d,e,f,g,h,i", ","])
def test_bad_keys(terminals, keys):
    terminals.make("t", *QUIET)
    refused(terminals.verb("attach", "--detach-keys", keys, terminals.box, "t"),
            "no keys to detach", code=125)


def test_interrupt_is_the_programs(terminals):
    terminals.make("t", "sh", "-c", "echo ready; exec sleep 1000")
    with terminals.attach("t") as t:
        t.expect("ready")
        t.type("\x03")
        assert t.end() == 130
    assert terminals.list()["t"]["state"] == "killed"


# ---- several viewers ----

def test_several_viewers(terminals):
    terminals.make("t", *QUIET)
    with terminals.attach("t") as a, terminals.attach("t") as b, terminals.attach("t", "-r") as c:
        for t in (a, b, c):
            t.expect("ready")
        assert terminals.list()["t"]["viewers"] == 3
        a.type("from a\r")
        for t in (a, b, c):
            t.expect("from a\r\n")
        b.type("from b\r")
        for t in (a, b, c):
            t.expect("from b\r\n")
        terminals.leave(b)
        c.type("nothing\r")  # a look is all it has
        a.type("again\r")
        c.expect("again\r\n")
        a.type("\x04")
        assert (a.end(), c.end()) == (0, 0)
        assert "nothing" not in a.seen + c.seen


def test_the_size_is_that_of_the_last_who_used_it(terminals):
    terminals.make("t", *QUIET)
    with terminals.attach("t", rows=10, columns=40) as a:
        a.expect("ready")
        assert until(lambda: size_of(terminals) == (10, 40))
        with terminals.attach("t", rows=20, columns=80) as b, \
                terminals.attach("t", "-r", rows=5, columns=5) as c:
            b.expect("ready")
            c.expect("ready")
            assert size_of(terminals) == (20, 80)  # whoever came last
            a.type("x\r")
            assert until(lambda: size_of(terminals) == (10, 40))
            b.resize(22, 82)
            assert until(lambda: size_of(terminals) == (22, 82))
            ok(terminals.verb("resize", terminals.box, "t", "99x33"))
            assert size_of(terminals) == (33, 99)
            terminals.leave(b)
        assert until(lambda: size_of(terminals) == (10, 40))  # who is left
        terminals.leave(a)


def size_of(terminals):
    state = terminals.list()["t"]
    return state["rows"], state["cols"]


# A trap of bash is no good here: a signal that comes while its action runs may be lost.
SAYS_SIZES = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])
print("ready", flush=True)
while signal.sigwait([signal.SIGWINCH]):
    size = os.get_terminal_size()
    print(size.lines, size.columns, flush=True)
"""


def test_the_program_hears_of_a_size(terminals):
    terminals.make("t", "python3", "-c", SAYS_SIZES)
    assert until(lambda: terminals.list()["t"]["kept_bytes"])  # it waits
    with terminals.attach("t", rows=30, columns=90) as t:
        t.expect("ready")
        t.expect("30 90\r\n")
        t.resize(44, 123)
        t.expect("44 123\r\n")
        terminals.leave(t)


def test_too_many_viewers(terminals, daemon):
    terminals.make("t", *QUIET)
    viewers = [attached(daemon, terminals.box, "t") for _ in range(16)]
    refused(terminals.verb("attach", terminals.box, "t"), "16 viewers", code=125)
    assert terminals.list()["t"]["viewers"] == 16  # asking is possible all the same
    viewers.pop().close()
    assert until(lambda: terminals.list()["t"]["viewers"] == 15)
    for viewer in viewers:
        viewer.close()


def attached(daemon, box, name, **fields):
    """A viewer that speaks the protocol by hand."""
    c = daemon.connect(box)
    c.request(TERMINAL_ATTACH, ("NAME", name), ("STDIN", 1), *fields.items())
    c.expect(STARTED)
    return c


# ---- slow viewers and much output ----

def test_a_slow_viewer_holds_up_nobody(terminals, daemon):
    """He reads nothing while 3 MB are printed; then he is told what he has missed."""
    terminals.make("t", "sh", "-c", "stty -echo -onlcr; echo ready; read x; "
                                    "seq -f '%07.0f' 1 400000; echo end; exec cat")
    slow = attached(daemon, terminals.box, "t")
    with terminals.attach("t") as t:
        t.expect("ready")
        t.type("go\r")
        t.expect("end\n", 60 * SLOW)
    skipped, output = 0, b""
    while not output.endswith(b"end\n"):
        kind, payload = slow.receive()
        if kind == ENTRY:
            skipped += fields_of(payload)["SIZE"]
            output = b""
        elif kind == STDOUT:
            output += payload
    slow.close()
    assert skipped > 1024 * 1024
    assert len(output) >= KEPT
    lines = output.split(b"\n")[1:-2]
    assert lines == [b"%07d" % n for n in range(400001 - len(lines), 400001)]


def test_scroll_back(terminals):
    """At least 256 KiB, in order, and no character torn."""
    terminals.make("t", "sh", "-c", "stty -onlcr; i=0; while [ $i -lt 400 ]; do i=$((i+1)); "
                                    "printf '%06d %s\\n' $i \"$(printf 'ä€%.0s' $(seq 200))\"; done")
    terminals.ended("t")
    output = ok_code(terminals.verb("attach", terminals.box, "t"))
    assert KEPT <= len(output.encode()) < 2 * KEPT
    assert output.endswith("000400 " + "ä€" * 200 + "\n")
    assert terminals.list()["t"]["kept_bytes"] == len(output.encode())
    numbers = [int(line.split()[0]) for line in output.split("\n")[1:-1]]
    assert numbers == list(range(401 - len(numbers), 401))


def test_full_screen_programs_are_painted_again(terminals):
    """One on the other screen, longer there than is kept: who comes gets there, and it paints."""
    terminals.make("t", "bash", "-c", r"""
        trap 'printf "\e[Hpainted"' WINCH
        printf '\e[?1049h\e[?25l\e[2J'; head -c 400000 /dev/zero | tr '\0' .; printf 'ready'; : >/tmp/full
        while :; do sleep 0.02; done""")
    # what it is asked to paint while it prints comes before its last word, and once
    assert until(lambda: "full" in terminals.exec("ls /tmp").split())
    assert until(lambda: terminals.list()["t"]["kept_bytes"] >= KEPT)
    with terminals.attach("t") as t:
        t.expect(r"\x1b\[\?1049h\x1b\[\?25l\.\.\.")
        t.expect("ready")
        t.expect("painted")
        terminals.leave(t)
    with terminals.attach("t") as t:  # the same size: painted all the same
        t.expect("ready")
        t.expect("painted")
        t.type(LEAVE)
        t.expect(r"\x1b\[\?1049l")  # our own terminal is as it was
        t.expect(r"\x1b\[\?25h")
        assert t.end() == 0


PAINTS_AT_ONCE = r"""
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])
print("\033[?1049h\033[?25l" + 400000 * "." + "ready", end="", flush=True)
while signal.sigwait([signal.SIGWINCH]):
    print("\033[Hpainted", end="", flush=True)
"""


def test_who_comes_is_shown_all_that_is_kept(terminals, daemon):
    """Also if the program answers to his coming before he has read anything."""
    terminals.make("t", "python3", "-c", PAINTS_AT_ONCE)
    with terminals.attach("t") as t:
        t.expect("ready")
        terminals.leave(t)
    for _ in range(20):
        with attached(daemon, terminals.box, "t", ROWS=30, COLS=90) as viewer:
            kind, output = viewer.receive()
            assert (kind, output) == (STDOUT, b"\x1b[?1049h\x1b[?25l")
            while len(output) < KEPT or not output.endswith(b"painted"):
                kind, payload = viewer.receive()
                assert kind == STDOUT  # ENTRY: he has missed something
                output += payload


def test_much_input(terminals):
    """More than the credit, into a program that reads slowly, and nothing is lost."""
    terminals.make("t", "sh", "-c", "stty raw -echo; echo ready; sleep 0.3; head -c 300000 | wc -c; "
                                    "echo end")
    assert until(lambda: terminals.list()["t"]["kept_bytes"])  # raw: no line is too long
    done = terminals.verb("attach", terminals.box, "t", input=b"x" * 300000)
    assert done.stdout.split() == [b"ready", b"300000", b"end"]


def test_input_that_nobody_reads(terminals):
    """It blocks neither its viewer nor others."""
    terminals.make("t", "sh", "-c", "stty raw -echo; echo ready; exec sleep 1000")
    with terminals.attach("t") as t, terminals.attach("t") as other:
        t.expect("ready")
        for _ in range(20):
            t.type("x" * 3000)
        other.expect("ready")
        terminals.leave(other)
        terminals.leave(t)


# ---- ends, limits, refusals ----

def test_kill_and_rm(terminals):
    terminals.make("t", "sh", "-c", "setsid sleep 1234 & echo ready; exec sleep 1234")
    assert until(lambda: terminals.list()["t"]["kept_bytes"])
    assert ok(terminals.verb("kill", terminals.box, "t")) == "t\n"
    state = terminals.ended("t")
    assert (state["state"], state["exit_code"]) == ("killed", 137)
    assert "1234" not in terminals.exec("ps -e -o args= | grep '[s]leep' || :")
    assert terminals.verb("attach", terminals.box, "t").stdout == b"ready\r\n"
    terminals.remove("t")
    terminals.make("u", "sh", "-c", "nohup setsid sleep 1235 >/dev/null 2>&1 & exec sleep 1235")
    terminals.remove("u")
    assert "1235" not in terminals.exec("ps -e -o args= | grep '[s]leep' || :")


def test_limit_of_terminals(terminals):
    for i in range(32):
        terminals.make(f"t{i}", "true")
    refused(terminals.verb("create", terminals.box, "more"), "32 of terminals already", code=5)
    terminals.remove("t0")
    terminals.make("more", "true")


@pytest.mark.parametrize("name", ["", "a b", "../x", "-x", "x" * 65, "a\nb", ".hidden"])
def test_bad_names(terminals, name):
    refused(terminals.verb("create", "--", terminals.box, name), "no name of a terminal", code=2)


def test_refusals(terminals):
    refused(terminals.verb("create", terminals.box, "t", "--", "no-such-program"), "not found", code=3)
    assert terminals.list() == {}
    terminals.make("t", *QUIET)
    for size in ("80", "x", "0x1", "1x0", "1001x2", "2x1001", "80x24x3", "-1x5"):
        refused(terminals.verb("resize", "--", terminals.box, "t", size), "no size of a terminal", code=2)
    refused(terminals.verb("kill", terminals.box, "nobody"), "no terminal 'nobody'", code=3)
    refused(cay(*terminals.words("shell", "--name", "x", terminals.box)), "--name needs a terminal",
            code=125)
    refused(terminals.verb("ls", "no-such-sandbox"), "no-such-sandbox", code=3)


def test_table(terminals):
    terminals.make("t", "sh", "-c", "printf '\\033[31m'; exec cat")
    lines = ok(terminals.verb("ls", terminals.box)).splitlines()
    assert lines[0].split() == ["NAME", "STATE", "EXIT", "VIEWERS", "SIZE", "COMMAND"]
    assert lines[1].split()[:5] == ["t", "busy", "-", "0", "80x24"]


def test_hostile_frames(terminals, daemon):
    """Each ends that viewer and nothing else."""
    terminals.make("t", *QUIET)
    for frame in (b"\xff\xff\xff\xff\x02\0\0\0", b"\0\0\0\0\x63\0\0\0", b"\0\0\0\0\x10\0\0\0",
                  b"\1\0\0\0\x05\0\0\0x", b"\0\0\0\0\x01\0\0\0", b"\0\0\0\0\x04\0\0\0"):
        with attached(daemon, terminals.box, "t") as c:
            c.sock.sendall(frame)
            while c.sock.recv(65536):
                pass
    with attached(daemon, terminals.box, "t", ROWS=2**63, COLS=7) as c:
        c.send(WINDOW, field("ROWS", 70000) + field("COLS", 1))
        c.send(WINDOW, field("ROWS", 0) + field("COLS", 0))
        assert size_of(terminals) == (24, 80)
    flood = attached(daemon, terminals.box, "t")
    try:
        terminals.exec("until pgrep -x cat; do sleep 0.02; done; kill -STOP $(pgrep -x cat)")
        for _ in range(64):
            flood.send(INPUT, b"x" * 65536)  # far beyond the credit
        while flood.sock.recv(65536):
            pass
    except OSError:
        pass
    terminals.exec("kill -CONT $(pgrep -x cat)")
    assert terminals.list()["t"]["running"]


def test_ends_with_the_sandbox(daemon):
    box = ok(cay("create", "--state-dir", daemon.state, *TIER, "--name", "other")).strip()
    terminals = Terminals(daemon, box)
    terminals.make("t")
    ok(cay("stop", "--state-dir", daemon.state, box))
    ok(cay("start", "--state-dir", daemon.state, box))
    assert terminals.list() == {}
    terminals.make("t")
    terminals.remove("t")
    ok(cay("rm", "-f", "--state-dir", daemon.state, box))


# ---- idleness ----

def test_what_keeps_a_sandbox_from_being_stopped():
    """A few seconds of idleness are enough for the others, from when each has its reason to stay."""
    def config(idle):
        return f"[manager]\nidle_timeout = {idle}\ncleanup_interval = 1\nstop_timeout = 1\n"
    with own_folder() as folder, \
            serving(folder, "--config", write(folder / "cay.toml", config(3600))) as daemon:
        state = ["--state-dir", daemon.state]
        daemon.create(name="command")
        ok(cay("session", "create", *state, "command", "s"))
        ok(cay("session", "exec", "--async", *state, "command", "s", "--", "until [ -e /tmp/go ]; do sleep 0.1; done"))
        daemon.create(name="program")
        ok(cay("terminal", "create", *state, "program", "t", "--", "sleep", "100"))
        daemon.create(name="attached")
        ok(cay("terminal", "create", *state, "attached", "t"))
        with attached(daemon, "attached", "t"):
            daemon.create(name="detached")
            ok(cay("terminal", "create", *state, "detached", "t"))
            write(folder / "cay.toml", config(4))
            reload(daemon)
            assert until(lambda: daemon.state_of("detached") == "stopped")
            time.sleep(1.5)  # the others were left alone for longer; one more round may look at them
            assert [daemon.state_of(n) for n in ("command", "program", "attached")] == ["started"] * 3
        assert until(lambda: daemon.state_of("attached") == "stopped")
        assert daemon.state_of("command") == "started"
        assert daemon.exec("command", "touch", "/tmp/go")[0] == 0
        assert until(lambda: daemon.state_of("command") == "stopped")
        assert daemon.state_of("program") == "started"
        daemon.call("POST", "/api/cay/sandbox/program/stop")  # an explicit wish is always heard
        assert daemon.state_of("program") == "stopped"
