"""The registry client and its credentials, by tests/helpers/registry_probe, against real registries
and against hostile ones."""

import base64
import json
import os
import stat
import subprocess
import time

import pytest
import registry
import support

PROBE = support.HELPERS / "registry_probe"

# exit codes of the error classes (include/cay/errors.h)
NOT_FOUND, LIMIT, TIMEOUT, UNAUTHORIZED, FORBIDDEN, UNAVAILABLE = 3, 5, 124, 8, 9, 10


@pytest.fixture(autouse=True)
def need_probe():
    if not PROBE.exists():
        pytest.skip("registry_probe is not built: ninja -C build")


@pytest.fixture
def image(tmp_path):
    """One layer of some 300 KB that does not compress."""
    return registry.make_image(tmp_path / "image", [{"etc/data": os.urandom(300_000)}])


def probe(*args, env=None, timeout=60, input=None):
    base = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
        if name in os.environ:
            base[name] = os.environ[name]
    return subprocess.run([PROBE, *map(str, args)], capture_output=True, timeout=timeout,
                          input=input, env={**base, **(env or {})})


def fails(result, code, *parts):
    """The one line of an error, which must hold these parts and be fit for a terminal."""
    text = result.stderr.decode().strip().splitlines()[-1]
    assert result.returncode == code, (result.returncode, text)
    assert text.isprintable(), text
    for part in parts:
        assert part in text, text
    return text


def manifest(reg, name, *options, **more):
    return probe(*options, "manifest", reg.name(name), **more)


def blob(reg, image, *options, offset=0, size=None, **more):
    layer = image.layers[0]
    return probe(*options, "blob", reg.name("team/app:1"), layer.hex,
                 len(layer.data) if size is None else size, offset, **more)


def check_pull(reg, image, *options):
    """The manifest by tag and by digest, and the layer."""
    reg.push(image, "team/app:1")
    for name in ("team/app:1", f"team/app@{image.manifest.digest}"):
        got = manifest(reg, name, *options)
        assert support.ok(got).encode() == image.manifest.data
        told = got.stderr.decode().split()
        assert told == [image.manifest.hex, image.manifest.media_type]
    assert blob(reg, image, *options).stdout == image.layers[0].data


# ---- real registries ----

def test_plain(image):
    with registry.plain() as reg:
        check_pull(reg, image)
        fails(manifest(reg, "team/app:2"), NOT_FOUND, "team/app:2", reg.host, "404",
              "MANIFEST_UNKNOWN", "login")
        fails(manifest(reg, "nobody/nothing:1"), NOT_FOUND, "404")


def test_docker_types_and_index(tmp_path):
    one = registry.make_image(tmp_path / "1", [{"a": b"1"}], docker=True)
    two = registry.make_image(tmp_path / "2", [{"a": b"2"}], docker=True, architecture="arm64")
    index = registry.make_index(tmp_path / "i", {("linux", "amd64"): one, ("linux", "arm64"): two},
                                docker=True)
    with registry.plain() as reg:
        for number, made in enumerate((one, index)):
            reg.push(made, f"app:{number}")
            got = manifest(reg, f"app:{number}")
            assert got.stdout == made.manifest.data
            assert made.manifest.media_type in got.stderr.decode()


def test_htpasswd(image):
    with registry.htpasswd() as reg:
        who = ["--user", f"{reg.user}:{reg.password}"]
        check_pull(reg, image, *who)
        assert probe(*who, "login", reg.host).returncode == 0
        fails(manifest(reg, "team/app:1"), UNAUTHORIZED, "401", f"cay image login {reg.host}")
        text = fails(manifest(reg, "team/app:1", "--user", "alice:topsecret"), UNAUTHORIZED,
                     "does not accept these credentials")
        assert "topsecret" not in text
        fails(probe("--user", "alice:topsecret", "login", reg.host), UNAUTHORIZED, "wrong")
        fails(probe("login", reg.host), UNAUTHORIZED)


