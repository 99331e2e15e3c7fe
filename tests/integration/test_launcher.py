"""The launcher: sandboxes from slots that are used again. Nothing of one may reach the next, they are
as walled as those of `cay run`, and whatever happens to the launcher, nothing is left."""

import contextlib
import ctypes
import errno
import json
import os
import re
import signal
import socket
import struct
import subprocess
from pathlib import Path

import launching
import pytest
import support
from launching import LAUNCHER, is_alive, launch, listening, python, sh, until

LIBC = ctypes.CDLL(None, use_errno=True)


# ---- runs ----

def test_200_runs_leave_nothing(clean_host):
    runs = sh("echo $RUN", "-n", 200, "-j", 4)
    assert [int(text) for text in runs.outputs()] == list(range(200))
    assert len({a["id"] for a in runs.answers("ended").values()}) == 200


def test_64_at_once(folder, clean_host):
    with listening(folder, count=64) as boxes:
        maps = [boxes.exec("cat", "/proc/self/uid_map", run=run)[1] for run in range(64)]
    assert len({text.split()[1] for text in maps}) == 64


def test_a_client_that_reads_no_answer_for_long(folder, clean_host):
    """The helper asks for all of them first."""
    with listening(folder, count=600) as boxes:
        assert boxes.exec("echo", "alive", run=599)[:2] == (0, "alive\n")


def test_exit_codes_and_streams():
    runs = sh("echo out; echo err >&2; exit $((RUN + 3))", "-n", 2)
    for run in (0, 1):
        result = runs.results[run]
        assert (result["exit"], result["stdout"], result["stderr"]) == (run + 3, "out\n", "err\n")


def test_a_command_that_does_not_exist():
    runs = launch("no-such-program", options=["-n", 2])
    assert all("no-such-program" in result["broken"] for result in runs.results.values())
    assert len(runs.answers("ended")) == 2


def test_what_the_host_cannot_give_is_refused_and_the_next_one_served():
    runs = sh("echo fine", "-n", 2, "--memory", "1000t,64m")
    assert "more than this host has" in runs.answers("failed")[0]["message"]
    assert runs.output(1) == "fine\n"


# ---- walls ----

LOOK = r'''
import json, os, re, stat
def read(path):
    try:
        with open(path, "rb") as f:
            return f.read(65536).decode(errors="replace")
    except OSError as e:
        return f"error {e.errno}"
status = dict(line.split(":", 1) for line in read("/proc/self/status").splitlines())
look = {key: status[key].strip() for key in ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff",
        "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "NSpid")}
look["maps"] = [read(f"/proc/self/{name}_map").split()[::2] for name in ("uid", "gid")]
mounts = []
for line in read("/proc/self/mountinfo").splitlines():
    left, right = line.split(" - ")
    root, point, options = left.split()[3:6]
    kind, source, more = right.split()
    if root in ("/void", "/none"):  # what hides files: a launcher's sandboxes share it
        more = ""
    mounts.append([point, root, options, kind, source, re.sub(r"gid=\d+", "gid=tty", more)])
look["mounts"] = sorted(mounts)
def form(path):
    try:
        s = os.stat(path)
        return [stat.filemode(s.st_mode), s.st_rdev, s.st_uid]
    except OSError as e:
        return e.errno
look["proc"] = {name: form(f"/proc/{name}") for name in os.listdir("/proc") if not name.isdigit()}
look["masked"] = {name: len(read(f"/proc/{name}")) for name in ("kallsyms", "keys", "cmdline",
                  "interrupts", "timer_list", "modules", "slabinfo", "swaps")}
look["dev"] = {name: form(f"/dev/{name}") for name in sorted(os.listdir("/dev"))
               if not name.startswith("std")}
look["root"] = {name: form(f"/{name}") for name in sorted(os.listdir("/"))}
look["fds"] = sorted(os.listdir("/proc/self/fd"))
look["init"] = [read("/proc/1/comm"), form("/proc/1/mem"), read("/proc/1/environ")]
look["limits"] = read("/proc/self/limits")
look["cgroup"] = read("/proc/self/cgroup")
look["host"] = len(os.uname().nodename) == 16 and read("/etc/hostname").strip() == os.uname().nodename
look["net"] = [line.split(":")[0].strip() for line in read("/proc/net/dev").splitlines()[2:]]
look["sockets"] = read("/proc/net/unix").count("\n")
look["boot"] = read("/proc/sys/kernel/random/boot_id") != ""
look["oom"] = read("/proc/self/oom_score_adj")
look["umask"] = status["Umask"].strip()
print(json.dumps(look))
'''


