"""What should never come, thrown at real processes: the launcher by a client that has lost its mind,
the supervisor by its front, the front by clients on its socket. Nothing dies that need not, nothing
hangs, nothing leaks, and nothing is made from a bad request."""

import contextlib
import ctypes
import json
import os
import socket
import struct
import subprocess
import threading
import time

import pytest
import support
from daemons import serving
from keeping import need_keep
from launching import LAUNCHER, is_alive, until
from stressing import amount, random_numbers, what_stays

STORM = support.HELPERS / "storm"
REQUESTS = amount(1500, 100000)


# ---- the launcher ----

def test_a_storm_of_requests(folder, clean_host):
    need_keep()
    numbers = random_numbers()
    who, env = support.as_user()
    state = folder / "state"
    state.mkdir()
    support.own(state)
    done = subprocess.run([STORM, LAUNCHER, state, str(numbers.getrandbits(60)), str(REQUESTS)],
                          env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=500, **who)
    told = done.stderr.decode()
    assert done.returncode == 0 and "storm: " not in told, told
    # the leak checker itself fails in the launcher, which has no /proc, and changes its status
    assert "AddressSanitizer" not in told and "runtime error" not in told, told
    told = json.loads(done.stdout)
    assert (told["status"] == 0 or support.is_sanitized()) and told["wrong"] == 0, told
    assert told["refused"] > REQUESTS // 4 and told["started"] > 0, told
    # It keeps slots of sandboxes that were alive at once, which a few kinds of request decide.
    assert told["after"] < told["before"] + 100, told
    assert not what_stays(state, {f"57031157031100{n:02x}" for n in range(16)})


# ---- the supervisor ----

PIDFD_GETFD = 438


def take_descriptor(pid, number):
    """A copy of another process's descriptor."""
    pidfd = os.pidfd_open(pid)
    try:
        fd = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, pidfd, number, 0)
        return fd
    finally:
        os.close(pidfd)


