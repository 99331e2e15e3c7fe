"""The layers of a sandbox's walls, left out one at a time, and what that opens: attacks whose success is
harmless to see, in a sandbox whose other walls stand. usage: layers.py prints the table of docs/layers.md."""

import contextlib
import ctypes
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import support  # noqa: E402
from inside import code  # noqa: E402

PROGRAM = support.HELPERS / "cay_without"
DOCUMENT = support.ROOT / "docs" / "layers.md"
PIDS = 32

LAYERS = ["", "capabilities", "cgroup-namespace", "descriptors", "ids", "ipc", "landlock", "masks",
          "network", "nodev", "pids", "rlimits", "ro", "seccomp",
          # where one layer stands behind another
          "capabilities,seccomp", "landlock,network", "landlock,seccomp", "rlimits,seccomp"]

# Each says "open", or by which error it was stopped. What they reach is not used.
ATTACKS = {
    "a port of the host": """
        with socket.socket() as s:
            s.connect(("127.0.0.1", port))
        """,
    "an abstract socket of the host": """
        with socket.socket(socket.AF_UNIX) as s:
            s.connect("\\0" + name)
        """,
    "shared memory of the host": "call(29, key, 0, 0)",
    "the host's name of the control group": """
        if all(line.endswith(":/") for line in read("/proc/self/cgroup").split()):
            raise OSError(errno.ENOENT, "")
        """,
    "kernel settings, for writing": 'os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))',
    "locks and disks of others in /proc": """
        if read("/proc/locks") + read("/proc/partitions") == "":
            raise OSError(errno.ENOENT, "")
        """,
    "a file of the host's /usr, for writing": 'os.close(os.open("/usr/lib/os-release", os.O_WRONLY))',
    "a device of a volume": 'os.close(os.open("/v/node", os.O_RDONLY))',
    "a new device": 'os.mknod("/tmp/node", stat.S_IFCHR | 0o600, os.makedev(1, 3))',
    "another owner for a file": """
        open("/tmp/owned", "w").close()
        os.chown("/tmp/owned", 7, 7)
        """,
    "a descriptor of the caller": "os.fstat(leak)",
    "a user namespace": "call(272, 1 << 28)",
    "a mount": 'if libc.mount(b"x", b"/tmp", b"tmpfs", 0, None) < 0: raise OSError(ctypes.get_errno(), "")',
    "another root": 'os.mkdir("/tmp/root"); os.chroot("/tmp/root")',
    "a raw socket": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close()",
    "the kernel's keyrings": "call(250, 0, -3, 0)",
    "a trace of cay-init": "call(101, 0x4206, 1, 0, 0)",
    "core dumps": 'call(160, 4, struct.pack("<QQ", 4096, 4096))',
    "a message queue": 'call(240, b"hostile", os.O_RDWR | os.O_CREAT, 0o600, None)',
    "more processes than allowed": """
        children = []
        try:
            for _ in range(2 * limit):
                child = os.fork()
                if child == 0:
                    time.sleep(60)
                    os._exit(0)
                children.append(child)
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
        """,
}

BEGIN = """
port, name, key, leak, limit = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
def call(number, *args):
    plain = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    if libc.syscall(ctypes.c_long(number), *plain) < 0:
        raise OSError(ctypes.get_errno(), "")
"""


def script():
    text = BEGIN
    for number, (title, body) in enumerate(ATTACKS.items()):
        lines = [line[8:] if body.startswith("\n") else line for line in body.strip("\n").splitlines()]
        text += f"def attack{number}():\n" + "".join(f"    {line}\n" for line in lines)
        text += f"report[{title!r}] = attempt(attack{number})\n"
    return text


class Host:
    """What the attacks look for on the host, all of it made for them."""

    def __init__(self):
        self.undo = contextlib.ExitStack()
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.folder = Path(self.undo.enter_context(tempfile.TemporaryDirectory(prefix="layers-")))
        self.folder.chmod(0o755)
        os.mknod(self.folder / "node", 0o20666, os.makedev(1, 12))  # a number that no driver has
        (self.folder / "node").chmod(0o666)
        self.port = self.undo.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
        self.name = f"layers-{os.getpid()}"
        self.unix = self.undo.enter_context(socket.socket(socket.AF_UNIX))
        self.unix.bind("\0" + self.name)
        self.unix.listen(64)
        self.key = int.from_bytes(os.urandom(3), "big") + 1
        shared = self.libc.shmget(self.key, 4096, 0o1666)
        self.undo.callback(self.libc.shmctl, shared, 0, None)
        self.leak = os.open("/", os.O_RDONLY)
        self.undo.callback(os.close, self.leak)

    def attack(self, without):
        """{attack: "ok" or the error} in a fresh sandbox without these layers."""
        _, env = support.as_user()
        words = [PROGRAM, "run", "--no-daemon", "--tier", "basic", "--pids", PIDS, "--timeout", 60,
                 "--env", "PYTHONDONTWRITEBYTECODE=1", "-v", f"{self.folder}:/v:ro", "--", *code(script()), self.port.getsockname()[1],
                 self.name, self.key, self.leak, PIDS]
        done = subprocess.run(list(map(str, words)), env={**env, "CAY_TEST_WITHOUT": without},
                              pass_fds=[self.leak], capture_output=True, timeout=120,
                              stdin=subprocess.DEVNULL)
        assert done.returncode == 0, (without, done.stderr.decode())
        return json.loads(done.stdout)


def is_open(attack, outcome):
    """A device that no driver has was reached if the kernel has looked for the driver."""
    return outcome == "ok" or (attack == "a device of a volume" and outcome == "ENXIO")


def opened(outcomes):
    return [attack for attack in ATTACKS if is_open(attack, outcomes[attack])]


def rows(host):
    """(layers, what opens, {attack: by what else it is stopped}) for each."""
    normal = host.attack("")
    for without in LAYERS:
        outcomes = host.attack(without) if without else normal
        changed = {a: outcomes[a] for a in ATTACKS
                   if outcomes[a] != normal[a] and not is_open(a, outcomes[a])}
        yield without, opened(outcomes), changed


def write_row(without, opens, changed):
    title = " and ".join(f"`{name}`" for name in without.split(",")) if without else "nothing"
    behind = "; ".join(f"{a} ({error})" for a, error in changed.items())
    return f"| {title} | {'; '.join(opens) or 'nothing'} | {behind} |"


def main():
    host = Host()
    with host.undo:
        for row in rows(host):
            print(write_row(*row))


if __name__ == "__main__":
    main()
