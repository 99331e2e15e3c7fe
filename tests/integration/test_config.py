"""`cay config`: what is in effect, and who says so."""

import json

import pytest
from support import cay, ok, refused


def settings(*args, **more):
    answer = json.loads(ok(cay("config", "-o", "json", *args, **more)))
    return {s["key"]: s for s in answer["settings"]}, answer["file"]


def test_defaults():
    all_of_them, file = settings()
    assert file is None
    assert all_of_them["sandbox.memory_limit"]["value"] == "512m"
    assert all_of_them.pop("manager.pool_size")["origin"] == "CAY_MANAGER_POOL_SIZE"  # of all tests
    assert {s["origin"] for s in all_of_them.values()} == {"default"}
    assert all(s["about"] for s in all_of_them.values())


def test_file_and_environment_tell_where_they_are(folder):
    file = folder / "cay.toml"
    file.write_text('[sandbox]\nmemory_limit = "1g"\npids_limit = 77\n')
    file.chmod(0o644)
    found, used = settings("--config", file, env={"CAY_SANDBOX_PIDS_LIMIT": "99"})
    assert used == str(file)
    assert found["sandbox.memory_limit"]["value"] == "1g"
    assert found["sandbox.memory_limit"]["origin"] == f"{file}:2"
    assert (found["sandbox.pids_limit"]["value"], found["sandbox.pids_limit"]["origin"]) == \
        ("99", "CAY_SANDBOX_PIDS_LIMIT")


def test_some_of_them():
    assert set(settings("images")[0]) >= {"images.pull", "images.aliases"}
    assert set(settings("sandbox.memory_limit")[0]) == {"sandbox.memory_limit"}
    lines = ok(cay("config", "server", "images.pull")).splitlines()
    assert lines[0].split()[0] == "server.listen" and lines[-1].split()[:2] == ["images.pull",
                                                                              "missing"]


def test_unknown_key():
    refused(cay("config", "nonsense"), "'nonsense'", "cay config", code=3)


@pytest.mark.parametrize("text, parts", [
    ("[sandbox]\nmemory_limt = 1\n", [":2", "memory_limt", "memory_limit"]),
    ("[sandbx]\n", ["sandbx", "sandbox"]),
    ("[sandbox\n", [":1"]),
])
def test_broken_file(folder, text, parts):
    file = folder / "cay.toml"
    file.write_text(text)
    file.chmod(0o644)
    refused(cay("config", "--config", file), *parts, code=2)


def test_control_characters_do_not_come_out(folder):
    file = folder / "cay.toml"
    file.write_text('[sandbox]\nwork_dir = "/a\\u001b[31m"\n')
    file.chmod(0o644)
    done = cay("config", "--config", file, "sandbox.work_dir")
    assert b"\x1b" not in done.stdout + done.stderr
