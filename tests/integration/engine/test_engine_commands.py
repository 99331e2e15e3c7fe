"""Commands: their codes, their output byte for byte, their input, and what is left after them."""

import threading

import pytest
from boxes import TIMED_OUT
from launching import INPUT, INPUT_END, SIGNAL, STARTED, STDOUT, field, until
from support import given_time


@pytest.mark.parametrize("code", [0, 1, 2, 42, 125, 126, 127, 128, 255])
def test_exit_codes(box, code):
    assert box.sh(f"exit {code}").code == code


@pytest.mark.parametrize("number, code", [("KILL", 137), ("TERM", 143), ("SEGV", 139), ("INT", 130)])
def test_a_signal_is_128_and_its_number(box, number, code):
    done = box.sh(f"kill -{number} $$")
    assert (done.code, done.last["REASON"]) == (code, 1)


def test_a_silent_command(box):
    done = box.run("true")
    assert (done.code, done.out, done.err) == (0, b"", b"")


@pytest.mark.parametrize("argv, code", [
    (["no-such-program"], 127), (["/no/such/program"], 127), (["/etc"], 126), (["/etc/passwd"], 126),
])
def test_what_cannot_be_started(box, argv, code):
    done = box.run(*argv)
    assert (done.code, done.started) == (code, False) and done.last["MESSAGE"]


@pytest.mark.parametrize("text", [
    "0", "1", "137", "-1", "\n", "\n\n\n", "a\n\n\nb\n", " ", "\t", "no newline", "line\n",
    "$ ", "# ", "root@box:/# ", ">>> ", "user@host:~$ ls\nuser@host:~$ \n", "\r\n", "a\rb",
    "\x1b[31mred\x1b[0m", "__EXIT__0", "exit", "üñí ☃ 🎉", "'", '"', "\\", "`", "%s%n", "a" * 5000,
])
def test_output_is_what_was_written(box, text):
    assert box.run("printf", "%s", text).out == text.encode()


def test_every_byte_comes_out(box):
    done = box.sh("for i in 0 1 2 3; do for j in 0 1 2 3 4 5 6 7; do for k in 0 1 2 3 4 5 6 7; do "
                  "printf \"\\\\$i$j$k\"; done; done; done")
    assert done.out == bytes(range(256))


def test_every_byte_goes_in_and_comes_out(box):
    data = bytes(range(256)) * 64
    assert box.run("cat", input=data).out == data


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 200_000])
def test_input_sizes(box, size):
    data = bytes(i * 7 & 255 for i in range(size))
    assert box.run("cat", input=data).out == data


def test_streams_are_apart(box):
    done = box.sh("echo out; echo err >&2; printf more; printf less >&2")
    assert (done.out, done.err) == (b"out\nmore", b"err\nless")


def test_much_output(box):
    done = box.sh("head -c 20000000 /dev/zero")
    assert (done.code, len(done.out)) == (0, 20_000_000) and not done.out.strip(b"\0")


def test_many_lines_keep_their_order(box):
    assert box.says("seq 1 20000") == "".join(f"{i}\n" for i in range(1, 20001))


@pytest.mark.parametrize("script", ["echo 'open", 'echo "open', "echo $(", "cat <<END\nx", "if true"])
def test_what_is_not_finished_fails_and_harms_nothing(box, script):
    box.sh(script)  # a here-document without its end is only warned of
    assert box.says("echo well") == "well\n"


def test_a_program_that_reads_gets_an_end(box):
    """Without input it sees the end of file instead of waiting for somebody."""
    assert box.run("cat").code == 0
    assert box.sh("read x; echo \"<$x> $?\"").text == "<> 1\n"


def test_input_ends_when_it_is_told(box):
    with box.command("sh", "-c", "read a; echo got $a; cat", STDIN=1) as c:
        c.send(INPUT, b"first\n")
        c.expect(STARTED)
        assert c.expect(STDOUT) == b"got first\n"
        c.send(INPUT, b"second")
        c.send(INPUT_END)
        done = c.end()
    assert (done.code, done.out) == (0, b"second")


def test_a_program_that_reads_nothing(box):
    assert box.sh("exit 3", input=b"x" * 100_000).code == 3


@pytest.mark.parametrize("argv", [
    ["a b", "", "c"], ["'", '"', "\\"], ["*", "?", "$HOME", "`id`", "; id"], ["-n"], ["\n"], ["ü ☃"],
])
def test_arguments_are_not_interpreted(box, argv):
    done = box.run("sh", "-c", 'for a; do printf "<%s>" "$a"; done', "sh", *argv)
    assert done.out == "".join(f"<{a}>" for a in argv).encode()


def test_a_long_argument(box):
    assert box.run("sh", "-c", 'printf %s "${#1}"', "sh", "x" * 100_000).out == b"100000"


def test_many_arguments(box):
    assert box.run("sh", "-c", "echo $#", "sh", *["a"] * 5000).out == b"5000\n"


# ---- time ----

def test_a_timeout(box):
    done = given_time(lambda s: box.sh("echo before; sleep 1000", TIMEOUT_MS=int(s * 1000)),
                      lambda done: done.out != b"", (0.3, 5, 20))
    assert (done.code, done.out, done.last["REASON"]) == (TIMED_OUT, b"before\n", 2)


def test_usable_after_a_timeout(box):
    for _ in range(3):
        assert box.sh("sleep 1000", TIMEOUT_MS=50).code == TIMED_OUT
        assert box.says("echo next") == "next\n"


