"""Images as files: what cay loads, saves, imports and exports, beside skopeo, umoci and Docker."""

import bz2
import gzip
import io
import json
import lzma
import os
import random
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import archives
import pytest
from archives import Layout, change, config, difference, rootfs, sha, tree_of_folder, tree_of_tar
from dockerd import docker  # noqa: F401
from support import BUILD, as_root_only, cay, needs_ids, ok, own, refused, remove

needs_skopeo = pytest.mark.skipif(shutil.which("skopeo") is None,
                                  reason="skopeo is not installed: scripts/setup")
needs_umoci = pytest.mark.skipif(shutil.which("umoci") is None,
                                 reason="umoci is not installed: scripts/setup")


@pytest.fixture(autouse=True)
def need_program():
    if not (BUILD / "cay-image").exists():
        pytest.skip("cay-image is not built: ninja -C build")


class Place:
    """A folder with a state folder of the tested user; its files are made by us."""

    def __init__(self, top):
        self.top, self.state = top, top / "state"

    def image(self, verb, *args, **more):
        more.setdefault("timeout", 120)
        return cay("image", verb, "--state-dir", self.state, *args, **more)

    def json(self, verb, *args, **more):
        return json.loads(ok(self.image(verb, "-o", "json", *args, **more)))

    def file(self, name, data):
        path = self.top / name
        path.write_bytes(data)
        return path

    def load(self, data, **more):
        """Loads an archive from memory: a list of (id, names)."""
        return [(i["id"].removeprefix("sha256:"), i["names"])
                for i in self.json("load", input=data, **more)]

    def output(self, verb, *args):
        result = self.image(verb, *args)
        assert result.returncode == 0, result.stderr.decode()
        return result.stdout

    def save(self, *names):
        return self.output("save", *names)

    def export(self, name):
        return self.output("export", name)

    def layers(self):
        return {p.name for p in (self.state / "images/store/layers").iterdir()}


@pytest.fixture
def place():
    top = Path(tempfile.mkdtemp(prefix="transfer-", dir="/tmp"))
    top.chmod(0o755)
    (top / "state").mkdir(mode=0o755)
    own(top / "state")
    yield Place(top)
    remove(top)


def run(*args):
    result = subprocess.run([str(a) for a in args], capture_output=True, timeout=120)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout


def skopeo(source, target):
    run("skopeo", "copy", "-q", "--insecure-policy", source, target)


def merged(*layers):
    """The tree that the layers of archives.py make together."""
    tree = tree_of_tar(layers[0])
    if len(layers) > 1:
        for name in [n for n in tree if n in ("etc/gone", "etc/changed") or n.startswith("old")]:
            del tree[name]
        tree.update({n: e for n, e in tree_of_tar(layers[1]).items() if ".wh." not in n})
    return tree


def expect_tree(place, name, expected):
    assert difference(tree_of_tar(place.export(name)), expected) == {}


# ---- load ----

@needs_ids
def test_docker_archive(place):
    a, b = rootfs(), change()
    assert place.load(archives.docker_archive(([a, b], ["team/x:1", "docker.io/team/x:2"]))) == [
        (sha(config(a, b)), ["docker.io/team/x:1", "docker.io/team/x:2"])]
    expect_tree(place, "team/x:1", merged(a, b))
    info = place.json("inspect", "team/x:2")
    info = info[0] if isinstance(info, list) else info
    assert "A=b c" in json.dumps(info) and "/home" in json.dumps(info)


@needs_ids
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, None],
                         ids=["gzip", "bzip2", "xz", "plain"])
@pytest.mark.parametrize("way", ["file", "pipe"])
def test_whole_archive_compressed(place, pack, way):
    layer = rootfs()
    data = archives.docker_archive(([layer], ["x:1"]))
    packed = pack(data) if pack else data
    if way == "file":
        ok(place.image("load", "-i", place.file("a.tar", packed)))
    else:
        place.load(packed)
    expect_tree(place, "x:1", merged(layer))


def zstd(data):
    return subprocess.run(["zstd", "-c", "-q"], input=data, capture_output=True, check=True).stdout


@needs_ids
@pytest.mark.parametrize("pack,media_type", [
    (gzip.compress, archives.GZIP_LAYER), (None, archives.PLAIN_LAYER),
    (zstd, archives.OCI + "layer.v1.tar+zstd"),
    (gzip.compress, "application/vnd.docker.image.rootfs.diff.tar.gzip")])
