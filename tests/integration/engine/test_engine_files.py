"""Files and folders: any content, any name, both ways, and what is refused."""

import hashlib
import os
import threading

import pytest

MB = 1 << 20
NAMES = ["plain", "with space", "  ends with space ", "quote'", 'double"quote', "back\\slash",
         "new\nline", "tab\tbed", "ünïcode ☃", "-rf", "--help", "$HOME", "`id`", "*", "a;b", "#", "%41",
         "n" * 255, ".hidden", "&&", "a:b", "?q=1"]


def digest(data):
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("data", [b"", b"a", b"\0", b"text\n", b"\r\n", bytes(range(256)),
                                  b"\xff\xfe not utf-8", b"x" * 65536, b"y" * 65537],
                         ids=lambda d: f"{len(d)}-{digest(d)[:4]}")
def test_content_is_kept(box, data):
    box.put("/workspace/content", data)
    assert box.get("/workspace/content") == data
    assert box.says("wc -c < /workspace/content").strip() == str(len(data))


@pytest.mark.parametrize("name", NAMES)
def test_names(box, name):
    path = f"/workspace/names/{name}"
    box.put(path, name.encode())
    assert box.get(path) == name.encode()
    assert box.run("cat", path).out == name.encode()
    listed = [f["name"] for f in box.file("GET", "", path="/workspace/names").json()]
    assert name in listed


def test_a_large_file(box):
    data = os.urandom(MB) * 100
    box.put("/workspace/large", data)
    assert digest(box.get("/workspace/large")) == digest(data)
    assert box.file("DELETE", "", path="/workspace/large").status == 204


def test_parents_are_made(box):
    box.put("/workspace/a/b/c/d/file", b"deep")
    assert box.says("cat /workspace/a/b/c/d/file") == "deep"


def test_replacing_a_file(box):
    box.put("/workspace/again", b"a longer first content")
    box.put("/workspace/again", b"short")
    assert box.get("/workspace/again") == b"short"


def test_a_relative_path_begins_in_the_work_folder(box):
    box.put("relative/file", b"here")
    assert box.says("cat /workspace/relative/file") == "here"


def test_what_a_command_writes_is_seen(box):
    box.says("printf 'from inside' > /workspace/inside")
    assert box.get("/workspace/inside") == b"from inside"


def test_info(box):
    box.put("/workspace/about", b"12345")
    box.says("chmod 640 /workspace/about")
    found = box.file("GET", "/info", path="/workspace/about").json()
    assert (found["name"], found["size"], found["isDir"]) == ("about", 5, False)
    assert found["permissions"] in ("0640", "640", "-rw-r-----")


@pytest.mark.parametrize("method, what, query", [
    ("GET", "/download", {"path": "/no/such/file"}), ("GET", "/info", {"path": "/no/such"}),
    ("GET", "", {"path": "/no/such"}), ("DELETE", "", {"path": "/no/such"}),
    ("POST", "/move", {"source": "/no/such", "destination": "/tmp/x"}),
])
def test_not_found(box, method, what, query):
    reply = box.file(method, what, **query)
    assert reply.status == 404 and b"no such" in reply.body.lower().replace(b"-", b" "), reply


@pytest.mark.parametrize("path", ["/workspace", "/", "/etc"])
def test_a_folder_is_no_file(box, path):
    assert box.file("GET", "/download", path=path).status in (400, 409)


def test_a_file_is_no_folder(box):
    box.put("/workspace/flat", b"x")
    assert box.file("GET", "", path="/workspace/flat").status in (400, 409)
    assert box.file("POST", "/upload-v2", b"y", path="/workspace/flat/below").status >= 400
    assert box.get("/workspace/flat") == b"x"


def test_folders(box):
    assert box.file("POST", "/folder", path="/workspace/new/er", mode="755").status == 201
    assert box.file("POST", "/folder", path="/workspace/new/er", mode="755").status == 201
    assert box.says("test -d /workspace/new/er && echo yes") == "yes\n"


def test_a_full_folder_needs_a_word_to_be_removed(box):
    box.put("/workspace/full/file", b"x")
    assert box.file("DELETE", "", path="/workspace/full").status >= 400
    assert box.get("/workspace/full/file") == b"x"
    assert box.file("DELETE", "", path="/workspace/full", recursive="true").status == 204
    assert box.file("GET", "/info", path="/workspace/full").status == 404


def test_moving(box):
    box.put("/workspace/from", b"moved")
    assert box.file("POST", "/move", source="/workspace/from",
                    destination="/workspace/to").status == 200
    assert box.get("/workspace/to") == b"moved"
    assert box.file("GET", "/info", path="/workspace/from").status == 404


def test_permissions(box):
    box.put("/workspace/script", b"#!/bin/sh\necho ran\n")
    assert box.file("POST", "/permissions", path="/workspace/script", mode="755").status == 200
    assert box.says("/workspace/script") == "ran\n"