@pytest.mark.parametrize("script", [
    "sleep 31415", "sleep 31415 & wait", "(sleep 31415 &); sleep 31415",
    "trap '' TERM INT HUP; while :; do sleep 31415; done", "sh -c 'sleep 31415 & sleep 31415'",
    "setsid sleep 31415; sleep 31415",
])
def test_nothing_is_left_of_what_timed_out(box, script):
    assert box.sh(script, TIMEOUT_MS=300).code == TIMED_OUT
    assert box.gone("31415")


def test_output_before_a_timeout_is_kept(box):
    done = given_time(lambda s: box.sh("seq 1 1000; sleep 1000", TIMEOUT_MS=int(s * 1000)),
                      lambda done: done.out.endswith(b"\n1000\n"), (0.5, 5, 20))
    assert done.code == TIMED_OUT and done.out.endswith(b"999\n1000\n")


def test_quiet_for_too_long(box):
    done = given_time(lambda s: box.sh("echo hello; sleep 1000", QUIET_MS=int(s * 1000)),
                      lambda done: done.out != b"", (0.3, 5, 20))
    assert (done.code, done.out, done.last["REASON"]) == (TIMED_OUT, b"hello\n", 3)


def test_too_much_output(box):
    done = box.sh("yes", OUTPUT_MAX=100_000)
    assert done.last["REASON"] == 4 and len(done.out) == 100_000


def test_background_processes_live_on(box):
    assert box.says("sleep 27182 >/dev/null 2>&1 </dev/null & echo $!").strip().isdigit()
    assert box.alive("27182") == 1
    box.sh("for p in /proc/[0-9]*; do grep -q 27182 $p/cmdline 2>/dev/null && "
           "kill -9 ${p#/proc/}; done; true")
    assert box.gone("27182")


def test_a_background_process_does_not_hold_up_the_end(box):
    done = box.sh("sleep 16180 & echo done")
    assert (done.code, done.out) == (0, b"done\n")
    box.sh("for p in /proc/[0-9]*; do grep -q 16180 $p/cmdline 2>/dev/null && "
           "kill -9 ${p#/proc/}; done; true")


def test_hanging_up_ends_the_command(box):
    with box.command("sleep", "14142") as c:
        c.expect(STARTED)
    assert box.gone("14142")


@pytest.mark.parametrize("number, code", [(2, 130), (15, 143), (9, 137), (1, 129)])
def test_signals_reach_the_command(box, number, code):
    with box.command("sleep", "1000") as c:
        c.expect(STARTED)
        c.send(SIGNAL, field("SIGNAL", number))
        assert c.end().code == code


def test_a_signal_can_be_caught(box):
    with box.command("sh", "-c", "trap 'echo caught; exit 9' TERM; echo ready; "
                     "while :; do sleep 0.05; done") as c:
        c.expect(STARTED)
        assert c.expect(STDOUT) == b"ready\n"
        c.send(SIGNAL, field("SIGNAL", 15))
        done = c.end()
    assert (done.code, done.out) == (9, b"caught\n")


# ---- terminals ----

def test_a_terminal_is_one(box):
    assert box.sh("test -t 0 && test -t 1 && test -t 2 && echo yes", TTY=1).out == b"yes\r\n"
    assert box.sh("test -t 0 || test -t 1 || test -t 2 || echo no").out == b"no\n"


def test_the_size_of_a_terminal(box):
    assert box.sh("stty size", TTY=1, ROWS=33, COLS=101).out == b"33 101\r\n"


def test_typing(box):
    with box.command("sh", "-c", "read x; echo \"[$x]\"", TTY=1, STDIN=1) as c:
        c.send(INPUT, b"hello\n")
        assert b"[hello]\r\n" in c.end().out


# ---- together ----

def test_commands_at_once(box):
    """Each gets its own output, and none another's."""
    found = {}

    def one(number):
        found[number] = box.sh(f"for i in 1 2 3 4 5; do echo {number}; done").text

    threads = [threading.Thread(target=one, args=(n,)) for n in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert found == {n: f"{n}\n" * 5 for n in range(16)}


def test_a_slow_command_holds_up_nobody(box):
    with box.command("sh", "-c", "read x", STDIN=1) as slow:
        slow.expect(STARTED)
        assert box.says("echo quick") == "quick\n"
        slow.send(INPUT, b"\n")
        assert slow.end().code == 0


def test_many_one_after_another(box):
    assert [box.run("printf", "%s", str(i)).text for i in range(50)] == [str(i) for i in range(50)]


def test_nothing_of_ours_is_left(box):
    """No process serves a command that has ended."""
    assert until(lambda: box.alive("sleep") == 0)
    box.run("true")
    count = int(box.says("ls -d /proc/[0-9]* | wc -l"))
    for _ in range(10):
        box.run("true")
    assert until(lambda: int(box.says("ls -d /proc/[0-9]* | wc -l")) <= count + 1)


# ---- over the toolbox ----

@pytest.mark.parametrize("command, code, result", [
    ("echo hi", 0, "hi\n"), ("exit 7", 7, ""), ("printf '1\\n\\n2'", 0, "1\n\n2"), ("true", 0, ""),
    ("echo err >&2", 0, "err\n"), ("cat", 0, ""),
])
def test_execute(box, command, code, result):
    reply = box.execute(command)
    assert (reply.status, reply.json()["exitCode"], reply.json()["result"]) == (200, code, result)


def test_execute_with_a_timeout(box):
    assert box.execute("sleep 1000", timeout=1).status == 408
    assert box.execute("echo next").json()["result"] == "next\n"
