"""What there is to run, in units that a lane takes one after the other.

A suite is found, not listed: checks (scripts/check-*), what meson knows (tests/unit, tests/fuzz), and
each folder of tests/ with test_*.py. Suites named asan-* are the same in a build with AddressSanitizer
and UBSan. A unit is a suite of meson's, a folder whose files share what takes long to start, a long
file, or some short files together.
"""

import dataclasses
import functools
import os
import pathlib
import re
import shutil

from runner.kinds import run_meson, run_pytest, run_script
from runner.outcome import Test
from runner.process import ROOT, run

TESTS = ROOT / "tests"
DURATIONS = TESTS / "durations.txt"
NAME = os.environ.get("BUILD", "build")
RELEASE, ASAN = ROOT / NAME, ROOT / f"{NAME}-asan"
PREFIXES = {"": RELEASE, "asan-": ASAN}
# -O1 and lines without variables: a third less to compile, and all that a report of a sanitizer shows.
ASAN_OPTIONS = ["-Db_sanitize=address,undefined", "-Db_lundef=false", "-Dbuildtype=custom", "-Ddebug=true",
                "-Doptimization=1", "-Dc_args=-g1"]
SHARED_SETUP = ("integration/engine", "sdk")  # folders that run as a whole
BATCH_SECONDS = 30  # what short files together may take
UNKNOWN_SECONDS = 20  # what a file without a known duration is taken for

# What the sanitized build leaves to the release: the time goes into programs that are not ours, or
# the C that it runs is run by a file that stays. A new file is sanitized unless it is named here.
_PYTHON = "runs Python programs; test_python.py, test_interpreter.py and test_context.py run the same C"
_OTHERS = "runs other people's programs in sandboxes; the C is that of test_run.py"
_DOCKER = "most of its time is Docker's; test_docker_engine.py and the conformance suite run the same C"
_NO_C = "is not about C"
_LEAKS = "LeakSanitizer cannot look at a process behind a filter that ends by itself; scripts/tsan runs it"
_OFTEN = "does often or many at once what other files do once"
_RESTART = "is about what outlives a daemon; test_daemon.py and test_sessions.py run the same C"
_DAEMON = "asks the daemon for little; test_daemon.py, test_sandboxes.py and test_daytona_*.py run the same C"
_IMAGES = "pulls and stores images as test_pull.py, test_registry.py and test_image_verbs.py do"
_DISKS = "is about disks that are full or limited; test_disk.py and test_keep.py run the same C"
_TLS = "waits for clients and certificates; test_tls.py and test_remote.py run the same C"
NOT_SANITIZED = {
    f"integration/test_{name}.py": why
    for names, why in {
        "charts parquet python_packages python_report python_same python_code_run python_daemon python_ways "
        "python_warm context_warm interpreter_warm run_code": _PYTHON,
        "programs recipes seccomp_programs javascript_await": _OTHERS,
        "docker_bridge docker_images docker_leftovers docker_run docker_runtime two_engines": _DOCKER,
        "client_js client_python deb deploy docs habits install man runner version": _NO_C,
        "restart separation": _LEAKS,
        "capacity cleanup daemon_kills daemon_stress load prepared": _OFTEN,
        "restart_sessions": _RESTART,
        "audit_retention daemon_verb daemon_volumes health notify reload": _DAEMON,
        "image_owners image_registries prepull": _IMAGES,
        "disk_full volume_disks": _DISKS,
        "daytona_tls docker_remote": _TLS,
    }.items()
    for name in names.split()
}
ASAN_ENGINES = "native-root,docker"  # of the conformance suite; the others share their code with these


@dataclasses.dataclass
class Unit:
    name: str
    suite: str
    build: pathlib.Path  # None: it needs none
    run: object  # () -> [Test]
    seconds: float  # that it is expected to take


def build_error(build):
    """Builds; the output if that fails."""
    options = ASAN_OPTIONS if build == ASAN else []
    code, output = run(["nice", ROOT / "scripts/build", build.name, *options])
    return output if code != 0 else None


def test_env(build):
    env = {"CAY_BUILD": str(build)}
    if build == ASAN:
        env["UBSAN_OPTIONS"] = "halt_on_error=1:print_stacktrace=1"
        env["CAY_ENGINES"] = ASAN_ENGINES
    return env


