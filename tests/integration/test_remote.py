"""Verbs against daemons elsewhere: another cay by TLS, and a Daytona that is no cay."""

import json
import os
import socket
import subprocess
import threading

import pytest
import support
from daemons import children, free_port, serving
from launching import until
from remotes import Foreign, Remote
from support import cay, ok, refused
from test_tls import make_certificate, openssl, settings


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    path = tmp_path_factory.mktemp("remote")
    for folder in (path, *list(path.parents)[:2]):
        os.chmod(folder, 0o755)
    return support.own(path)


@pytest.fixture(scope="module")
def by_tls(place):
    """Another cay, reached by TLS."""
    ca = support.own_folder(place / "ca")
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", ca / "ca.key", "-out", ca / "ca.pem", "-days", "2", "-subj", "/CN=test")
    cert, key = make_certificate(ca, "one", ca)
    os.chmod(ca / "ca.pem", 0o644)
    port = free_port()
    folder = support.own_folder(place / "tls")
    with serving(folder, "--listen", f"127.0.0.1:{port}", env=settings(cert, key)) as daemon:
        yield Remote(daemon, f"https://127.0.0.1:{port}", daemon.state / "admin.key",
                     {"CAY_REMOTE_CA_FILE": str(ca / "ca.pem")})


@pytest.fixture(scope="module")
def by_daytona(place):
    """A Daytona: only its protocol is spoken."""
    port = free_port()
    folder = support.own_folder(place / "foreign")
    with serving(folder, "--listen", f"127.0.0.1:{port}") as daemon:
        foreign = Foreign(port)
        try:
            remote = Remote(daemon, foreign.url, daemon.state / "admin.key")
            remote.asked = foreign.asked
            yield remote
        finally:
            foreign.close()


@pytest.fixture(params=["tls", "daytona"])
def remote(request):
    return request.getfixturevalue("by_" + request.param)


@pytest.fixture(scope="module")
def labs():
    """A sandbox of each remote, made when it is first needed."""
    return {}


@pytest.fixture
def lab(remote, labs):
    if remote.url not in labs:
        labs[remote.url] = remote.ok("create", "--name", "lab", *remote.tier).strip()
    return labs[remote.url]


def is_daytona(remote):
    return remote.url.startswith("http://")


def unsupported(result, code=7):
    refused(result, "a Daytona ", code=code)


# ---- sandboxes ----

def test_life(remote):
    assert remote.ok("create", "--name", "life", "-l", "team=a", "-e", "A=b", *remote.tier) == \
        "life\n"
    assert "life" in remote.ok("ls", "-l", "team=a") and "life" not in remote.ok("ls", "-l", "x=y")
    assert [s["state"] for s in json.loads(remote.ok("ls", "-o", "json"))
            if s["name"] == "life"] == ["started"]
    info = json.loads(remote.ok("info", "life", "-o", "json"))
    assert info["labels"] == {"team": "a"} and info["env"] == {"A": "b"}
    assert remote.ok("info", info["id"], "-q").strip() == info["id"]
    remote.ok("update", "life", "-l", "team-", "-l", "b=c", "--auto-stop", "7m")
    info = json.loads(remote.ok("info", "life", "-o", "json"))
    assert info["labels"] == {"b": "c"} and info["autoStopInterval"] == 7
    remote.ok("stop", "life")
    assert "life" not in remote.ok("ls") and "life" in remote.ok("ls", "-a")
    refused(remote("exec", "life", "true"), "stopped", "cay start", code=125)
    remote.ok("start", "life")
    remote.ok("start", "life")  # is fine
    assert remote.ok("exec", "life", "--", "sh", "-c", "echo $A") == "b\n"
    remote.ok("archive", "life")
    assert json.loads(remote.ok("info", "life", "-o", "json"))["state"] == "archived"
    assert remote.ok("rm", "-f", "life") == "life\n"
    refused(remote("info", "life"), "life", code=3)
    assert json.loads(remote("info", "life", "-o", "json").stdout)["code"] == "not_found"


