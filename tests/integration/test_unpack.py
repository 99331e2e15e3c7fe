"""Layers over layers give the same tree as umoci makes of them: whiteouts, opaque folders, files
that become folders, hard links into layers below; by chance, but the same chance each time."""

import gzip
import random
import shutil
import subprocess
import tarfile

import pytest
from archives import Layout, change, difference, member, rootfs, tar, tree_of_folder, tree_of_tar
from support import as_root_only
from test_transfer import need_program, place  # noqa: F401

# Fixtures are found by their names.
# ruff: noqa: F811

pytestmark = [as_root_only, pytest.mark.skipif(shutil.which("umoci") is None,
                                               reason="umoci is not installed: scripts/setup")]

NAMES = ["a", "b", "c", "d"]


class Tree:
    """What is there after some layers: path -> "d", "f" or "l". Folders of names lead to others."""

    def __init__(self, seed):
        self.random, self.known = random.Random(seed), {}

    def path(self):
        return "/".join(self.random.choices(NAMES, k=self.random.randint(1, 4)))

    def remove(self, path):
        for name in [n for n in self.known if n == path or n.startswith(path + "/")]:
            del self.known[name]

    def parents(self, path):
        """The folders above; a file in the way has an entry of its own then."""
        parts = path.split("/")[:-1]
        for i in range(1, len(parts) + 1):
            above = "/".join(parts[:i])
            if self.known.get(above) != "d":
                self.remove(above)
                self.known[above] = "d"
                yield member(above, None, mode=self.random.choice([0o755, 0o700, 0o2775]),
                             uid=self.random.randrange(3), gid=self.random.randrange(3))

    def make(self, path):
        kind = self.random.choice("ddffflh")
        files = [n for n, k in self.known.items() if k == "f" and n != path
                 and not n.startswith(path + "/")]
        if kind == "h" and not files:
            kind = "f"
        if not (kind == "d" and self.known.get(path) == "d"):
            self.remove(path)
        self.known[path] = "f" if kind == "h" else kind
        if kind == "d":
            return member(path, None, mode=self.random.choice([0o755, 0o711]), uid=7)
        if kind == "l":
            return member(path, type=tarfile.SYMTYPE, linkname=self.path(), mode=0o777)
        if kind == "h":
            return member(path, type=tarfile.LNKTYPE, linkname=self.random.choice(files))
        return member(path, self.random.randbytes(self.random.randrange(2000)),
                      mode=self.random.choice([0o644, 0o4755]), uid=self.random.randrange(99))

    def layer(self):
        """Whiteouts come first, as tools write them."""
        members = []
        for path in {self.path() for _ in range(3)} & set(self.known):
            folder, _, name = path.rpartition("/")
            if path in self.known:
                members.append(member(f"{folder}/.wh.{name}".lstrip("/")))
                self.remove(path)
        folders = [n for n, k in self.known.items() if k == "d"]
        if folders:
            folder = self.random.choice(folders)
            members.append(member(f"{folder}/.wh..wh..opq"))
            self.remove(folder)
            self.known[folder] = "d"
        for _ in range(8):
            path = self.path()
            members += [*self.parents(path), self.make(path)]
        return tar(*members)


def without_links(tree):
    """A layer that links to a file of another brings its own copy, as with Docker's overlays: the
    names in the other keep theirs."""
    return {name: {**entry, "links": ()} for name, entry in tree.items()}


def compare(place, layers):
    layout = Layout()
    layout.entries = [layout.manifest(*layers, pack=gzip.compress, annotations={
        "org.opencontainers.image.ref.name": "latest"})]
    source = layout.write(place.top / "layout")
    done = subprocess.run(["umoci", "unpack", "--image", f"{source}:latest", place.top / "bundle"],
                          capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    [image] = place.json("load", "-i", source)
    ours = tree_of_tar(place.output("export", image["id"]))
    theirs = tree_of_folder(place.top / "bundle/rootfs")
    assert difference(without_links(ours), without_links(theirs)) == {}


@pytest.mark.parametrize("seed", range(12))
def test_same_tree_as_umoci(place, seed):
    tree = Tree(seed)
    compare(place, [tree.layer() for _ in range(6)])


def test_every_kind_as_umoci(place):
    compare(place, [rootfs(), change(), change()])
