"""`use_sandbox = false`: refused unless it is allowed in so many words, and then limited as far as it
can be. Harmless commands only: they run on this host."""

import json

import pytest
from launching import is_alive, until
from support import cay, given_time, ok, refused

OFF = {"CAY_SANDBOX_USE_SANDBOX": "false"}
ALLOWED = {**OFF, "CAY_SANDBOX_ALLOW_HOST_EXECUTION": "true"}
WARNING = "not in a sandbox"


def host(*args, **more):
    return cay("run", *args, env={**ALLOWED, **more.pop("env", {})}, **more)


@pytest.mark.parametrize("verb", [["run", "--", "true"], ["create"], ["config"]])
def test_it_is_refused_with_the_risk(verb):
    done = cay(*verb, env=OFF)
    assert done.returncode == (125 if verb[0] == "run" else 2) and done.stdout == b""
    assert b"all rights" in done.stderr and b"allow_host_execution" in done.stderr


def test_it_runs_here_with_a_warning(folder):
    done = host("--quiet", "-w", folder, "-e", "A=b", "--", "sh", "-c",
                "pwd; echo $A; echo $SECRET; cat; exit 5", input=b"in", env={"SECRET": "no"})
    assert (done.returncode, done.stdout.decode()) == (5, f"{folder}\nb\n\nin")
    assert WARNING in done.stderr.decode()


@pytest.mark.parametrize("argv, code", [
    (["no-such-program"], 127),
    (["/etc/passwd"], 126),
    (["sh", "-c", "kill -TERM $$"], 128 + 15),
    ([], 125),
])
def test_exit_codes_are_those_of_shells(argv, code):
    assert host("--", *argv, env={"PATH": "/usr/bin:/bin"}).returncode == code


def test_time_is_limited():
    done = given_time(lambda s: host("--timeout", s, "--", "sh", "-c", "trap '' TERM; echo first; sleep 600"),
                      lambda done: done.stdout != b"")
    assert (done.returncode, done.stdout) == (124, b"first\n")


def test_silence_is_limited():
    done = host("--idle-output-timeout", "300ms", "-o", "json", "--", "sleep", "1000")
    result = json.loads(done.stdout)
    assert (done.returncode, result["timed_out"], result["tier"]) == (124, True, "none")


def test_output_is_limited():
    done = host("--output-max", "10", "--", "sh", "-c", "while :; do echo y; done")
    assert (done.returncode, done.stdout) == (124, b"y\n" * 5)


def test_what_it_leaves_behind_ends_with_it(folder):
    done = host("--", "sh", "-c", f"sleep 300 & echo $! > {folder}/pid")
    assert done.returncode == 0
    pid = int((folder / "pid").read_text())
    assert until(lambda: not is_alive(pid))


@pytest.mark.parametrize("option", [
    ["--memory", "1g"], ["--cpus", "1"], ["--pids", "9"], ["--disk", "1g"], ["--read-only"],
    ["--user", "nobody"], ["--network", "none"], ["-v", "/tmp:/x"], ["--image", "debian"],
    ["--tier", "basic"], ["--profile", "build"], ["--name", "x"],
])
def test_what_needs_walls_is_refused(option):
    refused(host(*option, "--", "true"), "needs a sandbox", code=125)


def test_none_is_created(folder):
    refused(cay("create", "--state-dir", folder, env=ALLOWED), "switched off", code=4)
    assert not (folder / "daemon").exists()


def test_permission_alone_changes_nothing():
    done = cay("config", "sandbox.use", env={"CAY_SANDBOX_ALLOW_HOST_EXECUTION": "true"})
    assert "true" in ok(done)
