#!/usr/bin/python3
"""Writes the seeds of fuzz_tenants.c, whose comment has the form: usage: tenants_seeds.py OPENAPI.JSON FOLDER

Every route once for each key with what is its own and with what is the other's, and some stories."""

import json
import sys
from pathlib import Path

(OWN_BOX, OWN_NAME, BOX, NAME, BEGINNING, OWN_VOLUME, OWN_VOLUME_NAME, VOLUME, VOLUME_NAME,
 OWN_IMAGE, IMAGE, SECRET) = (bytes([0x80 + n]) for n in range(12))
SESSION = bytes([0x80 + 12])
OTHER, TABLE, UPGRADE = 1, 2, 4

BODIES = {
    "POST /api/cay/sandbox": b'{"name":"' + SECRET + b'","image":"' + IMAGE + b'","labels":{"a":"' + SECRET + b'"},"volumes":["' + VOLUME + b':/v"]}',
    "POST /api/sandbox": b'{"name":"' + NAME + b'","snapshot":"' + IMAGE + b'","env":{"a":"' + SECRET + b'"},"volumes":[{"volumeId":"' + VOLUME + b'","mountPath":"/v"}]}',
    "POST /api/cay/volumes": b'{"name":"' + VOLUME_NAME + b'"}',
    "POST /api/volumes": b'{"name":"' + VOLUME_NAME + b'"}',
    "POST /api/snapshots": b'{"name":"' + IMAGE + b'","imageName":"a:1"}',
    "rename": b'{"name":"' + NAME + b'"}',
    "snapshot": b'{"name":"' + IMAGE + b'"}',
    "labels": b'{"labels":{"a":"' + SECRET + b'"}}',
    "update": b'{"name":"' + NAME + b'","labels":{"a":"' + SECRET + b'"},"volumes":["' + VOLUME_NAME + b':/v"]}',
    "resize": b'{"memory":1,"cpu":1,"disk":1,"size":"1g"}',
    "execute": b'{"command":"id","timeout":1}',
    "session": b'{"sessionId":"s1"}',
    "exec": b'{"command":"id","runAsync":true}',
    "build": b'{"name":"' + IMAGE + b'","dockerfileContent":"FROM a:1"}',
}
ANSWER = b"\xfdF\x06\x04\x00\x00\x00\x00"


def route_hash(method, path):
    h = 2166136261
    for c in (method + path).encode():
        h = (h ^ c) * 16777619 & 0xffffffff
    return (h ^ h >> 16) & 0xffff


def body(method, path):
    if method in ("GET", "DELETE"):
        return b""
    exact = BODIES.get(f"{method} {path}")
    return exact or BODIES.get(path.rsplit("/", 1)[-1], b"{}")


def request(method, path, parts, flags=0, query=b"", content=None):
    content = body(method, path) if content is None else content
    return bytes([flags]) + route_hash(method, path).to_bytes(2, "little") + parts + query + \
        b"\xfb" + content + ANSWER


def parts(path, box, volume, image):
    names = [word.split("}")[0] for word in path.split("{")[1:]]
    first = volume if "volumes" in path else image if "snapshot" in path and "sandbox" not in path else box
    return bytes([first[0] - 0x80] + [12] * (len(names) - 1)) if names else b""


def main():
    document, folder = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    folder.mkdir(exist_ok=True)
    groups = {}
    for path, methods in document["paths"].items():
        for method in (m.upper() for m in methods if m in ("get", "post", "put", "patch", "delete")):
            whom = groups.setdefault("-".join(path.strip("/").split("/")[:2]).replace("{", "").replace("}", ""), [])
            for flags in (0, OTHER):
                whom.append(request(method, path, parts(path, BOX, VOLUME, IMAGE), flags))
                whom.append(request(method, path, parts(path, OWN_BOX, OWN_VOLUME, OWN_IMAGE), flags | OTHER ^ 1 & 0))
    for name, requests in groups.items():
        for at in range(0, len(requests), 6):
            (folder / f"{name}-{at // 6:02}").write_bytes(b"\xfc".join(requests[at:at + 6]))


main()
