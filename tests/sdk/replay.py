"""The Python SDK's requests, as raw HTTP: it is not on npm, and its models are stricter. Every JSON
answer is held against Daytona's documents, which CAY_DAYTONA_SPECS names (else the folder that lies
beside the repository)."""

import email
import http.client
import json
import os
import urllib.parse
from pathlib import Path

import pytest
import support
from openapi import Document

SPECS = Path(os.environ.get("CAY_DAYTONA_SPECS",
                            support.ROOT.parent / "shared" / "reference" / "daytona"))
needs_specs = pytest.mark.skipif(not (SPECS / "api.json").exists(),
                                 reason="Daytona's OpenAPI files are not here: CAY_DAYTONA_SPECS")
SDK = {"X-Daytona-Source": "sdk-python", "X-Daytona-SDK-Version": "0.205.1",
       "User-Agent": "sdk-python/0.205.1"}
BOUNDARY = "0123456789abcdef"


class Reply:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    def json(self):
        assert self.headers.get_content_type() == "application/json", self.body[:300]
        return json.loads(self.body)

    def parts(self):
        """Of a multipart body: (name, filename, headers, content); it must end as it should."""
        kind = self.headers["Content-Type"]
        boundary = self.headers.get_param("boundary")
        assert self.body.rstrip(b"\r\n").endswith(f"--{boundary}--".encode()), self.body[-80:]
        head = b"Content-Type: " + kind.encode() + b"\r\n\r\n"
        parsed = email.message_from_bytes(head + self.body)
        return [(p.get_param("name", header="Content-Disposition"), p.get_filename(), p,
                 p.get_payload(decode=True)) for p in parsed.get_payload()]


class Client:
    """Asks, and collects the complaints about the answers."""

    def __init__(self, service, **headers):
        self.service = service
        self.headers = {**SDK, "Authorization": f"Bearer {service.key}", **headers}
        self.documents = {"/api": Document(SPECS / "api.json"),
                          "/toolbox": Document(SPECS / "toolbox.json")}
        self.found = []
        self.own = Document(self.send("GET", "/openapi.json").json())

    def send(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=60)
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers["Content-Type"] = "application/json"
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body, {**self.headers, **names})
            return Reply(connection.getresponse())
        finally:
            connection.close()

    def ask(self, method, path, body=None, status=None, query=None, **headers):
        """The JSON of an answer, after looking at it; None if it has no JSON."""
        target = path + ("?" + urllib.parse.urlencode(query, doseq=True) if query else "")
        reply = self.send(method, target, body, **headers)
        kind = reply.headers.get_content_type()
        value = json.loads(reply.body) if reply.body and kind == "application/json" else None
        if reply.status == (status or reply.status) and reply.status < 400:
            self.look(method, path, reply.status, value)
        elif reply.status != status:
            self.found.append(f"{method} {path}: {reply.status}, not {status or '2xx'}: "
                              f"{reply.body[:200]!r}")
        return value

    def look(self, method, path, status, value):
        top = "/toolbox" if path.startswith("/toolbox/") else "/api"
        inner = path.removeprefix(top)
        if top == "/toolbox":
            inner = "/" + inner.lstrip("/").partition("/")[2]
        self.found += [f"{method} {path}: {complaint}" for complaint in
                       self.documents[top].complaints(method, inner, status, value)]

        self.look_at_own(method, path, status, value)

    def look_at_own(self, method, path, status, value):
        """Our document may say nothing of an operation, but nothing that is wrong."""
        if not self.own.describes(method, path):
            return
        self.found += [f"{method} {path}, by our own document: {complaint}" for complaint in
                       self.own.complaints(method, path, status, value)]

    def finish(self):
        found, self.found = self.found, []
        assert not found, "\n".join(found)


def upload_form(files):
    """As Python's SDK writes it: all paths, then all files."""
    lines = []
    for number, path in enumerate(files):
        lines.append(f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="files[{number}].path"'
                     f"\r\n\r\n{path}\r\n".encode())
    for number, (path, data) in enumerate(files.items()):
        head = (f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="files[{number}].file"; '
                f'filename="{path}"\r\nContent-Type: application/octet-stream\r\n\r\n')
        lines.append(head.encode() + data + b"\r\n")
    lines.append(f"--{BOUNDARY}--\r\n".encode())
    return b"".join(lines), f"multipart/form-data; boundary={BOUNDARY}"
