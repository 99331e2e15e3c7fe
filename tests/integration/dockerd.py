"""A real Docker daemon for tests: Debian's, on a private socket with its own data folder, without
network. It leaves nothing: no process, mount, control group or file.

    from dockerd import docker  # noqa: F401  (a fixture of the module that imports it)

    def test_it(docker):
        docker.load(archive)
        docker("run", "--rm", "--network", "none", "name", "true")
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
import support
from daemons import free_port

# Folders that the daemon makes in spite of its options.
RUN_FOLDERS = ("/run/docker/plugins", "/run/docker", "/run/containerd/s", "/run/containerd")


def client_program():
    """The client of the distribution, which fits its daemon."""
    return next((p for p in ("/usr/bin/docker", shutil.which("docker"))
                 if p and os.access(p, os.X_OK)), None)


def unmount_below(folder):
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for path in sorted((m for m in mounts if m.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", path], check=False)


def remove_groups(name):
    """Removes the control groups of the containers, which are empty now."""
    tops = [Path(base) / name for base in ("/sys/fs/cgroup", *Path("/sys/fs/cgroup").glob("*"))]
    for top in filter(Path.is_dir, tops):
        for path, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(path)


class Docker:
    """Calls the client: docker("images", "-q") gives what it printed."""

    def __init__(self, home):
        self.home = Path(home)
        self.group = f"test-dockerd-{os.getpid()}"
        self.address = f"unix://{self.home}/socket"
        self.daemon = None
        self.made = [f for f in RUN_FOLDERS if not os.path.exists(f)]

    def options(self):
        """More of them, for those who want more."""
        return []

    prefix = ()  # the words before it, for one elsewhere
    network = ("--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false",
               "--ip-masq=false")

    def start(self):
        with open(self.home / "log", "ab") as log:
            self.daemon = subprocess.Popen(
                [*self.prefix, "dockerd", "--host", self.address, *self.options(), "--data-root", self.home / "data",
                 "--exec-root", self.home / "exec", "--pidfile", self.home / "pid",
                 *self.network, "--exec-opt", "native.cgroupdriver=cgroupfs",
                 "--cgroup-parent", f"/{self.group}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while self.client("version").returncode != 0:
            if self.daemon.poll() is not None or time.monotonic() > deadline:
                pytest.skip("dockerd does not start here: " +
                            repr((self.home / "log").read_text(errors="replace")[-200:]))
            time.sleep(0.2)

    def stop_daemon(self):
        """Ends it, and with it what runs; start() brings it back."""
        if self.daemon is not None and self.daemon.poll() is None:
            self.daemon.send_signal(signal.SIGTERM)
            try:
                self.daemon.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()

    def stop(self):
        self.stop_daemon()
        unmount_below(self.home)
        remove_groups(self.group)
        for folder in self.made:
            with contextlib.suppress(OSError):
                os.rmdir(folder)

    def kill(self):
        """The daemon, and the containerd that it would have ended."""
        self.daemon.kill()
        self.daemon.wait()
        with contextlib.suppress(OSError, ValueError):
            pid = (self.home / "exec/containerd/containerd.pid").read_text()
            os.kill(int(pid), signal.SIGKILL)

    def client(self, *args, **more):
        """The finished process, whatever its exit code."""
        more.setdefault("timeout", 300)
        if "stdout" not in more:
            more["capture_output"] = True
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "DOCKER_BUILDKIT": "0"}
        return subprocess.run([client_program(), "-H", self.address, *map(str, args)], env=env,
                              **more)

    def __call__(self, *args, **more):
        """What it printed; it must succeed."""
        result = self.client(*args, **more)
        assert result.returncode == 0, (result.stdout or b"").decode(errors="replace") + \
            (result.stderr or b"").decode(errors="replace")
        return (result.stdout or b"").decode(errors="replace")

    def save(self, archive, *names):
        self("save", "-o", archive, *names)

    def load(self, archive):
        return self("load", "-i", archive)

    def export(self, image, tar):
        """The root file system of an image, as a tar."""
        container = self("create", "--network", "none", image, "/none").strip()
        try:
            self("export", "-o", tar, container)
        finally:
            self("rm", container)


def certificates(folder):
    """An authority, and what it says of a server at 127.0.0.1 and of a client: the files that
    dockerd and the docker command want."""
    folder.mkdir()

    def run(*args, **more):
        subprocess.run(["openssl", *args], cwd=folder, check=True, capture_output=True, **more)

    run("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test authority",
        "-keyout", "ca-key.pem", "-out", "ca.pem")
    for name, use in (("server", "serverAuth"), ("client", "clientAuth")):
        key, cert = ("key.pem", "cert.pem") if name == "client" else ("server-key.pem", "server-cert.pem")
        run("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", key,
            "-out", f"{name}.csr")
        (folder / f"{name}.ext").write_text(f"subjectAltName=IP:127.0.0.1\nextendedKeyUsage={use}\n")
        run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca-key.pem",
            "-CAcreateserial", "-days", "2", "-out", cert, "-extfile", f"{name}.ext")
    return folder


class RemoteDocker(Docker):
    """One that listens on TCP of the loopback too, with TLS, and takes those who have a certificate.
    `address` stays its unix socket, for the tests' own use."""

    def __init__(self, home):
        super().__init__(home)
        self.certs = certificates(self.home / "certs")
        self.far = f"tcp://127.0.0.1:{free_port()}"

    def options(self):
        return ["--host", self.far, "--tlsverify", "--tlscacert", self.certs / "ca.pem",
                "--tlscert", self.certs / "server-cert.pem", "--tlskey", self.certs / "server-key.pem"]


class RuntimesDocker(Docker):
    """One that knows runtimes besides its own: {name: program and arguments}."""

    runtimes = {}

    def options(self):
        config = self.home / "daemon.json"
        config.write_text(json.dumps({"runtimes": {
            name: {"path": words[0], "runtimeArgs": list(words[1:])}
            for name, words in self.runtimes.items()}}))
        return ["--config-file", config]


class RunscDocker(RuntimesDocker):
    """One with gVisor; without hardware of its own, as machines in the cloud are."""

    runtimes = {"runsc": (shutil.which("runsc") or "runsc", "--platform=ptrace", "--network=none")}


def need_dockerd():
    if support.USER or os.geteuid() != 0:
        pytest.skip("dockerd needs root")
    if client_program() is None or shutil.which("dockerd") is None:
        pytest.skip("docker.io is not installed: scripts/setup")


@pytest.fixture(scope="module")
def docker():
    """A daemon for the tests of a module."""
    need_dockerd()
    # not named after cay: what has our name is looked for as a leftover
    home = tempfile.mkdtemp(prefix="dockerd-", dir="/tmp")
    instance = Docker(home)
    try:
        instance.start()
        yield instance
    finally:
        instance.stop()
        shutil.rmtree(home, ignore_errors=True)
