"""Volumes of sandboxes that stay: which folders of the host the daemon shows, whatever is tried, and
named ones, which are its own."""

import json
import os
import tempfile
from pathlib import Path

import pytest
import support
from daemons import Refused, serving, serving_alone

SOMEBODY = 4711
NO_POOL = {"CAY_MANAGER_POOL_SIZE": "0"}


@pytest.fixture(scope="module")
def place():
    """What others may read: state folder and volumes."""
    with tempfile.TemporaryDirectory(prefix="volumes-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        support.own(folder)
        yield Path(folder)


def own(path):
    """Gives it to the tested user, or to somebody who is not root."""
    support.own(path)
    if not support.USER:
        os.chown(path, SOMEBODY, SOMEBODY)


@pytest.fixture(scope="module")
def shown(place):
    for name in ("shown", "hidden"):
        (place / name).mkdir()
        own(place / name)
        (place / name / "file").write_text(name)
    return place / "shown"


@pytest.fixture(scope="module")
def daemon(place, shown):
    folder = place / "daemon"
    folder.mkdir()
    support.own(folder)
    with serving(folder, env={"CAY_MANAGER_VOLUME_FOLDERS": f"{shown},{folder}"}) as one:
        yield one


def create(daemon, *volumes, **more):
    return daemon.create(volumes=list(volumes), **more)["id"]


def remove(daemon, who):
    daemon.call("DELETE", f"/api/cay/sandbox/{who}?force=true")


def refusal(daemon, *volumes):
    with pytest.raises(Refused) as refused:
        create(daemon, *volumes)
    assert not [box for box in daemon.list() if box["state"] != "started"]
    return refused.value.status, refused.value.error["message"], refused.value.error["remedy"]


# ---- folders of the host ----

def test_an_allowed_folder(daemon, shown):
    (shown / "inner").mkdir(exist_ok=True)
    own(shown / "inner")
    (shown / "within").unlink(missing_ok=True)
    (shown / "within").symlink_to("inner")
    who = create(daemon, f"{shown}:/a:ro", f"{shown}/inner:/b", f"{shown}/within/../file:/c:ro",
                 f"{shown}/within:/d")
    try:
        assert daemon.exec(who, "cat", "/a/file", "/c") == (0, "shownshown")
        assert daemon.exec(who, "sh", "-c", "echo x > /b/new && cat /d/new") == (0, "x\n")
        assert (shown / "inner" / "new").read_text() == "x\n"
    finally:
        remove(daemon, who)


def test_other_folders(daemon, place, shown):
    for source in (place / "hidden", place, "/etc", "/", "/proc/1/root", f"{shown}-more",
                   f"{shown}/../hidden"):
        if source == f"{shown}-more":
            Path(source).mkdir()
        status, message, remedy = refusal(daemon, f"{source}:/data")
        assert status == 403, message
        assert "volume_folders" in remedy


def test_symlinks_do_not_lead_out(daemon, place, shown):
    for number, target in enumerate((place / "hidden", "../hidden", "/", "/proc/self/root", "/etc")):
        link = shown / f"trick-{number}"
        link.symlink_to(target)
        for path in (link, link / "file", link / "passwd"):
            status, message, _ = refusal(daemon, f"{path}:/data")
            assert status in (403, 404), message
        assert refusal(daemon, f"{link}:/data")[0] == 403


def test_state_folder_is_never_shown(daemon):
    """Not even below an allowed folder."""
    state = daemon.state
    for path in (state, state / "sandboxes", state / "daemon", state.parent):
        status, message, _ = refusal(daemon, f"{path}:/data:ro")
        assert status == 403 and "state folder" in message, message
    link = state.parent / "link"
    link.symlink_to("state")
    assert refusal(daemon, f"{link}:/data:ro")[0] == 403


def test_missing_folder(daemon, shown):
    assert refusal(daemon, f"{shown}/nothing:/data")[0] == 404


def test_a_folder_that_was_replaced_is_refused_at_the_next_start(daemon, place, shown):
    folder = shown / "fickle"
    folder.mkdir()
    own(folder)
    who = create(daemon, f"{folder}:/data")
    try:
        daemon.call("POST", f"/api/cay/sandbox/{who}/stop?force=true")
        folder.rmdir()
        folder.symlink_to(place / "hidden")
        with pytest.raises(Refused) as refused:
            daemon.call("POST", f"/api/cay/sandbox/{who}/start")
        assert refused.value.status == 403
    finally:
        remove(daemon, who)


# ---- the host's root ----

@support.as_root_only
def test_root_shows_no_folder_unless_it_is_configured(place, shown):
    with serving_alone(env=NO_POOL) as daemon:
        for source in (shown, "/home", "/srv", "/opt", "/tmp", "/etc", "/"):
            for mode in ("", ":ro"):
                status, message, remedy = refusal(daemon, f"{source}:/data{mode}")
                assert status == 403 and "shows none" in message, message
                assert "volume_folders" in remedy
        launcher = Path(f"/proc/{daemon.launcher()}/cmdline").read_bytes().split(b"\0")
        assert len(launcher) == 4, "the launcher was told of folders"


@support.as_root_only
def test_a_folder_of_root_is_not_written(place):
    """Also below an allowed folder: what a sandbox makes never belongs to the host's root."""
    folder = place / "of-root"
    folder.mkdir()
    (folder / "public").write_text("public")
    (folder / "secret").write_text("secret")
    (folder / "secret").chmod(0o600)
    with serving_alone(env={**NO_POOL, "CAY_MANAGER_VOLUME_FOLDERS": str(place)}) as daemon:
        status, message, remedy = refusal(daemon, f"{folder}:/data")
        assert status == 403 and "root" in message and "volume_root_folders" in remedy
        who = create(daemon, f"{folder}:/data:ro")
        script = "cat /data/public; stat -c :%u /data; cat /data/secret"
        code, text = daemon.exec(who, "sh", "-c", script)
        assert code != 0 and text.startswith("public:65534\n") and "secret: Permission" in text


@support.as_root_only
def test_a_folder_of_root_that_was_named(place):
    folder = place / "named"
    folder.mkdir()
    env = {**NO_POOL, "CAY_MANAGER_VOLUME_FOLDERS": str(place),
           "CAY_MANAGER_VOLUME_ROOT_FOLDERS": str(folder)}
    with serving_alone(env=env) as daemon:
        who = create(daemon, f"{folder}:/data")
        assert daemon.exec(who, "sh", "-c", "echo x >/data/new; stat -c %u /data/new") == (0, "0\n")
        assert (folder / "new").stat().st_uid == 0
        (place / "beside").mkdir()
        assert refusal(daemon, f"{place}/beside:/data")[0] == 403


@support.as_root_only
def test_the_group_of_root_is_not_given(place):
    folder = place / "grouped"
    folder.mkdir()
    os.chown(folder, SOMEBODY, 0)
    with serving_alone(env={**NO_POOL, "CAY_MANAGER_VOLUME_FOLDERS": str(place)}) as daemon:
        status, message, _ = refusal(daemon, f"{folder}:/data")
        assert status == 403 and "group root" in message
        os.chown(folder, SOMEBODY, SOMEBODY)
        who = create(daemon, f"{folder}:/data")
        assert daemon.exec(who, "sh", "-c", "echo x >/data/new")[0] == 0
        made = (folder / "new").stat()
        assert (made.st_uid, made.st_gid) == (SOMEBODY, SOMEBODY)


@support.as_root_only
def test_a_local_root_names_the_folder_by_typing_it(place):
    folder = place / "typed"
    folder.mkdir()
    done = support.cay("run", "-v", f"{folder}:/data", "--", "sh", "-c", "echo x >/data/new")
    assert done.returncode == 0, done.stderr
    assert (folder / "new").stat().st_uid == 0


def test_bad_setting(place):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        done = support.cay("create", "--state-dir", folder,
                           env={"CAY_MANAGER_VOLUME_FOLDERS": "relative"})
    assert done.returncode != 0 and b"volume_folders" in done.stderr


# ---- named volumes ----

@pytest.fixture
def volume(daemon):
    made = daemon.call("POST", "/api/cay/volumes", {"name": "data"})
    yield made["id"]
    daemon.ask("DELETE", f"/api/cay/volumes/{made['id']}")


def test_shared_by_sandboxes(daemon, volume):
    one, two = create(daemon, "data:/data"), create(daemon, f"{volume}:/shared:ro")
    try:
        script = "echo hello > /data/file && mkdir /data/sub && stat -c %u /data /data/file"
        assert daemon.exec(one, "sh", "-c", script) == (0, "0\n0\n")
        assert daemon.exec(two, "cat", "/shared/file") == (0, "hello\n")
        assert daemon.exec(two, "stat", "-c", "%u", "/shared/file") == (0, "0\n")
        assert daemon.exec(two, "touch", "/shared/new")[0] != 0
        answer = daemon.ask("DELETE", "/api/cay/volumes/data")
        assert answer.status == 409 and "used by" in answer.json()["message"]
    finally:
        remove(daemon, one)
        remove(daemon, two)
    three = create(daemon, {"volumeId": volume, "mountPath": "/again"})
    try:
        assert daemon.exec(three, "cat", "/again/file") == (0, "hello\n")
    finally:
        remove(daemon, three)
    assert daemon.ask("DELETE", "/api/cay/volumes/data").status == 204
    assert daemon.get(f"/api/cay/volumes/{volume}").status == 404
    assert not (daemon.state / "volumes" / volume).exists()


def test_routes(daemon, volume):
    by_id = daemon.call("GET", f"/api/cay/volumes/{volume}")
    assert by_id["name"] == "data" and by_id["state"] == "ready"
    assert daemon.call("GET", "/api/cay/volumes/by-name/data") == by_id
    assert by_id in daemon.call("GET", "/api/cay/volumes")
    assert daemon.ask("POST", "/api/cay/volumes", {"name": "data"}).status == 409
    for bad in ({"name": "../x"}, {"name": ""}, {}, {"name": volume}, {"nam": "x"}):
        assert daemon.ask("POST", "/api/cay/volumes", bad).status == 400
    for bad in ("nothing:/data", "da/ta:/data"):
        assert refusal(daemon, bad)[0] == 404
    assert refusal(daemon, "data:/proc")[0] == 400


def test_survives_the_daemon(daemon, volume):
    who = create(daemon, "data:/data")
    try:
        assert daemon.exec(who, "sh", "-c", "echo kept > /data/file")[0] == 0
        daemon.call("POST", f"/api/cay/sandbox/{who}/stop?force=true")
        daemon.stop()
        daemon.start()
        daemon.call("POST", f"/api/cay/sandbox/{who}/start")
        assert daemon.exec(who, "cat", "/data/file") == (0, "kept\n")
        assert daemon.ask("DELETE", f"/api/cay/volumes/{volume}").status == 409
    finally:
        remove(daemon, who)


def test_verbs(daemon):
    def verb(*words, group="volume"):
        return support.cay(group, words[0], "--state-dir", daemon.state, *words[1:])
    assert verb("create", "one", "two").stdout == b"one\ntwo\n"
    assert verb("ls", "-q").stdout.split() == [b"one", b"two"]
    assert b"one" in verb("info", "one").stdout
    assert json.loads(verb("ls", "-o", "json").stdout)[0]["name"] == "one"
    assert verb("create", "one").returncode == 4
    assert verb("rm", "one", "two").returncode == 0
    assert verb("rm", "one").returncode == 3
