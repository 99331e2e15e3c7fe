"""Section D of the checklist: devices, terminals, descriptors, the environment, and what of its
caller's state reaches a sandbox (H20)."""

import contextlib
import ctypes
import fcntl
import json
import os
import pty
import resource
import select
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

import support
from inside import box, code, probe, status
from support import as_root_only, needs_ids

NODES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9),
         "tty": (5, 0)}
LINKS = {"fd", "stdin", "stdout", "stderr", "ptmx"}
F_GET_SEALS = 1034


def test_d1_only_the_listed_devices_exist():
    """/dev holds six harmless nodes, and nothing can be added, changed or replaced there."""
    seen = probe("""
        report["nodes"], report["others"] = {}, []
        for e in os.scandir("/dev"):
            st = e.stat(follow_symlinks=False)
            if stat.S_ISCHR(st.st_mode):
                report["nodes"][e.name] = (os.major(st.st_rdev), os.minor(st.st_rdev))
            else:
                report["others"].append(e.name)
        report["pts"] = os.listdir("/dev/pts")
        report["change"] = [attempt(os.unlink, "/dev/null"), attempt(os.mkdir, "/dev/new"),
                            attempt(os.rename, "/dev/null", "/dev/x"),
                            attempt(os.chmod, "/dev/null", 0o777),
                            opens("/dev/new", os.O_WRONLY | os.O_CREAT)]
        """)
    assert {name: tuple(number) for name, number in seen["nodes"].items()} == NODES
    assert set(seen["others"]) == LINKS | {"pts", "shm"}
    assert seen["pts"] == ["ptmx"]
    assert set(seen["change"]) <= {"EROFS", "EPERM", "EACCES"}, seen


def test_d2_no_device_node_can_be_made():
    """Memory, disk, kvm, fuse, the console, and overlayfs' own 0:0: refused in every folder that
    can be written."""
    seen = probe("""
        kinds = [("c", 1, 1), ("c", 1, 2), ("b", 8, 0), ("b", 254, 0), ("b", 7, 0), ("c", 10, 232),
                 ("c", 10, 229), ("c", 5, 1), ("c", 4, 64), ("c", 0, 0), ("c", 1, 3)]
        modes = {"c": stat.S_IFCHR, "b": stat.S_IFBLK}
        for folder in ("/tmp", "/workspace", "/dev", "/dev/shm", "/usr/local", "/root"):
            for kind, major, minor in kinds:
                path = f"{folder}/node-{kind}-{major}-{minor}"
                number = os.makedev(major, minor)
                report[path] = attempt(os.mknod, path, modes[kind] | 0o666, number)
        """)
    assert set(seen.values()) == {"EPERM"}, seen


@as_root_only
def test_d2_device_nodes_of_a_volume_are_dead(folder):
    """A node that the host has in a volume cannot be opened through it."""
    os.mknod(folder / "zero", 0o20666, os.makedev(1, 5))
    os.mknod(folder / "disk", 0o60666, os.makedev(7, 200))
    for option in ("", ":ro"):
        seen = probe('report["open"] = [opens("/v/zero"), opens("/v/disk")]', "-v",
                     f"{folder}:/v{option}")
        assert seen["open"] == ["EACCES", "EACCES"]


TERMINAL = """
    import pty, termios
    leader, follower = pty.openpty()
    for name, fd in (("own", follower), ("input", 0)):
        for request in (termios.TIOCSTI, 0x541C, termios.TIOCSETD):
            for high in (0, 1 << 32, 7 << 40):
                report[f"{name} {request:x} {high:x}"] = syscall(16, fd, request | high, b"x")
    """


def test_d3_nothing_types_into_a_terminal():
    """TIOCSTI, TIOCLINUX and line disciplines are refused, also with bits that the kernel drops."""
    seen = probe(TERMINAL)
    assert set(seen.values()) == {"ENOTTY"}, seen
    assert support.sh("exec 3</dev/tty").returncode != 0


def test_d3_a_terminal_is_the_sandbox_s_own():
    """With -t the command gets a terminal of its own instance, not the caller's; it cannot type
    into either."""
    leader, follower = pty.openpty()
    script = code(TERMINAL + """
    report["name"] = os.ttyname(0)
    report["pts"] = sorted(os.listdir("/dev/pts"))
    """)
    who, env = support.as_user()
    support.need_cay()
    with subprocess.Popen([support.CAY, "run", *support.TIER, "-t", "--", *script], stdin=follower,
                          stdout=follower, stderr=follower, env=env, start_new_session=True,
                          **who) as process:
        os.close(follower)
        text = b""
        with contextlib.suppress(OSError):  # EIO is the end
            while select.select([leader], [], [], 60)[0]:
                text += os.read(leader, 65536)
        process.wait(60)
    os.close(leader)
    seen = json.loads(text[text.index(b"{"):])
    assert (seen.pop("name"), seen.pop("pts")) == ("/dev/pts/0", ["0", "1", "ptmx"])
    assert set(seen.values()) == {"ENOTTY"}, seen


