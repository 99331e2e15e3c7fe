"""`cay image build`: beside a real Docker, from its cache, and with hostile contexts."""

import io
import json
import os
import re
import tarfile
import tempfile
from pathlib import Path

import pytest
from dockerd import docker  # noqa: F401
from support import BUILD, SINGLE_ID, as_root_only, cay, is_sanitized, needs_ids, ok, own, remove

BUSYBOX = "/bin/busybox"
TOOLS = "sh ls cat echo id mkdir touch env pwd chmod chown ln rm true false stat sleep printf".split()
PASSWD = b"root:x:0:0:root:/root:/bin/sh\napp:x:1000:1001:app:/home/app:/bin/sh\n"
GROUP = b"root:x:0:\napp:x:1001:\nstaff:x:50:\n"


@pytest.fixture(scope="module", autouse=True)
def need_programs():
    if not (BUILD / "cay-image").exists():
        pytest.skip("cay-image is not built: ninja -C build")
    if not os.path.exists(BUSYBOX):
        pytest.skip("busybox-static is not installed: scripts/setup")


def base_tar():
    """A small system: busybox, two users, a symlink to a folder and one to nowhere."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        def add(name, kind=tarfile.REGTYPE, data=b"", mode=0o755, link=""):
            member = tarfile.TarInfo(name)
            member.type, member.mode, member.linkname, member.size = kind, mode, link, len(data)
            member.mtime = 1_600_000_000
            archive.addfile(member, io.BytesIO(data))
        for name in ("bin", "etc", "real", "root"):
            add(name, tarfile.DIRTYPE)
        add("tmp", tarfile.DIRTYPE, mode=0o1777)
        add("bin/busybox", data=Path(BUSYBOX).read_bytes())
        for tool in TOOLS:
            add(f"bin/{tool}", tarfile.SYMTYPE, link="busybox")
        add("etc/passwd", data=PASSWD, mode=0o644)
        add("etc/group", data=GROUP, mode=0o644)
        add("alias", tarfile.SYMTYPE, link="/real")
        add("outside", tarfile.SYMTYPE, link="/../../../etc")
    return out.getvalue()


def need_runs(text):
    """Skips where the commands of this Dockerfile cannot run."""
    if not re.search(r"^RUN ", text, re.M):
        return
    if SINGLE_ID:
        pytest.skip("RUN needs an id range: the tested user has one id only")
    if is_sanitized():
        pytest.skip("a sanitized cay-init needs libraries that the image does not have")


class Place:
    """A state folder with the base image, and a context."""

    def __init__(self, top):
        self.top, self.state, self.context = top, top / "state", top / "context"

    def image(self, verb, *args, **more):
        return cay("image", verb, "--state-dir", self.state, *args, **more)

    def file(self, name, data="", mode=0o644, time=1_700_000_000):
        path = self.context / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        path.chmod(mode)
        os.utime(path, (time, time))
        for part in (path, *path.parents):
            if part != self.top and self.top in part.parents:
                own(part)
        return path

    def build(self, text, *args, context=None, **more):
        need_runs(text)
        (self.top / "Dockerfile").write_text(text)
        os.utime(self.top / "Dockerfile", (1_700_000_000, 1_700_000_000))
        own(self.top / "Dockerfile")
        return self.image("build", "-f", self.top / "Dockerfile", *args,
                          context or self.context, **more)

    def built(self, text, *args, **more):
        """The id and the log of a build that must succeed."""
        done = self.build(text, *args, **more)
        return ok(done).strip().removeprefix("sha256:"), done.stderr.decode()

    def tree(self, image):
        """Every file of an image."""
        done = self.image("export", image)
        assert done.returncode == 0, done.stderr
        return tree_of(io.BytesIO(done.stdout))

    def config(self, image):
        return json.loads(ok(self.image("inspect", "-o", "json", image)))


def tree_of(file):
    """Name -> type, mode, owner, size, content, target, from a tar."""
    found = {}
    with tarfile.open(fileobj=file) as archive:
        for m in archive:
            name = m.name.removeprefix("./").strip("/")
            if name in ("", "."):
                continue
            if m.islnk():
                found[name] = found[m.linkname.removeprefix("./").strip("/")]
                continue
            data = archive.extractfile(m).read() if m.isreg() else None
            found[name] = (m.type, m.mode & 0o7777, m.uid, m.gid, data, m.linkname)
    return found


@pytest.fixture
def place():
    top = Path(tempfile.mkdtemp(prefix="building-", dir="/tmp"))
    top.chmod(0o755)
    own(top)
    p = Place(top)
    for folder in (p.state, p.context):
        folder.mkdir()
        own(folder)
    ok(p.image("import", "-", "base:1", input=base_tar()))
    yield p
    remove(top)


# ---- beside Docker ----

MULTI_STAGE = """\
# escape=\\
ARG VERSION=1
FROM base:1 AS build
ARG VERSION
ARG EXTRA=none
ENV NAME=thing LONG="with blanks" OLD=$VERSION
ENV old form of it
WORKDIR /src
WORKDIR deep/er
RUN echo "$NAME $VERSION $EXTRA" > made && mkdir -p d/e && chmod 2750 d && ln -s made link \\
    && ln made hard \\
    # a comment
    && chown 1000:50 made
