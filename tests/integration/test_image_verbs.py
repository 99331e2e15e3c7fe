"""`cay image`: every verb, what it prints for people and for programs, and what bad input gets."""

import io
import json
import os
import pty
import re
import stat
import tarfile
import tempfile
import time
from pathlib import Path

import pytest
import registry
from support import (BUILD, TIER, USER, as_root_only, cay, is_sanitized, ok, own, refused, remove,
                     start)

CODES = {"internal": 1, "invalid": 2, "not_found": 3, "conflict": 4, "unsupported": 7,
         "unauthorized": 8, "forbidden": 9, "unavailable": 10}
HEX = r"[0-9a-f]{64}"


@pytest.fixture(autouse=True)
def need_program():
    if not (BUILD / "cay-image").exists():
        pytest.skip("cay-image is not built: ninja -C build")


@pytest.fixture
def place():
    """A folder with a state folder and a home of the tested user."""
    top = Path(tempfile.mkdtemp(prefix="verbs-", dir="/tmp"))
    top.chmod(0o755)
    for name in ("state", "home", "files"):
        (top / name).mkdir(mode=0o755)
        own(top / name)
    yield Place(top)
    remove(top)


class Place:
    def __init__(self, top):
        self.top, self.state = top, top / "state"
        self.home, self.files = top / "home", top / "files"
        self.env = {"XDG_CONFIG_HOME": str(self.home), "HOME": str(self.home)}

    def image(self, verb, *args, env=None, **more):
        return cay("image", verb, "--state-dir", self.state, *args,
                   env={**self.env, **(env or {})}, **more)

    def json(self, verb, *args, **more):
        return json.loads(ok(self.image(verb, "-o", "json", *args, **more)))

    def make(self, name=None, files=None, *options):
        """An image of one layer; its id."""
        operands = ["-", name] if name else ["-"]
        done = self.image("import", *options, *operands, input=tar(files or {"etc/x": b"x"}))
        return ok(done).strip()

    def names(self):
        return ok(self.image("ls", "-q")).split()

    def file(self, name, data=b"", mode=0o644):
        path = self.files / name
        path.write_bytes(data)
        path.chmod(mode)
        return own(path)


