"""What our own processes may do, as the kernel shows it: ids, capabilities, roots, filters, files."""

import contextlib
import http.client
import json
import os
import socket
import subprocess
import threading
from pathlib import Path

import pytest

import daemons
import support
from launching import until
from networks import PUBLIC, net, world  # noqa: F401
from support import folder  # noqa: F401
from test_network_daemon import Daemon as NetworkDaemon

FIRST, BLOCK = 0x7ffe0000, 16
FRONT, EGRESS, NAMES = range(3)

as_root = pytest.mark.skipif(bool(support.USER), reason="an ordinary user's processes have his id")


def status_of(pid):
    return dict(line.split(":\t", 1) for line in
                Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)


def id_of(pid):
    status = status_of(pid)
    ids = set(status["Uid"].split()) | set(status["Gid"].split())
    assert len(ids) == 1 and status["Groups"].strip() == "", status
    return int(ids.pop())


@pytest.fixture
def daemon(folder):  # noqa: F811
    made = daemons.Daemon(folder)
    try:
        yield made
    finally:
        made.clean_up()


def with_proxy(daemon):
    """Makes a sandbox whose network needs the proxy; the processes by role."""
    daemon.create(network="allow=a.com")
    assert until(lambda: daemon.child("cay-egress"))
    assert until(lambda: support.USER or daemon.child("cay-names"))
    return daemon.front(), daemon.child("cay-egress"), daemon.child("cay-names")


# ---- ids ----

@as_root
def test_each_role_has_its_own_id(daemon):
    processes = with_proxy(daemon)
    base = id_of(daemon.front())
    assert base % BLOCK == FIRST % BLOCK and FIRST <= base < FIRST + (1 << 16)
    assert [id_of(pid) - base for pid in processes] == [FRONT, EGRESS, NAMES]


@as_root
def test_two_daemons_share_no_id(daemon, folder):  # noqa: F811
    other = folder / "other"
    other.mkdir()
    os.chmod(other, 0o755)
    second = daemons.Daemon(other)
    try:
        assert id_of(second.front()) // BLOCK != id_of(daemon.front()) // BLOCK
    finally:
        second.clean_up()


@as_root
def test_a_daemon_keeps_its_ids(daemon):
    before = id_of(daemon.front())
    daemon.kill_child("cayd-front")
    assert until(daemon.serves) and id_of(daemon.front()) == before
    daemon.stop()
    daemon.start()
    assert id_of(daemon.front()) == before


@as_root
def test_a_copy_of_a_state_folder_gets_other_ids(daemon, folder):  # noqa: F811
    """The copy's files belong to the first daemon's ids; the second daemon takes them over."""
    box = daemon.create()["id"]
    daemon.stop()
    copy = folder / "copy"
    copy.mkdir()
    os.chmod(copy, 0o755)
    subprocess.run(["cp", "-a", daemon.state / ".", copy / "state"], check=True)
    inside = copy / "state" / "daemon"
    outside = folder / "outside"
    outside.write_text("root's")
    (inside / "link").symlink_to(outside)
    former = id_of_path(inside)
    os.chown(inside / "link", former, former, follow_symlinks=False)
    os.link(outside, inside / "hard")
    daemon.start()
    second = daemons.Daemon(copy)
    try:
        mine = id_of(second.front())
        assert mine // BLOCK != id_of(daemon.front()) // BLOCK
        assert id_of_path(inside / "cay.db") == id_of_path(inside) == mine
        assert id_of_path(inside / "link") == mine and id_of_path(outside) == 0
        assert second.call("GET", f"/api/cay/sandbox/{box}")["id"] == box
        assert daemon.call("GET", f"/api/cay/sandbox/{box}")["id"] == box
    finally:
        second.clean_up()


def id_of_path(path):
    return os.lstat(path).st_uid


# ---- addresses ----

def text_at(pid):
    """Where the program, its libraries, heap and stack begin."""
    firsts = {}
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        words = line.split(maxsplit=5)
        firsts.setdefault(words[5] if len(words) == 6 else "", words[0].split("-")[0])
    return {name: at for name, at in firsts.items()
            if name.endswith(("/cayd", ".so", "[heap]", "[stack]")) or ".so." in name}


def assert_all_differ(*pids):
    seen = [text_at(pid) for pid in pids]
    for i, one in enumerate(seen):
        assert one["[stack]"] and any(name.endswith("/cayd") for name in one), one
        for other in seen[:i]:
            same = {name for name in one if one[name] == other.get(name)}
            assert not same, same


def test_every_front_has_its_own_addresses(daemon):
    """Who learns addresses from a crash learns nothing about the next front."""
    first = daemon.front()
    before = text_at(first)
    assert_all_differ(daemon.process.pid, first)
    daemon.kill_child("cayd-front")
    assert until(daemon.serves)
    assert not set(before.items()) & set(text_at(daemon.front()).items())
    assert_all_differ(daemon.process.pid, daemon.front())
    before = text_at(daemon.front())
    supervisor = text_at(daemon.process.pid)
    assert daemon.spawn("--replace").wait(60) == 0
    assert until(daemon.serves)
    assert not set(before.items()) & set(text_at(daemon.front()).items())
    assert not set(supervisor.items()) & set(text_at(daemon.process.pid).items())
    assert_all_differ(daemon.process.pid, daemon.front())


