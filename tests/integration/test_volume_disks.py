"""Named volumes as disks: a size that holds, charged to the key; shared by sandboxes at once; nothing is
left on the host, whoever is killed."""

import contextlib
import os
import sqlite3
import subprocess
from pathlib import Path

import pytest
import support
from daemons import Refused, serving, serving_tcp
from launching import until
from test_disk import can_grow_while_mounted
from test_keys import make_key

pytestmark = support.as_root_only

MB = 1 << 20
IMAGE_IDS_FIRST = 0x7fff0000
NO_POOL = {"CAY_MANAGER_POOL_SIZE": "0"}


@pytest.fixture(scope="module")
def daemon():
    with serving_tcp(env=NO_POOL) as one:
        yield one


@pytest.fixture
def made(daemon):
    """Makes volumes, and removes them with the sandboxes afterwards."""
    ids = []

    def make(name, by=daemon, **wishes):
        v = by.call("POST", "/api/cay/volumes", {"name": name, **wishes})
        ids.append(v["id"])
        return v
    yield make
    for box in daemon.list():
        daemon.call("DELETE", f"/api/cay/sandbox/{box['id']}?force=true")
    for one in ids:
        assert daemon.ask("DELETE", f"/api/cay/volumes/{one}").status in (204, 404)
    assert until(lambda: attached(daemon.state) == [])


def attached(state):
    """The loop devices of volumes."""
    found = []
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            path = file.read_text().strip()
        except OSError:
            continue
        if path.startswith(f"{state}/volume-disks/"):
            found.append(file.parts[3])
    return found


def box_with(daemon, *volumes, **wishes):
    wishes = {"memory": "64m", "disk": "16m", **wishes}
    return daemon.create(volumes=list(volumes), **wishes)["id"]


def taken(state):
    """Bytes that volumes have on the host."""
    return sum(f.stat().st_blocks * 512
               for f in [*state.glob("volume-disks/*/disk"), *state.glob("volumes/*")])


def fill(daemon, box, path, mb):
    return daemon.exec(box, "dd", "if=/dev/zero", f"of={path}", "bs=1M", f"count={mb}")


def df(daemon, box, path="/data"):
    code, text = daemon.exec(box, "df", "-B1", "--output=size", path)
    assert code == 0, text
    return int(text.split()[-1])


# ---- the limit ----

def test_a_volume_holds_what_it_was_made_for(daemon, made):
    v = made("data", size="64m")
    assert v["size"] == 64 * MB
    box = box_with(daemon, "data:/data")
    code, text = fill(daemon, box, "/data/big", 700)
    assert code != 0 and "No space left" in text
    held = int(daemon.exec(box, "stat", "-c", "%s", "/data/big")[1])
    assert 60 * MB <= held <= 80 * MB
    assert taken(daemon.state) < 90 * MB
    code, text = daemon.exec(box, "sh", "-c", "rm /data/big; i=0; while echo >/data/$i; do "
                             "i=$((i + 1)); [ $i -lt 60000 ] || exit 0; done; exit 28")
    assert code == 28, "more files than a volume of 64 MB may have"
    assert daemon.exec(box, "sh", "-c", "cd /data && find . -type f -delete")[0] == 0


def test_volumes_are_charged_to_the_disk_of_their_key(daemon, made):
    one = make_key(daemon, "one", maxDisk="256m")
    two = make_key(daemon, "two", maxDisk="256m")
    made("data", by=one, size="128m")
    refused = one.ask("POST", "/api/cay/volumes", {"name": "more", "size": "160m"})
    assert refused.status == 429 and "disk" in refused.json()["message"].lower(), refused.text
    # the configured size is more than the key may have
    assert one.ask("POST", "/api/volumes", {"name": "more"}).status == 429
    assert one.ask("POST", "/api/cay/sandbox", {"memory": "64m", "disk": "160m"}).status == 429
    made("data", by=two, size="200m")
    assert two.ask("POST", "/api/cay/volumes/data/resize", {"size": "300m"}).status == 429
    assert two.call("POST", "/api/cay/volumes/data/resize", {"size": "256m"})["size"] == 256 * MB
    assert one.call("GET", "/api/cay/volumes/data")["size"] == 128 * MB