DESCRIPTORS = """
    report["fds"] = sorted(int(n) for n in os.listdir("/proc/self/fd"))[:-1]
    report["links"] = [os.readlink(f"/proc/self/fd/{n}") for n in report["fds"]]
    report["cwd"] = os.getcwd()
    """


def test_d4_leaked_descriptors_do_not_reach_inside(folder):
    """Descriptors of the host's root folder and of a cgroup that the caller forgot to close, and
    its working folder, are in no process of the sandbox: seen from inside and from the host."""
    leaked = [os.open(path, os.O_RDONLY) for path in ("/", "/etc", "/proc", folder)]
    try:
        with box(DESCRIPTORS, pass_fds=leaked, cwd="/") as one:
            assert one.report["fds"] == [0, 1, 2]
            assert all(link.startswith("pipe:") for link in one.report["links"])
            assert one.report["cwd"] == "/workspace"
            for pid in one.members():
                entry = Path(f"/proc/{pid}")
                links = [os.readlink(fd) for fd in (entry / "fd").iterdir()]
                odd = [link for link in links if link != "/dev/null" and
                       not link.startswith(("socket:", "pipe:", "anon_inode:"))]
                assert not odd, (status(pid)["Name"], odd)
                assert os.readlink(entry / "cwd") in ("/", "/workspace")
    finally:
        for fd in leaked:
            os.close(fd)


def test_d4_a_working_folder_that_is_gone_is_no_way_out():
    """A caller in a deleted folder, and work folders that climb or go through /proc, end up inside
    or are refused."""
    gone = tempfile.mkdtemp(prefix="hostile-")
    script = f"cd {gone} && rmdir {gone} && exec \"$@\""
    who, env = support.as_user()
    support.need_cay()
    support.own(gone)
    command = [support.CAY, "run", *support.TIER, "--", "pwd"]
    done = subprocess.run(["sh", "-c", script, "sh", *command], capture_output=True, env=env,
                          timeout=60, **who)
    assert support.ok(done) == "/workspace\n"
    for folder in ("/proc/self/fd/3", "/proc/1/cwd", "/proc/self/fd/4/..", "/../../.."):
        done = support.run("-w", folder, "--", "sh", "-c", "pwd; ls /workspace >/dev/null")
        assert done.returncode != 0 or done.stdout == b"/\n", (folder, done)


@as_root_only
def test_d5_the_init_cannot_be_replaced():
    """cay-init runs from sealed memory: not even the host's root could write what runs there."""
    with box("") as one:
        init = [pid for pid in one.members() if status(pid)["Name"] == "cay-init"]
        assert len(init) == 1
        assert os.readlink(f"/proc/{init[0]}/exe").startswith("/memfd:cay-init")
        fd = os.open(f"/proc/{init[0]}/exe", os.O_RDONLY)
        seals = fcntl.fcntl(fd, F_GET_SEALS)
        os.close(fd)
        assert seals & 0xf == 0xf  # seal, shrink, grow, write


def test_d6_the_environment_is_built_not_inherited():
    """Only what the sandbox defines and the request asks for; nothing of the caller, whatever he
    has."""
    hostile = {"SECRET_TOKEN": "hunter2", "LD_LIBRARY_PATH": "/nonexistent", "PYTHONPATH": "/tmp",
               "BASH_ENV": "/tmp/x", "IFS": "x", "ENV": "/tmp/x",
               "GCONV_PATH": "/tmp", "TMPDIR": "/nonexistent", "TERM": "\x1b[31m"}
    out = support.ok(support.run("-e", "ASKED=yes", "--", "env", "-0", env=hostile))
    names = {entry.split("=")[0] for entry in out.split("\0") if entry}
    assert names == {"PATH", "LANG", "HOSTNAME", "HOME", "ASKED"}
    with box("", env=hostile) as one:
        for pid in one.members():
            assert b"hunter2" not in Path(f"/proc/{pid}/environ").read_bytes()


ESCAPE = "\x1b]52;c;ZXZpbA\x07\x1b[31m\x9bm"
MESSAGES = {
    "command": ["--", f"no{ESCAPE}such"],
    "path": ["--", f"/no/{ESCAPE}such"],
    "workdir": ["-w", f"/proc/{ESCAPE}", "--", "true"],
    "relative workdir": ["-w", f"x{ESCAPE}", "--", "true"],
    "user": ["--user", f"u{ESCAPE}", "--", "true"],
    "group": ["--user", f"0:{ESCAPE}", "--", "true"],
    "volume": ["-v", f"/no/{ESCAPE}:/x", "--", "true"],
    "target": ["-v", f"/usr:/proc/{ESCAPE}", "--", "true"],
    "environment": ["-e", f"{ESCAPE}", "--", "true"],
    "image": ["--image", f"i{ESCAPE}", "--", "true"],
    "network": ["--network", f"n{ESCAPE}", "--", "true"],
    "engine": ["--engine", f"e{ESCAPE}", "--", "true"],
    "label": ["--label", f"l{ESCAPE}", "--", "true"],
    "name": ["--name", f"n{ESCAPE}", "--", "true"],
    "state folder": ["--state-dir", f"s{ESCAPE}", "--", "true"],
    "configuration": ["--config", f"/no/{ESCAPE}", "--", "true"],
    "memory": ["--memory", f"{ESCAPE}", "--", "true"],
    "option": [f"--{ESCAPE}", "--", "true"],
}