def test_the_front_does_not_get_the_environment(folder):  # noqa: F811
    daemon = daemons.Daemon(folder, env={"SECRET_OF_ROOT": "hunter2"})
    try:
        assert b"hunter2" in Path(f"/proc/{daemon.process.pid}/environ").read_bytes()
        assert b"hunter2" not in Path(f"/proc/{daemon.front()}/environ").read_bytes()
    finally:
        daemon.clean_up()


# ---- what the proxy reaches ----

def as_id(number, *command):
    """What a process without capabilities and with this id can do."""
    return subprocess.run(["setpriv", "--reuid", str(number), "--regid", str(number),
                           "--clear-groups", "--bounding-set", "-all", "--inh-caps", "-all",
                           *command], capture_output=True)


CONNECT = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"


@as_root
def test_the_proxys_ids_open_nothing_of_the_daemon(daemon):
    front, *others = with_proxy(daemon)
    database, door = daemon.state / "daemon/cay.db", next((daemon.state / "daemon/run").iterdir())
    assert as_id(id_of(front), "cat", database).returncode == 0, "as it is for the front"
    for pid in others:
        assert as_id(id_of(pid), "cat", database).returncode != 0
        assert as_id(id_of(pid), "python3", "-c", CONNECT, door).returncode != 0
        assert as_id(id_of(pid), "ls", daemon.state).returncode != 0


@as_root
def test_the_proxy_has_an_empty_root(daemon):
    _, proxy, names = with_proxy(daemon)
    root = Path(f"/proc/{proxy}/root")
    assert sorted(p.name for p in root.iterdir()) == ["etc"]
    assert {p.name for p in (root / "etc").iterdir()} <= {"hosts", "resolv.conf", "new"}
    assert os.readlink(f"/proc/{proxy}/cwd") == os.readlink(f"/proc/{names}/cwd") == "/"
    mounts = Path(f"/proc/{proxy}/mountinfo").read_text().splitlines()
    assert len(mounts) == 1 and " - tmpfs " in mounts[0], mounts


def test_the_proxy_has_no_rights(daemon):
    for pid in filter(None, with_proxy(daemon)):
        status = status_of(pid)
        caps = ["CapInh", "CapPrm", "CapEff", "CapAmb"] + ([] if support.USER else ["CapBnd"])
        assert all(int(status[name], 16) == 0 for name in caps), status
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"


# ---- name resolution ----

def test_changed_name_servers_are_used(folder):  # noqa: F811
    """The proxy cannot open the host's files: their copies follow."""
    with world(name_server="11.0.0.9") as made:  # where nobody is
        daemon = NetworkDaemon(made, folder)
        try:
            box = daemon.create(network="allow=a.com")["id"]
            assert not daemon.reaches(box)
            made.resolve_by(PUBLIC)
            assert until(lambda: daemon.reaches(box), 60), daemon.log.read_text()
        finally:
            daemon.clean_up()


# ---- what the front reaches ----

def has_landlock():
    walls = json.loads(support.ok(support.cay("doctor", "-o", "json")))["walls"]
    return any(wall["name"] == "Landlock" and wall["ok"] for wall in walls)


def test_the_front_opens_nothing_outside_its_folder(daemon, folder):  # noqa: F811
    """Its database is moved to where its id may read and write, and a link leads there."""
    if not has_landlock():
        pytest.skip("this kernel has no Landlock")
    inside = daemon.state / "daemon" / "cay.db"
    owner = inside.stat()
    daemon.stop()
    outside = folder / "outside"
    outside.mkdir()
    os.chown(outside, owner.st_uid, owner.st_gid)
    for name in ("cay.db", "cay.db-wal", "cay.db-shm"):
        if inside.with_name(name).exists():
            inside.with_name(name).rename(outside / name)
    inside.symlink_to(outside / "cay.db")
    if not support.USER:
        assert as_id(owner.st_uid, "cat", inside).returncode == 0
    failed = daemon.spawn(stderr=subprocess.PIPE)
    assert failed.wait(60) != 0
    said = failed.stderr.read().decode()
    assert "cay.db" in said and "Permission denied" in said, said
    inside.unlink()
    for path in outside.iterdir():
        path.rename(inside.with_name(path.name))
    daemon.start()


# ---- the tables of SECURITY.md ----

CAPABILITIES = """CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP
    LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE
    SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME
    SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP""".split()


def table(first):
    """The rows of the table of SECURITY.md whose first two columns are called so."""
    text = (Path(__file__).parents[2] / "SECURITY.md").read_text().splitlines()
    at = next(i for i, line in enumerate(text) if line.startswith("| " + first))
    names = [word.strip() for word in text[at].strip("|").split("|")]
    rows = []
    for line in text[at + 2:]:
        if not line.startswith("|"):
            return rows
        rows.append(dict(zip(names, (word.strip(" `") for word in line.strip("|").split("|")))))


