"""cay-init with a listening socket: many operations on one sandbox, each by itself. The client here
speaks the protocol as docs/protocol.md has it, so this also tests that page."""

import contextlib
import io
import os
import signal
import socket
import struct
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from launching import (DONE, ERROR, EXEC, INPUT, INPUT_END, PING, READ, REQUEST, SHUTDOWN, SIGNAL,
                       STARTED, STDOUT, WRITE, field, fields_of, is_alive, listening, until)
from support import given_time, is_sanitized

MKDIR, REMOVE, CHMOD, TAR_IN = 7, 9, 10, 15
REASON_SIGNAL, REASON_TIMEOUT = 1, 2


@pytest.fixture
def boxes(folder, clean_host):
    with listening(folder, count=1) as found:
        yield found


def ping(boxes):
    with boxes.connect() as c:
        c.request(PING)
        c.expect(DONE)
        return c.ended()


def write(boxes, path, data):
    with boxes.connect() as c:
        c.request(WRITE, ("PATH", path), ("MODE", 0o644))
        for at in range(0, len(data), 65536):
            c.send(INPUT, data[at:at + 65536])
        c.send(INPUT_END)
        return fields_of(c.expect(DONE))["SIZE"]


def read(boxes, path):
    data = b""
    with boxes.connect() as c:
        c.request(READ, ("PATH", path))
        while True:
            kind, payload = c.receive()
            if kind != STDOUT:
                assert kind == DONE, fields_of(payload)
                return data
            data += payload


def processes(boxes):
    """{pid: command line} of what runs inside, but for the look itself."""
    script = ("cd /proc; for p in [0-9]*; do [ $p != $$ ] && "
              "echo $p $(tr '\\0' ' ' < $p/cmdline); done 2>/dev/null")
    _, text, _ = boxes.exec("sh", "-c", script)
    return dict(line.split(" ", 1) for line in text.splitlines() if " " in line)


# ---- operations beside each other ----

def test_operations_at_once(boxes):
    data = bytes(range(256)) * 4096
    with ThreadPoolExecutor(16) as pool, boxes.connect() as slow:
        slow.exec("sleep", "1000")
        slow.expect(STARTED)
        begin = time.monotonic()
        pings = [pool.submit(ping, boxes) for _ in range(10)]
        writes = [pool.submit(write, boxes, f"/tmp/file-{i}", data) for i in range(5)]
        commands = [pool.submit(boxes.exec, "sh", "-c", f"sleep 0.3; echo {i}") for i in range(10)]
        assert all(p.result() for p in pings)
        assert [w.result() for w in writes] == [len(data)] * 5
        assert [c.result()[:2] for c in commands] == [(0, f"{i}\n") for i in range(10)]
        assert read(boxes, "/tmp/file-3") == data
        assert time.monotonic() - begin < 100  # nobody waited for the slow one


def test_a_connection_without_a_request_holds_up_nobody(boxes):
    with boxes.connect(), boxes.connect() as half:
        half.sock.sendall(b"\x40\0\0")
        assert ping(boxes)
        assert boxes.exec("echo", "x")[:2] == (0, "x\n")


def test_files_and_processes_are_shared(boxes):
    write(boxes, "/workspace/given", b"by write")
    assert boxes.exec("cat", "/workspace/given")[1] == "by write"
    boxes.exec("sh", "-c", "echo by exec > /tmp/made")
    assert read(boxes, "/tmp/made") == b"by exec\n"


def operate(boxes, op, **fields):
    """An operation with no data of its own: the fields of the answer."""
    with boxes.connect() as c:
        c.request(op, *fields.items())
        kind, payload = c.receive()
        assert kind in (DONE, ERROR), kind
        return {**fields_of(payload), "ok": kind == DONE}


def test_files_of_a_volume(folder, clean_host):
    """cay-init works on them without openat2, which their sandbox does not have."""
    shared = folder / "shared"
    shared.mkdir()
    with listening(folder, "--volume", f"{shared}:/data") as boxes:
        assert operate(boxes, MKDIR, PATH="/data/a/b/c", MODE=0o755, RECURSIVE=1)["ok"]
        write(boxes, "/data/a/b/c/f", b"x" * 100000)
        assert read(boxes, "/data/a/b/c/f") == b"x" * 100000
        assert operate(boxes, CHMOD, PATH="/data/a", MODE=0o750, RECURSIVE=1)["ok"]
        refusal = operate(boxes, CHMOD, PATH="/data/a/b/c/f", MODE=0o4750)
        assert not refusal["ok"] and "not permitted" in refusal["MESSAGE"]
        (shared / "a" / "away").symlink_to("/etc")
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for name, mode in (("a/b/d/program", 0o6755), ("top", 0o644)):
                member = tarfile.TarInfo(name)
                member.mode = mode
                tar.addfile(member)
        with boxes.connect() as c:
            c.request(TAR_IN, ("PATH", "/data"))
            c.send(INPUT, archive.getvalue())
            c.send(INPUT_END)
            c.expect(DONE)
        assert (shared / "a/b/d/program").stat().st_mode & 0o7777 == 0o755
        assert operate(boxes, REMOVE, PATH="/data/a", RECURSIVE=1)["ok"]
        assert [p.name for p in shared.iterdir()] == ["top"]