def test_tls_with_private_ca(image):
    with registry.tls(auth=True) as reg:
        who = ["--user", f"{reg.user}:{reg.password}"]
        check_pull(reg, image, "--ca", reg.ca, *who)
        fails(manifest(reg, "team/app:1", *who), UNAVAILABLE, "certificate cannot be trusted",
              f"certs.d/{reg.host}/ca.crt")
        assert manifest(reg, "team/app:1", "--insecure", *who).stdout == image.manifest.data
        fails(manifest(reg, "team/app:1", "--ca", "/nonexistent"), NOT_FOUND, "/nonexistent")


def test_tls_for_another_name():
    with registry.tls(names="DNS:elsewhere.example") as reg:
        fails(manifest(reg, "a:1", "--ca", reg.ca), UNAVAILABLE, "certificate cannot be trusted")


@support.as_root_only
@pytest.mark.parametrize("place", ["/etc/docker", "/etc/containers"])
def test_tls_with_certs_d(image, tmp_path, place):
    if os.geteuid() != 0 or not os.path.isdir(place):
        pytest.skip(f"needs root and a folder {place} to cover in a mount namespace")
    with registry.tls() as reg:
        reg.push(image, "team/app:1")
        certs = tmp_path / "certs.d" / reg.host
        certs.mkdir(parents=True)
        certs.joinpath("ca.crt").write_bytes(reg.ca.read_bytes())
        script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", script, "sh", tmp_path, place, PROBE, "manifest",
             reg.name("team/app:1")], capture_output=True, timeout=60)
        assert done.stdout == image.manifest.data, done.stderr


@pytest.mark.parametrize("anonymous", [True, False])
def test_token(image, anonymous):
    with registry.token(anonymous) as reg:
        who = ["--user", f"{reg.user}:{reg.password}"]
        check_pull(reg, image, *who)
        assert probe(*who, "login", reg.host).returncode == 0
        assert reg.tokens.forms[-1].get("scope") is None
        fails(probe("--user", "alice:topsecret", "login", reg.host), UNAUTHORIZED,
              "incorrect username or password")
        got = manifest(reg, "team/app:1")
        if anonymous:
            assert got.stdout == image.manifest.data
            assert reg.tokens.forms[-1]["scope"] == ["repository:team/app:pull"]
            assert reg.tokens.forms[-1]["service"] == ["cay test"]
        else:
            fails(got, UNAUTHORIZED, f"token server {reg.tokens.host}", "401", "cay image login")


def test_identity_token(image):
    with registry.token(anonymous=False) as reg:
        reg.push(image, "team/app:1")
        got = manifest(reg, "team/app:1", "--identity", reg.tokens.refresh)
        assert got.stdout == image.manifest.data
        method, _, headers = reg.tokens.requests[-1]
        assert method == "POST" and "Authorization" not in headers
        assert reg.tokens.forms[-1]["grant_type"] == ["refresh_token"]
        text = fails(manifest(reg, "team/app:1", "--identity", "wrong-one"), UNAUTHORIZED)
        assert "wrong-one" not in text


def test_clones_share_a_token(image):
    with registry.token() as reg:
        reg.push(image, "team/app:1")
        before = len(reg.tokens.requests)
        layer = image.layers[0]
        done = probe("clones", reg.name("team/app:1"), layer.hex, len(layer.data))
        assert done.returncode == 0, done.stderr
        assert len(reg.tokens.requests) == before + 1


def test_token_server_that_fails(image):
    with registry.token() as reg:
        reg.push(image, "team/app:1")
        reg.tokens.status = 503
        fails(manifest(reg, "team/app:1", "--attempts", 2), UNAVAILABLE, "token server", "503",
              "unwell")


