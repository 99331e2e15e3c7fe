"""Small images for the conformance suite, as archives that `cay image load` and `docker load` read."""

import subprocess
import tarfile
from pathlib import Path

import pytest
from archives import config, member, sha, tar, text

BUSYBOX = Path("/bin/busybox")
def applets():
    """The names of all that busybox is."""
    done = subprocess.run([BUSYBOX, "--list"], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.split()


def shell_image():
    """A layer with busybox, accounts and the usual folders; no bash."""
    if not BUSYBOX.exists():
        pytest.skip("busybox-static is not installed: scripts/setup --test")
    folders = [member(f"{d}/", None) for d in ("bin", "etc", "home", "var", "usr", "root")]
    links = [member(f"bin/{n}", type=tarfile.SYMTYPE, linkname="busybox", mode=0o777)
             for n in applets() if n != "busybox"]
    return tar(*folders, member("tmp/", None, mode=0o1777),
               member("bin/busybox", BUSYBOX.read_bytes(), mode=0o755), *links,
               member("etc/passwd", b"root:x:0:0::/root:/bin/sh\nann:x:1000:1001::/home:/bin/sh\n"),
               member("etc/group", b"root:x:0:\nstaff:x:1001:\nwheel:x:77:ann\n"))


def silent_image():
    """One program, which is no shell and has no name of one."""
    if not BUSYBOX.exists():
        pytest.skip("busybox-static is not installed: scripts/setup --test")
    return tar(member("echo", BUSYBOX.read_bytes(), mode=0o755))


def write_archive(path, name, layer, **more):
    """Writes an archive as `docker save` does."""
    about = config(layer, config=more)
    entry = {"Config": sha(about) + ".json", "RepoTags": [f"{name}:latest"],
             "Layers": ["layer/layer.tar"]}
    path.write_bytes(tar(member("layer/layer.tar", layer), member(sha(about) + ".json", about),
                         member("manifest.json", text([entry]))))