RUN ["/bin/sh", "-c", "echo exec > exec; rm /etc/group; echo root:x:0: > /etc/group"]
COPY *.txt data/[a-c]?.bin ./
COPY dir /copied
COPY dir/ /copied-too/
COPY --chown=app:1001 dir/x.sh /deep/path/renamed.sh
COPY --chown=1234 empty /owned
COPY one.txt /alias/
COPY one.txt /alias-of-file
ADD packed.tar.gz /unpacked
ADD one.txt /unpacked/
RUN rm -r /copied/sub; echo more >> /copied/a; rm /bin/touch
RUN echo x >> /etc/hosts; echo x > /etc/hostname; echo x > /tmp/x; chmod 1777 /etc
FROM scratch AS unused
COPY one.txt /
FROM base:1
LABEL maintainer=me version="$VERSION" two="a b" \\
      three='$x'
ENV PATH=/opt/bin:$PATH GREETING="hi ${NAME:-nobody}" EMPTY=
EXPOSE 80 53/udp 8000-8002
VOLUME /data
COPY --from=build /src /out
COPY --from=0 --chown=app:app /copied/a /out/chowned
COPY --from=build /src/deep/er/link /followed
SHELL ["/bin/busybox", "sh", "-c"]
RUN echo shell > /shell
USER app:1001
WORKDIR /home/app
STOPSIGNAL SIGINT
ENTRYPOINT ["/bin/echo", "entry"]
CMD default argument
"""


def fill(place):
    place.file("one.txt", "one\n")
    place.file("two.txt", "two\n", mode=0o600)
    place.file("data/ab.bin", b"\0\1\2")
    place.file("data/zz.bin", b"not me")
    place.file("dir/a", "a\n")
    place.file("dir/x.sh", "#!/bin/sh\n", mode=0o755)
    place.file("dir/sub/deeper/file", "x" * 100_000, mode=0o640)
    place.file("dir/.hidden", "h")
    (place.context / "dir/rel").symlink_to("sub/deeper")
    (place.context / "dir/abs").symlink_to("/etc/passwd")
    place.file("empty/keep", "")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("in/file")
        member.size, member.uid, member.gid, member.mode = 2, 7, 8, 0o640
        archive.addfile(member, io.BytesIO(b"in"))
    place.file("packed.tar.gz", packed.getvalue())


def compare(ours, theirs):
    names = sorted(set(ours) | set(theirs))
    different = [(n, ours.get(n), theirs.get(n)) for n in names if ours.get(n) != theirs.get(n)]
    assert not different, "\n".join(f"{n}: cay {str(a)[:150]}, docker {str(b)[:150]}"
                                    for n, a, b in different)


# What a container has besides its image; /data is where its volume is mounted.
OF_CONTAINERS = re.compile(r"(dev|proc|sys)(/.*)?|data|\.dockerenv|"
                           r"etc/(hosts|hostname|resolv\.conf|mtab)")


def exported(docker, image, folder):  # noqa: F811
    archive = folder / "theirs.tar"
    docker.export(image, archive)
    with open(archive, "rb") as file:
        found = tree_of(file)
    return {n: v for n, v in found.items() if not OF_CONTAINERS.fullmatch(n)}


@as_root_only
def test_same_tree_and_configuration_as_docker(place, docker):  # noqa: F811
    fill(place)
    (place.top / "base.tar").write_bytes(base_tar())
    docker("import", place.top / "base.tar", "base:1")
    ours, _ = place.built(MULTI_STAGE, "--build-arg", "EXTRA=given")
    docker("build", "--network", "none", "-q", "-t", "theirs", "--build-arg", "EXTRA=given", "-f",
           place.top / "Dockerfile", place.context)
    mine = {n: v for n, v in place.tree(ours).items() if not OF_CONTAINERS.fullmatch(n)}
    compare(mine, exported(docker, "theirs", place.top))
    config = json.loads(docker("inspect", "theirs"))[0]["Config"]
    archive = place.top / "ours.tar"
    ok(place.image("tag", ours, "ours:1"))
    ok(place.image("save", "-f", archive, "ours:1"))
    docker.load(archive)
    loaded = json.loads(docker("inspect", "ours:1"))[0]["Config"]
    for key in ("Env", "Cmd", "Entrypoint", "WorkingDir", "User", "Labels", "ExposedPorts",
                "Volumes", "StopSignal"):
        assert loaded[key] == config[key], key
    docker("rmi", "-f", "theirs", "ours:1", "base:1")


# ---- the cache ----

STEPS = "FROM base:1\nRUN echo once > /a\nCOPY f /f\nRUN echo twice > /b\n"


def cached(log):
    """The steps that came from the cache."""
    steps = re.findall(r"^STEP (\d+)/\d+: .*\n((?: ---> cached\n)?)", log, re.M)
    return [int(number) for number, mark in steps if mark]


def test_cache_hits_and_misses(place):
    place.file("f", "1")
    first, log = place.built(STEPS)
    assert cached(log) == []
    again, log = place.built(STEPS)
    assert (cached(log), again) == ([2, 3, 4], first)
    place.file("f", "1", time=1_700_000_500)  # only its time
    _, log = place.built(STEPS)
    assert cached(log) == [2, 3, 4]
    place.file("f", "2")
    _, log = place.built(STEPS)
    assert cached(log) == [2]
    place.file("f", "2", mode=0o755)
    _, log = place.built(STEPS)
    assert cached(log) == [2]
    _, log = place.built(STEPS.replace("once", "changed"))
    assert cached(log) == []
    _, log = place.built(STEPS, "--no-cache")
    assert cached(log) == []


def test_arguments_decide_about_the_cache(place):
    text = "FROM base:1\nRUN echo early\nARG X=1\nRUN echo $X > /x\n"
    _, log = place.built(text)
    _, log = place.built(text)
    assert cached(log) == [2, 4]
    other, log = place.built(text, "--build-arg", "X=2")
    assert cached(log) == [2]
    assert place.tree(other)["x"][4] == b"2\n"
    _, log = place.built(text, "--build-arg", "Y=2")
    assert "--build-arg Y is not used" in log


def test_what_flags_expand_to_decides_about_the_cache(place):
    place.file("f", "1")
    text = "FROM scratch\nARG MODE=644\nCOPY --chmod=$MODE f /\n"
    image, _ = place.built(text)
    assert place.tree(image)["f"][1] == 0o644
    image, log = place.built(text, "--build-arg", "MODE=755")
    assert (cached(log), place.tree(image)["f"][1]) == ([], 0o755)


def test_a_pruned_layer_is_built_again(place):
    place.file("f", "1")
    first, _ = place.built(STEPS)
    ok(place.image("rm", first))
    ok(place.image("prune"))
    again, log = place.built(STEPS)
    assert (cached(log), again) == ([], first)


def test_same_input_gives_the_same_image(place):
    fill(place)
    first, _ = place.built(MULTI_STAGE, "--no-cache")
    again, _ = place.built(MULTI_STAGE, "--no-cache")
    assert first == again
    env = {"SOURCE_DATE_EPOCH": "1500000000"}
    dated, _ = place.built(MULTI_STAGE, env=env)
    assert dated != first
    assert place.config(dated)["created"].startswith("2017-07-14T02:40:00")


# ---- .dockerignore ----

def copied(place, text="FROM scratch\nCOPY . /\n", *args):
    image, _ = place.built(text, *args)
    return set(place.tree(image))


def test_ignored_files_are_not_there(place):
    for name in ("keep", "drop.log", "d/drop.log", "d/keep", "secret/a", "secret/b", "x/y/z"):
        place.file(name)
    place.file(".dockerignore", "# comment\n**/*.log\nsecret\n!secret/b\n/x/y\n.dockerignore\n")
    assert copied(place) == {"keep", "d", "d/keep", "secret", "secret/b", "x"}
    done = place.build("FROM scratch\nCOPY drop.log /\n")
    assert done.returncode == 2 and b"'drop.log' is not in the context" in done.stderr
    assert b".dockerignore" in done.stderr


def test_an_ignore_file_of_the_dockerfile_wins(place):
    place.file("a")
    place.file("b")
    place.file(".dockerignore", "a\n")
    own_file = place.top / "Dockerfile.dockerignore"
    own_file.write_text("b\n.dockerignore\n")
    own(own_file)
    assert copied(place) == {"a"}


# ---- instructions ----

def test_heredocs(place):
    image, _ = place.built("""\
