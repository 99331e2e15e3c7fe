"""Registries for tests, all on free ports of 127.0.0.1, all gone when their `with` block ends.

Real ones (docker-registry, each a process of its own in a temporary folder):

    with registry.plain() as reg:                      # HTTP, anonymous
    with registry.htpasswd() as reg:                   # HTTP, Basic: reg.user, reg.password
    with registry.tls(auth=False) as reg:              # HTTPS, signed by a private CA: reg.ca
    with registry.token(anonymous=True) as reg:        # HTTP, Bearer from reg.tokens (TokenServer)
        image = registry.make_image(folder, [{"etc/hello": b"hi"}], env=["A=1"])
        reg.push(image, "team/hello:1")                # by skopeo
        reg.name("team/hello:1")                       # "127.0.0.1:PORT/team/hello:1"

Images: make_image() writes an OCI layout (gzip, zstd or plain layers; Docker's media types with
docker=True), make_index() joins several for several platforms. An Image knows its manifest, its
configuration and its layers, with digests.

Hostile ones: fake(image, **overrides) serves one image under any name from this process, and lies
as it is told. An override is a function(request) that answers instead: `manifest`, `blob`, `base`
(/v2/), `other` (any other path), or `every` (asked first; returns True if it answered).
What came is in reg.requests. Ready-made lies: stall, circle, endless, drip, too_short, too_long,
cut_once, huge, answer(status, …), redirect_to(url).

Every test that uses the real ones should begin with need_tools().
"""

import base64
import contextlib
import functools
import gzip
import hashlib
import http.server
import io
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import tarfile
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path

import pytest

OCI = "application/vnd.oci.image."
DOCKER = "application/vnd.docker."
USER, PASSWORD = "alice", "pass word:with/odd+signs"


