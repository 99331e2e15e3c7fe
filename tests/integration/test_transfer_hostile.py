"""Archives that lie, point elsewhere, or want to fill the disk: refused in one line, with nothing
left in the store and nothing touched outside."""

import gzip
import io
import json
import os
import random
import shutil
import subprocess
import tarfile

import archives
import pytest
from archives import Layout, change, config, member, sha, tar, text
from support import as_root_only, ok
from test_transfer import need_program, place, zstd  # noqa: F401

# Fixtures are found by their names.
# ruff: noqa: F811


def fails(place, data, *parts, source=None):
    """The archive is refused for this reason, and the store is as empty as before."""
    if source is None:
        source = place.file("bad.tar", data)
    result = place.image("load", "-i", source, timeout=60)
    said = result.stderr.decode()
    last = said.splitlines()[-1]
    assert result.returncode in (2, 3, 5, 6, 7), (result.returncode, said)
    assert last.startswith("cay: ") and last.isprintable(), said
    for part in parts:
        assert part in last, last
    assert place.json("ls") == []
    store = place.state / "images/store"
    assert list((store / "work").iterdir()) == [] and list((store / "ingest").iterdir()) == []


def docker(layers, conf=None, **members):
    """A docker archive whose `layers` names pieces of the archive."""
    conf = config(*members.values()) if conf is None else conf
    return [member("manifest.json", text([{"Config": "c.json", "RepoTags": ["t/h:1"],
                                           "Layers": layers}])), member("c.json", conf)]


def symlink(name, target):
    return member(name, type=tarfile.SYMTYPE, linkname=target)


# ---- names ----

