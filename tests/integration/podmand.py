"""A podman that serves Docker's API on a private socket, with its own storage. It leaves nothing."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from dockerd import remove_groups, unmount_below


class Podman:
    """podman("ps", "-aq") gives what it printed."""

    def __init__(self, home):
        self.home = Path(home)
        self.address = f"unix://{self.home}/socket"
        self.service = None
        self.argv = ["podman", "--root", str(self.home / "root"), "--runroot",
                     str(self.home / "run"), "--tmpdir", str(self.home / "tmp"),
                     "--cgroup-manager=cgroupfs", "--events-backend=file",
                     "--runtime", "runc"]  # crun knows no host with both cgroup versions

    def start(self):
        with open(self.home / "log", "ab") as log:
            self.service = subprocess.Popen([*self.argv, "system", "service", "--time=0",
                                             self.address], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, cwd=self.home)  # conmon leaves files there
        deadline = time.monotonic() + 60
        while not (self.home / "socket").exists():
            if self.service.poll() is not None or time.monotonic() > deadline:
                pytest.skip("podman does not serve here: " +
                            repr((self.home / "log").read_text(errors="replace")[-200:]))
            time.sleep(0.05)

    def stop(self):
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            self("rm", "-af")
        if self.service is not None and self.service.poll() is None:
            self.service.send_signal(signal.SIGTERM)
            try:
                self.service.wait(60)
            except subprocess.TimeoutExpired:
                self.service.kill()
                self.service.wait()
        unmount_below(self.home)
        remove_groups("libpod_parent")  # as far as they are empty

    def __call__(self, *args):
        done = subprocess.run([*self.argv, *map(str, args)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120,
                              env={"PATH": os.environ["PATH"], "HOME": str(self.home)})
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout.decode(errors="replace")


def why_missing():
    return "" if shutil.which("podman") else "podman is not installed: scripts/setup --test"