def need_tools():
    for tool in ("docker-registry", "skopeo", "htpasswd", "openssl"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: scripts/setup --test")


def sha256(data):
    return hashlib.sha256(data).hexdigest()


# ---- images ----

class Blob:
    def __init__(self, data, media_type):
        self.data, self.media_type = data, media_type
        self.hex = sha256(data)
        self.digest = "sha256:" + self.hex

    def descriptor(self, **more):
        return {"mediaType": self.media_type, "digest": self.digest, "size": len(self.data),
                **more}


class Image:
    """An OCI layout in a folder, and what is in it. `source` is skopeo's name of it, in a form that
    can hold Docker's media types too."""

    def __init__(self, folder, manifest, config, layers, members=()):
        self.folder, self.manifest, self.config, self.layers = folder, manifest, config, layers
        self.members = list(members)  # images of an index
        self.source = f"dir:{folder}/dir"

    def blobs(self):
        found = [self.manifest, *([self.config] if self.config else []), *self.layers]
        for member in self.members:
            found += member.blobs()
        return found

    def write(self):
        where = Path(self.folder, "blobs", "sha256")
        where.mkdir(parents=True, exist_ok=True)
        for blob in self.blobs():
            (where / blob.hex).write_bytes(blob.data)
        self.write_dir(Path(self.folder, "dir"))
        Path(self.folder, "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        entry = self.manifest.descriptor(
            annotations={"org.opencontainers.image.ref.name": "latest"})
        Path(self.folder, "index.json").write_text(
            json.dumps({"schemaVersion": 2, "manifests": [entry]}))
        return self

    def write_dir(self, where):
        where.mkdir(exist_ok=True)
        (where / "version").write_text("Directory Transport Version: 1.1\n")
        (where / "manifest.json").write_bytes(self.manifest.data)
        for member in self.members:
            (where / f"{member.manifest.hex}.manifest.json").write_bytes(member.manifest.data)
        for blob in self.blobs():
            (where / blob.hex).write_bytes(blob.data)


def tar_of(files):
    """A tar as bytes. Values: bytes are a file, str a symlink, None a folder, TarInfo itself."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in files.items():
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
                continue
            member = tarfile.TarInfo(name)
            member.mode = 0o644
            if content is None:
                member.type, member.mode = tarfile.DIRTYPE, 0o755
            elif isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
            else:
                member.size = len(content)
            tar.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    return out.getvalue()


def compress(data, how):
    if how == "gzip":
        return gzip.compress(data, 1, mtime=0)
    if how == "zstd":
        return subprocess.run(["zstd", "-q", "-1", "-c"], input=data, check=True,
                              stdout=subprocess.PIPE).stdout
    return data


def layer_type(how, docker):
    if docker:
        return DOCKER + "image.rootfs.diff.tar" + (".gzip" if how == "gzip" else "")
    return OCI + "layer.v1.tar" + ("" if how == "plain" else "+" + how)


def make_image(folder, layers, compression="gzip", docker=False, architecture="amd64", env=(),
               **config):
    """An image whose layers are dicts for tar_of(), or bytes of ready tars, lowest first. `config`
    goes into the configuration's "config" (Cmd=[…], User="…")."""
    tars = [layer if isinstance(layer, bytes) else tar_of(layer) for layer in layers]
    blobs = [Blob(compress(tar, compression), layer_type(compression, docker)) for tar in tars]
    document = {"architecture": architecture, "os": "linux", "created": "2020-01-02T03:04:05Z",
                "config": {"Env": list(env), **config},
                "rootfs": {"type": "layers", "diff_ids": ["sha256:" + sha256(t) for t in tars]}}
    kind = DOCKER + "container.image.v1+json" if docker else OCI + "config.v1+json"
    settings = Blob(json.dumps(document).encode(), kind)
    kind = DOCKER + "distribution.manifest.v2+json" if docker else OCI + "manifest.v1+json"
    text = json.dumps({"schemaVersion": 2, "mediaType": kind, "config": settings.descriptor(),
                       "layers": [blob.descriptor() for blob in blobs]})
    return Image(folder, Blob(text.encode(), kind), settings, blobs).write()


def make_index(folder, members, docker=False):
    """An index of {(os, architecture[, variant]): Image}."""
    entries = []
    for platform, image in members.items():
        told = dict(zip(("os", "architecture", "variant"), platform))
        entries.append(image.manifest.descriptor(platform=told))
    kind = DOCKER + "distribution.manifest.list.v2+json" if docker else OCI + "index.v1+json"
    text = json.dumps({"schemaVersion": 2, "mediaType": kind, "manifests": entries})
    return Image(folder, Blob(text.encode(), kind), None, [], members.values()).write()


# ---- certificates ----

def openssl(*args, **more):
    return subprocess.run(["openssl", *map(str, args)], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, **more).stdout


def make_ca(folder):
    """ca.pem and ca.key in folder."""
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-days", 2, "-subj", "/CN=cay test CA", "-keyout", folder / "ca.key",
            "-out", folder / "ca.pem")
    return folder / "ca.pem"


def make_certificate(folder, names="DNS:localhost,IP:127.0.0.1"):
    """cert.pem and key.pem for these names, signed by the CA of the same folder."""
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-subj", "/CN=localhost", "-keyout", folder / "key.pem", "-out", folder / "req.pem")
    (folder / "ext").write_text(f"subjectAltName={names}\n")
    openssl("x509", "-req", "-in", folder / "req.pem", "-CA", folder / "ca.pem",
            "-CAkey", folder / "ca.key", "-CAcreateserial", "-days", 2,
            "-extfile", folder / "ext", "-out", folder / "cert.pem")


# ---- real registries ----