FROM base:1
ENV WHO=you
COPY <<one.txt <<'two.txt' /etc/made/
hello $WHO
one.txt
hello $WHO
two.txt
COPY <<x /single
s
x
RUN <<EOF
echo a > /a
echo b > /b
EOF
RUN cat <<EOF > /c
c $WHO
EOF
RUN <<EOF
#!/bin/busybox sh
echo interpreted > /d
EOF
""")
    tree = place.tree(image)
    assert [tree[n][4] for n in ("etc/made/one.txt", "etc/made/two.txt", "single", "a", "b", "c",
                                 "d")] == \
        [b"hello you\n", b"hello $WHO\n", b"s\n", b"a\n", b"b\n", b"c you\n", b"interpreted\n"]


def test_only_what_the_target_needs_is_built(place):
    text = ("FROM base:1 AS a\nRUN echo a > /a\nFROM base:1 AS b\nRUN false\nFROM a AS c\n"
            "RUN echo c > /c\n")
    image, log = place.built(text)
    assert "RUN false" not in log and {"a", "c"} <= set(place.tree(image))
    image, log = place.built(text, "--target", "A")
    assert "c" not in place.tree(image)
    done = place.build(text, "--target", "b")
    assert done.returncode == 1 and b"exit code 1" in done.stderr


def test_add_unpacks_what_is_a_tar(place):
    for name, mode in (("a.tar", "w"), ("b.tar.gz", "w:gz"), ("c.tar.bz2", "w:bz2"),
                       ("d.tar.xz", "w:xz")):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode=mode) as archive:
            member = tarfile.TarInfo("in/" + name)
            member.size = 1
            archive.addfile(member, io.BytesIO(b"x"))
        place.file(name, out.getvalue())
    place.file("e.gz", b"\x1f\x8b no gzip")
    place.file("plain.txt", "t")
    image, _ = place.built("FROM scratch\nADD a.tar b.tar.gz c.tar.bz2 d.tar.xz e.gz plain.txt /x/\n"
                           "COPY a.tar /\n")
    assert set(place.tree(image)) == {"x", "x/in", "x/in/a.tar", "x/in/b.tar.gz", "x/in/c.tar.bz2",
                                      "x/in/d.tar.xz", "x/e.gz", "x/plain.txt", "a.tar"}


@needs_ids
def test_owners_and_modes(place):
    place.file("f", "x", mode=0o600)
    image, _ = place.built("FROM base:1\nCOPY --chown=app f /a\nCOPY --chown=app:staff f /b\n"
                           "COPY --chown=5 f /c\nCOPY --chown=5:6 --chmod=4711 f /d\nCOPY f /e\n")
    tree = place.tree(image)
    assert [tree[n][1:4] for n in "abcde"] == [(0o600, 1000, 1001), (0o600, 1000, 50),
                                               (0o600, 5, 5), (0o4711, 5, 6), (0o600, 0, 0)]


def test_names_of_the_sandbox_are_not_in_the_image(place):
    place.file("hosts", "of the image")
    image, _ = place.built("FROM base:1\nCOPY hosts /etc/hosts\n"
                           "RUN echo x > /etc/hostname; rm -f /etc/hosts; echo y > /etc/hosts\n"
                           "RUN ln -s /tmp /etc/link; rm -f /etc/hosts\n")
    tree = place.tree(image)
    assert "etc/hostname" not in tree and "etc/link" in tree
    assert tree["etc/hosts"][4] == b"of the image"


def test_notices(place):
    _, log = place.built("# syntax=docker/dockerfile:1\nFROM base:1\nHEALTHCHECK CMD true\n"
                         "MAINTAINER me\nONBUILD RUN x\n")
    for text in ("'# syntax=' is not fetched", "HEALTHCHECK is ignored", "MAINTAINER is deprecated",
                 "ONBUILD is ignored"):
        assert text in log


def test_an_alias_is_a_base_and_is_told(place):
    config = place.top / "cay.toml"
    config.write_text('[images.aliases]\n"python:3.12-slim" = "base:1"\n')
    _, log = place.built("FROM python:3.12-slim\n", "--config", config)
    assert "python:3.12-slim is an alias of base:1 here" in log


@as_root_only
def test_triggers_of_the_base_are_told(place, docker):  # noqa: F811
    (place.top / "base.tar").write_bytes(base_tar())
    docker("import", "--change", "ONBUILD RUN false", place.top / "base.tar", "with-triggers")
    docker.save(place.top / "saved.tar", "with-triggers")
    ok(place.image("load", "-i", place.top / "saved.tar"))
    _, log = place.built("FROM with-triggers\n")
    assert "1 ONBUILD triggers, which are not run" in log
    docker("rmi", "-f", "with-triggers")


def test_log_is_streamed_in_steps(place):
    _, log = place.built("FROM base:1\nRUN echo to-output; echo to-error >&2\nCMD x\n")
    assert log.splitlines() == ["STEP 1/3: FROM base:1",
                                "STEP 2/3: RUN echo to-output; echo to-error >&2",
                                "to-output", "to-error", "STEP 3/3: CMD x"]


# ---- bad input ----

@pytest.mark.parametrize("text, code, parts", [
    ("", 2, ["there is no FROM"]),
    ("FROM base:1\nRUNN x\n", 2, ["Dockerfile:2: unknown instruction 'RUNN'", "RUN?"]),
    ("FROM base:1\nCOPY missing /\n", 2, ["Dockerfile:2: COPY: 'missing' is not in the context"]),
    ("FROM base:1\nCOPY m*g /\n", 2, ["'m*g' is not in the context"]),
    ("FROM base:1\nCOPY ../x /\n", 2, ["leads out of the context"]),
    ("FROM base:1\nCOPY [ /\n", 2, ["'[' is no pattern"]),
    ("FROM base:1\nCOPY a b /x\n", 2, ["not said to be a folder", "'/x/'"]),
    ("FROM base:1\nCOPY --chown=who a /\n", 2, ["no user 'who'"]),
    ("FROM base:1\nCOPY --chown=app:who a /\n", 2, ["no group 'who'"]),
    ("FROM base:1\nCOPY --chmod=rwx a /\n", 2, ["octal"]),
    ("FROM base:1\nCOPY a /etc/passwd/x\n", 2, ["/etc/passwd"]),
    ("FROM base:1\nCOPY d /bin/busybox\n", 2, ["no folder"]),
    ("FROM base:1\nADD https://example.org/x /\n", 7, ["nothing is fetched", "COPY"]),
    ("FROM base:1\nRUN echo before; false\n", 1, ["step 2/2", "exit code 1", "Dockerfile:2"]),
    ("FROM base:1\nRUN exit 42\n", 1, ["exit code 42"]),
    ("FROM base:1\nRUN no-such-program\n", 1, ["exit code 127", "not in the image"]),
    ("FROM base:1\nRUN --network=host x\n", 2, ["--network=host is not possible"]),
    ("FROM base:1\nRUN --mount=type=cache,target=/x x\n", 2, ["--mount is not supported"]),
    ("FROM base:1\nCOPY --from=1 a /\n", 2, ["stage 1 is not before"]),
    ("FROM base:1 AS x\nCOPY --from=x a /\n", 2, ["need each other"]),
    ("FROM base:1 AS x\nCOPY --from=y a /\nFROM x AS y\n", 2, ["need each other"]),
    ("FROM $NOTHING\n", 2, ["the name of the base is empty"]),
    ("FROM base:1\nENV a=\"${x:?give x}\"\n", 2, ["x: give x"]),
    ("FROM base:1\nEXPOSE 70000\n", 2, ["is no port"]),
    ("FROM Not:Valid:Name\n", 2, []),
])
def test_bad_files(place, text, code, parts):
    place.file("a")
    place.file("b")
    place.file("d/x")
    done = place.build(text, *(["--target", "y"] if "AS y" in text else []))
    error = done.stderr.decode().splitlines()[-1]
    assert done.returncode == code, error
    assert error.startswith("cay: ")
    for part in parts:
        assert part in error, error
    assert done.stdout == b""
    assert list((place.state / "images/store/work").iterdir()) == []


def test_unknown_target(place):
    done = place.build("FROM base:1 AS a\n", "--target", "b")
    assert done.returncode == 3 and b"no stage 'b'" in done.stderr


def test_missing_base_is_asked_of_its_registry(place):
    done = place.build("FROM 127.0.0.1:1/none:1\n")
    assert done.returncode != 0 and b"127.0.0.1:1" in done.stderr


# ---- hostile contexts ----

def test_symlinks_do_not_leave_the_context(place):
    secret = place.top / "secret"
    secret.write_text("of the host")
    own(secret)
    place.file("in/file", "ok")
    for name, target in (("absolute", "/etc/passwd"), ("relative", "../secret"),
                         ("folder", "/etc"), ("loop", "loop"), ("inside", "in/file")):
        (place.context / name).symlink_to(target)
    for source in ("absolute", "relative", "folder/passwd", "folder/", "loop"):
        done = place.build(f"FROM scratch\nCOPY {source} /x\n")
        assert done.returncode != 0, source
    image, _ = place.built("FROM scratch\nCOPY inside /x\n")
    assert place.tree(image)["x"][4] == b"ok"
    image, _ = place.built("FROM scratch\nCOPY . /all/\n")
    tree = place.tree(image)
    assert tree["all/absolute"][0] == tarfile.SYMTYPE and tree["all/folder"][0] == tarfile.SYMTYPE
    assert not any(b"of the host" in (v[4] or b"") for v in tree.values())


def test_destinations_stay_in_the_image(place):
    place.file("f", "mark")
    before = set(os.listdir("/etc"))
    image, _ = place.built("FROM base:1\nCOPY f /outside/mark\nCOPY f /../../../up\n"
                           "WORKDIR /outside/made\nCOPY f ../../../rel\n")
    tree = place.tree(image)
    assert {"etc/mark", "up", "etc/made", "rel"} <= set(tree)
    assert set(os.listdir("/etc")) == before


def test_devices_and_sockets_in_the_context(place):
    os.mkfifo(place.context / "pipe")
    own(place.context / "pipe")
    done = place.build("FROM scratch\nCOPY pipe /\n")
    assert done.returncode == 2 and b"no file and no folder" in done.stderr
    place.file("f")
    assert copied(place) == {"f"}


def test_a_run_sees_nothing_of_the_host(place):
    image, _ = place.built("FROM base:1\nRUN ls -A / > /list; ls /sys > /sys-list 2>&1; id > /id\n")
    tree = place.tree(image)
    names = set(tree["list"][4].decode().split())
    assert "bin" in names and not names & {"boot", "var", "home", "usr"}
    assert tree["id"][4].startswith(b"uid=0(root)")
