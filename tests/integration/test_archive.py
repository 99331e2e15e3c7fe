"""`cay archive`: what a sandbox has written comes back exactly as it was, and nothing that goes wrong
on the way loses any of it."""

import contextlib
import json
import os
import random
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from daemons import Refused, serving
from launching import until
from support import USER, cay, is_sanitized, ok, own, refused
from test_run_image import base
from test_tty import Terminal

AS_ROOT = not USER and os.geteuid() == 0
KILLS = 20 if AS_ROOT and not is_sanitized() else 6

# One of each thing that a file system can hold, as far as a sandbox may make it.
MAKE = r"""
import os, socket, stat, struct
os.makedirs("/workspace/tree/empty"); os.chdir("/workspace/tree")
def put(name, data=b"x", mode=0o644):
    with open(name, "wb") as f:
        f.write(data)
    os.chmod(name, mode)
put("plain", b"hello" * 1000); put("set", mode=0o4755); put("closed", mode=0)
put("-"); put(b"bytes-\xff\xfe"); put("new\nline"); put(" space "); put("a\\b"); put("n" * 255)
os.makedirs("/".join(["d" * 200] * 15)); put("/".join(["d" * 200] * 15) + "/deep")
put(".wh.plain"); put(".wh..wh..opq")
os.link("plain", "hard"); os.link("plain", "empty-hard"); os.symlink("plain", "soft")
os.symlink("t" * 3000, "long-link"); os.link("soft", "soft-hard", follow_symlinks=False)
os.mkfifo("fifo", 0o620); os.link("fifo", "fifo-hard")
socket.socket(socket.AF_UNIX).bind("socket"); os.chmod("socket", 0o711)
with open("sparse", "wb") as f:
    f.truncate(50 << 20); f.seek(20 << 20); f.write(b"middle"); f.seek(40 << 20); f.write(b"y" * 9000)
with open("hole", "wb") as f:
    f.truncate((1 << 33) + 3)
with open("big", "wb") as f:
    f.write(os.urandom(3 << 20))
os.mkdir("sticky"); os.chmod("sticky", 0o3775); put("sticky/in")
os.setxattr("plain", "user.note", b"\0binary\n\xff"); os.setxattr("plain", "user.a=b", b"1=2")
os.setxattr("empty", "user.of-folder", b"f"); os.setxattr("plain", "user.empty", b"")
os.setxattr("plain", "user.large", os.urandom(2000))
# access lists: an own one, and one that a folder hands on to what is made in it
acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, perm, who) for tag, perm, who in
    ((1, 6, 2**32 - 1), (2, 4, 0), (4, 4, 2**32 - 1), (16, 6, 2**32 - 1), (32, 0, 2**32 - 1)))
with __import__("contextlib").suppress(OSError):
    put("listed"); os.setxattr("listed", "system.posix_acl_access", acl)
    os.mkdir("handing"); put("handing/before")
    os.setxattr("handing", "system.posix_acl_default", acl); put("handing/after"); os.mkdir("handing/sub")
if OTHERS:
    for n, name in enumerate(("plain", "set", "empty", "soft", "fifo", "socket")):
        os.chown(name, 1000 + n, 2000 + n, follow_symlinks=False)
    os.chmod("set", 0o6755)
for n, name in enumerate(("plain", "soft", "fifo", "empty", "sparse")):
    os.utime(name, ns=(1_000_000_001 + n, 1_234_567_890_123_456_789 + n), follow_symlinks=False)
os.utime("closed", ns=(0, -1_500_000_000))
# what the overlay remembers: gone, replaced and changed things of the image
os.remove("/etc/hostname"); os.chmod("/etc/passwd", 0o600)
import shutil; shutil.rmtree("/etc/alternatives", True); os.mkdir("/etc/alternatives")
os.makedirs("/usr/local/lib/x", exist_ok=True); put("/usr/local/lib/x/y", b"local")
"""

