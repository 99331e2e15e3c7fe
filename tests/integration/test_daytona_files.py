"""Files through the toolbox, as Daytona's SDKs ask for them: raw HTTP, odd names, errors, large files
in constant memory, and what a client that goes away in the middle leaves behind."""

import base64
import hashlib
import hmac
import http.client
import json
import socket
import time
import urllib.parse
from pathlib import Path

import pytest
import support
from daemons import serving_tcp
from launching import until
from test_keys import Client

ODD = ["plain.txt", "two words.txt", "ünïcödé-文件.txt", "new\nline", 'quo"te', "back\\slash",
       "semi;colon", "per%20cent", "plus+and&amp", "-dash"]
MEGA = 1024 * 1024


class Reply:
    def __init__(self, response):
        self.status, self.headers, self.data = response.status, response.headers, response.read()

    def json(self):
        return json.loads(self.data)


class Box:
    """A sandbox, and its toolbox."""

    def __init__(self, daemon, who):
        self.daemon, self.who = daemon, who

    def ask(self, method, where, body=None, headers=None, /, **query):
        connection = self.daemon.http()
        text = urllib.parse.urlencode(query)
        try:
            connection.request(method, f"/toolbox/{self.who}{where}" + ("?" + text if text else ""),
                               body, headers or {})
            return Reply(connection.getresponse())
        finally:
            connection.close()

    def get(self, where, /, **query):
        reply = self.ask("GET", where, **query)
        assert reply.status == 200, reply.data
        return reply.json()

    def put(self, path, content):
        reply = self.ask("POST", "/files/bulk-upload", *form([("files[0].path", path),
                                                              ("files[0].file", content)]))
        assert reply.status == 200, reply.data

    def read(self, path):
        reply = self.ask("GET", "/files/download", path=path)
        assert reply.status == 200, reply.data
        return reply.data

    def run(self, *argv):
        return self.daemon.exec(self.who, *argv)

    def shell(self, script):
        code, output = self.run("sh", "-c", script)
        assert code == 0, output
        return output

    def folder(self):
        """A new one, on the disk of the sandbox."""
        return self.shell("mkdir -p /workspace && mktemp -d /workspace/XXXXXX").strip()


def form(parts, boundary=b"xyz", chunk=0):
    """The body of a form, and its headers."""
    body = b""
    for name, content in parts:
        content = content.encode() if isinstance(content, str) else content
        file = b'; filename="ignored"' if name.endswith("file") else b""
        body += (b"--%s\r\nContent-Disposition: form-data; name=\"%s\"%s\r\n\r\n%s\r\n"
                 % (boundary, name.encode(), file, content))
    body += b"--%s--\r\n" % boundary
    headers = {"Content-Type": "multipart/form-data; boundary=" + boundary.decode()}
    if not chunk:
        return body, headers
    return (body[i:i + chunk] for i in range(0, len(body), chunk)), headers


def parts_of(reply):
    """[(name, headers, content)] of an answer in parts, whose end must be there."""
    boundary = reply.headers["Content-Type"].split("boundary=")[1].encode()
    pieces = (b"\r\n" + reply.data).split(b"\r\n--" + boundary)
    assert pieces[0] == b"" and pieces[-1] == b"--\r\n", reply.data[-100:]
    parts = []
    for piece in pieces[1:-1]:
        head, content = piece[2:].split(b"\r\n\r\n", 1)
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        name = headers["Content-Disposition"].split('name="')[1].split('"')[0]
        parts.append((name, headers, content))
    return parts


def refused(reply, status, code):
    error = reply.json()
    assert (reply.status, error["statusCode"], error["code"]) == (status, status, code), error
    assert error["source"] == "DAYTONA_DAEMON" and error["message"] and error["timestamp"]
    assert error["path"].startswith("/toolbox/") and error["method"]
    return error["message"]


@pytest.fixture(scope="module")
def daemon():
    with serving_tcp() as d:
        yield d


@pytest.fixture(scope="module")
def box(daemon):
    return Box(daemon, daemon.create()["id"])


# ---- names and attributes ----

