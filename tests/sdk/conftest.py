"""A daemon for the SDK suites, with a key and an image, as a user would have it."""

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
from test_tls import make_authority, make_certificate, settings  # noqa: E402


class Service:
    """Where a daemon is, and the key to it."""

    def __init__(self, daemon, port, scheme="http"):
        self.daemon = daemon
        self.port = port
        self.url = f"{scheme}://127.0.0.1:{port}/api"
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


@pytest.fixture
def encrypted():
    """The same by TLS, and the authority that the client has to trust."""
    if support.USER or shutil.which("openssl") is None:
        pytest.skip("needs openssl, and the highest tier")
    folder = Path(tempfile.mkdtemp(prefix="tls-", dir="/tmp"))
    folder.chmod(0o755)
    port = free_port()
    try:
        make_authority(folder / "ca")
        cert, key = make_certificate(folder / "ca", "sdk", folder / "ca")
        with serving(folder, "--listen", f"127.0.0.1:{port}", env=settings(cert, key)) as daemon:
            yield Service(daemon, port, "https"), folder / "ca" / "ca.pem"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def image(service):
    """The name of an image in the daemon's store: a shell, and little else."""
    return load_image(service)


def load_image(service):
    if support.is_sanitized():
        pytest.skip("cay-init with a sanitizer needs libraries of the host")
    return Store(service.daemon.state).load("sdk-base", [base()])


def fetch():
    """What npm says if it fails, twice: registries have bad moments."""
    for _ in range(2):
        result = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-progress",
                                 "--prefer-offline"], cwd=HERE, capture_output=True, timeout=600,
                                text=True, stdin=subprocess.DEVNULL)
        if result.returncode == 0:
            return None
    return result.stderr.strip()[-300:]


@pytest.fixture(scope="session")
def packages():
    """The SDKs of package-lock.json, fetched once."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("needs node and npm: scripts/setup --test")
    lock = (HERE / "package-lock.json").read_bytes()
    fetched = HERE / "node_modules" / ".fetched"  # of which lock file
    if not fetched.exists() or fetched.read_bytes() != lock:
        why = fetch()
        if why:
            pytest.skip(f"the SDKs cannot be fetched: {why}")
        fetched.write_bytes(lock)
    return HERE
