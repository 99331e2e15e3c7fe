"""Pulling images from registries, honest and not: what arrives, what is refused, and what a killed
pull leaves."""

import hashlib
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest
import registry
from support import amount, as_root_only, cay, need_cay, ok, own, start

BIN = {"bin/tool": b"#!/bin/sh\necho tool\n", "etc": None, "etc/hello": b"hi\n"}


@pytest.fixture(autouse=True)
def have_cay_image():
    need_cay()


@pytest.fixture
def state(folder):
    return own_folder(folder / "state")


def own_folder(path):
    path.mkdir()
    return own(path)


def new_folder(folder, name):
    path = folder / name
    path.mkdir()
    return path


def pull(state, name, *options, **more):
    more.setdefault("timeout", 120)
    return cay("image", "pull", "--state-dir", state, *options, name, **more)


def pulled(state, name, *options, **more):
    """The id, without its algorithm."""
    return ok(pull(state, name, *options, **more)).strip().removeprefix("sha256:")


def failed(result, *parts):
    text = result.stderr.decode(errors="replace")
    assert result.returncode not in (0, 124), text
    for part in parts:
        assert part in text, text
    assert "cay: " in text and ";" in text, text  # a cause and a remedy
    return text


def prune(state, *options):
    return ok(cay("image", "prune", "--state-dir", state, *options))


def store(state, *parts):
    return Path(state, "images", "store", *parts)


def entry(path):
    info = path.lstat()
    what = [stat.S_IFMT(info.st_mode), stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid]
    if stat.S_ISREG(info.st_mode):
        what.append(hashlib.sha256(path.read_bytes()).hexdigest())
    elif stat.S_ISLNK(info.st_mode):
        what.append(os.readlink(path))
    elif stat.S_ISCHR(info.st_mode):
        what.append(info.st_rdev)
    return tuple(what)


def tree(state):
    """Everything in the unpacked layers, by chain and path."""
    found = {}
    for fs in store(state, "layers").glob("*/fs"):
        for top, folders, files in os.walk(fs):
            for name in folders + files:
                path = Path(top, name)
                found[fs.parent.name, str(path.relative_to(fs))] = entry(path)
    return found


def content(state, path):
    """The content of a file in whichever layer has it; the topmost is not told apart."""
    found = [fs / path for fs in store(state, "layers").glob("*/fs") if (fs / path).is_file()]
    assert found, path
    return found[0].read_bytes()


def left(state):
    """What a prune must not leave."""
    return [p.name for top in ("ingest", "work") for p in store(state, top).iterdir()] + \
        [p.name for top in ("records", "names") for p in store(state, top).rglob(".new-*")]


def visible(state):
    return list(store(state, "records").iterdir()) if store(state).exists() else []


def shown(state):
    """The ids of the images that a user sees: a record that is being written is none yet."""
    rows = json.loads(ok(cay("image", "ls", "--state-dir", state, "-o", "json")))
    return {row["id"].removeprefix("sha256:") for row in rows}


def blob_requests(server, blob):
    return [headers for _, path, headers in server.requests if path.endswith(blob.digest)]


# ---- what arrives ----

@pytest.fixture(scope="module")
def plain():
    with registry.plain() as server:
        yield server


@pytest.mark.parametrize("docker", [False, True], ids=["oci", "docker"])
@pytest.mark.parametrize("compression", ["gzip", "zstd", "plain"])
def test_forms(plain, folder, state, compression, docker):
    if docker and compression != "gzip":
        pytest.skip("Docker's form has no other compression")
    image = registry.make_image(new_folder(folder, "image"), [BIN, {"etc/more": b"2"}],
                                compression, docker, env=["A=1"], Cmd=["/bin/tool"])
    name = plain.push(image, f"team/{compression}{'-docker' if docker else ''}:1")
    assert pulled(state, name) == image.config.hex
    assert content(state, "bin/tool") == BIN["bin/tool"]
    assert content(state, "etc/more") == b"2"
    for blob in image.blobs():
        assert store(state, "blobs", blob.hex).read_bytes() == blob.data
    prune(state)
    assert left(state) == []
    assert store(state, "records", image.config.hex).exists()


