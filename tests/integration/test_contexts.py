"""Files of clients in builds: uploads with temporary credentials, as SDKs make them, and what must not
be possible with them. The SDK's own client is in tests/sdk."""

import hashlib
import hmac
import http.client
import io
import json
import shutil
import tarfile
import tempfile
import time
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
import support
from daemons import free_port, serving
from launching import until
from test_daytona_control import Sdk, refusal
from test_keys import make_key
from test_run_image import Store, base

pytestmark = support.as_root_only
needs_build = pytest.mark.skipif(support.is_sanitized(),
                                 reason="cay-init with a sanitizer needs libraries of the host")
SOON = 60
EMPTY = hashlib.sha256(b"").hexdigest()


@pytest.fixture(scope="module")
def daemon():
    folder = Path(tempfile.mkdtemp(prefix="box-", dir="/tmp"))
    folder.chmod(0o755)
    port = free_port()
    with serving(support.own(folder), "--listen", f"127.0.0.1:{port}") as d:
        d.port = port
        d.key = (d.state / "admin.key").read_text().strip()
        Store(d.state).load("plain", [base()])
        yield d
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def sdk(daemon):
    yield Sdk(daemon.port, daemon.key)
    for box in daemon.list():
        daemon.call("DELETE", f"/api/cay/sandbox/{box['id']}?force=true")


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Bucket:
    """A client of S3 with the credentials that the daemon gives."""

    def __init__(self, client):
        access = client.call("GET", "/object-storage/push-access")
        self.access, self.secret = access["accessKey"], access["secret"]
        self.token, self.region = access["sessionToken"], access["region"]
        self.top = access["organizationId"]
        url = urlsplit(access["storageUrl"])
        self.host, self.path = url.netloc, f"{url.path}/{access['bucket']}"
        self.now, self.said = time.time(), self.host

    def key(self, digest):
        return f"{self.path}/{self.top}/{digest}/context.tar"

    def send(self, method, path, body=b"", query="", digest=None):
        """Status and body."""
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self.now))
        scope = f"{stamp[:8]}/{self.region}/s3/aws4_request"
        digest = digest or hashlib.sha256(body).hexdigest()
        signed = {"host": self.said, "x-amz-content-sha256": digest, "x-amz-date": stamp,
                  "x-amz-security-token": self.token}
        names = ";".join(signed)
        canonical = "\n".join([method, path, "&".join(sorted(query.split("&"))),
                               "".join(f"{k}:{v}\n" for k, v in signed.items()), names, digest])
        text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope,
                          hashlib.sha256(canonical.encode()).hexdigest()])
        secret = f"AWS4{self.secret}".encode()
        for part in scope.split("/"):
            secret = sign(secret, part)
        signature = sign(secret, text).hex()
        signed["Authorization"] = (f"AWS4-HMAC-SHA256 Credential={self.access}/{scope}, "
                                   f"SignedHeaders={names}, Signature={signature}")
        connection = http.client.HTTPConnection(self.host, timeout=SOON)
        connection.request(method, path + (f"?{query}" if query else ""), body or None,
                           {**signed, "host": self.host})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")

    def has(self, digest):
        status, text = self.send("GET", self.path,
                                 query=f"list-type=2&prefix={quote(f'{self.top}/{digest}/', safe='')}")
        assert status == 200, text
        return "<Contents>" in text

    def put(self, digest, body):
        status, text = self.send("PUT", self.key(digest), body)
        assert status == 200, text