def is_from(fd, pid):
    """Whether it is a connected socket for packets that this process made."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(fd)) as s:
        if s.family != socket.AF_UNIX or s.type != socket.SOCK_SEQPACKET:
            return False
        maker = struct.unpack("3i", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        return maker == pid and not s.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    return False


def control_socket(daemon):
    """The front's end of the socket that it shares with its supervisor: the first of those that the
    front is executed with."""
    front = daemon.front()
    for number in sorted(map(int, os.listdir(f"/proc/{front}/fd"))):
        fd = take_descriptor(front, number)
        if fd >= 0 and is_from(fd, daemon.process.pid):
            return socket.socket(fileno=fd)
        if fd >= 0:
            os.close(fd)
    return pytest.fail("the front has no control socket")


@support.as_root_only
def test_the_supervisor_outlives_a_mad_front(folder):
    """Whatever it sends: it is ended if that is no message, and sandboxes stay."""
    numbers = random_numbers()
    with serving(folder) as daemon:
        who = daemon.create()["id"]
        fds = len(os.listdir(f"/proc/{daemon.process.pid}/fd"))
        for data in (b"", b"x", bytes(100), numbers.randbytes(100000), b"\xff" * 5000):
            front = daemon.front()
            with control_socket(daemon) as sock:
                socket.send_fds(sock, [data], [0] * numbers.randrange(5))
            assert until(lambda front=front: daemon.front() not in (0, front)), \
                (data[:9], daemon.log.read_text())
        assert until(daemon.serves)
        assert daemon.exec(who, "echo", "alive") == (0, "alive\n")
        assert until(lambda: len(os.listdir(f"/proc/{daemon.process.pid}/fd")) <= fds + 1), \
            os.listdir(f"/proc/{daemon.process.pid}/fd")
    assert not what_stays(daemon.state, {who})


@support.as_root_only
def test_the_supervisor_takes_any_message(folder, clean_host):
    """Of the right size, with any contents and descriptors: it serves on, and so does the front."""
    numbers = random_numbers()
    size = int(subprocess.run([STORM, "--control-size"], stdout=subprocess.PIPE,
                              check=True).stdout)
    with serving(folder) as daemon, control_socket(daemon) as sock:
        front = daemon.front()
        fds = lambda: len(os.listdir(f"/proc/{daemon.process.pid}/fd"))
        before = fds()
        read_end, write_end = os.pipe()
        names = [b"../../etc/passwd", b"-x", b"", b"a" * 300, b"x:y:z", b"\n", b"0" * 64, b"f" * 64]
        for _ in range(amount(500, 20000)):
            op = numbers.choice((1, 3, 4, 5, 16, 17, 0xffffffff, numbers.getrandbits(32)))
            body = numbers.choice((bytes(size - 4), numbers.randbytes(size - 4),
                                   numbers.choice(names).ljust(size - 4, b"\0")))
            if op == 3 and body == bytes(size - 4):
                continue
            socket.send_fds(sock, [struct.pack("<I", op) + body],
                            [write_end] * numbers.randrange(5))
        os.close(write_end)
        threading.Thread(target=lambda: os.read(read_end, 1 << 20), daemon=True).start()
        assert until(lambda: fds() <= before + 1), (before, fds())
        assert daemon.front() == front and daemon.get("/healthz").text == "ok"
        os.close(read_end)


# ---- HTTP ----

@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    path = tmp_path_factory.mktemp("storm")
    for folder in (path, *path.parents):
        if folder.parts[1:2] == ("tmp",) and len(folder.parts) > 2:
            folder.chmod(0o755)
    support.own(path)
    with serving(path) as found:
        yield found


def connect(daemon, seconds=45):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(seconds)
    sock.connect(str(daemon.socket))
    return sock


def everything(sock):
    data = b""
    with contextlib.suppress(OSError):
        while piece := sock.recv(65536):
            data += piece
    return data


def descriptors(daemon):
    return len(os.listdir(f"/proc/{daemon.front()}/fd"))


def threads(daemon):
    return len(os.listdir(f"/proc/{daemon.front()}/task"))


def test_pipelined_requests_are_answered_in_order(daemon):
    with connect(daemon) as sock:
        paths = ["/healthz", "/api/cay/sandbox/none-such", "/api/cay/status", "/nothing"] * 25
        sock.sendall(b"".join(f"GET {p} HTTP/1.1\r\nHost: x\r\n\r\n".encode() for p in paths[:-1])
                     + b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answers = everything(sock).split(b"HTTP/1.1 ")[1:]
    assert [int(a[:3]) for a in answers] == ([200, 404, 200, 404] * 25)[:-1] + [200]


@pytest.mark.parametrize("chunks, status", [
    ([b"4\r\n{\"a\"\r\n", b"3\r\n:1}\r\n", b"0\r\n\r\n"], 400),  # an unknown key, and whole
    ([b"2\r\n{}\r\n0\r\nX-Trailer: y\r\n\r\n"], None),
    ([b"zz\r\n{}\r\n0\r\n\r\n"], 400),
    ([b"-2\r\n{}\r\n0\r\n\r\n"], 400),
    ([b"ffffffffffffffffff\r\n{}"], 400),
    ([b"2\r\n{}XX0\r\n\r\n"], 400),
])
def test_chunked_bodies(daemon, chunks, status):
    with connect(daemon) as sock:
        sock.sendall(b"POST /api/cay/sandbox/none-such/start HTTP/1.1\r\nHost: x\r\n"
                     b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
        for chunk in chunks:
            sock.sendall(chunk)
        text = everything(sock)
    assert text == b"" or (400 <= int(text[9:12]) < 500 and status in (None, 400, int(text[9:12]))), text
    assert daemon.get("/healthz").text == "ok"


def test_lengths_that_contradict_each_other(daemon):
    for head in ("Content-Length: 2\r\nContent-Length: 20", "Content-Length: -1",
                 "Content-Length: 99999999999999999999", "Content-Length: 0x2",
                 "Transfer-Encoding: chunked\r\nContent-Length: 4", "Transfer-Encoding: gzip"):
        with connect(daemon) as sock:
            sock.sendall(f"POST /api/cay/sandbox HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{head}\r\n\r\n"
                         "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            sock.shutdown(socket.SHUT_WR)
            text = everything(sock)
        assert b"200 OK" not in text, (head, text)
    assert daemon.list() == [] and daemon.get("/healthz").text == "ok"


def test_half_open_connections_and_slow_clients(daemon):
    """Those who say nothing or little hold up nobody, and go without a trace."""
    before = descriptors(daemon), threads(daemon)
    words = [b"", b"G", b"GET /healthz HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nX: ",
             b"POST /api/cay/sandbox HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"]
    with contextlib.ExitStack() as undo:
        for turn in range(400):
            undo.enter_context(sock := connect(daemon))
            sock.sendall(words[turn % len(words)])
        began = time.monotonic()
        assert daemon.get("/healthz").text == "ok"
        assert time.monotonic() - began < 45  # they are given 60 s
    assert until(lambda: descriptors(daemon) <= before[0] + 2 and threads(daemon) <= before[1] + 2), \
        (before, descriptors(daemon), threads(daemon))


def test_a_client_that_reads_nothing(daemon):
    """Many answers that nobody takes: it is the client's own connection that waits."""
    with connect(daemon, 0.5) as sock:
        with contextlib.suppress(OSError):
            for _ in range(2000):
                sock.sendall(b"GET /api/cay/sandbox/" + b"x" * 2000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert daemon.get("/healthz").text == "ok"


def test_a_storm_of_garbage(daemon):
    """Mutated requests; the front stays the same process."""
    numbers = random_numbers()
    front = daemon.front()
    before = descriptors(daemon)
    good = [b"GET /api/cay/sandbox HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n",
            b"POST /api/cay/sandbox/none/stop HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
            b"PUT /api/cay/sandbox/none/labels HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\n\r\n"
            b'{"labels":{}}',
            b"GET /api/cay/sandbox/none/connect HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
            b"Upgrade: cay-init\r\n\r\n",
            b"DELETE /api/cay/sandbox/%00%ff?force=true&force=%zz HTTP/1.1\r\nHost: x\r\n\r\n"]
    for _ in range(amount(1500, 50000)):
        data = bytearray(numbers.choice(good))
        for _ in range(numbers.randrange(6)):
            at = numbers.randrange(len(data))
            data[at:at + numbers.randrange(3)] = numbers.choice(
                (b"", b"\0", b"\r\n", b"%", b" ", b":", b"\xff", b"A" * 5000, numbers.randbytes(4)))
        with connect(daemon) as sock, contextlib.suppress(OSError):
            sock.sendall(data)
            if numbers.random() < 0.5:
                sock.shutdown(socket.SHUT_WR)
                assert len(everything(sock)) < 100000
    assert daemon.front() == front and is_alive(front)
    assert until(lambda: descriptors(daemon) <= before + 2)
    for made in daemon.list():  # some of it may be a good request
        daemon.call("DELETE", f"/api/cay/sandbox/{made['id']}?force=true")


def test_headers_without_end(daemon):
    with connect(daemon) as sock, contextlib.suppress(OSError):
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
        for _ in range(2000):
            sock.sendall(b"X-More: " + b"y" * 4000 + b"\r\n")
        pytest.fail("8 MB of headers were taken")
    assert daemon.get("/healthz").text == "ok"