def test_info(box):
    place = box.folder()
    box.shell(f"cd {place} && echo hello > a && chmod 640 a && ln -s a link && touch -d @1700000000.5 a"
              " && mkdir -m 1777 d")
    info = box.get("/files/info", path=f"{place}/link")  # what it leads to
    assert info == {"name": "link", "path": f"{place}/link", "size": 6, "mode": "-rw-r-----",
                    "isDir": False, "owner": "0", "group": "0", "permissions": "0640",
                    "modTime": "2023-11-14 22:13:20.500 +0000 UTC",
                    "modifiedAt": "2023-11-14T22:13:20.500Z"}
    info = box.get("/files/info", path=f"{place}/d/")
    assert (info["name"], info["isDir"], info["mode"]) == ("d", True, "dtrwxrwxrwx")
    assert info["permissions"] == "0777"
    assert box.get("/files/info", path="/dev/null")["mode"] == "Dcrw-rw-rw-"
    assert box.get("/files/info", path="/")["path"] == "/"


def test_list(box):
    place = box.folder()
    box.shell(f"cd {place} && mkdir -p b/c/d && touch a b/one b/c/two b/c/d/three 'b x' && ln -s b l")
    names = [entry["path"].removeprefix(place) for entry in box.get("/files", path=place)]
    assert names == ["/a", "/b", "/b x", "/l"]
    entries = box.get("/files", path=place + "/", depth=2)
    assert [entry["path"].removeprefix(place) for entry in entries] == \
        ["/a", "/b", "/b/c", "/b/one", "/b x", "/l"]
    assert [entry["name"] for entry in entries] == ["a", "b", "c", "one", "b x", "l"]
    assert [e["mode"][0] for e in entries] == ["-", "d", "d", "-", "-", "L"]
    deep = box.get("/files", path=place, depth=64)
    assert len(deep) == 9 and deep[4]["path"] == f"{place}/b/c/d/three"
    assert box.get("/files", path=place + "/b/c/d", depth=3)[0]["name"] == "three"
    for depth in ("0", "-1", "x", "65", "1.5"):
        refused(box.ask("GET", "/files", path=place, depth=depth), 400, "BAD_REQUEST")
    refused(box.ask("GET", "/files", path=place + "/none"), 404, "FILE_NOT_FOUND")
    refused(box.ask("GET", "/files", path=place + "/a"), 400, "INVALID_FILE_PATH")


def test_new_work_folder(daemon):
    new = Box(daemon, daemon.create()["id"])
    assert new.get("/files") == []  # although nothing has made it yet
    assert new.get("/files", path=".", depth=2) == []
    daemon.call("DELETE", f"/api/cay/sandbox/{new.who}?force=true")


def test_relative_paths(box):
    """Begin in the work folder, which is listed if nothing is named."""
    work = box.daemon.call("GET", f"/api/cay/sandbox/{box.who}")["workDir"]
    box.put("below/file", "x")
    assert box.get("/files/info", path="below/file")["path"] == f"{work}/below/file"
    assert box.shell(f"cat {work}/below/file") == "x"
    assert f"{work}/below" in [entry["path"] for entry in box.get("/files")]
    assert box.get("/files", path="./below")[0]["path"] == f"{work}/below/file"
    assert box.read("./below/file") == b"x"
    assert box.ask("DELETE", "/files", path="below", recursive="true").status == 204


def test_odd_names(box):
    place = box.folder()
    for name in ODD:
        box.put(f"{place}/{name}", name)
    assert sorted(e["name"] for e in box.get("/files", path=place)) == sorted(ODD)
    for name in ODD:
        path = f"{place}/{name}"
        assert box.get("/files/info", path=path)["name"] == name
        assert box.read(path).decode() == name
        assert box.ask("POST", "/files/move", source=path, destination=path + "~").status == 200
    reply = box.ask("POST", "/files/bulk-download",
                    json.dumps({"paths": [f"{place}/{name}~" for name in ODD]}))
    parts = parts_of(reply)
    assert [content.decode() for _, _, content in parts] == ODD
    for name, (_, headers, _) in zip(ODD, parts):
        text = headers["Content-Disposition"]
        path = f"{place}/{name}~"
        if path.isascii() and path.isprintable():
            assert f'filename="{escaped(path)}"' in text and "filename*" not in text
        else:
            assert urllib.parse.unquote(text.split("filename*=utf-8''")[1]) == path
    for name in ODD:
        assert box.ask("DELETE", "/files", path=f"{place}/{name}~").status == 204
    assert box.get("/files", path=place) == []


def escaped(text):
    return text.replace("\\", "\\\\").replace('"', '\\"')