@pytest.fixture(scope="module")
def looks():
    """The same look around in a sandbox of `cay run` and in two of a launcher."""
    launching.need_launcher()
    ours = ["--memory", "512m", "--pids", "256"]
    plain = json.loads(support.ok(support.run(*ours, "--", "python3", "-c", LOOK)))
    return plain, [json.loads(text) for text in python(LOOK, "-n", 2, *ours).outputs()]


@pytest.mark.parametrize("what", [
    "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs",
    "Seccomp", "NSpid", "maps", "mounts", "proc", "masked", "dev", "root", "fds", "init", "limits",
    "cgroup", "host", "net", "sockets", "boot", "oom", "umask"])
def test_walls_are_those_of_cay_run(looks, what):
    plain, launched = looks
    for look in launched:
        assert look[what] == plain[what]


def test_walls_are_up(looks):
    for look in looks[1]:
        assert look["CapEff"] == look["CapBnd"] == "0" * 16
        assert look["Seccomp"] == "2" and look["NoNewPrivs"] == "1"
        assert look["net"] == ["lo"] and look["host"]
        assert look["fds"] == ["0", "1", "2", "3"]  # the last one is listdir's own


def test_every_namespace_is_its_own(folder):
    kinds = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
    with listening(folder, count=2) as boxes:
        for kind in kinds:
            names = {os.readlink(f"/proc/{pid}/ns/{kind}")
                     for pid in ("self", boxes.pid(0), boxes.pid(1))}
            assert len(names) == 3, (kind, names)


# ---- escapes ----

def in_mounts_of(pid, function):
    """What the function returns when it is called as the host's root, in the mount namespace of a
    process: what an attacker could do who had got every right back. Its argument enters it again."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        answer = "nothing"
        try:
            ns = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
            enter = lambda: LIBC.setns(ns, 0) == 0 or os._exit(1)
            enter()
            answer = function(enter)
        except BaseException as e:
            answer = repr(e)
        finally:
            os.write(write_end, json.dumps(answer).encode())
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as answers:
        answer = json.loads(answers.read())
    os.waitpid(child, 0)
    return answer


def climb(_enter):
    """The classic: a root below the working folder, then upwards."""
    os.mkdir("/tmp/deeper")
    os.chdir("/")
    os.chroot("/tmp/deeper")
    for _ in range(64):
        os.chdir("..")
    os.chroot(".")
    return sorted(os.listdir("/"))


def uncover(enter):
    """Takes the sandbox's tree away and looks at what it lay on: what is there, in it and above it,
    and what becomes of an attempt to write."""
    if LIBC.umount2(b"/", 2) != 0:
        return os.strerror(ctypes.get_errno())
    enter()  # where the tree was is the root of the namespace now
    found = os.listdir("/")
    for _ in range(64):
        os.chdir("..")
    found += os.listdir(".")
    try:
        os.mkdir("/made")
        return [found, "writable"]
    except OSError as e:
        return [found, errno.errorcode[e.errno]]


def test_climbing_out_of_the_root_leads_nowhere(folder):
    with listening(folder) as boxes:
        _, inside, _ = boxes.exec("ls", "-A", "/")
        found = in_mounts_of(boxes.pid(), climb)
        assert found == sorted(inside.split()), found
        assert os.path.basename(folder) not in found


def test_nothing_lies_below_the_root(folder):
    with listening(folder) as boxes:
        assert in_mounts_of(boxes.pid(), uncover) == [[], "EROFS"]


def test_chroot_and_mounts_are_refused_inside():
    script = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def refused(call, *args):
    value = call(*args)
    return value != 0 and errno.errorcode[ctypes.get_errno()] in ("EPERM", "ENOSYS", "EACCES")
os.mkdir("/tmp/x")
assert refused(libc.chroot, b"/tmp/x")
assert refused(libc.umount2, b"/proc", 2) and refused(libc.umount2, b"/", 2)
assert refused(libc.mount, b"none", b"/tmp/x", b"tmpfs", 0, None)
assert refused(libc.unshare, 0x10000000) and refused(libc.setns, 0, 0)
assert refused(libc.sethostname, b"x", 1)
for n in (155, 428, 429, 430, 432, 442):
    assert refused(libc.syscall, n, 0, 0, 0, 0, 0), n
for path in ("root", "cwd", "fd/3", "fd/4", "exe", "mem", "maps", "environ"):
    try:
        os.open(f"/proc/1/{path}", os.O_RDONLY)
        raise AssertionError(path)
    except PermissionError:
        pass
print("held")
"""
    assert python(script).output() == "held\n"


