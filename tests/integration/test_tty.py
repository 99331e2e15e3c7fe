"""`cay run -t`: a real terminal inside, driven from a terminal outside."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest
from support import CAY, TIER, as_user, need_cay, refused, run


class Terminal:
    """A terminal with a `cay run -t` in it, or with cay and the words given."""

    def __init__(self, *command, rows=30, columns=90, options=(), words=None):
        need_cay()
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.seen = ""
        who, env = as_user()
        os.fchmod(self.slave, 0o666)
        words = words or ["run", *TIER, "-t", *options, "--", *command]
        self.process = subprocess.Popen(
            [CAY, *words], stdin=self.slave, stdout=self.slave, stderr=self.slave, env=env,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), **who)

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode())

    def expect(self, pattern, seconds=60):
        """Reads until the pattern was printed; returns the match, and forgets what was before."""
        deadline = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen, re.S)):
            left = deadline - time.monotonic()
            assert left > 0, f"no {pattern!r} in …{self.seen[-500:]!r}"
            if select.select([self.master], [], [], min(left, 0.1))[0]:
                self.seen += os.read(self.master, 65536).decode(errors="replace")
        self.seen = self.seen[found.end():]
        return found

    def end(self, seconds=60):
        code = self.process.wait(seconds)
        after = termios.tcgetattr(self.slave)
        assert after == self.before, "the terminal was not restored"
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


def test_is_a_terminal():
    with Terminal("sh", "-c", "test -t 0 && test -t 1 && test -t 2 && tty && echo $TERM") as t:
        assert t.expect(r"(/dev/pts/\d+)\r\n(\S+)\r\n")[2] == "xterm-256color"
        assert t.end() == 0


def test_can_be_opened_by_name():
    with Terminal("sh", "-c", "echo by name > $(tty); echo control > /dev/tty; ps -o tty= $$") as t:
        t.expect(r"by name\r\ncontrol\r\npts/\d+")
        assert t.end() == 0


def test_size_and_resize():
    with Terminal("bash", "-c", "trap 'stty size' WINCH; trap 'exit 9' INT; stty size; echo ready; "
                                "while :; do sleep 0.05; done", rows=33, columns=77) as t:
        t.expect(r"33 77\r\nready")
        t.resize(44, 123)
        t.expect(r"44 123\r\n")
        t.type("\x03")
        assert t.end() == 9


def test_interrupt_ends_the_command():
    with Terminal("sh", "-c", "echo ready; exec sleep 1000") as t:
        t.expect("ready")
        t.type("\x03")
        assert t.end() == 130


# Says when it has the terminal: a key that comes before is for the shell.
SLEEPER = "sh -c 'echo up-$$; exec sleep 1000'\r"


def test_interrupt_goes_to_the_foreground_only():
    with Terminal("bash", "--norc", "-i", options=["-e", "PS1=> "]) as t:
        t.expect("> ")
        t.type(SLEEPER)
        t.expect(r"up-\d+\r\n")
        t.type("\x03")
        t.expect("> ")
        t.type("echo still $((40 + 2)); exit 5\r")
        t.expect("still 42\r\n")
        assert t.end() == 5


def test_stop_and_continue():
    with Terminal("bash", "--norc", "-i", options=["-e", "PS1=> "]) as t:
        t.expect("> ")
        t.type(SLEEPER)
        t.expect(r"up-\d+\r\n")
        t.type("\x1a")
        t.expect("Stopped")
        t.type("kill %1; exit 0\r")
        t.type("exit 0\r")
        assert t.end() == 0


def test_end_of_input():
    with Terminal("cat") as t:
        t.type("hello\r")
        t.expect("hello\r\nhello\r\n")
        t.type("\x04")
        assert t.end() == 0


def test_is_raw_outside_while_it_runs():
    with Terminal("sh", "-c", "stty -echo; echo ready; read x; echo got:$x") as t:
        t.expect("ready\r\n")
        t.type("secret\r")
        found = t.expect(r"(.*)got:secret\r\n")
        assert found[1] == ""
        assert t.end() == 0


@pytest.mark.parametrize("command, limit, code", [
    (["no-such-command"], "60s", 127), (["sh", "-c", "kill -9 $$"], "60s", 137),
    (["sleep", "1000"], "500ms", 124),
])
def test_restored_after_a_failure(command, limit, code):
    with Terminal(*command, options=["--timeout", limit]) as t:
        assert t.end() == code


def test_restored_after_a_signal():
    with Terminal("sh", "-c", "echo ready; exec sleep 1000") as t:
        t.expect("ready")
        t.process.send_signal(signal.SIGTERM)
        assert t.end() == 143


def test_hangup_ends_the_command():
    t = Terminal("sh", "-c", "echo ready; exec sleep 1000")
    t.expect("ready")
    os.close(t.slave)
    os.close(t.master)
    assert t.process.wait(60) != 0


def test_tmux():
    with Terminal("tmux", "-f", "/dev/null", "new-session", "sh") as t:
        t.expect(r"\$|#")
        t.type("echo in $((6 * 7))\r")
        t.expect("in 42")
        t.type("exit\r")
        assert t.end() == 0


def test_output_is_not_changed_but_for_line_ends():
    with Terminal("sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x; echo; echo end") as t:
        before = t.expect(r"\r\nend\r\n").string
        assert before.startswith("x" * 300000 + "\r\nend")
        assert t.end() == 0


def test_needs_a_terminal():
    refused(run("-t", "--", "true"), "-t needs a terminal", "leave -t away")


def test_output_may_go_elsewhere():
    """-t with the output in a pipe, as in `cay run -t … | tee log`."""
    need_cay()
    master, slave = pty.openpty()
    who, env = as_user()
    done = subprocess.run([CAY, "run", *TIER, "-t", "--", "echo", "x"], stdin=slave,
                          capture_output=True, env=env, timeout=60, **who)
    os.close(master)
    os.close(slave)
    assert (done.returncode, done.stdout) == (0, b"x\r\n")
