"""Images for the Docker engine: what Docker has is used, what it lacks Docker pulls from a registry on
this machine, by the policy, and what fails is told with its reason."""

import contextlib
import http.client
import json
import subprocess
import threading
from pathlib import Path

import pytest
import registry
import support
from daemons import serving_tcp
from docking import engine_of, make, refusal  # noqa: F401
from engines import DockerEngine, PodmanEngine
from images import BUSYBOX, shell_image, write_archive
from launching import until
from test_keys import make_key

pytestmark = pytest.mark.skipif(bool(support.USER), reason="dockerd needs root")

engine = engine_of(DockerEngine)
podman = engine_of(PodmanEngine)


@pytest.fixture(scope="module")
def store():
    """A registry that anybody may use."""
    with registry.plain() as found:
        yield found


@pytest.fixture(scope="module")
def closed():
    """One that wants a password."""
    with registry.htpasswd() as found:
        yield found


def archive(engine, name, which):
    """An image whose environment tells which one it is."""
    path = engine.folder / "pushed.tar"
    write_archive(path, name, shell_image(), Env=[f"WHICH={which}", "PATH=/bin"])
    return path


def push(engine, store, name, which):
    """Into the registry, and nowhere else."""
    return store.push(f"docker-archive:{archive(engine, store.name(name), which)}", name)


def names(engine):
    return engine.docker("images", "--format", "{{.Repository}}:{{.Tag}}").split()


def which(box):
    return box.says("echo $WHICH")


def test_docker_pulls_what_it_lacks(engine, make, store):
    name = push(engine, store, "lacked", "pulled")
    assert f"{name}:latest" not in names(engine)
    assert which(make(image=name)) == "pulled\n"
    assert f"{name}:latest" in names(engine)
    assert name in engine.cay("image ls", "-q").stdout.decode()  # for either engine
    pulls = (store.folder / "log").read_text().count("/v2/lacked/manifests/latest")
    assert which(make(image=name)) == "pulled\n"  # it is there now
    assert (store.folder / "log").read_text().count("/v2/lacked/manifests/latest") == pulls


def test_progress_is_told(engine, store):
    """As of an image that cay fetches itself."""
    name = push(engine, store, "told", "told")
    answer = engine.daemon.ask("POST", "/api/cay/sandbox", {"image": name}, X_Cay_Progress="lines")
    *told, done, last = answer.text.splitlines()
    assert (answer.status, done) == (200, "done"), answer.text
    assert all(line.startswith("progress ") for line in told), told
    assert told[0].endswith("/told:latest: pulled by Docker"), told
    assert told[-1].endswith("/told: taken over from Docker"), told
    assert any(line.endswith((": done", ": exists")) for line in told), told  # a layer
    engine.daemon.call("DELETE", f"/api/cay/sandbox/{json.loads(last)['id']}?force=true")


def test_the_policy(engine, make, store):
    """That of the configuration, for the daemon."""
    name = push(engine, store, "policy", "first")
    engine.daemon.stop()
    engine.env["CAY_IMAGES_PULL"] = "never"
    try:
        engine.daemon.start()
        status, message, remedy = refusal(make, image=name)
        assert status == 404 and "neither in Docker nor in cay's store" in message
        assert "[images] pull" in remedy
        assert which(make()) == "\n"  # one that is here
    finally:
        del engine.env["CAY_IMAGES_PULL"]
        engine.daemon.stop()
        engine.daemon.start()


def test_the_policy_of_one_run(engine, store):
    name = push(engine, store, "run", "first")

    def run(policy):
        done = engine.cay("run", "--engine", "docker", "--pull", policy, "--image", name, "--", "sh",
                          "-c", "echo $WHICH")
        return done.returncode, done.stdout
    assert run("never") == (125, b"")
    assert run("missing") == (0, b"first\n")
    push(engine, store, "run", "second")
    assert run("always") == (0, b"second\n")


def test_an_image_that_only_docker_has(engine, make):
    """By its name, also when that means another one by now."""
    for content in ("one", "two"):
        engine.docker.load(archive(engine, "only-here", content))
        assert which(make(image="only-here")) == f"{content}\n"


def test_a_name_of_the_store_stays(engine):
    """What Docker calls so is used by its engine, and is nothing else to the others."""
    support.ok(engine.cay("image load", "-i", archive(engine, "both-have", "of cay")))
    engine.docker.load(archive(engine, "both-have", "of docker"))

    def run(by):
        return support.ok(engine.cay("run", "--engine", by, "--image", "both-have", "--", "sh", "-c", "echo $WHICH"))
    assert run("docker") == "of docker\n"
    assert run("native") == "of cay\n"


def test_names_of_ours_are_nobody_s(engine, make):
    """Somebody's archive is no image for others, by its name or by the beginning of its id."""
    engine.docker.load(archive(engine, "cay-archive", "secret"))
    ident = engine.docker("images", "-q", "--no-trunc", "cay-archive").split()[0].removeprefix("sha256:")
    for name in ("cay-archive", "docker.io/library/cay-archive:latest", f"sha256:{ident}"):
        assert refusal(make, image=name)[0] == 404
    done = engine.cay("run", "--engine", "docker", "--pull", "never", "--image", ident[:12], "--", "true")
    assert done.returncode == 125 and b"neither in Docker nor in cay's store" in done.stderr
    engine.docker("rmi", "cay-archive")


def test_no_such_image(engine, make, store):
    status, message, remedy = refusal(make, image=store.name("nothing:here"))
    assert status == 404 and "manifest" in message and "tag" in remedy