# ---- one operation that goes wrong ----

def test_a_killed_handler_harms_nobody_else(boxes):
    with boxes.connect() as victim, boxes.connect() as other:
        victim.exec("sleep", "1000")
        victim.expect(STARTED)
        other.exec("sh", "-c", "sleep 1; echo lived")
        other.expect(STARTED)
        found = [pid for pid in children_of(boxes.pid()) if "sleep\x001000" in commands_below(pid)]
        assert len(found) == 1
        os.kill(found[0], signal.SIGKILL)
        assert victim.ended()
        assert other.finish()[:2] == (0, "lived\n")
    assert ping(boxes)


def children_of(pid):
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def commands_below(pid):
    found = ""
    with contextlib.suppress(FileNotFoundError):  # it ended
        for child in children_of(pid):
            found += Path(f"/proc/{child}/cmdline").read_bytes().decode() + commands_below(child)
    return found


@pytest.mark.parametrize("junk", [
    b"GET / HTTP/1.1\r\n\r\n", b"\0" * 64, b"\xff" * 64, struct.pack("<IBxxx", 0, REQUEST),
    struct.pack("<IBxxx", 1 << 31, REQUEST), struct.pack("<IBxxx", 4, DONE) + b"abcd",
    struct.pack("<IBxxx", 3, REQUEST) + b"abc", struct.pack("<IBBBB", 0, REQUEST, 1, 0, 0),
])
def test_junk_ends_its_own_connection(boxes, junk):
    with boxes.connect() as c:
        c.sock.sendall(junk)
        c.sock.shutdown(socket.SHUT_WR)
        assert c.receive()[0] in (0, ERROR)
    assert ping(boxes)


def test_another_version_and_operation_are_refused(boxes):
    for payload, part in ((field("VERSION", 2) + field("OP", PING), "version"),
                          (field("VERSION", 1) + field("OP", 99), "operation")):
        with boxes.connect() as c:
            c.send(REQUEST, payload)
            assert part in fields_of(c.expect(ERROR))["MESSAGE"]


# ---- many ----

def test_many_connections_at_once(folder, clean_host):
    with listening(folder, "--pids", 200) as boxes, contextlib.ExitStack() as stack:
        all = [stack.enter_context(boxes.connect()) for _ in range(60)]
        for number, c in enumerate(all):
            c.exec("sh", "-c", f"read x; echo {number} $x", STDIN=1)
        for c in all:
            c.expect(STARTED)
        for c in reversed(all):
            c.send(INPUT, b"in\n")
        assert [c.finish()[1] for c in all] == [f"{number} in\n" for number in range(60)]


def test_one_after_the_other_leaves_nothing(boxes):
    for _ in range(200):
        assert ping(boxes)
    assert boxes.exec("echo", "still")[:2] == (0, "still\n")
    assert until(lambda: len(children_of(boxes.pid())) == 0)
    assert len(os.listdir(f"/proc/{boxes.pid()}/fd")) < 12


def test_a_killed_client_takes_its_command_along(boxes):
    """A process that is killed hangs up without a word."""
    ready, tell = os.pipe()
    client = os.fork()
    if client == 0:
        c = boxes.connect()
        c.exec("sh", "-c", "trap '' HUP TERM; sleep 67 & sleep 67")
        c.expect(STARTED)
        os.write(tell, b"x")
        signal.pause()
    os.close(tell)
    assert os.read(ready, 1) == b"x"
    assert until(lambda: "sleep 67" in str(processes(boxes)))
    os.kill(client, signal.SIGKILL)
    os.waitpid(client, 0)
    os.close(ready)
    assert until(lambda: "sleep 67" not in str(processes(boxes)))
    assert ping(boxes)


# ---- ends of commands ----

def test_a_background_process_lives_on(boxes):
    code, text, _ = boxes.exec("sh", "-c", "sleep 77 >/dev/null 2>&1 & echo $!")
    assert code == 0
    time.sleep(0.3)  # to be ended, if it is
    assert "sleep 77" in processes(boxes)[text.strip()]


