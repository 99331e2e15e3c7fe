"""Lets every suite import tests/support.py, and gives all of them its fixtures."""

import atexit
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import support  # noqa: E402
from runner.report import Report  # noqa: E402
from support import CAY, clean_host, folder, state_dir, until  # noqa: E402, F401

DAEMON = []  # that runs beside the tests, if CAY_TEST_DAEMON asks for one


def pytest_configure(config):
    """A folder for temporary files that is this run's own: another run as the same user would close
    the one that they would share to the ordinary users of our tests."""
    scratch = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
    scratch.chmod(0o755)
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(scratch)
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)  # after pytest's own clean-up
    # What we start has Ctrl-C, also if we were started in the background, where it is ignored, and
    # SIGHUP, which nohup ignores.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    report = os.environ.pop("CAY_TEST_REPORT", "")  # popped: tests run pytest themselves
    if report:
        plugin = Report(report)
        config.pluginmanager.register(plugin)
        support.note_retry = plugin.retried
    if os.environ.get("CAY_TEST_DAEMON"):
        start_daemon()


def start_daemon():
    """One that serves the state folder of the tests, so that `cay run` takes its sandboxes from there."""
    daemon = subprocess.Popen([CAY.parent / "cayd", "--state-dir", state_dir()], stdin=subprocess.DEVNULL)
    DAEMON.append(daemon)
    atexit.register(daemon.wait)
    atexit.register(daemon.terminate)
    run = [CAY, "run", "--verbose", "--", "true"]
    assert until(lambda: b"prepared by" in subprocess.run(run, capture_output=True, stdin=subprocess.DEVNULL).stderr)


def pytest_terminal_summary(terminalreporter):
    """How many sandboxes came from the daemon."""
    if not DAEMON:
        return
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(state_dir() / "daemon/cay.sock"))
        s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        page = b"".join(iter(lambda: s.recv(65536), b"")).decode()
    count = sum(int(n) for n in re.findall(r"cay_prepared_total\{[^}]*\} (\d+)", page))
    terminalreporter.write_line(f"prepared by the daemon: {count}")
