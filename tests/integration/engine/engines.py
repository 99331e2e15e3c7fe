"""The engines that this machine has, for the conformance suite: each is a daemon with a state folder of
its own, says what it cannot do, and knows which images its sandboxes are made from."""

import contextlib
import functools
import json
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import podmand
import pytest
import support
from daemons import CAYD, Daemon
from dockerd import Docker, RemoteDocker, RunscDocker, client_program
from podmand import Podman
from images import write_archive, shell_image, silent_image

ACCOUNT = "nobody"
PROGRAMS = ("cay", "cay-image", "cay-launcher", "cayd")
GIVE_IDS = """printf '%s:2000000:65536\\n' "$0" > "$1/ids" && mount --bind "$1/ids" /etc/subuid &&
    mount --bind "$1/ids" /etc/subgid && shift && exec "$@" """

# What a case may need, and the wall of `cay doctor` that says whether it is there.
WALLS = {"memory": "memory limit", "cpu": "cpu limit", "pids": "process limit", "pause": "freezer",
         "ids": "id range"}

# The same of what it says about Docker.
LIMITS = {"memory": "memory limit", "cpu": "cpu limit", "pids": "process limit", "disk": "disk limit"}

# How an engine makes, limits and ends sandboxes; what runs in them is another's case.
LIFE_SAMPLE = {
    "test_exit_codes", "test_usable_after_a_timeout", "test_nothing_of_ours_is_left",
    "test_content_is_kept", "test_folders_both_ways", "test_stop_and_start_keep_files",
    "test_an_archive_keeps_what_was_written", "test_a_snapshot_starts_another", "test_stopping_twice_and_starting_twice", "test_a_stopped_sandbox_runs_nothing",
    "test_pause_holds_and_resume_goes_on", "test_removal", "test_removal_of_what_runs_needs_a_word",
    "test_the_daemon_comes_back_and_finds_it", "test_an_end_that_nobody_asked_for_is_told",
    "test_nothing_is_left", "test_a_failed_creation_leaves_nothing", "test_the_memory_limit_bites",
    "test_a_new_memory_limit", "test_the_process_limit_bites", "test_statistics",
    "test_a_read_only_root", "test_a_session_remembers", "test_ports_are_reached_from_outside",
    "test_a_volume_is_seen_live", "test_a_read_only_volume", "test_a_named_volume_is_shared",
    "test_an_image_without_any_shell", "test_an_image_is_not_changed", "test_the_hostname_is_its_own",
    "test_the_loopback_has_a_name",
    "test_work_dir_and_user_of_the_sandbox", "test_pid_1_cannot_be_killed",
    "test_capabilities_are_none", "test_no_new_privileges", "test_a_seccomp_filter",
    "test_the_usual_devices", "test_what_is_refused", "test_network_off_is_off"}


def sandbox_processes(daemon):
    """The process ids of every cay-init, which are PID 1 of sandboxes of this daemon."""
    found = set()
    for line in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if line.read_text() == "cay-init\n" and str(daemon.state) in \
                    (line.parent / "net/unix").read_text():
                found.add(line.parent.name)
    return found


class EngineDaemon(Daemon):
    """A daemon that its engine starts."""

    def __init__(self, folder, engine):
        self.engine = engine
        state = Path(folder) / "state"
        state.mkdir()
        engine.own(state)
        super().__init__(folder)

    def spawn(self, *options, **more):
        return subprocess.Popen(self.engine.command(CAYD.name, "--state-dir", self.state, *options),
                                env=self.engine.env, stdin=subprocess.DEVNULL, **more)