# ---- a slot and its next user ----

TRACES = '''
import ctypes, glob, json, os, socket
run = os.environ["RUN"]
places = ["/tmp", "/var/tmp", "/workspace", "/usr/local", "/usr/local/bin", "/root", "/dev/shm",
          "/run", "/etc", "/home", "/opt", "/srv"]
found = [p for place in places for p in glob.glob(f"{place}/trace*")]
found += [line for line in open("/proc/net/unix").read().splitlines()[1:]]
for name in ("shm", "sem", "msg"):
    found += open(f"/proc/sysvipc/{name}").read().splitlines()[1:]
found += [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid())]
written = 0
for place in places:
    try:
        open(f"{place}/trace-{run}", "w").write("x" * 4096)
        written += 1
    except OSError:
        pass
libc = ctypes.CDLL(None, use_errno=True)
made = [libc.shmget(4711, 4096, 0o1666), libc.semget(4711, 1, 0o1666), libc.msgget(4711, 0o1666)]
gone = [libc.shmctl(made[0], 0, None), libc.semctl(made[1], 0, 0), libc.msgctl(made[2], 0, None)]
if os.fork() == 0:  # stays behind
    s = socket.socket(socket.AF_UNIX)
    s.bind("\\0trace")
    s.listen()
    signal_free = os.setsid()
    os.close(1)
    os.close(2)
    import time
    time.sleep(100)
base = open("/proc/self/uid_map").read().split()[1]
print(json.dumps({"found": found, "base": base, "written": written, "made": made, "gone": gone}),
      flush=True)
os._exit(0)
'''


def test_nothing_of_a_sandbox_reaches_the_next_in_its_slot(clean_host):
    looks = [json.loads(text) for text in python(TRACES, "-n", 12, "--ready", 1).outputs()]
    assert len({look["base"] for look in looks}) < 12, "no slot was used again: this says nothing"
    for look in looks:
        assert look["found"] == [] and look["gone"] == [0, 0, 0]
        assert look["written"] >= 8


@pytest.mark.parametrize("kind", ["shm", "sem", "msg"])
def test_a_slot_with_ipc_objects_left_is_not_used_again(kind, clean_host):
    makes = {"shm": "libc.shmget(4711, 4096, 0o1666)", "sem": "libc.semget(4711, 1, 0o1666)",
             "msg": "libc.msgget(4711, 0o1666)"}
    script = f"""
import ctypes
libc = ctypes.CDLL(None)
before = len(open("/proc/sysvipc/{kind}").read().splitlines())
print(open("/proc/self/uid_map").read().split()[1], before, {makes[kind]} >= 0)
"""
    looks = [text.split() for text in python(script, "-n", 4, "--ready", 1).outputs()]
    assert [(lines, made) for _, lines, made in looks] == [("1", "True")] * 4
    assert len({base for base, _, _ in looks}) == 4


TIME_WAIT = '''
import socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
other, _ = server.accept()
client.close()  # the first to close keeps the connection in TIME_WAIT
other.recv(1)
other.close()
states = [line.split()[3] for line in open("/proc/net/tcp").read().splitlines()[1:]]
print(open("/proc/self/uid_map").read().split()[1], states.count("06"))
'''


def test_a_slot_with_connections_left_is_not_used_again(clean_host):
    looks = [text.split() for text in python(TIME_WAIT, "-n", 5, "--ready", 1).outputs()]
    assert [waiting for _, waiting in looks] == ["1"] * 5
    assert len({base for base, _ in looks}) == 5


def are_slots_used_again():
    looks = sh("cat /proc/self/uid_map", "-n", 12, "--ready", 1).outputs()
    return len({text.split()[1] for text in looks}) < 12


def test_a_slot_without_connections_is_used_again():
    assert are_slots_used_again()