def tar(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o644
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def tar_files(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {m.name.removeprefix("./"): archive.extractfile(m).read()
                for m in archive if m.isreg()}


# ---- ls, inspect ----

def test_an_empty_store(place):
    assert ok(place.image("ls")).split() == ["NAME", "TAG", "ID", "CREATED", "SIZE"]
    assert ok(place.image("ls", "-q")) == ""
    assert place.json("ls") == []


def test_ls_as_table(place):
    one = place.make("team/tool:1.0")
    ok(place.image("tag", "team/tool:1.0", "localhost:5000/a/b"))
    other = place.make(None, {"etc/y": b"yy"})
    lines = [line.split() for line in ok(place.image("ls")).splitlines()]
    rows = {(line[0], line[1]): line[2] for line in lines[1:]}
    assert rows == {("team/tool", "1.0"): one[7:19], ("localhost:5000/a/b", "latest"): one[7:19],
                    ("<none>", "<none>"): other[7:19]}
    assert sorted(place.names()) == sorted(["team/tool:1.0", "localhost:5000/a/b:latest", other])


def test_ls_as_json(place):
    one = place.make("team/tool:1.0")
    ok(place.image("tag", one, "python"))
    image, = place.json("ls")
    assert set(image) == {"id", "names", "owners", "public", "created", "size"}
    assert image["public"] and image["owners"] == []
    assert image["id"] == one and image["size"] >= 1
    assert sorted(image["names"]) == ["docker.io/library/python:latest",
                                      "docker.io/team/tool:1.0"]


def test_inspect(place):
    one = place.make("team/tool", None, "-c", 'ENV A="b c"', "-c", 'CMD ["sh", "-c", "x"]',
                     "-c", "LABEL k=v", "-c", "USER 1000", "-c", "WORKDIR /srv")
    image = json.loads(ok(place.image("inspect", "team/tool")))
    assert image == place.json("inspect", one) == place.json("inspect", one[7:15])
    assert image["id"] == one and image["names"] == ["docker.io/team/tool:latest"]
    config = image["config"]
    assert config["cmd"] == ["sh", "-c", "x"] and config["user"] == "1000"
    assert config["env"] == ["A=b c"] and config["labels"] == {"k": "v"}
    assert config["working_dir"] == "/srv" and config["entrypoint"] == []
    layer, = image["layers"]
    assert re.fullmatch("sha256:" + HEX, layer["diff_id"]) and layer["entries"] >= 1
    assert layer["chain_id"] == layer["diff_id"]


# ---- tag, rm, prune ----

def test_tag_moves_a_name(place):
    one, two = place.make("a"), place.make("b", {"etc/y": b"yy"})
    ok(place.image("tag", "b", "a"))
    assert place.json("inspect", "a")["id"] == two
    assert place.json("inspect", one)["names"] == []


def test_rm_by_name_removes_the_image_with_its_last_name(place):
    one = place.make("a")
    ok(place.image("tag", "a", "b"))
    assert ok(place.image("rm", "a")) == ""
    assert place.names() == ["b:latest"] and place.json("inspect", one)["id"] == one
    ok(place.image("rm", "b"))
    assert place.json("ls") == []


def test_rm_by_id(place):
    one = place.make("a")
    text = refused(place.image("rm", one[7:19]), "has 1 name", "-f", code=CODES["conflict"])
    assert one[7:19] in text
    ok(place.image("rm", "-f", one))
    assert place.json("ls") == []
    two = place.make(None)
    ok(place.image("rm", two[7:13]))
    assert place.json("ls") == []


def test_rm_of_several_goes_on_after_a_failure(place):
    place.make("a")
    place.make("b", {"etc/y": b"yy"})
    done = place.image("rm", "a", "nothing", "b")
    refused(done, "'nothing'", "cay image ls", code=CODES["not_found"])
    assert place.json("ls") == []


def test_prune(place):
    place.make("a", {"etc/x": b"x" * 100_000})
    kept = place.make("b", {"etc/y": b"y" * 100_000})
    unnamed = place.make(None, {"etc/z": b"z" * 100_000})
    assert place.json("prune")["bytes"] == 0
    ok(place.image("rm", "a"))
    seen = place.json("prune", "--dry-run")
    assert seen["dry_run"] and seen["layers"] == 1 and seen["bytes"] >= 100_000
    assert seen["images"] == 0
    assert "would be removed" in ok(place.image("prune", "-n"))
    done = place.json("prune")
    assert {**seen, "dry_run": False} == done
    assert {i["id"] for i in place.json("ls")} == {kept, unnamed}
    line = ok(place.image("prune", "-a"))
    assert re.fullmatch(r"removed: 1 images, 1 layers, \d+ blobs, 0 leftovers; .*B\n", line)
    assert [i["id"] for i in place.json("ls")] == [kept]
    assert ok(place.image("prune", "-q")) == ""
    assert tar_files(place.image("export", "b").stdout)["etc/y"] == b"y" * 100_000


def test_an_image_in_use_stays(place):
    busybox = Path("/bin/busybox")
    if not busybox.exists():
        pytest.skip("busybox-static is not installed: scripts/setup --test")
    if is_sanitized():
        pytest.skip("cay-init needs the host's libraries in a sanitizer's build")
    with tempfile.TemporaryFile() as out:
        with tarfile.open(fileobj=out, mode="w") as archive:
            archive.add(busybox, "bin/busybox")
        out.seek(0)
        one = ok(place.image("import", "-", "box", stdin=out)).strip()
    box = start("run", *TIER, "--state-dir", place.state, "--image", "box", "--",
                "/bin/busybox", "sh", "-c", "echo ready; read line; echo $line", env=place.env)
    try:
        first = box.stdout.readline()
        assert first == b"ready\n", box.stderr.read()
        done = place.image("rm", "box")
        ok(done)
        assert b"in use by a sandbox" in done.stderr and b"prune -a" in done.stderr
        assert place.json("prune", "-a")["images"] == 0
        assert place.json("inspect", one)["names"] == []
        out, _ = box.communicate(b"still here\n", timeout=60)
        assert out == b"still here\n"
    finally:
        box.kill()
        box.wait()
    deadline = time.monotonic() + 60  # whoever removes the sandbox may need a moment
    while place.json("prune", "-a")["images"] == 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert place.json("ls") == []


# ---- import, export, save, load ----

def test_import_and_export(place):
    data = tar({"etc/a": b"A" * 5000, "usr/b": b"B"})
    path = place.file("root.tar", data)
    done = place.json("import", path, "team/root:2")
    assert done == {"id": done["id"], "name": "docker.io/team/root:2"}
    assert re.fullmatch("sha256:" + HEX, done["id"])
    piped = place.json("import", "-", input=data)
    assert set(piped) == {"id", "name"} and piped["name"] is None
    assert tar_files(place.image("export", "team/root:2").stdout) == {"etc/a": b"A" * 5000,
                                                                      "usr/b": b"B"}
    out = place.files / "out.tar"
    assert ok(place.image("export", "-f", out, "team/root:2")) == ""
    assert tar_files(out.read_bytes())["usr/b"] == b"B"


def test_save_and_load(place):
    one, two = place.make("a:1"), place.make("b", {"etc/y": b"yy"})
    out = place.files / "images.tar"
    ok(place.image("save", "-f", out, "a:1", two))
    assert os.listdir(place.files) == ["images.tar"]
    piped = place.image("save", "a:1", two)
    assert ok(piped) and tarfile.open(fileobj=io.BytesIO(piped.stdout)).getnames()
    ok(place.image("rm", "a:1", "b"))
    ok(place.image("prune"))
    loaded = place.json("load", "-i", out)
    assert sorted(i["id"] for i in loaded) == sorted([one, two])
    assert {tuple(i["names"]) for i in loaded} == {("docker.io/library/a:1",), ()}
    lines = ok(place.image("load", input=piped.stdout)).splitlines()
    assert sorted(lines) == sorted([f"{one} docker.io/library/a:1", two])


def test_load_of_a_folder(place):
    image = registry.make_image(place.files / "oci", [{"etc/hello": b"hi"}])
    for path in [place.files / "oci", *(place.files / "oci").rglob("*")]:
        path.chmod(0o755)
    loaded, = place.json("load", "-i", place.files / "oci")
    assert loaded["id"] == "sha256:" + image.config.hex


def test_a_failed_save_leaves_nothing_and_keeps_what_was_there(place):
    place.make("a")
    old = place.file("images.tar", b"old")
    refused(place.image("save", "-f", old, "a", "nothing"), "'nothing'", code=CODES["not_found"])
    assert old.read_bytes() == b"old" and os.listdir(place.files) == ["images.tar"]
    ok(place.image("save", "-f", old, "a"))
    assert tarfile.is_tarfile(old) and os.listdir(place.files) == ["images.tar"]


def test_a_killed_save_leaves_nothing(place):
    """At whatever moment: the archive is there as a whole, or not at all."""
    place.make("a", {"big": os.urandom(4 << 20)})
    out = place.files / "out"
    for moment in range(8):
        box = start("image", "save", "--state-dir", place.state, "-f", out, "a", env=place.env)
        time.sleep(moment * 0.01)
        box.terminate()
        box.communicate(timeout=60)
        assert os.listdir(place.files) in ([], ["out"])
        if out.exists():  # it was faster than we were, or about to end
            assert tarfile.is_tarfile(out)
            out.unlink()
        else:
            assert box.returncode != 0


def test_save_to_something_special(place):
    place.make("a")
    ok(place.image("save", "-f", "/dev/null", "a"))
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


# ---- terminals ----

@pytest.mark.parametrize("verb", [["save", "a"], ["export", "a"]])
def test_no_archive_goes_to_a_terminal(place, verb):
    master, slave = pty.openpty()
    try:
        refused(place.image(*verb, stdout=slave), "terminal", "-f", code=CODES["invalid"])
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.parametrize("verb", [["load"], ["import", "-"], ["build", "-"]])
def test_no_archive_comes_from_a_terminal(place, verb):
    master, slave = pty.openpty()
    try:
        refused(place.image(*verb, stdin=slave), "terminal", code=CODES["invalid"])
    finally:
        os.close(master)
        os.close(slave)


# ---- bad input ----

BAD = [
    (["frobnicate"], "invalid", ["'frobnicate'", "cay image --help"]),
    (["insepct"], "invalid", ["did you mean 'cay image inspect'"]),
    (["ls", "extra"], "invalid", ["unexpected argument 'extra'"]),
    (["ls", "--nope"], "invalid", ["unknown option '--nope'"]),
    (["ls", "-o", "xml"], "invalid", ["xml"]),
    (["inspect"], "invalid", ["needs 1 argument"]),
    (["inspect", "nothing"], "not_found", ["'nothing'", "cay image ls"]),
    (["inspect", "Bad Name"], "invalid", ["Bad Name"]),
    (["inspect", "x" * 2000], "invalid", ["too long"]),
    (["inspect", "sha256:zz"], "not_found", []),
    (["inspect", "a\x1b[2Jb"], "invalid", ["\\x1b"]),
    (["tag", "nothing", "new"], "not_found", ["'nothing'"]),
    (["tag", "nothing", "New"], "invalid", ["lower case"]),
    (["tag", "nothing", "new@sha256:" + "0" * 64], "invalid", ["digest"]),
    (["rm"], "invalid", ["needs at least 1 argument"]),
    (["pull", "Bad"], "invalid", ["'Bad'"]),
    (["pull", "x:bad tag"], "invalid", ["tag"]),
    (["pull", "--platform", "linux", "x"], "invalid", ["linux"]),
    (["pull", "--pull", "often", "x"], "invalid", ["often"]),
    (["pull", "--progress", "loud", "x"], "invalid", ["loud"]),
    (["pull", "--ca", "/nonexistent.pem", "x"], "not_found", ["/nonexistent.pem"]),
    (["pull", "--ca", "/etc", "x"], "conflict", ["/etc"]),
    (["pull", "--ca", "/etc/passwd", "x"], "invalid", ["holds no certificate"]),
    (["pull", "--pull", "never", "x"], "not_found", ["'x:latest'", "cay image load"]),
    (["pull", "localhost:1/x"], "unavailable", ["localhost:1"]),
    (["load", "-i", "/nonexistent"], "not_found", ["/nonexistent"]),
    (["load", "extra"], "invalid", ["unexpected argument"]),
    (["load", "-i", "/etc/passwd"], "invalid", []),
    (["import", "/etc"], "invalid", ["is a folder"]),
    (["import", "/etc/passwd"], "invalid", []),
    (["import", "/nonexistent", "name"], "not_found", ["/nonexistent"]),
    (["import", "/dev/null", "Name"], "invalid", ["'Name'"]),
    (["save", "nothing"], "not_found", ["'nothing'"]),
    (["save", "-f", "/tmp", "x"], "invalid", ["is a folder"]),
    (["save", "-f", "/nonexistent/x", "x"], "not_found", ["/nonexistent/x"]),
    (["export", "nothing"], "not_found", ["'nothing'"]),
    (["build", "/nonexistent"], "not_found", ["/nonexistent"]),
    (["build", "/etc/passwd"], "not_found", ["/etc/passwd", "name a folder"]),
    (["build", "/usr/lib"], "not_found", ["Dockerfile", "-f"]),
    (["build", "-f", "/nonexistent", "/usr/lib"], "not_found", ["/nonexistent"]),
    (["build", "-f", "/etc/passwd", "-"], "invalid", ["standard input"]),
    (["build", "-t", "Bad", "/usr/lib"], "invalid", ["'Bad'"]),
    (["build", "-l", "none", "/usr/lib"], "invalid", ["KEY=VALUE"]),
    (["build", "--network", "bridge", "/usr/lib"], "invalid", ["bridge"]),
    (["build", "-m", "0", "/usr/lib"], "invalid", ["--memory"]),
    (["login", "two/parts"], "invalid", ["'two/parts'", "registry.example:5000"]),
    (["login", "word"], "invalid", ["'word'"]),
    (["login", "https://x.example"], "invalid", ["https://x.example"]),
    (["login", "localhost:1"], "invalid", ["no terminal", "--password-stdin"]),
    (["login", "localhost:1", "-u", "a"], "invalid", ["--password-stdin"]),
    (["login", "localhost:1", "-u", "a", "--password-stdin"], "invalid", ["empty"]),
    (["login", "localhost:1", "-u", "a:b", "--password-stdin"], "invalid", ["':'"]),
    (["logout", "two/parts"], "invalid", ["'two/parts'"]),
]


@pytest.mark.parametrize("args, code, parts", BAD, ids=[" ".join(b[0])[:40] for b in BAD])
def test_bad_input(place, args, code, parts):
    done = place.image(*args)
    text = done.stderr.decode().splitlines()
    assert done.stdout == b"" and text, (done.returncode, text)
    done.stderr = (text[-1] + "\n").encode()  # a pull tells first what it is about to do
    refused(done, *parts, code=CODES[code])


def test_no_verb_and_help_show_what_there_is(place):
    for args in ([], ["--help"], ["help"]):
        text = ok(cay("image", *args))
        assert "cay image COMMAND --help" in text and "\n  pull " in text
        assert "ensure" not in text
    assert "--platform" in ok(cay("image", "pull", "--help"))
    assert "\n  pull " in ok(cay("help", "image"))


def test_state_folder_that_cannot_be_written(place):
    (place.files / "file").write_bytes(b"")
    done = cay("image", "ls", "--state-dir", place.files / "file" / "x", env=place.env)
    refused(done, "--state-dir", code=CODES["not_found"])


@pytest.mark.skipif(not USER, reason="root may write everywhere")
def test_state_folder_of_another(place):
    (place.top / "closed").mkdir(mode=0o555)
    done = cay("image", "ls", "--state-dir", place.top / "closed" / "x", env=place.env)
    refused(done, "--state-dir", code=CODES["forbidden"])


def test_configuration_that_is_wrong(place):
    for verb in (["pull", "x"], ["build", "/usr/lib"], ["login", "localhost:1"]):
        missing = place.files / "missing.toml"
        refused(place.image(*verb, "--config", missing), str(missing), code=CODES["not_found"])
        bad = place.file("bad.toml", b"[images]\npul = 'never'\n")
        refused(place.image(*verb, "--config", bad), "bad.toml:2:1", "'pull'",
                code=CODES["invalid"])
    alias = place.file("alias.toml", b"[images.aliases]\nx = 'Bad'\n")
    refused(place.image("pull", "--config", alias, "y"), "images.aliases", "'Bad'",
            code=CODES["invalid"])


@pytest.mark.skipif(not USER, reason="root may read everything")
def test_configuration_that_is_closed(place):
    closed = place.file("closed.toml")
    os.chown(closed, 0, 0)
    closed.chmod(0o600)
    refused(place.image("pull", "--config", closed, "x"), "closed.toml", code=CODES["forbidden"])


# ---- pull, aliases, ensure ----

@pytest.fixture(scope="module")
def plain_registry():
    registry.need_tools()
    with registry.plain() as reg, tempfile.TemporaryDirectory() as folder:
        reg.image = registry.make_image(Path(folder) / "image",
                                        [{"etc/hello": b"hi"}, {"etc/more": b"more"}])
        reg.push(reg.image, "team/hello:1")
        yield reg


def test_pull(place, plain_registry):
    name = plain_registry.name("team/hello:1")
    wanted = "sha256:" + plain_registry.image.config.hex
    done = place.image("pull", name)
    assert ok(done) == wanted + "\n"
    text = done.stderr.decode()
    assert ": done\n" in text and "\x1b" not in text
    assert place.json("pull", name) == {"id": wanted, "name": name}
    quiet = place.image("pull", "-q", name)
    assert (ok(quiet), quiet.stderr) == (wanted + "\n", b"")
    assert place.names() == [name]
    assert tar_files(place.image("export", name).stdout) == {"etc/hello": b"hi",
                                                             "etc/more": b"more"}


def test_pull_with_events(place, plain_registry):
    done = place.image("pull", "-q", "--progress", "json", plain_registry.name("team/hello:1"))
    ok(done)
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert events and all(set(e) in ({"note"}, {"layer", "state", "done", "total"})
                          for e in events)
    assert len({e["layer"] for e in events if e.get("state") == "done"}) == 2


def test_pull_on_a_terminal_draws_bars(place, plain_registry):
    master, slave = pty.openpty()
    try:
        ok(place.image("pull", plain_registry.name("team/hello:1"), stderr=slave))
        os.close(slave)
        slave = None
        text = b""
        try:
            while chunk := os.read(master, 65536):
                text += chunk
        except OSError:
            pass  # the end of a terminal
        assert b"\x1b[K" in text and text.rstrip().endswith(b"\x1b[J")
    finally:
        os.close(master)
        if slave is not None:
            os.close(slave)


def test_alias(place, plain_registry):
    place.make("cay/python")
    config = place.file("config.toml", b"[images]\naliases = { \"python:3.12-slim\" = "
                                       b"\"cay/python\" }\n")
    done = place.image("pull", "-q", "--config", config, "docker.io/library/python:3.12-slim")
    assert ok(done).startswith("sha256:")
    assert done.stderr == b"cay: docker.io/library/python:3.12-slim is an alias of cay/python here\n"
    by_variable = place.image("pull", "-q", "python:3.12-slim",
                              env={"CAY_IMAGES_ALIASES": "python:3.12-slim=cay/python"})
    assert ok(by_variable) == ok(done)


def test_ensure(place, plain_registry):
    name = plain_registry.name("team/hello:1")
    never = place.image("ensure", "--pull", "never", name)
    lines = never.stdout.decode().splitlines()
    assert never.returncode == CODES["not_found"] and never.stderr == b""
    assert lines[0] == "not_found" and name in lines[1] and len(lines) == 3
    wanted = plain_registry.image.config.hex
    assert ok(place.image("ensure", name)) == wanted + "\n"
    again = place.image("ensure", name)
    assert (ok(again), again.stderr) == (wanted + "\n", b"")
    for text in (wanted, "sha256:" + wanted, wanted[:8]):
        assert ok(place.image("ensure", "--pull", "never", text)) == wanted + "\n"
    gone = place.image("ensure", "--pull", "always", plain_registry.name("team/other"))
    assert gone.returncode == CODES["not_found"], gone.stdout


# ---- login, logout ----

@pytest.fixture(scope="module")
def closed_registry():
    registry.need_tools()
    with registry.htpasswd() as reg, tempfile.TemporaryDirectory() as folder:
        image = registry.make_image(Path(folder) / "image", [{"etc/hello": b"hi"}])
        reg.push(image, "team/hello:1")
        yield reg


def login(place, reg, password, *more):
    return place.image("login", reg.host, "-u", registry.USER, "--password-stdin", *more,
                       input=password.encode() + b"\n")


def test_login_and_logout(place, closed_registry):
    reg, auth = closed_registry, place.home / "cay" / "auth.json"
    name = reg.name("team/hello:1")
    assert place.image("pull", name).returncode == CODES["unauthorized"]
    wrong = login(place, reg, "wrong")
    refused(wrong, reg.host, code=CODES["unauthorized"])
    assert not auth.exists()
    done = login(place, reg, registry.PASSWORD)
    ok(done)
    assert done.stderr.decode() == f"cay: logged in to {reg.host} as {registry.USER}\n"
    assert stat.S_IMODE(auth.stat().st_mode) == 0o600
    assert stat.S_IMODE(auth.parent.stat().st_mode) & 0o022 == 0
    assert registry.PASSWORD not in auth.read_text()
    ok(place.image("pull", name))
    assert ok(place.image("logout", "-q", reg.host)) == ""
    assert reg.host not in auth.read_text()
    again = place.image("logout", reg.host)
    assert ok(again) == "" and b"there was no login" in again.stderr
    assert place.image("pull", "--pull", "always", name).returncode == CODES["unauthorized"]


def test_login_on_a_terminal_does_not_echo(place, closed_registry):
    master, slave = pty.openpty()
    box = start("image", "login", "--state-dir", place.state, closed_registry.host,
                env=place.env, stdin=slave, stdout=slave, stderr=slave)
    try:
        shown = b""
        for question, answer in ((b"User: ", registry.USER), (b"Password: ", registry.PASSWORD)):
            while not shown.endswith(question):
                shown += os.read(master, 1024)
            os.write(master, answer.encode() + b"\n")
        assert box.wait(60) == 0
        shown += os.read(master, 1024)
        assert b"logged in to" in shown and registry.PASSWORD.encode() not in shown
    finally:
        box.kill()
        box.wait()
        os.close(slave)
        os.close(master)


def test_login_with_a_private_authority(place):
    registry.need_tools()
    with registry.tls(auth=True) as reg:
        ca = place.file("ca.pem", Path(reg.ca).read_bytes())
        refused(login(place, reg, registry.PASSWORD), reg.host, code=CODES["unavailable"])
        ok(login(place, reg, registry.PASSWORD, "--ca", ca))
        config = place.file("config.toml", f"[images]\nca_file = '{ca}'\n".encode())
        ok(login(place, reg, registry.PASSWORD, "--config", config))
        config = place.file("config.toml",
                            f"[images]\ninsecure_registries = ['{reg.host}']\n".encode())
        ok(login(place, reg, registry.PASSWORD, "--config", config))


# ---- build ----

def test_build(place):
    place.file("Dockerfile", b"FROM scratch\nARG V=1\nLABEL v=$V\nCOPY hello /etc/hello\n"
                             b'CMD ["/etc/hello"]\n')
    place.file("hello", b"hi")
    done = place.image("build", "-t", "team/hello", "-t", "team/hello:2", "--build-arg", "V=3",
                       "-l", "from=test", place.files)
    one = ok(done).strip()
    assert re.fullmatch("sha256:" + HEX, one) and b"COPY hello" in done.stderr
    image = place.json("inspect", one)
    assert image["config"]["labels"] == {"v": "3", "from": "test"}
    assert sorted(image["names"]) == ["docker.io/team/hello:2", "docker.io/team/hello:latest"]
    assert tar_files(place.image("export", one).stdout) == {"etc/hello": b"hi"}
    quiet = place.image("build", "-q", "-", input=b"FROM team/hello\nENV A=1\n")
    assert place.json("inspect", ok(quiet).strip())["config"]["env"][-1] == "A=1"
    assert quiet.stderr == b""
    named = place.json("build", "-f", place.files / "Dockerfile", "-t", "x", place.files)
    assert named["name"] == "docker.io/library/x:latest"


# ---- completion ----

def test_completion_offers_the_verbs():
    for shell in ("bash", "zsh", "fish"):
        script = ok(cay("completion", shell))
        assert "image" in script and "password-stdin" in script and "dry-run" in script
        assert "ensure" not in script


@as_root_only
def test_what_root_makes_belongs_to_ids_that_nobody_has(place):
    place.make("a")
    store = place.state / "images" / "store"
    owners = {p.lstat().st_uid for p in store.rglob("*")}
    assert owners and all(0x7fff0000 <= uid < 0x80000000 for uid in owners), owners


def test_nothing_stays_on_the_host(clean_host, place, plain_registry):
    """Neither processes nor mounts nor temporary files, whether a verb succeeds or not."""
    name = plain_registry.name("team/hello:1")
    ok(place.image("pull", name))
    ok(place.image("save", "-f", place.files / "out.tar", name))
    ok(place.image("load", "-i", place.files / "out.tar"))
    ok(place.image("build", "-", input=f"FROM {name}\nENV A=1\nWORKDIR /srv\n".encode()))
    assert place.image("build", "-", input=f"FROM {name}\nRUN x\n".encode()).returncode != 0
    assert place.image("pull", plain_registry.name("team/nothing")).returncode != 0
    assert place.image("import", "-", input=b"no tar at all").returncode != 0
    ok(place.image("prune", "-a"))


def test_a_base_image_may_be_an_alias(place):
    place.make("cay/base")
    done = place.image("build", "-", input=b"FROM python:3.12-slim\nENV A=1\n",
                       env={"CAY_IMAGES_ALIASES": "python:3.12-slim=cay/base",
                            "CAY_IMAGES_PULL": "never"})
    ok(done)
    assert b"python:3.12-slim is an alias of cay/base here" in done.stderr