def test_folder(box):
    place = box.folder()
    assert box.ask("POST", "/files/folder", path=f"{place}/a/b", mode="750").status == 201
    assert box.get("/files/info", path=f"{place}/a/b")["permissions"] == "0750"
    assert box.ask("POST", "/files/folder", path=f"{place}/a/b", mode="0755").status == 201
    assert box.ask("POST", "/files/folder", path=f"{place}/c").status == 201
    assert box.get("/files/info", path=f"{place}/c")["permissions"] == "0755"
    for mode in ("999", "rwx", "77777", "-1", "0x1"):
        refused(box.ask("POST", "/files/folder", path=f"{place}/d", mode=mode), 400, "BAD_REQUEST")
    refused(box.ask("POST", "/files/folder", mode="755"), 400, "BAD_REQUEST")
    box.put(f"{place}/file", "")
    reply = box.ask("POST", "/files/folder", path=f"{place}/file/x", mode="755")
    refused(reply, 400, "INVALID_FILE_PATH")


def test_move(box):
    place = box.folder()
    box.put(f"{place}/a", "1")
    box.put(f"{place}/b", "2")
    box.shell(f"mkdir {place}/d; ln -s nowhere {place}/dangling")
    for to in ("b", "d", "dangling"):
        reply = box.ask("POST", "/files/move", source=f"{place}/a", destination=f"{place}/{to}")
        refused(reply, 409, "CONFLICT")
    assert box.read(f"{place}/b") == b"2"
    assert box.ask("POST", "/files/move", source=f"{place}/a", destination=f"{place}/d/a").status == 200
    assert box.read(f"{place}/d/a") == b"1"
    reply = box.ask("POST", "/files/move", source=f"{place}/a", destination=f"{place}/x")
    refused(reply, 404, "FILE_NOT_FOUND")
    reply = box.ask("POST", "/files/move", source=f"{place}/d", destination=f"{place}/d/e")
    assert reply.status == 400
    refused(box.ask("POST", "/files/move", source=f"{place}/b"), 400, "BAD_REQUEST")


def test_delete(box):
    place = box.folder()
    box.shell(f"cd {place} && mkdir -p d/e && touch d/e/f g && ln -s d l")
    refused(box.ask("DELETE", "/files", path=f"{place}/d"), 400, "BAD_REQUEST")
    refused(box.ask("DELETE", "/files", path=f"{place}/d", recursive="maybe"), 400, "BAD_REQUEST")
    assert box.ask("DELETE", "/files", path=f"{place}/l").status == 204  # the link alone
    assert box.ask("DELETE", "/files", path=f"{place}/d", recursive="true").status == 204
    assert box.ask("DELETE", "/files", path=f"{place}/g").status == 204
    assert box.get("/files", path=place) == []
    for recursive in ("true", "false"):
        reply = box.ask("DELETE", "/files", path=f"{place}/d", recursive=recursive)
        refused(reply, 404, "FILE_NOT_FOUND")
    refused(box.ask("DELETE", "/files"), 400, "BAD_REQUEST")


def test_permissions(box):
    place = box.folder()
    box.put(f"{place}/a", "")
    assert box.ask("POST", "/files/permissions", path=f"{place}/a", mode="0600").status == 200
    assert box.get("/files/info", path=f"{place}/a")["permissions"] == "0600"
    reply = box.ask("POST", "/files/permissions", path=f"{place}/a", owner="0", group="0", mode="644")
    assert reply.status == 200
    assert box.get("/files/info", path=f"{place}/a")["permissions"] == "0644"
    assert box.ask("POST", "/files/permissions", path=f"{place}/a").status == 200
    reply = box.ask("POST", "/files/permissions", path=f"{place}/x", mode="644")
    refused(reply, 404, "FILE_NOT_FOUND")
    reply = box.ask("POST", "/files/permissions", path=f"{place}/a", owner="no such user")
    assert 400 <= reply.status < 500, reply.data
    refused(box.ask("POST", "/files/permissions", path=f"{place}/a", mode="8"), 400, "BAD_REQUEST")


# ---- searching ----

def test_find_and_search(box):
    place = box.folder()
    box.put(f"{place}/a.py", "import os\n# needle\nx = 1\n")
    box.put(f"{place}/sub/b.py", "needle and needle")
    box.put(f"{place}/sub/c.txt", "a needl\n")
    box.put(f"{place}/binary", b"\0needle\n")
    found = box.get("/files/find", path=place, pattern="needle")
    assert sorted(found, key=lambda m: m["file"]) == [
        {"file": f"{place}/a.py", "line": 2, "content": "# needle"},
        {"file": f"{place}/sub/b.py", "line": 1, "content": "needle and needle"}]
    assert box.get("/files/find", path=place, pattern="n..dle") == []  # no expression
    assert sorted(box.get("/files/search", path=place, pattern="*.py")["files"]) == \
        [f"{place}/a.py", f"{place}/sub/b.py"]
    assert box.get("/files/search", path=place, pattern="*.c")["files"] == []
    for what in ("find", "search"):
        refused(box.ask("GET", f"/files/{what}", path=place), 400, "BAD_REQUEST")
        reply = box.ask("GET", f"/files/{what}", path=place + "/x", pattern="y")
        refused(reply, 404, "FILE_NOT_FOUND")


