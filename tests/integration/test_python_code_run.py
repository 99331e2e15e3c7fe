"""What `code-run` of the toolbox takes for Python beside code: its type, with data that was uploaded, and packages."""

import pytest
from daemons import serving_alone
from support import needs_ids
from test_daytona_files import Box
from test_python_packages import pytestmark as needs_pip
from test_python_packages import wheel
from test_python_report import EXAMPLE, GOOD, needs_our_reader

pytestmark = needs_ids


@pytest.fixture(scope="module")
def daemon():
    with serving_alone() as made:
        yield made


@pytest.fixture(scope="module")
def box(daemon):
    return Box(daemon, daemon.create(name="coder", memory="1g")["id"])


def ask(box, code, language="python", **more):
    return box.daemon.ask("POST", f"/toolbox/{box.who}/process/code-run", {"code": code, "language": language, **more})


def run(box, code, **more):
    answer = ask(box, code, **more)
    assert answer.status == 200, answer.text
    return answer.json()


def download(box, path):
    reply = box.ask("GET", "/files/download", path=path)
    assert reply.status == 200, reply.data
    return reply.data


def test_from_a_file_to_a_report_with_charts(box):
    needs_our_reader()
    place = run(box, "import os; print(os.getcwd())")["result"].strip()
    box.put(f"{place}/sales.csv", (EXAMPLE / "sales.csv").read_bytes())
    told = run(box, (EXAMPLE / "report.py").read_text(), argv=["sales.csv"], code_type="report", timeout=120)
    assert (told["exitCode"], told["problems"], told["code_type"]) == (0, [], "report"), told
    assert told["report"]["figures"] == ["regions.png", "weeks.png"]
    assert {f["path"] for f in told["files"]} == {"report.md", "regions.png", "weeks.png"}
    assert download(box, f"{place}/report.md").decode() == told["report"]["text"]
    assert download(box, f"{place}/weeks.png").startswith(b"\x89PNG")


def test_what_a_type_asks_for(box):
    told = run(box, "print(1)", code_type="report")
    assert told["exitCode"] == 1 and "no report" in told["problems"][0] and told["report"] is None
    told = run(box, f"open('r.md', 'w').write({GOOD!r}); raise SystemExit(4)", code_type="report")
    assert (told["exitCode"], told["problems"], told["report"]["path"]) == (4, [], "r.md")
    told = run(box, "print(1)", code_type="process")
    assert told["exitCode"] == 1 and "no data" in told["problems"][0]
    told = run(box, "open('new.csv', 'w').write('1')", code_type="process")
    assert (told["exitCode"], told["problems"]) == (0, [])
    assert "problems" not in run(box, "print(1)")


@pytest.mark.parametrize("language, more, part", [
    ("python", {"code_type": "novel"}, "code_type"), ("python", {"code_type": 1}, "code_type"),
    ("python", {"packages": ["-r x"]}, "no name of a package"), ("python", {"packages": "x"}, "packages"),
    ("bash", {"code_type": "report"}, "not for bash"), ("bash", {"packages": ["x"]}, "not for bash")])
def test_what_is_refused(box, language, more, part):
    answer = ask(box, "exit", language, **more)
    assert answer.status == 400 and part in answer.json()["message"], answer.text


@needs_pip
def test_packages(box, tmp_path):
    answer = ask(box, "print(1)", packages=["demo"])
    assert answer.status == 503 and "no network" in answer.json()["message"], answer.text
    wheel(tmp_path, "demo", "1.0")
    name = next(tmp_path.iterdir()).name
    box.put(f"/tmp/wheels/{name}", (tmp_path / name).read_bytes())
    answer = ask(box, "import demo; print(demo.VERSION)", packages=["demo==1.0"], envs={"PIP_FIND_LINKS": "/tmp/wheels"})
    assert answer.json()["result"] == "1.0\n", answer.text
    assert answer.headers["X-Cay-Python"] == "cold; packages are installed for it"