def test_tag_and_digest(plain, folder, state):
    image = registry.make_image(new_folder(folder, "image"), [BIN])
    plain.push(image, "team/named:1")
    by_digest = plain.name(f"team/named@{image.manifest.digest}")
    assert pulled(state, by_digest) == image.config.hex
    missing = pull(state, plain.name("team/named:1"), "--pull", "never")
    failed(missing, "is not here and pull policy is never")  # a digest gives no tag
    assert pulled(state, plain.name("team/named:1")) == image.config.hex
    assert pulled(state, by_digest, "--pull", "never") == image.config.hex


def test_index(plain, folder, state):
    members = {}
    for architecture in ("amd64", "arm64", "s390x"):
        members["linux", architecture] = registry.make_image(
            new_folder(folder, architecture), [{"arch": architecture.encode()}],
            architecture=architecture)
    index = registry.make_index(new_folder(folder, "index"), members)
    name = plain.push(index, "team/many:1")
    for (_, architecture), image in members.items():
        chosen = pulled(state, name, "--platform", f"linux/{architecture}")
        assert chosen == image.config.hex
    assert pulled(state, name, "--platform", "linux/amd64", "--pull", "missing") == \
        members["linux", "amd64"].config.hex  # another platform's is not what was asked for
    failed(pull(state, name, "--platform", "linux/riscv64"), "linux/riscv64", "linux/s390x")


def nested(folder, levels):
    image = registry.make_image(new_folder(folder, "image"), [BIN])
    found = image
    for level in range(levels):
        found = registry.make_index(new_folder(folder, f"index{level}"),
                                    {("linux", "amd64"): found})
    return image, found


@pytest.mark.parametrize("levels", [3, 4])
def test_index_in_index(folder, state, levels):
    image, outer = nested(folder, levels)
    with registry.fake(outer) as server:
        result = pull(state, server.name("a"), "--platform", "linux/amd64")
        if levels == 3:
            assert ok(result).strip().endswith(image.config.hex)
        else:
            failed(result, "indexes in each other")


def test_another_platform_is_refused(folder, state):
    image = registry.make_image(new_folder(folder, "image"), [BIN], architecture="s390x")
    with registry.fake(image) as server:
        failed(pull(state, server.name("a"), "--platform", "linux/amd64"), "linux/s390x",
               "linux/amd64")
        assert pulled(state, server.name("a"), "--platform", "linux/s390x") == image.config.hex


def test_shared_layers_come_once(folder, state):
    first = registry.make_image(new_folder(folder, "1"), [BIN, {"a": b"1"}])
    second = registry.make_image(new_folder(folder, "2"), [BIN, {"b": b"2"}])
    with registry.fake(first) as server:
        pulled(state, server.name("a"))
    with registry.fake(second) as server:
        result = pull(state, server.name("b"), "--progress", "json")
        assert ok(result)
        assert blob_requests(server, second.layers[0]) == []
        assert len(blob_requests(server, second.layers[1])) == 1
    assert '"exists"' in result.stderr.decode()


def test_one_blob_as_several_layers(folder, state):
    image = registry.make_image(new_folder(folder, "image"), [BIN, {"x": b"1"}, {"x": b"1"}])
    with registry.fake(image) as server:
        assert pulled(state, server.name("a")) == image.config.hex
        assert len(blob_requests(server, image.layers[1])) == 1
    assert len(list(store(state, "layers").iterdir())) == 3


def test_unchanged_image_is_not_fetched_again(folder, state):
    image = registry.make_image(new_folder(folder, "image"), [BIN])
    with registry.fake(image) as server:
        pulled(state, server.name("a"))
        server.requests.clear()
        assert pulled(state, server.name("a"), "--pull", "always") == image.config.hex
        assert all("/blobs/" not in path for path in server.paths())


# ---- policies ----