def test_no_such_registry(engine, make):
    status, message, remedy = refusal(make, image="127.0.0.1:1/some/image")
    assert status == 503 and "connection refused" in message and "127.0.0.1:1" in remedy
    assert engine.daemon.call("GET", "/api/cay/sandbox") == []


def test_a_registry_that_wants_a_password(engine, make, closed):
    name = push(engine, closed, "closed", "allowed")
    status, message, remedy = refusal(make, image=name)
    assert status == 401 and "cay image login" in remedy, message
    done = engine.cay("image login", "-u", closed.user, "--password-stdin", "--insecure", closed.host,
                      input=closed.password.encode())
    support.ok(done)
    try:
        assert which(make(image=name)) == "allowed\n"
    finally:
        support.ok(engine.cay("image logout", closed.host))


def pulling(engine):
    """Processes that have Docker pull for this daemon."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            found += [path] if words[1:3] == [b"ensure", bytes(engine.daemon.state)] else []
    return found


def test_the_daemon_is_killed_while_docker_pulls(engine, make, folder):
    """Nothing is left of what was being made, and nobody goes on with it."""
    image = registry.make_image(folder, [{"bin/tool": b"x"}], docker=True)
    with registry.fake(image, blob=registry.stall) as server:
        def ask():
            with contextlib.suppress(OSError, http.client.HTTPException):
                engine.daemon.ask("POST", "/api/cay/sandbox", {"image": server.name("stalled:1")})
        client = threading.Thread(target=ask)
        client.start()
        assert until(lambda: any("/blobs/" in path for path in server.paths()), 60)
        assert len(pulling(engine)) == 1
        engine.daemon.kill()
        client.join(60)
        engine.daemon.start()
        assert until(lambda: pulling(engine) == [])
        assert until(lambda: engine.daemon.call("GET", "/api/cay/sandbox") == [])
    assert make().says("echo as before") == "as before\n"


def test_cay_s_own_images_are_given_to_docker(engine):
    """When they are asked for, as told."""
    engine.load("given", shell_image(), Env=["WHICH=given", "PATH=/bin"])
    done = engine.cay("run", "--engine", "docker", "--image", "given", "--", "sh", "-c", "echo $WHICH")
    assert done.stdout == b"given\n" and b"given: given to Docker" in done.stderr, done.stderr
    assert not any(n.startswith("given:") for n in names(engine))  # names of cay's are cay's


def test_nothing_is_left(engine):
    assert engine.daemon.call("GET", "/api/cay/sandbox") == []
    assert engine.docker("ps", "-aq").split() == []


# ---- podman ----

def run_twice(podman, name):
    return [podman.cay("run", "--engine", "docker", "--image", name, "--", "cat", "/file") for _ in range(2)]


def test_an_image_of_podman_s_is_taken_over_once(podman):
    """In its own format, OCI: its id is the same in cay's store, so the second time finds it there."""
    folder = podman.folder / "context"
    folder.mkdir()
    (folder / "file").write_text("hello\n")
    (folder / "cat").write_bytes(BUSYBOX.read_bytes())
    (folder / "cat").chmod(0o755)
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY cat /bin/cat\nCOPY file /file\n")
    podman.docker("build", "--isolation=chroot", "--format=oci", "-t", "docker.io/library/tool", folder)
    first, second = run_twice(podman, "tool")
    assert first.stdout == second.stdout == b"hello\n", (first, second)
    assert b"taken over" in first.stderr and second.stderr == b"", (first, second)


def test_what_podman_cannot_save(podman):
    """Layers of zstd, which it has no archive for."""
    path, oci = podman.folder / "docker.tar", podman.folder / "oci.tar"
    write_archive(path, "packed", shell_image())
    support.ok(subprocess.run(["skopeo", "copy", "--dest-compress-format", "zstd", f"docker-archive:{path}",
                               f"oci-archive:{oci}:docker.io/library/packed:latest"], capture_output=True))
    podman.docker("load", "-i", oci)
    done = podman.cay("run", "--engine", "docker", "--image", "packed", "--", "true")
    assert done.returncode == 125 and b"zstd" in done.stderr and b"cay image pull" in done.stderr, done


# ---- keys ----

def test_images_of_keys_stay_apart(engine):
    """What Docker has is everybody's; a snapshot of a container is its key's, by name and by id."""
    main = "docker-has"
    engine.docker("load", "-i", archive(engine, main, "docker"))
    env = {"DOCKER_HOST": engine.docker.address, "CAY_SANDBOX_ENGINE": "docker"}
    with serving_tcp(env=env) as daemon:
        ann, bob = (make_key(daemon, name, permissions=["sandboxes", "images"]) for name in ("ann", "bob"))
        box = ann.create(image=main)
        ann.call("POST", f"/api/sandbox/{box['id']}/snapshot", {"name": "private-of-ann:1"})
        listed = {one["name"]: one for one in ann.call("GET", "/api/snapshots")["items"]}
        private = listed["private-of-ann:1"]
        assert private["general"] is False and listed[main]["general"] is True
        assert [one["name"] for one in bob.call("GET", "/api/snapshots")["items"]] == [main]
        for image in ("private-of-ann:1", private["ref"], private["ref"][:12]):
            assert bob.ask("POST", "/api/cay/sandbox", {"image": image}).status == 404
        ann.create(image="private-of-ann:1")
        bob.create(image=main)
        for one in daemon.list():
            daemon.call("DELETE", f"/api/cay/sandbox/{one['id']}?force=true")