def test_much_is_found(box):
    place = box.folder()
    box.shell(f"seq 12000 > {place}/numbers")
    reply = box.ask("GET", "/files/find", path=place, pattern="1")
    assert reply.headers.get("X-Cay-Truncated") is None and len(reply.json()) < 10000
    box.shell(f"sed s/.*/a/ {place}/numbers > {place}/many")
    reply = box.ask("GET", "/files/find", path=place, pattern="a")
    assert reply.headers["X-Cay-Truncated"] == "true" and len(reply.json()) == 10000


def test_replace(box):
    place = box.folder()
    box.put(f"{place}/a", "one.two.one")
    box.put(f"{place}/b", "three")
    files = [f"{place}/a", f"{place}/none", f"{place}/b"]

    def replace(**body):
        return box.ask("POST", "/files/replace", json.dumps(body))

    results = replace(files=files, pattern="one", newValue="1").json()
    assert [r["file"] for r in results] == files
    assert [r["success"] for r in results] == [True, False, True]
    assert "none" in results[1]["error"] and "error" not in results[0]
    assert box.read(f"{place}/a") == b"1.two.1" and box.read(f"{place}/b") == b"three"
    assert replace(files=[f"{place}/a"], pattern=".", newValue="").json()[0]["success"]
    assert box.read(f"{place}/a") == b"1two1"
    for bad in ({"files": [], "pattern": "a", "newValue": "b"}, {"files": files, "pattern": "a"},
                {"files": "x", "pattern": "a", "newValue": "b"}, {"pattern": "a", "newValue": "b"},
                {"files": [1], "pattern": "a", "newValue": "b"},
                {"files": files, "pattern": "", "newValue": "b"}):
        refused(replace(**bad), 400, "BAD_REQUEST")
    for body in ("", "{", "[]", "null", "\0"):
        refused(box.ask("POST", "/files/replace", body), 400, "BAD_REQUEST")


# ---- up ----

@pytest.mark.parametrize("order", ["mixed", "paths first"])
def test_bulk_upload(box, order):
    place = box.folder()
    contents = [b"", b"x", b"--xyz", b"\r\n--xy\r\n", bytes(range(256)) * 1000]
    paths = [(f"files[{i}].path", f"{place}/new/{i}") for i in range(len(contents))]
    files = [(f"files[{i}].file", content) for i, content in enumerate(contents)]
    parts = [part for pair in zip(paths, files) for part in pair]
    if order == "paths first":
        parts = paths + list(reversed(files))
    for chunk in (0, 1000):
        reply = box.ask("POST", "/files/bulk-upload", *form(parts, b"xyzzy", chunk))
        assert reply.status == 200, reply.data
    for i, content in enumerate(contents):
        assert box.read(f"{place}/new/{i}") == content
    assert box.get("/files/info", path=f"{place}/new")["permissions"] == "0755"
    assert len(box.get("/files", path=f"{place}/new")) == len(contents)


def test_single_uploads(box):
    place = box.folder()
    body, headers = form([("other", "ignored"), ("file", b"old way")])
    reply = box.ask("POST", "/files/upload", body, headers, path=f"{place}/a/b")
    assert reply.status == 200 and box.read(f"{place}/a/b") == b"old way"
    body, headers = form([("file", b"new way")])
    reply = box.ask("POST", "/files/upload-v2", body, headers, path=f"{place}/a/b")
    assert reply.json() == {"name": "b", "path": f"{place}/a/b", "type": "file"}
    assert box.read(f"{place}/a/b") == b"new way"
    for raw in (b"raw", b""):
        reply = box.ask("POST", "/files/upload-v2", raw, {"Content-Type": "application/octet-stream"},
                        path=f"{place}/raw")
        assert reply.status == 200 and box.read(f"{place}/raw") == raw
    reply = box.ask("POST", "/files/upload", b"raw", path=f"{place}/raw")
    refused(reply, 400, "BAD_REQUEST")


