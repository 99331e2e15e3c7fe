"""scripts/test itself: a test that fails is run once more, alone, and what it says is counted."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import support

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from runner import kinds, outcome, plan, process  # noqa: E402

FLAKY = """
    import pathlib
    import pytest
    import support
    MARK = pathlib.Path(__file__).with_suffix(".ran")

    def test_good():
        assert support.given_time(lambda s: s, lambda s: s > 2) == 6

    @pytest.mark.parametrize("what", ["a/b::c"])
    def test_flaky(what):
        if not MARK.exists():
            MARK.touch()
            assert False, "at first"

    def test_bad():
        assert False, "always"

    @pytest.fixture
    def broken():
        yield
        assert False, "in the end"

    def test_torn_down(broken):
        pass

    @pytest.mark.skip(reason="a reason")
    def test_left_out():
        pass
"""


@pytest.fixture
def suite(folder, monkeypatch):
    """A folder with a test file, below a conftest.py like ours, which stands in for the checkout."""
    monkeypatch.setattr(kinds, "run_in_lane", process.run)
    monkeypatch.setattr(process, "ROOT", folder)
    (folder / "tests/some").mkdir(parents=True)
    (folder / "tests/conftest.py").write_text(
        f"import sys; sys.path.insert(0, {str(TESTS)!r})\n" + (TESTS / "conftest.py").read_text())
    (folder / "tests/some/test_sample.py").write_text(textwrap.dedent(FLAKY))
    return folder


def run_file(suite, retries):
    return kinds.run_pytest("some", suite, {}, ["tests/some/test_sample.py"], retries.append)


def test_a_flaky_test_is_found(suite):
    retries = []
    first = {t.name: t for t in run_file(suite, retries)}
    name = "test_sample.test_flaky[a/b::c]".replace("::", ".")
    assert {n: t.outcome for n, t in first.items()} == {
        "test_sample.test_good": "passed", name: "failed", "test_sample.test_bad": "failed",
        "test_sample.test_torn_down": "failed", "test_sample.test_left_out": "skipped"}
    assert "a reason" in first["test_sample.test_left_out"].text
    assert "at first" in outcome.reason(first[name].text)
    assert retries == ["test_sample.py::test_good with more time"]
    assert [t.outcome for t in first[name].again()] == ["passed"]
    assert [t.outcome for t in first["test_sample.test_bad"].again()] == ["failed"]


def test_a_file_that_cannot_be_read_is_a_failure(suite):
    (suite / "tests/some/test_sample.py").write_text("import nothing_of_that_name\n")
    assert [t.outcome for t in run_file(suite, [])] == ["failed"]


def test_a_program_that_hangs_up_is_a_failure(suite):
    (suite / "tests/some/test_sample.py").write_text(
        "import os\ndef test_one(): pass\ndef test_two(): os._exit(3)\n")
    found = run_file(suite, [])
    assert [t.outcome for t in found] == ["passed", "failed"]


def test_short_files_run_together():
    durations = {"a": 50, "b": 20, "c": 5, "d": 10, "e": 100}
    assert list(plan.batches("abcde", durations)) == [
        (["a"], 50), (["b", "c"], 25), (["e"], 100), (["d"], 10)]


def test_wall_and_cpu_seconds_of_each_file_are_printed(suite, capsys, monkeypatch):
    (suite / "tests/some/test_sample.py").write_text(textwrap.dedent("""
        import time
        def test_works():
            while time.process_time() < 1: pass
        def test_waits():
            time.sleep(0.5)
    """))
    monkeypatch.setattr(outcome, "SHORT_SECONDS", 1)
    before = process.cpu_spent()
    tests = run_file(suite, [])
    cpu = process.cpu_spent() - before
    assert 1 <= cpu < 6 and 0.5 < tests[0].cpu < 6, (cpu, tests)
    results = outcome.Results()
    results.add(tests, "some/test_sample.py", 99, 99)
    results.add([outcome.Test("unit", "a", "passed")], "unit", 50, 40)
    outcome.print_durations(results)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[3:]]
    assert rows[0] == ["50.0", "40.0", "unit"] and rows[1][2] == "some/test_sample.py"
    assert 1 < float(rows[1][0]) < 99 and 0.5 < float(rows[1][1]) < 6


def test_a_command_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(process, "UNIT_SECONDS", 0.2)
    code, output = process.run(["sh", "-c", "echo begun; sleep 100"])
    assert code == 124 and output == "begun\n\nno end after 0.2 seconds\n"


def test_every_check_is_a_unit():
    names = {u.name for u in plan.all_units({}, None) if u.suite == "checks"}
    assert {"checks/check-clang", "checks/check-fuzz", "checks/check-style", "checks/shellcheck"} <= names


def test_every_file_is_in_one_unit():
    names = [u.name for u in plan.all_units({}, None)]
    assert len(names) == len(set(names))
    assert plan.files_below(TESTS / "integration").count("integration/engine") == 1
    missing = [n for n in plan.NOT_SANITIZED if n not in plan.files_below(TESTS / "integration")]
    assert not missing, "NOT_SANITIZED names files that are gone"


def test_an_unknown_suite_is_refused():
    done = subprocess.run([support.ROOT / "scripts/test", "no-such"], capture_output=True, text=True,
                          env={**os.environ, "LANES": "1"})
    assert done.returncode == 2 and "no suite 'no-such'" in done.stderr
