"""Programs that embed cay, built from the tree: the daemon starts by itself, and all of cay_manager
keeps its word, from several threads."""

import re
import subprocess

import pytest
import support
from daemons import CAYD, end_background
from support import HELPERS, TIER, as_root_only, cay


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


PROGRAM = """import sys
print(input())
print("careful", file=sys.stderr)
open("new.txt", "w").write("data")
raise ValueError("oh")
"""
TOLD = """exit code: 1
output: typed
failures: careful
Traceback (most recent call last):
  File "/tmp/cay-PID/program.py", line 5, in <module>
    raise ValueError("oh")
ValueError: oh
took: some time
interpreter: Python started WHEN
exception: ValueError: oh
  line 5 of <module>: raise ValueError("oh")
made: new.txt, 4 bytes
"""


def told_of_python(*args):
    done = embedding("python", *args)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return re.sub(r"cay-\d+", "cay-PID", done.stdout)


@as_root_only
def test_the_example_of_a_python_program(folder):
    """In a fresh sandbox, and in one that stays: first by a new interpreter, later by the daemon's."""
    state, program = folder / "state", folder / "program.py"
    program.write_text(PROGRAM)
    folder.chmod(0o755)
    assert told_of_python(program, state) == TOLD.replace("WHEN", "before")
    try:
        assert cay("--state-dir", state, "create", *TIER, "--name", "lab").returncode == 0
        assert told_of_python(program, state, "lab").replace("before", "anew") == TOLD.replace("WHEN", "anew")
        done = embedding("python", program, state, "none")
        assert done.returncode == 1 and done.stderr.startswith("not_found: "), done.stderr
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