def capability_sets():
    mine = int(status_of("self")["CapBnd"], 16)  # in a container root may have fewer
    sets = {row["set"]: mine & sum(1 << CAPABILITIES.index(name)
                                   for name in row["capabilities"].split())
            for row in table("set | capabilities")}
    return {"none": 0, **sets}


def ask_quietly(daemon, body):
    with contextlib.suppress(daemons.Refused, OSError, http.client.HTTPException):
        daemon.call("POST", "/api/cay/sandbox", body)


def serves_engine(pid):
    """And is not the one that looks for an image."""
    with contextlib.suppress(OSError):
        return b"\0keep" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


@contextlib.contextmanager
def all_running(daemon, names):
    """A process of each name, while all of them run."""
    with_proxy(daemon)
    found = {"cayd": daemon.process.pid}

    def look():
        found.update({name: daemon.child(name) for name in names if name != "cayd"})
        return all(found.values()) and serves_engine(found["cay-docker"])

    with socket.create_server(("127.0.0.1", 0)) as silent:  # a registry that never answers
        wishes = {"engine": "docker", "image": "no-such-image"}, \
            {"image": f"127.0.0.1:{silent.getsockname()[1]}/a/b:1"}
        asking = [threading.Thread(target=ask_quietly, args=(daemon, wish)) for wish in wishes]
        for thread in asking:
            thread.start()
        assert until(look), (found, daemon.log.read_text())
        yield found
    for thread in asking:
        thread.join(60)


def root_of(pid):
    entries = set(os.listdir(f"/proc/{pid}/root"))
    return "host" if "proc" in entries else "names" if entries == {"etc"} else "none"


def assert_row(row, pid, front, sets, state):
    wanted = sets[row["effective"]]  # which one that has just been started has not given up yet
    assert until(lambda: int(status_of(pid)["CapEff"], 16) == wanted), (row, status_of(pid))
    status = status_of(pid)
    number = 0 if row["id"] == "root" else front + int((row["id"].split("+") + ["0"])[1])
    assert {int(n) for n in (status["Uid"] + " " + status["Gid"]).split()} == {number}, row
    assert int(status["CapBnd"], 16) == sets[row["bounding"]], (row, status["CapBnd"])
    assert int(status["CapPrm"], 16) | sets[row["bounding"]] == sets[row["bounding"]], row
    assert int(status["CapInh"], 16) == int(status["CapAmb"], 16) == 0, row
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", row
    if "Seccomp_filters" in status:  # from Linux 5.10 on; those that the tests run with count too
        filters = int(status_of("self")["Seccomp_filters"]) + int(row["filters"])
        assert int(status["Seccomp_filters"]) == filters, row
    assert root_of(pid) in row["root"].split(" or "), row
    work = {"/": "/", str(state / "daemon"): "daemon"}[os.readlink(f"/proc/{pid}/cwd")]
    assert work in [word.strip("` ") for word in row["work folder"].split(" or ")], row


@as_root
def test_the_tables_of_security_md_are_true(daemon):
    rows, sets = table("process | id"), capability_sets()
    with all_running(daemon, [row["process"] for row in rows]):
        front = id_of(daemon.front())

        def is_true(row):
            name = row["process"]
            pid = daemon.process.pid if name == "cayd" else daemon.child(name)
            with contextlib.suppress(OSError):  # it has ended: another one does as well
                assert_row(row, pid, front, sets, daemon.state)
                return True
            return False

        for row in rows:
            assert until(lambda row=row: is_true(row)), row


def test_the_unit_allows_what_the_table_says():
    unit = (Path(__file__).parents[2] / "packaging/cayd.service.in").read_text()
    line = next(line for line in unit.splitlines() if line.startswith("CapabilityBoundingSet="))
    words = {word.removeprefix("CAP_") for word in line.split("=")[1].split()}
    table_has = next(row for row in table("set | capabilities") if row["set"] == "daemon")
    assert words == set(table_has["capabilities"].split())


# ---- inherited descriptors ----

class Leaky(daemons.Daemon):
    """Started by somebody who forgot to close three files."""

    def spawn(self, *options, **more):
        who, env = support.as_user()
        script = 'exec 9<"$0" 10<"$0" 251<"$0"; exec "$@"'
        return subprocess.Popen(["bash", "-c", script, self.state.parent / "leak", daemons.CAYD,
                                 "--state-dir", self.state, *options], env={**env, **self.env},
                                stdin=subprocess.DEVNULL, **who, **more)


def test_inherited_descriptors_are_closed(folder):  # noqa: F811
    (folder / "leak").write_text("x")
    os.chmod(folder / "leak", 0o644)
    daemon = Leaky(folder)
    try:
        with_proxy(daemon)
        names = ("cayd-front", "cay-launcher", "cay-egress", "cay-names")
        for pid in filter(None, [daemon.process.pid, *map(daemon.child, names)]):
            links = {os.readlink(f) for f in Path(f"/proc/{pid}/fd").iterdir()}
            assert not any(link.endswith("/leak") for link in links), (pid, links)
    finally:
        daemon.clean_up()