def read_durations():
    """Seconds by file, as an earlier run printed them."""
    if not DURATIONS.exists():
        return {}
    lines = [line.split() for line in DURATIONS.read_text().splitlines() if not line.startswith("#")]
    return {name: float(seconds) for seconds, name in lines}


def write_durations(seconds):
    rows = "".join(f"{s:7.1f} {name}\n" for name, s in sorted(seconds.items()))
    DURATIONS.write_text("# Seconds of each file, from `scripts/test --keep-durations`: the longest begins first.\n"
                         + rows)


def run_shellcheck():
    if shutil.which("shellcheck") is None:
        return [Test("checks", "shellcheck", "skipped", "shellcheck is not installed: scripts/setup --test")]
    folders = (ROOT / "scripts", ROOT / "scripts/hooks", ROOT / "packaging")
    shell = [p for p in [*(p for f in folders for p in f.iterdir()), ROOT / ".ci/run", *TESTS.rglob("*.sh")]
             if p.is_file() and re.match(rb"#!.*\b(ba|da)?sh\b", p.read_bytes()[:64])]
    return run_script("checks", ["shellcheck", "-S", "warning", *shell], "shellcheck")


def check_units(durations):
    """They compute and wait for nothing, so they give way to tests that measure time."""
    runs = {script.name: functools.partial(run_script, "checks", ["nice", script], script.name)
            for script in sorted((ROOT / "scripts").glob("check-*"))}
    runs["shellcheck"] = run_shellcheck
    return [Unit(f"checks/{name}", "checks", None, run, durations.get(f"checks/{name}", UNKNOWN_SECONDS))
            for name, run in runs.items()]


def batches(names, durations):
    """Long files alone, short ones together."""
    short, total = [], 0.0
    for name in names:
        seconds = durations.get(name, UNKNOWN_SECONDS)
        if seconds >= BATCH_SECONDS:
            yield [name], seconds
            continue
        if short and total + seconds > BATCH_SECONDS:
            yield short, total
            short, total = [], 0.0
        short, total = [*short, name], total + seconds
    if short:
        yield short, total


def files_below(folder):
    """Test files by their name from tests/, where folders that run as a whole are one."""
    found = set()
    for path in folder.rglob("test_*.py"):
        if "node_modules" in path.parts:
            continue
        name = str(path.relative_to(TESTS))
        found.add(next((s for s in SHARED_SETUP if name.startswith(s + "/")), name))
    return sorted(found)


def folder_units(prefix, folder, durations, note_retry):
    build, suite = PREFIXES[prefix], prefix + folder.name
    names = [n for n in files_below(folder) if not prefix or n not in NOT_SANITIZED]

    def known(name):
        for p in (prefix, ""):  # what a sanitized file takes is not known before it ran once
            below = [s for n, s in durations.items() if n in (p + name, f"{p}{name}/{n.rpartition('/')[2]}")]
            if below:
                return sum(below)
        return UNKNOWN_SECONDS

    for batch, seconds in batches(names, {n: known(n) for n in names}):
        more = f" and {len(batch) - 1} more" if len(batch) > 1 else ""
        yield Unit(f"{prefix}{batch[0]}{more}", suite, build,
                   functools.partial(run_pytest, suite, build, test_env(build),
                                     [f"tests/{n}" for n in batch], note_retry), seconds)


def all_units(durations, note_retry):
    units = check_units(durations)
    folders = [f for f in sorted(TESTS.iterdir()) if f.is_dir() and any(f.glob("test_*.py"))]
    for prefix, build in PREFIXES.items():
        for name in ("unit", "fuzz"):
            suite = prefix + name
            units.append(Unit(suite, suite, build,
                              functools.partial(run_meson, suite, build, name, test_env(build)),
                              durations.get(suite, UNKNOWN_SECONDS)))
        for folder in folders:
            if prefix == "" or folder.name == "integration":
                units += folder_units(prefix, folder, durations, note_retry)
    return units


def not_sanitized():
    """What the sanitized build leaves out is listed as any other test that is skipped."""
    return [Test("asan-integration", name, "skipped", why) for name, why in NOT_SANITIZED.items()]
