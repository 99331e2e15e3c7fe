"""A daemon for the SDK suites, with a key and an image, as a user would have it."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))
sys.path.insert(0, str(HERE))

import support  # noqa: E402
from daemons import free_port, serving  # noqa: E402
from test_run_image import Store, base  # noqa: E402


class Service:
    """Where a daemon is, and the key to it."""

    def __init__(self, daemon, port):
        self.daemon = daemon
        self.port = port
        self.url = f"http://127.0.0.1:{port}/api"
        self.key = (daemon.state / "admin.key").read_text().strip()


@pytest.fixture(scope="session")
def service():
    if support.USER:
        pytest.skip("the SDK cannot ask for a lower tier")
    folder = Path(tempfile.mkdtemp(prefix="box-", dir="/tmp"))
    folder.chmod(0o755)
    port = free_port()
    try:
        with serving(folder, "--listen", f"127.0.0.1:{port}") as daemon:
            yield Service(daemon, port)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def image(service):
    """The name of an image in the daemon's store: a shell, and little else."""
    if support.is_sanitized():
        pytest.skip("cay-init with a sanitizer needs libraries of the host")
    return Store(service.daemon.state).load("sdk-base", [base()])


@pytest.fixture(scope="session")
def packages():
    """The SDKs of package-lock.json, fetched once."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("needs node and npm: scripts/setup --test")
    done = HERE / "node_modules" / ".package-lock.json"
    lock = HERE / "package-lock.json"
    if not done.exists() or done.stat().st_mtime < lock.stat().st_mtime:
        result = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-progress"], cwd=HERE,
                                capture_output=True, timeout=600, text=True,
                                env={**os.environ, "NO_UPDATE_NOTIFIER": "1"})
        if result.returncode != 0:
            pytest.skip("the SDKs cannot be fetched: " + result.stderr.strip()[-300:])
    return HERE
