"""What is its own about a Docker that is reached by TCP and TLS, as one on another machine: contexts,
certificates, and ways into sandboxes that a process of ours keeps. What sandboxes promise is in
engine/, which runs over it too."""

import contextlib
import hashlib
import http.server
import json
import shutil
import subprocess
import threading

import pytest
import support
from daemons import Refused
from dockerd import certificates
from docking import container, engine_of, make  # noqa: F401
from engines import DockerRemoteEngine
from launching import until

pytestmark = pytest.mark.skipif(bool(support.USER), reason="dockerd needs root")

engine = engine_of(DockerRemoteEngine)


def test_a_container_has_nothing_of_this_machine(engine, make):
    box = make()
    about = container(engine, box)
    assert [m["Type"] for m in about["Mounts"]] == ["volume"] and not about["Mounts"][0]["RW"]
    assert about["HostConfig"]["NetworkMode"] == "none"
    whose, _, home = about["Config"]["Labels"]["cay.home"].partition(":")
    assert len(whose) == 16 and home == str(engine.daemon.state)
    assert box.says("ls /.cay").split() == ["enter", "init"]
    assert box.sh("echo x > /.cay/init").code != 0


def test_nobody_inside_reaches_cay_init(make):
    """Its socket has a name that all inside can connect to, and takes those of its own id alone."""
    box = make()
    request = r"printf '\004\000\000\000\000\000\000\000'"  # four zero bytes in a frame
    for user in ("0:0", "1000:1001"):
        done = box.sh(f"{request} | timeout 10 /.cay/enter relay | od -An -c", USER=user)
        assert done.out.split() == [b"006"], done  # that it runs, and no answer
    done = box.sh("true", USER="65533:65533")
    assert done.code is None and b"cay-init" in str(done.last).encode()


def test_a_folder_of_this_machine_is_refused(engine, make):
    with pytest.raises(Refused) as refused:
        make(volumes=[f"{engine.folder}:/data"])
    assert refused.value.status == 501 and "another machine" in refused.value.error["message"]
    assert "named volume" in refused.value.error["remedy"]


def test_a_read_only_root_has_a_work_folder(engine, make):
    box = make(readOnly=True)
    assert box.says("echo kept > /workspace/file && cat /workspace/file") == "kept\n"
    assert box.sh("echo x > /etc/file").code != 0
    box.do("stop")
    box.do("start")
    assert box.says("cat /workspace/file") == "kept\n"
    before = engine.docker("volume", "ls", "-q").split()
    box.remove()
    assert len(engine.docker("volume", "ls", "-q").split()) == len(before) - 1


def test_pausing_while_streams_are_opened(make):
    """A process that Docker starts in a container which freezes meanwhile would hang, and Docker too."""
    box = make()
    for turn in range(8):
        assert box.says(f"echo {turn}") == f"{turn}\n"  # after which the next stream is opened
        box.do("pause")
        box.do("resume")
    assert box.says("echo usable") == "usable\n"


def test_the_launcher_is_killed(engine, make):
    """The ways into sandboxes end with it; the next one opens them again."""
    box = make()
    pid = box.says("cat > /tmp/file <<'END'\nkept\nEND\ncat /proc/1/stat | cut -d' ' -f1")
    engine.daemon.kill_child("cay-docker")

    def answers():
        with contextlib.suppress(AssertionError, Refused, OSError):
            return box.says("cat /tmp/file") == "kept\n"
    assert until(answers)
    assert pid == "1\n"


def test_the_daemon_is_started_again(engine, make):
    box = make()
    box.put("/workspace/kept", b"kept")
    engine.daemon.stop()
    engine.daemon.start()
    assert box.get("/workspace/kept") == b"kept"
    assert box.says("echo here") == "here\n"


def test_the_programs_were_removed(engine, make):
    """From Docker, behind our back: a start that fails brings them again."""
    box = make()
    box.do("stop")
    name = next(n for n in engine.docker("volume", "ls", "-q").split() if n.startswith("cay-tools-"))
    engine.docker("run", "--rm", "--network", "none", "-v", f"{name}:/t", "--entrypoint", "/bin/sh",
                  engine.docker("images", "-q", "cay").split()[0], "-c", "rm /t/enter /t/init")
    with contextlib.suppress(Refused):
        box.do("start")
    if box.info()["state"] != "started":
        box.do("start")
    assert box.says("echo here") == "here\n"


def test_a_container_of_another_machine_s_cay_stays(engine, make):
    """With the same state folder there: the label says which one it is."""
    make()
    name = "cay-00000000000000bb"
    engine.docker("create", "--network", "none", "--name", name, "--label", "cay.id=00000000000000bb",
                  "--label", f"cay.home=0123456789abcdef:{engine.daemon.state}",
                  engine.docker("images", "-q", "cay").split()[0], "true")
    try:
        engine.daemon.stop()
        engine.daemon.start()
        make()  # it has looked at what there is
        assert name in engine.docker("ps", "-a", "--format", "{{.Names}}")
    finally:
        engine.docker("rm", name)


# ---- where it is ----

def context(config, name, host, certs=None):
    """As `docker context create` writes it; and it is the current one."""
    digest = hashlib.sha256(name.encode()).hexdigest()
    meta = config / "contexts/meta" / digest
    meta.mkdir(parents=True)
    (meta / "meta.json").write_text(json.dumps(
        {"Name": name, "Metadata": {}, "Endpoints": {"docker": {"Host": host, "SkipTLSVerify": False}}}))
    if certs:
        tls = config / "contexts/tls" / digest / "docker"
        tls.mkdir(parents=True)
        for file in ("ca.pem", "cert.pem", "key.pem"):
            shutil.copy(certs / file, tls)
    (config / "config.json").write_text(json.dumps({"currentContext": name}))


def refused_start(state, **env):
    """What the daemon says, which ends at once."""
    done = subprocess.run([support.BUILD / "cayd", "--state-dir", state],
                          env={"PATH": "/usr/bin:/bin", "CAY_SANDBOX_ENGINE": "docker", **env},
                          stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode != 0
    return done.stderr.decode().splitlines()[-1]


def test_a_context_of_the_docker_command(engine, make, folder):
    context(folder, "far", engine.docker.far, engine.docker.certs)
    before = dict(engine.env)
    engine.daemon.stop()
    for name in ("DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        del engine.env[name]
    engine.env["DOCKER_CONFIG"] = str(folder)
    try:
        engine.daemon.start()
        assert make().says("echo by a context") == "by a context\n"
    finally:
        engine.daemon.stop()
        engine.env.clear()
        engine.env.update(before)
        engine.daemon.start()


def test_a_context_that_is_not_there(folder):
    said = refused_start(folder / "state", DOCKER_CONFIG=str(folder), DOCKER_CONTEXT="none")
    assert "no context 'none'" in said and "docker context ls" in said


def test_an_authority_that_is_not_trusted(engine, folder):
    certs = certificates(folder / "certs")
    said = refused_start(folder / "state", DOCKER_HOST=engine.docker.far, DOCKER_TLS_VERIFY="1",
                         DOCKER_CERT_PATH=str(certs))
    assert "no trust" in said and str(certs) in said


def test_without_tls(engine, folder):
    said = refused_start(folder / "state", DOCKER_HOST=engine.docker.far)
    assert "speaks TLS" in said and "DOCKER_TLS_VERIFY=1" in said


def test_tls_to_one_without(folder):
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        said = refused_start(folder / "state", DOCKER_TLS_VERIFY="1",
                             DOCKER_HOST=f"tcp://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert "does not speak TLS" in said and "DOCKER_TLS_VERIFY unset" in said