def test_searching(box):
    box.put("/workspace/search/one.txt", b"a\nneedle here\n")
    box.put("/workspace/search/two.txt", b"nothing\n")
    found = box.file("GET", "/find", path="/workspace/search", pattern="needle").json()
    assert [(f["line"], f["content"]) for f in found] == [(2, "needle here")]
    names = box.file("GET", "/search", path="/workspace/search", pattern="*.txt").json()["files"]
    assert sorted(n.rsplit("/", 1)[1] for n in names) == ["one.txt", "two.txt"]


def test_symlinks_are_followed_inside(box):
    box.says("mkdir -p /workspace/l && cd /workspace/l && echo goal > goal && ln -sf goal link && "
             "ln -sf nothing dangling && ln -sf loop loop")
    assert box.get("/workspace/l/link") == b"goal\n"
    assert box.file("GET", "/download", path="/workspace/l/dangling").status == 404
    assert box.file("GET", "/download", path="/workspace/l/loop").status >= 400


def test_a_symlink_leads_nowhere_on_the_host(box, folder_of):
    secret = folder_of("secret") / "file"
    secret.write_text("of the host")
    box.says(f"ln -sfn {secret} /workspace/out && ln -sfn / /workspace/top")
    assert box.file("GET", "/download", path="/workspace/out").status == 404
    assert box.file("GET", "/download", path=f"/workspace/top{secret}").status == 404
    assert box.file("GET", "/download", path=f"/workspace/../../../..{secret}").status == 404


def test_a_file_that_is_removed_while_it_is_there(box):
    box.put("/workspace/gone", b"x")
    assert box.file("DELETE", "", path="/workspace/gone").status == 204
    assert box.run("cat", "/workspace/gone").code == 1


@pytest.mark.parametrize("path", [
    "/proc/version", "/proc/sys/kernel/hostname",
    pytest.param("/dev/x", marks=pytest.mark.needs("read-only-dev")),
    pytest.param("/usr/x/y", marks=pytest.mark.needs("host-image")),
])
def test_what_cannot_be_written(box, path):
    assert box.file("POST", "/upload-v2", b"x", path=path).status >= 400


def test_at_once(box):
    """Writers of different files do not see each other; writers of one leave one of them whole."""
    data = {n: bytes([n]) * 300_000 for n in range(8)}

    def write(n):
        box.put(f"/workspace/many/{n}", data[n])
        box.put("/workspace/many/shared", data[n])

    threads = [threading.Thread(target=write, args=(n,)) for n in data]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert all(box.get(f"/workspace/many/{n}") == data[n] for n in data)
    assert box.get("/workspace/many/shared") in data.values()


# ---- folders, both ways ----

def fill(folder):
    (folder / "sub" / "empty").mkdir(parents=True)
    (folder / "file").write_bytes(b"content")
    (folder / "zero").write_bytes(b"")
    (folder / "sub" / "with space ☃").write_bytes(bytes(range(256)))
    (folder / "run").write_text("#!/bin/sh\n")
    (folder / "run").chmod(0o755)
    (folder / "link").symlink_to("file")
    (folder / "dangling").symlink_to("/nowhere/at/all")


def tree(folder):
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = ("folder", "")
        else:
            found[name] = (path.stat().st_mode & 0o777, path.read_bytes())
    return found


def test_folders_both_ways(engine, box, folder_of):
    source, target = folder_of("source"), folder_of("target")
    fill(source)
    for path in source.rglob("*"):
        if not path.is_symlink():
            engine.own(path)
    assert box.cp(source, f"{box.id}:/workspace/tree").returncode == 0
    assert box.says("readlink /workspace/tree/link; cat /workspace/tree/link") == "file\ncontent"
    done = box.cp(f"{box.id}:/workspace/tree", target / "back")
    assert done.returncode == 0, done.stderr
    assert tree(target / "back") == tree(source)


def test_copying_one_file(box, folder_of):
    folder = folder_of("single")
    (folder / "in").write_bytes(b"one")
    assert box.cp(folder / "in", f"{box.id}:/workspace/copied").returncode == 0
    assert box.cp(f"{box.id}:/workspace/copied", folder / "out").returncode == 0
    assert (folder / "out").read_bytes() == b"one"


@pytest.mark.parametrize("words", [("{box}:/no/such", "{folder}/x"), ("{folder}/none", "{box}:/tmp/x"),
                                   ("{folder}/x", "no-such-sandbox:/tmp/x")])
def test_copying_what_is_not_there(box, folder_of, words):
    folder = folder_of("nothing")
    done = box.cp(*(w.format(box=box.id, folder=folder) for w in words))
    assert done.returncode != 0 and done.stderr.startswith(b"cay: ")
