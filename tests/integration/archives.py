"""Archives of images, made by hand, and file trees to compare."""

import hashlib
import io
import json
import os
import stat
import tarfile
from pathlib import Path

OCI = "application/vnd.oci.image."
GZIP_LAYER = OCI + "layer.v1.tar+gzip"
PLAIN_LAYER = OCI + "layer.v1.tar"


def sha(data):
    return hashlib.sha256(data).hexdigest()


def text(value):
    return json.dumps(value).encode()


# ---- tars ----

def member(name, content=b"", **fields):
    """A member: bytes are a file, None a folder; fields are tarfile's (mode, uid, type, pax …)."""
    info = tarfile.TarInfo(name)
    info.mtime = 1000
    info.mode = 0o755 if content is None else 0o644
    if content is None:
        info.type = tarfile.DIRTYPE
    pax = fields.pop("pax", {})
    for key, value in fields.items():
        setattr(info, key, value)
    info.pax_headers = pax
    info.size = len(content or b"")
    return info, content or b""


def tar(*members, form=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form, encoding="utf-8",
                      errors="surrogateescape") as t:
        for info, content in members:
            t.addfile(info, io.BytesIO(content))
    return out.getvalue()


def rootfs():
    """Every kind of file that an image may hold."""
    link = {"type": tarfile.LNKTYPE, "linkname": "etc/conf"}
    return tar(
        member("bin/", None), member("bin/busybox", Path("/bin/busybox").read_bytes(), mode=0o755),
        member("bin/sh", type=tarfile.SYMTYPE, linkname="busybox", mode=0o777),
        member("etc/", None), member("etc/conf", b"one\n", mode=0o640, uid=12, gid=34),
        member("etc/linked", mode=0o640, uid=12, gid=34, **link),
        member("etc/absolute", type=tarfile.SYMTYPE, linkname="/etc/conf", mode=0o777),
        member("etc/empty"), member("etc/gone", b"x"), member("etc/changed", b"before"),
        member("home/", None, mode=0o700, uid=1000, gid=1000),
        member("home/big", os.urandom(300_000), uid=65534, gid=65534),
        member("old/", None), member("old/a", b"a"), member("old/b/", None), member("old/b/c"),
        member("tmp/", None, mode=0o1777),
        member("var/", None), member("var/set", b"#!/bin/sh\n", mode=0o4755),
        member("var/fifo", type=tarfile.FIFOTYPE, mode=0o600),
        member("var/" + "n" * 180, b"long"), member("var/" + "d" * 90 + "/", None),
        member("var/" + "d" * 90 + "/" + "e" * 90, b"longer"),
        member("var/ünïcode ☃", b"snow"), member("var/attr", b"x", pax={
            "SCHILY.xattr.user.note": "a=b"}),
    )


def change():
    """A layer over it: whiteouts, an opaque folder, replaced and added files."""
    return tar(
        member("etc/", None, mode=0o750), member("etc/.wh.gone"), member("etc/changed", b"after"),
        member("home/", None, mode=0o700, uid=1000, gid=1000), member("home/new", b"new"),
        member("old/", None), member("old/.wh..wh..opq"), member("old/fresh", b"fresh"))


# ---- images ----

def config(*layers, **more):
    return text({"architecture": "amd64", "os": "linux",
                 "config": {"Env": ["PATH=/bin", "A=b c"], "Cmd": ["sh"],
                            "WorkingDir": "/home", "Labels": {"k": "v"}},
                 "rootfs": {"type": "layers", "diff_ids": ["sha256:" + sha(x) for x in layers]},
                 **more})


def docker_archive(*images, extra=(), manifest=None):
    """images: (layers, names). Old form: a folder for each layer."""
    members, entries = {}, []
    for layers, names in images:
        c = config(*layers)
        paths = [f"{sha(x)[::-1]}/layer.tar" for x in layers]
        members.update(zip(paths, layers))
        members[sha(c) + ".json"] = c
        entries.append({"Config": sha(c) + ".json", "RepoTags": names, "Layers": paths})
    members["manifest.json"] = text(entries) if manifest is None else manifest
    return tar(*extra, *(member(name, data) for name, data in members.items()))


