"""Shells that stay, and ports, which are reached by way of the daemon."""

import json

import pytest
from launching import STARTED, until


def session(box, method, path="", **body):
    return box.http(method, f"/process/session{path}", json.dumps(body) if body else None,
                    Content_Type="application/json")


@pytest.fixture(scope="module")
def shell(box):
    assert session(box, "POST", sessionId="s").status == 201
    yield lambda command, **more: session(box, "POST", "/s/exec", command=command, **more).json()
    session(box, "DELETE", "/s")


@pytest.mark.parametrize("first, second, out", [
    ("X=5", "echo $X", "5\n"), ("cd /tmp", "pwd", "/tmp\n"), ("f() { echo fun; }", "f", "fun\n"),
    ("export Y=1", "sh -c 'echo $Y'", "1\n"),
    ("echo 'open", "echo closed", "closed\n"), ("exit 3", "echo back", "back\n"),
    ("cat", "echo not stuck", "not stuck\n"), ("echo '$ '", "echo '# '", "# \n"),
])
def test_a_session_remembers(shell, first, second, out):
    shell(first)
    assert shell(second)["stdout"] == out


def test_the_exit_code_of_a_session_s_command(shell):
    assert shell("sh -c 'exit 9'")["exitCode"] == 9


def test_ports_are_reached_from_outside(box, engine):
    """By the preview proxy, with the network off."""
    page = "printf 'HTTP/1.0 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\nhello'"
    serve = f"{page} | nc -l -p 8123" if box.has("nc") else \
        "cd /workspace && printf hello > index.html && exec python3 -m http.server 8123"
    with box.command("sh", "-c", serve) as c:
        c.expect(STARTED)
        path = f"/preview/{box.id}/8123/"
        assert until(lambda: engine.daemon.get(path).text == "hello")