@pytest.mark.parametrize("kind", ["tar", "folder"])
def test_oci_layout(place, pack, media_type, kind):
    if pack is zstd and shutil.which("zstd") is None:
        pytest.skip("zstd is not installed")
    a, b = rootfs(), change()
    layout = Layout()
    layout.entries = [layout.manifest(a, b, pack=pack, media_type=media_type, annotations={
        "org.opencontainers.image.ref.name": "9", "io.containerd.image.name": "host:5000/t/y:9"})]
    if kind == "tar":
        source = place.file("a.tar", layout.tar(order=lambda m: list(reversed(m))))
    else:
        source = layout.write(place.top / "layout")
    assert place.json("load", "-i", source)[0]["names"] == ["host:5000/t/y:9"]
    expect_tree(place, "host:5000/t/y:9", merged(a, b))


@as_root_only
def test_folder_that_only_root_reads(place):
    layer, layout = rootfs(), Layout()
    layout.entries = [layout.manifest(layer, pack=gzip.compress)]
    folder = layout.write(place.top / "layout")
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
    assert place.json("load", "-i", folder)[0]["names"] == []


def test_mere_tag_names_nothing(place):
    layout = Layout()
    layout.entries = [layout.manifest(change(), media_type=archives.PLAIN_LAYER, annotations={
        "org.opencontainers.image.ref.name": "latest"})]
    [(image, names)] = place.load(layout.tar())
    assert names == [] and image == sha(config(change()))
    assert place.json("ls") != []


def test_platforms(place):
    """The manifest for this machine is taken, however deep it is; the others need not be there."""
    layout, layer = Layout(), change()
    here = layout.manifest(layer, media_type=archives.PLAIN_LAYER,
                           platform={"os": "linux", "architecture": "amd64"})
    other = {**here, "digest": "sha256:" + "0" * 64,
             "platform": {"os": "linux", "architecture": "s390x"}}
    attestation = {**other, "platform": {"os": "unknown", "architecture": "unknown"}}
    nested = layout.index(layout.index(attestation, other, here), annotations={
        "io.containerd.image.name": "docker.io/t/deep:1"})
    layout.entries = [nested, attestation]
    assert place.load(layout.tar()) == [(sha(config(layer)), ["docker.io/t/deep:1"])]
    layout.entries = [{**e, "annotations": {"io.containerd.image.name": "docker.io/t/flat:1"}}
                      for e in (other, here)]
    assert place.load(layout.tar()) == [(sha(config(layer)), ["docker.io/t/flat:1"])]


def test_other_platform_only(place):
    layout, layer = Layout(), change()
    layout.entries = [layout.index(layout.manifest(layer, media_type=archives.PLAIN_LAYER,
                                   platform={"os": "linux", "architecture": "s390x"}))]
    assert place.load(layout.tar())[0][0] == sha(config(layer))


def test_several_images_share_layers(place):
    a, b, c = (archives.tar(archives.member("f" + x, x.encode())) for x in "abc")
    data = archives.docker_archive(([a], None), ([a, b], ["t/b:1", "t/b:2"]), ([a, c], ["t/c:1"]))
    images = place.load(data)
    assert [names for _, names in images] == [[], ["docker.io/t/b:1", "docker.io/t/b:2"],
                                              ["docker.io/t/c:1"]]
    assert len(place.layers()) == 3
    assert place.load(data) == images  # again: nothing new
    assert len(place.layers()) == 3
    assert tree_of_tar(place.export("t/c:1")).keys() == {"fa", "fc"}


def test_symlinked_layers(place):
    """As skopeo writes them."""
    layer = change()
    c = config(layer)
    link = {"type": tarfile.SYMTYPE, "linkname": f"../{sha(layer)}.tar"}
    data = archives.tar(
        archives.member("manifest.json", archives.text(
            [{"Config": sha(c) + ".json", "RepoTags": ["t/l:1"], "Layers": ["abc/layer.tar"]}])),
        archives.member("abc/", None), archives.member("abc/layer.tar", **link),
        archives.member(sha(layer) + ".tar", layer), archives.member(sha(c) + ".json", c))
    assert place.load(data) == [(sha(c), ["docker.io/t/l:1"])]


# ---- save ----

def test_save_is_reproducible(place):
    a, b = change(), archives.tar(archives.member("x", os.urandom(100_000)))
    place.load(archives.docker_archive(([a, b], ["t/s:1", "t/s:2"]), ([a], ["t/o:1"])))
    piped = place.save("t/s:1", "t/o:1", "t/s:2")
    ok(place.image("save", "-f", place.top / "state/s.tar", "t/s:1", "t/o:1", "t/s:2"))
    assert (place.top / "state/s.tar").read_bytes() == piped == \
        place.save("t/s:1", "t/o:1", "t/s:2")
    with tarfile.open(fileobj=io.BytesIO(piped)) as t:
        names = t.getnames()
        entries = json.load(t.extractfile("manifest.json"))
        assert len(set(names)) == len(names) and {m.mtime for m in t} == {0}
    assert [e["RepoTags"] for e in entries] == [["t/s:1", "t/s:2"], ["t/o:1"]]
    assert entries[0]["Layers"][0] == entries[1]["Layers"][0]