def tar(*entries):
    """Of names and contents; a tuple's second may be a TarInfo's fields."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            if isinstance(content, dict):
                for field, value in content.items():
                    setattr(info, field, value)
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def name_of(text):
    return hashlib.md5(text.encode()).hexdigest()


def build(client, dockerfile, *digests):
    """The snapshot of it, at the end of its build."""
    name = f"c-{name_of(dockerfile + ''.join(digests))[:12]}"
    client.call("POST", "/snapshots", {"name": name, "buildInfo": {
        "dockerfileContent": dockerfile, "contextHashes": list(digests)}})
    found = {}

    def ended():
        found.update(client.call("GET", f"/snapshots/{name}"))
        return found["state"] in ("active", "build_failed")
    assert until(ended, SOON)
    return found


# ---- what works ----

@needs_build
def test_copy_and_add(sdk):
    bucket = Bucket(sdk)
    inner = tar(("unpacked.txt", b"from an archive"))
    one, two = name_of("one"), name_of("two")
    assert not bucket.has(one)
    bucket.put(one, tar(("src/a.txt", b"A"), ("src/b.txt", b"B")))
    bucket.put(two, tar(("more.tar", inner), ("src/c.txt", b"C")))
    assert bucket.has(one) and bucket.send("HEAD", bucket.key(one))[0] == 200
    made = build(sdk, "FROM plain\nCOPY src /src\nADD more.tar /added/\n", one, two)
    assert made["state"] == "active", made
    box = sdk.call("POST", "/sandbox", {"snapshot": made["name"]})
    seen = sdk.call("POST", f"/toolbox/{box['id']}/toolbox/process/execute", {
        "command": "cat /src/a.txt /src/b.txt /src/c.txt /added/unpacked.txt"})
    assert seen["result"] == "ABCfrom an archive"


def test_in_parts(sdk):
    bucket = Bucket(sdk)
    key = bucket.key(name_of("parts"))
    status, text = bucket.send("POST", key, query="uploads=")
    upload = text.partition("<UploadId>")[2].partition("<")[0]
    assert status == 200 and upload, text
    for number, body in ((2, b"second"), (1, b"first ")):
        assert bucket.send("PUT", key, body, f"partNumber={number}&uploadId={upload}")[0] == 200
    assert not bucket.has(name_of("parts"))
    order = "".join(f"<Part><PartNumber>{n}</PartNumber></Part>" for n in (1, 2))
    status, text = bucket.send("POST", key, order.encode(), f"uploadId={upload}")
    assert status == 200, text
    assert bucket.send("GET", key) == (200, "first second")
    assert bucket.send("DELETE", key, query=f"uploadId={upload}")[0] == 204


# ---- what does not ----

def test_credentials_that_are_none(sdk):
    key = Bucket(sdk).key(name_of("x"))
    for field, value in (("secret", "A" * 43), ("token", "A" * 43), ("access", "AKIA"),
                         ("now", time.time() - 3600), ("said", f"localhost:{sdk.port}")):
        bucket = Bucket(sdk)
        setattr(bucket, field, value)
        status, text = bucket.send("PUT", key, b"x")
        assert status == 403 and "<Code>AccessDenied</Code>" in text, (field, text)
    connection = http.client.HTTPConnection("127.0.0.1", sdk.port, timeout=SOON)
    connection.request("PUT", key, b"x")
    assert connection.getresponse().status == 403
    assert not Bucket(sdk).has(name_of("x"))


def test_they_open_nothing_else(sdk):
    bucket = Bucket(sdk)
    assert bucket.send("GET", "/api/sandbox")[0] == 401
    for path in ("/s3/other/x", "/s3/cay-contexts/other", bucket.key("../../x"),
                 f"{bucket.path}/{bucket.top}/{name_of('x')}/other.tar", bucket.key("X" * 32)):
        status, text = bucket.send("PUT", path, b"x")
        assert status in (400, 404, 405), (path, status, text)


def test_bodies_are_what_was_signed(sdk):
    bucket = Bucket(sdk)
    key = bucket.key(name_of("body"))
    assert bucket.send("PUT", key, b"x", digest=EMPTY)[0] == 400
    status, text = bucket.send("PUT", key, b"x", digest="STREAMING-UNSIGNED-PAYLOAD-TRAILER")
    assert status == 501 and "NotImplemented" in text
    assert not bucket.has(name_of("body"))
    assert bucket.send("PUT", key, b"x", digest="UNSIGNED-PAYLOAD")[0] == 200


def test_others_have_their_own(daemon, sdk):
    bucket, digest = Bucket(sdk), name_of("mine")
    bucket.put(digest, tar(("a", b"secret")))
    other = Sdk(daemon.port, make_key(daemon, "contexts-other", permissions=[
        "sandboxes", "images"]).key)
    theirs = Bucket(other)
    assert not theirs.has(digest)
    assert theirs.send("GET", theirs.key(digest))[0] == 404
    refusal(other, 400, digest)("POST", "/sandbox", {"buildInfo": {
        "dockerfileContent": "FROM plain\nCOPY a /a\n", "contextHashes": [digest]}})
    theirs.put(digest, b"x")
    daemon.call("DELETE", "/api/cay/api-keys/contexts-other")
    assert theirs.send("PUT", theirs.key(digest), b"y")[0] == 403
    reader = Sdk(daemon.port, make_key(daemon, "contexts-reader", permissions=["read"]).key)
    refusal(reader, 403, "sandboxes")("GET", "/object-storage/push-access")


@needs_build
@pytest.mark.parametrize("entries, word", [
    ([("../../escaped", b"x")], ""),
    ([("/abs/../../escaped", b"x")], ""),
    ([("d", {"type": tarfile.SYMTYPE, "linkname": "/tmp"}), ("d/escaped", b"x")], ""),
    ([("l", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"})], ""),
], ids=["dots", "absolute", "symlink", "hardlink"])
def test_hostile_tars(sdk, entries, word):
    """Nothing of it lands outside, and what it breaks is its own build."""
    digest = name_of(repr(entries))
    Bucket(sdk).put(digest, tar(*entries, ("plain.txt", b"here")))
    made = build(sdk, "FROM plain\nCOPY plain.txt /plain.txt\n", digest)
    assert made["state"] in ("active", "build_failed")
    assert not Path("/tmp/escaped").exists() and not Path("/escaped").exists()


@needs_build
def test_no_tar_at_all(sdk):
    digest = name_of("rubbish")
    Bucket(sdk).put(digest, b"this is no archive" * 100)
    made = build(sdk, "FROM plain\nCOPY a /a\n", digest)
    assert made["state"] == "build_failed" and "context" in made["errorReason"], made


def test_a_context_that_was_never_sent(sdk):
    refusal(sdk, 400, "build context")("POST", "/snapshots", {"name": "never", "buildInfo": {
        "dockerfileContent": "FROM plain\nCOPY a /a\n", "contextHashes": [name_of("never")]}})


def test_the_audit_knows(daemon, sdk):
    digest = name_of("audited")
    Bucket(sdk).put(digest, b"x")
    rows = daemon.call("GET", "/api/cay/audit")
    assert any(r["action"] == "s3.change" and r["object"] == digest for r in rows), json.dumps(rows[-3:])
