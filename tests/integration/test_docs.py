"""What the documents show is done, and what they list is complete."""

import json
import re
import subprocess

import pytest
import support
from daemons import serving
from support import ROOT, as_root_only

PAGE = ROOT / "docs/ci-pipelines.md"


def shown(name):
    """A script of the page."""
    return re.search(rf"```sh {re.escape(name)}\n(.*?)```", PAGE.read_text(), re.S).group(1)


def do(folder, name, *args, **env):
    """Runs it in a folder, with the cay that was built."""
    support.need_cay()
    (folder / name).write_text(shown(name))
    who, base = support.as_user()
    return subprocess.run(["sh", name, *map(str, args)], cwd=folder, capture_output=True, text=True,
                          env={**base, "PATH": f"{support.BUILD}:{base['PATH']}", **env},
                          timeout=100, **who)


@as_root_only
@pytest.mark.parametrize("program, told, fields", [
    ("print(6*7)", "passed", {"stdout": "42\n", "exit_code": 0}),
    ("print(input())", "passed", {"stdout": "given\n"}),
    ("raise SystemExit(3)", "failed with 3", {"exit_code": 3}),
    ("while True: print('x' * 1000)", "a limit was reached", {"output_truncated": True}),
    ("x = bytearray(2**30)", "failed with", {"timed_out": False}),
    ("import socket; socket.create_connection(('192.0.2.1', 80), 5)", "failed with 1", {}),
])
def test_one_evaluation(folder, program, told, fields):
    (folder / "program").write_text(program)
    (folder / "input").write_text("given\n")
    done = do(folder, "evaluate.sh", folder / "program", "input", "result")
    assert done.stdout.startswith(told), done.stdout + done.stderr
    result = json.loads((folder / "result").read_text())
    assert {k: result[k] for k in fields} == fields


def project(folder):
    (folder / "src").mkdir()
    (folder / "src/test.sh").write_text("echo tested; pwd\n")


@as_root_only
def test_a_whole_project(folder):
    project(folder)
    done = do(folder, "project.sh")
    assert done.returncode == 0, done.stderr
    assert (folder / "results/log").read_text() == "tested\n/workspace/build\n"


@as_root_only
def test_several_steps(folder):
    project(folder)
    with serving(folder) as daemon:
        done = do(folder, "steps.sh", CAY_HOST=f"unix://{daemon.socket}")
        assert (done.returncode, done.stdout) == (0, "tested\n/workspace\n"), done.stderr
        assert (folder / "report").read_text() == "done\n"
        assert daemon.list() == []


def readme_commands():
    """(command, what README.md shows of its output), without those that need more than `cay run`,
    limits of time, which may strike before anything is printed, and states of processes."""
    for block in re.findall(r"(?:^    .*\n)+", (ROOT / "README.md").read_text(), re.M):
        for part in re.split(r"^    \$ ", block, flags=re.M)[1:]:
            command, *lines = part.splitlines()
            if not re.search(r"cay (python|run-code|create|exec|doctor)|timeout \d|ps aux", command):
                yield command, "".join(line[4:] + "\n" for line in lines)


def without_figures(text):
    return re.sub(r"[\d.:TZ-]*\d[\d.:TZ-]*( [kMG]?B/s)?", "0", re.sub(r" +", " ", text))


@as_root_only
def test_readme_shows_what_happens(folder):
    support.need_cay()
    (folder / "build").symlink_to(support.BUILD)
    commands = list(readme_commands())
    assert len(commands) >= 15
    for command, expected in commands:
        done = subprocess.run(["sh", "-c", command.replace("/tmp/demo", f"{folder}/demo")], cwd=folder,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
                              env=support.as_user()[1])
        assert without_figures(done.stdout.decode()) == without_figures(expected), command


def test_every_exit_code_is_listed():
    table = (ROOT / "include/cay/errors.h").read_text()
    page = (ROOT / "docs/exit-codes.md").read_text()
    rows = re.findall(r'X\(CAY_\w+, \d+, "(\w+)", (\d+), (\d+)\)', table)
    assert len(rows) > 10
    for name, http, code in rows[1:]:
        assert re.search(rf"^\| {code} \| `{name}` \| {http} \|", page, re.M), name


def test_every_state_is_explained():
    states = re.findall(r'X\(SANDBOX_\w+, "(\w+)"\)', (ROOT / "src/manager/record/record.h").read_text())
    page = (ROOT / "docs/lifecycle.md").read_text()
    assert len(states) > 8 and not [s for s in states if f"`{s}`" not in page]


def anchors(page):
    """Of the headings of a page, as those who show it make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)$", text, re.M)}


def test_links_lead_somewhere():
    missing = []
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        for link, place in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text()):
            target = page.parent / link if link else page
            if not target.exists() or (place and target.suffix == ".md" and place not in anchors(target)):
                missing.append(f"{page.name}: {link}#{place}")
    assert not missing
