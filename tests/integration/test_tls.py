"""TLS, who may listen where without it, and pages of other origins."""

import http.client
import json
import shutil
import socket
import ssl
import subprocess

import pytest
import support
from daemons import CAYD, free_port, serving
from launching import Connection


def openssl(*args):
    subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, timeout=60)


def make_certificate(folder, name, ca):
    """A key and a certificate for 127.0.0.1, by our own authority."""
    key, request, cert = folder / f"{name}.key", folder / f"{name}.csr", folder / f"{name}.pem"
    extension = folder / "san"
    extension.write_text("subjectAltName=IP:127.0.0.1")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
            key, "-out", request, "-subj", f"/CN={name}")
    openssl("x509", "-req", "-in", request, "-CA", ca / "ca.pem", "-CAkey", ca / "ca.key",
            "-CAcreateserial", "-days", "2", "-extfile", extension, "-out", cert)
    key.chmod(0o600)
    for path in (key, cert):
        support.own(path)
    return cert, key


def make_authority(folder):
    folder.mkdir()
    support.own(folder)
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", folder / "ca.key", "-out", folder / "ca.pem", "-days", "2", "-subj", "/CN=test")
    return folder


@pytest.fixture
def tls(folder):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    return make_authority(folder / "tls")


def settings(cert, key):
    return {"CAY_SERVER_TLS_CERT": str(cert), "CAY_SERVER_TLS_KEY": str(key)}


def wrap(port, ca):
    context = ssl.create_default_context(cafile=str(ca / "ca.pem"))
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), 30),
                               server_hostname="127.0.0.1")


def common_name(port, ca):
    with wrap(port, ca) as sock:
        return dict(pair[0] for pair in sock.getpeercert()["subject"])["commonName"]


def https(port, ca, method, path, body=None, **headers):
    context = ssl.create_default_context(cafile=str(ca / "ca.pem"))
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60)
    connection.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), answer.headers


def test_tls(folder, tls, clean_host):
    port = free_port()
    cert, key = make_certificate(tls, "first", tls)
    with serving(folder, "--listen", f"127.0.0.1:{port}", env=settings(cert, key)) as daemon:
        bearer = "Bearer " + (daemon.state / "admin.key").read_text().strip()
        assert https(port, tls, "GET", "/api/cay/sandbox")[0] == 401
        status, text, _ = https(port, tls, "POST", "/api/cay/sandbox", '{"name": "lab"}',
                                Authorization=bearer)
        assert status == 200 and json.loads(text)["state"] == "started"
        sock = wrap(port, tls)  # an operation, both ways
        sock.sendall(b"GET /api/cay/sandbox/lab/connect HTTP/1.1\r\nHost: localhost\r\n"
                     b"Authorization: %s\r\nConnection: Upgrade\r\nUpgrade: cay-init\r\n\r\n"
                     % bearer.encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += sock.recv(1)
        assert head.startswith(b"HTTP/1.1 101 "), head
        with Connection(sock) as c:
            c.exec("echo", "hello")
            assert c.finish()[:2] == (0, "hello\n")
        with pytest.raises((http.client.HTTPException, OSError)):  # no plain HTTP
            plain = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            plain.request("GET", "/healthz")
            plain.getresponse()


def test_chunks_that_are_not_clear_are_refused(folder, tls):
    port = free_port()
    cert, key = make_certificate(tls, "first", tls)
    with serving(folder, "--listen", f"127.0.0.1:{port}", env=settings(cert, key)) as daemon:
        admin = (daemon.state / "admin.key").read_text().strip()
        head = (f"POST /api/cay/volumes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {admin}\r\n"
                "Transfer-Encoding: chunked\r\n\r\n").encode()
        for body, part in ((b"2\r\n{}\r\n0\r\n\r\n", b"name"), (b"2;a\n{}\r\n0\r\n\r\n", b"CR LF"),
                           (b"2\r\n{}\n0\r\n\r\n", b"CR LF")):
            with wrap(port, tls) as sock:
                sock.sendall(head + body)
                answer = sock.recv(65536)
                while b"}" not in answer:
                    answer += sock.recv(65536)
                assert answer.startswith(b"HTTP/1.1 400 ") and part in answer


def test_keys_that_are_refused(folder, tls):
    cert, key = make_certificate(tls, "first", tls)
    _, other = make_certificate(tls, "other", tls)
    open_key = tls / "open.key"
    shutil.copy(key, open_key)
    open_key.chmod(0o644)
    support.own(open_key)
    for files, part in (((cert, open_key), "everybody may read the private key"),
                        ((cert, tls / "absent"), "No such file"), ((tls, key), "is no file"),
                        ((cert, other), "belong together")):
        who, env = support.as_user()
        state = folder / "refused"
        state.mkdir(exist_ok=True)
        support.own(state)
        done = subprocess.run([CAYD, "--state-dir", state, "--listen", f"127.0.0.1:{free_port()}"],
                              env={**env, **settings(*files)}, capture_output=True, timeout=60,
                              text=True, **who)
        assert done.returncode != 0 and part in done.stderr, (part, done.stderr)


def test_clear_text_beyond_this_machine_is_refused(folder):
    who, env = support.as_user()
    command = [CAYD, "--state-dir", folder / "state", "--listen", "0.0.0.0:0"]
    (folder / "state").mkdir()
    support.own(folder / "state")
    done = subprocess.run(command, env=env, capture_output=True, timeout=60, text=True, **who)
    assert done.returncode == 2 and "--insecure-listen" in done.stderr, done.stderr


def test_other_origins(folder, clean_host):
    page = "https://box.example"
    port = free_port()
    options = {"env": {"CAY_SERVER_ALLOWED_ORIGINS": page}}
    ask = {"Access-Control-Request-Method": "POST"}

    def request(method, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request(method, "/api/cay/sandbox", headers=headers)
        answer = connection.getresponse()
        answer.read()
        return answer

    with serving(folder, "--listen", f"127.0.0.1:{port}", **options):
        preflight = request("OPTIONS", Origin=page, **ask)
        assert preflight.status == 204
        assert preflight.headers["Access-Control-Allow-Origin"] == page
        assert "Authorization" in preflight.headers["Access-Control-Allow-Headers"]
        refused = request("OPTIONS", Origin="https://evil.example", **ask)
        assert refused.status == 403 and "Access-Control-Allow-Origin" not in refused.headers
        answer = request("GET", Origin=page)  # without a key still nothing, but it may read why
        assert answer.status == 401 and answer.headers["Access-Control-Allow-Origin"] == page
        foreign = request("GET", Origin="https://evil.example")
        assert "Access-Control-Allow-Origin" not in foreign.headers
