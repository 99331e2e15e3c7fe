"""The kinds of tests: how each is run, and how its output becomes tests with an outcome.

Each function returns a list of Test. A test that can be run alone has `again`, which does that.
"""

import functools
import json
import pathlib
import re
import sys
import tempfile

from runner.outcome import Test, last_line
from runner.process import run, run_in_lane

EXIT_SKIPPED = 77
NO_TESTS = 5  # pytest's exit code for a file without a test


def run_script(suite, command, name, env=None):
    """A program that says by its exit code whether all is well; 77: skipped, the last line says why."""
    code, output = run_in_lane(command, env)
    outcome = {0: "passed", EXIT_SKIPPED: "skipped"}.get(code, "failed")
    text = last_line(output) if outcome == "skipped" else f"{output}exit code {code}"
    again = functools.partial(run_script, suite, command, name, env)
    return [Test(suite, name, outcome, text, again)]


# ---- programs that meson knows ----

def cmocka_cases(output):
    """(case, outcome, what it printed) of each case in a cmocka program's output."""
    words = {"OK": "passed", "SKIPPED": "skipped", "FAILED": "failed"}
    parts = re.split(r"^\[ RUN      \] (\w+)\n", output, flags=re.M)
    for case, text in zip(parts[1::2], parts[2::2]):
        end = re.search(rf"^\[\s*(OK|SKIPPED|FAILED)\s*\] {case}$", text, re.M)
        if end:  # else it took the program down, which meson reports
            yield case, words[end.group(1)], text[:end.start()]


def meson_program(suite, program, again):
    """A cmocka program counts by its cases; any other program is one test."""
    name, result = program["name"].split(" / ")[-1], program["result"]
    output = f"{program.get('stdout', '')}{program.get('stderr', '')}"
    tests = [Test(suite, f"{name}.{case}", word, output if word == "failed" else last_line(text), again)
             for case, word, text in cmocka_cases(program.get("stdout", ""))]
    if result == "SKIP":
        return tests + [Test(suite, name, "skipped", last_line(output))]
    if result not in ("OK", "EXPECTEDFAIL"):
        if not any(t.outcome == "failed" for t in tests):
            why = f"{output}meson: {result}, {program.get('returncode')}"
            tests.append(Test(suite, name, "failed", why, again))
    elif not tests:
        tests.append(Test(suite, name, "passed"))
    return tests


def run_meson(suite, build, meson_suite, env, names=()):
    log = build / "meson-logs/testlog.json"
    log.unlink(missing_ok=True)
    code, output = run_in_lane(["meson", "test", "-C", build, "--no-rebuild", "--suite", meson_suite,
                                "--timeout-multiplier", "20", *names], env)
    tests = []
    for line in log.read_text().splitlines() if log.exists() else []:
        program = json.loads(line)
        name = program["name"].split(" / ")[-1]
        again = functools.partial(run_meson, suite, build, meson_suite, env, [name])
        tests += meson_program(suite, program, again)
    if code != 0 and not any(t.outcome == "failed" for t in tests):
        tests.append(Test(suite, f"meson test --suite {meson_suite}", "failed", output))
    return tests


# ---- pytest ----

@functools.cache
def find_python():
    """A python with pytest: the distribution's has it even where another one comes first."""
    for python in (sys.executable, "/usr/bin/python3"):
        if run([python, "-c", "import pytest"])[0] == 0:
            return python
    return None


def short_name(node):
    """test_run.test_echo of tests/integration/test_run.py::test_echo; a parameter may have a slash."""
    path, _, test = node.partition("::")
    return ".".join([pathlib.PurePath(path).stem, *([test.replace("::", ".")] if test else [])])


def file_of(suite, node):
    """Where its seconds are counted: asan-integration/engine/test_a.py."""
    return "/".join([suite, *pathlib.PurePath(node.partition("::")[0]).parts[2:]])


def run_pytest(suite, build, env, what, note_retry):
    """Runs files, folders or single tests; what: arguments of pytest."""
    python = find_python()
    if python is None:
        return [Test(suite, str(what[0]), "skipped", "pytest is not installed: scripts/setup --test")]
    with tempfile.TemporaryDirectory(dir=build) as scratch:
        report = pathlib.Path(scratch) / "report"
        code, output = run_in_lane([python, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                                    "--rootdir=.", *what],
                                   {**env, "PYTHONDONTWRITEBYTECODE": "1", "CAY_TEST_REPORT": str(report)})
        lines = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
    tests = []
    for line in lines:
        if "retry" in line:
            note_retry(line["retry"])
            continue
        again = functools.partial(run_pytest, suite, build, env, [line["test"]], note_retry)
        tests.append(Test(suite, short_name(line["test"]), line["outcome"], line["text"], again,
                          file_of(suite, line["test"]), line["seconds"], line.get("cpu", 0.0)))
    if code not in (0, NO_TESTS) and not any(t.outcome == "failed" for t in tests):
        again = functools.partial(run_pytest, suite, build, env, what, note_retry)
        tests.append(Test(suite, " ".join(map(str, what)), "failed", output, again))
    return tests

