"""`cay run --image`: what an image says is honoured, what it lacks is given, what it tries does not
leave the sandbox."""

import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest
from registry import make_image
from support import TIER, as_root_only, cay, is_sanitized, needs_ids, ok, own, refused

pytestmark = pytest.mark.skipif(is_sanitized(), reason="a sanitized cay-init needs libraries of the "
                                "host, which images lack")

BUSYBOX = Path("/bin/busybox")
NAMES = ("sh", "cat", "echo", "id", "ls", "pwd", "env", "stat", "touch", "readlink", "mkdir", "rm",
         "grep", "hostname", "head", "find", "test")
MODES = {"tmp": 0o1777}


def entry(name, kind=tarfile.REGTYPE, data=b"", mode=0o755, uid=0, gid=0, link="", device=(0, 0)):
    member = tarfile.TarInfo(name)
    member.type, member.mode, member.uid, member.gid = kind, mode, uid, gid
    member.linkname, member.size = link, len(data)
    member.devmajor, member.devminor = device
    return member, data


def tar(*entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member, data in entries:
            archive.addfile(member, io.BytesIO(data) if member.isreg() else None)
    return out.getvalue()


def base(*more):
    """A layer with a shell, accounts and the usual folders."""
    if not BUSYBOX.exists():
        pytest.skip("busybox-static is not installed: scripts/setup --test")
    folders = [entry(d, tarfile.DIRTYPE, mode=MODES.get(d, 0o755))
               for d in ("bin", "etc", "home", "tmp", "var", "usr")]
    links = [entry(f"bin/{n}", tarfile.SYMTYPE, link="busybox", mode=0o777) for n in NAMES]
    return tar(*folders, entry("bin/busybox", data=BUSYBOX.read_bytes()), *links,
               entry("etc/passwd", data=b"root:x:0:0::/root:/bin/sh\nann:x:1000:1001::/home:/bin/sh\n",
                     mode=0o644),
               entry("etc/group", data=b"root:x:0:\nstaff:x:1001:\nwheel:x:77:ann\n", mode=0o644),
               *more)


class Store:
    """A state folder of its own, and images in it."""

    def __init__(self, folder):
        self.folder = folder

    def load(self, name, layers, **config):
        work = tempfile.mkdtemp(dir=self.folder.parent)
        make_image(work, layers, **config)
        for path in [Path(work), *Path(work).rglob("*")]:
            path.chmod(0o755)
        done = cay("image", "load", "--state-dir", self.folder, "-o", "json", "-i", work)
        image = json.loads(ok(done))
        image = image["id"] if isinstance(image, dict) else image[0]["id"]
        ok(cay("image", "tag", "--state-dir", self.folder, image, name))
        shutil.rmtree(work)
        return name

    def run(self, image, *args, options=(), **more):
        return cay("run", *TIER, "--state-dir", self.folder, "--image", image, *options, *args,
                   **more)


@pytest.fixture(scope="module")
def store():
    top = Path(tempfile.mkdtemp(prefix="images-", dir="/tmp"))
    top.chmod(0o755)
    folder = top / "state"
    folder.mkdir(mode=0o700)
    own(folder)
    yield Store(folder)
    subprocess.run(["rm", "-rf", top], check=False)


@pytest.fixture(scope="module")
def plain(store):
    return store.load("plain", [base()])


# ---- what the image says ----

def test_files_of_the_image_and_not_of_the_host(store, plain):
    assert ok(store.run(plain, "--", "ls", "/")).split() == \
        ["bin", "dev", "etc", "home", "proc", "tmp", "usr", "var", "workspace"]
    assert store.run(plain, "--", "python3").returncode == 127


def test_environment_is_the_images_unless_one_says_otherwise(store):
    image = store.load("env", [base()], env=["A=image", "B=image", "PATH=/bin", "ODD=a b\"c\\d\n\té"])
    text = ok(store.run(image, "--", "env", options=("-e", "B=mine")))
    assert "A=image\n" in text and "B=mine\n" in text and "B=image" not in text
    assert "PATH=/bin\n" in text and 'ODD=a b"c\\d\n\té\n' in text


def test_entrypoint_and_command(store):
    image = store.load("words", [base()], Entrypoint=["/bin/echo", "one"], Cmd=["two", "three"])
    assert ok(store.run(image)) == "one two three\n"
    assert ok(store.run(image, "--", "four")) == "one four\n"
    assert ok(store.run(image, options=("--entrypoint", "/bin/pwd"))) == "/workspace\n"
    assert ok(store.run(image, "--", "x", options=("--entrypoint", "/bin/echo"))) == "x\n"


def test_no_command_at_all(store, plain):
    refused(store.run(plain), "no command given", "the image names none")


def test_working_folder(store):
    image = store.load("folder", [base()], WorkingDir="/srv/app")
    assert ok(store.run(image, "--", "pwd")) == "/srv/app\n"
    assert ok(store.run(image, "--", "pwd", options=("--workdir", "/tmp"))) == "/tmp\n"


@needs_ids
def test_working_folder_that_its_user_may_not_make(store):
    image = store.load("closed", [base()], WorkingDir="/srv/app", User="1000")
    assert ok(store.run(image, "--", "sh", "-c", "pwd; stat -c %u /srv/app")) == "/srv/app\n0\n"
    assert ok(store.run(image, "--", "sh", "-c", "stat -c %u /tmp/mine",
                        options=("-w", "/tmp/mine"))) == "1000\n"


@needs_ids
@pytest.mark.parametrize("user, expected", [
    ("ann", "uid=1000(ann) gid=1001(staff) groups=77(wheel)"),
    ("1000", "uid=1000(ann) gid=1001(staff)"),
    ("1234", "uid=1234 gid=0(root)"),
    ("ann:wheel", "uid=1000(ann) gid=77(wheel)"),
    ("1234:55", "uid=1234 gid=55"),
    ("", "uid=0(root) gid=0(root)"),
])
def test_user(store, user, expected):
    image = store.load(f"user-{user.replace(':', '-') or 'none'}", [base()], User=user)
    assert ok(store.run(image, "--", "id")).strip().startswith(expected)


def test_user_that_the_image_does_not_have(store):
    image = store.load("nobody", [base()], User="ghost")
    text = store.run(image, "--", "id").stderr.decode()
    assert "ghost" in text


@needs_ids
def test_owners_and_modes(store):
    image = store.load("owners", [base(entry("home/a", data=b"a", mode=0o640, uid=1000, gid=1001),
                                       entry("bin/set", data=b"x", mode=0o4755))])
    assert ok(store.run(image, "--", "stat", "-c", "%u %g %a", "/home/a", "/bin/set", "/tmp")) == \
        "1000 1001 640\n0 0 4755\n0 0 1777\n"
    assert ok(store.run(image, "--", "cat", "/home/a", options=("-u", "ann"))) == "a"
    assert store.run(image, "--", "cat", "/home/a", options=("-u", "5:5")).returncode == 1


@as_root_only
def test_what_a_user_of_the_image_writes_to_a_volume_belongs_to_its_owner(store, plain, folder):
    ok(store.run(plain, "--", "touch", "/workspace/new",
                 options=("-u", "ann", "-v", f"{folder}:/workspace")))
    assert (folder / "new").stat().st_uid == folder.stat().st_uid


# ---- images that lack things ----

def test_image_of_one_static_program(store):
    image = store.load("static", [tar(entry("busybox", data=BUSYBOX.read_bytes()))],
                       Entrypoint=["/busybox", "echo"], Cmd=["hi"])
    assert ok(store.run(image)) == "hi\n"
    assert store.run(image, "--", "x", options=("--entrypoint", "/bin/sh")).returncode == 127


def test_image_with_another_c_library(store):
    """As Alpine: programs whose loader is musl's."""
    loader = Path("/lib/x86_64-linux-musl/libc.so")
    if not loader.exists() or shutil.which("musl-gcc") is None:
        pytest.skip("musl is not installed: scripts/setup")
    with tempfile.TemporaryDirectory() as work:
        Path(work, "p.c").write_text('#include <stdio.h>\nint main(void) { puts("musl"); }\n')
        subprocess.run(["musl-gcc", "-o", f"{work}/p", f"{work}/p.c"], check=True)
        program = Path(work, "p").read_bytes()
    image = store.load("musl", [tar(entry("lib", tarfile.DIRTYPE),
                                    entry("lib/ld-musl-x86_64.so.1", data=loader.read_bytes()),
                                    entry("p", data=program))], Cmd=["/p"])
    assert ok(store.run(image)) == "musl\n"


def test_empty_image(store):
    image = store.load("empty", [tar()])
    assert store.run(image, "--", "/bin/true").returncode == 127


# ---- layers ----

def test_layers_hide_and_replace(store):
    whiteout = tarfile.REGTYPE
    image = store.load("layers", [
        base(entry("d", tarfile.DIRTYPE), entry("d/low", data=b"1"), entry("d/gone", data=b"1"),
             entry("o", tarfile.DIRTYPE), entry("o/low", data=b"1"), entry("f", data=b"1")),
        tar(entry("d/.wh.gone", whiteout), entry("o/.wh..wh..opq", whiteout),
            entry("o/new", data=b"2")),
        tar(entry("f", tarfile.DIRTYPE), entry("f/x", data=b"3"), entry("d/top", data=b"3")),
        tar(entry("d/low", tarfile.SYMTYPE, link="top")),
        tar(entry("last", data=b"5", mode=0o600)),
    ])
    text = ok(store.run(image, "--", "sh", "-c", "find /d /o /f /last | /bin/busybox sort; "
                        "readlink /d/low; cat /d/low"))
    assert text.split() == ["/d", "/d/low", "/d/top", "/f", "/f/x", "/last", "/o", "/o/new", "top",
                            "3"]


def test_what_is_written_does_not_reach_the_image(store, plain):
    ok(store.run(plain, "--", "sh", "-c", "rm -r /etc /home; echo x >/bin/new; mkdir /etc"))
    assert ok(store.run(plain, "--", "sh", "-c", "test -d /home && test ! -e /bin/new && "
                        "cat /etc/passwd")).startswith("root:")


def test_read_only_root(store, plain):
    done = store.run(plain, "--", "sh", "-c", "touch /etc/x; touch /workspace/x /tmp/x && echo fine",
                     options=("--read-only",))
    assert done.stdout == b"fine\n" and b"Read-only" in done.stderr


def test_disk_limit_holds_over_an_image(store, plain):
    done = store.run(plain, "--", "sh", "-c", "head -c 30000000 /dev/zero >/big; stat -c %s /big",
                     options=("--disk", "8m"))
    assert b"error" in done.stderr and 1 << 20 < int(done.stdout) <= 8 << 20


def test_many_layers(store):
    layers = [base(), *(tar(entry(f"l{i}", data=str(i).encode())) for i in range(100))]
    image = store.load("many", layers)
    assert ok(store.run(image, "--", "cat", "/l0", "/l50", "/l99")) == "05099"


# ---- hostile ----

@pytest.mark.parametrize("name", ["dev", "proc", "etc", "tmp", "workspace"])
@pytest.mark.parametrize("kind", ["absolute", "relative", "circle", "file"])
def test_mount_points_that_are_something_else(store, name, kind):
    there = {"absolute": entry(name, tarfile.SYMTYPE, link="/home"),
             "relative": entry(name, tarfile.SYMTYPE, link="../../../../etc"),
             "circle": entry(name, tarfile.SYMTYPE, link=name),
             "file": entry(name, data=b"x")}[kind]
    parts = tar(entry("bin", tarfile.DIRTYPE), entry("home", tarfile.DIRTYPE),
                entry("bin/busybox", data=BUSYBOX.read_bytes()), there)
    image = store.load(f"mount-{name}-{kind}", [parts])
    done = store.run(image, "--", "/bin/busybox", "sh", "-c",
                     "test -c /dev/null && test -d /proc/1 && echo walls; "
                     "/bin/busybox ls -A /home", options=("-w", "/"))
    assert ok(done) == "walls\n"


def test_masked_parts_of_proc_stay_masked(store, plain):
    assert ok(store.run(plain, "--", "sh", "-c", "cat /proc/keys /proc/kcore | head -c 9; "
                        "ls -A /proc/scsi; ls -A /proc/acpi; ls /sys; echo")) == "\n"


def test_no_path_of_the_host_is_seen(store, plain):
    text = ok(store.run(plain, "--", "cat", "/proc/self/mountinfo"))
    assert str(store.folder) not in text and "/images/" not in text


def test_configuration_of_an_attacker(store):
    """Nothing of it is a shell's business, and what cannot be is refused."""
    image = store.load("config", [base()], env=["NOEQUALS", "=x", "A=$(touch /tmp/pwned)"],
                       Cmd=["echo", "$(id)", ";", "id"], WorkingDir="../../..", Labels={"a": "b"})
    done = store.run(image, options=("-w", "/"))
    assert done.stdout == b"$(id) ; id\n"


# ---- images that are not there ----

def test_name_that_is_wrong(store):
    refused(store.run("Upper", "--", "true"), "Upper", "lower")


def test_image_that_is_not_here_and_may_not_be_pulled(store):
    refused(store.run("absent", "--", "true", options=("--pull", "never")), "absent", "never")


def test_registry_that_cannot_be_reached(store):
    done = store.run("127.0.0.1:1/absent", "--", "true")
    last = done.stderr.decode().splitlines()[-1]
    assert done.returncode == 125 and last.startswith("cay: ") and "; " in last
    assert "127.0.0.1:1" in last and "absent" in last
    assert refused(store.run("127.0.0.1:1/absent", "--", "true", options=("-q",)))


def test_errors_in_json(store):
    done = store.run("absent", "--", "true", options=("--pull", "never", "-o", "json"))
    answer = json.loads(done.stdout)
    assert done.returncode == 125 and answer["error"]["code"] == "not_found"


def test_alias_is_told(store, plain, folder):
    config = folder / "config.toml"
    config.write_text('[images]\naliases = { "python:3.12-slim" = "plain" }\n')
    os.chmod(config, 0o644)
    done = store.run("python:3.12-slim", "--", "echo", "hi", options=("--config", config))
    assert ok(done) == "hi\n"
    assert b"python:3.12-slim is an alias of plain" in done.stderr
    assert store.run("python:3.12-slim", "--", "echo", "hi",
                     options=("--config", config, "-q")).stderr == b""