@pytest.mark.parametrize("size", ["1k", "5t", "", -1, True, "x"])
def test_bad_sizes(daemon, size):
    assert daemon.ask("POST", "/api/cay/volumes", {"name": "bad", "size": size}).status == 400
    assert daemon.get("/api/cay/volumes/bad").status == 404


# ---- sharing, growing ----

def grow(daemon, size, *boxes):
    """While sandboxes run, unless this root may not; then that is said, and the size stays."""
    answer = daemon.ask("POST", "/api/cay/volumes/data/resize", {"size": size})
    if answer.status == 200 or can_grow_while_mounted():
        assert answer.status == 200, answer.text
        return
    assert answer.status == 501 and "CAP_SYS_RESOURCE" in answer.json()["remedy"]
    assert daemon.call("GET", "/api/cay/volumes/data")["size"] == 32 * MB
    for box in boxes:
        daemon.call("POST", f"/api/cay/sandbox/{box}/stop?grace=0")
    assert until(lambda: attached(daemon.state) == [])
    assert daemon.call("POST", "/api/cay/volumes/data/resize", {"size": size})["size"] > 32 * MB
    for box in boxes:
        daemon.call("POST", f"/api/cay/sandbox/{box}/start")


def test_two_sandboxes_share_a_volume_while_it_grows(daemon, made):
    v = made("data", size="32m")
    one, two = box_with(daemon, "data:/data"), box_with(daemon, f"{v['id']}/part/of:/data")
    script = "echo from one >/data/part/of/file; stat -c %u:%a /data /data/part/of"
    assert daemon.exec(one, "sh", "-c", script) == (0, "0:755\n0:755\n")
    assert daemon.exec(two, "cat", "/data/file") == (0, "from one\n")
    assert daemon.exec(two, "sh", "-c", "echo from two >>/data/file")[0] == 0
    assert daemon.exec(one, "cat", "/data/part/of/file") == (0, "from one\nfrom two\n")
    assert len(attached(daemon.state)) == 1
    before = df(daemon, one)
    grow(daemon, "128m", one, two)
    assert df(daemon, one) > before + 64 * MB
    assert fill(daemon, two, "/data/more", 90)[0] == 0
    smaller = daemon.ask("POST", "/api/cay/volumes/data/resize", {"size": "64m"})
    assert smaller.status == 409 and "smaller" in smaller.json()["message"]
    for box in (one, two):
        daemon.call("POST", f"/api/cay/sandbox/{box}/stop?grace=0")
    assert until(lambda: attached(daemon.state) == []), "unused volumes stay attached"
    daemon.call("POST", f"/api/cay/sandbox/{one}/start")
    assert daemon.exec(one, "cat", "/data/part/of/file") == (0, "from one\nfrom two\n")


def test_a_volume_in_use_is_not_removed(daemon, made):
    v = made("data", size="32m")
    box = box_with(daemon, "data:/data:ro")
    assert daemon.exec(box, "touch", "/data/x")[0] != 0
    refused = daemon.ask("DELETE", "/api/cay/volumes/data")
    assert refused.status == 409 and "used by" in refused.json()["message"]
    daemon.call("DELETE", f"/api/cay/sandbox/{box}?force=true")
    assert daemon.ask("DELETE", "/api/cay/volumes/data").status == 204
    assert not (daemon.state / "volume-disks" / v["id"]).exists()


def test_links_in_a_volume_lead_nowhere(daemon, made):
    made("data", size="32m")
    box = box_with(daemon, "data:/data")
    script = "ln -s / /data/root; ln -s /etc /data/etc; mkdir -p /data/in; ln -s ../../.. /data/in/up"
    assert daemon.exec(box, "sh", "-c", script)[0] == 0
    for part in ("root", "etc", "in/up", "root/etc"):
        with pytest.raises(Refused) as refused:
            box_with(daemon, f"data/{part}:/data")
        assert refused.value.status in (400, 403, 404, 409), refused.value