def test_a_slot_is_used_again_while_the_host_has_connections_without_an_owner():
    """The kernel counts these for all namespaces together."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        other, _ = server.accept()
        client.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                client.send(bytes(65536))
        client.close()  # stays until the other side has read all of it
        assert " orphan 0 " not in Path("/proc/net/sockstat").read_text()
        assert are_slots_used_again()
        other.close()


def test_hostname_is_new_each_time():
    names = sh("hostname; cat /etc/hostname", "-n", 6, "--ready", 1).outputs()
    assert all(name.split()[0] == name.split()[1] for name in names) and len(set(names)) == 6


def test_volumes_stay_with_the_sandbox_that_asked(folder):
    (folder / "given").write_text("from the host")
    runs = sh("cat /data/given && echo $RUN > /data/made-$RUN && cat /data/made-$RUN", "-n", 3,
              "--volume", f"{folder}:/data")
    assert runs.outputs() == [f"from the host{run}\n" for run in range(3)]
    assert {p.name for p in folder.iterdir()} == {"given", "made-0", "made-1", "made-2"}
    assert (folder / "made-1").stat().st_uid == folder.stat().st_uid


def test_read_only_volumes(folder):
    (folder / "given").write_text("text")
    runs = sh("cat /data/given; echo x > /data/new", "-n", 2, "--volume", f"{folder}:/data:ro")
    for result in runs.results.values():
        assert result["stdout"] == "text" and "Read-only" in result["stderr"]
    assert [p.name for p in folder.iterdir()] == ["given"]


def test_a_volume_stays_free_of_set_id_files(folder):
    """Also after sandboxes without a volume, which may set these bits."""
    script = "touch /data/f && chmod 755 /data/f && chmod u+s /data/f"
    for result in sh(script, "-n", 3, "--ready", 1, "--volume", f"{folder}:/data").results.values():
        assert result["exit"] == 1 and "not permitted" in result["stderr"]
    assert (folder / "f").stat().st_mode & 0o7777 == 0o755
    assert sh("touch /tmp/f && chmod u+s /tmp/f && stat -c %a /tmp/f").output() == "4644\n"


def test_a_volume_of_one_run_is_not_there_in_the_next(folder):
    with listening(folder, "--volume", f"{folder}:/data") as boxes:
        assert "box-0" in boxes.exec("ls", "/data")[1]
    assert sh("ls -d /data 2>&1 || true").output().count("No such file") == 1


def test_a_read_only_root():
    runs = sh("touch /etc/x 2>/dev/null || touch /root/x 2>/dev/null || echo kept; touch /tmp/x",
              "-n", 2, "--read-only")
    assert runs.outputs() == ["kept\n", "kept\n"]


# ---- limits ----

HOG = "import os; data = bytearray({size} << 20); print(len(data) >> 20)"


def test_memory_limits_are_those_of_the_lease(clean_host):
    runs = python(HOG.format(size=128), "-n", 6, "--ready", 1, "--memory", "64m,256m")
    ended = runs.answers("ended")
    for run in range(6):
        result = runs.results[run]
        if run % 2 == 0:
            assert result.get("exit") != 0 and ended[run]["oom_killed"], (result, ended[run])
        else:
            assert result.get("exit") == 0 and not ended[run]["oom_killed"], (result, ended[run])


def test_oom_is_reported_for_the_run_that_it_struck():
    script = "import os\nif os.environ['RUN'] in '25': data = bytearray(200 << 20)\nprint('lived')"
    runs = python(script, "-n", 8, "--ready", 1, "--memory", "64m")
    killed = {run for run, a in runs.answers("ended").items() if a["oom_killed"]}
    assert killed == {2, 5}
    assert {run for run, r in runs.results.items() if r.get("stdout") == "lived\n"} == \
        set(range(8)) - killed


def test_process_limit_is_that_of_the_lease():
    script = """
import os, time
made = 0
try:
    for _ in range(100):
        if os.fork() == 0:
            time.sleep(1000)
            os._exit(0)
        made += 1
except OSError:
    pass
