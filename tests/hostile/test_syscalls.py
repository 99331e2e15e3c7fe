"""Every system call by number, from inside a sandbox, against the table that made the filter.

The rule: a call that the table denies gives exactly the table's error. A call that it allows does
not give ENOSYS, unless the kernel itself lacks it (NEWER, MAY_LACK). A call through the 32-bit gate
or with an x32 number kills the process.

Runs in cay, and in bubblewrap with our filter alone: the second tells a fault of the filter from
one of the sandbox.
"""

import platform
import re
import shutil
import subprocess

import pytest

import support
from support import HELPERS

# Allowed calls that came with a kernel newer than the oldest that cay supports.
NEWER = {
    "uretprobe": (6, 11), "uprobe": (6, 18), "pidfd_send_signal": (5, 1), "pidfd_open": (5, 3),
    "close_range": (5, 9), "openat2": (5, 6), "faccessat2": (5, 8), "epoll_pwait2": (5, 11),
    "landlock_create_ruleset": (5, 13), "landlock_add_rule": (5, 13),
    "landlock_restrict_self": (5, 13), "futex_waitv": (5, 16),
    "fchmodat2": (6, 6), "map_shadow_stack": (6, 6), "futex_wake": (6, 7), "futex_wait": (6, 7),
    "futex_requeue": (6, 7), "mseal": (6, 10), "setxattrat": (6, 13), "getxattrat": (6, 13),
    "listxattrat": (6, 13), "removexattrat": (6, 13), "file_getattr": (6, 17),
    "rseq_slice_yield": (7, 0),
}

# Allowed calls that answer ENOSYS on a kernel that has them, or that a build may leave out.
MAY_LACK = {
    "futex": "an operation that it does not know, as the probe's, is ENOSYS",
    "map_shadow_stack": "needs CONFIG_X86_USER_SHADOW_STACK",
    "landlock_create_ruleset": "needs CONFIG_SECURITY_LANDLOCK",
    "landlock_add_rule": "needs CONFIG_SECURITY_LANDLOCK",
    "landlock_restrict_self": "needs CONFIG_SECURITY_LANDLOCK",
}


def kernel():
    return tuple(int(n) for n in re.findall(r"\d+", platform.release())[:2])


def kernel_may_lack(name):
    return name in MAY_LACK or (name in NEWER and kernel() < NEWER[name])


def bubblewrap():
    if shutil.which("bwrap") is None:
        pytest.skip("bwrap is not installed")
    return ["bwrap", "--unshare-all", "--new-session", "--die-with-parent", "--cap-drop", "ALL",
            "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64",
            "/lib64", "--dev", "/dev", "--proc", "/proc", "--ro-bind", str(HELPERS), "/probe",
            "/probe/seccomp_exec"]


def cay():
    support.need_cay()
    return [str(support.CAY), "run", *support.TIER, "-v", f"{HELPERS}:/probe:ro", "--"]


@pytest.fixture(scope="module")
def table():
    """{number: (name, verdict)} of the policy."""
    dump = HELPERS / "seccomp_dump"
    if not dump.exists():
        pytest.skip(f"{dump.name} is not built")
    rows = (line.split() for line in subprocess.check_output([dump], text=True).splitlines())
    return {int(nr): (name, verdict) for _, nr, name, verdict in rows}


@pytest.fixture(scope="module", params=[bubblewrap, cay], ids=lambda f: f.__name__)
def probe(request):
    """{abi: {number: result}} as seen from inside."""
    if not (HELPERS / "syscall_probe").exists():
        pytest.skip("syscall_probe is not built (a sanitizer build has none)")
    who, env = support.as_user()
    done = subprocess.run([*request.param(), "/probe/syscall_probe"], text=True, timeout=120,
                          stdin=subprocess.DEVNULL, capture_output=True, env=env, **who)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "done", "the probe did not come to its end"
    results = {"native": {}, "i386": {}, "x32": {}}
    for line in lines[:-1]:
        abi, nr, result = line.split()
        results[abi][int(nr)] = result
    return results


def test_all_numbers_were_tried(probe, table):
    assert set(probe["native"]) == set(table) == set(range(601))
    assert set(probe["i386"]) == set(range(461))
    assert set(probe["x32"]) == set(range(601))


def test_denied_calls_give_the_error_of_the_table(probe, table):
    wrong = [f"{nr} {name}: {probe['native'][nr]}, not {verdict}"
             for nr, (name, verdict) in table.items()
             if verdict != "allow" and probe["native"][nr] != verdict]
    assert not wrong, "\n".join(wrong)


def test_allowed_calls_reach_the_kernel(probe, table):
    absent = [(nr, name) for nr, (name, verdict) in table.items()
              if verdict == "allow" and probe["native"][nr] in ("ENOSYS", "killed:SIGSYS")]
    for nr, name in absent:
        if kernel_may_lack(name):
            print(f"not in this kernel: {nr} {name} ({MAY_LACK.get(name, NEWER.get(name))})")
    wrong = [f"{nr} {name}: {probe['native'][nr]}" for nr, name in absent
             if not kernel_may_lack(name) or probe["native"][nr] != "ENOSYS"]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("abi", ["i386", "x32"])
def test_foreign_abis_are_killed(probe, abi):
    # A kernel without a 32-bit gate faults on the instruction before any filter is asked.
    deaths = {"killed:SIGSYS", "killed:SIGSEGV"} if abi == "i386" else {"killed:SIGSYS"}
    wrong = {nr: result for nr, result in probe[abi].items() if result not in deaths}
    assert not wrong