def test_volumes(remote):
    assert remote.ok("volume", "create", "data") == "data\n"
    assert "data" in remote.ok("volume", "ls")
    refused(remote("volume", "create", "data"), code=4)
    remote.ok("create", "--name", "user", "-v", "data:/data", *remote.tier)
    remote.ok("exec", "user", "--", "sh", "-c", "echo kept > /data/file")
    remote.ok("rm", "-f", "user")
    remote.ok("create", "--name", "user", "-v", "data:/data", *remote.tier)
    assert remote.ok("exec", "user", "cat", "/data/file") == "kept\n"
    remote.ok("rm", "-f", "user")
    remote.ok("volume", "rm", "data")
    refused(remote("volume", "rm", "data"), code=3)


def test_figures_and_what_is_not_there(remote, lab):
    assert lab in remote.ok("stats", lab)
    if not is_daytona(remote):
        assert "started" in remote.ok("logs", lab)
        return
    unsupported(remote("logs", lab))
    unsupported(remote("rename", lab, "other"))
    unsupported(remote("update", lab, "--pids", "9"))
    unsupported(remote("create", "--read-only"))
    unsupported(remote("create", "-v", "/etc:/etc"))
    unsupported(remote("key", "ls"))
    unsupported(remote("exec", "-u", "nobody", lab, "true"), code=125)
    unsupported(remote("session", "create", "--shell", "sh", lab, "no"))


@support.needs_ids
@pytest.mark.skipif(support.is_sanitized(),
                    reason="a sanitized cay-init needs libraries of the host, which images lack")
def test_a_snapshot(remote, folder):
    archive = subprocess.run(["tar", "-c", "-C", folder, "."], stdout=subprocess.PIPE, check=True)
    ok(cay("image", "import", "--state-dir", remote.daemon.state, "-", "tiny",
           input=archive.stdout))
    remote.ok("create", "--name", "small", "--image", "tiny", *remote.tier)
    remote.ok("stop", "small")  # not every host can pause
    assert remote.ok("snapshot", "create", "small", "small:kept") == "small:kept\n"
    remote.ok("create", "--name", "copy", "--image", "small:kept", *remote.tier)
    assert "small:kept" in remote.ok("info", "copy")
    remote.ok("rm", "-f", "copy", "small")


# ---- commands ----

