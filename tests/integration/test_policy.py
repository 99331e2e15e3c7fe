"""What happens to sandboxes in the end, and in between: stops with a grace, failures and what
follows them, removals that wait."""

import contextlib
import json
import os
import signal
import socket
import tempfile
import threading
import time
from pathlib import Path

import pytest
import support
from daemons import Refused, children, serving
from launching import until


@pytest.fixture(scope="module")
def daemon():
    with tempfile.TemporaryDirectory(prefix="policy-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        support.own(folder)
        with serving(folder, env={"CAY_MANAGER_STOP_TIMEOUT": "50"}) as one:
            yield one


@pytest.fixture
def box(daemon):
    made = daemon.create()["id"]
    yield made
    daemon.ask("DELETE", f"/api/cay/sandbox/{made}?force=true")


class Running(threading.Thread):
    """A command that is under way: begun when this is made."""

    def __init__(self, daemon, who, script):
        super().__init__()
        self.result = None
        self.connection = daemon.connect(who)
        self.connection.exec("sh", "-c", script)
        daemon_ready = lambda: daemon.exec(who, "test", "-e", "/tmp/ready")[0] == 0
        assert until(daemon_ready)
        self.start()

    def run(self):
        with self.connection:
            try:
                self.result = self.connection.finish()[:2]
            except Exception as error:  # the sandbox ended
                self.result = error

    def end(self):
        self.join(60)
        assert not self.is_alive()
        return self.result


SOON = 45  # far less than what does not end by itself is given, on a busy machine too


def stop(daemon, who, query=""):
    began = time.monotonic()
    assert daemon.call("POST", f"/api/cay/sandbox/{who}/stop{query}")["state"] == "stopped"
    return time.monotonic() - began


# ---- stopping ----

def test_commands_get_sigterm(daemon, box):
    command = Running(daemon, box, "trap 'echo bye; exit 7' TERM; touch /tmp/ready; "
                                   "while :; do sleep 0.1; done")
    assert stop(daemon, box) < SOON
    code, text = command.end()
    assert code == 7 and "bye\n" in text  # the shell may tell of its sleep too


def test_default_action_of_sigterm(daemon, box):
    command = Running(daemon, box, "touch /tmp/ready; exec sleep 1000")
    assert stop(daemon, box) < SOON
    assert command.end() == (143, "")


def test_background_processes_get_sigterm(daemon, box):
    script = ("(trap 'echo ended > /workspace/note; exit' TERM; touch /tmp/ready; "
              "while :; do sleep 0.1; done) >/dev/null 2>&1 </dev/null &")
    assert daemon.exec(box, "sh", "-c", script)[0] == 0
    assert until(lambda: daemon.exec(box, "test", "-e", "/tmp/ready")[0] == 0)
    assert stop(daemon, box) < SOON
    daemon.call("POST", f"/api/cay/sandbox/{box}/start")
    assert daemon.exec(box, "cat", "/workspace/note") == (0, "ended\n")


def test_what_ignores_sigterm_is_killed(daemon, box):
    command = Running(daemon, box, "trap '' TERM HUP; touch /tmp/ready; while :; do sleep 0.1; done")
    assert 0.4 <= stop(daemon, box, "?grace=400ms") < SOON
    assert not isinstance(command.end(), tuple)


def test_no_grace_at_all(daemon, box):
    Running(daemon, box, "trap '' TERM; touch /tmp/ready; while :; do sleep 0.1; done")
    assert stop(daemon, box, "?force=true") < SOON


@pytest.mark.parametrize("grace", ["nonsense", "-1s", "2h"])
def test_bad_grace(daemon, box, grace):
    with pytest.raises(Refused) as refused:
        daemon.call("POST", f"/api/cay/sandbox/{box}/stop?grace={grace}")
    assert refused.value.status == 400
    assert daemon.state_of(box) == "started"


# ---- failures ----

def kill_init(daemon, who):
    """Its PID 1, as the host sees it, dies."""
    record = (daemon.state / "sandboxes" / who / "record").read_text()
    pid = next(int(line.split("=")[1]) for line in record.splitlines() if line.startswith("pid = "))
    os.kill(pid, signal.SIGKILL)


needs_root = pytest.mark.skipif(bool(support.USER), reason="its processes are another user's")


@needs_root
def test_recreate(daemon):
    who = daemon.create(onFailure="recreate")["id"]
    try:
        assert daemon.exec(who, "sh", "-c", "echo kept > /workspace/file")[0] == 0
        kill_init(daemon, who)
        assert until(lambda: runs(daemon, who, "/workspace/file"))
    finally:
        daemon.call("DELETE", f"/api/cay/sandbox/{who}?force=true")


def runs(daemon, who, path):
    try:
        return daemon.exec(who, "cat", path)[0] == 0
    except (AssertionError, OSError, EOFError):
        return False


@needs_root
def test_keep_and_recover(daemon, box):
    kill_init(daemon, box)
    assert until(lambda: daemon.state_of(box) == "error")
    assert "SIGKILL" in daemon.call("GET", f"/api/cay/sandbox/{box}")["errorReason"]
    assert daemon.call("POST", f"/api/cay/sandbox/{box}/recover")["state"] == "started"
    assert daemon.exec(box, "true")[0] == 0


@needs_root
def test_remove_on_failure(daemon):
    who = daemon.create(onFailure="remove")["id"]
    kill_init(daemon, who)
    assert until(lambda: daemon.get(f"/api/cay/sandbox/{who}").status == 404)


def test_bad_policy(daemon):
    with pytest.raises(Refused) as refused:
        daemon.create(onFailure="panic")
    assert refused.value.status == 400 and "recreate" in refused.value.error["remedy"]


# ---- removal ----

def test_removal_waits(daemon):
    who = daemon.create()["id"]
    command = Running(daemon, who, "touch /tmp/ready; while [ ! -e /tmp/go ]; do sleep 0.05; done")
    assert daemon.ask("DELETE", f"/api/cay/sandbox/{who}").status == 409
    answers = []
    remover = threading.Thread(
        target=lambda: answers.append(daemon.ask("DELETE", f"/api/cay/sandbox/{who}?wait=true").status))
    remover.start()
    assert daemon.exec(who, "touch", "/tmp/go")[0] == 0
    assert command.end() == (0, "")
    remover.join(60)
    assert answers == [204] and daemon.get(f"/api/cay/sandbox/{who}").status == 404


# ---- creations that nobody waits for ----

def test_create_without_waiting(daemon):
    wishes = {"tier": "basic"} if support.USER else {}
    made = daemon.call("POST", "/api/cay/sandbox?wait=false", wishes)
    try:
        assert made["state"] == "creating" and made["progress"] and made["errorReason"] is None
        assert daemon.exec(made["id"], "true")[0] == 0  # who comes early waits
        now = daemon.call("GET", f"/api/cay/sandbox/{made['id']}")
        assert now["state"] == "started" and now["progress"] is None
    finally:
        daemon.call("DELETE", f"/api/cay/sandbox/{made['id']}?force=true")


def test_failed_creation_stays(daemon):
    made = daemon.call("POST", "/api/cay/sandbox?wait=false", {"image": "127.0.0.1:9/nothing:here"})
    who = f"/api/cay/sandbox/{made['id']}"
    assert until(lambda: daemon.state_of(made["id"]) == "error")
    assert daemon.call("GET", who)["errorReason"]
    assert daemon.ask("POST", who + "/start").status >= 400
    assert daemon.ask("DELETE", who).status == 204


def test_removal_ends_a_pull(daemon):
    """A registry that never answers, and nobody who waits for it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        image = f"127.0.0.1:{silent.getsockname()[1]}/slow:image"
        made = daemon.call("POST", "/api/cay/sandbox?wait=false", {"image": image})
        assert until(lambda: pulls(daemon))
        began = time.monotonic()
        assert daemon.ask("DELETE", f"/api/cay/sandbox/{made['id']}").status == 204
        assert time.monotonic() - began < 50  # a registry may be silent for 30 s, twice
        assert until(lambda: not pulls(daemon))


def pulls(daemon):
    found = []
    for child in children(daemon.process.pid):
        with contextlib.suppress(OSError):  # it ended
            if b"ensure" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
    return found


# ---- changes ----

def test_resize(daemon, box):
    try:
        now = daemon.call("POST", f"/api/cay/sandbox/{box}/resize", {"memory": "96m", "cpu": 1})
    except Refused as refused:
        assert support.USER and refused.status == 501  # without a control group
        return
    assert now["memory"] == 96 << 20 and now["cpus"] == 1
    stats = daemon.call("GET", f"/api/cay/sandbox/{box}/stats")
    assert stats["memoryLimit"] == 96 << 20
    eat = "head -c 200m /dev/zero | tail -c 190m | wc -c"
    assert daemon.exec(box, "sh", "-c", eat)[1].strip() != str(190 << 20)


def test_resize_of_a_stopped_one(daemon, box):
    stop(daemon, box)
    assert daemon.call("POST", f"/api/cay/sandbox/{box}/resize", {"pids": 7})["pids"] == 7
    assert daemon.call("POST", f"/api/cay/sandbox/{box}/start")["pids"] == 7


@pytest.mark.parametrize("wish", [{"memory": 1}, {"cpus": 5000}, {"pids": 0}, {"memory": "9000t"},
                                  {"disk": "1m"}, {"memroy": 1}, {"autoStopInterval": 1}])
def test_bad_resize(daemon, box, wish):
    before = daemon.call("GET", f"/api/cay/sandbox/{box}")
    answer = daemon.ask("POST", f"/api/cay/sandbox/{box}/resize", wish)
    assert answer.status == 400, answer.text
    assert daemon.call("GET", f"/api/cay/sandbox/{box}") == before


def test_intervals(daemon, box):
    path = f"/api/cay/sandbox/{box}"
    assert daemon.call("POST", path + "/autostop/30")["autoStopInterval"] == 30
    assert daemon.call("POST", path + "/autoarchive/60")["autoArchiveInterval"] == 60
    assert daemon.call("POST", path + "/autodelete/0")["autoDeleteInterval"] == 0
    assert daemon.call("POST", path + "/autodelete/-1")["autoDeleteInterval"] == -1
    for bad in ("autostop/-1", "autostop/x", "autostop/99999999999", "autodelete/-2"):
        assert daemon.ask("POST", f"{path}/{bad}").status == 400
    assert daemon.ask("POST", path + "/autofoo/1").status == 404


def test_update_verb(daemon, box):
    def verb(*words):
        return support.cay("update", "--state-dir", daemon.state, "-o", "json", box, *words)
    done = verb("--label", "team=a", "--label", "old=1", "--auto-stop", "90s", "--on-failure",
                "recreate")
    assert done.returncode == 0, done.stderr
    now = json.loads(done.stdout)
    assert now["labels"] == {"team": "a", "old": "1"} and now["autoStopInterval"] == 2
    assert now["onFailure"] == "recreate"
    now = json.loads(verb("--label", "old-", "--auto-stop", "never").stdout)
    assert now["labels"] == {"team": "a"} and now["autoStopInterval"] == 0
    assert verb().returncode == verb("--label", "nothing").returncode == 2
