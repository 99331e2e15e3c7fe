"""Programs give the same under `cay python` as under python3: output, errors and exit code."""

import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support import CAY, FULL, TIER, as_user, is_sanitized, need_cay, own

PYTHON = "/usr/bin/python3"
PROGRAMS = Path(__file__).with_name("python_programs.txt").read_text().split("=== ")[1:]


def neutral(text):
    """Without addresses, which are nobody's promise."""
    return re.sub(rb"0x[0-9a-f]{6,}", b"ADDRESS", text)


def on_host(file, folder):
    env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
           "HOME": "/root"}
    done = subprocess.run([PYTHON, "-u", file], cwd=folder, env=env, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=60)
    code = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return code, done.stdout, neutral(done.stderr.replace(bytes(file), b"PROGRAM"))


def in_cay(file, options):
    who, env = as_user()
    done = subprocess.run([CAY, "python", *TIER, *options, file], env=env, timeout=60,
                          stdin=subprocess.DEVNULL, capture_output=True, **who)
    errors = done.stderr.replace(b"/tmp/cay-2/" + file.name.encode(), b"PROGRAM")
    return done.returncode, done.stdout, neutral(errors)


def compare(number, options):
    name, _, text = PROGRAMS[number].partition("\n")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        file = Path(folder) / "program.py"
        file.write_text(text)
        work = Path(folder) / "work"
        work.mkdir()
        own(work)
        there, here = on_host(file, work), in_cay(file, options)
    return None if there == here else f"{name}:\n  python3: {there}\n  cay:     {here}"


@pytest.mark.parametrize("options", [[], ["--cold"]], ids=["warm", "cold"])
def test_programs_give_the_same(options):
    need_cay()
    # A sanitizer finds no more in all of them, and the cold way is the simple one.
    numbers = range(0, len(PROGRAMS), 8 if options else 4 if is_sanitized() else 1 if FULL else 2)
    with ThreadPoolExecutor(3) as pool:
        different = [found for found in pool.map(lambda n: compare(n, options), numbers) if found]
    assert not different, f"{len(different)} of {len(numbers)}\n" + "\n".join(different)