def test_policies(folder, state):
    image = registry.make_image(new_folder(folder, "image"), [BIN])
    with registry.fake(image) as server:
        name = server.name("a:1")
        failed(pull(state, name, "--pull", "never"),
               f"image '{name}' is not here and pull policy is never; ")
        assert server.requests == []
        assert pulled(state, name, "--pull", "missing") == image.config.hex
        server.requests.clear()
        assert pulled(state, name, "--pull", "missing") == image.config.hex
        assert pulled(state, name, "--pull", "never") == image.config.hex
        assert server.requests == []
        assert pulled(state, name, "--pull", "always") == image.config.hex
        assert server.requests != []


def test_name_moves(plain, folder, state):
    old = registry.make_image(new_folder(folder, "old"), [BIN, {"v": b"1"}])
    new = registry.make_image(new_folder(folder, "new"), [BIN, {"v": b"2"}])
    name = plain.push(old, "team/moving:1")
    assert pulled(state, name) == old.config.hex
    plain.push(new, "team/moving:1")
    assert pulled(state, name, "--pull", "missing") == old.config.hex
    assert pulled(state, name, "--pull", "always") == new.config.hex
    assert pulled(state, name, "--pull", "never") == new.config.hex
    assert {p.name for p in visible(state)} == {old.config.hex, new.config.hex}
    prune(state, "--all")  # the old one has no name any more
    assert {p.name for p in visible(state)} == {new.config.hex}
    assert len(list(store(state, "layers").iterdir())) == 2


# ---- lies ----

def test_credentials_of_the_configuration(folder, state):
    with registry.htpasswd() as server:
        server.push(registry.make_image(new_folder(folder, "private"), [{"a": b"1"}]), "private")
        failed(pull(state, server.name("private")), "cay image login")
        config = folder / "cay.toml"
        for text, works in ((f"{registry.USER}:{registry.PASSWORD}", True), ("ann", False)):
            config.write_text(f'[images]\ncredentials = {{ "{server.host}" = "{text}" }}\n')
            config.chmod(0o644)
            done = pull(state, server.name("private"), "--config", config)
            assert (done.returncode == 0) == works, done.stderr
        assert b"has no ':'" in done.stderr
        shown = cay("config", "--config", config, "images.credentials").stdout
        assert b"(secret)" in shown and b"ann" not in shown


def nothing_came(state):
    assert visible(state) == []
    prune(state)
    assert left(state) == []
    assert list(store(state, "layers").iterdir()) == []


@pytest.fixture
def image(folder):
    return registry.make_image(new_folder(folder, "image"),
                               [{**BIN, "data": random.Random(1).randbytes(300000)}])


def test_wrong_bytes(image, state):
    layer = image.layers[0]

    def lie(request):
        if request.path.endswith(layer.digest):
            return registry.wrong_bytes(request)
        return registry.serve_range(request, registry._blob_of(request))
    with registry.fake(image, blob=lie) as server:
        failed(pull(state, server.name("a")), layer.digest, "other content", server.host)
        assert len(blob_requests(server, layer)) == 2  # one more try
    assert not store(state, "ingest", layer.hex).exists()
    nothing_came(state)
    with registry.fake(image) as server:
        assert pulled(state, server.name("a")) == image.config.hex


def test_wrong_bytes_once(image, state):
    layer = image.layers[0]
    lies = []

    def lie(request):
        if request.path.endswith(layer.digest) and not lies:
            lies.append(request.path)
            return registry.wrong_bytes(request)
        return registry.serve_range(request, registry._blob_of(request))
    with registry.fake(image, blob=lie) as server:
        assert pulled(state, server.name("a")) == image.config.hex
    assert content(state, "data") == random.Random(1).randbytes(300000)


def test_wrong_configuration(image, state):
    with registry.fake(image, blob=registry.wrong_bytes) as server:
        failed(pull(state, server.name("a")), image.config.digest, "other content")
    nothing_came(state)


@pytest.mark.parametrize("lie", [registry.too_short, registry.too_long], ids=lambda f: f.__name__)
def test_wrong_length(image, state, lie):
    with registry.fake(image, blob=lie) as server:
        failed(pull(state, server.name("a")), "bytes")
    nothing_came(state)


@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "no ranges"])
def test_broken_connections(image, state, ranges):
    with registry.fake(image, blob=registry.cut_once(100, ranges)) as server:
        assert pulled(state, server.name("a")) == image.config.hex
    assert content(state, "data") == random.Random(1).randbytes(300000)