@pytest.mark.parametrize("case", MESSAGES)
def test_d7_messages_escape_what_drives_a_terminal(case):
    """What an agent put into an argument cannot drive the terminal of who reads the message."""
    done = support.run(*MESSAGES[case])
    assert done.returncode in (125, 126, 127) and done.stderr.startswith(b"cay: "), done
    text = done.stderr.decode(errors="replace")
    assert not [c for c in text if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160], text


def test_d7_json_escapes_output():
    """In the JSON result the output of a command is data: no control character, no broken UTF-8."""
    done = support.run("-o", "json", "--", "printf", r"\033]52;c;eA==\007\377\300\200\200\000end")
    assert not [b for b in done.stdout if b < 32 and b != 10]
    assert json.loads(done.stdout.decode())["stdout"].endswith("end")


@pytest.mark.parametrize("user", ["0", pytest.param("1000", marks=needs_ids)])
def test_d8_streams_can_be_opened_by_name(user):
    """/dev/stdin, stdout and stderr belong to the command's user, not to cay-init."""
    script = "echo a >/dev/stdout; echo b >/dev/stderr; cat /dev/stdin"
    done = support.sh(script, "--user", user, input=b"c\n")
    assert (support.ok(done), done.stderr) == ("a\nc\n", b"b\n")


STATE = """
    report["umask"] = os.umask(0)
    report["blocked"] = [status()[n] for n in ("SigBlk", "SigIgn")]
    report["personality"] = read("/proc/self/personality").strip()
    names = {n: getattr(resource, n) for n in dir(resource) if n.startswith("RLIMIT_")}
    report["limits"] = {n: resource.getrlimit(v) for n, v in names.items()}
    report["affinity"] = len(os.sched_getaffinity(0))
    """


def hostile_state():
    """Everything that a process hands down to its children, as odd as it can be."""
    os.umask(0o777)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR2, signal.SIGALRM,
                                              signal.SIGCHLD})
    ctypes.CDLL(None).personality(0x0040000)  # no address randomisation


def test_h20_odd_state_of_the_caller_does_not_reach_inside():
    """Mask, ignored and blocked signals and personality of the caller are reset, and sandboxes work
    as ever."""
    with box(STATE, preexec_fn=hostile_state) as one:
        assert one.report["umask"] == 0o22
        blocked, ignored = (int(mask, 16) for mask in one.report["blocked"])
        python = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)  # ignores these itself
        assert blocked == 0 and ignored & ~python == 0
        assert int(one.report["personality"], 16) == 0


LOW = {"RLIMIT_NOFILE": 64, "RLIMIT_FSIZE": 1 << 30, "RLIMIT_STACK": 1 << 20,
       "RLIMIT_DATA": 1 << 30, "RLIMIT_AS": 4 << 30, "RLIMIT_CPU": 100, "RLIMIT_SIGPENDING": 10,
       "RLIMIT_MEMLOCK": 0, "RLIMIT_MSGQUEUE": 0}


def may_raise_limits():
    capability = 24  # CAP_SYS_RESOURCE
    return bool(int(status("self")["CapEff"], 16) & 1 << capability) and not support.USER


@pytest.mark.parametrize("kind", ["soft", "hard"])
def test_h20_low_limits_of_the_caller_do_not_reach_inside(kind):
    """A sandbox has the same resource limits, whoever started it."""
    if kind == "hard" and not may_raise_limits():
        pytest.skip("who may not raise a hard limit hands it down")
    if support.is_sanitized():
        pytest.skip("a sanitizer needs terabytes of address space")

    def lower():
        for name, value in LOW.items():
            number = getattr(resource, name)
            hard = value if kind == "hard" else resource.getrlimit(number)[1]
            resource.setrlimit(number, (value, hard))

    with box(STATE) as usual, box(STATE, preexec_fn=lower) as low:
        assert low.report["limits"] == usual.report["limits"]


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)], ids=str)
def test_h20_closed_standard_streams(closed):
    """Started without standard streams, no other descriptor takes their place. Output that would be lost is
    an error."""
    support.need_cay()
    who, env = support.as_user()

    def close():
        for fd in closed:
            os.close(fd)

    done = subprocess.run([support.CAY, "run", *support.TIER, "--", *code(DESCRIPTORS)],
                          stdin=subprocess.DEVNULL, capture_output=True, env=env, timeout=60,
                          preexec_fn=close, **who)
    assert done.returncode == (125 if 1 in closed else 0), done.stderr
    if 1 not in closed:
        assert json.loads(done.stdout)["fds"] == [0, 1, 2]
