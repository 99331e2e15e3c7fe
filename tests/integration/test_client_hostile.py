"""Daemons that lie: what `cay` makes of answers that nobody should send, and where files land that a
sandbox sends out."""

import contextlib
import io
import os
import socket
import struct
import tarfile
import threading

import pytest
from launching import DONE, STDOUT, Connection
from support import cay, need_cay, own, refused

UPGRADE = (b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: cay-init\r\n"
           b"X-Cay-Work-Dir: /workspace\r\nX-Cay-Name: box\r\n\r\n")
STAT, TAR_OUT = 3, 16
TAGS = {"OP": 2, "PATH": 14, "MODE": 16, "UID": 17, "GID": 18, "SIZE": 19, "MTIME_MS": 20, "COUNT": 27}


def field(tag, value):
    data = struct.pack("<Q", value) if isinstance(value, int) else value.encode() + b"\0"
    return struct.pack("<HI", TAGS[tag], len(data)) + data


class Liar:
    """Answers each connection by a function of the socket, after the request's head."""

    def __init__(self, path, answer):
        need_cay()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        os.chmod(path, 0o777)
        self.listener.listen(16)
        self.path = path
        self.url = f"unix://{path}"
        self.answer = answer
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            with sock:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    more = sock.recv(1)  # not a byte of what follows
                    if not more:
                        break
                    head += more
                with contextlib.suppress(OSError):  # cay had enough
                    self.answer(sock)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(60)
        os.unlink(self.path)


def ask(folder, data, *words):
    with Liar(folder / "s", lambda sock: sock.sendall(data)) as liar:
        return cay(*(words or ("ls",)), "--state-dir", folder, "--host", liar.url)


def table(text, status="200 OK"):
    body = text.encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


# ---- answers ----

@pytest.mark.parametrize("data", [
    b"", b"\r\n\r\n", b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b"HTTP/9.9 200 OK\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
    b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n" + b"x" * 100000,
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\nabc",
    b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 5000 + b"\r\n",
    b"HTTP/1.1 200 OK\r\nA: " + b"x" * (3 << 20),
    b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n",
    table(""), table("id\tname"), table("id\tname\n1\n"), table("no newline"),
], ids=lambda d: repr(d[:48]))
def test_nonsense_is_one_line(folder, data):
    done = ask(folder, data)
    refused(done, code=done.returncode)
    assert done.returncode in (1, 10) and done.stdout == b""


def test_text_of_an_answer_does_not_drive_the_terminal(folder):
    done = ask(folder, table("not_found\n\x1b[2Jgone\x07\n\x1b]0;title\n", "404 Not Found"))
    assert done.returncode == 3 and b"\x1b" not in done.stderr and b"\x07" not in done.stderr


def test_an_error_keeps_its_class_if_it_has_no_text(folder):
    assert ask(folder, table("", "404 Not Found")).returncode == 3
    assert ask(folder, table("x", "429 Too Many")).returncode == 5


def test_an_endless_answer_ends(folder):
    def endless(sock):
        sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            sock.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")

    with Liar(folder / "s", endless) as liar:
        done = cay("ls", "--state-dir", folder, "--host", liar.url, timeout=60)
    refused(done, "too long", code=10)


@pytest.mark.parametrize("words", [("session", "exec"), ("context", "run")], ids=lambda w: w[0])
def test_a_connection_that_ends_early_promises_nothing(folder, words):
    """Whether the command has begun is not known."""
    def hang_up(sock):
        sock.sendall(UPGRADE)
        sock.recv(1 << 16)

    with Liar(folder / "s", hang_up) as liar:
        what = ("-c", "1") if words[0] == "context" else ("--", "true")
        done = cay(*words, "--state-dir", folder, "--host", liar.url, "box", "s", *what, timeout=60)
    refused(done, "the command may have begun", code=125)


# ---- files that come out ----