def with_manifest(image, change):
    document = json.loads(image.manifest.data)
    change(document)
    image.manifest = registry.Blob(json.dumps(document).encode(), image.manifest.media_type)
    return image


@pytest.mark.parametrize("off", [-1, 1])
def test_manifest_lies_about_a_size(image, state, off):
    def change(document):
        document["layers"][0]["size"] += off
    with registry.fake(with_manifest(image, change)) as server:
        failed(pull(state, server.name("a")), "bytes")
    nothing_came(state)


def test_manifest_lies_about_the_size_of_what_is_here(image, state):
    other = registry.make_image(Path(image.folder), [{"other": b"x"}, *[{**BIN, "data": random.Random(
        1).randbytes(300000)}]])
    with registry.fake(image) as server:
        pulled(state, server.name("a"))

    def change(document):
        document["layers"][1]["size"] += 1
    with registry.fake(with_manifest(other, change)) as server:
        failed(pull(state, server.name("b")), "the manifest says", "bytes")


def test_layer_count(image, state):
    def change(document):
        document["layers"] *= 2
    with registry.fake(with_manifest(image, change)) as server:
        failed(pull(state, server.name("a")), "the manifest has 2 layers, the configuration 1")
    nothing_came(state)


def test_wrong_diff_id(folder, image, state):
    document = json.loads(image.config.data)
    document["rootfs"]["diff_ids"] = ["sha256:" + "a" * 64]
    image.config = registry.Blob(json.dumps(document).encode(), image.config.media_type)

    def change(manifest):
        manifest["config"] = image.config.descriptor()
    with registry.fake(with_manifest(image, change)) as server:
        failed(pull(state, server.name("a")), "layer 1 unpacks to", "a" * 64)
    assert visible(state) == []


def test_a_layer_that_is_no_archive(folder, state):
    image = registry.make_image(new_folder(folder, "image"), [b"this is no tar" * 100])
    with registry.fake(image) as server:
        failed(pull(state, server.name("a")), "layer 1", server.host)
    assert visible(state) == []
    prune(state)
    assert left(state) == []


def test_unknown_name(folder, state):
    with registry.fake(registry.make_image(new_folder(folder, "i"), [BIN]),
                       manifest=registry.answer(404)) as server:
        text = failed(pull(state, server.name("team/none:1")), server.host, "team/none:1")
        assert text.count(server.host) >= 1 and text.count("\n") <= 2


# ---- kills, and others at the same time ----

def big_image(folder):
    """Large enough for a pull to take a while, with whiteouts and files that are replaced."""
    chance = random.Random(7)
    first = {f"d{i // 100}/f{i}": chance.randbytes(chance.randrange(2000)) for i in range(400)}
    layers = [{**{f"d{i}": None for i in range(4)}, **first},
              {"big": chance.randbytes(3 << 20)},
              {"d1/.wh.f101": b"", "d2/.wh..wh..opq": b"", "d3/f301": b"changed"},
              {"more": chance.randbytes(1 << 20), "d3/f302": "f301"}]
    return registry.make_image(new_folder(folder, "big"), layers)


