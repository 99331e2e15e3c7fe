"""`cay version`, `cay --help` and the completions."""

import json
import re
import shutil
import subprocess

import pytest
from support import cay, ok, refused

VERBS = ["run", "doctor", "completion", "version"]


def test_version():
    text = ok(cay("version"))
    assert re.fullmatch(r"cay \S+\n", text)
    assert ok(cay("--version")) == text
    assert json.loads(ok(cay("version", "-o", "json"))) == {"version": text.split()[1]}


def test_help():
    text = ok(cay("--help"))
    assert ok(cay()) == ok(cay("help")) == ok(cay("-h")) == text
    for verb in VERBS:
        assert re.search(rf"^  {verb} ", text, re.M)
        page = ok(cay("help", verb))
        assert page == ok(cay(verb, "--help")) == ok(cay(verb, "-h"))
        assert page.startswith(f"Usage: cay {verb}")


def complete_in_bash(script, *words):
    driver = 'source "$0"; COMP_WORDS=(cay "$@"); COMP_CWORD=$#; _cay; echo "${COMPREPLY[*]}"'
    done = subprocess.run(["bash", "--norc", "-c", driver, script, *words], capture_output=True)
    assert done.stderr == b""
    return done.stdout.decode().split()


def test_bash_completion(tmp_path):
    script = tmp_path / "cay.bash"
    script.write_text(ok(cay("completion", "bash")))
    assert set(VERBS) <= set(complete_in_bash(script, ""))
    assert complete_in_bash(script, "doc") == ["doctor"]
    assert complete_in_bash(script, "run", "--mem") == ["--memory"]
    assert set(complete_in_bash(script, "run", "--profile", "")) == {"strict", "build"}


@pytest.mark.parametrize("shell, check", [("bash", ["-n"]), ("zsh", ["-n"]),
                                          ("fish", ["--no-execute"])])
def test_completion_is_valid(shell, check, tmp_path):
    script = tmp_path / "cay"
    script.write_text(ok(cay("completion", shell)))
    for verb in VERBS:
        assert verb in script.read_text()
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([shell, *check, script], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_unknown_shell():
    refused(cay("completion", "xsh"), "'xsh'", "bash, zsh or fish", code=2)
    refused(cay("completion"), "needs 1 argument", code=2)
