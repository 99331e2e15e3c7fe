"""Ordinary programs work under the sandbox's seccomp filter, and what it denies fails as programs
expect it. The filter alone, without the rest of a sandbox: a failure here is the filter's."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("CAY_BUILD", ROOT / "build"))
EXEC = BUILD / "tests" / "helpers" / "seccomp_exec"

pytestmark = pytest.mark.skipif(not EXEC.exists(), reason="seccomp_exec is not built")


def under_filter(command, cwd, *options, **kwargs):
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    env = {**os.environ, "HOME": str(cwd), "TMPDIR": str(cwd), "LC_ALL": "C"}
    return subprocess.run([EXEC, *options, *command], cwd=cwd, env=env, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, capture_output=True, **kwargs)


def check(command, cwd, expected, *options):
    done = under_filter(command, cwd, *options)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stdout}{done.stderr}"
    assert done.stdout.strip() == expected, done.stderr


PYTHON = {
    "threads": """
import threading
done = []
threads = [threading.Thread(target=done.append, args=(i,)) for i in range(50)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(done))""",
    "subprocess": """
import subprocess
p = subprocess.run(['sh', '-c', 'cat; echo 4'], input=b'', capture_output=True)
print(p.stdout.decode())""",
    "multiprocessing": """
import multiprocessing
def square(x): return x * x
if __name__ == '__main__':
    with multiprocessing.get_context('%s').Pool(4) as pool:
        print(sum(pool.map(square, range(10))))""",
    "sqlite": """
import sqlite3
db = sqlite3.connect('t.db'); db.execute('pragma journal_mode=wal'); db.execute('create table t(a)')
db.executemany('insert into t values(?)', [(i,) for i in range(100)]); db.commit()
print(db.execute('select sum(a) from t').fetchone()[0])""",
    "ssl": """
import ssl, hashlib, secrets
ssl.create_default_context(); secrets.token_bytes(32)
print(hashlib.sha256(b'').hexdigest()[:8])""",
    "sockets": """
import socket, threading
s = socket.create_server(('127.0.0.1', 0))
def serve():
    c, _ = s.accept(); c.sendall(c.recv(9)[::-1]); c.close()
threading.Thread(target=serve).start()
c = socket.create_connection(s.getsockname()); c.sendall(b'abc'); print(c.recv(9).decode())""",
    "asyncio": """
import asyncio
async def main():
    p = await asyncio.create_subprocess_exec('echo', 'x', stdout=asyncio.subprocess.PIPE)
    print((await p.communicate())[0].decode())
asyncio.run(main())""",
    "shared_memory": """
from multiprocessing import shared_memory
m = shared_memory.SharedMemory(create=True, size=4096); m.buf[0] = 7
n = shared_memory.SharedMemory(name=m.name); print(n.buf[0]); n.close(); m.close(); m.unlink()""",
    "terminal": """
import os, pty
pid, fd = pty.fork()
if pid == 0: os.execvp('tty', ['tty'])
print(os.read(fd, 99).decode().startswith('/dev/pts/')); os.waitpid(pid, 0)""",
    "fifo": """
import os
os.mkfifo('f'); print(os.path.exists('f'))""",
    "interfaces": """
import socket
print('lo' in [name for _, name in socket.if_nameindex()])""",
}
EXPECTED = {"threads": "50", "subprocess": "4", "sqlite": "4950", "ssl": "e3b0c442",
            "sockets": "cba", "asyncio": "x", "shared_memory": "7", "terminal": "True",
            "fifo": "True", "interfaces": "True"}


@pytest.mark.parametrize("case", sorted(EXPECTED))
def test_python(case, tmp_path):
    check(["python3", "-c", PYTHON[case]], tmp_path, EXPECTED[case])


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_python_multiprocessing(method, tmp_path):
    (tmp_path / "m.py").write_text(PYTHON["multiprocessing"] % method)
    check(["python3", "m.py"], tmp_path, "285")


def test_bash(tmp_path):
    script = """set -e; shopt -s lastpipe; trap 'echo end' EXIT; (sleep 0.01; exit 3) & wait $! ||
        echo $?; seq 5 | sort -r | head -1; cat <(echo sub); ulimit -n >/dev/null; umask 022
        exec 3<>/dev/null; mkdir -p a/b; cp -r a c; mv c d; find . -type d | wc -l; rm -r a d"""
    check(["bash", "-c", script], tmp_path, "3\n5\nsub\n5\nend")


def test_node(tmp_path):
    script = """