def test_bad_uploads(box):
    place = box.folder()

    def upload(*parts, **more):
        return box.ask("POST", "/files/bulk-upload", *form(parts, **more))

    path = ("files[0].path", f"{place}/x")
    assert "path" in refused(upload(("files[0].file", "x")), 400, "BAD_REQUEST")
    assert "path" in refused(upload(path, ("files[1].file", "x")), 400, "BAD_REQUEST")
    refused(upload(path), 400, "BAD_REQUEST")
    refused(upload(), 400, "BAD_REQUEST")
    refused(upload(("files[0].path", ""), ("files[0].file", "x")), 400, "BAD_REQUEST")
    refused(upload(("files[0].path", "a\0b"), ("files[0].file", "x")), 400, "BAD_REQUEST")
    refused(upload(("files[0].path", "x" * 5000), ("files[0].file", "x")), 400, "BAD_REQUEST")
    refused(upload(("files[99999999999].path", f"{place}/x"), ("files[99999999999].file", "")), 400,
            "BAD_REQUEST")
    refused(upload(("files[0].path", place), ("files[0].file", "x")), 400, "INVALID_FILE_PATH")
    body, headers = form([path, ("files[0].file", "x")])
    refused(box.ask("POST", "/files/bulk-upload", body[:-10], headers), 400, "BAD_REQUEST")
    refused(box.ask("POST", "/files/bulk-upload", body, {"Content-Type": "text/plain"}), 400,
            "BAD_REQUEST")
    refused(box.ask("POST", "/files/upload-v2", b"x"), 400, "BAD_REQUEST")
    box.shell(f"rm -f {place}/x")
    # what is refused only when it comes is read to its end, so that the client hears why
    reply = upload(("files[0].path", place), ("files[0].file", b"x" * 20 * MEGA), chunk=MEGA)
    refused(reply, 400, "INVALID_FILE_PATH")
    reply = box.ask("POST", "/files/upload-v2", b"x" * 20 * MEGA, path="/proc/x")
    assert 400 <= reply.status < 500, reply.data
    assert until(lambda: names_in(box, place) == []), names_in(box, place)


def test_a_file_that_fails_keeps_none_of_the_others(box):
    place = box.folder()
    box.shell(f"mkdir {place}/folder")
    wishes = [("a", f"{place}/a", b"first"), ("is a folder", f"{place}/folder", b"x" * 3 * MEGA),
              ("b", f"{place}/b", b"y" * 3 * MEGA), ("not below a file", f"{place}/a/x", b"x"),
              ("zero", f"{place}/zero", b"")]
    for order in (False, True):
        paths = [(f"files[{i}].path", path) for i, (_, path, _) in enumerate(wishes)]
        files = [(f"files[{i}].file", data) for i, (_, _, data) in enumerate(wishes)]
        parts = paths + files if order else [p for pair in zip(paths, files) for p in pair]
        box.shell(f"rm -f {place}/a {place}/b {place}/zero")
        reply = box.ask("POST", "/files/bulk-upload", *form(parts, chunk=70000))
        message = refused(reply, 400, "INVALID_FILE_PATH")
        assert "2 of 5 files" in message and f"{place}/folder" in message, message
        errors = reply.json()["errors"]
        assert [e["path"] for e in errors] == [f"{place}/folder", f"{place}/a/x"]
        assert all(e["statusCode"] == 400 and e["code"] == "INVALID_FILE_PATH" and e["message"]
                   for e in errors), errors
        assert box.read(f"{place}/a") == b"first" and box.read(f"{place}/zero") == b""
        assert box.read(f"{place}/b") == b"y" * 3 * MEGA
    assert names_in(box, place) == ["a", "b", "folder", "zero"]
    # a form that breaks off is another error than that of its file
    body, headers = form([("files[0].path", f"{place}/folder"), ("files[0].file", "x")])
    reply = box.ask("POST", "/files/bulk-upload", body[:-10], headers)
    assert refused(reply, 400, "BAD_REQUEST")


def begin_upload(daemon, who, path):
    """The connection of an upload that has come half of its way."""
    head = form([("files[0].path", path), ("files[0].file", b"half")])[0].rsplit(b"\r\n--", 1)[0]
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(60)
    sock.connect(str(daemon.socket))
    sock.sendall(b"POST /toolbox/%s/files/bulk-upload HTTP/1.1\r\nHost: localhost\r\n"
                 b"Content-Type: multipart/form-data; boundary=xyz\r\nContent-Length: 1000000\r\n\r\n"
                 % who.encode() + head + b"x" * 200000)
    return sock


