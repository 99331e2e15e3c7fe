"""A state folder whose file system becomes read-only under the daemon, as ext4 does after an error of the disk, or has no
inodes left: each answer has the exact class."""

import contextlib
import hashlib
import subprocess

import pytest
from daemons import Daemon, free_port, own_folder
from launching import until
from support import as_root_only, needs_ids
from test_contexts import Bucket, tar
from test_daytona_control import Sdk

pytestmark = [as_root_only, needs_ids]


@contextlib.contextmanager
def file_system(folder, *options):
    """A small ext4, mounted below the folder."""
    image, place = folder / "image", folder / "place"
    with open(image, "wb") as f:
        f.truncate(400 << 20)
    place.mkdir()
    subprocess.run(["mkfs.ext4", "-q", *options, image], check=True)
    subprocess.run(["mount", "-o", "loop,errors=remount-ro", image, place], check=True)
    try:
        place.chmod(0o755)
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@contextlib.contextmanager
def daemon_on(folder, place):
    """With a sandbox, a volume, and credentials for uploads. No reserve: the file system itself refuses."""
    port = free_port()
    d = Daemon(place, "--listen", f"127.0.0.1:{port}", env={"CAY_MANAGER_DISK_RESERVE": "0"})
    d.log = folder / "log"
    d.box = d.create(name="before", disk="32m")["id"]
    d.call("POST", "/api/cay/volumes", {"name": "data"})
    d.bucket = Bucket(Sdk(port, (d.state / "admin.key").read_text().strip()))
    try:
        yield d
    finally:
        d.kill()


@pytest.fixture(scope="module")
def daemon():
    with own_folder() as folder, file_system(folder) as place, daemon_on(folder, place) as d:
        subprocess.run(["mount", "-o", "remount,abort", place], check=True)
        yield d


@pytest.fixture(scope="module")
def crowded():
    """No file can be made any more."""
    with own_folder() as folder, file_system(folder, "-N", "512") as place, daemon_on(folder, place) as d:
        crowd = place / "crowd"
        crowd.mkdir()
        with contextlib.suppress(OSError):
            for number in range(1024):
                (crowd / str(number)).touch()
        yield d


def upload_context(daemon):
    body = tar(("file", b"text"))
    return daemon.bucket.send("PUT", daemon.bucket.key(hashlib.md5(body).hexdigest()), body)


CHANGES = [
    ("POST", "/api/cay/sandbox", {}),
    ("POST", "/api/cay/volumes", {"name": "more"}),
    ("DELETE", "/api/cay/volumes/data", None),
    ("POST", "/api/cay/api-keys", {"name": "key"}),
    ("PUT", "/api/cay/sandbox/before/labels", {"labels": {"a": "b"}}),
    ("POST", "/api/cay/sandbox/before/rename", {"name": "after"}),
    ("POST", "/api/cay/sandbox/before/archive", None),
    ("POST", "/api/sandbox/before/backup", None),
    ("POST", "/api/snapshots", {"name": "s:1", "buildInfo": {"dockerfileContent": "FROM scratch\nRUN true\n"}}),
    ("DELETE", "/api/cay/sandbox/before", None),
]


@pytest.mark.parametrize("method, path, body", CHANGES, ids=[f"{m} {p}" for m, p, _ in CHANGES])
def test_a_change_is_refused_with_the_reason(daemon, method, path, body):
    answer = daemon.ask(method, path, body)
    assert answer.status == 503, answer.text
    assert "mount it writable" in answer.text


def test_a_context_is_refused_with_the_reason(daemon):
    status, text = upload_context(daemon)
    assert status == 503 and "read-only" in text.lower(), (status, text)


def test_what_is_there_can_be_read(daemon):
    assert [b["name"] for b in daemon.list()] == ["before"]
    assert daemon.get("/livez").status == 200
    health = daemon.get("/healthz")
    assert health.status == 503, health.text


def test_a_long_output_says_what_is_missing(daemon):
    """It is kept in the state folder; the program itself needs none."""
    done = daemon.call("POST", "/api/cay/python", {"code": "print('x' * 3000000)"})
    assert done["exit_code"] == 0 and done["output_truncated"] and len(done["stdout"]) > 500000


# ---- no inodes ----

MAKES = [
    ("POST", "/api/cay/sandbox", {"disk": "32m"}),
    ("POST", "/api/cay/volumes", {"name": "more"}),
    ("POST", "/api/snapshots", {"name": "s:1", "buildInfo": {"dockerfileContent": "FROM scratch\nRUN true\n"}}),
]


@pytest.mark.parametrize("method, path, body", MAKES, ids=[f"{m} {p}" for m, p, _ in MAKES])
def test_without_inodes_nothing_is_made(crowded, method, path, body):
    answer = crowded.ask(method, path, body)
    assert answer.status == 507, answer.text
    assert crowded.get("/api/cay/sandbox/before").json()["state"] == "started"


def test_without_inodes_a_context_is_refused(crowded):
    status, text = upload_context(crowded)
    assert status == 507, (status, text)


def test_without_inodes_a_long_output_says_what_is_missing(crowded):
    done = crowded.call("POST", "/api/cay/python", {"code": "print('x' * 3000000)"})
    assert done["exit_code"] == 0 and done["output_truncated"] and len(done["stdout"]) > 500000


def test_without_inodes_what_is_there_can_be_used(crowded):
    assert crowded.exec("before", "sh", "-c", "echo text >f; cat f") == (0, "text\n")
    assert until(lambda: crowded.get("/healthz").status == 503, 60)
