"""`cay run` on cgroup v2 and an older kernel: tests/vm/cases.sh in the machine of run-vm."""

import os
import pathlib
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
REPO = HERE.parent.parent
CAY = pathlib.Path(os.environ.get("CAY", REPO / "build" / "cay"))
SKIPPED = 77


@pytest.mark.parametrize("options", [[], ["--user"]], ids=["root", "rootless"])
def test_cases(options):
    if not os.access(CAY, os.X_OK):
        pytest.skip(f"{CAY} is not built")
    result = subprocess.run([HERE / "run-vm", "--timeout", "240", *options, "--", "env",
                             f"CAY={CAY}", HERE / "cases.sh"], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            errors="replace", check=False)
    print(result.stdout)
    if result.returncode == SKIPPED:
        pytest.skip(result.stdout.strip().splitlines()[-1])
    assert result.returncode == 0, "cases failed in the machine; their lines are above"