def names_in(box, place):
    return [entry["name"] for entry in box.get("/files", path=place)]


@pytest.mark.parametrize("death", ["client", "front"])
def test_half_an_upload(box, death):
    place = box.folder()
    box.put(f"{place}/old", "as it was")
    with begin_upload(box.daemon, box.who, f"{place}/new") as first, \
            begin_upload(box.daemon, box.who, f"{place}/old") as second:
        # both are being written, under names of their own
        assert until(lambda: len(names_in(box, place)) == 3), names_in(box, place)
        if death == "front":
            box.daemon.kill_child("cayd-front")
        first.close()
        second.close()
    assert until(box.daemon.serves)
    assert until(lambda: names_in(box, place) == ["old"]), names_in(box, place)
    assert box.read(f"{place}/old") == b"as it was"


# ---- down ----

def test_download(box):
    place = box.folder()
    box.put(f"{place}/a b", b"\0\xff" * 100000)
    reply = box.ask("GET", "/files/download", path=f"{place}/a b")
    assert reply.data == b"\0\xff" * 100000
    assert reply.headers["Content-Length"] == "200000"
    assert reply.headers["Content-Type"] == "application/octet-stream"
    assert reply.headers["Content-Disposition"] == 'attachment; filename="a b"'
    reply = box.ask("HEAD", "/files/download", path=f"{place}/a b")
    assert reply.status == 200 and reply.headers["Content-Length"] == "200000"
    box.put(f"{place}/empty", "")
    reply = box.ask("GET", "/files/download", path=f"{place}/empty")
    assert reply.status == 200 and reply.data == b"" and reply.headers["Content-Length"] == "0"
    assert b"Linux" in box.read("/proc/version")  # a file that says that it is empty
    refused(box.ask("GET", "/files/download", path=f"{place}/x"), 404, "FILE_NOT_FOUND")
    refused(box.ask("GET", "/files/download", path=place), 400, "INVALID_FILE_PATH")
    refused(box.ask("GET", "/files/download", path="/dev/zero"), 400, "INVALID_FILE_PATH")
    refused(box.ask("GET", "/files/download"), 400, "BAD_REQUEST")


def test_a_part_of_a_file(box):
    place = box.folder()
    content = bytes(range(256)) * 1000
    box.put(f"{place}/a", content)

    def ask(method="GET", **headers):
        return box.ask(method, "/files/download", None,
                       {name.replace("_", "-"): value for name, value in headers.items()}, path=f"{place}/a")

    whole = ask()
    tag = whole.headers["ETag"]
    assert whole.status == 200 and whole.headers["Accept-Ranges"] == "bytes" and tag.startswith('"')
    for text, first, last in (("bytes=0-0", 0, 0), ("bytes=1000-200999", 1000, 200999),
                              ("bytes=255999-", 255999, 255999), ("bytes=-5", 255995, 255999),
                              ("bytes=10-999999999", 10, 255999)):
        reply = ask(Range=text)
        assert reply.status == 206 and reply.data == content[first:last + 1], text
        assert reply.headers["Content-Range"] == f"bytes {first}-{last}/256000"
        assert reply.headers["Content-Length"] == str(last - first + 1)
        assert ask("HEAD", Range=text).headers["Content-Range"] == reply.headers["Content-Range"]
    for text in ("bytes=256000-", "bytes=-0"):
        reply = ask(Range=text)
        refused(reply, 416, "BAD_REQUEST")
        assert reply.headers["Content-Range"] == "bytes */256000"
    for text in ("bytes=1-2,5-6", "bytes=9-3", "lines=1-2", "bytes=x-"):
        assert ask(Range=text).status == 200
    reply = ask(If_None_Match=f'"other", {tag}', Range="bytes=0-0")
    assert reply.status == 304 and reply.data == b"" and reply.headers["ETag"] == tag
    assert ask(If_Range=tag, Range="bytes=5-6").data == content[5:7]
    box.put(f"{place}/a", content + b"more")
    reply = ask(If_Range=tag, Range="bytes=5-6")  # what the client has a part of is no more
    assert reply.status == 200 and reply.data == content + b"more"
    assert ask(If_None_Match=tag).status == 200
    box.put(f"{place}/a", b"")
    assert ask(Range="bytes=0-").data == b""