def test_save_and_load_elsewhere(place):
    a, b = change(), archives.tar(archives.member("x", b"1"))
    images = place.load(archives.docker_archive(([a, b], ["t/s:1", "t/s:2"])))
    data = place.save("t/s:1", "t/s:2")
    place.state = place.top / "other"
    place.state.mkdir(mode=0o755)
    own(place.state)
    assert place.load(data) == images
    assert place.save("t/s:1", "t/s:2") == data


def test_save_by_id_has_no_name(place):
    [(image, _)] = place.load(archives.docker_archive(([change()], ["t/s:1"])))
    with tarfile.open(fileobj=io.BytesIO(place.save(image))) as t:
        assert json.load(t.extractfile("manifest.json"))[0]["RepoTags"] is None
        assert "annotations" not in json.load(t.extractfile("index.json"))["manifests"][0]


def test_manifest_of_a_pulled_layout_stays(place):
    layout = Layout()
    layout.entries = [layout.manifest(change(), pack=gzip.compress, annotations={
        "io.containerd.image.name": "docker.io/t/m:1"})]
    place.load(layout.tar())
    with tarfile.open(fileobj=io.BytesIO(place.save("t/m:1"))) as t:
        assert json.load(t.extractfile("index.json"))["manifests"][0]["digest"] == \
            layout.entries[0]["digest"]


# ---- import and export ----

@needs_ids
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, None],
                         ids=["gzip", "bzip2", "xz", "plain"])
@pytest.mark.parametrize("way", ["file", "pipe"])
def test_import_and_export(place, pack, way):
    layer = rootfs()
    data = pack(layer) if pack else layer
    if way == "file":
        ok(place.image("import", place.file("root.tar", data), "t/i:1"))
    else:
        ok(place.image("import", "-", "t/i:1", input=data))
    expect_tree(place, "t/i:1", merged(layer))
    again = place.export("t/i:1")
    assert again == place.export("t/i:1")


def test_import_changes(place):
    changes = ['CMD ["a", "b c"]', "ENTRYPOINT run it", "ENV X=1 Y='2 3'", "EXPOSE 80/tcp",
               "LABEL a.b=c", "USER 5:6", "VOLUME /data", "WORKDIR /w"]
    options = [x for c in changes for x in ("-c", c)]
    ok(place.image("import", *options, "-", "t/c:1", input=change()))
    with tarfile.open(fileobj=io.BytesIO(place.save("t/c:1"))) as t:
        entry = json.load(t.extractfile("manifest.json"))[0]
        made = json.load(t.extractfile(entry["Config"]))["config"]
    assert made["Cmd"] == ["a", "b c"]
    assert made["Entrypoint"] == ["/bin/sh", "-c", "run it"]
    assert made["Env"] == ["X=1", "Y=2 3"]
    assert (made["ExposedPorts"], made["Volumes"]) == ({"80/tcp": {}}, {"/data": {}})
    assert (made["Labels"], made["User"], made["WorkingDir"]) == ({"a.b": "c"}, "5:6", "/w")


@pytest.mark.parametrize("wrong", ["RUN true", "FROM x", "COPY a b", "NONSENSE", "ENV", "USER"])
def test_import_refuses_changes(place, wrong):
    refused(place.image("import", "-c", wrong, "-", "t/c:1", input=change()), "--change", code=2)


def test_import_refuses_what_is_no_tar(place):
    result = place.image("import", "-", input=os.urandom(100_000))
    assert result.returncode == 2 and b"\ncay: " in result.stderr
    assert b"cay image load" in result.stderr
    assert place.json("ls") == []


# ---- skopeo and umoci ----

@needs_ids
@needs_skopeo
@pytest.mark.parametrize("form", ["docker-archive", "oci-archive", "oci"])
def test_from_skopeo(place, form):
    a, b = rootfs(), change()
    layout = Layout()
    layout.entries = [layout.manifest(a, b, pack=gzip.compress)]
    source = layout.write(place.top / "source")
    target = place.top / "target"
    skopeo(f"oci:{source}", f"{form}:{target}:t/sk:1")
    [loaded] = place.json("load", "-i", target)
    assert loaded["names"] == ["docker.io/t/sk:1"]
    expect_tree(place, "t/sk:1", merged(a, b))


@needs_skopeo
@pytest.mark.parametrize("form", ["docker-archive", "oci-archive"])
def test_to_skopeo(place, form):
    a, b = rootfs(), change()
    place.load(archives.docker_archive(([a, b], ["t/sk:1"])))
    saved = place.file("saved.tar", place.save("t/sk:1"))
    skopeo(f"{form}:{saved}", f"oci:{place.top}/out:1")
    assert json.loads(run("skopeo", "inspect", "--config", f"oci:{place.top}/out:1")) == \
        json.loads(config(a, b))