class Registry:
    def __init__(self, folder, host):
        self.folder, self.host = folder, host
        self.ca = self.user = self.password = self.tokens = None
        self.pid = 0

    def name(self, image):
        return f"{self.host}/{image}"

    def skopeo(self):
        """Arguments for skopeo to reach it as a destination."""
        args = []
        if self.ca:
            certs = self.folder / "certs"
            certs.mkdir(exist_ok=True)
            shutil.copy(self.ca, certs / "ca.crt")
            args += ["--dest-cert-dir", certs]
        else:
            args += ["--dest-tls-verify=false"]
        if self.user:
            args += ["--dest-creds", f"{self.user}:{self.password}"]
        return args

    def push(self, image, name, *more):
        """Pushes an Image, or anything that skopeo reads ("oci:…"); the whole of an index."""
        source = getattr(image, "source", image)
        done = subprocess.run(
            ["skopeo", "copy", "-q", "--insecure-policy", "--all", "--preserve-digests",
             *self.skopeo(), *more, source, f"docker://{self.name(name)}"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
            env={**os.environ, "HOME": str(self.folder), "XDG_RUNTIME_DIR": str(self.folder)})
        assert done.returncode == 0, done.stdout.decode(errors="replace")
        return self.name(name)


def stop(process):
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for_port(process, log):
    """The port that a docker-registry says it listens on."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        text = log.read_text(errors="replace")
        found = re.search(r"listening on 127\.0\.0\.1:(\d+)", text)
        if found:
            return int(found.group(1))
        assert process.poll() is None, "docker-registry ended: " + text[-2000:]
        time.sleep(0.02)
    raise AssertionError("docker-registry does not listen: " + text[-2000:])


@contextlib.contextmanager
def serve(sections="", http="", folder=None, prepare=None):
    """A docker-registry with these sections of configuration besides storage and http."""
    need_tools()
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="registry-"))
        folder = Path(folder)
        if prepare:
            prepare(folder)
        (folder / "config.yml").write_text(
            "version: 0.1\nlog: {level: info, accesslog: {disabled: false}}\n"
            f"storage: {{filesystem: {{rootdirectory: {folder}/data}}, delete: {{enabled: true}}}}"
            f"\nhttp: {{addr: '127.0.0.1:0', secret: test{http.format(folder=folder)}}}\n"
            + sections.format(folder=folder))
        log = folder / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(["docker-registry", "serve", folder / "config.yml"],
                                       stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                       env={"PATH": os.environ["PATH"], "OTEL_SDK_DISABLED": "1"})
        stack.callback(stop, process)
        registry = Registry(folder, f"127.0.0.1:{wait_for_port(process, log)}")
        registry.pid = process.pid
        yield registry


@contextlib.contextmanager
def plain(folder=None):
    with serve(folder=folder) as registry:
        yield registry


def write_htpasswd(folder):
    done = subprocess.run(["htpasswd", "-B", "-b", "-n", "-C", "4", USER, PASSWORD], check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    (folder / "htpasswd").write_bytes(done.stdout)


HTPASSWD = "auth: {{htpasswd: {{realm: cay test, path: {folder}/htpasswd}}}}\n"


@contextlib.contextmanager
def htpasswd():
    with serve(HTPASSWD, prepare=write_htpasswd) as registry:
        registry.user, registry.password = USER, PASSWORD
        yield registry


@contextlib.contextmanager
def tls(auth=False, names="DNS:localhost,IP:127.0.0.1"):
    """`names`: what the certificate is for; another name makes it a wrong one."""
    def prepare(folder):
        make_ca(folder)
        make_certificate(folder, names)
        write_htpasswd(folder)
    with serve(HTPASSWD if auth else "", prepare=prepare,
               http=", tls: {{certificate: {folder}/cert.pem, key: {folder}/key.pem}}") as registry:
        registry.ca = registry.folder / "ca.pem"
        if auth:
            registry.user, registry.password = USER, PASSWORD
        yield registry


@contextlib.contextmanager
def token(anonymous=True):
    """With `anonymous` anybody may pull; pushing needs the user."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="registry-")))
        tokens = stack.enter_context(TokenServer(folder, anonymous))
        section = (f'auth: {{{{token: {{{{realm: "{tokens.url}", service: "cay test", '
                   f'issuer: cay-token, rootcertbundle: {folder}/token.pem}}}}}}}}\n')
        registry = stack.enter_context(serve(section, folder=folder))
        registry.tokens = tokens
        registry.user, registry.password = USER, PASSWORD
        yield registry


# ---- servers in this process ----

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def setup(self):
        """A client that tries TLS first is told at once that there is none."""
        super().setup()
        if isinstance(self.connection, ssl.SSLSocket):
            return
        if self.connection.recv(1, socket.MSG_PEEK) == b"\x16":
            self.connection.recv(4096)
            self.connection.sendall(b"HTTP/1.0 400 no TLS here\r\n\r\n")
            raise ConnectionAbortedError

    def log_message(self, *args):
        pass

    def reply(self, status, body=b"", headers=(), length=None):
        """length: what to say instead of the truth; -1 says nothing and closes at the end."""
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        if length == -1:
            self.send_header("Connection", "close")
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def handle_any(self):
        self.server.owner.answer(self)

    do_GET = do_HEAD = do_POST = handle_any


class QuietServer(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request, client_address):
        pass  # a client that hangs up is what many tests are about


class Server:
    """Serves in a thread; `requests` holds (method, path, headers) of all that came."""

    def __init__(self, certificate=None):
        self.requests = []
        self.ending = threading.Event()
        self.http = QuietServer(("127.0.0.1", 0), Handler)
        self.http.owner = self
        self.scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
            self.scheme = "https"
        self.host = f"127.0.0.1:{self.http.server_address[1]}"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True)

    def name(self, image):
        return f"{self.host}/{image}"

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *args):
        self.ending.set()
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    def answer(self, request):
        self.requests.append((request.command, request.path, dict(request.headers)))
        self.respond(request)

    def paths(self):
        return [path for _, path, _ in self.requests]