def test_bulk_download(box):
    place = box.folder()
    contents = {"a": b"first", "b": b"", "c": b"--boundary\r\n\r\n" * 30000}
    for name, content in contents.items():
        box.put(f"{place}/{name}", content)
    paths = [f"{place}/a", f"{place}/none", f"{place}/b", place, f"{place}/c"]
    reply = box.ask("POST", "/files/bulk-download", json.dumps({"paths": paths}))
    assert reply.status == 200
    parts = parts_of(reply)
    assert [name for name, _, _ in parts] == ["file", "error", "file", "error", "file"]
    assert all(f'filename="{path}"' in headers["Content-Disposition"]
               for path, (_, headers, _) in zip(paths, parts))
    assert [parts[i][2] for i in (0, 2, 4)] == list(contents.values())
    assert parts[4][1]["Content-Length"] == str(len(contents["c"]))
    for i, status, code in ((1, 404, "FILE_NOT_FOUND"), (3, 400, "INVALID_FILE_PATH")):
        assert parts[i][1]["Content-Type"] == "application/json"
        error = json.loads(parts[i][2])
        assert (error["statusCode"], error["code"]) == (status, code) and error["message"]
    other = box.ask("POST", "/files/bulk-download", json.dumps({"paths": paths}))
    assert other.headers["Content-Type"] != reply.headers["Content-Type"]  # nobody can guess it
    for body in ('{"paths": []}', "{}", '{"paths": "x"}', '{"paths": [""]}', '{"paths": [1]}', ""):
        refused(box.ask("POST", "/files/bulk-download", body), 400, "BAD_REQUEST")


# ---- much ----

