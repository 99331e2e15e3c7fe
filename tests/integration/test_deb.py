"""The Debian packages: installed, used, upgraded, removed and purged on a copy of this machine's root."""

import shutil
import subprocess
import textwrap

import pytest
import support

pytestmark = support.as_root_only

# An overlay over this machine's root, in a mount namespace: what dpkg does to it is gone afterwards.
INSIDE = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$SCRATCH"
mkdir "$SCRATCH/upper" "$SCRATCH/work" "$SCRATCH/root"
mount -t overlay -o "lowerdir=/,upperdir=$SCRATCH/upper,workdir=$SCRATCH/work" overlay "$SCRATCH/root"
cd "$SCRATCH/root"
for name in proc sys dev; do mount --rbind /$name $name; done
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs var/lib/cay 2>/dev/null || { mkdir -p var/lib/cay; mount -t tmpfs tmpfs var/lib/cay; }
mkdir -p packages old
mount --bind "$PACKAGES" packages
pivot_root . old
cd /
umount -l /old
rm -rf /usr/local/bin/cay /usr/local/libexec/cay
exec sh -ec "$SCRIPT"
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    support.need_cay()
    if support.is_sanitized():
        pytest.skip("only release builds are packaged")
    for tool in ("dpkg-shlibdeps", "dpkg-deb", "meson"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: scripts/setup --package")
    folder = tmp_path_factory.mktemp("packages")
    done = subprocess.run([support.ROOT / "packaging/make-deb", support.BUILD, folder],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def inside(packages, tmp_path, script):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
           "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive",
           "SCRATCH": str(scratch), "PACKAGES": str(packages), "SCRIPT": textwrap.dedent(script)}
    done = subprocess.run(["unshare", "--mount", "sh", "-c", INSIDE], env=env, capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def version():
    return (support.ROOT / "VERSION").read_text().strip()


def test_packages_name_what_they_need(packages):
    assert sorted(p.name.split("_")[0] for p in packages.iterdir()) == ["cay", "libcay-dev"]
    [package] = packages.glob("cay_*.deb")
    shown = subprocess.run(["dpkg-deb", "--field", package], capture_output=True, text=True, check=True).stdout
    assert f"Version: {version()}\n" in shown
    for library in ("libc6", "libsqlite3-0", "libmicrohttpd12", "e2fsprogs"):
        assert library in shown
    listed = subprocess.run(["dpkg-deb", "--contents", package], capture_output=True, text=True, check=True).stdout
    assert all(line.split()[1] == "root/root" for line in listed.splitlines())
    assert "/usr/local" not in listed and "libcay.a" not in listed


def test_installed_used_and_purged(packages, tmp_path):
    out = inside(packages, tmp_path, """
        find /usr /etc /var/lib/cay | sort >/before
        dpkg --force-depends -i /packages/*.deb >/dev/null
        cay version
        cay run --tier basic -- echo from a sandbox
        cay create --name lab >/dev/null && cay exec lab -- echo persistent
        pid=$(cut -d' ' -f1 /var/lib/cay/daemon/lock)
        test "$(readlink /proc/$pid/exe)" = /usr/libexec/cay/cayd
        python3 -c 'import cay; cay.Sandbox'
        test -e /usr/share/man/man1/cay.1.gz -a -e /usr/share/bash-completion/completions/cay
        grep -q ExecStart=/usr/libexec/cay/cayd /usr/lib/systemd/system/cayd.service
        pkg-config --modversion cay
        getent passwd cay || test ! -x /usr/bin/systemd-sysusers
        dpkg -r libcay-dev cay >/dev/null
        test ! -e /proc/$pid && echo the daemon has ended
        test -e /etc/cay/config.toml -a -d /var/lib/cay/sandboxes && echo files stay
        dpkg -P cay >/dev/null 2>&1
        find /usr /etc /var/lib/cay 2>/dev/null | grep -v -e '^/etc/.*-$' -e '^/var/lib/cay$' | sort >/after
        grep -v -e '^/etc/.*-$' -e '^/var/lib/cay$' /before | diff - /after && echo nothing is left
        """)
    for line in (f"cay {version()}", "from a sandbox", "persistent", "the daemon has ended", "files stay",
                 "nothing is left"):
        assert f"{line}\n" in out, out


def test_an_upgrade_keeps_sandboxes(packages, tmp_path):
    """The files of a sandbox and the sandbox itself outlive the packages that made it."""
    out = inside(packages, tmp_path, """
        dpkg --force-depends -i /packages/cay_*.deb >/dev/null
        cay create --name lab >/dev/null && cay exec lab -- sh -c 'echo kept >/workspace/file'
        echo '# mine' >>/etc/cay/config.toml
        dpkg --force-depends -i /packages/cay_*.deb >/dev/null
        cay exec lab -- cat /workspace/file
        tail -n 1 /etc/cay/config.toml
        cay rm -f lab >/dev/null
        dpkg -P cay >/dev/null
        """)
    assert "kept\n" in out and "# mine\n" in out, out