# Everything that is there, as one line each.
LIST = r"""
import hashlib, json, os, stat
def parts(path, size):
    fd = os.open(path, os.O_RDONLY); at = 0; found = []
    try:
        while at < size:
            at = os.lseek(fd, at, os.SEEK_DATA); end = os.lseek(fd, at, os.SEEK_HOLE)
            found.append((at, end)); at = end
    except OSError: pass
    finally: os.close(fd)
    return found
numbers = {}
def look(path):
    st = os.lstat(path); kind = stat.S_IFMT(st.st_mode)
    e = [path.decode("latin1"), oct(st.st_mode), st.st_uid, st.st_gid, st.st_mtime_ns]
    if kind != stat.S_IFDIR: # which names are one file
        e += [st.st_nlink, numbers.setdefault(st.st_ino, len(numbers)) if st.st_nlink > 1 else -1]
    readable = os.access(path, os.R_OK, follow_symlinks=False) # not by every root
    if kind == stat.S_IFREG and readable:
        with open(path, "rb") as f:
            digest = hashlib.sha256(f.read() if st.st_size < 1 << 32 else b"").hexdigest()
        e += [st.st_size, digest, parts(path, st.st_size)]
    if kind == stat.S_IFLNK: e.append(os.readlink(path).decode("latin1"))
    if kind in (stat.S_IFREG, stat.S_IFDIR) and readable:
        e.append(sorted((n, os.getxattr(path, n).hex()) for n in os.listxattr(path)))
    print(json.dumps(e))
    return kind == stat.S_IFDIR
MADE = (b"/etc/hosts", b"/etc/hostname", b"/etc/machine-id") # anew for each start
def walk(path):
    if path not in MADE and look(path):
        for name in sorted(os.listdir(path)): walk(path + b"/" + name)
for top in (b"/workspace", b"/usr/local", b"/etc", b"/root"): walk(top)
"""


def open_way(folder):
    """The front must reach its folder."""
    for path in (folder, *folder.parents):
        if path.parts[1:2] == ("tmp",) and path != Path("/tmp"):
            path.chmod(0o755)
    own(folder)
    return folder


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with serving(open_way(tmp_path_factory.mktemp("archive"))) as d:
        yield d


@contextlib.contextmanager
def box(daemon, **wishes):
    made = daemon.create(**wishes)
    try:
        yield made["id"]
    finally:
        daemon.call("DELETE", f"/api/cay/sandbox/{made['id']}?force=true")


def run(daemon, who, *argv):
    code, output = daemon.exec(who, *argv)
    assert code == 0, output
    return output


def post(daemon, who, verb):
    return daemon.call("POST", f"/api/cay/sandbox/{who}/{verb}")


def archive_of(daemon, who):
    return daemon.state / "archives" / f"{who}.tar.zst"


def files_of(daemon, who):
    return daemon.state / "sandboxes" / who


def leftovers(daemon):
    """What nobody should leave: things in the making."""
    return [path.name for folder in ("archives", "sandboxes")
            for path in (daemon.state / folder).glob(".new-*")]


# ---- there and back ----


def test_comes_back_exactly(daemon):
    profile = {} if USER else {"profile": "build"}
    with box(daemon, **profile) as who:
        others = not USER
        run(daemon, who, "python3", "-c", f"OTHERS = {others}\n{MAKE}")
        before = run(daemon, who, "python3", "-c", LIST).splitlines()
        assert len(before) > 50
        assert USER or any("posix_acl_default" in line for line in before)
        stored = post(daemon, who, "archive")
        assert stored["state"] == "archived"
        assert stored["archiveSize"] == archive_of(daemon, who).stat().st_size
        assert archive_of(daemon, who).stat().st_mode & 0o777 == 0o600
        assert not files_of(daemon, who).exists()
        assert post(daemon, who, "start")["state"] == "started"
        after = run(daemon, who, "python3", "-c", LIST).splitlines()
        assert [line for line in before if line not in after] == []
        assert len(before) == len(after)
        assert not archive_of(daemon, who).exists()
        assert not leftovers(daemon)


def test_of_a_store_image(daemon):
    if is_sanitized():
        pytest.skip("a sanitized cay-init needs libraries of the host, which images lack")
    state = ("--state-dir", daemon.state)
    ok(cay("image", "import", *state, "-", "archive-base", input=base()))
    with box(daemon, image="archive-base") as who:
        run(daemon, who, "/bin/sh", "-c", "echo one >/new && rm -r /bin/false; mkdir /d")
        post(daemon, who, "archive")
        ok(cay("image", "rm", *state, "-f", "archive-base"))
        ok(cay("image", "prune", *state, "-a"))
        post(daemon, who, "start")
        assert run(daemon, who, "/bin/sh", "-c", "cat /new; ls -d /d") == "one\n/d\n"


def test_again_and_again(daemon):
    with box(daemon) as who:
        for n in range(3):
            run(daemon, who, "sh", "-c", f"echo {n} >>/workspace/log")
            post(daemon, who, "archive")
            post(daemon, who, "start")
        assert run(daemon, who, "cat", "/workspace/log") == "0\n1\n2\n"


