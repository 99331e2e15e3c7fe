"""Ordinary programs work in a sandbox as they do on the host."""

import shutil

import pytest
from support import is_sanitized, ok, run, sh


def need(program):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


PYTHON = {
    "threads": ("import threading; done = []\n"
                "ts = [threading.Thread(target=done.append, args=(i,)) for i in range(50)]\n"
                "[t.start() for t in ts]; [t.join() for t in ts]; print(len(done))", "50"),
    "subprocess": ("import subprocess as s\n"
                   "print(s.run(['sh', '-c', 'cat; echo 4'], input=b'3', capture_output=True)"
                   ".stdout)", "b'34\\n'"),
    "multiprocessing": ("import multiprocessing as m\n"
                        "with m.Pool(4) as p: print(sum(p.map(abs, range(-9, 1))))", "45"),
    "shared_memory": ("from multiprocessing import shared_memory as s\n"
                      "m = s.SharedMemory(create=True, size=1 << 20); m.buf[-1] = 7\n"
                      "n = s.SharedMemory(name=m.name); print(n.buf[-1])\n"
                      "n.close(); m.close(); m.unlink()", "7"),
    "sqlite": ("import sqlite3; d = sqlite3.connect('t.db'); d.execute('pragma journal_mode=wal')\n"
               "d.execute('create table t(a)'); d.executemany('insert into t values(?)', "
               "[(i,) for i in range(100)])\n"
               "d.commit(); print(d.execute('select sum(a) from t').fetchone()[0])", "4950"),
    "ssl": ("import ssl, hashlib; ssl.create_default_context()\n"
            "print(hashlib.sha256(b'').hexdigest()[:8])", "e3b0c442"),
    "tempfile": ("import tempfile, os\n"
                 "with tempfile.TemporaryDirectory() as d, tempfile.NamedTemporaryFile(dir=d) as f:"
                 " print(os.path.dirname(d), os.path.exists(f.name))", "/tmp True"),
    "loopback": ("import http.server, threading, urllib.request\n"
                 "class H(http.server.BaseHTTPRequestHandler):\n"
                 "    def do_GET(self): self.send_response(200); self.end_headers(); "
                 "self.wfile.write(b'hi')\n"
                 "    def log_message(self, *a): pass\n"
                 "s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), H)\n"
                 "threading.Thread(target=s.serve_forever, daemon=True).start()\n"
                 "print(urllib.request.urlopen(f'http://localhost:{s.server_port}').read())",
                 "b'hi'"),
    "ipv6_loopback": ("import socket\n"
                      "s = socket.create_server(('::1', 0), family=socket.AF_INET6)\n"
                      "c = socket.create_connection(s.getsockname()[:2]); print('connected')",
                      "connected"),
    "asyncio": ("import asyncio\nasync def main():\n"
                "    p = await asyncio.create_subprocess_exec('echo', 'x', stdout=-1)\n"
                "    print((await p.communicate())[0])\nasyncio.run(main())", "b'x\\n'"),
    "terminal": ("import os, pty\npid, fd = pty.fork()\n"
                 "if pid == 0: os.execvp('tty', ['tty'])\n"
                 "print(os.read(fd, 99).decode().strip()); os.waitpid(pid, 0)", "/dev/pts/0"),
    "time": ("import time, datetime; t = time.monotonic(); time.sleep(0.01)\n"
             "print(time.monotonic() > t, datetime.datetime.now().year > 2000)", "True True"),
    "random": ("import os, secrets\n"
               "print(len(os.urandom(32)), len(open('/dev/urandom', 'rb').read(8)))", "32 8"),
    "identity": ("import getpass, os, pwd, socket\n"
                 "print(getpass.getuser(), pwd.getpwuid(0).pw_dir, os.getpid() > 1)",
                 "root /root True"),
}


@pytest.mark.parametrize("case", sorted(PYTHON))
def test_python(case):
    script, expected = PYTHON[case]
    assert ok(run("--", "python3", "-c", script)).strip() == expected


def test_python_venv():
    script = "python3 -c 'import ensurepip' 2>/dev/null || echo no ensurepip; " \
             "python3 -m venv --without-pip v && v/bin/python -c 'import sys; print(sys.prefix)'"
    assert ok(sh(script)).split()[-1] == "/workspace/v"


def test_pip():
    if ok(sh("python3 -m pip --version >/dev/null 2>&1; echo $?")).strip() != "0":
        pytest.skip("pip is not installed")
    assert ok(run("--", "python3", "-m", "pip", "--version")).startswith("pip ")


def test_bash():
    script = """set -e; shopt -s lastpipe; trap 'echo end' EXIT; (sleep 0.01; exit 3) & wait $! ||
        echo $?; seq 5 | sort -r | head -1; cat <(echo sub); umask 022; exec 3<>/dev/null
        mkdir -p a/b; cp -r a c; mv c d; find . -type d | wc -l; rm -r a d; cd ~; pwd"""
    assert ok(run("--", "bash", "-c", script)).split() == ["3", "5", "sub", "5", "/root", "end"]


