"""The unmodified SDKs from npm against a real daemon: node runs a suite, and says what failed."""

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from conftest import load_image

NEWEST = "@daytonaio/sdk"
SUCCESSOR = "@daytona/sdk"
OLD = "sdk-0-21"
RUNS = [(suite, NEWEST) for suite in (
    "lifecycle", "process", "sessions", "pty", "files", "streams", "git", "preview", "images",
    "builds", "contexts", "snapshots", "volumes", "errors", "clients", "lsp", "interpreter", "more")]
RUNS += [("lifecycle", SUCCESSOR), ("process", SUCCESSOR), ("files", SUCCESSOR),
         ("interpreter", SUCCESSOR), ("legacy", OLD)]
LEAST_CHECKS = 360
SECONDS = 300
STREAM_KB = 40 * 1024

summaries = []


@pytest.mark.parametrize("suite, sdk", RUNS, ids=[f"{suite}-{sdk}" for suite, sdk in RUNS])
def test_suite(service, packages, tmp_path, request, suite, sdk):
    if suite in ("images", "builds", "contexts", "snapshots"):
        request.getfixturevalue("image")
    env = {**os.environ, "DAYTONA_API_URL": service.url, "DAYTONA_API_KEY": service.key}
    before = front_peak(service)
    result = subprocess.run(["node", packages / "run.mjs", suite, sdk], env=env, cwd=tmp_path,
                            stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=SECONDS)
    report = result.stdout + result.stderr
    assert result.returncode == 0, report
    summary = json.loads(result.stdout.strip().split("\n")[-1])
    assert summary["failed"] == [] and summary["checks"] > 0, report
    summaries.append(summary)
    if suite == "streams":  # 100 MB pass through, and are not kept
        assert front_peak(service) - before < STREAM_KB


@pytest.mark.parametrize("suite", ["sessions", "pty", "contexts"])
def test_over_tls(encrypted, packages, tmp_path, suite):
    """Streams of logs and terminals, and the event socket, are WebSockets of TLS there; and what is
    uploaded for builds is not hashed, since TLS guards it."""
    service, authority = encrypted
    if suite == "contexts":
        load_image(service)
    env = {**os.environ, "DAYTONA_API_URL": service.url, "DAYTONA_API_KEY": service.key,
           "NODE_EXTRA_CA_CERTS": str(authority)}
    result = subprocess.run(["node", packages / "run.mjs", suite, NEWEST], env=env, cwd=tmp_path,
                            stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=SECONDS)
    assert result.returncode == 0, result.stdout + result.stderr
    assert json.loads(result.stdout.strip().split("\n")[-1])["failed"] == []


def front_peak(service):
    """The most memory that the process with the requests has had, in KB."""
    status = Path(f"/proc/{service.daemon.front()}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])


SCRIPT = """
import { Daytona } from '%s'
const sandbox = await new Daytona().create()
console.log((await sandbox.process.executeCommand('echo done')).result)
"""


@pytest.mark.parametrize("sdk", [NEWEST, SUCCESSOR])
def test_a_script_ends_by_itself(service, packages, sdk):
    """One that neither removes its sandbox nor closes its client: without an event socket the SDK
    tries to reach it for minutes."""
    env = {**os.environ, "DAYTONA_API_URL": service.url, "DAYTONA_API_KEY": service.key}
    began = time.monotonic()
    result = subprocess.run(["node", "--input-type=module", "-e", SCRIPT % sdk], env=env,
                            cwd=packages, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=SECONDS)
    assert (result.returncode, result.stdout) == (0, "done\n\n"), result.stderr
    assert time.monotonic() - began < 60


def test_enough_is_checked():
    """Whoever takes checks away must notice."""
    if len(summaries) < len(RUNS):
        pytest.skip("not every suite was run")
    checks = sum(summary["checks"] for summary in summaries if summary["sdk"] == NEWEST)
    assert checks >= LEAST_CHECKS, checks
    assert {summary["sdk"] for summary in summaries} == {NEWEST, SUCCESSOR, OLD}


def test_the_lock_file_is_exact(packages):
    """Versions are pinned, and nothing names the machine that wrote the file."""
    wanted = json.loads((packages / "package.json").read_text())["dependencies"]
    assert all(re.fullmatch(r"(npm:@daytonaio/sdk@)?\d+\.\d+\.\d+", v) for v in wanted.values())
    lock = json.loads((packages / "package-lock.json").read_text())
    fetched = {name: p for name, p in lock["packages"].items() if name and not p.get("link")}
    assert all("integrity" in p for p in fetched.values())
    assert not any("resolved" in p for p in fetched.values())