def test_names_beside_the_image(place):
    """What nobody asks for is not looked at, and nothing of it is written."""
    outside = place.top / "evil"
    extra = [member(f"../../../..{outside}", b"x"), member(str(outside), b"x"),
             symlink("blobs", "/etc"), member("blobs/x", b"x"),
             member("dev", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
             member("fifo", type=tarfile.FIFOTYPE)]
    place.load(archives.docker_archive(([change()], ["t/h:1"]), extra=extra))
    assert not outside.exists()


@pytest.mark.parametrize("path", ["../../../../etc/passwd", "/etc/passwd", "a/../../x", "..", "/"])
def test_layer_outside(place, path):
    fails(place, tar(*docker([path], config(b"x"))), "leads out")


@pytest.mark.parametrize("path", ["", "none", "c.json/x", "./", "a\nb", "\x1b[31m"])
def test_layer_that_is_not_there(place, path):
    fails(place, tar(*docker([path], config(b"x"))), "has no '")


@pytest.mark.parametrize("links,why", [
    ([("l", "/etc/passwd")], "leads out"), ([("l", "../../etc/passwd")], "leads out"),
    ([("d/l", "../../x"), ("l", "d/l")], "leads out"), ([("l", "l")], "circle"),
    ([("l", "m"), ("m", "n"), ("n", "l")], "circle"), ([("l", "none")], "has no '"),
    ([("l", "f/")], "no regular file")])
def test_links(place, links, why):
    fails(place, tar(*docker(["l"], config(b"x")), member("f/", None),
                     *(symlink(*link) for link in links)), why)


def test_hard_link_out(place):
    link = member("l", type=tarfile.LNKTYPE, linkname="/etc/passwd")
    fails(place, tar(*docker(["l"], config(b"x")), link), "leads out")


def test_names_of_images(place):
    for name in ("../../x:1", "/x", "a b", "x:../y", "T/Upper:1", "\x1b]0;x\x07", "", "x" * 300):
        layer = change()
        fails(place, archives.docker_archive(([layer], [name])), "name in the archive")


def test_folder_with_a_fifo_or_a_way_out(place):
    layout = Layout()
    layout.entries = [layout.manifest(change(), pack=gzip.compress)]
    folder = layout.write(place.top / "layout")
    blob = folder / "blobs/sha256" / layout.entries[0]["digest"].removeprefix("sha256:")
    blob.unlink()
    blob.symlink_to("/etc/hostname")
    fails(place, None, "leads out", source=folder)
    blob.unlink()
    os.mkfifo(blob)
    fails(place, None, "no regular file", source=folder)


# ---- lies ----

def test_config_with_a_false_name(place):
    layer, false = change(), "0" * 64
    for name in (f"{false}.json", f"blobs/sha256/{false}"):
        manifest = text([{"Config": name, "RepoTags": None, "Layers": ["l"]}])
        fails(place, tar(member("manifest.json", manifest), member(name, config(layer)),
                         member("l", layer)), "digest", sha(config(layer)))


def test_layer_with_other_content(place):
    layer = change()
    conf = config(layer + b"\0")
    fails(place, tar(*docker(["l"], conf), member("l", layer)), "digest", sha(layer))


@pytest.mark.parametrize("what,how", [
    ("layer", "content"), ("layer", "missing"), ("config", "content"), ("config", "missing"),
    ("manifest", "content"), ("manifest", "missing"), ("manifest", "size")])
def test_oci_blobs(place, what, how):
    layout, layer = Layout(), change()
    conf, packed = config(layer), gzip.compress(layer)
    layout.entries = [layout.manifest(layer, pack=lambda _: packed)]
    manifest = layout.entries[0]["digest"].removeprefix("sha256:")
    hexa = {"layer": sha(packed), "config": sha(conf), "manifest": manifest}[what]
    if how == "missing":
        del layout.blobs[hexa]
    elif how == "content":
        data = layout.blobs[hexa]
        layout.blobs[hexa] = data[:-1] + bytes([data[-1] ^ 1])
    else:
        layout.entries[0]["size"] += 1
    fails(place, layout.tar())


@pytest.mark.parametrize("size", [0, 1, 10 ** 6, 2 ** 63 - 1, -1])
def test_oci_layer_with_a_false_size(place, size):
    layout, layer = Layout(), change()
    packed = gzip.compress(layer)
    manifest = {"schemaVersion": 2,
                "config": layout.blob(config(layer), archives.OCI + "config.v1+json"),
                "layers": [{**layout.blob(packed, archives.GZIP_LAYER), "size": size}]}
    layout.entries = [layout.blob(text(manifest), archives.OCI + "manifest.v1+json")]
    fails(place, layout.tar())


def test_counts_of_layers(place):
    layer = change()
    fails(place, tar(*docker(["l", "l"], config(layer)), member("l", layer)), "layers")
    fails(place, tar(*docker([], config(layer))), "layers")
    fails(place, tar(*docker(["l"] * 200, config(*[layer] * 200)), member("l", layer)))


def test_indexes_without_end(place):
    layout = Layout()
    entry = layout.manifest(change(), pack=gzip.compress)
    for _ in range(10):
        entry = layout.index(entry)
    layout.entries = [entry]
    fails(place, layout.tar(), "nested")
    layout.entries = []
    fails(place, layout.tar(), "no image")


@pytest.mark.parametrize("manifest", [
    b"", b"{}", b"[", b"[1]", b"[{}]", b"[null]", b"\xff\xfe", b'[{"Config":1}]', b"[" * 100_000,
    b'[{"Config":"c.json","Layers":{}}]', b'[{"Config":"c.json","Layers":[1]}]',
    b'[{"Config":"c.json","RepoTags":"x","Layers":[]}]', b'{"a":1,"a":2}',
])
def test_nonsense_in_manifest_json(place, manifest):
    fails(place, archives.docker_archive(manifest=manifest,
                                         extra=[member("c.json", config(b"x"))]))


@pytest.mark.parametrize("conf", [
    b"", b"[]", b"{}", b'{"rootfs":{}}', b'{"rootfs":{"type":"layers","diff_ids":["x"]}}',
    b'{"rootfs":{"type":"layers","diff_ids":["sha256:' + b"0" * 63 + b'"]}}',
    b'{"rootfs":{"type":"layers","diff_ids":["sha256:../../x"]}}'])
def test_nonsense_in_the_configuration(place, conf):
    fails(place, tar(*docker(["l"], conf), member("l", change())))


# ---- size ----

@pytest.mark.parametrize("name", ["manifest.json", "c.json"])
def test_documents_of_100_mb(place, name):
    big = member(name, b" " * 100_000_000)
    members = [m for m in docker(["l"], config(b"x")) if m[0].name != name]
    fails(place, tar(*members, big), "more than")


def test_index_of_100_mb(place):
    fails(place, tar(member("oci-layout", b"{}"), member("index.json", b" " * 100_000_000)),
          "more than")


def test_too_many_members(place):
    header = tar(member("x"))[:512]
    fails(place, header * 100_001 + bytes(1024), "members")


def test_bomb(place):
    """A whole archive that unpacks to far more than it has."""
    if shutil.which("zstd") is None:
        pytest.skip("zstd is not installed")
    source = place.top / "bomb.zst"
    subprocess.run(f"head -c 3000000000 /dev/zero | zstd -q -1 > {source}", shell=True, check=True)
    fails(place, None, "times its size", source=source)


def test_bomb_in_a_layer(place):
    if shutil.which("zstd") is None:
        pytest.skip("zstd is not installed")
    bomb = subprocess.run(
        "(head -c 512 /dev/null; head -c 3000000000 /dev/zero) | zstd -q -1", shell=True,
        capture_output=True, check=True).stdout
    layout = Layout()
    layout.entries = [layout.manifest(b"", pack=lambda _: bomb,
                                      media_type=archives.OCI + "layer.v1.tar+zstd")]
    fails(place, layout.tar())


def test_sparse_member(place):
    """A manifest.json that is mostly a hole."""
    path = place.top / "manifest.json"
    with open(path, "wb") as f:
        f.truncate(1 << 40)
    subprocess.run(["tar", "-C", place.top, "-cSf", place.top / "bad.tar", "manifest.json"],
                   check=True)
    fails(place, None, source=place.top / "bad.tar")


# ---- damage ----

def test_cut_anywhere(place):
    data = archives.docker_archive(([change()], ["t/h:1"]))
    end = len(data.rstrip(b"\0"))
    choice = random.Random(3)
    for cut in [0, 1, 511, 512, 513, *(choice.randrange(end) for _ in range(12))]:
        fails(place, data[:cut])


def test_cut_when_compressed(place):
    data = gzip.compress(archives.docker_archive(([change()], ["t/h:1"])))
    for cut in (5, 20, len(data) // 2, len(data) - 1):
        fails(place, data[:cut])


def test_flipped_bits(place):
    """Whatever a flipped bit does, what is loaded has the digests that it says."""
    layer = tar(member("x", os.urandom(2000)))
    data = gzip.compress(layer)
    layout = Layout()
    layout.entries = [layout.manifest(layer, pack=lambda _: data, annotations={
        "io.containerd.image.name": "docker.io/t/h:1"})]
    archive = layout.tar()
    choice = random.Random(5)
    for _ in range(15):
        at = choice.randrange(len(archive.rstrip(b"\0")))
        broken = archive[:at] + bytes([archive[at] ^ (1 << choice.randrange(8))]) + archive[at + 1:]
        result = place.image("load", input=broken)
        if result.returncode == 0:  # it hit what does not count: a time, an owner
            assert sha(config(layer)) in result.stdout.decode()
            assert archives.tree_of_tar(place.export(sha(config(layer)))) == \
                archives.tree_of_tar(layer)


def test_bad_image_does_not_undo_a_good_one(place):
    good, bad = change(), tar(member("x", b"1"))
    data = archives.docker_archive(([good], ["t/good:1"]), ([bad], ["t/bad:1"]))
    data = data.replace(b"1".ljust(512, b"\0"), b"2".ljust(512, b"\0"))
    result = place.image("load", input=data)
    assert result.returncode == 2
    assert "t/good" in json.dumps(place.json("ls")) and "t/bad" not in json.dumps(place.json("ls"))


@as_root_only
def test_nothing_gets_out_of_the_layer(place):
    """A layer that wants to write through a symlink, in an archive of ours."""
    target = place.top / "victim"
    target.mkdir()
    layer = tar(symlink("way", str(target)), member("way/in", b"x"),
                symlink("up", "../../../../../../.." + str(target)), member("up/in", b"x"))
    place.image("load", input=archives.docker_archive(([layer], ["t/w:1"])))
    assert list(target.iterdir()) == []
    ok(place.image("ls"))


def test_reading_stops_with_the_reader(place):
    """`cay image save | head`: an error, not a hang."""
    layer = tar(member("x", os.urandom(3_000_000)))
    place.load(archives.docker_archive(([layer], ["t/p:1"])))
    r, w = os.pipe()
    os.close(r)
    with io.FileIO(w, "w") as out:
        result = place.image("save", "t/p:1", stdout=out)
    assert result.returncode != 0
