"""What the suites share: running the built cay, as root or as an ordinary user, and seeing what it
leaves on the host."""

import os
import pwd
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("CAY_BUILD", ROOT / "build"))
CAY = BUILD / "cay"
HELPERS = BUILD / "tests" / "helpers"

# Who is tested: root by default; CAY_TEST_USER names an ordinary user, who accepts what the host
# gives him.
USER = os.environ.get("CAY_TEST_USER", "")
TIER = ["--tier", "basic"] if USER else []


def need_cay():
    if not CAY.exists():
        pytest.skip("cay is not built: ninja -C build")


def as_user():
    """How to become the tested user: arguments of subprocess, and the environment."""
    env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": os.environ.get("HOME", "/root")}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
        if name in os.environ:
            env[name] = os.environ[name]
    if not USER:
        return {}, env
    entry = pwd.getpwnam(USER)
    env.update(HOME=entry.pw_dir, USER=USER)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}, env


def cay(*args, input=b"", timeout=60, env=None, **more):
    """Runs cay to its end; output as bytes."""
    need_cay()
    who, base = as_user()
    return subprocess.run([CAY, *map(str, args)], input=input, capture_output=True,
                          timeout=timeout, env={**base, **(env or {})}, **who, **more)


def run(*args, **more):
    """`cay run` with the tested tier."""
    return cay("run", *TIER, *args, **more)


def sh(script, *options, **more):
    """A shell script in a fresh sandbox."""
    return run(*options, "--", "sh", "-c", script, **more)


def ok(result):
    """The output of a run that must have succeeded."""
    assert result.returncode == 0, result.stdout.decode(errors="replace") + \
        result.stderr.decode(errors="replace")
    return result.stdout.decode(errors="replace")


def host_state():
    """What a run must leave as it was: mounts, control groups, processes of ours, temporary files."""
    groups = set()
    for folder in Path("/sys/fs/cgroup").rglob("cay*"):
        if folder.is_dir():
            groups.add(str(folder))
            groups.update(str(p) for p in folder.rglob("*") if p.is_dir())
    processes = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name = (entry / "comm").read_text().strip()
                uid = entry.stat().st_uid
            except OSError:
                continue
            if name.startswith("cay") or 0x70000000 <= uid < 0x80000000:
                processes.add((entry.name, name))
    mounts = Path("/proc/self/mountinfo").read_text().count("\n")
    temporary = {p.name for p in Path("/tmp").iterdir() if "cay" in p.name}
    return {"mounts": mounts, "groups": groups, "processes": processes, "temporary": temporary}