# ---- what is killed ----

def test_kill_of_each_process(daemon, made):
    made("data", size="32m")
    box = box_with(daemon, "data:/data")
    assert daemon.exec(box, "sh", "-c", "echo kept >/data/file")[0] == 0
    for name in ("cay-launcher", "cayd-front"):
        daemon.kill_child(name)
        assert until(daemon.serves)
        assert daemon.exec(box, "cat", "/data/file") == (0, "kept\n")
        other = box_with(daemon, "data:/data")
        assert daemon.exec(other, "cat", "/data/file") == (0, "kept\n")
        assert len(attached(daemon.state)) == 1
        daemon.call("DELETE", f"/api/cay/sandbox/{other}?force=true")
    daemon.kill()
    daemon.start()
    assert daemon.exec(box, "cat", "/data/file") == (0, "kept\n")
    grow(daemon, "64m", box)
    daemon.call("DELETE", f"/api/cay/sandbox/{box}?force=true")
    assert until(lambda: attached(daemon.state) == [])


def test_a_creation_that_is_killed_leaves_nothing(daemon, made):
    """The launcher dies again and again while volumes are made: each is whole, or gone."""
    for number in range(4):
        name = f"v{number}"
        launcher = daemon.launcher()
        with subprocess.Popen(["sh", "-c", f"sleep 0.0{number}; kill -9 {launcher}"]):
            answer = daemon.ask("POST", "/api/cay/volumes", {"name": name, "size": f"{40 + number}m"})
        assert until(lambda: daemon.launcher() not in (0, launcher))
        if answer.status == 200:
            box = box_with(daemon, f"{name}:/data")
            assert fill(daemon, box, "/data/f", 8)[0] == 0
            daemon.call("DELETE", f"/api/cay/sandbox/{box}?force=true")
            daemon.call("DELETE", f"/api/cay/volumes/{name}")
        assert daemon.get(f"/api/cay/volumes/{name}").status == 404
    assert until(lambda: not [f for f in (daemon.state / "volume-disks").iterdir()
                              if not f.name.startswith(".template-")])


def test_a_creation_that_was_cut_short_is_undone(folder):
    """The whole daemon died between the row and the disk."""
    ident = "0123456789abcdef"
    with serving(folder, env=NO_POOL) as daemon:
        daemon.stop()
        left = daemon.state / "volume-disks" / ident
        left.mkdir(parents=True)
        with contextlib.closing(sqlite3.connect(daemon.state / "daemon" / "cay.db")) as db:
            db.execute("INSERT INTO volume (id, owner, name, created_ms, size_bytes, is_made)"
                       " VALUES (?, '', 'half', 1, ?, 0)", (ident, 64 * MB))
            db.commit()
        daemon.start()
        assert until(lambda: daemon.get("/api/cay/volumes/half").status == 404)
        assert until(lambda: not left.exists())
        assert daemon.call("POST", "/api/cay/volumes", {"name": "half", "size": "16m"})["size"]


# ---- damage, and a full host ----

def test_a_damaged_volume_is_repaired_before_it_is_used(daemon, made):
    v = made("data", size="32m")
    box = box_with(daemon, "data:/data")
    assert daemon.exec(box, "sh", "-c", "echo kept >/data/file; sync")[0] == 0
    device, = attached(daemon.state)
    Path(f"/sys/fs/ext4/{device}/trigger_fs_error").write_text("test")
    assert daemon.exec(box, "sh", "-c", "echo more >/data/other")[0] != 0
    with pytest.raises(Refused) as refused:
        box_with(daemon, "data:/data")
    assert "has errors" in refused.value.error["message"]
    daemon.call("POST", f"/api/cay/sandbox/{box}/stop?grace=0")
    assert until(lambda: attached(daemon.state) == [])
    daemon.call("POST", f"/api/cay/sandbox/{box}/start")
    assert daemon.exec(box, "sh", "-c", "cat /data/file; echo more >/data/file") == (0, "kept\n")
    assert (daemon.state / "volume-disks" / v["id"] / "disk").stat().st_uid == 0


