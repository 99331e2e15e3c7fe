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
ASAN_OPTIONS = ["-Db_sanitize=address,undefined", "-Db_lundef=false", "-Dbuildtype=debugoptimized"]
SHARED_SETUP = ("integration/engine", "sdk", "vm")  # folders that run as a whole
BATCH_SECONDS = 30  # what short files together may take
UNKNOWN_SECONDS = 20  # what a file without a known duration is taken for

# What the sanitized build leaves to the release: the time goes into programs that are not ours, or
# the C that it runs is run by a file that stays.
_PYTHON = "runs Python programs; test_python.py, test_interpreter.py and test_context.py run the same C"
_OTHERS = "runs other people's programs in sandboxes; the C is that of test_run.py"
_DOCKER = "most of its time is Docker's; test_docker_engine.py and the conformance suite run the same C"
_NO_C = "is not about C"
_LEAKS = "LeakSanitizer cannot look at a process behind a filter that ends by itself; scripts/tsan runs it"
NOT_SANITIZED = {
    f"integration/test_{name}.py": why
    for names, why in {
        "charts parquet python_packages python_report python_same python_code_run": _PYTHON,
        "programs recipes seccomp_programs javascript_await": _OTHERS,
        "docker_bridge docker_images docker_leftovers docker_run two_engines": _DOCKER,
        "client_js client_python deb docs install man runner": _NO_C,
        "restart separation": _LEAKS,
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
    DURATIONS.write_text("# Seconds of each file, from `scripts/test --keep-durations`: who is long begins first.\n"
                         + rows)


def run_checks():
    tests = []
    for script in sorted((ROOT / "scripts").glob("check-*")):
        tests += run_script("checks", [script], script.name)
    if shutil.which("shellcheck") is None:
        return tests + [Test("checks", "shellcheck", "skipped",
                             "shellcheck is not installed: scripts/setup --test")]
    folders = (ROOT / "scripts", ROOT / "scripts/hooks", ROOT / "packaging")
    shell = [p for p in [*(p for f in folders for p in f.iterdir()), ROOT / ".ci/run", *TESTS.rglob("*.sh")]
             if p.is_file() and re.match(rb"#!.*\b(ba|da)?sh\b", p.read_bytes()[:64])]
    return tests + run_script("checks", ["shellcheck", "-S", "warning", *shell], "shellcheck")


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
    units = [Unit("checks", "checks", None, run_checks, durations.get("checks", UNKNOWN_SECONDS))]
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