print(made, flush=True)
os._exit(0)
"""
    for text in python(script, "-n", 3, "--pids", 16).outputs():
        assert 10 <= int(text) <= 16


def test_disk_limit_follows_the_memory_of_the_lease():
    runs = sh("df -k / | tail -1", "-n", 4, "--ready", 1, "--memory", "64m,128m")
    sizes = [int(text.split()[1]) for text in runs.outputs()]
    assert sizes == [32 * 1024, 64 * 1024] * 2


# ---- ends ----

def test_end_kills(folder, clean_host):
    with listening(folder, count=3) as boxes:
        boxes.end(1)
        ended = boxes.next()
        assert (ended["event"], ended["run"], ended["status"]) == ("ended", 1, signal.SIGKILL)
        assert not is_alive(boxes.pid(1)) and is_alive(boxes.pid(0)) and is_alive(boxes.pid(2))
        boxes.end(1)  # gone already: nothing happens
        assert boxes.exec("echo", "alive", run=2)[:2] == (0, "alive\n")


def descriptors(pid):
    """What they are open to, of those that a launcher holds for a sandbox."""
    found = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it works meanwhile
            found.append(os.readlink(fd))
    return [text for text in found if text.startswith(("net:", "user:", "ipc:", "/sys/fs/cgroup"))
            and not text.endswith("/cay") and "/cay/tasks" not in text]


def test_a_sandbox_that_lives_long_holds_nothing_in_the_launcher(folder, clean_host):
    with listening(folder, "--ready", 0, count=4) as boxes:
        launcher = boxes.launcher()
        groups = Path(f"/proc/{boxes.pid(1)}/cgroup").read_text()
        bases = {Path(f"/proc/{boxes.pid(run)}/uid_map").read_text().split()[1] for run in range(4)}
        assert len(bases) == 4 and "/cay/" in groups
        assert until(lambda: descriptors(launcher) == [])
        assert [boxes.exec("hostname", run=run)[0] for run in range(4)] == [0] * 4
        boxes.end(1)
        ended = boxes.next()
        assert (ended["event"], ended["run"]) == ("ended", 1)
        group = re.search("/cay/([0-9a-f]+)", groups)[1]
        assert not list(Path("/sys/fs/cgroup").glob(f"*/cay/{group}")), "its slot was to be freed"
        assert boxes.exec("echo", "alive", run=2)[:2] == (0, "alive\n")


def test_an_idle_sandbox_has_one_page_of_its_own(folder):
    """Data and stack of its first process: src/init/stack.c. Whoever adds data there may have to take
    room from the stack on that page, or put what is rarely used where cold.ld puts it."""
    if b".cold" not in (support.BUILD / "cay-init").read_bytes():
        pytest.skip("its pages are ordered with musl only")
    with listening(folder, "--ready", 0) as boxes:
        rollup = Path(f"/proc/{boxes.pid()}/smaps_rollup")
        assert until(lambda: "\nAnonymous:             4 kB\n" in rollup.read_text()), rollup.read_text()


DEEP = """
import os
os.mkdir("/workspace/deep"); os.chdir("/workspace/deep")
for _ in range(1900):
    os.mkdir("a"); os.chdir("a")