def stream(*members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, kind, link, data in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = kind, link, len(data)
            member.mode = 0o6777
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def file(name, data=b"evil"):
    return name, tarfile.REGTYPE, "", data


def link(name, target):
    return name, tarfile.SYMTYPE, target, b""


def hard(name, target):
    return name, tarfile.LNKTYPE, target, b""


def sandbox(archive, mode=0o040755):
    """An init that says that there is a folder, and sends the archive for it."""
    def answer(sock):
        sock.sendall(UPGRADE)
        connection = Connection(sock)
        _, payload = connection.receive()
        if field("OP", STAT) in payload:
            connection.send(DONE, field("PATH", "x") + field("MODE", mode) + field("SIZE", 0)
                            + field("MTIME_MS", 0) + field("UID", 0) + field("GID", 0))
            return
        assert field("OP", TAR_OUT) in payload
        for at in range(0, len(archive), 65536):
            connection.send(STDOUT, archive[at:at + 65536])
        connection.send(DONE, field("COUNT", 1) + field("SIZE", len(archive)))
    return answer


ATTACKS = {
    "parent": [file("../evil")],
    "parent inside": [file("x/../../evil")],
    "absolute": [file("/tmp/outside-evil")],
    "beside": [file("x/fine"), file("evil"), file(".bashrc")],
    "symlink": [link("x/out", ".."), file("x/out/evil")],
    "symlink absolute": [link("x/out", "/tmp"), file("x/out/outside-evil")],
    "symlink first": [link("x", "."), file("x/evil")],
    "symlink as the folder": [link("x", ".."), ("x", tarfile.DIRTYPE, "", b""), file("x/evil")],
    "hard link": [hard("x/passwd", "/etc/passwd")],
    "hard link up": [hard("x/stolen", "../secret")],
    "hard link through a symlink": [link("x/l", ".."), hard("x/stolen", "x/l/secret")],
    "dots": [file("x/./../evil")],
    "long": [file("x/" + "a/" * 2000 + "evil")],
    "device": [("x/null", tarfile.CHRTYPE, "", b"")],
}


@pytest.mark.parametrize("target", ["new", "there", "content"])
@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_lands_beside_the_destination(folder, name, target):
    inside = folder / "inside"
    inside.mkdir()
    own(inside)
    (inside / "secret").write_text("secret")
    own(inside / "secret")
    if target != "new":
        (inside / "dest").mkdir()
        own(inside / "dest")
    source = "box:/x/." if target == "content" else "box:/x"
    with Liar(folder / "s", sandbox(stream(*ATTACKS[name]))) as liar:
        cay("cp", "--state-dir", folder, "--host", liar.url, source, inside / "dest")
    assert {p.name for p in inside.iterdir()} <= {"secret", "dest"}
    assert not os.path.exists("/tmp/outside-evil") and not os.path.exists("/tmp/evil")
    assert not (folder / "evil").exists()
    assert (inside / "secret").stat().st_nlink == 1
    assert (inside / "secret").read_text() == "secret"
    for path in inside.rglob("*"):
        mode = path.lstat().st_mode
        assert path.is_symlink() or mode & 0o6000 == 0, path
        assert not path.is_char_device(), path


@pytest.mark.parametrize("archive", [
    b"", b"x" * 1000, b"\0" * 1024, stream(file("x/a"))[:700],
    stream(file("x/a", b"1" * 5000))[:2048],
], ids=range(5))
def test_broken_archives(folder, archive):
    with Liar(folder / "s", sandbox(archive)) as liar:
        done = cay("cp", "--state-dir", folder, "--host", liar.url, "box:/x", folder / "dest")
    if archive == b"\0" * 1024:
        assert done.returncode == 0  # an archive of nothing
    else:
        refused(done, code=done.returncode)


def test_an_init_that_promises_more_than_it_sends(folder):
    def answer(sock):
        sock.sendall(UPGRADE)
        connection = Connection(sock)
        connection.receive()
        connection.send(DONE, b"nonsense")

    with Liar(folder / "s", answer) as liar:
        refused(cay("cp", "--state-dir", folder, "--host", liar.url, "box:/x", folder / "dest"), "protocol", code=1)
        refused(cay("exec", "--state-dir", folder, "--host", liar.url, "box", "true"),
                code=125)


@pytest.mark.parametrize("head", [
    UPGRADE.replace(b"X-Cay-Work-Dir: /workspace\r\n", b""),
    UPGRADE.replace(b"X-Cay-Name: box\r\n", b""),
    UPGRADE.replace(b"/workspace", b"/%zz"),
    UPGRADE.replace(b"/workspace", b"/%00"),
    UPGRADE.replace(b"box", b"b" * 5000),
], ids=range(5))
def test_broken_defaults(folder, head):
    with Liar(folder / "s", lambda sock: sock.sendall(head)) as liar:
        done = cay("exec", "--state-dir", folder, "--host", liar.url, "box", "true")
    refused(done, "update cay", code=125)
