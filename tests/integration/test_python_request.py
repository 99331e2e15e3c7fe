"""What a request for a Python program can ask for beside its code, and clients that do not wait for it."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from daemons import Daemon, LocalHTTP
from launching import until
from support import needs_ids, own
from test_python_packages import pytestmark as needs_pip
from test_python_packages import wheel

pytestmark = [needs_ids, needs_pip]

REPORT = "# One\n" + "word " * 60 + "\n# Two\nx\n# Three\ny\n"


@pytest.fixture(scope="module")
def daemon():
    folder = Path(tempfile.mkdtemp(prefix="cay-request-"))
    folder.chmod(0o755)
    own(folder)
    wheels = folder / "wheels"
    wheels.mkdir()
    wheel(wheels, "demo", "1.0")
    made = Daemon(folder, env={"CAY_PYTHON_FIND_LINKS": str(wheels)})
    try:
        yield made
    finally:
        made.clean_up()
        shutil.rmtree(folder, ignore_errors=True)


def run(daemon, code, **more):
    return daemon.call("POST", "/api/cay/python", {"code": code, **more})


def refusal(daemon, **more):
    answer = daemon.ask("POST", "/api/cay/python", {"code": "print(1)", **more})
    return answer.status, answer.json()


# ---- packages ----

def test_packages_from_the_folder_of_the_configuration(daemon):
    told = run(daemon, "import demo; print(demo.VERSION)", packages=["demo==1.0"])
    assert (told["exit_code"], told["stdout"]) == (0, "1.0\n"), told
    assert told["interpreter"]["warm"] is False and "packages" in told["interpreter"]["why_cold"]
    told = run(daemon, "import os; print(os.path.exists('/mnt/cay-wheels'))")
    assert told["stdout"] == "False\n"


def test_packages_that_there_are_none_of(daemon):
    status, told = refusal(daemon, packages=["demo==9.9"])
    assert status == 503 and "demo==9.9" in told["message"] and "versions" in told["remedy"], told


@pytest.mark.parametrize("packages", [["--index-url=x"], ["../x"], ["a b"], "demo", [1], ["x"] * 101])
def test_packages_that_are_none(daemon, packages):
    status, told = refusal(daemon, packages=packages)
    assert status == 400 and told["message"], told


# ---- types ----

def test_a_report_is_looked_at(daemon):
    told = run(daemon, f"open('report.md', 'w').write({REPORT!r})", code_type="report")
    assert (told["exit_code"], told["problems"]) == (0, []), told
    assert told["report"]["sections"] == ["One", "Two", "Three"] and told["code_type"] == "report"
    told = run(daemon, "print(1)", code_type="report")
    assert told["exit_code"] == 1 and "no report" in told["problems"][0]
    told = run(daemon, "print(1)", code_type="process")
    assert told["exit_code"] == 1 and "no data" in told["problems"][0]
    told = run(daemon, "open('a.csv', 'w').write('1')", code_type="process")
    assert (told["exit_code"], told["problems"]) == (0, [])


def test_a_type_that_there_is_not(daemon):
    status, told = refusal(daemon, code_type="novel")
    assert status == 400 and "report" in told["remedy"]


# ---- the network ----

ASK = """
import urllib.request, urllib.error
try:
    print(urllib.request.urlopen("http://elsewhere.example/", timeout=20).status)
except urllib.error.HTTPError as e:
    print(e.code, "elsewhere.example" in e.read().decode())
"""


def test_a_network_is_the_listed_one(daemon):
    told = run(daemon, ASK, network="allow=listed.example")
    assert (told["exit_code"], told["stdout"]) == (0, "403 True\n"), told
    told = run(daemon, "import os; print([k for k in os.environ if 'proxy' in k.lower()])", network="none")
    assert told["stdout"] == "[]\n"


def test_networks_that_are_none(daemon):
    for network in "all", "allow=", "allow=a b":
        status, told = refusal(daemon, network=network)
        assert status == 400 and told["remedy"], (network, told)


# ---- clients that hang up ----

def sleepers(mark):
    """Processes of this host with the word in what they were started with."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", mark.encode()]:
            found.append(pid)
    return found


@pytest.mark.parametrize("more", [{}, {"envs": {"PYTHONX": "1"}}], ids=["plain", "cold"])
def test_who_hangs_up_gives_the_program_up(daemon, more):
    mark = f"4711.{os.getpid()}{len(more)}"
    code = f"import subprocess; subprocess.run(['sleep', '{mark}'])"
    client = LocalHTTP(daemon.socket)
    client.request("POST", "/api/cay/python", json.dumps({"code": code, "timeout": 3600, **more}))
    assert until(lambda: sleepers(mark), 60)
    client.close()
    assert until(lambda: not sleepers(mark), 60)
    assert run(daemon, "print(1)")["stdout"] == "1\n"
