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
      "m, s = pty.openpty(); fcntl.ioctl(s, termios.TIOCSTI, b'x')"], "Operation not permitted"),
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
