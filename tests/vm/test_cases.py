"""cgroup v2 and an older kernel: tests/vm/cases.sh and the unit tests in the machine of run-vm."""

import os
import pathlib
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
REPO = HERE.parent.parent
CAY = pathlib.Path(os.environ.get("CAY", REPO / "build" / "cay"))
SKIPPED = 77
USERS = pytest.mark.parametrize("options", [[], ["--user"]], ids=["root", "rootless"])

# They work in /tmp, which is a disk as on a user's machine: this kernel's file systems in memory have
# neither id-mapped mounts nor user attributes.
UNIT_TESTS = r"""
if ((EUID == 0)); then
    truncate -s 512M /var/disk && mkfs.ext4 -q /var/disk && mount -o loop /var/disk /tmp &&
        chmod 1777 /tmp || exit 1
fi
one() {
    log=/tmp/unit-${1##*/}.log
    timeout 900 "$1" >"$log" 2>&1
    case $? in
    0 | 77) ;;
    *) echo "FAILED: ${1##*/}"; grep -v -e RUN -e ' OK ' "$log"; return 1 ;;
    esac
}
export -f one
printf '%s\0' "$@" | xargs -0 -n 1 -P "$(nproc)" bash -c 'one "$0"'
"""


def in_machine(options, *command):
    result = subprocess.run([HERE / "run-vm", "--timeout", "1500", *options, "--", *command],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    print(result.stdout)
    if result.returncode == SKIPPED:
        pytest.skip(result.stdout.strip().splitlines()[-1])
    assert result.returncode == 0, "in the machine:\n" + result.stdout[-4000:]


@USERS
def test_cases(options):
    if not os.access(CAY, os.X_OK):
        pytest.skip(f"{CAY} is not built")
    in_machine(options, "env", f"CAY={CAY}", HERE / "cases.sh")


def test_capacity():
    """Many persistent sandboxes at once with cgroup v2. Emulated, each takes 0.4 s on a busy host: all
    1,000 are for `make stress`."""
    if not os.access(CAY.parent / "bench" / "cay-load", os.X_OK):
        pytest.skip("cay-load is not built")
    count = 1000 if os.environ.get("CAY_STRESS") == "full" else 100
    in_machine(["--memory", "4096"], "env", f"CAY_BUILD_NAME={CAY.parent.name}", HERE / "capacity.sh",
               str(count))


# Minutes of emulation for what asks the kernel nothing, or nothing that the others do not.
LEFT_OUT = """access alias audit builds challenge daytona db demux detach_keys digest docker events_http
              git guard json key lsp_text manager manifest multipart openapi opt preview progress
              range record reference route shape sheet sign target toml toolbox vt ws"""
TOO_SLOW = tuple(f"test_{name}" for name in LEFT_OUT.split())


@USERS
def test_unit_tests(options):
    folder = CAY.parent / "tests" / "unit"
    if folder.is_relative_to("/tmp"):
        pytest.skip("the build folder is below /tmp, where the machine has a disk of its own")
    programs = sorted(path for path in folder.glob("test_*")
                      if path.is_file() and os.access(path, os.X_OK)
                      and not path.name.startswith(TOO_SLOW))
    if not programs:
        pytest.skip(f"no unit tests are built in {folder}")
    in_machine(options, "bash", "-c", UNIT_TESTS, "unit-tests", *programs)