const fs = require('fs'), net = require('net');
const { execSync } = require('child_process'), { Worker } = require('worker_threads');
const thread = 'require("worker_threads").parentPort.postMessage(6 * 7)';
async function main() {
    fs.writeFileSync('a', 'x');
    const file = await fs.promises.readFile('a');
    const server = net.createServer(c => { c.end('bye'); server.close(); });
    await new Promise(done => server.listen(0, '127.0.0.1', done));
    const peer = net.connect(server.address().port, '127.0.0.1');
    const reply = await new Promise(done => peer.on('data', done));
    const worker = new Worker(thread, { eval: true });
    const sum = await new Promise(done => worker.on('message', done));
    console.log(`${file} ${reply} ${sum} ${execSync('echo hi')}`);
}
main();"""
    check(["node", "-e", script], tmp_path, "x bye 42 hi")


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_compile_and_run(compiler, tmp_path):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    (tmp_path / "t.c").write_text("""
        #include <pthread.h>
        #include <stdio.h>
        static void *say(void *p) { puts(p); return p; }
        int main(void) {
            pthread_t t;
            pthread_create(&t, 0, say, "made");
            return pthread_join(t, 0);
        }
        """)
    check(["sh", "-c", f"{compiler} -O2 -g -pthread -o t t.c && ./t"], tmp_path, "made")


def test_git(tmp_path):
    script = """set -e; git init -q r; cd r; git config user.email a@b; git config user.name n
        echo 1 > f; git add f; git commit -q -m one; git gc -q; git clone -q . ../s
        git -C ../s log --format=%s"""
    check(["sh", "-c", script], tmp_path, "one")


def test_perl(tmp_path):
    script = """use Socket; socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) or die; pipe(R, W);
        if (!fork) { syswrite A, "hi"; exit } wait; sysread B, $x, 2; print "$x ", `echo 1`"""
    check(["perl", "-e", script], tmp_path, "hi 1")


def test_tar(tmp_path):
    script = """set -e; mkdir d; echo x > d/f; mkfifo d/p; ln -s f d/l; tar cz d > t.tgz; rm -r d
        tar xzf t.tgz; cat d/l"""
    check(["sh", "-c", script], tmp_path, "x")


def test_tmux(tmp_path):
    script = """set -e
        tmux -S ./s -f /dev/null new-session -d -x 80 -y 24 'echo out > o; sleep 0.1'
        while [ ! -s o ]; do sleep 0.05; done; cat o; tmux -S ./s kill-server 2>/dev/null || true"""
    check(["sh", "-c", script], tmp_path, "out")


def test_terminal_programs(tmp_path):
    """Modes, size, job control and a second pseudo terminal, as shells and editors use them."""
    script = """set -m; stty -echo -icanon; stty sane; stty rows 40 cols 100; stty size
        sleep 0.01 & fg >/dev/null; sh -c 'stty -a' | grep -c 'rows 40'"""
    (tmp_path / "s.sh").write_text(script)
    done = under_filter(["script", "-qec", "bash s.sh", "/dev/null"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["40", "100", "1"], done.stdout


def test_java_interfaces(tmp_path):
    (tmp_path / "T.java").write_text("""
        import java.net.*;
        public class T {
            public static void main(String[] args) throws Exception {
                NetworkInterface lo = NetworkInterface.getByName("lo");
                ServerSocket s = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
                Socket c = new Socket(s.getInetAddress(), s.getLocalPort()), peer = s.accept();
                c.getOutputStream().write(7);
                while (peer.getInputStream().available() == 0) Thread.sleep(1);
                System.out.println(lo.isUp() + " " + lo.isLoopback() + " " + (lo.getMTU() > 0)
                                   + " " + (lo.getIndex() > 0));
            }
        }
        """)
    check(["java", "T.java"], tmp_path, "true true true true")


def test_node_copies_and_terminals(tmp_path):
    script = """
