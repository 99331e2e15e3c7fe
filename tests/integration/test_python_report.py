"""`cay python --code-type`: what a program must leave, and the example from data to a report."""

import importlib.util
import json
import shutil
import subprocess

import pytest
from support import ROOT, TIER, cay, folder, refused  # noqa: F401

PARQUET = ROOT / "tests" / "integration" / "parquet"
EXAMPLE = ROOT / "docs" / "examples" / "report"
WORDS = "Some words about the data that were looked at here. " * 6
GOOD = f"# Title\n\n## One\n\n{WORDS}\n\n## Two\n\n{WORDS}\n"
PNG = "open('a.png', 'wb').write(b'\\x89PNG\\r\\n')\n"


def report(code, *options):
    done = cay("python", *TIER, "-o", "json", "--code-type", "report", *options, "-c", code)
    assert done.stderr == b"", done.stderr
    told = json.loads(done.stdout)
    assert told["exit_code"] == done.returncode and told["code_type"] == "report"
    return told


def writes(text, name="report.md"):
    return f"open({name!r}, 'w').write({text!r})\n"


@pytest.mark.parametrize("name, text, sections", [
    ("report.md", GOOD, ["Title", "One", "Two"]),
    ("x.MD", GOOD + "```\n# not one\n```\n", ["Title", "One", "Two"]),
    ("r.txt", f"Title\n=====\n{WORDS}\n1. First\n{WORDS}\nSECOND PART\n{WORDS}", ["Title", "1. First", "SECOND PART"]),
    ("r.rst", f"Title\n=====\n\nOne\n---\n{WORDS}\n\nTwo\n---\n{WORDS}", ["Title", "One", "Two"]),
    ("deep/er/r.html", f"<h1>A <b>b</b></h1><h2 id=x>C</h2>{WORDS}<H3>D</H3>{WORDS}", ["A b", "C", "D"])])
def test_reports_that_are_good(name, text, sections):
    told = report("import os; os.makedirs('deep/er')\n" + writes(text, name))
    assert (told["problems"], told["exit_code"]) == ([], 0)
    assert told["report"] == {"path": name, "text": text, "sections": sections, "figures": []}


@pytest.mark.parametrize("code, problems", [
    ("print(1)", ["no report was left"]),
    (writes(GOOD, "report.csv"), ["no report was left"]),
    (writes(""), ["has 0 words", "has 0 headings"]),
    (writes("# A\n\n## B\n\nshort\n\n## C\n"), ["words"]),
    (writes(WORDS * 3), ["has 0 headings"]),
    (writes(GOOD + "![x](a.png)\n"), ["'a.png' is not there"]),
    (writes(GOOD + "<img alt='' src='b/a.png'>"), ["'b/a.png' is not there"]),
    (writes(GOOD + "see chart.png", "r.txt"), ["'chart.png' is not there"]),
    (writes(GOOD + "![x](a.png)") + "open('a.png', 'w')", ["'a.png' is empty"]),
    (writes(GOOD + "![x](a.png)") + "open('a.png', 'w').write('no picture')", ["no picture"]),
    (writes(GOOD + "![x](../../etc/passwd)"), ["not in the work folder"]),
    (writes(GOOD + "![x](https://x/y.png)"), ["not in the work folder"]),
    (writes(GOOD) + "import os; os._exit(0)", ["before its report could be looked at"]),
    (writes(GOOD) + "import os; os.chdir('/tmp'); os.rename('/workspace/report.md', 'x')", ["no report"])])
def test_reports_that_are_not(code, problems):
    told = report(code)
    assert told["exit_code"] == 1
    assert len(told["problems"]) == len(problems), told["problems"]
    for problem, part in zip(told["problems"], problems):
        assert part in problem


@pytest.mark.parametrize("options", [[], ["--cold"]])
def test_figures_that_are_there(options):
    told = report(PNG + writes(GOOD + "![x](a.png) ![again](./a.png \"t\") <img src=data:x>"), *options)
    assert (told["problems"], told["exit_code"]) == ([], 0)
    assert told["report"]["figures"] == ["a.png", "a.png"]
    assert told["interpreter"]["warm"] is (options == [])


def test_figures_with_spaces_in_their_names():
    code = "for name in 'a b.png', 'c d.png', 'e f.png': open(name, 'wb').write(b'\\x89PNG')\n"
    told = report(code + writes(GOOD + "![x](<a b.png>) ![y](c%20d.png) <img src=\"e f.png\">"))
    assert (told["problems"], told["report"]["figures"]) == ([], ["a b.png", "c d.png", "e f.png"]), told


def test_one_that_was_there_before_does_not_count(folder):
    (folder / "report.md").write_text(GOOD)
    folder.chmod(0o777)
    (folder / "report.md").chmod(0o666)
    volume = ["-v", f"{folder}:/workspace"]
    assert "no report" in report("print(1)", *volume)["problems"][0]
    assert report("open('report.md', 'a').write('more')", *volume)["problems"] == []


def test_a_failure_of_the_program_is_its_own():
    told = report(writes(GOOD) + "raise ValueError('oh')")
    assert told["exit_code"] == 1 and told["exception"]["message"] == "oh"
    assert told["problems"] == [] and told["report"]["path"] == "report.md"
    assert report(writes(GOOD) + "import sys; sys.exit(4)")["exit_code"] == 4


def test_problems_are_lines_for_people():
    done = cay("python", *TIER, "--code-type", "report", "-c", "print('out')")
    assert (done.returncode, done.stdout) == (1, b"out\n")
    assert done.stderr.startswith(b"cay: no report was left in the work folder")