class Engine:
    """An engine of this machine. `cannot` maps what it cannot do to the reason; it is what the probe
    of the engine itself says, and a case that needs it is reported as left out."""

    name = ""
    tier = None  # what sandboxes ask for, if the default is too much
    # Of an engine that shares nearly all of its code with another: which cases say something about it
    # that the other's do not, each with its first value. None: all. CAY_ENGINES=NAME runs all too.
    sample = None

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="engine-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.undo = contextlib.ExitStack()
        self.undo.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(self.folder),
                    "CAY_MANAGER_VOLUME_ROOT_FOLDERS": "/tmp",
                    "CAY_MANAGER_POOL_SIZE": "0", "XDG_STATE_HOME": str(self.folder)}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
            if name in os.environ:
                self.env[name] = os.environ[name]
        self.cannot = {}
        self.daemon = None

    @classmethod
    def missing(cls):
        """Why this machine does not have the engine; empty if it has."""
        return "" if CAYD.exists() else "cayd is not built: ninja -C build"

    def start(self):
        self.cannot = self.probe()
        self.daemon = EngineDaemon(self.own(self.folder), self)
        self.undo.callback(self.end_daemon)
        self.undo.callback(self.daemon.clean_up)

    def end_daemon(self):
        """Whatever kept it from ending as it should."""
        if self.daemon.process.poll() is None:
            self.daemon.kill()

    def close(self):
        self.undo.close()

    def own(self, path):
        """Gives a file or folder to whoever runs the daemon."""
        return path

    def command(self, program, *args):
        """A program of ours, as whoever runs the daemon."""
        return [support.BUILD / program, *map(os.fsencode, map(str, args))]

    def cay(self, verb, *args, **more):
        """A verb of `cay` ("image load" is one), on the state folder of the daemon."""
        more.setdefault("timeout", 120)
        if "stdin" not in more:
            more.setdefault("input", b"")
        return subprocess.run(self.command("cay", *verb.split(), "--state-dir", self.daemon.state, *args),
                              env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

    def probe(self):
        return {}

    def traces(self):
        """What there is of sandboxes outside of the daemon's own books."""
        state = self.daemon.state
        return {str(p.relative_to(state)) for pattern in ("sandboxes/*", "daemon/run/*")
                for p in state.glob(pattern)} | sandbox_processes(self.daemon)

    # ---- images ----

    main = "host"  # with bash, python and the usual programs; what most cases use

    def need_images(self):
        if "images" in self.cannot:
            pytest.skip(f"{self.name} cannot: {self.cannot['images']}")

    @functools.cached_property
    def shell(self):
        """An image with busybox' sh and nothing of bash."""
        return self.load("engine-shell", shell_image(), Env=["FROM_IMAGE=yes", "PATH=/bin"])

    @functools.cached_property
    def silent(self):
        """An image without any shell: one program."""
        return self.load("engine-silent", silent_image(), Env=["PATH=/"])

    def load(self, name, layer, **config):
        self.need_images()
        path = self.folder / f"{name}.tar"
        write_archive(path, name, layer, **config)
        self.own(path)
        support.ok(self.cay("image load", "-i", path))
        return name


class NativeRoot(Engine):
    name = "native-root"

    @classmethod
    def missing(cls):
        return super().missing() or ("" if os.geteuid() == 0 else "only root can run it")

    def probe(self):
        done = subprocess.run(self.command("cay", "doctor", "-o", "json"), env=self.env,
                              stdout=subprocess.PIPE, timeout=60)
        found = json.loads(done.stdout)
        walls = {wall["name"]: wall for wall in found["walls"]}
        cannot = {what: walls[wall]["detail"] for what, wall in WALLS.items()
                  if not walls[wall]["ok"]}
        if not found["disk_limit"]["ok"]:
            cannot["disk"] = found["disk_limit"]["detail"]
        if support.is_sanitized():
            cannot["images"] = "a sanitized cay-init needs libraries of the host"
        return cannot


class NativeRootless(NativeRoot):
    """An ordinary user with subordinate ids, given in a mount namespace of the daemon's own."""

    name = "native-rootless"
    tier = "basic"
    sample = LIFE_SAMPLE if support.is_sanitized() else None

    @classmethod
    def missing(cls):
        if os.geteuid() != 0:
            return "only root can become another user"
        if shutil.which("newuidmap") is None or not Path("/etc/subuid").exists():
            return "no subordinate ids (package uidmap)"
        return super().missing()

    def __init__(self):
        super().__init__()
        self.programs = self.folder / "programs"
        self.programs.mkdir()
        for program in PROGRAMS:  # a home folder is closed to others
            shutil.copy(support.BUILD / program, self.programs)
        self.own(self.folder)

    def own(self, path):
        account = pwd.getpwnam(ACCOUNT)
        os.chown(path, account.pw_uid, account.pw_gid)
        return path

    def command(self, program, *args):
        words = [self.programs / program, *args]
        return ["unshare", "-m", "sh", "-c", GIVE_IDS, ACCOUNT, str(self.folder), "setpriv",
                f"--reuid={ACCOUNT}", "--regid=nogroup", "--clear-groups",
                *map(os.fsencode, map(str, words))]


class DockerEngine(Engine):
    """Containers of a private Docker daemon."""

    name = "docker"
    tier = "basic"
    main = "engine-shell"
    peer = Docker

    @classmethod
    def peer_missing(cls):
        if client_program() is None or shutil.which("dockerd") is None:
            return "docker.io is not installed: scripts/setup --test"
        return ""

    @classmethod
    def missing(cls):
        if os.geteuid() != 0:
            return "only root can run it"
        if cls.peer_missing():
            return cls.peer_missing()
        if support.is_sanitized():
            return "a sanitized cay-init needs libraries that images lack"
        return super().missing()

    def probe(self):
        done = subprocess.run(self.command("cay", "doctor", "-o", "json"), env=self.env,
                              stdout=subprocess.PIPE, timeout=60)
        found = {row["name"]: row for row in json.loads(done.stdout)["docker"]}
        cannot = {what: found[row]["detail"] for what, row in LIMITS.items() if not found[row]["ok"]}
        return {**cannot,
                "read-only-dev": "Docker's /dev is a small file system in memory, and writable",
                "host-image": "there is no host image in Docker"}

    def start(self):
        home = tempfile.mkdtemp(prefix="dockerd-", dir="/tmp")
        self.undo.callback(shutil.rmtree, home, ignore_errors=True)
        self.docker = self.peer(home)
        self.undo.callback(self.docker.stop)
        self.docker.start()
        self.env["CAY_SANDBOX_ENGINE"] = "docker"
        self.use(self.docker)
        super().start()
        assert self.shell == self.main

    def use(self, docker):
        """Tells the daemon where Docker is."""
        self.env["DOCKER_HOST"] = docker.address

    def traces(self):
        """Containers, and what is ours of them."""
        return super().traces() | set(self.docker("ps", "-aq").split()) | \
            {p.name for p in (self.daemon.state / "docker").iterdir()}


class DockerRemoteEngine(DockerEngine):
    """A Docker that is reached by TCP and TLS, and taken for one on another machine: nothing of this
    one can be shown there, and every operation goes by a stream of Docker's."""

    name = "docker-remote"
    peer = RemoteDocker
    sample = {  # what depends on streams, and on what is not mounted
        "test_exit_codes", "test_output_is_what_was_written", "test_every_byte_goes_in_and_comes_out",
        "test_streams_are_apart", "test_much_output", "test_input_ends_when_it_is_told",
        "test_a_program_that_reads_nothing", "test_usable_after_a_timeout",
        "test_hanging_up_ends_the_command", "test_typing", "test_commands_at_once",
        "test_nothing_of_ours_is_left", "test_execute", "test_content_is_kept", "test_names",
        "test_folders_both_ways", "test_stop_and_start_keep_files", "test_stop_gives_time_to_finish",
        "test_an_archive_keeps_what_was_written", "test_a_snapshot_starts_another",
        "test_pause_holds_and_resume_goes_on", "test_removal", "test_the_daemon_comes_back_and_finds_it",
        "test_an_end_that_nobody_asked_for_is_told", "test_nothing_is_left", "test_statistics",
        "test_a_failed_creation_leaves_nothing", "test_the_process_limit_bites", "test_a_read_only_root",
        "test_a_session_remembers", "test_ports_are_reached_from_outside", "test_a_volume_is_seen_live",
        "test_a_named_volume_is_shared", "test_a_named_volume_outlasts_its_sandbox",
        "test_an_image_without_any_shell", "test_work_dir_and_user_of_the_sandbox",
        "test_the_loopback_has_a_name", "test_capabilities_are_none", "test_a_seccomp_filter",
        "test_the_usual_devices",
        "test_network_off_is_off"}

    @classmethod
    def peer_missing(cls):
        if shutil.which("openssl") is None:
            return "openssl is not installed: scripts/setup --test"
        return super().peer_missing()

    def probe(self):
        return {**super().probe(),
                "host-folders": "folders of this machine are not on the other",
                "subpath": "Docker before 25 shows whole volumes only"}

    def start(self):
        self.env["DOCKER_TLS_VERIFY"] = "1"
        super().start()

    def use(self, docker):
        self.env.update(DOCKER_HOST=docker.far, DOCKER_CERT_PATH=str(docker.certs))


class DockerRunscEngine(DockerEngine):
    """Containers whose kernel is gVisor's, by [docker] runtime."""

    name = "docker-runsc"
    tier = "rootless"
    peer = RunscDocker
    # Its kernel is one process with cay-init as its root: whatever reaches a limit, or kills PID 1,
    # ends the sandbox. Its /proc has no CapAmb and NoNewPrivs. test_docker_runtime.py has these.
    sample = LIFE_SAMPLE - {"test_the_memory_limit_bites", "test_the_process_limit_bites",
                            "test_pid_1_cannot_be_killed", "test_capabilities_are_none",
                            "test_no_new_privileges"} | {
        "test_no_device_of_the_host", "test_no_socket_of_an_engine", "test_the_loopback_works",
        "test_two_sandboxes_do_not_see_each_other"}

    @classmethod
    def peer_missing(cls):
        if shutil.which("runsc") is None:
            return "gVisor's runsc is not installed: scripts/setup --test"
        return super().peer_missing()

    def probe(self):
        return {**super().probe(),
                "resize": "runsc cannot change the limits of what runs",
                "host-folders": "gVisor does not say whether a folder is the one that was checked",
                "subpath": "the same of a part of a volume"}

    def start(self):
        self.env["CAY_DOCKER_RUNTIME"] = "runsc"
        super().start()


class PodmanEngine(DockerEngine):
    """Containers of podman, by way of the API that it has in common with Docker."""

    name = "podman"
    peer = Podman
    sample = LIFE_SAMPLE

    @classmethod
    def peer_missing(cls):
        return podmand.why_missing()

    def probe(self):
        return {**super().probe(), "resize": "podman 4 cannot change the limits of a container"}


ENGINES = [NativeRoot, NativeRootless, DockerEngine, DockerRemoteEngine, DockerRunscEngine, PodmanEngine]
