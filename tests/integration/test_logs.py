"""`cay logs`: what became of a sandbox and why, and what its sessions printed."""

import json
import shutil
import tempfile
from pathlib import Path

import pytest
from daemons import CAYD, end_background, serving
from launching import until
from support import TIER, cay, need_cay, ok, own, refused, start


@pytest.fixture(scope="module")
def state():
    need_cay()
    if not CAYD.exists():
        pytest.skip("cayd is not built: ninja -C build")
    path = Path(tempfile.mkdtemp(prefix="logs-", dir="/tmp"))
    path.chmod(0o755)
    own(path)
    yield path / "state"
    names = cay("ls", "--state-dir", path / "state", "-aq").stdout.decode().split()
    if names:
        cay("rm", "--state-dir", path / "state", "-f", *names)
    end_background(path / "state")
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def verb(state):
    return lambda name, *args, **more: cay(name, "--state-dir", state, *args, **more)


@pytest.fixture(scope="module")
def box(verb, state):
    name = ok(verb("create", *TIER, "--name", "lab")).strip()
    ok(cay("session", "create", "--state-dir", state, name, "build"))
    for text in ("echo one; echo two; echo odd >&2", "printf 'three\nfour'"):
        ok(cay("session", "exec", "--state-dir", state, name, "build", "--", text))
    return name


def states(text):
    return [line.split("  ", 1)[1] for line in text.splitlines()]


def test_states_with_their_times(verb):
    name = ok(verb("create", *TIER)).strip()
    ok(verb("stop", name))
    lines = ok(verb("logs", name))
    assert states(lines)[0] == "creating" and states(lines)[-2:] == ["stopping", "stopped"]
    assert "started" in states(lines)
    assert states(ok(verb("logs", "--tail", "1", name))) == ["stopped"]
    assert ok(verb("logs", "-n", "0", name)) == ""
    rows = [json.loads(line) for line in ok(verb("logs", "-o", "json", name)).splitlines()]
    assert [r["state"] for r in rows] == states(lines) and rows[0]["time"] in lines
    ok(verb("rm", name))
    refused(verb("logs", name), "no sandbox", code=3)


def test_following_a_sandbox_until_it_is_gone(verb, state):
    name = ok(verb("create", *TIER)).strip()
    follower = start("logs", "-f", "--tail", "1", "--state-dir", state, name)
    assert b"started" in follower.stdout.readline()
    ok(verb("stop", name))
    assert b"stopping" in follower.stdout.readline()
    assert b"stopped" in follower.stdout.readline()
    ok(verb("rm", name))
    rest, err = follower.communicate(timeout=60)
    assert (follower.returncode, err) == (0, b"")
    assert not rest or b"destroying" in rest


@pytest.mark.parametrize("args, out, err", [
    (["build"], "one\ntwo\nthree\nfour", "odd\n"),
    (["build/1"], "one\ntwo\n", "odd\n"),
    (["build/2"], "three\nfour", ""),
    (["--tail", "1", "build"], "four", "odd\n"),
    (["--tail", "3", "build"], "two\nthree\nfour", "odd\n"),
    (["--tail", "0", "build"], "", ""),
    (["-f", "build/2"], "three\nfour", ""),
])
def test_output_of_a_session(verb, box, args, out, err):
    options, session = args[:-1], args[-1]
    done = verb("logs", *options, box, session)
    assert (done.returncode, done.stdout.decode(), done.stderr.decode()) == (0, out, err)


@pytest.mark.parametrize("args, part, code", [
    (["build/9"], "no command 9", 3),
    (["build/x"], "not the number", 2),
    (["build/0"], "not the number", 2),
    (["nothing"], "no session", 3),
    (["x" * 100], "as long as", 3),
    (["-f", "--tail", "1", "build"], "--tail and --follow", 2),
])
def test_what_is_refused(verb, box, args, part, code):
    refused(verb("logs", *args[:-1], box, args[-1]), part, code=code)


def test_why_it_stopped(folder):
    """Nothing was done in it for as long as the manager allows."""
    env = {"CAY_MANAGER_IDLE_TIMEOUT": "1", "CAY_MANAGER_CLEANUP_INTERVAL": "1"}
    with serving(folder, env=env) as daemon:
        box = daemon.create(name="idle")
        assert until(lambda: daemon.state_of("idle") == "stopped")
        events = daemon.call("GET", f"/api/cay/sandbox/{box['id']}/events")
        assert "nothing was done" in " ".join(e["text"] for e in events)
        last = events[-1]["number"]
        assert daemon.call("GET", f"/api/cay/sandbox/idle/events?after={last}") == []
        assert daemon.ask("GET", "/api/cay/sandbox/idle/events?after=x").status == 400
        assert daemon.ask("GET", "/api/cay/sandbox/nobody/events").status == 404


def test_why_a_command_was_ended(folder):
    """A limit that ends a command leaves an event, which `cay logs` shows, and a line in the log."""
    with serving(folder) as daemon:
        box = daemon.create(name="lab", memory="64m")["id"]
        toolbox = f"/toolbox/{box}"
        daemon.ask("POST", f"{toolbox}/process/execute", {"command": "sleep 1000", "timeout": 1})
        hog = {"command": "python3 -c 'x = bytearray(1 << 30)'", "timeout": 60}
        assert daemon.ask("POST", f"{toolbox}/process/execute", hog).status == 200

        def events():
            return " ".join(e["text"] for e in daemon.call("GET", f"/api/cay/sandbox/{box}/events"))

        for why in ("longer than its time limit", "ran out of memory"):
            assert why in events()
            assert why in daemon.log.read_text()
