"""A state folder whose file system becomes read-only under the daemon, as ext4 does after an error of the disk."""

import contextlib
import subprocess

import pytest
from daemons import Daemon, own_folder
from support import as_root_only, needs_ids

pytestmark = [as_root_only, needs_ids]


@contextlib.contextmanager
def file_system(folder):
    """A small ext4, mounted below the folder."""
    image, place = folder / "image", folder / "place"
    with open(image, "wb") as f:
        f.truncate(400 << 20)
    place.mkdir()
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    subprocess.run(["mount", "-o", "loop,errors=remount-ro", image, place], check=True)
    try:
        place.chmod(0o755)
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture(scope="module")
def daemon():
    with own_folder() as folder, file_system(folder) as place:
        d = Daemon(place, env={"CAY_MANAGER_DISK_RESERVE": "0"})
        d.log = folder / "log"
        d.box = d.create(name="before", disk="32m")["id"]
        d.call("POST", "/api/cay/volumes", {"name": "data"})
        subprocess.run(["mount", "-o", "remount,abort", place], check=True)
        yield d
        d.kill()


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
    print(answer.status, answer.text)
    assert answer.status in (503, 507), answer.text
    assert answer.json()["remedy"]


def test_what_is_there_can_be_read(daemon):
    assert [b["name"] for b in daemon.list()] == ["before"]
    assert daemon.get("/livez").status == 200
    health = daemon.get("/healthz")
    assert health.status == 503, health.text


def test_a_long_output_says_what_is_missing(daemon):
    """It is kept in the state folder; the program itself needs none."""
    done = daemon.call("POST", "/api/cay/python", {"code": "print('x' * 3000000)"})
    assert done["exit_code"] == 0 and done["output_truncated"] and len(done["stdout"]) > 500000
