"""cgroup v2 and an older kernel: tests/vm/cases.sh, capacity.sh and unit tests in the machine of run-vm.

An emulated machine takes as long to boot as most of what runs in it. So there is one for root and one for
the user, which run everything one after the other, and each test here looks at its part of the output.
"""

import functools
import os
import pathlib
import re
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
REPO = HERE.parent.parent
CAY = pathlib.Path(os.environ.get("CAY", REPO / "build" / "cay"))
UNIT = CAY.parent / "tests" / "unit"
SKIPPED = 77
FULL = os.environ.get("CAY_STRESS") == "full"
USERS = pytest.mark.parametrize("user", ["root", "rootless"])
OPTIONS = {"root": ["--memory", "4096"], "rootless": ["--user"]}

# Runs each of its arguments, and says where its output ends and with which code. A part of the user has
# the delegated group for itself, as the machine gives it: nobody else is in it, and it has no controllers.
PARTS = r"""
group=/sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)
enter() { ((EUID == 0)) || echo "$BASHPID" >"$group/cgroup.procs"; }
leave() {
    ((EUID == 0)) && return
    find "$group" -mindepth 1 -depth -type d ! -name parts -exec rmdir {} + 2>/dev/null
    for name in $(<"$group/cgroup.subtree_control"); do echo "-$name" >"$group/cgroup.subtree_control"; done
}
((EUID == 0)) || { mkdir "$group/parts" && echo $$ >"$group/parts/cgroup.procs" || exit; }
for part; do
    (enter && exec bash -c "$part") 2>&1
    echo "=== part ended: $?"
    leave
done
"""
# They work in /tmp, which is a disk as on a user's machine: this kernel's file systems in memory have
# neither id-mapped mounts nor user attributes.
UNIT_TESTS = r"""
if ((EUID == 0)); then
    truncate -s 512M /var/unit-disk && mkfs.ext4 -q /var/unit-disk &&
        mount -o loop /var/unit-disk /tmp && chmod 1777 /tmp || exit 1
fi
one() {
    log=/tmp/unit-${1##*/}.log began=$SECONDS
    timeout 900 "$1" >"$log" 2>&1
    case $? in
    0 | 77) echo "${1##*/}: $((SECONDS - began)) s" ;;
    *) echo "FAILED: ${1##*/}"; grep -v -e RUN -e ' OK ' "$log"; return 1 ;;
    esac
}
export -f one
printf '%s\0' PROGRAMS | xargs -0 -n 1 -P "$(nproc)" bash -c 'one "$0"'
"""

# What asks the kernel something that cgroup v2, an older kernel or another user changes. `make stress`
# runs all but PURE there.
KERNEL = """base_fd capacity cgroup cgroup_policy cgroup_run disk_tool egress enter_walls helper host_image
            idrange image init_exec init_files interpreters ipcns keep_record launcher layer
            outputs role_ids seccomp seccomp_daemon unpack volume watch"""
PRIVILEGES = """cgroup cgroup_policy cgroup_run enter_walls helper host_image idrange init_exec init_files ipcns
                launcher layer role_ids unpack"""
# Minutes of emulation for what asks the kernel nothing, or nothing that the others do not.
PURE = """access alias audit builds challenge daytona db demux detach_keys digest docker events_http
          git guard json key lsp_text manager manifest multipart openapi opt preview progress
          range record reference route shape sheet sign target toml toolbox vt ws"""


def unit_tests(user):
    names = {f"test_{name}" for name in (KERNEL if user == "root" else PRIVILEGES).split()}
    pure = tuple(f"test_{name}" for name in PURE.split())
    return sorted(path for path in UNIT.glob("test_*") if path.is_file() and os.access(path, os.X_OK)
                  and (not path.name.startswith(pure) if FULL else path.name in names))


def parts(user):
    """{name: script} of what this machine runs."""
    found = {"cases": f"CAY='{CAY}' '{HERE / 'cases.sh'}'"}
    if user == "root":
        # Emulated, each sandbox takes 0.4 s on a busy host: all 1,000 are for `make stress`.
        found["capacity"] = (f"CAY_BUILD_NAME='{CAY.parent.name}' '{HERE / 'capacity.sh'}' "
                             f"{1000 if FULL else 30}; code=$?; umount -l /var/disk-state; exit $code")
    programs = " ".join(f"'{path}'" for path in unit_tests(user))
    if programs:
        found["unit tests"] = UNIT_TESTS.replace("PROGRAMS", programs)
    return found


@functools.cache
def results(user):
    """{part: (exit code, output)} of the machine, which boots once; a string: why there is none."""
    scripts = parts(user)
    done = subprocess.run([HERE / "run-vm", "--timeout", "1500", *OPTIONS[user], "--", "bash", "-c", PARTS,
                           "parts", *scripts.values()],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", check=False)
    if done.returncode == SKIPPED:
        return done.stdout.strip().splitlines()[-1]
    pieces = re.split(r"^=== part ended: (\d+)\n", done.stdout, flags=re.M)
    found = {name: (int(code), text) for name, text, code in zip(scripts, pieces[::2], pieces[1::2])}
    for name in scripts:
        found.setdefault(name, (done.returncode or 1, f"{pieces[-1]}the machine ended with {done.returncode}"))
    return found


def check(user, part):
    if not os.access(CAY, os.X_OK):
        pytest.skip(f"{CAY} is not built")
    found = results(user)
    if isinstance(found, str):
        pytest.skip(found)
    code, output = found[part]
    print(output)
    assert code == 0, "in the machine:\n" + output[-4000:]


@USERS
def test_cases(user):
    check(user, "cases")


def test_capacity():
    """Many persistent sandboxes at once with cgroup v2."""
    if not os.access(CAY.parent / "bench" / "cay-load", os.X_OK):
        pytest.skip("cay-load is not built")
    check("root", "capacity")


@USERS
def test_unit_tests(user):
    if UNIT.is_relative_to("/tmp"):
        pytest.skip("the build folder is below /tmp, where the machine has a disk of its own")
    if not unit_tests(user):
        pytest.skip(f"no unit tests are built in {UNIT}")
    check(user, "unit tests")