def memory_of(pid):
    """The most that a process has had, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def test_large_files(box):
    """100 MB each way, and the daemon needs no more memory for it than for a small one."""
    place = box.folder()
    piece = bytes(range(256)) * 4096
    box.put(f"{place}/warm", piece)
    assert box.read(f"{place}/warm") == piece
    front = box.daemon.front()
    Path(f"/proc/{front}/clear_refs").write_text("5")  # the most from now on
    before = memory_of(front)
    head, tail = form([("files[0].path", f"{place}/large"), ("files[0].file", b"CUT")])[0].split(b"CUT")

    def body():
        yield head
        for _ in range(100):
            yield piece
        yield tail

    reply = box.ask("POST", "/files/bulk-upload", body(), form([])[1])
    assert reply.status == 200, reply.data
    assert box.get("/files/info", path=f"{place}/large")["size"] == 100 * MEGA
    for method, path, request, query in (
            ("GET", "/files/download", None, {"path": f"{place}/large"}),
            ("POST", "/files/bulk-download", json.dumps({"paths": [f"{place}/large"]}), {})):
        connection = box.daemon.http()
        connection.request(method, f"/toolbox/{box.who}{path}?{urllib.parse.urlencode(query)}", request)
        response = connection.getresponse()
        size = 0
        digest = hashlib.sha256()
        while chunk := response.read(MEGA):
            size += len(chunk)
            digest.update(chunk)
        connection.close()
        if path == "/files/download":
            assert size == 100 * MEGA and digest.digest() == hashlib.sha256(piece * 100).digest()
        else:
            assert 100 * MEGA < size < 100 * MEGA + 1000
    box.shell(f"rm {place}/large")
    allowed = 64 if support.is_sanitized() else 16
    assert memory_of(front) - before < allowed * MEGA


def test_a_file_that_shrinks(box):
    """It cannot be told in the answer any more; but the client sees that it is not whole."""
    place = box.folder()
    box.shell(f"truncate -s 64M {place}/a")
    connection = box.daemon.http()
    connection.request("GET", f"/toolbox/{box.who}/files/download?path={place}/a")
    response = connection.getresponse()
    assert response.status == 200 and response.headers["Content-Length"] == str(64 * MEGA)
    response.read(MEGA)
    box.shell(f": > {place}/a")
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        response.read()
    connection.close()


def test_many_files(box):
    place = box.folder()
    box.shell(f"cd {place} && seq 3000 | xargs touch")
    assert len(box.get("/files", path=place)) == 3000
    box.shell(f"rm -r {place}")


# ---- signed ----

def sign(key, method, path, expires):
    text = f"v1:files:{method}:{path}:{expires}".encode()
    digest = hmac.new(key.encode(), text, hashlib.sha256).digest()
    return "v1_" + base64.urlsafe_b64encode(digest).decode().rstrip("=")


def ask_signed(daemon, method, where, body=None, **query):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
    connection.request(method, f"/toolbox/{where}?{urllib.parse.urlencode(query)}", body)
    try:
        return Reply(connection.getresponse())
    finally:
        connection.close()


def test_signed_urls(daemon, box):
    key = daemon.call("GET", f"/api/sandbox/{box.who}/signing-key")
    assert key == daemon.call("GET", f"/api/sandbox/{box.who}/signing-key") and len(key) >= 32
    path, soon = f"{box.folder()}/sig ned\n+ü", int(time.time()) + 60
    up, down = f"{box.who}/files/upload-v2", f"{box.who}/files/download"

    def query(method, **more):
        fields = {"path": path, "expires": soon, **more}
        return {"signature": sign(key, method, fields["path"], fields["expires"]), **fields}

    reply = ask_signed(daemon, "POST", up, b"by url", **query("POST"))
    assert reply.status == 200, reply.data
    reply = ask_signed(daemon, "GET", down, **query("GET"))
    assert (reply.status, reply.data) == (200, b"by url")
    assert ask_signed(daemon, "GET", down, **query("GET", expires=0)).status == 200  # for ever
    wrong = [
        ("POST", up, query("GET")), ("GET", down, query("POST")),
        ("GET", down, {**query("GET"), "path": "/etc/passwd"}),
        ("GET", down, {**query("GET"), "expires": soon + 1}),
        ("GET", down, query("GET", expires=soon - 120)),
        ("GET", down, {**query("GET"), "signature": "v1_"}),
        ("GET", down, {**query("GET"), "signature": sign(key + "x", "GET", path, soon)}),
        ("GET", f"{box.who}/files/info", query("GET")), ("GET", f"{box.who}/files", query("GET")),
        ("GET", down.replace(box.who, "0" * 16), query("GET")),
        ("DELETE", f"{box.who}/files", query("DELETE")),
    ]
    for method, where, fields in wrong:
        reply = ask_signed(daemon, method, where, **fields)
        refused(reply, 401, "UNAUTHORIZED")
    other = daemon.create()["id"]
    reply = ask_signed(daemon, "GET", down.replace(box.who, other), **query("GET"))
    refused(reply, 401, "UNAUTHORIZED")
    old = query("GET")
    daemon.call("POST", f"/api/sandbox/{box.who}/signing-key/rotate")
    refused(ask_signed(daemon, "GET", down, **old), 401, "UNAUTHORIZED")
    key = daemon.call("GET", f"/api/sandbox/{box.who}/signing-key")
    assert ask_signed(daemon, "GET", down, **query("GET")).status == 200
    daemon.call("DELETE", f"/api/cay/sandbox/{other}?force=true")


# ---- whose ----

def test_other_keys(daemon, box):
    def key(name, scopes):
        made = daemon.call("POST", "/api/cay/api-keys", {"name": name, "permissions": scopes})
        return Client(daemon.port, made["value"])

    stranger, reader = key("stranger", ["sandboxes"]), key("reader", ["read"])
    for method, path in (("GET", "/files?path=/"), ("GET", "/files/download?path=/etc/passwd"),
                         ("POST", "/files/upload-v2?path=/tmp/x"), ("DELETE", "/files?path=/tmp")):
        assert stranger.ask(method, f"/toolbox/{box.who}{path}").status == 404
        assert reader.ask(method, f"/toolbox/{box.who}{path}").status == 403
    for who, status in ((stranger, 404), (reader, 403)):
        assert who.ask("GET", f"/api/sandbox/{box.who}/signing-key").status == status
        assert who.ask("POST", f"/api/sandbox/{box.who}/signing-key/rotate").status == status


def test_other_methods(box):
    refused(box.ask("PUT", "/files/info", path="/"), 405, "BAD_REQUEST")
    refused(box.ask("GET", "/files/nothing"), 404, "NOT_FOUND")


def test_stopped(daemon):
    stopped = Box(daemon, daemon.create()["id"])
    daemon.call("POST", f"/api/cay/sandbox/{stopped.who}/stop")
    for method, path, body in (("GET", "/files?path=/", None), ("GET", "/files/download?path=/x", None),
                               ("POST", "/files/upload-v2?path=/x", b"x"),
                               ("POST", "/files/bulk-download", '{"paths": ["/x"]}')):
        message = refused(stopped.ask(method, path, body), 409, "CONFLICT")
        assert "stopped" in message
    daemon.call("DELETE", f"/api/cay/sandbox/{stopped.who}?force=true")
    refused(stopped.ask("GET", "/files", path="/"), 404, "NOT_FOUND")
