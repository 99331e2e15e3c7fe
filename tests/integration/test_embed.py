"""Programs that embed cay, built from the tree: the daemon starts by itself, and all of cay_manager
keeps its word, from several threads."""

import subprocess

import pytest
import support
from daemons import CAYD, end_background
from support import HELPERS, TIER, as_root_only


def embedding(program, *args):
    if not CAYD.exists() or not (HELPERS / program).exists():
        pytest.skip("cayd is not built: ninja -C build")
    who, env = support.as_user()
    env["PATH"] = f"{support.BUILD}:{env['PATH']}"  # where it finds cay, and so cayd
    return subprocess.run([HELPERS / program, *args], env=env, capture_output=True, text=True,
                          timeout=120, **who)


@as_root_only
def test_the_example(folder):
    state = folder / "state"
    try:
        done = embedding("embed", state)
        assert (done.returncode, done.stdout) == (0, "exit code 0\n42\n"), done.stderr
    finally:
        end_background(state)


def test_everything_from_several_threads(folder):
    state, files = folder / "state", support.own_folder(folder / "files")
    try:
        done = embedding("embed_check", state, TIER[1] if TIER else "", files)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
    finally:
        end_background(state)


def test_a_failure_is_told(folder):
    done = embedding("embed", "/proc/no/such/folder")
    assert done.returncode == 1 and "/proc/no" in done.stderr, done.stderr