def test_commands(remote, lab):
    done = remote("exec", "-e", "A=it's b", "-w", "/tmp/new folder", lab, "--", "sh", "-c",
                  "pwd; echo $A; echo wrong >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == \
        (3, b"/tmp/new folder\nit's b\n", b"wrong\n")
    assert remote("exec", lab, "no-such-command").returncode == 127
    assert json.loads(remote.ok("exec", "-o", "json", lab, "echo", "a  b"))["stdout"] == "a  b\n"
    assert remote("exec", "--timeout", "1", lab, "sleep", "1000").returncode == 124
    done = remote("exec", "--output-max", "100", lab, "yes")
    assert done.returncode == 124 and done.stdout == b"y\n" * 50
    refused(remote("exec", "absent", "true"), "absent", code=125)


def test_input(remote, lab):
    assert remote.ok("exec", lab, "cat", input=b"a\nb") == "a\nb"
    data = bytes(range(3, 256)) * 1000  # not the bytes of which the marks of logs consist
    assert remote("exec", lab, "md5sum", input=data).stdout == \
        subprocess.run(["md5sum"], input=data, stdout=subprocess.PIPE, check=True).stdout
    assert remote.ok("exec", lab, "head", "-c", "3", input=b"abc" * 1000000) == "abc"
    ours, theirs = socket.socketpair()  # an input that does not end holds up nothing
    with ours, theirs:
        assert remote.ok("exec", lab, "echo", "done", stdin=theirs) == "done\n"


def test_signals_and_hanging_up(remote, lab):
    script = "trap 'echo caught; exit 9' TERM; echo ready; while :; do sleep 0.05; done"
    with support.start(*remote.options, "exec", lab, "--", "sh", "-c", script, env=remote.env,
                       stdin=subprocess.DEVNULL) as one:
        assert one.stdout.readline() == b"ready\n"
        one.terminate()
        assert one.stdout.read() == b"caught\n" and one.wait(60) == 9
    with support.start(*remote.options, "exec", lab, "--", "sh", "-c",
                       "echo ready; exec sleep 4321", env=remote.env,
                       stdin=subprocess.DEVNULL) as one:
        assert one.stdout.readline() == b"ready\n"
        one.kill()
    script = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '"
    assert until(lambda: "sleep 4321" not in remote.ok("exec", lab, "--", "sh", "-c", script))


def test_a_terminal_for_a_command(remote, lab):
    near, far = os.openpty()
    with support.start(*remote.options, "exec", "-t", lab, "--", "sh", "-c",
                       "stty -echo; echo is $((6*7)); read x; echo got $x; exit 4",
                       env=remote.env, stdin=far, stdout=far, stderr=far) as one:
        os.close(far)
        said = read_until(near, b"is 42")
        os.write(near, b"word\r")
        read_until(near, b"got word", said)
        assert one.wait(60) == 4
    os.close(near)


def read_until(fd, text, said=b""):
    while text not in said:
        said += os.read(fd, 65536)
    return said


# ---- files ----

def test_copies(remote, lab, folder):
    tree = folder / "tree"
    tree.mkdir()
    (tree / "a file").write_bytes(b"content\0" * 1000)
    (tree / "run").write_text("#!/bin/sh\n")
    (tree / "run").chmod(0o755)
    (tree / "link").symlink_to("run")
    (tree / "empty").mkdir()
    for path in (tree, *tree.iterdir()):
        if not path.is_symlink():
            support.own(path)
    remote.ok("cp", tree, f"{lab}:")
    remote.ok("cp", f"{lab}:tree", folder / "back")
    back = folder / "back"
    assert (back / "a file").read_bytes() == (tree / "a file").read_bytes()
    assert (back / "run").stat().st_mode & 0o777 == 0o755 and (back / "empty").is_dir()
    assert os.readlink(back / "link") == "run"
    remote.ok("cp", f"{tree}/.", f"{lab}:/tmp/content")
    assert remote.ok("exec", lab, "ls", "/tmp/content") == "a file\nempty\nlink\nrun\n"
    remote.ok("cp", "-", f"{lab}:/tmp/one", input=b"from a pipe")
    assert remote("cp", f"{lab}:/tmp/one", "-").stdout == b"from a pipe"
    refused(remote("cp", f"{lab}:/tmp/absent", folder), "absent", code=3)
    refused(remote("cp", folder / "absent", f"{lab}:"), code=3)


# ---- sessions and terminals ----

def test_sessions(remote, lab):
    remote.ok("session", "create", "-e", "FOO=bar", "-w", "/tmp/there", lab, "work")
    refused(remote("session", "create", lab, "work"), code=4)
    assert remote.ok("session", "ls", lab) == "work\n"

    def run(*words, **more):
        return remote("session", "exec", lab, "work", "--", *words, **more)
    assert ok(run("pwd; echo $FOO; X=1")) == "/tmp/there\nbar\n"
    assert ok(run("read line; echo $X $line; Y=2", input=b"from here\n")) == "1 from here\n"
    done = run("echo $Y; echo bad >&2; false")
    assert (done.returncode, done.stdout, done.stderr) == (1, b"2\n", b"bad\n")
    number = remote.ok("session", "exec", "--async", "--input", lab, "work", "--",
                       "read line; echo heard $line").strip()
    remote.ok("session", "input", "--keep-open", lab, "work", number, input=b"me\n")
    assert remote.ok("session", "logs", "-f", lab, "work", number) == "heard me\n"
    rows = json.loads(remote.ok("session", "status", "-o", "json", lab, "work"))
    assert rows[-1]["number"] == int(number) and rows[-1]["exit_code"] == 0
    shown = [row["command"] for row in rows]
    assert {"read line; echo $X $line; Y=2", "echo $Y; echo bad >&2; false"} <= set(shown)
    remote.ok("session", "rm", lab, "work")
    assert remote.ok("session", "ls", lab) == ""
    refused(remote("session", "rm", lab, "work"), code=3)


def test_terminals(remote, lab):
    remote.ok("terminal", "create", lab, "desk")
    remote.ok("terminal", "resize", lab, "desk", "100x30")
    row, = json.loads(remote.ok("terminal", "ls", "-o", "json", lab))
    assert (row["name"], row["running"], row["rows"], row["cols"]) == ("desk", True, 30, 100)
    done = remote("terminal", "attach", lab, "desk", input=b"echo is $((6*7)); exit 5\n")
    assert done.returncode == 5 and b"is 42" in done.stdout
    if is_daytona(remote):
        unsupported(remote("terminal", "kill", lab, "desk"))
    remote.ok("terminal", "rm", lab, "desk")
    assert json.loads(remote.ok("terminal", "ls", "-o", "json", lab)) == []


def test_only_its_own_protocol_is_spoken(by_daytona):
    by_daytona.ok("ls")
    ours = {line for line in by_daytona.asked if "/api/cay/" in line}
    assert ours == {"GET /api/cay/status"}  # by which it is asked what it is


# ---- what is wrong ----

def test_keys(remote, folder):
    wrong = folder / "wrong.key"
    wrong.write_text("nonsense\n")
    support.own(wrong)
    where = ["--host", remote.url]
    refused(cay("ls", *where, "--key-file", wrong, env=remote.env), code=8)
    refused(cay("exec", *where, "--key", "nonsense", "x", "true", env=remote.env), code=125)
    refused(cay("ls", *where, "--key-file", folder / "absent", env=remote.env), "absent", code=3)
    refused(cay("ls", *where, "--key", "a b", env=remote.env), "key", code=2)
    key = remote.key_file.read_text().strip()
    ok(cay("ls", *where, env={**remote.env, "CAY_API_KEY": key}))
    ok(cay("ls", *where, "--key", key, env=remote.env))
    ok(cay("ls", env={**remote.env, "CAY_HOST": remote.url, "CAY_API_KEY": key}))


def test_the_key_is_not_seen_by_others(lab, remote):
    key = remote.key_file.read_text().strip()
    with support.start("exec", "--host", remote.url, "--key", key, lab, "--", "sh", "-c",
                       "echo ready; exec cat", env=remote.env) as one:
        assert one.stdout.readline() == b"ready\n"
        for pid in (one.pid, *children(one.pid)):
            line = open(f"/proc/{pid}/cmdline", "rb").read()
            assert key.encode() not in line, line
        one.stdin.close()
        assert one.wait(60) == 0


def test_the_remote_of_the_configuration(by_daytona, folder):
    key = by_daytona.key_file.read_text().strip()
    config = folder / "config.toml"
    config.write_text(f'[daytona]\ndaytona_api_key = "{key}"\n'
                      f'daytona_server_url = "{by_daytona.url}"\n')
    support.own(config)
    assert "NAME" in ok(cay("ls", "--host", "daytona", "--config", config))
    assert key not in ok(cay("config", "--config", config))
    config.write_text('[daytona]\ndaytona_target = "us"\n[remote]\nhost = "daytona"\n')
    env = {"DAYTONA_API_URL": by_daytona.url, "DAYTONA_API_KEY": key}
    assert "NAME" in ok(cay("ls", "--config", config, env=env))
    del env["DAYTONA_API_KEY"]
    refused(cay("ls", "--config", config, "--state-dir", folder, env=env), "DAYTONA_API_KEY",
            code=8)


def test_a_program_of_ones_own(by_daytona, folder):
    """docs/examples/daytona.c"""
    key = by_daytona.key_file.read_text().strip()
    config = folder / "config.toml"
    config.write_text(f'[daytona]\ndaytona_api_key = "{key}"\n'
                      f'daytona_server_url = "{by_daytona.url}"\n'
                      'sandbox_entrypoint = "echo begun > /tmp/entry"\n')
    support.own(config)
    who, env = support.as_user()
    env["PATH"] = f"{support.BUILD}:{env['PATH']}"  # where it finds cay, and so cay-remote
    done = subprocess.run([support.HELPERS / "daytona", config], env=env, capture_output=True,
                          text=True, timeout=120, **who)
    assert (done.returncode, done.stdout) == \
        (0, "exit code 3\n42\nstarted, label id=project-7\n"), done.stderr
    assert "project-7" not in by_daytona.ok("ls", "-a", "-o", "json")


def test_a_certificate_that_nobody_knows(by_tls, folder):
    refused(cay("ls", *by_tls.options), "cannot reach", "ca_file", code=10)
    text = folder / "text.pem"
    text.write_text("no certificate\n")
    support.own(text)
    refused(cay("ls", *by_tls.options, env={"CAY_REMOTE_CA_FILE": str(text)}), "text.pem", code=2)
    plain = by_tls.url.replace("https", "http") + "/api"
    refused(cay("ls", "--host", plain, "--key", "x"), code=10)


class Answering:
    """A server that gives every request the same answer, and keeps what it was asked."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d/api" % self.listener.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def serve(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            with sock:
                head = b""
                while b"\r\n\r\n" not in head and (piece := sock.recv(65536)):
                    head += piece
                self.asked.append(head)
                sock.sendall(self.answer)

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def http_answer(status, body, *headers):
    lines = [f"HTTP/1.1 {status} -", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


@pytest.mark.parametrize("answer, code, part", [
    (http_answer(200, b"<html>hello</html>"), 10, "neither cay nor Daytona"),
    (http_answer(200, b"[" * 100000), 10, "neither cay nor Daytona"),
    (http_answer(404, b""), 10, "neither cay nor Daytona"),
    (http_answer(500, b'{"message": "\\u001b[31mboom"}'), 10, "neither cay nor Daytona"),
    (http_answer(401, b'{"message": "Invalid \\u001b[31m credentials"}'), 8, "credentials"),
    (b"SSH-2.0-OpenSSH_9\r\n", 10, "cannot reach"),
    (b"", 10, "cannot reach"),
])
def test_something_else_answers(answer, code, part):
    with Answering(answer) as server:
        text = refused(cay("ls", "--host", server.url, "--key", "secret-key"), part, code=code)
        assert "\x1b" not in text
        assert server.asked and b"Bearer secret-key" in server.asked[0]


def test_the_key_does_not_follow_a_redirect():
    with Answering(http_answer(200, b"[]")) as other:
        away = http_answer(302, b"", f"Location: {other.url}/sandbox")
        with Answering(away) as server:
            refused(cay("ls", "--host", server.url, "--key", "secret-key"), code=10)
            assert server.asked
        assert other.asked == []


def test_the_key_does_not_go_to_a_toolbox_in_the_clear(folder):
    """A remote that was reached by a name of this machine names a toolbox elsewhere."""
    box = {"id": "b", "name": "b", "state": "started",
           "toolboxProxyUrl": "ftp://192.0.2.1/toolbox"}
    with Answering(http_answer(200, json.dumps({**box, "items": []}).encode())) as server:
        refused(cay("exec", "--host", server.url, "--key", "k", "b", "true"),
                "not reached by HTTPS", code=125)


def test_another_version_of_cay():
    """What this one does not know is told, and nothing breaks."""
    status = json.dumps({"version": "99.0", "sandboxes": 0}).encode()
    with Answering(http_answer(200, status)) as server:
        result = cay("ls", "--host", server.url, "--key", "k")
        assert result.returncode in (1, 10) and result.stderr.startswith(b"cay: "), result


def test_options_without_a_command():
    refused(cay("--host", "unix:///nowhere"), "no command", code=2)
    assert "Usage:" in ok(cay("--quiet", "--help"))
    refused(cay("--host", "unix:///nowhere", "session", "ls", "x"), "/nowhere", code=10)
    assert json.loads(ok(cay("-o", "json", "version")))["version"]
