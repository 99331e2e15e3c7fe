"""Two networks of our own: one that stands for the host, where cay runs, and one that stands for the
internet. Nothing leaves them."""

import contextlib
import json
import subprocess
import tempfile
from pathlib import Path

import pytest

import support

PUBLIC, PRIVATE, METADATA = "11.0.0.2", "10.9.0.2", "169.254.169.254"
HOST, HOST_PRIVATE = "11.0.0.1", "10.9.0.1"

# Names that the name server knows: what it answers the first time, and from then on.
NAMES = {"a.com": [PUBLIC], "sub.a.com": [PUBLIC], "b.org": [PUBLIC], "inner.com": [PRIVATE],
         "meta.com": [METADATA], "loop.com": ["127.0.0.1"], "own.com": [HOST],
         "rebind.com": [PUBLIC, "127.0.0.1"], "rebound.com": ["127.0.0.1", PUBLIC]}

SERVER = r'''
import http.server, json, socket, socketserver, struct, sys, threading
names = json.loads(sys.argv[1])

class Web(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self):
        length = int(self.headers.get("Content-Length") or 0)
        told = {"where": sys.argv[2], "method": self.command, "path": self.path,
                "headers": self.headers.items(), "body": self.rfile.read(length).decode()}
        text = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    do_GET = do_POST = answer
    def log_message(self, *args):
        pass

class Dns(socketserver.BaseRequestHandler):
    def handle(self):
        data, sock = self.request
        at, labels = 12, []
        while data[at]:
            labels.append(data[at + 1:at + 1 + data[at]].decode())
            at += data[at] + 1
        kind = struct.unpack(">H", data[at + 1:at + 3])[0]
        question = data[12:at + 5]
        known = names.get(".".join(labels).lower())
        answers = b""
        if known and kind == 1:
            address = known.pop(0) if len(known) > 1 else known[0]
            answers = b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4" + socket.inet_aton(address)
        flags = 0x8180 if known else 0x8183
        sock.sendto(data[:2] + struct.pack(">HHHHH", flags, 1, bool(answers), 0, 0) + question
                    + answers, self.client_address)

class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

for address in sys.argv[3:]:
    for port in (80, 443, 8080):
        threading.Thread(target=Server((address, port), Web).serve_forever, daemon=True).start()
dns = socketserver.UDPServer(("0.0.0.0", 53), Dns)
print("ready", flush=True)
dns.serve_forever()
'''


def _holder(*flags):
    """A process in namespaces of its own, and how to enter them."""
    process = subprocess.Popen(["unshare", *flags, "sh", "-c", "echo; exec sleep infinity"],
                               stdout=subprocess.PIPE)
    process.stdout.readline()
    return process


def _serve(pid, where, *addresses):
    process = subprocess.Popen(["nsenter", "-t", str(pid), "-n", "python3", "-c", SERVER,
                                json.dumps(NAMES), where, *addresses], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    return process


class World:
    def __init__(self, host, folder):
        self.prefix = ["nsenter", "-t", str(host), "-n", "-m"]
        self.resolv_conf = folder / "resolv.conf"

    def resolve_by(self, name_server):
        self.resolv_conf.write_text(f"nameserver {name_server}\noptions timeout:2 attempts:2\n")

    def command(self, *args):
        """The words that run a program on the host of this world, as the tested user."""
        who, _ = support.as_user()
        become = ["setpriv", "--reuid", str(who["user"]), "--regid", str(who["group"]),
                  "--clear-groups"] if support.USER else []
        return [*self.prefix, *become, *map(str, args)]

    def popen(self, *args, **more):
        _, env = support.as_user()
        return subprocess.Popen(self.command(*args), env=env, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **more)

    def cay(self, *args, **more):
        process = self.popen(support.CAY, *args, **more)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(args, process.returncode, out, err)

    def run(self, network, *command):
        return self.cay("run", *support.TIER, "--network", network, "--", *command)

    def curl(self, network, *args):
        """What curl in a fresh sandbox gets: status, and body."""
        done = self.run(network, "curl", "-sS", "-m", "20", "-w", "\n%{http_code}", *args)
        text = done.stdout.decode()
        assert "\n" in text, (done.stdout, done.stderr)
        body, code = text.rsplit("\n", 1)
        return int(code), body


def _connect(host, internet):
    def at(pid, script):
        subprocess.run(["nsenter", "-t", str(pid), "-n", "sh", "-ec", script], check=True)

    at(host, f"ip link add va type veth peer name vb netns {internet}; ip link set lo up;"
       f"ip addr add {HOST}/24 dev va; ip addr add {HOST_PRIVATE}/24 dev va; ip link set va up;"
       f"ip addr add 2001:470::1/64 dev va nodad")
    at(internet, f"ip link set lo up; ip addr add {PUBLIC}/24 dev vb;"
       f"ip addr add {PRIVATE}/24 dev vb; ip addr add {METADATA}/32 dev lo; ip link set vb up;"
       f"ip addr add 2001:470::2/64 dev vb nodad")
    at(host, f"ip route add {METADATA}/32 via {PUBLIC}")


@contextlib.contextmanager
def world(name_server=PUBLIC):
    """The two networks, with servers on both sides; gone afterwards."""
    with contextlib.ExitStack() as stack:
        def keep(process):
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="box-", dir="/tmp")))
        folder.chmod(0o755)
        (folder / "resolv.conf").write_text(f"nameserver {name_server}\noptions timeout:2 attempts:2\n")
        (folder / "hosts").write_text("127.0.0.1 localhost\n")
        host, internet = keep(_holder("-n", "-m")), keep(_holder("-n"))
        _connect(host.pid, internet.pid)
        for name in ("resolv.conf", "hosts"):
            subprocess.run(["nsenter", "-t", str(host.pid), "-m", "mount", "--bind",
                            folder / name, f"/etc/{name}"], check=True)
        keep(_serve(internet.pid, "internet", PUBLIC, PRIVATE, METADATA))
        keep(_serve(host.pid, "host", "127.0.0.1", HOST, HOST_PRIVATE))
        yield World(host.pid, folder)


@pytest.fixture(scope="module")
def net():
    probe = subprocess.run(["unshare", "-n", "-m", "ip", "link", "set", "lo", "up"],
                           capture_output=True)
    if probe.returncode != 0:
        pytest.skip(f"no network namespaces here: {probe.stderr.decode().strip()}")
    with world() as made:
        yield made