def start_pull(state, name):
    return start("image", "pull", "--state-dir", state, "--progress", "plain", name,
                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def kill_after(process, seconds):
    """True if it was too late."""
    try:
        return process.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return False


def test_kill_at_any_moment(folder):
    image = big_image(folder)
    chance = random.Random()
    with registry.fake(image) as server:
        whole = own_folder(folder / "whole")
        began = time.monotonic()
        pulled(whole, server.name("a"))
        duration = time.monotonic() - began
        expected = tree(whole)
        kills = 0
        while kills < amount(16, 150):
            state = own_folder(folder / f"state{kills}")
            for _ in range(5):
                if kill_after(start_pull(state, server.name("a")), chance.uniform(0, duration)):
                    break
                kills += 1
                assert shown(state) <= {image.config.hex}
            assert pulled(state, server.name("a")) == image.config.hex
            prune(state)
            assert left(state) == []
            assert tree(state) == expected
            assert {p.name for p in store(state, "blobs").iterdir()} == \
                {p.name for p in store(whole, "blobs").iterdir()}
            shutil.rmtree(state, ignore_errors=True)


def test_killed_download_goes_on(image, state):
    """The second pull asks only for what the first did not get."""
    layer = image.layers[0]

    def stop_halfway(request):
        data = registry._blob_of(request)
        if not request.path.endswith(layer.digest):
            return registry.serve_range(request, data)
        request.reply(200, data[:200000], length=len(data))
        request.wfile.flush()
        return request.server.owner.ending.wait(60)
    with registry.fake(image, blob=stop_halfway) as server:
        process = start_pull(state, server.name("a"))
        ingest = store(state, "ingest", layer.hex)
        deadline = time.monotonic() + 60
        while not ingest.exists() or ingest.stat().st_size < 200000:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.01)
        process.kill()
        process.wait()
    with registry.fake(image) as server:
        assert pulled(state, server.name("a")) == image.config.hex
        assert [h.get("Range") for h in blob_requests(server, layer)] == ["bytes=200000-"]
    assert content(state, "data") == random.Random(1).randbytes(300000)


def test_rubbish_left_by_a_crash(image, state):
    """What an earlier download left is not trusted, and costs one more try."""
    layer = image.layers[0]
    with registry.fake(image) as server:
        pulled(state, server.name("a"))
        ok(cay("image", "rm", "--state-dir", state, server.name("a")))
        prune(state)
        ingest = store(state, "ingest", layer.hex)
        ingest.write_bytes(bytes(1000))
        os.chown(ingest, *(lambda s: (s.st_uid, s.st_gid))(ingest.parent.stat()))
        server.requests.clear()
        assert pulled(state, server.name("a")) == image.config.hex
        ranges = [h.get("Range") for h in blob_requests(server, layer)]
        assert ranges == ["bytes=1000-", None]


def test_several_at_once(folder, state):
    image = big_image(folder)
    with registry.fake(image) as server:
        others = [start_pull(state, server.name("a")) for _ in range(3)]
        assert pulled(state, server.name("a")) == image.config.hex
        assert [process.wait(120) for process in others] == [0, 0, 0]
        for layer in image.layers:
            assert len(blob_requests(server, layer)) == 1
    whole = own_folder(folder / "whole")
    with registry.fake(image) as server:
        pulled(whole, server.name("a"))
    prune(state)
    assert left(state) == []
    assert tree(state) == tree(whole)


@as_root_only
def test_disk_full(folder):
    size = 8 << 20
    image = registry.make_image(new_folder(folder, "image"),
                                [{"data": random.Random(3).randbytes(size)}], "plain")
    state = new_folder(folder, "small")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m,mode=755", "none", state], check=True)
    try:
        with registry.fake(image) as server:
            failed(pull(state, server.name("a")), "No space left", server.host)
            assert visible(state) == []
            subprocess.run(["mount", "-o", "remount,size=64m", state], check=True)
            server.requests.clear()
            assert pulled(state, server.name("a")) == image.config.hex
            asked = [h.get("Range") for h in blob_requests(server, image.layers[0])]
            assert None not in asked  # it went on where it was
        assert content(state, "data") == random.Random(3).randbytes(size)
        wait_until_settled(state)
    finally:
        unmount(state)


def wait_until_settled(state):
    deadline = time.monotonic() + 60
    while not all((p / "settled").exists() for p in store(state, "layers").iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def unmount(path):
    """The process that brings the layers to the disk may still close its files."""
    for _ in range(100):
        if subprocess.run(["umount", path], stderr=subprocess.DEVNULL).returncode == 0:
            return
        time.sleep(0.1)
    subprocess.run(["umount", "-l", path], check=True)


# ---- telling ----

def test_events(folder, state):
    image = registry.make_image(new_folder(folder, "image"), [BIN, {"x": b"1"}])
    with registry.fake(image) as server:
        result = pull(state, server.name("a"), "--progress", "json")
        assert ok(result)
        text = result.stderr.decode()
        for line in text.splitlines():
            json.loads(line)
        for word in ("resolving", "done", *(layer.hex[:12] for layer in image.layers)):
            assert word in text