def test_processing_must_leave_data():
    def process(code):
        return cay("python", *TIER, "--code-type", "process", "-c", code)
    assert process("open('clean.csv', 'w').write('a,b')").returncode == 0
    assert process("open('clean.csv', 'w')").returncode == 1
    done = process("print('only talk')")
    assert done.returncode == 1 and b"no data was left" in done.stderr
    refused(cay("python", *TIER, "--code-type", "poem", "-c", "1"), "poem", "report")


def has_pandas():
    return subprocess.run(["/usr/bin/python3", "-c", "import pandas, matplotlib"],
                          capture_output=True).returncode == 0


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_the_example_from_data_to_a_report_with_charts(folder, kind):
    if not has_pandas():
        pytest.skip("pandas is not installed: apt-get install python3-pandas python3-matplotlib")
    folder.chmod(0o777)
    shutil.copy(EXAMPLE / "sales.csv", folder)
    if kind == "json":
        lines = [line.split(",") for line in (folder / "sales.csv").read_text().split()]
        rows = [dict(zip(lines[0], line[:3] + [float(n) for n in line[3:]])) for line in lines[1:]]
        (folder / "sales.json").write_text(json.dumps(rows))
    shutil.copy(PARQUET / "sales.parquet", folder)
    program = folder.parent / "report.py"
    program.write_text((READER if kind == "parquet" else "") + (EXAMPLE / "report.py").read_text())
    done = cay("python", *TIER, "-o", "json", "--code-type", "report", "--memory", "1g",
               "-e", "MATPLOTLIBRC=/usr/share/matplotlib/mpl-data/matplotlibrc", *MODULES,
               "-v", f"{folder}:/workspace", program, f"sales.{kind}", timeout=120)
    told = json.loads(done.stdout)
    assert (told["exit_code"], told["problems"]) == (0, []), told["stderr"]
    assert told["report"]["sections"] == ["Sales report", "Overview", "Regions", "Over time", "Outliers",
                                          "Conclusions"]
    assert told["report"]["figures"] == ["regions.png", "weeks.png"]
    assert "270 rows" in told["stdout"] and "| 2026-02-11 00:00:00 | west |" in told["stdout"]
    assert {f["path"] for f in told["files"]} == {"report.md", "regions.png", "weeks.png"}
    assert (folder / "report.md").read_text() == told["report"]["text"]


# As in the image cay/data: its modules, and what its .pth does when an interpreter starts.
MODULES = "-v", f"{ROOT}/images/data:/opt/data:ro"
READER = "import sys; sys.path.insert(0, '/opt/data'); import cay_parquet; cay_parquet.install()\n"


def needs_our_reader():
    if not has_pandas():
        pytest.skip("pandas is not installed: apt-get install python3-pandas python3-matplotlib")
    if any(importlib.util.find_spec(name) for name in ("pyarrow", "fastparquet")):
        pytest.skip("this machine reads Parquet")


def table(code, *options):
    """A program that has pandas, and a volume to work in."""
    done = cay("python", *TIER, *options, "--memory", "1g", "-o", "json", "-c", "import pandas as pd\n" + code,
               timeout=120)
    return json.loads(done.stdout)


@pytest.mark.parametrize("options", [[], ["--cold"]])
def test_parquet_is_read_by_the_module_of_the_image(folder, options):
    needs_our_reader()
    folder.chmod(0o777)
    shutil.copy(PARQUET / "sales.parquet", folder)
    told = table(READER + "data = pd.read_parquet('sales.parquet', columns=['region', 'units'])\n"
                 "data.groupby('region').sum().to_csv('sums.csv')\nprint(len(data), *data.columns)",
                 "--code-type", "process", "-v", f"{folder}:/workspace", *MODULES, *options)
    assert (told["exit_code"], told["stdout"]) == (0, "270 region units\n"), told["stderr"]
    assert [f["path"] for f in told["files"]] == ["sums.csv"]
    assert (folder / "sums.csv").read_text().startswith("region,units\n")


def test_parquet_that_is_none_or_cannot_be_written(folder):
    needs_our_reader()
    (folder / "a.parquet").write_bytes(b"PAR1, or so it says")
    told = table(READER + "try:\n    pd.read_parquet('a.parquet')\nexcept ValueError as error:\n    print(type(error), error)\n"
                 "pd.DataFrame({'a': [1]}).to_parquet('b.parquet')",
                 "--code-type", "process", "-v", f"{folder}:/workspace:ro", *MODULES)
    assert told["stdout"] == ("<class 'cay_parquet.values.ParquetError'> a.parquet: it is no Parquet file, or not all of "
                              "one\n"), told["stderr"]
    assert told["exit_code"] == 1 and told["exception"]["type"] == "ImportError", told
    assert "there is no module pyarrow" in told["exception"]["remedy"]


def test_without_the_module_the_error_names_what_reads_parquet(folder):
    """Which is not at all here; the error says what does."""
    needs_our_reader()
    shutil.copy(PARQUET / "sales.parquet", folder)
    told = table("print(pd.io.parquet.get_engine.__module__)\npd.read_parquet('sales.parquet')",
                 "-v", f"{folder}:/workspace:ro")
    assert told["stdout"] == "pandas.io.parquet\n"
    assert told["exit_code"] == 1 and told["exception"]["type"] == "ImportError", told["stderr"]
    for words in "no module pyarrow", "--package", "the image cay/data reads Parquet without it":
        assert words in told["exception"]["remedy"]


@pytest.mark.parametrize("code_type", ["process", "others"])
def test_a_module_that_is_missing(code_type):
    done = cay("python", *TIER, "--code-type", code_type, "-c", "import pyarrow_of_nobody.lib")
    assert done.returncode == 1 and b"No module named 'pyarrow_of_nobody'" in done.stderr
    assert (b"cay: there is no module pyarrow_of_nobody: install" in done.stderr) is (code_type == "process")