def test_real_resume(image):
    data = image.layers[0].data
    with registry.plain() as reg:
        reg.push(image, "team/app:1")
        for offset in (0, 1, 1000, len(data) - 1, len(data)):
            got = blob(reg, image, offset=offset)
            assert (got.returncode, got.stdout, got.stderr) == (0, data[offset:], b"")
        got = blob(reg, image, offset=len(data) + 5)  # what was left is no part of this blob
        assert (got.stdout, got.stderr) == (data, b"restart\n")
        fails(blob(reg, image, size=len(data) + 1), UNAVAILABLE, "another number of bytes")
        fails(blob(reg, image, size=len(data) - 1), UNAVAILABLE, "another number of bytes")


# ---- unreachable ----

def test_nobody_there():
    with registry.fake() as reg:
        pass
    start = time.monotonic()
    fails(manifest(reg, "app:1"), UNAVAILABLE, reg.host, "cannot be reached", "check")
    assert time.monotonic() - start < 50
    fails(probe("manifest", "no-such-host.invalid/app:1"), UNAVAILABLE, "no-such-host.invalid",
          "cannot be found")


# ---- redirects ----

def test_redirect_to_another_host_without_authorization(image):
    with registry.fake(image) as other:
        reg = registry.fake(image, blob=registry.redirect_to(lambda p: f"http://{other.host}{p}"),
                            every=ask_for_basic)
        with reg:
            got = blob(reg, image, "--user", "alice:secret")
            assert got.stdout == image.layers[0].data
            assert any("Authorization" in headers for _, _, headers in reg.requests)
            assert len(other.requests) == 1
            assert "Authorization" not in other.requests[0][2]


def ask_for_basic(request):
    if "Authorization" in request.headers:
        return False
    request.reply(401, b"", {"WWW-Authenticate": 'Basic realm="x"'})
    return True


def test_redirect_on_the_same_host_keeps_authorization(image):
    def move(path):
        return path.replace("/team/", "/moved/")

    def moving(request):
        if "/team/" in request.path:
            registry.redirect_to(move)(request)
        else:
            reg.blob(request)
    with registry.fake(image, every=ask_for_basic, blob=moving) as reg:
        assert blob(reg, image, "--user", "a:b").stdout == image.layers[0].data
        assert "/moved/" in reg.paths()[-1]


@pytest.mark.parametrize("challenge", ['Basic realm="x"', 'Bearer realm="http://{host}/token"'])
def test_another_host_cannot_ask_for_credentials(image, challenge):
    """A redirect to somebody who then asks who we are."""
    def ask(request):
        request.reply(401, b"", {"WWW-Authenticate": challenge.format(host=other.host)})
        return True
    with registry.fake(image, every=ask) as other:
        to = registry.redirect_to(lambda p: f"http://{other.host}{p}")
        with registry.fake(image, blob=to) as reg:
            fails(blob(reg, image, "--user", "alice:secret"), UNAUTHORIZED)
        assert [path for path in other.paths() if "token" in path] == []
        assert all("Authorization" not in headers for _, _, headers in other.requests)


def test_circles(image):
    with registry.fake(image, manifest=registry.circle, blob=registry.circle) as reg:
        fails(manifest(reg, "app:1"), UNAVAILABLE, "circles")
        count = len(reg.requests)
        assert count == 11
        fails(blob(reg, image), UNAVAILABLE, "circles")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1/x", "http://192.0.2.1/x",
                                 "gopher://127.0.0.1:1/x", "http://", "//", "http://[::1"])
def test_redirects_that_are_not_followed(image, url):
    with registry.fake(image, blob=registry.redirect_to(url)) as reg:
        got = blob(reg, image, "--stall", 300_000)
        assert got.returncode == UNAVAILABLE and got.stdout == b""


def test_https_is_not_downgraded(image):
    ca, pair = registry.shared_certificate()
    with registry.fake(image) as plain:
        to = registry.redirect_to(lambda p: f"http://{plain.host}{p}")
        with registry.fake(image, certificate=pair, blob=to) as reg:
            for options in ([], ["--insecure"]):
                fails(blob(reg, image, "--ca", ca, *options), UNAVAILABLE, "not by HTTPS")
        assert plain.requests == []