@needs_umoci
@needs_ids
@as_root_only
def test_to_umoci(place):
    a, b = rootfs(), change()
    place.load(archives.docker_archive(([a, b], ["t/um:latest"])))
    with tarfile.open(fileobj=io.BytesIO(place.save("t/um"))) as t:
        t.extractall(place.top / "layout")
    run("umoci", "unpack", "--image", f"{place.top}/layout:latest", place.top / "bundle")
    assert difference(tree_of_folder(place.top / "bundle/rootfs"), merged(a, b)) == {}


# ---- Docker ----

# What a container has besides its image.
OF_CONTAINERS = (".dockerenv", "dev", "dev/console", "dev/pts", "dev/shm", "etc/hostname",
                 "etc/hosts", "etc/mtab", "etc/resolv.conf", "proc", "sys")


def docker_tree(daemon, name, top):
    out = top / "export.tar"
    daemon.export(name, out)
    return without_attributes(tree_of_tar(out.read_bytes(), without=OF_CONTAINERS))


def without_attributes(tree):
    """`docker export` leaves user attributes out."""
    return {name: {**entry, "xattrs": {}} for name, entry in tree.items()
            if name not in OF_CONTAINERS}


@as_root_only
def test_round_trip_with_docker(place, docker):  # noqa: F811
    context = place.top / "context"
    context.mkdir()
    (context / "root.tar").write_bytes(rootfs())
    (context / "more").write_text("more\n")
    (context / "Dockerfile").write_text(
        "FROM scratch\nADD root.tar /\nCOPY more /old/more\n"
        "RUN rm /etc/gone && rm -r /old/b && mkdir /old/b && echo x > /old/b/y\n"
        "RUN chown 7:8 /etc/conf && chmod 2755 /tmp && ln /old/a /old/z\n"
        "ENV X=1\nWORKDIR /home\nUSER 1000:1000\nLABEL l=m\nCMD [\"sh\", \"-c\", \"id\"]\n")
    docker("build", "--network", "none", "-t", "t/round:1", context)
    docker("tag", "t/round:1", "t/round:2")
    before, info = docker_tree(docker, "t/round:1", place.top), inspect(docker)
    docker.save(place.top / "docker.tar", "t/round:1", "t/round:2")
    [loaded] = place.json("load", "-i", place.top / "docker.tar")
    assert loaded["id"] == info["Id"]
    assert loaded["names"] == ["docker.io/t/round:1", "docker.io/t/round:2"]
    assert difference(without_attributes(tree_of_tar(place.export("t/round:1"))), before) == {}
    saved = place.file("saved.tar", place.save("t/round:1", "t/round:2"))
    docker("rmi", "-f", info["Id"])
    docker.load(saved)
    assert inspect(docker) == info
    assert difference(docker_tree(docker, "t/round:2", place.top), before) == {}


def inspect(daemon):
    info = json.loads(daemon("image", "inspect", "t/round:1"))[0]
    return {k: info[k] for k in ("Id", "RepoTags", "Config", "Architecture", "Os", "RootFS",
                                 "Created")}


@as_root_only
def test_import_as_docker_does(place, docker):  # noqa: F811
    source = place.file("root.tar", rootfs())
    docker("import", "-c", "CMD [\"sh\"]", source, "t/imp:1")
    ok(place.image("import", "-c", "CMD [\"sh\"]", source, "t/imp:1"))
    assert difference(without_attributes(tree_of_tar(place.export("t/imp:1"))),
                      docker_tree(docker, "t/imp:1", place.top)) == {}
    docker.load(place.file("saved.tar", place.save("t/imp:1")))
    assert docker("run", "--rm", "--network", "none", "t/imp:1", "sh", "-c",
                  "cat /etc/conf") == "one\n"


@as_root_only
def test_random_trees_survive(place):
    """What unpacking and packing do to a tree, twice: nothing."""
    choice = random.Random(7)
    members = [archives.member("d/", None)]
    for i in range(300):
        mode = choice.choice((0o644, 0o600, 0o755, 0o4711, 0o000))
        members.append(archives.member(f"d/{i:03}" + "x" * choice.randrange(120),
                                       choice.randbytes(choice.randrange(3000)), mode=mode,
                                       uid=choice.randrange(65536), gid=choice.randrange(65536),
                                       mtime=choice.randrange(2 ** 32)))
    ok(place.image("import", "-", "t/r:1", input=archives.tar(*members)))
    first = place.export("t/r:1")
    ok(place.image("import", "-", "t/r:2", input=first))
    assert place.export("t/r:2") == first