def test_a_tree_that_is_too_deep(daemon):
    """It is refused with the remedy, in the answer and in the record; after the remedy it is archived."""
    deep = "import os\nos.chdir('/workspace')\nfor _ in range(600):\n    os.mkdir('d'); os.chdir('d')"
    with box(daemon) as who:
        run(daemon, who, "python3", "-c", deep)
        with pytest.raises(Refused) as refusal:
            post(daemon, who, "archive")
        assert refusal.value.status == 409 and "512 deep" in refusal.value.error["message"]
        assert "-mindepth 512" in refusal.value.error["remedy"]
        record = daemon.call("GET", f"/api/cay/sandbox/{who}")
        assert record["state"] == "stopped" and "512 deep" in record["stopReason"]
        post(daemon, who, "start")
        found = run(daemon, who, "find", "/workspace", "-xdev", "-mindepth", "512", "-type", "d", "-prune")
        assert found.count("\n") == 1
        run(daemon, who, "sh", "-c", "cd /workspace && rm -r d")
        assert post(daemon, who, "archive")["state"] == "archived"


# ---- as a user sees it ----


def test_verbs(daemon):
    state = ("--state-dir", daemon.state)
    with box(daemon, name="lab", autoArchiveInterval=7) as who:
        assert ok(cay("archive", *state, "lab")) == "lab\n"
        assert "lab" not in ok(cay("ls", *state))
        assert "archived" in ok(cay("ls", *state, "-a"))
        info = ok(cay("info", *state, "lab"))
        assert "archive " in info and "auto-archive 7 min" in info
        assert json.loads(ok(cay("archive", *state, "-o", "json", "lab")))["state"] == "archived"
        refused(cay("exec", *state, "lab", "--", "true"), "cay start lab", code=125)
        refused(cay("stop", *state, "lab"), "cay start lab", code=4)
        refused(cay("archive", *state, "nobody"), "no sandbox 'nobody'", code=3)
        ok(cay("start", *state, "lab"))
        assert daemon.state_of(who) == "started"


def told(daemon, who, verb):
    """The lines of progress, how it ended, and the answer."""
    answer = daemon.ask("POST", f"/api/cay/sandbox/{who}/{verb}", X_Cay_Progress="lines")
    assert answer.status == 200
    *lines, end, last, rest = answer.text.split("\n")
    assert rest == "" and all(line.startswith("progress ") for line in lines)
    return lines, end, json.loads(last)


def test_progress_is_told(daemon):
    with box(daemon) as who:
        run(daemon, who, "sh", "-c", "echo kept > /workspace/file")
        lines, end, made = told(daemon, who, "archive")
        assert end == "done" and made["state"] == "archived" and "archiving" in lines[0]
        lines, end, made = told(daemon, who, "start")
        assert end == "done" and made["state"] == "started" and "restoring" in lines[0]
        assert run(daemon, who, "cat", "/workspace/file") == "kept\n"
        post(daemon, who, "archive")
        flip(archive_of(daemon, who), 30)
        lines, end, error = told(daemon, who, "start")
        assert end == "error" and error["statusCode"] >= 400 and "restoring" in error["message"]
        rows = daemon.call("GET", "/api/cay/audit?limit=10000")
        results = [row["result"] for row in rows if row["action"] == "sandbox.start"
                   and row["object"] == who]
        assert results == ["ok", error["code"]]


def test_progress_is_shown_on_a_terminal(daemon):
    with box(daemon, name="shown"):
        for verb, doing in (("archive", "archiving"), ("start", "restoring")):
            with Terminal(words=[verb, "--state-dir", daemon.state, "shown"]) as t:
                t.expect(doing)
                t.expect("shown")
                assert t.end(60) == 0


def test_removal_removes_the_archive(daemon):
    who = daemon.create()["id"]
    post(daemon, who, "archive")
    assert archive_of(daemon, who).exists()
    daemon.call("DELETE", f"/api/cay/sandbox/{who}")
    assert not archive_of(daemon, who).exists()
    assert not list((daemon.state / "images").glob(f"store/pins/archive-{who}*"))


def test_intervals_are_checked(daemon):
    for wrong in (-1, 1e9, "soon"):
        with pytest.raises(Refused) as e:
            daemon.create(autoArchiveInterval=wrong)
        assert e.value.status == 400 and "autoArchiveInterval" in e.value.error["message"]


# ---- what goes wrong ----


def flip(path, at):
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)
        f.seek(at)
        f.write(bytes([byte[0] ^ 0x10]))