"""


def test_the_stack_of_an_operation_is_deep_enough(folder):
    """A tree is walked one folder in the other, until no more of them may be open."""
    tar_out, tag_errno = 16, 34
    with listening(folder) as boxes:
        assert boxes.exec("python3", "-c", DEEP)[0] == 0
        with boxes.connect() as c:
            c.request(tar_out, ("PATH", "/workspace/deep"))
            assert c.finish()[2][tag_errno] == errno.EMFILE


def test_what_a_sandbox_that_lived_long_died_of_is_told(folder, clean_host):
    with listening(folder, "--ready", 0, "--memory", "64m") as boxes:
        assert until(lambda: descriptors(boxes.launcher()) == [])
        assert boxes.exec("python3", "-c", HOG.format(size=128))[0] != 0
        boxes.end(0)
        assert boxes.next()["oom_killed"]


def test_a_caller_that_ignores_the_end_of_children():
    """The launcher sees its sandboxes end all the same."""
    runs = sh("exit 3", "-n", 3, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert [r["exit"] for r in runs.results.values()] == [3] * 3
    assert len(runs.answers("ended")) == 3


def test_hang_up_ends_everything(folder, clean_host):
    with listening(folder, count=5) as boxes:
        boxes.exec("sh", "-c", "setsid sleep 100 >/dev/null 2>&1 &")
        launcher = boxes.launcher()
        boxes.hang_up()
        assert not is_alive(launcher)
        assert not any(is_alive(boxes.pid(run)) for run in range(5))


def test_a_killed_client_ends_everything(folder, clean_host):
    with listening(folder, count=5) as boxes:
        launcher = boxes.launcher()
        boxes.process.kill()
        assert until(lambda: not is_alive(launcher))
        assert until(lambda: not any(is_alive(boxes.pid(run)) for run in range(5)))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_killed_launcher_leaves_nothing(folder, clean_host, how):
    with listening(folder, count=5) as boxes:
        boxes.exec("sh", "-c", "setsid sleep 100 >/dev/null 2>&1 &")
        os.kill(boxes.launcher(), how)
        assert until(lambda: not any(is_alive(boxes.pid(run)) for run in range(5)))
        boxes.process.wait(60)


def test_a_launcher_killed_in_the_middle_of_starting_leaves_nothing(clean_host):
    launching.need_launcher()
    for delay in range(10):
        process = subprocess.Popen([*launching.command(["-n", 50, "-j", 8]), "--", "true"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
        line = json.loads(process.stdout.readline())
        launcher = 0
        if line.get("event") == "started":
            launcher = next(int(pid) for pid in children(process.pid) if name(pid) == "cay-launcher")
        for _ in range(delay * 2):
            process.stdout.readline()
        if launcher:
            os.kill(launcher, signal.SIGKILL)
        process.stdout.read()
        process.wait(60)


def children(pid):
    return open(f"/proc/{pid}/task/{pid}/children").read().split()


def name(pid):
    return open(f"/proc/{pid}/comm").read().strip()


# ---- requests that no client of ours sends ----

class Raw:
    """A launcher at the end of a bare socket."""

    def __init__(self, ready=1):
        launching.need_launcher()
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(60)

        def place():
            os.dup2(theirs.fileno(), 3)

        # The leak checker needs /proc, which the launcher leaves.
        self.process = subprocess.Popen([LAUNCHER, support.state_dir(), str(ready)], preexec_fn=place,
                                        pass_fds=[3], stderr=subprocess.PIPE,
                                        env={"ASAN_OPTIONS": "detect_leaks=0"})
        theirs.close()

    def ask(self, data, fds=()):
        """(event, tag) of the answer."""
        socket.send_fds(self.sock, [data], list(fds))
        event, _, tag = struct.unpack_from("<IIQ", self.sock.recv(4096))
        return event, tag

    def stop(self):
        self.sock.close()
        return self.process.wait(60), self.process.stderr.read().decode()


FAILED = 2
HEAD = struct.Struct("<IIQ")  # operation, descriptors, tag


def test_malformed_requests_are_answered(clean_host):
    raw = Raw()
    size = request_size()
    for data, tag in [
            (b"x", None), (HEAD.pack(1, 1, 77), 77), (HEAD.pack(9, 1, 78) + bytes(size - 16), 78),
            (HEAD.pack(1, 0, 79) + bytes(size - 16), 79), (HEAD.pack(1, 7, 80) + bytes(size - 16), 80),
            (HEAD.pack(2, 0, 81) + bytes(size - 15), 81), (HEAD.pack(1, 1, 82) + bytes(size - 16), 82),
            (HEAD.pack(1, 1, 83) + b"\xff" * (size - 16), 83), (os.urandom(200000), None),
            (HEAD.pack(1, 1, 84) + bytes(65744 - 16 + 1), 84)]:
        event, answered = raw.ask(data)
        assert event == FAILED
        assert tag is None or answered == tag
    assert raw.stop() == (0, "")


def test_descriptors_must_be_as_many_as_announced(clean_host):
    raw = Raw(ready=0)  # or it opens some for a sandbox of its own meanwhile
    size = request_size()
    with socket.socket(socket.AF_UNIX) as s:
        for bits, given in ((1, 0), (1, 2), (3, 1), (2, 0), (3, 5)):
            request = HEAD.pack(1, bits, bits) + bytes(size - 16)
            assert raw.ask(request, [s.fileno()] * given) == (FAILED, bits)
        open_now = len(os.listdir(f"/proc/{raw.process.pid}/fd"))
        for _ in range(50):
            assert raw.ask(HEAD.pack(1, 1, 1) + bytes(size - 16), [s.fileno()] * 3)[0] == FAILED
        assert len(os.listdir(f"/proc/{raw.process.pid}/fd")) <= open_now + 10
    assert raw.stop() == (0, "")


def request_size():
    """Of a request without mounts, as the seed of the fuzzer has it."""
    return (support.ROOT / "tests/fuzz/corpus/launcher/end").stat().st_size


def test_the_end_of_an_unknown_sandbox_is_ignored(clean_host):
    raw = Raw()
    socket.send_fds(raw.sock, [HEAD.pack(2, 0, 5) + bytes(request_size() - 16)], [])
    assert raw.ask(b"x")[0] == FAILED  # the first answer is that to the second request
    assert raw.stop() == (0, "")


@pytest.mark.parametrize("args", [[], ["/tmp"], ["/tmp", "x"], ["/tmp", "1", "2"], ["/tmp", "-1"]])
def test_usage(args):
    launching.need_launcher()
    done = subprocess.run([LAUNCHER, *args], capture_output=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 2 and done.stderr.startswith(b"usage: ")