def test_a_volume_that_is_lost_is_not_replaced_by_an_empty_one(daemon, made):
    v = made("data", size="32m")
    (daemon.state / "volume-disks" / v["id"] / "disk").unlink()
    with pytest.raises(Refused) as refused:
        box_with(daemon, "data:/data")
    assert "lost" in refused.value.error["message"]


def test_a_full_host_is_met_inside_and_loses_nothing(folder):
    """Volumes get a share of what is left, as disks of sandboxes do."""
    disk = folder / "disk"
    disk.mkdir()
    file = folder / "file"
    with open(file, "wb") as f:
        f.truncate(256 * MB)
    subprocess.run(["mke2fs", "-q", "-F", file], check=True)
    subprocess.run(["mount", "-o", "loop", file, disk], check=True)
    try:
        env = {**NO_POOL, "CAY_MANAGER_DISK_RESERVE": "48m"}
        with serving(disk, env=env) as daemon:
            daemon.call("POST", "/api/cay/volumes", {"name": "data", "size": "400m"})
            box = box_with(daemon, "data:/data")
            script = ("i=0; while dd if=/dev/urandom of=/data/$i bs=64k count=16 conv=fsync 2>/dev/null; "
                      "do sha256sum /data/$i >>/data/sums || break; i=$((i + 1)); done; echo $i")
            code, text = daemon.exec(box, "sh", "-c", script)
            assert code == 0 and int(text.split()[-1]) > 10, text
            fs = os.statvfs(disk)
            assert fs.f_bavail * fs.f_frsize > 0
            daemon.call("POST", f"/api/cay/sandbox/{box}/stop?grace=0")
            daemon.call("POST", f"/api/cay/sandbox/{box}/start")
            count = int(text.split()[-1])
            checked = f"head -n {count} /data/sums | sha256sum -c --quiet"
            assert daemon.exec(box, "sh", "-c", checked) == (0, "")
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


# ---- those that were made before ----

def add_old(daemon, name, owner):
    """A volume as versions without sizes made them, with all that a volume may hold."""
    ident = os.urandom(8).hex()
    store = daemon.state / "volumes"
    store.mkdir(exist_ok=True)
    top = store / ident
    (top / "sub/deep").mkdir(parents=True)
    (top / "file").write_text("kept\n")
    (top / "disk").write_text("not a file system")
    (top / "sub/link").symlink_to("/etc/passwd")
    os.mkfifo(top / "sub/pipe")
    with open(top / "sub/deep/holes", "wb") as f:
        f.truncate(200 * MB)
        f.seek(100 * MB)
        f.write(b"middle")
    os.setxattr(top / "file", "user.note", b"mine")
    for path in (top, *top.rglob("*")):
        os.chown(path, IMAGE_IDS_FIRST, IMAGE_IDS_FIRST, follow_symlinks=False)
    os.chown(top / "file", IMAGE_IDS_FIRST + 7, IMAGE_IDS_FIRST + 8)
    (top / "file").chmod(0o644)
    os.utime(top / "file", (1, 2))
    with contextlib.closing(sqlite3.connect(daemon.state / "daemon" / "cay.db")) as db:
        db.execute("INSERT INTO volume (id, owner, name, created_ms) VALUES (?, ?, ?, 1)",
                   (ident, owner, name))
        db.commit()
    return top


LOOK = ("cd /data; stat -c '%n %u:%g %a %Y' file; cat file; readlink sub/link; test -p sub/pipe; "
        "stat -c %s sub/deep/holes; tail -c +104857601 sub/deep/holes | head -c 6; cat disk")
SEEN = (0, "file 7:8 644 2\nkept\n/etc/passwd\n209715200\nmiddlenot a file system")


