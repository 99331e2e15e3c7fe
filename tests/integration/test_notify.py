"""What systemd is told (sd_notify), the line at start, and the log in JSON."""

import contextlib
import json
import os
import re
import select
import signal
import socket
import time

import pytest
import support
from daemons import LocalHTTP, end_background, serving
from launching import until
from test_truth import record_of


@pytest.fixture(autouse=True)
def needs(clean_host):
    support.need_cay()


class Systemd:
    """The receiving end of NOTIFY_SOCKET."""

    def __init__(self, folder):
        self.path = str(folder / "notify")
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(self.path)
        os.chmod(self.path, 0o777)
        self.lines = []

    def read(self):
        while select.select([self.sock], [], [], 0)[0]:
            self.lines += self.sock.recv(4096).decode().split("\n")
        return self.lines

    def has(self, line):
        return until(lambda: line in self.read(), 60)

    def forget(self):
        self.read()
        self.lines = []


@contextlib.contextmanager
def served(folder, *options, **more):
    systemd = Systemd(folder)
    with serving(folder, *options, env={"NOTIFY_SOCKET": systemd.path, **more}) as daemon:
        yield daemon, systemd


def test_states(folder):
    with served(folder) as (daemon, systemd):
        assert systemd.has("READY=1") and systemd.has("STATUS=Serving")
        assert systemd.has("WATCHDOG=1")
        systemd.forget()
        daemon.process.send_signal(signal.SIGHUP)
        assert systemd.has("RELOADING=1") and systemd.has("READY=1")
        assert any(re.fullmatch(r"MONOTONIC_USEC=\d+", line) for line in systemd.read())
        assert systemd.read().index("RELOADING=1") < systemd.read().index("READY=1")
        systemd.forget()
        daemon.stop()
        assert "STOPPING=1" in systemd.read()
        daemon.start()


def is_silent(systemd, seconds=6):
    """No sign of life comes for so long: three of its rounds."""
    systemd.forget()
    time.sleep(seconds)
    return "WATCHDOG=1" not in systemd.read()


@pytest.mark.parametrize("name", ["cay-launcher", "cayd-front"])
def test_the_watchdog_gets_nothing_from_who_hangs(folder, name):
    with served(folder) as (daemon, systemd):
        assert systemd.has("WATCHDOG=1")
        pid = daemon.child(name)
        support.suspend(pid)
        try:
            assert until(lambda: is_silent(systemd), 90)
        finally:
            os.kill(pid, signal.SIGCONT)
        assert systemd.has("WATCHDOG=1")


def test_the_line_at_start(folder):
    with serving(folder) as daemon:
        boxes = [daemon.create()["id"] for _ in range(3)]
        daemon.ask("POST", f"/api/cay/sandbox/{boxes[0]}/stop?force=true")
        daemon.stop()
        daemon.start()
        first, second = (line for line in daemon.log.read_text().splitlines()
                         if " event=serving " in line)
        for part in ("version=", f"socket={daemon.socket}", "listen=none", "engine=native", "config="):
            assert part in first, first
        assert 'adopted="0 of 0 in ' in first
        assert 'adopted="2 of 2 in ' in second


def line_of(daemon, event):
    """The fields of the only line of an event."""
    line, = (line for line in daemon.log.read_text().splitlines() if f" event={event} " in line)
    return dict(part.split("=", 1) for part in line.split(" ") if "=" in part)


def test_the_lines_of_a_stop(folder):
    """Who ended it, what became of requests, and how long it took."""
    with serving(folder) as daemon:
        box = daemon.create()["id"]
        slow = LocalHTTP(daemon.socket)
        slow.request("POST", f"/toolbox/{box}/process/execute", json.dumps({"command": "touch /tmp/begun; sleep 2"}))
        assert until(lambda: daemon.exec(box, "test", "-e", "/tmp/begun")[0] == 0)
        daemon.process.send_signal(signal.SIGTERM)
        assert slow.getresponse().status == 200
        daemon.stop()
        stopping, stopped = line_of(daemon, "stopping"), line_of(daemon, "stopped")
        ended = line_of(daemon, '"serving ended"')
        assert stopping["signal"] == "SIGTERM" and stopping["sender"] == str(os.getpid())
        assert (ended["requests"], ended["unfinished"], ended["refused"]) == ("1", "0", "0"), ended
        assert 0 <= int(ended["ms"]) <= int(stopped["ms"])
        daemon.start()


def test_a_cycle_is_a_line_for_each_request(folder):
    with serving(folder) as daemon:
        def lines():
            return daemon.log.read_text().splitlines()[before:]
        before = len(daemon.log.read_text().splitlines())
        box = daemon.create()["id"]
        daemon.call("POST", f"/toolbox/{box}/process/execute", {"command": "true"})
        daemon.call("DELETE", f"/api/cay/sandbox/{box}?force=true")
        assert until(lambda: any("method=DELETE" in line for line in lines()))
        assert [re.search(r"method=(\w+)", line)[1] for line in lines()] == ["POST", "POST", "DELETE"]


def test_a_failure_is_one_line(folder):
    with serving(folder) as daemon:
        box = daemon.create(onFailure="keep")["id"]
        before = len(daemon.log.read_text().splitlines())
        os.kill(record_of(daemon, box)["pid"], signal.SIGKILL)
        assert until(lambda: daemon.call("GET", f"/api/cay/sandbox/{box}")["state"] == "error", 60)
        lines = [line for line in daemon.log.read_text().splitlines()[before:] if "level=warn" in line]
        assert len(lines) == 1 and "sandbox ended unasked" in lines[0], lines


def test_the_log_in_the_background_is_bounded(folder):
    """What is older is in log.1, once; that of a stop stands in it too."""
    state = folder / "state"
    state.mkdir()
    support.own(state)
    log = state / "daemon" / "log"
    try:
        support.ok(support.cay("ls", "--state-dir", state))
        end_background(state)
        assert " event=stopping " in log.read_text() and " event=stopped " in log.read_text()
        with open(log, "ab") as f:
            f.write(b"x" * (17 << 20) + b"\n")
        support.ok(support.cay("ls", "--state-dir", state))
        assert until(lambda: log.stat().st_size < 1 << 20, 60)
        assert (state / "daemon" / "log.1").stat().st_size > 17 << 20
    finally:
        end_background(state)


def test_the_log_in_json(folder):
    with serving(folder, "--log-level", "debug", "--log-format", "json") as daemon:
        daemon.get("/api/cay/sandbox/" + "q%22%5C%C3%A4" * 20)
        daemon.get("/api/cay/sandbox/" + "x" * 3000)
        daemon.create(name="lab")
        assert until(lambda: "/api/cay/sandbox/{who}" in daemon.log.read_text())
        lines = [json.loads(line) for line in daemon.log.read_text().splitlines()]
        for line in lines:
            assert {"time", "level", "event"} <= set(line), line
            assert all(isinstance(value, str) for value in line.values())
        assert any(line.get("sandbox", "").startswith('q"\\ä') for line in lines)
        assert any(line["event"] == "serving" for line in lines)


def test_an_unknown_format(folder):
    with serving(folder) as daemon:
        process = daemon.spawn("--log-format", "xml", stderr=-1)
        assert "use text or json" in process.communicate(timeout=60)[1].decode()
        assert process.returncode == 2