def test_http_may_go_to_https(image):
    ca, pair = registry.shared_certificate()
    with registry.fake(image, certificate=pair) as other:
        with registry.fake(image,
                           blob=registry.redirect_to(lambda p: f"https://{other.host}{p}")) as reg:
            assert blob(reg, image, "--ca", ca).stdout == image.layers[0].data


def test_no_proxy_for_loopback(image):
    with registry.fake(image) as reg:
        env = {"http_proxy": "http://127.0.0.1:1", "https_proxy": "http://127.0.0.1:1"}
        assert manifest(reg, "app:1", env=env).stdout == image.manifest.data


def test_proxy(image):
    """What is not on this machine goes by the proxy that the environment names."""
    def forward(request):
        request.reply(200, image.manifest.data, {"Content-Type": "a/b"})
        return True
    with registry.fake(image, every=forward) as proxy:
        env = {"http_proxy": f"http://{proxy.host}", "https_proxy": f"http://{proxy.host}"}
        got = probe("--insecure", "manifest", "registry.invalid/app:1", env=env)
        assert got.stdout == image.manifest.data
        assert proxy.paths()[-1] == "http://registry.invalid/v2/app/manifests/1"
        env["no_proxy"] = "registry.invalid"
        fails(probe("--insecure", "manifest", "registry.invalid/app:1", env=env), UNAVAILABLE)


def test_plain_http_is_for_loopback_only(image):
    """Elsewhere nothing goes unencrypted, not even a name."""
    with registry.fake(image) as proxy:
        proxy.http.RequestHandlerClass = Tunnel
        env = {"http_proxy": f"http://{proxy.host}", "https_proxy": f"http://{proxy.host}"}
        fails(probe("--user", "a:b", "--attempts", 1, "manifest", "registry.invalid:5000/app:1",
                    env=env), UNAVAILABLE)
        assert [(method, path) for method, path, _ in proxy.requests] == [
            ("CONNECT", "registry.invalid:5000")]


class Tunnel(registry.Handler):
    def do_CONNECT(self):
        self.server.owner.requests.append((self.command, self.path, {}))
        self.reply(200)
        self.connection.recv(1)
        self.close_connection = True


# ---- lies ----

def test_stalled_manifest(image):
    with registry.fake(image, manifest=registry.stall) as reg:
        start = time.monotonic()
        fails(manifest(reg, "app:1", "--stall", 500, "--attempts", 2), TIMEOUT, "silent", reg.host)
        assert time.monotonic() - start < 50


def test_dripping_manifest(image):
    """Never silent for long, and never done."""
    with registry.fake(image, manifest=registry.drip) as reg:
        fails(manifest(reg, "app:1", "--stall", 500, "--attempts", 1), TIMEOUT)


def test_dripping_blob(image):
    with registry.fake(image, blob=registry.drip) as reg:
        fails(blob(reg, image, "--stall", 500, "--attempts", 1, size=1 << 40), TIMEOUT, "silent")


def test_stalled_blob_is_resumed(image):
    """The first answer falls silent; the second one is asked for the rest."""
    data = image.layers[0].data

    def resumed(stall_s):
        answers = []

        def respond(request):
            if answers:
                return reg.blob(request)
            answers.append(1)
            request.reply(200, data[:5000], length=len(data))
            return reg.ending.wait(60)
        with registry.fake(image, blob=respond) as reg:
            got = blob(reg, image, "--stall", stall_s * 1000)
            return got.stdout, got.stderr, reg.requests[-1][2].get("Range")

    wanted = (data, b"", "bytes=5000-")
    assert support.given_time(resumed, lambda got: got == wanted, (2, 15)) == wanted