const fs = require('fs'), os = require('os');
fs.writeFileSync('a', 'copied');
fs.copyFileSync('a', 'b', fs.constants.COPYFILE_FICLONE);
console.log(fs.readFileSync('b', 'utf8'), 'lo' in os.networkInterfaces(), process.stdin.isTTY);"""
    check(["node", "-e", script], tmp_path, "copied true undefined")


def test_cp_and_lsattr(tmp_path):
    check(["sh", "-c", "echo x > a && cp --reflink=auto a b && cat b && "
           "{ lsattr b >/dev/null 2>&1 || true; }"], tmp_path, "x")


PSUTIL = """
import psutil
lo = psutil.net_if_stats()['lo']
print(lo.mtu > 0, lo.speed, 'lo' in psutil.net_if_addrs())"""


def test_psutil_takes_an_unknown_speed(tmp_path):
    """It fails if the kernel does not say of an interface that its speed is not supported."""
    if subprocess.run(["/usr/bin/python3", "-c", "import psutil"], capture_output=True).returncode:
        pytest.skip("python3-psutil is not installed")
    check(["/usr/bin/python3", "-c", PSUTIL], tmp_path, "True 0 True")


# What no program in a sandbox needs: (what it is asked of, request).
REFUSED_REQUESTS = {
    "TIOCSTI": ("pty", 0x5412), "TIOCLINUX": ("pty", 0x541c), "TIOCCONS": ("pty", 0x541d),
    "TIOCSETD": ("pty", 0x5423), "TIOCVHANGUP": ("pty", 0x5437), "TIOCSERGETLSR": ("pty", 0x5459),
    "FIBMAP": ("file", 1), "FS_IOC_FIEMAP": ("file", 0xc020660b),
    "FS_IOC_SETFLAGS": ("file", 0x40086602), "FS_IOC_FSSETXATTR": ("file", 0x401c5820),
    "FIDEDUPERANGE": ("file", 0xc0189436), "EXT4_IOC_MOVE_EXT": ("file", 0xc028660f),
    "FS_IOC_ENABLE_VERITY": ("file", 0x40806685), "FITRIM": ("file", 0xc0185879),
    "FS_IOC_RESVSP": ("file", 0x40305828), "BLKGETSIZE64": ("file", 0x80081272),
    "LOOP_CTL_GET_FREE": ("file", 0x4c82), "KVM_CREATE_VM": ("file", 0xae01),
    "NS_GET_PARENT": ("namespace", 0xb702), "TUNSETIFF": ("file", 0x400454ca),
    "SIOCSIFFLAGS": ("socket", 0x8914), "SIOCADDRT": ("socket", 0x890b),
    "SIOCGARP": ("socket", 0x8954), "SIOCGIWNAME": ("socket", 0x8b01),
    "SIOCBRADDBR": ("socket", 0x89a0), "SIOCDEVPRIVATE": ("socket", 0x89f0),
}


def test_other_requests_are_unknown(tmp_path):
    """They give ENOTTY, whatever the kernel would have said, also with bits that it drops."""
    script = f"""
import ctypes, errno, os, pty, socket
libc = ctypes.CDLL(None, use_errno=True)
of = {{"pty": pty.openpty()[1], "file": os.open("f", os.O_RDWR | os.O_CREAT),
      "socket": socket.socket().detach(), "namespace": os.open("/proc/self/ns/pid", os.O_RDONLY)}}
room = ctypes.create_string_buffer(4096)
for name, (what, request) in {REFUSED_REQUESTS!r}.items():
    for high in (0, 1 << 32):
        got = libc.syscall(ctypes.c_long(16), ctypes.c_long(of[what]), ctypes.c_ulong(request | high), room)
        if got != -1 or ctypes.get_errno() != errno.ENOTTY:
            print(name, high, got, errno.errorcode.get(ctypes.get_errno()))
"""
    check(["python3", "-c", script], tmp_path, "")


@pytest.mark.parametrize("command, message", [
    (["unshare", "--user", "true"], "Operation not permitted"),
    (["unshare", "--mount", "true"], "Operation not permitted"),
    (["chroot", "/", "true"], "Operation not permitted"),
    (["python3", "-c", "import ctypes, os, sys; c = ctypes.CDLL(None, use_errno=True)\n"
      "c.mount(None, None, None, 0, None); sys.exit(os.strerror(ctypes.get_errno()))"],
     "Operation not permitted"),
    (["strace", "true"], "Operation not permitted"),
    (["setarch", "-R", "true"], "Operation not permitted"),
    (["python3", "-c", "import socket; socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)"],
     "Address family not supported"),
    (["python3", "-c", "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)"],
     "Address family not supported"),
    (["python3", "-c", "import os, stat; os.mknod('n', stat.S_IFCHR | 0o600, 0)"],
     "Operation not permitted"),
    (["python3", "-c", "import fcntl, os, pty, termios\n"
      "m, s = pty.openpty(); fcntl.ioctl(s, termios.TIOCSTI, b'x')"],
     "Inappropriate ioctl for device"),
])
def test_denied(command, message, tmp_path):
    done = under_filter(command, tmp_path)
    assert done.returncode != 0, done.stdout
    assert message in done.stderr and "seccomp_exec" not in done.stderr


@pytest.mark.parametrize("options, command, expected", [
    (["--ptrace"], ["strace", "-f", "-o", "trace", "echo", "traced"], "traced"),
    (["--ptrace"], ["gdb", "-q", "-batch", "-ex", "run", "-ex", "print 40+2", "true"], None),
    (["--userns"], ["unshare", "--user", "--pid", "--net", "--fork", "echo", "nested"], "nested"),
])
def test_options(options, command, expected, tmp_path):
    done = under_filter(command, tmp_path, *options)
    assert done.returncode == 0, done.stderr
    assert expected is None and "42" in done.stdout or done.stdout.strip() == expected


def test_userns_gives_no_mounts(tmp_path):
    for flags in (["--mount"], ["--user", "--mount"], ["--uts"], ["--ipc"], ["--time"]):
        done = under_filter(["unshare", *flags, "true"], tmp_path, "--userns")
        assert done.returncode != 0 and "Operation not permitted" in done.stderr, flags