@pytest.fixture
def before(folder):
    """A daemon with two volumes without a limit, one of them of a key with a disk limit."""
    with serving_tcp(folder, env=NO_POOL) as daemon:
        key = make_key(daemon, "bound", maxDisk="256m")
        owner = next(k["id"] for k in daemon.call("GET", "/api/cay/api-keys") if k["name"] == "bound")
        daemon.stop()
        daemon.old = add_old(daemon, "old", "")
        daemon.mine = add_old(daemon, "mine", owner)
        daemon.start()
        yield daemon, key


def test_a_folder_of_before_keeps_working(before):
    daemon, key = before
    assert daemon.call("GET", "/api/cay/volumes/old")["size"] == 0
    assert b"no limit" in support.cay("volume", "ls", "--state-dir", daemon.state).stdout
    box = box_with(daemon, "old:/data")
    assert daemon.exec(box, "sh", "-c", LOOK) == SEEN
    assert daemon.exec(box, "sh", "-c", "echo more >/data/more")[0] == 0
    with pytest.raises(Refused) as refused:
        box_with(key, "mine:/data")
    assert refused.value.status == 501 and "disk limit" in refused.value.error["message"]
    assert "cay volume resize" in refused.value.error["remedy"]


def test_a_folder_of_before_gets_a_size(before):
    daemon, key = before
    box = box_with(daemon, "old:/data")
    used = daemon.ask("POST", "/api/cay/volumes/old/resize", {"size": "64m"})
    assert used.status == 409 and "cay stop" in used.json()["remedy"]
    daemon.call("POST", f"/api/cay/sandbox/{box}/stop?grace=0")
    assert daemon.call("POST", "/api/cay/volumes/old/resize", {"size": "64m"})["size"] == 64 * MB
    assert not daemon.old.exists()
    daemon.call("POST", f"/api/cay/sandbox/{box}/start")
    assert daemon.exec(box, "sh", "-c", LOOK) == SEEN
    note = "import os; print(os.getxattr('/data/file', 'user.note').decode())"
    assert daemon.exec(box, "python3", "-c", note) == (0, "mine\n")
    assert fill(daemon, box, "/data/big", 100)[0] != 0
    # of a key, within its budget
    assert key.ask("POST", "/api/cay/volumes/mine/resize", {"size": "512m"}).status == 429
    assert daemon.mine.exists()
    assert key.call("POST", "/api/cay/volumes/mine/resize", {"size": "64m"})["size"] == 64 * MB
    box = box_with(key, "mine:/data")
    assert daemon.exec(box, "sh", "-c", LOOK) == SEEN


def test_what_does_not_fit_stays_a_folder(before):
    daemon, _ = before
    with open(daemon.old / "big", "wb") as f:
        f.write(os.urandom(40 * MB))
    refused = daemon.ask("POST", "/api/cay/volumes/old/resize", {"size": "32m"})
    assert refused.status == 507 and "does not fit" in refused.json()["message"], refused.text
    assert daemon.call("GET", "/api/cay/volumes/old")["size"] == 0
    assert [f for f in (daemon.state / "volume-disks").iterdir() if f.name[:5] != ".temp"] == []
    box = box_with(daemon, "old:/data")
    assert daemon.exec(box, "sh", "-c", LOOK) == SEEN


def test_verbs(daemon):
    def verb(*words):
        return support.cay("volume", words[0], "--state-dir", daemon.state, *words[1:])
    try:
        assert verb("create", "--size", "32m", "small").returncode == 0
        assert b"32.0 MB" in verb("ls").stdout and b"32.0 MB" in verb("info", "small").stdout
        assert verb("resize", "small", "48m").stdout == b"small\n"
        assert b"48.0 MB" in verb("info", "small").stdout
        assert verb("resize", "small", "16m").returncode == 4
        assert verb("resize", "small", "much").returncode == 2
        assert verb("resize", "nothing", "1g").returncode == 3
    finally:
        verb("rm", "small")