def test_slow_reader_is_no_stall(image):
    """The time that the sink takes is not the registry's."""
    layer = image.layers[0]

    def read_late(stall_s):
        with registry.fake(image) as reg:
            process = subprocess.Popen([PROBE, "--stall", str(int(stall_s * 1000)), "blob", reg.name("team/app:1"),
                                        layer.hex, str(len(layer.data)), "0"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(stall_s + 1)
            out, words = process.communicate(timeout=60)
            return process.returncode, out, words, len(reg.requests)

    wanted = (0, layer.data, b"", 1)
    assert support.given_time(read_late, lambda got: got == wanted, (1.5, 15)) == wanted


def test_connection_that_is_never_answered(image):
    def never(request):
        reg.ending.wait(60)
        return True
    with registry.fake(image, every=never) as reg:
        start = time.monotonic()
        fails(manifest(reg, "app:1", "--stall", 500, "--attempts", 2), TIMEOUT)
        assert time.monotonic() - start < 50


@pytest.mark.parametrize("lie", [registry.endless, registry.huge(100 << 20)],
                         ids=["endless", "100MB"])
def test_endless_manifest(image, lie):
    with registry.fake(image, manifest=lie) as reg:
        fails(manifest(reg, "app:1"), UNAVAILABLE, "longer than")


def test_endless_error(image):
    def endless_error(request):
        request.reply(404, length=-1)
        while True:
            request.wfile.write(b" " * 65536)
    with registry.fake(image, manifest=endless_error) as reg:
        fails(manifest(reg, "app:1"), NOT_FOUND, "404")


def test_wrong_manifest(image, tmp_path):
    other = registry.make_image(tmp_path / "other", [{"a": b"b"}])
    lie = registry.answer(200, other.manifest.data, {"Docker-Content-Digest":
                                                     image.manifest.digest})
    with registry.fake(image, manifest=lie) as reg:
        fails(manifest(reg, "app:1"), UNAVAILABLE, "digest", other.manifest.hex)
        fails(manifest(reg, f"app@{image.manifest.digest}"), UNAVAILABLE, "digest")


def test_blob_of_another_length(image):
    for lie, words in ((registry.too_short, "another number of bytes"),
                       (registry.too_long, "more than it said"),
                       (registry.huge(100 << 20), "another number of bytes"),
                       (registry.endless, "more than it said")):
        with registry.fake(image, blob=lie) as reg:
            got = blob(reg, image)
            fails(got, UNAVAILABLE, words)
            assert len(got.stdout) <= len(image.layers[0].data)
            assert len(reg.requests) == 1  # a lie is not asked for twice


def test_blob_that_ends_early_without_a_length(image):
    def cut(request):
        request.reply(200, image.layers[0].data[:-1], length=-1)
    with registry.fake(image, blob=cut) as reg:
        fails(blob(reg, image, "--attempts", 2), UNAVAILABLE, "bytes of")


@pytest.mark.parametrize("ranges", [True, False])
def test_broken_connection(image, ranges):
    data = image.layers[0].data
    with registry.fake(image, blob=registry.cut_once(7777, ranges)) as reg:
        got = blob(reg, image)
        assert got.returncode == 0, got.stderr
        assert got.stdout == (data if ranges else data[:7777] + data)
        assert got.stderr == (b"" if ranges else b"restart\n")
        assert reg.requests[1][2]["Range"] == "bytes=7777-"


@pytest.mark.parametrize("said", ["bytes 0-9/10", "bytes 101-299/300", "bytes 100-", "nonsense",
                                  "", "bytes 100-99999999999/99999999999999"])
def test_wrong_part(image, said):
    with registry.fake(image, blob=registry.answer(206, b"x" * 100, {"Content-Range": said})) as reg:
        got = blob(reg, image, offset=100)
        fails(got, UNAVAILABLE)
        assert got.stdout == b""


def test_part_that_was_not_asked_for(image):
    data = image.layers[0].data
    said = {"Content-Range": f"bytes 100-{len(data) - 1}/{len(data)}"}
    with registry.fake(image, blob=registry.answer(206, data[100:], said)) as reg:
        fails(blob(reg, image), UNAVAILABLE, "another part")


def test_range_that_is_refused(image):
    def respond(request):
        if "Range" in request.headers:
            return request.reply(416)
        return reg.blob(request)
    with registry.fake(image, blob=respond) as reg:
        got = blob(reg, image, offset=100)
        assert (got.stdout, got.stderr) == (image.layers[0].data, b"restart\n")


def test_many_headers(image):
    def many(request):
        request.reply(200, b"{}", {f"X-{n}": "y" for n in range(5000)})

    def long(request):
        request.reply(200, b"{}", {"X": "y" * 90_000})
    for lie in (many, long):
        with registry.fake(image, manifest=lie) as reg:
            fails(manifest(reg, "app:1"), UNAVAILABLE, "too many headers")


def test_hostile_words(image):
    body = json.dumps({"errors": [{"code": "X", "message": "\x1b[31m\nevil" + "y" * 5000}]})
    with registry.fake(image, manifest=registry.answer(403, body.encode())) as reg:
        text = fails(manifest(reg, "app:1"), FORBIDDEN, "403", "evil")
        assert len(text) < 1000


@pytest.mark.parametrize("body", [b"", b"{}", b'{"token": ""}', b'{"token": "a\\r\\nX: y"}',
                                  b'{"token": 5}', b"<html>", b" " * 100_000],
                         ids=["empty", "none", "blank", "header", "number", "html", "long"])
def test_hostile_token_server(image, body):
    def every(request):
        if request.path.startswith("/token"):
            request.reply(200, body)
        elif "Authorization" in request.headers:
            return False
        else:
            request.reply(401, b"", {"WWW-Authenticate": f'Bearer realm="http://{reg.host}/token"'})
        return True
    with registry.fake(image, every=every) as reg:
        fails(manifest(reg, "app:1"), UNAVAILABLE, "token server")


@pytest.mark.parametrize("realm", ["http://192.0.2.1/token", "file:///etc/passwd", "nonsense"])
def test_token_servers_that_are_not_asked(image, realm):
    ask = registry.answer(401, b"", {"WWW-Authenticate": f'Bearer realm="{realm}"'})
    with registry.fake(image, manifest=ask) as reg:
        fails(manifest(reg, "app:1", "--user", "a:b", "--stall", 300_000), UNAVAILABLE, "not by HTTPS")


def test_token_that_is_never_accepted(image):
    """It is asked for once more, not forever."""
    def every(request):
        if request.path.startswith("/token"):
            request.reply(200, b'{"token": "abc"}')
        else:
            request.reply(401, b"", {"WWW-Authenticate": f'Bearer realm="http://{reg.host}/token"'})
        return True
    with registry.fake(image, every=every) as reg:
        fails(manifest(reg, "app:1"), UNAUTHORIZED, "401")
        assert len([p for p in reg.paths() if p.startswith("/token")]) == 1


def test_token_that_expires_in_the_middle(image):
    """Between the two parts of a broken download."""
    valid = {"token": 0}
    data = image.layers[0].data

    def every(request):
        given = request.headers.get("Authorization")
        if request.path.startswith("/token"):
            valid["token"] += 1
            request.reply(200, json.dumps({"access_token": f"t{valid['token']}"}).encode())
        elif given != f"Bearer t{valid['token']}" or given == "Bearer t0":
            request.reply(401, b"", {"WWW-Authenticate": f'Bearer realm="http://{reg.host}/token"'})
        elif "Range" not in request.headers:
            request.reply(200, data[:1000], length=len(data))
            request.close_connection = True
            valid["token"] += 1  # what was given is not good any more
        else:
            return False
        return True
    with registry.fake(image, every=every) as reg:
        got = blob(reg, image)
        assert (got.returncode, got.stdout) == (0, data)


# ---- attempts ----

def failing_first(count, status, headers=()):
    left = [count]

    def every(request):
        left[0] -= 1
        if left[0] < 0:
            return False
        request.reply(status, b"", headers)
        return True
    return every


@pytest.mark.parametrize("status", [500, 502, 503, 429])
def test_passing_failures(image, status):
    with registry.fake(image, every=failing_first(2, status)) as reg:
        assert manifest(reg, "app:1").stdout == image.manifest.data
        assert len(reg.requests) == 3


@pytest.mark.parametrize("status, code", [(403, FORBIDDEN), (404, NOT_FOUND), (401, UNAUTHORIZED),
                                          (400, UNAVAILABLE)])
def test_lasting_failures(image, status, code):
    with registry.fake(image, every=failing_first(99, status)) as reg:
        fails(manifest(reg, "app:1"), code, str(status), reg.host, "app:1")
        assert len(reg.requests) == 1


def test_retry_after(image):
    with registry.fake(image, every=failing_first(1, 429, {"Retry-After": "3"})) as reg:
        start = time.monotonic()
        assert manifest(reg, "app:1").stdout == image.manifest.data
        assert 3 <= time.monotonic() - start < 25
    with registry.fake(image, every=failing_first(99, 429)) as reg:
        fails(manifest(reg, "app:1", "--attempts", 2), LIMIT, "429", "wait, or log in")


# ---- credentials ----

@pytest.fixture
def home(tmp_path):
    """(environment, Docker's folder)"""
    docker = tmp_path / "home" / ".docker"
    docker.mkdir(parents=True)
    tools = tmp_path / "bin"
    tools.mkdir()
    return {"HOME": str(tmp_path / "home"), "PATH": f"{tools}:{os.environ['PATH']}"}, docker, tools


def found(env, name):
    return support.ok(probe("find", name, env=env)).rstrip("\n")


def auth(pair):
    return base64.b64encode(pair.encode()).decode()


def test_login_is_kept(home, tmp_path):
    env, docker, _ = home
    own = tmp_path / "home" / ".config" / "cay" / "auth.json"
    assert found(env, "host:5000") == "||"
    support.ok(probe("--user", "alice:p:w", "save", "host:5000", env=env))
    support.ok(probe("--user", "bob:pw", "save", "docker.io", env=env))
    support.ok(probe("--identity", "refresh", "save", "third.example", env=env))
    assert found(env, "host:5000") == "alice|p:w|"
    assert found(env, "docker.io") == "bob|pw|"
    assert found(env, "third.example") == "||refresh"
    assert stat.S_IMODE(own.stat().st_mode) == 0o600
    assert stat.S_IMODE(own.parent.stat().st_mode) == 0o700
    assert os.listdir(own.parent) == ["auth.json"]
    assert set(json.loads(own.read_text())["auths"]) == {
        "host:5000", "https://index.docker.io/v1/", "third.example"}
    (docker / "config.json").write_text(
        json.dumps({"auths": {"host:5000": {"auth": auth("docker:other")}}}))
    assert found(env, "host:5000") == "alice|p:w|"  # ours first
    assert support.ok(probe("remove", "host:5000", env=env)) == "1\n"
    assert support.ok(probe("remove", "host:5000", env=env)) == "0\n"
    assert found(env, "host:5000") == "docker|other|"
    assert found(env, "docker.io") == "bob|pw|"


def test_what_others_wrote_stays(home, tmp_path):
    env, _, _ = home
    own = tmp_path / "home" / ".config" / "cay" / "auth.json"
    own.parent.mkdir(parents=True)
    own.write_text(json.dumps({"extra": [1, {"a": None}], "auths": {"x": {"auth": auth("a:b")}}}))
    support.ok(probe("--user", "u:p", "save", "y", env=env))
    kept = json.loads(own.read_text())
    assert kept["extra"] == [1, {"a": None}] and set(kept["auths"]) == {"x", "y"}


def test_logins_at_once(home):
    env, _, _ = home
    every = [subprocess.Popen([PROBE, "--user", f"u{n}:p", "save", f"host{n}"],
                              env={**os.environ, **env}) for n in range(20)]
    assert [p.wait(60) for p in every] == [0] * 20
    assert [found(env, f"host{n}") for n in range(20)] == [f"u{n}|p|" for n in range(20)]


def test_damaged_file(home):
    env, docker, _ = home
    (docker / "config.json").write_text('{"auths": {"h": {"auth": topsecret}}}')
    text = fails(probe("find", "h", env=env), 2, str(docker / "config.json"), "JSON")
    assert "topsecret" not in text


def write_helper(tools, name, script):
    path = tools / f"docker-credential-{name}"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)


def test_helpers(home):
    env, docker, tools = home
    (docker / "config.json").write_text(json.dumps({
        "auths": {"in.file": {"auth": auth("f:g")}, "in.store": {}},
        "credsStore": "all", "credHelpers": {"one.example": "one"}}))
    write_helper(tools, "one", 'read s; [ "$1" = get ] || exit 9\n'
                 'printf \'{"ServerURL":"%s","Username":"<token>","Secret":"%s"}\' $s "id of $s"')
    write_helper(tools, "all", 'read s; case $s in in.file) '
                 'echo "credentials not found in native keychain"; exit 1;; esac\n'
                 'printf \'{"Username":"all","Secret":"%s"}\' "$s"')
    assert found(env, "one.example") == "||id of one.example"
    assert found(env, "in.store") == "all|in.store|"
    assert found(env, "docker.io") == "all|https://index.docker.io/v1/|"
    assert found(env, "in.file") == "f|g|"


@pytest.mark.parametrize("script, words", [
    ("echo 'the keychain is locked'; exit 3", "the keychain is locked"),
    ("echo '{\"Username\":\"u\",\"Secret\":\"topsecret\"}'; exit 1", "exit code 1"),
    ("echo '{\"Username\":\"topsecret\"}'", "holds no credentials"),
    ("echo topsecret", "holds no credentials"),
    ("kill -9 $$", "signal 9"),
    ("yes topsecret", "more than 65536 bytes"),
])
def test_helpers_that_fail(home, script, words):
    env, docker, tools = home
    (docker / "config.json").write_text('{"credsStore": "bad"}')
    write_helper(tools, "bad", script)
    result = probe("find", "h", env=env)
    text = result.stderr.decode()
    assert result.returncode == UNAVAILABLE and words in text
    assert "docker-credential-bad" in text and "topsecret" not in text


def test_helper_whose_child_lives_on(home):
    """Its output stays open, and nobody waits for that."""
    env, docker, tools = home
    (docker / "config.json").write_text('{"credsStore": "bg"}')
    pid = docker / "pid"
    write_helper(tools, "bg", f'sleep 100 & echo $! > {pid}\n'
                 'echo \'{"Username":"u","Secret":"s"}\'')
    start = time.monotonic()
    assert found(env, "h") == "u|s|"
    assert time.monotonic() - start < 60
    os.kill(int(pid.read_text()), 9)


@pytest.mark.parametrize("name", ["../evil", "a b", "a/b", "", "$(id)"])
def test_names_of_helpers(home, name):
    env, docker, _ = home
    (docker / "config.json").write_text(json.dumps({"credHelpers": {"h": name}}))
    result = probe("find", "h", env=env)
    if name:
        fails(result, 2, "is no name of a credential helper")
    else:
        assert result.stdout == b"||\n"


def test_missing_helper(home):
    env, docker, _ = home
    (docker / "config.json").write_text('{"credsStore": "absent"}')
    fails(probe("find", "h", env=env), NOT_FOUND, "docker-credential-absent", "install")


def test_login_is_used(home, image):
    env, _, _ = home
    with registry.htpasswd() as reg:
        reg.push(image, "team/app:1")
        support.ok(probe("--user", f"{reg.user}:{reg.password}", "save", reg.host, env=env))
        got = manifest(reg, "team/app:1", "--login", env=env)
        assert got.stdout == image.manifest.data
