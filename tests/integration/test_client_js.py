"""clients/js/cay.mjs: the JavaScript client, in Node, against a real daemon."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from daemons import free_port, serving, serving_tcp
from support import needs_ids
from test_client_hostile import Liar
from test_tls import make_authority, make_certificate, settings

SCRIPT = Path(__file__).with_name("client.mjs")

pytestmark = [needs_ids, pytest.mark.skipif(shutil.which("node") is None, reason="needs nodejs")]


def run(*options, **env):
    done = subprocess.run(["node", *options, SCRIPT], capture_output=True, text=True, timeout=300,
                          env={"PATH": "/usr/bin:/bin:/usr/local/bin", **env})
    assert (done.returncode, done.stdout) == (0, "all is well\n"), done.stderr


def test_over_the_unix_socket_and_tcp():
    with serving_tcp() as daemon:
        run(HOST=f"unix://{daemon.socket}")
        run(HOST=f"http://127.0.0.1:{daemon.port}", KEY=daemon.key)


def test_the_example_of_the_readme(folder):
    root = SCRIPT.parents[2]
    program = re.search(r"```js\n(import \{ Sandbox \}.*?)```", (root / "README.md").read_text(), re.S).group(1)
    script = folder / "example.mjs"
    script.write_text(program.replace("./clients", str(root / "clients")))
    with serving(folder) as daemon:
        done = subprocess.run(["node", script], capture_output=True, text=True, timeout=300,
                              env={"PATH": "/usr/bin:/bin:/usr/local/bin", "CAY_HOST": f"unix://{daemon.socket}"})
    assert (done.returncode, done.stdout) == (0, "hello\n42\n"), done.stderr


def test_a_daemon_that_ignores_the_time_limit(folder):
    module = (SCRIPT.parents[2] / "clients/js/cay.mjs").as_uri()
    script = folder / "late.mjs"
    script.write_text(f"""import {{ Client, Sandbox }} from {json.dumps(module)}
const box = new Sandbox({{ id: 'box' }}, new Client({{ host: process.env.HOST, grace: 0.3 }}))
try {{ await box.run('sleep 100', {{ timeout: 0.2 }}) }} catch (e) {{ console.log(e.code) }}
process.exit(0)
""")
    with Liar(folder / "s", lambda sock: sock.recv(1 << 20) and sock.recv(1)) as liar:
        done = subprocess.run(["node", script], capture_output=True, text=True, timeout=60,
                              env={"PATH": "/usr/bin:/bin:/usr/local/bin", "HOST": liar.url})
    assert (done.returncode, done.stdout) == (0, "timeout\n"), done.stderr


def test_over_tls(folder):
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    port = free_port()
    make_authority(folder / "ca")
    cert, key = make_certificate(folder / "ca", "js", folder / "ca")
    with serving(folder, "--listen", f"127.0.0.1:{port}", env=settings(cert, key)) as daemon:
        admin = (daemon.state / "admin.key").read_text().strip()
        run(HOST=f"https://127.0.0.1:{port}", KEY=admin, CA=str(folder / "ca" / "ca.pem"))


def web_sockets():
    """The options with which this node has fetch and WebSocket as browsers have them, or None."""
    for options in ([], ["--experimental-websocket"]):
        done = subprocess.run(["node", *options, "-e", "process.exit(typeof WebSocket === 'function' ? 0 : 1)"],
                              capture_output=True)
        if done.returncode == 0:
            return options
    return None


def test_as_in_a_browser():
    options = web_sockets()
    if options is None:
        pytest.skip("this node has no WebSocket; 20.10 has")
    with serving_tcp() as daemon:
        run(*options, HOST=f"http://127.0.0.1:{daemon.port}", KEY=daemon.key, BROWSER="1")
