"""clients/python/cay.py: the Python client, against a real daemon."""

import asyncio
import base64
import contextlib
import hashlib
import http.server
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest
import support
from daemons import end_background, free_port, own_folder, serving, serving_alone, serving_tcp
from launching import until
from support import needs_ids
from test_client_hostile import UPGRADE, Liar
from test_tls import make_authority, make_certificate, settings

CLIENTS = Path(__file__).resolve().parents[2] / "clients/python"
sys.path.insert(0, str(CLIENTS))

import cay  # noqa: E402

pytestmark = needs_ids


@pytest.fixture(scope="module")
def daemon():
    with serving_alone() as d:
        yield d


@pytest.fixture(scope="module")
def client(daemon):
    return cay.Client(f"unix://{daemon.socket}")


@pytest.fixture(scope="module")
def box(client):
    with cay.Sandbox(name="client", client=client, env={"FROM_SANDBOX": "yes"}) as box:
        yield box


def test_the_types_hold():
    if shutil.which("mypy") is None:
        pytest.skip("needs mypy")
    with own_folder() as cache:
        done = subprocess.run(["mypy", "--strict", "--no-warn-return-any", "--cache-dir", cache,
                               CLIENTS / "cay.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


# ---- commands ----


def test_commands(box):
    result = box.run("pwd; echo $FROM_SANDBOX $MORE; echo oh >&2; exit 3", cwd="/tmp", env={"MORE": "x=y"})
    assert (result.exit_code, result.stdout, result.stderr) == (3, "/tmp\nyes x=y\n", "oh\n")
    assert box.run(["printf", "%s|", "a b", "$X"]).stdout == "a b|$X|"
    with pytest.raises(cay.CommandError, match="exit code 3: oh") as e:
        box.run("echo oh >&2; exit 3", check=True)
    assert e.value.result.stderr == "oh\n"


def test_a_command_that_cannot_start(box):
    result = box.run(["no-such-program"])
    assert result.exit_code == 127 and "not found" in result.stderr
    assert box.run(["/etc/passwd"]).exit_code == 126


def test_input(box):
    data = bytes(range(256)) * 20000
    assert box.run("cat", input=data).stdout_bytes == data
    assert box.run("head -c 5", input=data).stdout_bytes == data[:5]
    assert box.run("cat", input="").stdout == ""


def test_limits(box):
    result = box.run("echo before; sleep 300", timeout=1)
    assert (result.exit_code, result.timed_out, result.stdout) == (124, True, "before\n")
    assert box.run("yes", output_max=100_000).truncated


def test_output_as_it_comes(box):
    with box.process("echo one; read x; echo two >&2", stdin=True) as process:
        parts = iter(process)
        assert next(parts) == ("stdout", b"one\n")
        process.write("go\n")
        assert next(parts) == ("stderr", b"two\n")
        assert list(parts) == [] and process.result.exit_code == 0
    seen = []
    box.run("echo a", on_output=lambda stream, data: seen.append((stream, data)))
    assert seen == [("stdout", b"a\n")]


def test_leaving_the_block_ends_the_command(box):
    with box.process("echo $$; exec sleep 12345") as process:
        stream, pid = next(iter(process))
        assert stream == "stdout"
    assert until(lambda: box.run(f"kill -0 {int(pid)}").exit_code != 0)
    with box.process("sleep 12345") as process:
        process.kill()
        assert process.wait().signal == 15


def fake_process(frames, output_max=0):
    """A process whose sandbox says this."""
    ours, theirs = socket.socketpair()
    process = cay.Process.__new__(cay.Process)
    process.sock, process._buffer, process.result = ours, b"", None
    process._credit, process._output_max = 0, output_max
    process._changed, process._writing = threading.Condition(), threading.Lock()
    process._deadline = cay._Deadline(cay.Client("unix:///none"), None)

    def say():
        with theirs, contextlib.suppress(OSError):  # it may be hung up on
            theirs.sendall(frames)
    threading.Thread(target=say, daemon=True).start()
    return process


@pytest.mark.parametrize("frames", [
    b"", b"\1", b"\xff\xff\xff\xff\x11\0\0\0", cay._Wire.frame(20, b"\1\0"), cay._Wire.frame(21, b"\1"),
    cay._Wire.frame(21, b""), cay._Wire.frame(17, b"x") * 3])
def test_a_sandbox_that_lies(frames):
    with pytest.raises(cay.CayError):
        fake_process(frames).wait()


def test_a_sandbox_that_floods():
    flood = cay._Wire.frame(17, bytes(65536)) * 100
    with pytest.raises(cay.UnavailableError, match="more output"):
        fake_process(flood, output_max=1000).wait()


def drip(sock):
    while True:
        sock.sendall(cay._Wire.frame(17, b"x"))
        time.sleep(0.05)


@contextlib.contextmanager
def web_socket(path, serve):
    """A WebSocket server for one client."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def run():
            sock, _ = listener.accept()
            with sock, contextlib.suppress(OSError):
                head = sock.recv(65536)
                serve(sock, re.search(rb"Sec-WebSocket-Key: (\S+)", head)[1])
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield f"unix://{path}"
        thread.join(60)


@pytest.mark.parametrize("answer", [lambda sock: sock.recv(1 << 20) and sock.recv(1 << 20), drip], ids=["silent", "dripping"])
def test_a_sandbox_that_ignores_the_time_limit(folder, answer):
    def serve(sock):
        sock.sendall(UPGRADE)
        answer(sock)
    with Liar(folder / "s", serve) as liar:
        began = time.monotonic()
        done = cay.Process(cay.Client(liar.url, grace=0.3), "box", "sleep 100", timeout=0.2).wait()
        assert (done.exit_code, done.timed_out) == (124, True)
        assert 0.4 < time.monotonic() - began < 30


def test_code_that_ignores_the_time_limit(folder):
    def serve(sock, key):
        proof = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     b"Sec-WebSocket-Accept: " + proof + b"\r\n\r\n")
        while sock.recv(65536):
            pass
    with web_socket(folder / "s", serve) as url:
        box = types.SimpleNamespace(client=cay.Client(url, grace=0.3), _box=lambda path: "/toolbox/box" + path)
        done = cay.Context(box, None).run("while True: pass", timeout=0.2)
        assert (done.exit_code, done.timed_out) == (124, True)


def test_sessions(box):
    session = box.session("work")
    session.run("cd /tmp; X=1")
    result = session.run("echo $X $PWD; echo e >&2; (exit 4)")
    assert (result.exit_code, result.stdout, result.stderr) == (4, "1 /tmp\n", "e\n")
    number = session.start("read line; echo got $line")
    assert session.logs(number).exit_code == -1
    session.send(number, "it")
    assert b"".join(data for _, data in session.follow(number)) == b"got it\n"
    assert session.logs(number).exit_code == 0
    session.delete()
    with pytest.raises(cay.NotFoundError):
        session.run("true")


# ---- code ----


def test_python(box):
    assert box.python("x = 6 * 7\nx").text == "42"
    result = box.python("print(x)\nimport sys\nprint('e', file=sys.stderr)\n1/0")
    assert (result.stdout, result.stderr) == ("42\n", "e\n")
    assert result.error.name == "ZeroDivisionError" and "line 4" in result.error.traceback
    with pytest.raises(cay.PythonError, match="ZeroDivisionError: division by zero"):
        box.python("1/0", check=True)
    seen = []
    box.python("print('now')", on_output=lambda *part: seen.append(part))
    assert {stream for stream, _ in seen} == {"stdout"}
    assert "".join(part for _, part in seen) == "now\n"  # in one piece or in several


def test_figures_and_tables(box):
    if not Path("/usr/lib/python3/dist-packages/matplotlib").exists():
        pytest.skip("needs python3-matplotlib and python3-pandas")
    result = box.python("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()", check=True)
    assert [figure[:8] for figure in result.figures] == [b"\x89PNG\r\n\x1a\n"]
    assert result.results[0].chart["type"] == "line"
    table = box.python("import pandas as pd\npd.DataFrame({'a': [1, 2]})", check=True)
    assert "<table" in table.results[0].data["text/html"]


def test_contexts(box):
    one, two = box.context(), box.context("bash")
    one.run("y = 1")
    assert one.run("y + 1").text == "2" and box.python("y").error.name == "NameError"
    two.run("Z=5")
    assert two.run("echo $Z").stdout == "5\n"
    assert one.run("import time; time.sleep(300)", timeout=1).timed_out
    one.delete()
    with pytest.raises(cay.CayError):
        one.run("1")
    two.delete()


def test_a_program_in_a_fresh_sandbox(client):
    result = cay.run_python("import sys; print(sys.argv[1])", argv=["word"], client=client)
    assert result["stdout"] == "word\n" and result["exit_code"] == 0
    assert cay.run("echo once", client=client).stdout == "once\n"
    assert [b.name for b in cay.Sandbox.list(client=client)] in ([], ["client"])


# ---- files ----


def test_files(box, tmp_path):
    box.write("folder/a.txt", "grüße\n")
    assert box.read_text("folder/a.txt") == "grüße\n" and box.run("cat folder/a.txt").stdout == "grüße\n"
    assert [f.name for f in box.files("folder")] == ["a.txt"] and not box.stat("folder/a.txt").is_dir
    box.move("folder/a.txt", "folder/ä b%20.txt")
    assert box.exists("folder/ä b%20.txt") and not box.exists("folder/a.txt")
    assert [Path(p).name for p in box.search("*.txt", "folder")] == ["ä b%20.txt"]
    assert box.find("grüße", "folder")[0]["line"] == 1
    box.mkdir("deep/er")
    assert box.stat("deep").is_dir
    with pytest.raises(cay.CayError):
        box.remove("deep")
    box.remove("deep", recursive=True)
    with pytest.raises(cay.NotFoundError) as e:
        box.read("deep/none")
    assert e.value.status == 404 and e.value.remedy


def test_large_files_in_constant_memory(box, tmp_path):
    local, back = tmp_path / "in", tmp_path / "out"
    local.write_bytes(bytes(range(256)) * 60000)
    box.upload(local, "large")
    box.download("large", back)
    assert back.read_bytes() == local.read_bytes()
    with pytest.raises(cay.NotFoundError):
        box.download("missing", tmp_path / "missing")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "out"]


# ---- sandboxes ----


def test_life(client):
    box = cay.Sandbox(name="life", memory="64m", labels={"who": "me"}, client=client)
    assert box.state == "started" and box.info["memory"] == 64 << 20
    assert [b.id for b in cay.Sandbox.list(label="who=me", client=client)] == [box.id]
    with pytest.raises(cay.ConflictError):
        cay.Sandbox(name="life", client=client)
    box.write("kept", "x")
    assert box.stop().state == "stopped"
    with pytest.raises(cay.ConflictError):
        box.run("true")
    assert box.start().state == "started" and box.read("kept") == b"x"
    assert box.pause().state == "paused" and box.resume().state == "started"
    assert box.resize(memory="96m").info["memory"] == 96 << 20
    assert box.stats()["memoryLimit"] == 96 << 20
    assert any(event["state"] == "stopped" for event in box.events())
    assert cay.Sandbox.get("life", client=client).id == box.id
    box.delete()
    box.delete()  # what is gone stays gone
    with pytest.raises(cay.NotFoundError, match="life"):
        cay.Sandbox.get("life", client=client)


def test_volumes(client):
    volume = cay.create_volume("shared", client)
    assert volume in cay.volumes(client)
    with cay.Sandbox(volumes=["shared:/data"], client=client) as box:
        box.write("/data/x", "kept")
    with cay.Sandbox(volumes=["shared:/data:ro"], client=client) as box:
        assert box.read_text("/data/x") == "kept"
        with pytest.raises(cay.ConflictError):
            cay.delete_volume("shared", client)
    cay.delete_volume("shared", client)


def test_bad_input(client):
    with pytest.raises(cay.InvalidArgumentError) as e:
        cay.Sandbox(memory="much", client=client)
    assert "memory" in str(e.value) and e.value.status == 400
    with pytest.raises(cay.NotFoundError):
        cay.Sandbox.get("no/such?one", client=client)
    with pytest.raises(cay.InvalidArgumentError, match="invalid host"):
        cay.Client("box.example:1")
    with pytest.raises(cay.UnavailableError) as e:
        cay.Sandbox(client=cay.Client("unix:///nonexistent/cay.sock"))
    assert "cay serve" in e.value.remedy


# ---- many at once, restarts, other ways to reach it ----


def test_threads_share_a_client(client):
    failures, done = [], []

    def work(number):
        try:
            with cay.Sandbox(memory="64m", disk="32m", client=client) as box:
                for i in range(3):
                    done.append(box.run(f"echo {number} {i}", check=True).stdout)
        except Exception as e:  # noqa: BLE001 reported below
            failures.append(e)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert failures == [] and sorted(done) == sorted(f"{n} {i}\n" for n in range(12) for i in range(3))


def test_a_restart_between_requests():
    with serving_alone() as daemon:
        client = cay.Client(f"unix://{daemon.socket}")
        box = cay.Sandbox(name="stays", client=client)
        daemon.stop()
        with pytest.raises(cay.UnavailableError):
            box.refresh()
        daemon.start()
        assert box.refresh().state == "started" and box.run("echo back").stdout == "back\n"


def test_keys():
    with serving_tcp() as daemon:
        url = f"http://127.0.0.1:{daemon.port}"
        with pytest.raises(cay.UnauthorizedError):
            cay.Sandbox(client=cay.Client(url, "cay_wrong"))
        with cay.Sandbox(client=cay.Client(url, daemon.key)) as box:
            assert box.run("cat", input=b"x" * 300000).stdout_bytes == b"x" * 300000
            assert box.python("1 + 1").text == "2"
            assert box.preview(8080).startswith(url)
            other = daemon.call("POST", "/api/cay/api-keys", {"name": "other", "permissions": ["sandboxes"]})
            with pytest.raises(cay.NotFoundError):
                cay.Sandbox.get(box.id, client=cay.Client(url, other["value"]))


def test_tls(folder):
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    port = free_port()
    make_authority(folder / "ca")
    cert, key = make_certificate(folder / "ca", "client", folder / "ca")
    with serving(folder, "--listen", f"127.0.0.1:{port}", env=settings(cert, key)) as daemon:
        admin = (daemon.state / "admin.key").read_text().strip()
        url = f"https://127.0.0.1:{port}"
        with pytest.raises(cay.UnavailableError, match="certificate"):
            cay.Sandbox(client=cay.Client(url, admin))
        with cay.Sandbox(client=cay.Client(url, admin, ca_file=str(folder / "ca" / "ca.pem"))) as box:
            assert box.run("cat", input=b"x" * 300000).stdout_bytes == b"x" * 300000
            assert box.python("1 + 1").text == "2"


def test_without_a_daemon_one_is_started(folder):
    program = "import cay; box = cay.Sandbox(); print(box.run('echo started').stdout); box.delete()"
    state = folder / "new" / "state"
    try:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(CLIENTS), "HOME": str(folder),
                                   "CAY_PROGRAM": str(support.CAY), "CAY_STATE_DIR": str(state)})
        assert done.stdout == "started\n\n", done.stderr
    finally:
        end_background(state)


# ---- async ----


def test_coroutines(client):
    async def main():
        async with await cay.AsyncSandbox.create(client=client) as box:
            results = await asyncio.gather(*[box.run(f"echo {n}") for n in range(10)])
            assert [r.stdout for r in results] == [f"{n}\n" for n in range(10)]
            assert [part async for part in box.stream("echo a; sleep 0.2; echo b >&2")] == \
                [("stdout", b"a\n"), ("stderr", b"b\n")]
            await box.write("f", "x")
            assert await box.read("f") == b"x" and (await box.python("2 + 2")).text == "4"
            with pytest.raises(cay.NotFoundError):
                await box.read("none")
    asyncio.run(main())


def test_cancelling_ends_the_command(client, box):
    async def main():
        other = cay.AsyncSandbox(box)
        task = asyncio.create_task(other.run("echo $$ > /tmp/pid; exec sleep 54321"))
        while not (await other.run("cat /tmp/pid")).stdout.strip():
            await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return int((await other.run("cat /tmp/pid")).stdout)
    pid = asyncio.run(main())
    assert until(lambda: box.run(f"kill -0 {pid}").exit_code != 0)


# ---- the examples ----


def test_the_example_of_the_readme(daemon):
    text = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    program = re.search(r"```python\n(from cay import Sandbox\n.*?)```", text, re.S).group(1)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(CLIENTS),
                               "CAY_HOST": f"unix://{daemon.socket}"})
    assert done.returncode == 0 and done.stdout.startswith("3 data.csv\n\n3\n"), done.stderr


class Model(http.server.BaseHTTPRequestHandler):
    """A model that knows what it will say."""

    protocol_version = "HTTP/1.1"
    answers = []
    asked = []

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Model.asked.append(body["messages"])
        said = json.dumps({"choices": [{"message": Model.answers.pop(0)}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_):
        pass


def calling(name, **arguments):
    return {"role": "assistant", "content": None, "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}]}


def test_the_agent_of_the_examples(daemon):
    Model.answers = [calling("write_file", path="n.txt", text="42\n"), calling("run_command", command="cat n.txt"),
                     calling("run_python", code="int(open('n.txt').read()) / 0"), calling("fly"),
                     calling("run_command"), {"role": "assistant", "content": "It is 42."}]
    server = http.server.HTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        example = Path(__file__).resolve().parents[2] / "docs/examples/agent.py"
        done = subprocess.run([sys.executable, example, "What", "is", "it?"], capture_output=True, text=True,
                              env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(CLIENTS), "LLM_MODEL": "fake",
                                   "CAY_HOST": f"unix://{daemon.socket}",
                                   "LLM_URL": f"http://127.0.0.1:{server.server_port}/v1"})
    finally:
        server.shutdown()
    assert done.stdout == "It is 42.\n", done.stderr
    told = [message["content"] for message in Model.asked[-1] if message["role"] == "tool"]
    assert told[:2] == ["written", "42\n\nexit code 0"] and "ZeroDivisionError" in told[2]
    assert "no tool fly" in told[3] and "KeyError" in told[4]
