"""The same suites as an ordinary user: one who has nothing but his own id, and one with subordinate
ids. The user is nobody, who is on every host; his state folder is a temporary one, and his
subordinate ids are given in a mount namespace of the test's own."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from support import BUILD, CAY, FULL, ROOT, USER, is_sanitized, need_cay

HERE = ROOT / "tests" / "integration"
ACCOUNT = "nobody"
SUITES = {
    "one-id": ["run", "tty", "programs", "doctor", "version", "bad_input", "cleanup", "faults",
               "image_verbs", "run_image", "snapshot", "transfer", "transfer_hostile", "keep",
               "daemon", "daemon_image", "sandboxes", "client_hostile", "archive", "network"],
    "subids": ["run", "tty", "programs", "doctor", "bad_input", "cleanup", "image_verbs",
               "run_image", "snapshot", "transfer", "transfer_hostile", "keep", "daemon",
               "daemon_image", "sandboxes", "client_hostile", "archive"],
}
# Not every day: what does not depend on the user, or with subordinate ids not on how ids are mapped.
# `make stress` runs all of them.
NOT_DAILY = {
    "one-id": {"version", "bad_input", "transfer_hostile", "client_hostile"},
    "subids": {"tty", "programs", "doctor", "bad_input", "image_verbs", "transfer_hostile", "keep", "daemon",
               "daemon_image", "client_hostile"},
}
# Under a sanitizer, where each run takes ten times as long, the others say the same as for root.
SANITIZED = {"run"}

GIVE_IDS = """printf '%s:2000000:65536\\n' "$0" > "$1/ids" && mount --bind "$1/ids" /etc/subuid &&
    mount --bind "$1/ids" /etc/subgid && shift && exec "$@" """

pytestmark = [
    pytest.mark.skipif(bool(USER), reason="it is the ordinary user's suite that is running"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
]


@pytest.fixture(scope="module")
def build():
    """The programs where everybody may execute them: a home folder is closed to others."""
    need_cay()
    folder = Path(tempfile.mkdtemp(prefix="programs-", dir="/tmp"))
    folder.chmod(0o755)
    helpers = Path("tests/helpers")
    (folder / helpers).mkdir(parents=True)
    shutil.copy(CAY, folder)
    for program in ("cay-docker", "cay-egress", "cay-image", "cay-launcher", "cay-remote", "cayd",
                    helpers / "deny", helpers / "keep"):
        if (BUILD / program).exists():
            shutil.copy(BUILD / program, folder / program)
    yield folder
    shutil.rmtree(folder)


def become(kind, folder):
    """What to put before a command to give the account its subordinate ids."""
    if kind == "one-id":
        return []
    if shutil.which("newuidmap") is None:
        pytest.skip("newuidmap is not installed (package uidmap)")
    if not Path("/etc/subuid").exists() or not Path("/etc/subgid").exists():
        pytest.skip("this host has no /etc/subuid")
    return ["unshare", "-m", "sh", "-c", GIVE_IDS, ACCOUNT, folder]


def as_account(kind, folder, *command):
    env = {"PATH": os.environ["PATH"], "XDG_STATE_HOME": str(folder)}
    who = ["setpriv", f"--reuid={ACCOUNT}", "--regid=nogroup", "--clear-groups"]
    shutil.chown(folder, ACCOUNT)
    return subprocess.run([*become(kind, folder), *who, *command], capture_output=True, env=env,
                          timeout=60)


def need_namespaces(kind, build, folder):
    done = as_account(kind, folder, build / "cay", "run", "--tier", "basic", "--", "true")
    if b"user namespace" in done.stderr:
        pytest.skip(done.stderr.decode().strip())
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind, suite", [(k, s) for k, all in SUITES.items() for s in all])
def test_suite(kind, suite, build, folder):
    need_namespaces(kind, build, folder)
    if is_sanitized() and suite not in SANITIZED:
        pytest.skip("too slow with a sanitizer; the release build runs it")
    if suite in NOT_DAILY[kind] and not FULL:
        pytest.skip("`make stress` runs it")
    env = {**os.environ, "CAY_TEST_USER": ACCOUNT, "CAY_BUILD": str(build),
           "CAY_TEST_SUBIDS": "" if kind == "one-id" else "yes", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs",
               HERE / f"test_{suite}.py"]
    done = subprocess.run([*become(kind, folder), *command], cwd=ROOT, env=env, timeout=600,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert re.search(r"\d+ passed", done.stdout)


@pytest.mark.parametrize("kind, expected", [
    ("one-id", r"0 +65534 +1\n"),
    ("subids", r"0 +65534 +1\n +1 +2000000 +65535\n"),
])
def test_ids(kind, expected, build, folder):
    need_namespaces(kind, build, folder)
    done = as_account(kind, folder, build / "cay", "run", "--tier", "basic", "--", "sh", "-c",
                      "cat /proc/self/uid_map; stat -c %u /proc/1; kill -9 1 || echo no")
    init = "0" if kind == "one-id" else "65533"
    assert re.fullmatch(rf" *{expected}{init}\n(no\n)?", done.stdout.decode()), done.stdout


def test_nothing_of_the_user_is_seen(build, folder):
    """Neither his home nor his environment nor his processes."""
    need_namespaces("one-id", build, folder)
    done = as_account("one-id", folder, build / "cay", "run", "--tier", "basic", "--", "sh", "-c",
                      f"ls {folder} 2>&1; env | grep XDG; ps -e -o comm= | sort -u | tr '\\n' ' '")
    assert b"No such file" in done.stdout and b"XDG" not in done.stdout
    seen = done.stdout.decode().splitlines()[-1].split()
    assert set(seen) <= {"cay-init", "cay-op", "ps", "sh", "sort", "tr"}


def test_limits_that_are_not_kept_are_told(build, folder):
    """The tier was chosen, so the command runs; that its limits mean nothing is no secret."""
    need_namespaces("one-id", build, folder)
    judged = json.loads(as_account("one-id", folder, build / "cay", "doctor", "-o", "json").stdout)
    walls = {w["name"]: w for w in judged["walls"]}
    if walls["memory limit"]["ok"] or walls["cpu limit"]["ok"]:
        pytest.skip("this user has control groups")

    def said(*options):
        done = as_account("one-id", folder, build / "cay", "run", "--tier", "basic", *options, "--", "true")
        assert done.returncode == 0, done.stderr
        return done.stderr.decode()
    assert said() == ""
    assert said("--memory", "64m").startswith("cay: --memory has no effect in this tier: ")
    assert said("--memory", "64m", "--cpus", "1").count("has no effect") == 2