def test_node():
    need("node")
    script = """
const fs = require('fs'), net = require('net'), os = require('os');
const { execSync } = require('child_process'), { Worker } = require('worker_threads');
async function main() {
    fs.writeFileSync('a', 'x');
    const server = net.createServer(c => { c.end('bye'); server.close(); });
    await new Promise(done => server.listen(0, '127.0.0.1', done));
    const reply = await new Promise(done => net.connect(server.address().port, '127.0.0.1').on('data', done));
    const worker = new Worker('require("worker_threads").parentPort.postMessage(42)', {eval: true});
    const sum = await new Promise(done => worker.on('message', done));
    console.log(`${fs.readFileSync('a')} ${reply} ${sum} ${execSync('echo hi')}`);
}
main();"""
    assert ok(run("--memory", "1g", "--", "node", "-e", script)).strip() == "x bye 42 hi"


@pytest.mark.parametrize("compiler, suffix, source", [
    ("gcc", "c", '#include <stdio.h>\\nint main(void) { puts("made"); }'),
    ("clang", "c", '#include <stdio.h>\\nint main(void) { puts("made"); }'),
    ("g++", "cc", '#include <iostream>\\nint main() { std::cout << "made\\\\n"; }'),
])
def test_compile_and_run(compiler, suffix, source):
    need(compiler)
    script = f"printf '{source}' > t.{suffix}; {compiler} -O2 -g -o t t.{suffix} && ./t"
    assert ok(sh(script, "--memory", "1g")) == "made\n"


def test_make():
    need("make")
    rules = "all: a b\\n\\tcat a b\\na b:\\n\\techo $@ > $@\\n"
    assert ok(sh(f"printf '{rules}' > Makefile; make -s -j4")).split() == ["a", "b"]


def test_git():
    need("git")
    script = """set -e; git init -q r; cd r; git config user.email a@b; git config user.name n
        echo 1 > f; git add f; git commit -q -m one; git gc -q; git clone -q . ../s
        git -C ../s log --format=%s; git -C ../s status --porcelain | wc -l"""
    assert ok(sh(script)).split() == ["one", "0"]


def test_perl():
    script = 'pipe(R, W); if (!fork) { syswrite W, "hi"; exit } wait; sysread R, $x, 2; print $x'
    assert ok(run("--", "perl", "-e", script)) == "hi"


def test_tar():
    script = """set -e; mkdir d; echo x > d/f; mkfifo d/p; ln -s f d/l; ln d/f d/h
        tar czf t.tgz d; rm -r d; tar xzf t.tgz; cat d/l; stat -c %h d/f; test -p d/p"""
    assert ok(sh(script)).split() == ["x", "2"]


def test_tmux():
    need("tmux")
    script = """tmux -f /dev/null new-session -d -x 80 -y 24 'tty > o; sleep 0.1'
        while [ ! -s o ]; do sleep 0.05; done; cat o; tmux kill-server 2>/dev/null; true"""
    assert ok(sh(script)).startswith("/dev/pts/")


@pytest.mark.parametrize("script, expected", [
    ("seq 10 | awk '{s += $1} END {print s}'", "55"),
    ("printf 'a\\nb\\n' | sed -n 's/b/c/p'", "c"),
    ("mkdir -p x/y; touch x/y/z; find x -name z", "x/y/z"),
    ("seq 3 | xargs -P 3 -n 1 echo | sort | tr '\\n' ' '", "1 2 3"),
    ("echo hello | gzip | gunzip | md5sum | cut -c1-8", "b1946ac9"),
    ("date +%Z; df / | tail -1 | awk '{print $6}'", "UTC\n/"),
    ("dd if=/dev/zero of=f bs=1M count=8 2>/dev/null; stat -c %s f", "8388608"),
    ("ps -e -o comm= | head -1", "cay-init"),
    ("mkfifo p; (echo through > p &); cat p", "through"),
    ("timeout 0.1 sleep 1000; echo $?", "124"),
    ("nice -n 5 nice; ulimit -n", "5\n1024"),
    ("getent passwd user | cut -d: -f6; getent hosts localhost | head -1 | wc -l", "/home/user\n1"),
    ("flock f echo locked", "locked"),
])
def test_tools(script, expected):
    assert ok(sh(script)).strip() == expected


def test_sort_of_ten_megabytes():
    script = "seq 1400000 | rev > n; ls -l n | awk '{print ($5 > 9000000)}'; " \
             "sort -n n | tail -1; sort -S 1M -T /tmp n | wc -l"
    timeout = 120 if is_sanitized() else 60
    assert ok(sh(script, "--memory", "1g", timeout=timeout)).split() == ["1", "9999931", "1400000"]


def test_no_way_outside():
    script = """cat /proc/net/dev | tail -n +3 | cut -d: -f1; cat /proc/net/route | tail -n +2
        python3 -c "
import socket
for address in ('192.0.2.1', '8.8.8.8', '169.254.169.254', '10.0.0.1', '172.17.0.1'):
    try:
        socket.create_connection((address, 80), 1); print('connected to', address)
    except OSError as e:
        assert e.errno == 101, e
try:
    socket.getaddrinfo('example.org', 80); print('resolved')
except OSError: pass
" """
    assert ok(sh(script)).split() == ["lo"]