def test_a_timeout_ends_its_own_tree_only(boxes):
    with boxes.connect() as other:
        other.exec("sh", "-c", "while [ ! -e /tmp/go ]; do sleep 0.1; done; echo lived")
        other.expect(STARTED)
        boxes.exec("sh", "-c", "sleep 88 >/dev/null 2>&1 &")
        tree = "trap '' TERM; (setsid sleep 99 &) ; sleep 99 & echo begun; while :; do sleep 1; done"
        code, text, last = given_time(lambda s: boxes.exec("sh", "-c", tree, TIMEOUT_MS=s * 1000),
                                      lambda done: done[1] != "", (2, 20))
        assert (code, text, last["REASON"]) == (124, "begun\n", REASON_TIMEOUT)
        running = processes(boxes).values()
        assert not [c for c in running if "sleep 99" in c] and [c for c in running if "sleep 88" in c]
        boxes.exec("touch", "/tmp/go")
        assert other.finish()[:2] == (0, "lived\n")


def test_hanging_up_ends_the_tree(boxes):
    with boxes.connect() as c:
        c.exec("sh", "-c", "setsid sleep 66 & sleep 66")
        c.expect(STARTED)
        assert until(lambda: "sleep 66" in str(processes(boxes)))
    assert until(lambda: "sleep 66" not in str(processes(boxes)))


def test_a_signal_reaches_its_command(boxes):
    with boxes.connect() as c:
        c.exec("sleep", "1000")
        c.expect(STARTED)
        c.send(SIGNAL, field("SIGNAL", int(signal.SIGINT)))
        code, _, last = c.finish()
        assert (code, last["REASON"], last["SIGNAL"]) == (130, REASON_SIGNAL, signal.SIGINT)


def test_input_and_its_end(boxes):
    with boxes.connect() as c:
        c.exec("wc", "-c", STDIN=1)
        c.expect(STARTED)
        c.send(INPUT, b"12345")
        c.send(INPUT_END)
        assert c.finish()[:2] == (0, "5\n")


def test_orphans_are_reaped(boxes):
    for _ in range(5):
        boxes.exec("sh", "-c", "(sleep 0.1 &) ; (true &)")
    assert until(lambda: "sleep 0.1" not in str(processes(boxes)))
    look = "grep -s -l 'State:.Z' /proc/[0-9]*/status"
    assert until(lambda: boxes.exec("sh", "-c", look)[1] == "")


def test_the_process_limit_leaves_room_to_serve(folder, clean_host):
    with listening(folder, "--pids", 8) as boxes:
        script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1000 & done 2>/dev/null; sleep 1000"
        with boxes.connect() as c:
            c.exec("bash", "-c", script)
            c.expect(STARTED)
            assert until(lambda: answer_to_ping(boxes)[0] == ERROR), "the limit never bites"
            refusal = fields_of(answer_to_ping(boxes)[1])
            assert "as many processes run" in refusal["MESSAGE"]
        assert until(lambda: answer_to_ping(boxes)[0] == DONE), "a full sandbox never serves again"


def answer_to_ping(boxes):
    with boxes.connect() as c:
        try:
            c.request(PING)
        except BrokenPipeError:  # it was refused before it was read; the answer says why
            pass
        return c.receive()


# ---- the end of all ----

def test_shutdown_ends_all(boxes):
    with boxes.connect() as busy, boxes.connect() as c:
        busy.exec("sh", "-c", "trap '' TERM HUP INT; setsid sleep 1000 & sleep 1000")
        busy.expect(STARTED)
        c.request(SHUTDOWN)
        c.expect(DONE)
        ended = boxes.next()
        assert ended["event"] == "ended"
        assert ended["status"] == 0 or is_sanitized()  # the leak checker fails in a sandbox
        assert busy.ended()
    assert not is_alive(boxes.pid())
    with pytest.raises(OSError):
        boxes.connect()


def test_inside_nobody_can_stop_the_first_process(boxes):
    _, text, _ = boxes.exec("sh", "-c", "for s in TERM KILL STOP INT SEGV; do kill -$s 1; done; :")
    assert text.count("not permitted") == 5
    assert ping(boxes) and is_alive(boxes.pid())
    assert boxes.exec("echo", "x", USER="1000")[:2] == (0, "x\n")


def test_exec_needs_a_command(boxes):
    with boxes.connect() as c:
        c.request(EXEC)
        assert "no command" in fields_of(c.expect(ERROR))["MESSAGE"]
