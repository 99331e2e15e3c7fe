"""Section A of the checklist: what a sandbox sees and reaches of the host and of its neighbours."""

import ctypes
import os
import re
import socket
import subprocess
import uuid
from pathlib import Path

import support
from inside import box, need_wall, probe, status, walls
from support import as_root_only

MOUNTS = {"/", "/dev", "/dev/pts", "/dev/shm", "/proc", "/usr", "/usr/local", "/usr/src",
          "/usr/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}


def test_a1_host_processes_are_neither_seen_nor_signalled():
    """Only the sandbox's own processes are in its /proc, and a signal to everybody, or to the pid
    of a host process, reaches no process outside and not the init inside."""
    with subprocess.Popen(["sleep", "300"]) as canary:
        seen = probe("""
            canary = int(sys.argv[1])
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            report["pids"] = {p: read(f"/proc/{p}/comm").strip() for p in os.listdir("/proc")
                              if p.isdigit()}
            report["one"] = attempt(os.kill, canary, 0)
            report["all"] = attempt(os.kill, -1, signal.SIGTERM)
            report["procfs"] = opens(f"/proc/{canary}/status")
            """, args=[canary.pid])
        alive = canary.poll() is None
        canary.kill()
    assert alive
    assert seen["pids"]["1"] == "cay-init"
    assert sorted(seen["pids"].values()) in (["cay-init", "python3"],
                                             ["cay-init", "cay-op", "python3"])
    assert seen["one"] == "ESRCH" and seen["procfs"] == "ENOENT"


def test_a2_the_host_tree_is_out_of_reach(folder):
    """No way out of the root: not by chroot and "..", not by the links of /proc, not by new mounts;
    and a file of the host is found nowhere."""
    (folder / "canary").write_text("host")
    seen = probe("""
        folder = sys.argv[1]
        here = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
        root = os.fstat(here)
        os.mkdir("/tmp/jail")
        report["chroot"] = attempt(os.chroot, "/tmp/jail")
        report["up"] = []
        for start in (here, os.open("/proc/self/root", os.O_RDONLY), os.open("/tmp", os.O_RDONLY)):
            os.fchdir(start)
            for _ in range(40):
                os.chdir("..")
            at = os.stat(".")
            report["up"].append([at.st_dev, at.st_ino] == [root.st_dev, root.st_ino])
            report["up"].append(os.getcwd() == "/")
        report["pivot"] = syscall(155, b".", b".")
        report["mount"] = libc.mount(b"x", b"/tmp", b"tmpfs", 0, None)
        report["umount"] = libc.umount2(b"/", 2)
        report["new mount api"] = [syscall(n, -1, b"", 0, 0, 0) for n in range(428, 434)]
        report["handle"] = syscall(304, -1, b"", 0)
        report["links"] = [opens(f"/proc/1/{link}/") for link in ("root", "cwd", "task/1/root")]
        report["canary"] = [opens(way + folder + "/canary") for way in
                            ("", "/proc/self/root", "/proc/self/cwd", "/dev/fd/%d" % here,
                             "/../../..", "/tmp/..")]
        """, args=[folder])
    assert all(seen["up"]), seen["up"]
    assert set(seen["canary"]) == {"ENOENT"}
    assert seen["chroot"] == "EPERM" and seen["mount"] == seen["umount"] == -1
    assert {seen["pivot"], seen["handle"], *seen["new mount api"]} == {"ENOSYS"}
    assert set(seen["links"]) == {"EACCES"}


def test_a2_the_mount_table_holds_what_we_mounted_and_no_more():
    """Each mount is one of ours, without set-user-id, and without devices but in /dev."""
    lines = support.ok(support.sh("cat /proc/self/mountinfo")).splitlines()
    for line in lines:
        target, flags = line.split()[4], line.split()[5].split(",")
        assert target in MOUNTS or target.startswith(("/proc/", "/dev/")), line
        assert "nosuid" in flags, line
        assert "nodev" in flags or target.startswith("/dev"), line
        assert "ro" in flags or target not in ("/usr", "/dev"), line


def test_a3_no_socket_of_the_host_or_a_neighbour():
    """Abstract unix sockets and loopback ports belong to one sandbox each; there is no interface
    but loopback."""
    name = f"hostile-{uuid.uuid4()}"
    connect = """
        name, port = sys.argv[1], int(sys.argv[2])
        def dial(family, address):
            with socket.socket(family) as s:
                s.settimeout(2)
                s.connect(address)
        report["abstract"] = attempt(dial, socket.AF_UNIX, "\\0" + name)
        report["port"] = attempt(dial, socket.AF_INET, ("127.0.0.1", port))
        report["outside"] = attempt(dial, socket.AF_INET, ("192.0.2.1", 80))
        report["names"] = [n for _, n in socket.if_nameindex()]
        """
    listen = """
        unix, inet = socket.socket(socket.AF_UNIX), socket.socket()
        unix.bind("\\0" + sys.argv[1]); unix.listen()
        inet.bind(("127.0.0.1", 0)); inet.listen()
        report["port"] = inet.getsockname()[1]
        """
    refused = {"abstract": "ECONNREFUSED", "port": "ECONNREFUSED", "outside": "ENETUNREACH",
               "names": ["lo"]}
    with socket.socket(socket.AF_UNIX) as unix, socket.socket() as inet:
        unix.bind("\0" + name)
        unix.listen()
        inet.bind(("127.0.0.1", 0))
        inet.listen()
        assert probe(connect, args=[name, inet.getsockname()[1]]) == refused
    with box(listen, args=[name]) as other:
        port = other.report["port"]
        assert probe(connect, args=[name, port]) == refused
        with socket.socket(socket.AF_UNIX) as unix:
            assert unix.connect_ex("\0" + name) != 0
        with socket.socket() as inet:
            assert inet.connect_ex(("127.0.0.1", port)) != 0


def test_a3_no_other_kind_of_socket():
    """Packet, virtual-machine, crypto and raw sockets, and netlink beyond routes, do not exist."""
    seen = probe("""
        kinds = {"packet": (17, 3, 0), "vsock": (40, 1, 0), "alg": (38, 5, 0), "raw": (2, 3, 1),
                 "raw6": (10, 3, 58), "bluetooth": (31, 3, 0), "can": (29, 3, 1),
                 "netfilter": (16, 3, 12), "audit": (16, 3, 9), "uevent": (16, 3, 15),
                 "generic": (16, 3, 16), "sctp": (2, 1, 132), "tipc": (30, 1, 0), "xdp": (44, 3, 0),
                 "rds": (21, 5, 0), "hidden": (17 | 1 << 32, 3, 0)}
        report.update({name: syscall(41, *kind) for name, kind in kinds.items()})
        """)
    assert set(seen.values()) == {"EAFNOSUPPORT"}, seen


IPC = """
    key = int(sys.argv[1])
    report["shm"] = syscall(29, key, 0, 0)
    report["sem"] = syscall(64, key, 0, 0)
    report["msg"] = syscall(68, key, 0)
    report["mq"] = syscall(240, b"hostile-%d" % key, os.O_RDONLY, 0, None)
    report["file"] = opens("/dev/shm/hostile-%d" % key)
    report["table"] = [len(read("/proc/sysvipc/" + n).splitlines()) for n in ("shm", "sem", "msg")]
    """
MAKE_IPC = """
    key = int(sys.argv[1])
    assert syscall(29, key, 4096, 0o1666) == "ok" and syscall(64, key, 1, 0o1666) == "ok"
    assert syscall(68, key, 0o1666) == "ok"
    syscall(240, b"hostile-%d" % key, os.O_RDONLY | os.O_CREAT, 0o666, None)  # Landlock refuses it
    open("/dev/shm/hostile-%d" % key, "w").close()
    """


def test_a4_no_ipc_object_of_the_host_or_a_neighbour():
    """Shared memory, semaphores and message queues, SysV and POSIX, belong to one sandbox each."""
    key = int.from_bytes(os.urandom(3), "big") + 1
    absent = {**dict.fromkeys(("shm", "sem", "msg", "mq", "file"), "ENOENT"), "table": [1, 1, 1]}
    libc = ctypes.CDLL(None, use_errno=True)
    shared = libc.shmget(key, 4096, 0o1666)
    file = Path(f"/dev/shm/hostile-{key}")
    try:
        file.touch()
        assert probe(IPC, args=[key]) == absent
    finally:
        libc.shmctl(shared, 0, None)
        file.unlink()
    with box(MAKE_IPC, args=[key]):
        assert probe(IPC, args=[key]) == absent
        assert libc.shmget(key, 0, 0) == libc.semget(key, 0, 0) == libc.msgget(key, 0) == -1
        assert not file.exists()


IDENTITY = """
    report["hostname"] = socket.gethostname()
    report["boot"] = read("/proc/sys/kernel/random/boot_id").strip()
    report["machine"] = read("/etc/machine-id").strip()
    report["cmdline"] = read("/proc/cmdline")
    report["set"] = syscall(170, b"x", 1)
    report["domain"] = syscall(171, b"x", 1)
    report["sys"] = os.listdir("/sys") if os.path.exists("/sys") else []
    """


def test_a5_each_sandbox_has_an_identity_of_its_own():
    """Host name, boot id and machine id are neither the host's nor a neighbour's, and the host's
    command line and hardware (/sys) do not show."""
    boxes = [probe(IDENTITY) for _ in range(2)]
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    machine = Path("/etc/machine-id")
    host = {"hostname": socket.gethostname(), "boot": boot,
            "machine": machine.read_text().strip() if machine.exists() else ""}
    for key, value in host.items():
        assert len({value, boxes[0][key], boxes[1][key]}) == 3, key
    uuid_text = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    for one in boxes:
        assert re.fullmatch(uuid_text, one["boot"]), one["boot"]
        assert re.fullmatch("[0-9a-f]{32}", one["machine"]), one["machine"]
        assert one["cmdline"] == "" and one["sys"] == []
        assert one["set"] == one["domain"] == "EPERM"


def test_a5_neighbours_do_not_show():
    """Their disks, journals, locks and interrupts are the host's business."""
    seen = probe("""
        report["files"] = [read("/proc/" + name) for name in ("locks", "partitions", "softirqs")]
        report["fs"] = os.listdir("/proc/fs")
        """)
    assert seen == {"files": ["", "", ""], "fs": []}


def test_a6_the_cgroup_path_does_not_show():
    """Every hierarchy shows "/", and the cgroup file system is nowhere."""
    seen = probe("""
        report["self"], report["init"] = read("/proc/self/cgroup"), read("/proc/1/cgroup")
        report["mounts"] = read("/proc/self/mounts")
        report["agent"] = opens("/sys/fs/cgroup/release_agent", os.O_WRONLY)
        """)
    for line in seen["self"].splitlines() + seen["init"].splitlines():
        # Without a group of its own the sandbox is in its maker's, which is its root.
        assert line.endswith(":/"), line
    assert "cgroup" not in seen["mounts"]
    assert seen["agent"] == "ENOENT"


def id_ranges(text):
    return [tuple(map(int, line.split())) for line in text.splitlines()]


def test_a7_root_inside_is_nobody_outside():
    """The id range is unprivileged, never holds the host's root, and is not shared by two
    sandboxes that run at once."""
    script = 'report["uid"], report["gid"] = read("/proc/self/uid_map"), read("/proc/self/gid_map")'
    with box(script) as one, box(script) as two:
        for report in (one.report, two.report):
            for inside, outside, count in id_ranges(report["uid"]) + id_ranges(report["gid"]):
                assert outside > 0
        if walls()["own id range"]:
            first, second = id_ranges(one.report["uid"])[0], id_ranges(two.report["uid"])[0]
            assert first[2] == second[2] == 65536
            assert abs(first[1] - second[1]) >= 65536
            assert min(first[1], second[1]) >= 0x70000000


@as_root_only
def test_a7_files_of_the_host_root_stay_closed(folder):
    """In a writable volume of an ordinary user, what belongs to the host's root is neither read
    nor changed nor given away by root inside."""
    secret = folder / "secret"
    secret.write_text("host")
    secret.chmod(0o600)
    os.chown(folder, 1234, 1234)
    seen = probe("""
        report["read"] = opens("/v/secret")
        report["chmod"] = attempt(os.chmod, "/v/secret", 0o666)
        report["chown"] = attempt(os.chown, "/v/secret", 0, 0)
        report["give"] = attempt(os.chown, "/v", 5, 5)
        open("/v/mine", "w").close()
        """, "-v", f"{folder}:/v")
    assert seen.pop("read") == "EACCES"
    assert set(seen.values()) <= {"EPERM", "EOVERFLOW"}, seen  # ids without a name outside
    assert secret.read_text() == "host" and secret.stat().st_uid == 0
    assert (folder / "mine").stat().st_uid == 1234


def test_a8_no_namespaces_inside():
    """Neither unshare nor clone makes a namespace of any kind, clone3 does not exist, none can be
    joined; and the limit of user namespaces is zero, should the filter ever let one pass."""
    seen = probe("""
        flags = {"user": 1 << 28, "mount": 1 << 17, "cgroup": 1 << 25, "uts": 1 << 26,
                 "ipc": 1 << 27, "pid": 1 << 29, "net": 1 << 30, "time": 1 << 7}
        report["unshare"] = [syscall(272, f) for f in flags.values()]
        report["clone"] = [syscall(56, f | signal.SIGCHLD, 0, 0, 0, 0)
                           for n, f in flags.items() if n != "time"]
        report["clone3"] = syscall(435, bytes(88), 88)
        ns = os.open("/proc/self/ns/user", os.O_RDONLY)
        report["setns"] = [syscall(308, ns, f) for f in (0, 1 << 28)]
        limit = "/proc/sys/user/max_user_namespaces"
        report["limit"], report["raise"] = read(limit).strip(), opens(limit, os.O_WRONLY)
        """)
    assert set(seen["unshare"] + seen["clone"] + seen["setns"]) == {"EPERM"}, seen
    assert seen["clone3"] == "ENOSYS"
    assert seen["limit"] == "0" and seen["raise"] in ("EACCES", "EPERM", "EROFS")


@as_root_only
def test_a9_no_groups_come_along():
    """Groups of the caller, such as docker or disk, are gone, and none can be taken."""
    script = """
        report["groups"] = os.getgroups()
        report["take"] = [attempt(os.setgroups, [1]), attempt(os.setgroups, []),
                          attempt(os.setgid, 5), attempt(os.setuid, 5)]
        """
    with box(script, extra_groups=[4, 6, 27]) as one:
        assert one.report["groups"] == []
        assert set(one.report["take"]) == {"EPERM"}
        for pid in one.members():
            assert status(pid)["Groups"] == ""


def test_a9_a_user_of_the_sandbox_has_only_its_groups():
    """--user gives the ids asked for, and nothing besides."""
    need_wall("id range")
    seen = probe('report["ids"] = [os.getresuid(), os.getresgid(), os.getgroups()]', "--user",
                 "1000:1001")
    assert seen["ids"] == [[1000] * 3, [1001] * 3, []]
