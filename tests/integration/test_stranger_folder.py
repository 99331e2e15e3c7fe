"""A folder that somebody else filled: its config/config.toml narrows what a sandbox gets, and neither
switches the sandbox off nor leads anywhere."""

import json
import os
import socket

import pytest
from support import USER, cay, ok, own, own_folder, refused

HOST_EXECUTION = "[sandbox]\nuse_sandbox = false\nallow_host_execution = true\n"


def checkout(folder, text):
    """The folder, with a configuration in it."""
    file = own_folder(folder / "config") / "config.toml"
    file.write_text(text)
    own(file)
    return folder


def users(folder, text):
    """An environment whose user has this configuration."""
    place = own_folder(own_folder(folder / "xdg") / "cay") / "config.toml"
    place.write_text(text)
    place.chmod(0o644)
    own(place)
    return {"XDG_CONFIG_HOME": str(folder / "xdg")}, place


def test_commands_stay_in_the_sandbox(folder):
    checkout(folder, HOST_EXECUTION)
    done = cay("run", "--", "sh", "-c", f"test -e {folder} || echo inside", cwd=folder)
    assert ok(done) == "inside\n"
    note = done.stderr.decode()
    assert note.count("\n") == 1 and "not in a sandbox" not in note
    for part in ("config/config.toml", "sandbox.use_sandbox (line 2)", "sandbox.allow_host_execution (line 3)",
                 "--config config/config.toml"):
        assert part in note, note


def test_a_file_that_was_named_is_trusted(folder):
    checkout(folder, HOST_EXECUTION)
    done = cay("run", "--config", "config/config.toml", "--", "pwd", cwd=folder)
    assert ok(done) == f"{folder}\n" and "not in a sandbox" in done.stderr.decode()


def test_python_and_create_do_not_read_it_either(folder):
    checkout(folder, HOST_EXECUTION)
    done = cay("run-code", "--language", "bash", "-c", f"test -e {folder} || echo inside", cwd=folder)
    assert done.returncode == 0 and done.stdout == b"inside\n", done.stderr
    assert b"sandbox.use_sandbox" in done.stderr


@pytest.mark.parametrize("verb", [["ls"], ["info", "nothing"], ["session", "ls", "nothing"]])
def test_no_key_goes_to_a_stranger(folder, verb):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        checkout(folder, f'[remote]\nhost = "http://127.0.0.1:{port}"\n')
        # Nobody listens at this address, which the user gave: a stranger's would have been asked instead.
        env = {"CAY_REMOTE_HOST": "http://127.0.0.1:1", "CAY_API_KEY": "secret"}
        done = cay(*verb, cwd=folder, env=env)
        assert done.returncode != 0 and b"remote.host (line 2)" in done.stderr, done.stderr
        with pytest.raises(BlockingIOError):
            server.accept()


def test_limits_go_down_and_not_up(folder):
    env, _ = users(folder, '[sandbox]\nmemory_limit = "128m"\npids_limit = 64\n')
    checkout(folder, '[sandbox]\nmemory_limit = "8g"\npids_limit = 33\ntimeout = 7\n')
    answer = json.loads(ok(cay("config", "-o", "json", "sandbox", cwd=folder, env=env)))
    found = {s["key"]: (s["value"], s["layer"]) for s in answer["settings"]}
    assert found["sandbox.memory_limit"] == ("128m", "user")
    assert found["sandbox.pids_limit"] == ("33", "folder")
    assert found["sandbox.timeout"] == ("7", "folder")
    assert [(i["key"], i["line"]) for i in answer["ignored"]] == [("sandbox.memory_limit", 2)]
    assert [(f["layer"], f["limited"] is None) for f in answer["files"]] == [("user", True), ("folder", False)]


def test_origin_shows_layers_files_and_what_was_ignored(folder):
    env, place = users(folder, '[sandbox]\npids_limit = 64\n')
    checkout(folder, HOST_EXECUTION)
    lines = ok(cay("config", "--origin", "sandbox", cwd=folder, env=env)).splitlines()
    words = [line.split() for line in lines]
    assert ["sandbox.pids_limit", "64", "user", f"{place}:2"] in words
    assert ["sandbox.use_sandbox", "true", "default", "default"] in words
    assert ["file", "user", str(place)] in words
    assert ["ignored", "sandbox.use_sandbox", "config/config.toml:2"] in words


def test_an_image_is_not_downloaded(folder):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        name = f"127.0.0.1:{server.getsockname()[1]}/a/b:1"
        checkout(folder, f'[sandbox]\nimage = "{name}"\n')
        done = cay("run", "--state-dir", folder / "state", "--", "true", cwd=folder)
        assert done.returncode == 125 and b"--pull missing" in done.stderr, done.stderr
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.skipif(bool(USER), reason="only root gives files away")
def test_a_users_file_of_somebody_else(folder):
    env, place = users(folder, HOST_EXECUTION)
    os.chown(place, 54321, 54321)
    done = cay("run", "--", "sh", "-c", f"test -e {folder} || echo inside", cwd="/", env=env)
    assert ok(done) == "inside\n" and b"another user owns it" in done.stderr


def test_a_users_file_that_others_write(folder):
    env, place = users(folder, HOST_EXECUTION)
    place.chmod(0o666)
    done = cay("run", "--", "sh", "-c", f"test -e {folder} || echo inside", cwd="/", env=env)
    assert ok(done) == "inside\n"
    assert b"others can write to it" in done.stderr and b"chmod go-w" in done.stderr


def test_a_daemon_does_not_start_with_half_of_a_configuration(folder):
    env, place = users(folder, "[manager]\nmax_sandboxes = 3\n")
    place.chmod(0o666)
    refused(cay("serve", "--state-dir", folder / "state", cwd="/", env=env), "manager.max_sandboxes",
            "others can write to it", code=9)


def test_a_fifo_does_not_hold_anything_up(folder):
    own_folder(folder / "config")
    os.mkfifo(folder / "config" / "config.toml")
    refused(cay("run", "--", "true", cwd=folder), "not a regular file")


def test_a_contradiction_is_refused(folder):
    checkout(folder, '[sandbox]\nnetwork_enabled = true\nnetwork = "none"\n')
    refused(cay("run", "--", "true", cwd=folder), "network_enabled is true", "config.toml:3")