class Layout:
    """An OCI layout in the making: blobs by digest, and the entries of its index."""

    def __init__(self):
        self.blobs, self.entries = {}, []

    def blob(self, data, media_type, **more):
        self.blobs[sha(data)] = data
        return {"mediaType": media_type, "digest": "sha256:" + sha(data), "size": len(data), **more}

    def manifest(self, *layers, pack=None, media_type=GZIP_LAYER, conf=None, **more):
        """A descriptor of an image's manifest."""
        conf = config(*layers) if conf is None else conf
        packed = [pack(x) if pack else x for x in layers]
        return self.blob(text({
            "schemaVersion": 2, "config": self.blob(conf, OCI + "config.v1+json"),
            "layers": [self.blob(x, media_type) for x in packed]}),
            OCI + "manifest.v1+json", **more)

    def index(self, *entries, **more):
        return self.blob(text({"schemaVersion": 2, "manifests": list(entries)}),
                         OCI + "index.v1+json", **more)

    def members(self):
        yield "oci-layout", text({"imageLayoutVersion": "1.0.0"})
        yield "index.json", text({"schemaVersion": 2, "manifests": self.entries})
        for hexa, data in self.blobs.items():
            yield f"blobs/sha256/{hexa}", data

    def tar(self, order=list):
        return tar(*(member(name, data) for name, data in order(list(self.members()))))

    def write(self, folder):
        for name, data in self.members():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return folder


# ---- trees ----

def _entry(info, content, links):
    kind = {tarfile.DIRTYPE: "d", tarfile.SYMTYPE: "l", tarfile.FIFOTYPE: "p"}.get(info.type, "f")
    xattrs = {k: v for k, v in info.pax_headers.items() if k.startswith("SCHILY.xattr.")}
    return {"kind": kind, "mode": info.mode & 0o7777 if kind != "l" else 0, "uid": info.uid,
            "gid": info.gid, "size": len(content) if kind == "f" else 0,
            "content": sha(content) if kind == "f" else "",
            "link": info.linkname if kind == "l" else "", "links": links, "xattrs": xattrs,
            "mtime": int(info.mtime) if kind != "d" else 0}


def tree_of_tar(data, without=()):
    """path -> what it is; names of one file are each told with the file's first name."""
    found, first = {}, {}
    with tarfile.open(fileobj=io.BytesIO(data)) as t:
        for info in t:
            name = os.path.normpath(info.name).lstrip("/")
            if name == "." or name in without:
                continue
            if info.type == tarfile.LNKTYPE:
                target = os.path.normpath(info.linkname).lstrip("/")
                first[name] = first.get(target, target)
                continue
            content = t.extractfile(info).read() if info.isreg() else b""
            found[name] = _entry(info, content, ())
    groups = {}
    for name, target in first.items():
        groups.setdefault(target, {target}).add(name)
    for names in groups.values():
        known = next(found[n] for n in names if n in found)
        for name in names:
            found[name] = {**known, "links": tuple(sorted(names))}
    return found


def tree_of_folder(top):
    """The same of a folder, without the mtime of folders."""
    found, inodes = {}, {}
    for path in sorted(Path(top).rglob("*")):
        st, name = path.lstat(), str(path.relative_to(top))
        kind = {stat.S_IFDIR: "d", stat.S_IFLNK: "l", stat.S_IFIFO: "p"}.get(
            stat.S_IFMT(st.st_mode), "f")
        content = path.read_bytes() if kind == "f" else b""
        xattrs = {} if kind in "lp" else {
            f"SCHILY.xattr.{k}": os.getxattr(path, k).decode(errors="surrogateescape")
            for k in os.listxattr(path) if k.startswith("user.") and "overlay" not in k
            and not k.startswith("user.rootlesscontainers")}
        if kind != "d" and st.st_nlink > 1:
            inodes.setdefault(st.st_ino, []).append(name)
        found[name] = {
            "kind": kind, "mode": stat.S_IMODE(st.st_mode) if kind != "l" else 0, "uid": st.st_uid,
            "gid": st.st_gid, "size": len(content), "content": sha(content) if kind == "f" else "",
            "link": os.readlink(path) if kind == "l" else "", "links": (), "xattrs": xattrs,
            "mtime": int(st.st_mtime) if kind != "d" else 0}
    for names in inodes.values():
        for name in names:
            found[name]["links"] = tuple(sorted(names)) if len(names) > 1 else ()
    return found


def difference(a, b):
    """What differs, readable in a failed test."""
    out = {}
    for name in sorted(a.keys() | b.keys()):
        if a.get(name) != b.get(name):
            x, y = a.get(name) or {}, b.get(name) or {}
            out[name] = {k: (x.get(k), y.get(k)) for k in x.keys() | y.keys()
                         if x.get(k) != y.get(k)}
    return out
