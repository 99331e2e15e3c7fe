"""Lets every suite import tests/support.py, and gives all of them its fixtures."""

import atexit
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import support  # noqa: E402
from runner.report import Report  # noqa: E402
from support import clean_host, folder  # noqa: E402, F401


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