def b64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


class TokenServer(Server):
    """Gives Bearer tokens, as Docker's token protocol and its OAuth2 form say. `refresh` is the
    refresh token that it accepts; `lifetime` and `status` may be changed at any time."""

    refresh = "refresh-token-of-alice"

    def __init__(self, folder, anonymous):
        super().__init__()
        self.folder, self.anonymous = folder, anonymous
        self.lifetime, self.status, self.forms = 300, 200, []
        self.url = f"http://{self.host}/token"
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", 2, "-subj",
                "/CN=cay-token", "-keyout", folder / "token.key", "-out", folder / "token.pem")
        self.certificate = base64.b64encode(
            openssl("x509", "-in", folder / "token.pem", "-outform", "DER")).decode()

    def sign(self, claims):
        header = {"typ": "JWT", "alg": "RS256", "x5c": [self.certificate]}
        text = b".".join(b64url(json.dumps(part).encode()) for part in (header, claims))
        signature = openssl("dgst", "-sha256", "-sign", self.folder / "token.key", input=text)
        return (text + b"." + b64url(signature)).decode()

    def claims(self, service, scopes, user):
        access = []
        for scope in scopes:
            kind, name, actions = scope.split(":", 2)
            granted = [a for a in actions.split(",") if user or a == "pull"]
            access.append({"type": kind, "name": name, "actions": granted})
        now = int(time.time())
        return {"iss": "cay-token", "sub": user or "", "aud": service, "exp": now + self.lifetime,
                "nbf": now - 10, "iat": now, "jti": os.urandom(8).hex(), "access": access}

    def who(self, request, form):
        """The user, None for nobody, False for a wrong one."""
        if "refresh_token" in form:
            return USER if form["refresh_token"] == [self.refresh] else False
        given = request.headers.get("Authorization")
        if given is None:
            return None if self.anonymous else False
        expected = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        return USER if given == "Basic " + expected else False

    def respond(self, request):
        text = urllib.parse.urlsplit(request.path).query
        if request.command == "POST":
            text = request.rfile.read(int(request.headers["Content-Length"])).decode()
        form = urllib.parse.parse_qs(text)
        self.forms.append(form)
        user = self.who(request, form)
        if self.status != 200:
            return request.reply(self.status, b'{"details": "the token server is unwell"}')
        if user is False:
            return request.reply(401, b'{"details": "incorrect username or password"}')
        scopes = [s for value in form.get("scope", []) for s in value.split()]
        signed = self.sign(self.claims(form["service"][0], scopes, user))
        key = "access_token" if request.command == "POST" else "token"
        return request.reply(200, json.dumps({key: signed, "expires_in": self.lifetime}).encode(),
                             {"Content-Type": "application/json"})


# ---- hostile registries ----

