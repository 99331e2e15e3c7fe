"""No limit is shown that nobody keeps: a daemon of an ordinary user without control groups, whose
sandboxes have the tier basic because that was chosen by hand."""

import json

import pytest
import support
from docking import opened, refusal
from engines import NativeRootless

pytestmark = pytest.mark.skipif(bool(support.USER), reason="root makes the ordinary user's daemon")


@pytest.fixture(scope="module")
def engine():
    with opened(NativeRootless) as found:
        if "memory" not in found.cannot:
            pytest.skip("ordinary users have control groups here, and limits are kept")
        yield found


@pytest.fixture(scope="module")
def box(engine):
    about = engine.daemon.call("POST", "/api/cay/sandbox",
                               {"tier": "basic", "memory": 256 << 20, "cpus": 0.5, "pids": 50})
    yield about
    engine.daemon.call("DELETE", f"/api/cay/sandbox/{about['id']}?force=true")


def test_the_api_shows_none(engine, box):
    for about in (box, engine.daemon.call("GET", f"/api/cay/sandbox/{box['id']}"),
                  engine.daemon.call("GET", "/api/cay/sandbox")[0]):
        assert (about["memory"], about["cpus"], about["pids"]) == (0, 0, 50)
        assert about["limitsNotKept"].startswith("memory and cpus: ")
        assert "cay doctor" in about["limitsNotKept"]
    assert engine.daemon.call("GET", f"/api/cay/sandbox/{box['id']}/stats")["memoryLimit"] == 0
    daytona = engine.daemon.call("GET", f"/api/sandbox/{box['id']}")
    assert (daytona["memory"], daytona["cpu"]) == (0, 0)


def test_the_commands_show_none(engine, box):
    def cay(*words):
        done = engine.cay(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout if isinstance(done.stdout, str) else done.stdout.decode()
    told = dict(line.split(None, 1) for line in cay("info", box["id"]).splitlines())
    assert (told["memory"], told["cpus"]) == ("no limit", "no limit") and told["not"].startswith("kept")
    row = cay("ls").splitlines()[1].split()
    assert row[4:6] == ["none", "none"], row
    assert json.loads(cay("info", "-o", "json", box["id"]))["memory"] == 0


def test_what_was_asked_for_is_reported(engine):
    done = engine.cay("create", "--tier", "basic", "--memory", "256m", "--name", "told")
    text = done.stderr if isinstance(done.stderr, str) else done.stderr.decode()
    assert done.returncode == 0 and "no limit of memory and cpus" in text, text
    assert engine.cay("rm", "-f", "told").returncode == 0
    done = engine.cay("create", "--tier", "basic", "--name", "silent")
    text = done.stderr if isinstance(done.stderr, str) else done.stderr.decode()
    assert done.returncode == 0 and "no limit of" not in text, text
    assert engine.cay("rm", "-f", "silent").returncode == 0


def test_they_cannot_be_changed(engine, box):
    for wish in ({"memory": 512 << 20}, {"cpus": 1}):
        status, _, _ = refusal(engine.daemon.call, "POST", f"/api/cay/sandbox/{box['id']}/resize", wish)
        assert status == 501, status