def test_damaged_archive(daemon):
    with box(daemon) as who:
        run(daemon, who, "sh", "-c", "head -c 300000 /dev/urandom >/workspace/f; echo ok >/workspace/g")
        post(daemon, who, "archive")
        path = archive_of(daemon, who)
        whole = path.read_bytes()
        harms = [lambda at=at: flip(path, at) for at in (0, 20, len(whole) // 2, len(whole) - 2100,
                                                          len(whole) - 2030, len(whole) - 1990)]
        harms += [lambda n=n: os.truncate(path, n) for n in (0, 100, 200000, len(whole) - 1)]
        for number, harm in enumerate(harms):
            path.write_bytes(whole)
            harm()
            with pytest.raises(Refused) as e:
                post(daemon, who, "start")
            assert e.value.status == 500 and "archive" in e.value.error["message"], number
            assert "backup" in e.value.error["remedy"], number
            assert daemon.state_of(who) == "archived" and path.exists()
            assert not files_of(daemon, who).exists() and not leftovers(daemon), number
        path.unlink()
        with pytest.raises(Refused) as e:
            post(daemon, who, "start")
        assert e.value.status == 404 and daemon.state_of(who) == "archived"
        path.write_bytes(whole)
        post(daemon, who, "start")
        assert run(daemon, who, "cat", "/workspace/g") == "ok\n"


def test_archive_of_another_sandbox(daemon):
    with box(daemon) as one, box(daemon) as two:
        post(daemon, one, "archive")
        post(daemon, two, "archive")
        own = archive_of(daemon, one).read_bytes()
        archive_of(daemon, one).write_bytes(archive_of(daemon, two).read_bytes())
        with pytest.raises(Refused) as e:
            post(daemon, one, "start")
        assert e.value.status == 500 and two in e.value.error["message"]
        archive_of(daemon, one).write_bytes(own)


@pytest.mark.skipif(not AS_ROOT, reason="only root can mount a small disk")
def test_full_disk(daemon):
    folder = daemon.state / "archives"
    folder.mkdir(mode=0o700, exist_ok=True)
    with box(daemon) as who:
        run(daemon, who, "sh", "-c", "head -c 2000000 /dev/urandom >/workspace/f; md5sum /workspace/f "
                                     ">/workspace/sum")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=0700", "tmpfs", folder],
                       check=True)
        try:
            with pytest.raises(Refused) as e:
                post(daemon, who, "archive")
            assert e.value.error["code"] == "resource_exhausted", e.value.error
            assert daemon.state_of(who) == "stopped"
            assert files_of(daemon, who).exists() and not leftovers(daemon)
        finally:
            subprocess.run(["umount", folder], check=True)
        post(daemon, who, "archive")
        post(daemon, who, "start")
        run(daemon, who, "md5sum", "-c", "/workspace/sum")


# ---- ends ----


def imagers(daemon):
    """Processes of cay-image that work for the daemon."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if words[0] == b"cay-image" and os.fsencode(daemon.state) in words:
                found.append(int(path.parent.name))
    return found


def strike(daemon, victim):
    """One of the processes dies."""
    if victim == "daemon":
        daemon.kill()
        daemon.start()
        return
    pids = imagers(daemon) if victim == "cay-image" else [daemon.front()]
    for pid in filter(None, pids[:1]):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def settled(daemon, who):
    with contextlib.suppress(OSError, Refused):
        return daemon.state_of(who) in ("stopped", "started", "archived")
    return False


def try_verb(daemon, who, verb):
    with contextlib.suppress(Exception):  # cut off, or refused: that is what is tested
        post(daemon, who, verb)


def can_start(daemon, who):
    with contextlib.suppress(OSError, Refused, ValueError):
        return post(daemon, who, "start")["state"] == "started"
    return False


def test_killed_at_any_moment(tmp_path):
    chance = random.Random(4711)
    with serving(open_way(tmp_path)) as daemon, box(daemon) as who:
        run(daemon, who, "sh", "-c", "mkdir /workspace/d; for i in $(seq 200); do echo $i >/workspace/d/$i;"
            "done; head -c 3000000 /dev/urandom >/workspace/f; cd /workspace; md5sum f d/* >sum")
        for number in range(KILLS):
            verb = ("archive", "start")[number % 2]
            thread = threading.Thread(target=try_verb, args=(daemon, who, verb))
            thread.start()
            time.sleep(chance.random() * 0.25)
            strike(daemon, chance.choice(["daemon", "front", "cay-image"]))
            thread.join(60)
            assert until(lambda: settled(daemon, who)), daemon.log.read_text()
            if verb == "start" or number % 3 == 0:
                assert until(lambda: can_start(daemon, who)), daemon.log.read_text()
                code, output = daemon.exec(who, "sh", "-c", "cd /workspace && md5sum -c --quiet sum")
                assert code == 0, (number, output)
        assert until(lambda: can_start(daemon, who))
        daemon.stop()
        daemon.start()  # sweeps what was half done
        assert until(lambda: not leftovers(daemon)), leftovers(daemon)
        assert [path.name for path in (daemon.state / "sandboxes").iterdir()
                if not path.name.startswith(".")] == [who]
        post(daemon, who, "start")
        run(daemon, who, "sh", "-c", "cd /workspace && md5sum -c --quiet sum")