class Fake(Server):
    def __init__(self, image=None, certificate=None, **overrides):
        super().__init__(certificate)
        self.image, self.overrides = image, overrides
        self.by_digest = {blob.digest: blob for blob in image.blobs()} if image else {}

    def respond(self, request):
        every = self.overrides.get("every")
        if every and every(request):
            return
        kind = "other"
        if request.path in ("/v2", "/v2/"):
            kind = "base"
        elif "/manifests/" in request.path:
            kind = "manifest"
        elif "/blobs/" in request.path:
            kind = "blob"
        self.overrides.get(kind, getattr(self, kind))(request)

    def base(self, request):
        request.reply(200, b"{}")

    def other(self, request):
        request.reply(404, b'{"errors": [{"code": "NAME_UNKNOWN", "message": "no such thing"}]}')

    def manifest(self, request):
        wanted = request.path.rsplit("/", 1)[1]
        blob = self.by_digest.get(wanted) if ":" in wanted else self.image.manifest
        if blob is None:
            return self.other(request)
        return request.reply(200, blob.data, {"Content-Type": blob.media_type,
                                              "Docker-Content-Digest": blob.digest})

    def blob(self, request):
        blob = self.by_digest.get(request.path.rsplit("/", 1)[1])
        return serve_range(request, blob.data) if blob else self.other(request)


def serve_range(request, data):
    """Answers with the whole, or with what Range asks for."""
    asked = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("Range", ""))
    if not asked:
        return request.reply(200, data)
    first = int(asked.group(1))
    last = min(int(asked.group(2) or len(data)), len(data) - 1)
    if first > last:
        return request.reply(416, b"", {"Content-Range": f"bytes */{len(data)}"})
    return request.reply(206, data[first:last + 1],
                         {"Content-Range": f"bytes {first}-{last}/{len(data)}"})


def fake(image=None, certificate=None, **overrides):
    return Fake(image, certificate, **overrides)


def answer(status, body=b"", headers=()):
    return lambda request: request.reply(status, body, headers)


def redirect_to(url, status=307):
    """url may be a function of the path."""
    def respond(request):
        target = url(request.path) if callable(url) else url
        request.reply(status, b"", {"Location": target})
    return respond


def circle(request):
    request.reply(307, b"", {"Location": request.path})


def stall(request):
    """Says that a lot comes, sends a little, and then nothing."""
    request.reply(200, b"x" * 10, length=100000)
    request.wfile.flush()
    request.server.owner.ending.wait(120)


def drip(request):
    """A byte every 50 ms, forever."""
    request.reply(200, length=-1)
    while not request.server.owner.ending.wait(0.05):
        request.wfile.write(b"x")
        request.wfile.flush()


def endless(request):
    """As fast as it goes, without a length, forever."""
    request.reply(200, length=-1)
    while not request.server.owner.ending.is_set():
        request.wfile.write(b" " * 65536)


def huge(size):
    """A body of that many bytes, honestly announced."""
    def respond(request):
        request.reply(200, b"", {"Content-Type": OCI + "manifest.v1+json"}, length=size)
        for _ in range(size // 65536):
            request.wfile.write(b" " * 65536)
    return respond


def _blob_of(request):
    return request.server.owner.by_digest[request.path.rsplit("/", 1)[1]].data


def too_short(request):
    """A whole answer that lacks the last byte."""
    request.reply(200, _blob_of(request)[:-1])


def too_long(request):
    """More than the manifest says, without a length that would tell."""
    request.reply(200, _blob_of(request) + b"surplus", length=-1)


def wrong_bytes(request):
    """As many bytes as promised, but others."""
    data = _blob_of(request)
    request.reply(200, bytes([data[0] ^ 1]) + data[1:])


def cut_once(after=1, ranges=True):
    """Breaks the first answer for each blob after that many bytes; later ones are whole."""
    seen = set()

    def respond(request):
        data = _blob_of(request)
        if request.path in seen:
            return serve_range(request, data) if ranges else request.reply(200, data)
        seen.add(request.path)
        request.reply(200, data[:after], length=len(data))
        request.close_connection = True
        return None
    return respond


@functools.cache
def shared_certificate():
    """(CA file, (certificate, key)) for TLS fakes; made once, gone with this process."""
    folder = tempfile.TemporaryDirectory(prefix="registry-ca-")
    path = Path(folder.name)
    make_ca(path)
    make_certificate(path)
    shared_certificate.keep = folder
    return path / "ca.pem", (path / "cert.pem", path / "key.pem")
