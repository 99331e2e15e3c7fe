"""Section E of the checklist, as far as `cay run` goes: what a volume opens of the host, and what
the mount table tells."""

import io
import json
import os
import shutil
import socket
import tarfile
from pathlib import Path

import pytest

import support
from inside import code, probe
from support import as_root_only, own, refused


def test_e1_links_in_a_volume_lead_into_the_sandbox(folder):
    """Symlinks in a volume, absolute or climbing, end inside the sandbox, whoever follows them;
    the host's files stay unread and unwritten."""
    secret = folder / "outside"
    secret.write_text("host")
    own(secret)
    volume = folder / "volume"
    volume.mkdir()
    own(volume)
    up = "../" * 40
    links = {"absolute": str(secret), "climbing": up + str(secret)[1:], "beside": "../outside",
             "root": "/", "host": f"/proc/self/root{secret}", "parent": ".."}
    for name, target in links.items():
        (volume / name).symlink_to(target)
    seen = probe("""
        report["read"] = [opens("/v/" + n) for n in ("absolute", "climbing", "beside", "host")]
        report["write"] = [attempt(put, "/v/" + n, "x") for n in ("absolute", "climbing", "host")]
        report["root"] = os.path.samefile("/v/root", "/")
        report["parent"] = os.path.samefile("/v/parent", "/")
        os.chdir("/v")
        for _ in range(10):
            os.chdir("..")
        report["up"] = os.path.samefile(".", "/")
        report["hardlink"] = attempt(os.link, "/v/absolute", "/tmp/x")
        report["rename"] = attempt(os.rename, "/v/parent", "/tmp/y")
        """, "-v", f"{volume}:/v")
    assert set(seen["read"]) | set(seen["write"]) == {"ENOENT"}, seen
    assert seen["root"] and seen["parent"] and seen["up"]
    assert seen["hardlink"] == seen["rename"] == "EXDEV"
    assert secret.read_text() == "host"


def test_e1_a_folder_moved_out_of_a_volume_is_no_way_out(folder):
    """A process that stands in a folder while the host moves it out of the volume cannot climb
    from there to what lies beside it."""
    deep = folder / "volume" / "deep"
    deep.mkdir(parents=True)
    own(deep.parent)
    own(deep)
    (folder / "secret").write_text("host")
    process = support.start("run", *support.TIER, "-v", f"{deep.parent}:/v", "--", *code("""
        os.chdir("/v/deep")
        print("ready", flush=True)
        sys.stdin.readline()
        report["up"] = [opens("../" * n + "secret") for n in range(1, 9)]
        """))
    with process:
        assert process.stdout.readline() == b"ready\n"
        deep.rename(folder / "deep")
        out, err = process.communicate(b"\n", timeout=60)
    assert set(json.loads(out)["up"]) == {"ENOENT"}, (out, err)


TARGETS = {
    "/": "cover the root",
    "//": "cover the root",
    "/x/..": "'..'",
    "/proc": "/proc, /dev or /sys",
    "/proc/self/root": "/proc, /dev or /sys",
    "/x/../proc/1": "'..'",
    "/dev": "/proc, /dev or /sys",
    "/dev/shm/x": "/proc, /dev or /sys",
    "/sys/fs": "/proc, /dev or /sys",
    "/bin/x": "symlink",
    "/lib64/y": "symlink",
    "relative": "absolute",
    "/usr/new": "choose a target",
}


@pytest.mark.parametrize("target", TARGETS)
def test_e2_targets_that_are_refused(target, folder):
    """A target that covers the root or the kernel's folders, goes through a symlink of the image,
    or would have to be made where the sandbox cannot write, is refused with a reason."""
    refused(support.run("-v", f"{folder}:{target}", "--", "true"), TARGETS[target])


def test_e2_a_target_through_a_planted_link_is_refused(folder):
    """A symlink that an earlier sandbox left in one volume does not lead the mount of another
    anywhere: not to the host's folder, not to another of the sandbox."""
    trap, volume, outside = (folder / name for name in ("trap", "volume", "outside"))
    for path in (trap, volume, outside):
        path.mkdir()
        own(path)
    (trap / "host").symlink_to(outside)
    (trap / "etc").symlink_to("/etc")
    (trap / "up").symlink_to("../../..")
    (trap / "file").symlink_to(outside / "made")
    for link in ("host/x", "host", "etc/x", "etc", "up/x"):
        refused(support.run("-v", f"{trap}:/t", "-v", f"{volume}:/t/{link}", "--", "true"),
                "symlink")
    (volume / "f").write_text("x")
    refused(support.run("-v", f"{trap}:/t", "-v", f"{volume}/f:/t/file", "--", "true"))
    assert list(outside.iterdir()) == []


SOURCES = {
    "relative": "absolute",
    "/no/such/folder": "create the host folder",
    "/dev/null": "neither a folder nor a regular file",
    "/dev/zero": "neither a folder nor a regular file",
}


@pytest.mark.parametrize("source", SOURCES)
def test_e2_sources_that_are_refused(source):
    """No device, and nothing that does not exist, becomes a volume."""
    refused(support.run("-v", f"{source}:/x", "--", "true"), SOURCES[source])


def test_e2_a_fifo_or_socket_is_no_volume(folder):
    """Nor does anything that could block cay or talk to a service of the host."""
    os.mkfifo(folder / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        for name in ("fifo", "socket"):
            refused(support.run("-v", f"{folder / name}:/x", "--", "true"),
                    "neither a folder nor a regular file")


def test_e3_read_only_is_read_only(folder):
    """Nothing in a read-only volume changes: not content, names, modes, times or attributes; not
    through a descriptor opened again; and it cannot be mounted otherwise."""
    file = folder / "file"
    file.write_text("host")
    own(file)
    before = file.stat()
    seen = probe("""
        held = os.open("/v/file", os.O_RDONLY)
        report["open"] = [opens("/v/file", f) for f in (os.O_WRONLY, os.O_RDWR, os.O_TRUNC,
                                                       os.O_RDWR | os.O_APPEND)]
        report["again"] = opens(f"/proc/self/fd/{held}", os.O_RDWR)
        report["make"] = [opens("/v/new", os.O_WRONLY | os.O_CREAT), attempt(os.mkdir, "/v/d"),
                          attempt(os.symlink, "x", "/v/l"), attempt(os.mkfifo, "/v/p"),
                          attempt(os.link, "/v/file", "/v/h"),
                          opens("/v", os.O_TMPFILE | os.O_RDWR)]
        report["change"] = [attempt(os.chmod, "/v/file", 0o777), attempt(os.utime, "/v/file"),
                            attempt(os.truncate, "/v/file", 0), attempt(os.unlink, "/v/file"),
                            attempt(os.rename, "/v/file", "/v/x"),
                            attempt(os.setxattr, "/v/file", "user.x", b"y"),
                            attempt(os.chown, "/v/file", os.getuid(), os.getgid())]
        report["ioctl"] = [syscall(16, held, 0x40086602, struct.pack("<q", 16)),
                           syscall(16, held, 0x401c5820, bytes(28))]
        report["mount"] = [libc.mount(None, b"/v", None, 32 | 4096, None)]
        """, "-v", f"{folder}:/v:ro")
    denied = {"EROFS", "EPERM", "EACCES", "ENOTTY", "EOPNOTSUPP"}
    for key in ("open", "make", "change", "ioctl"):
        assert set(seen[key]) <= denied, (key, seen[key])
    assert seen["again"] in denied and seen["mount"] == [-1]
    after = file.stat()
    assert file.read_text() == "host" and os.listdir(folder) == ["file"]
    assert (before.st_mode, before.st_mtime_ns) == (after.st_mode, after.st_mtime_ns)


@pytest.mark.parametrize("profile", ["strict", "build"])
def test_e5_no_devices_no_capabilities_on_the_host(profile, folder):
    """Through a writable volume a sandbox leaves no device node, no file capability and no trusted
    attribute on the host, and gives no file away."""
    seen = probe("""
        put("/v/f", "x")
        capability = struct.pack("<5I", 0x02000001, 0xffffffff, 0, 0, 0)
        report["xattr"] = [attempt(os.setxattr, "/v/f", n, v) for n, v in
                           (("security.capability", capability), ("trusted.overlay.opaque", b"y"),
                            ("trusted.x", b"y"))]
        report["node"] = [attempt(os.mknod, f"/v/n{k}", m | 0o666, os.makedev(1, 1))
                          for k, m in enumerate((stat.S_IFCHR, stat.S_IFBLK))]
        report["chown"] = [attempt(os.chown, "/v/f", i, i) for i in (1, 1000, 65533)]
        """, "-v", f"{folder}:/v", "--profile", profile)
    assert set(seen["xattr"] + seen["node"]) <= {"EPERM", "EOPNOTSUPP", "EINVAL"}, seen
    shares_ids = support.USER and not support.SINGLE_ID  # they are all the user's own
    assert shares_ids or "ok" not in seen["chown"]
    assert os.listdir(folder) == ["f"] and os.listxattr(folder / "f") == []
    owner = folder.stat()
    made = (folder / "f").stat()
    assert (made.st_uid, made.st_gid) == (owner.st_uid, owner.st_gid)


SET_ID = """
    import subprocess
    os.umask(0)
    os.chdir(sys.argv[1])
    report["control"] = attempt(lambda: put("plain", "x"))
    held = os.open("plain", os.O_RDWR)
    at, plain = os.open(".", os.O_RDONLY), b"plain"
    make = os.O_CREAT | os.O_WRONLY
    how = struct.pack("<3Q", make, 0o4755, 0)
    modes = (0o4755, 0o2755, 0o6755, 0o7777)
    report["change"] = [f(m) for m in modes for f in (
        lambda m: attempt(os.chmod, "plain", m), lambda m: attempt(os.fchmod, held, m),
        lambda m: syscall(268, at, plain, m), lambda m: syscall(452, at, plain, m, 0),
        lambda m: syscall(90, plain, m | 0x7fff << 32), lambda m: syscall(91, held, m | 1 << 16))]
    report["make"] = [f(m) for m in modes for f in (
        lambda m: attempt(os.open, f"open{m}", make, m), lambda m: syscall(2, b"o2", make, m),
        lambda m: syscall(85, b"creat", m), lambda m: attempt(os.mkdir, f"dir{m}", m),
        lambda m: syscall(258, at, b"dirat", m),
        lambda m: attempt(os.mknod, f"node{m}", m | stat.S_IFREG),
        lambda m: attempt(os.mknod, f"fifo{m}", m | stat.S_IFIFO),
        lambda m: attempt(os.open, ".", os.O_TMPFILE | os.O_RDWR, m),
        lambda m: syscall(2, b".", 0o20000000 | os.O_RDWR, m))]
    report["openat2"] = syscall(437, at, b"o3", how, 24)
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", t, 0o6007, 0xffffffff)
                                          for t in (1, 4, 32))
    report["acl"] = attempt(os.setxattr, "plain", "system.posix_acl_access", acl)
    report["tools"] = [subprocess.run(c, shell=True, capture_output=True).returncode != 0 for c in (
        "chmod u+s plain", "chmod g+s plain", "chmod 4755 plain", "install -m 4755 /bin/true done",
        "mkdir -m 2755 made", "cp -p /tmp/in/own copied", "cp -a /tmp/in archived",
        "tar xpf /tmp/in.tar", "mv /tmp/in/own moved", "mkdir d && chmod g+s d")]
    """


def set_id_files(folder):
    """Whatever in the folder has a set-id bit."""
    paths = [os.path.join(at, name) for at, *names in os.walk(folder) for name in sum(names, [])]
    return [path for path in paths if os.lstat(path).st_mode & 0o6000]


def give_set_id_files(folder):
    """An archive and a folder with a set-user-id and a set-group-id program in it."""
    given = folder / "in"
    given.mkdir()
    with tarfile.open(folder / "in.tar", "w") as archive:
        for name, mode in (("user", 0o4755), ("group", 0o2755)):
            member = tarfile.TarInfo(name)
            member.mode, member.size = mode, 2
            archive.addfile(member, io.BytesIO(b"#!"))
    (given / "own").write_text("#!")
    for path in (given, given / "own", folder / "in.tar"):
        own(path)
    (given / "own").chmod(0o6755)
    return "-v", f"{given}:/tmp/in:ro", "-v", f"{folder / 'in.tar'}:/tmp/in.tar:ro"


@pytest.mark.parametrize("profile", ["strict", "build"])
def test_e10_no_set_id_file_on_the_host(profile, folder):
    """Content of a sandbox's choice in a folder of the host never becomes a program that runs as
    the folder's owner or group: no call and no tool sets these bits, however it spells them."""
    volume = folder / "volume"
    volume.mkdir()
    own(volume)
    given = give_set_id_files(folder)
    seen = probe(SET_ID, "-v", f"{volume}:/v", *given, "--profile", profile, args=["/v"])
    assert seen["control"] == "ok"
    # some file systems and kernels do not have some of these calls at all
    assert set(seen["change"] + seen["make"]) <= {"EPERM", "ENOSYS", "EOPNOTSUPP"}, seen
    assert seen["openat2"] == "ENOSYS" and seen["acl"] != "ok"
    assert all(seen["tools"]), seen["tools"]
    assert set_id_files(volume) == []
    assert (volume / "plain").exists() and (volume / "user").exists()


def test_e10_not_by_a_second_volume(folder):
    """One writable volume is enough for the rule, in whatever place it is among others; without
    one the bits mean nothing to the host and can be set."""
    for name in ("a", "b", "c"):
        (folder / name).mkdir()
        own(folder / name)
    read_only = ["-v", f"{folder}/a:/a:ro", "-v", f"{folder}/b:/b:ro"]
    chmod = 'report["chmod"] = attempt(lambda: (put("/tmp/f", ""), os.chmod("/tmp/f", 0o4755)))'
    assert probe(chmod)["chmod"] == "ok"
    assert probe(chmod, *read_only)["chmod"] == "ok"
    assert probe(chmod, *read_only, "-v", f"{folder}/c:/c")["chmod"] == "EPERM"
    assert probe(chmod, "-v", f"{folder}/c:/c", *read_only)["chmod"] == "EPERM"


def test_e10_what_was_set_before_is_lost_by_writing(folder):
    """A set-id program that the owner left in a volume loses its bits when it is written to."""
    program = folder / "program"
    program.write_text("host")
    own(program)
    program.chmod(0o6755)
    support.ok(support.sh("echo changed > /v/program", "-v", f"{folder}:/v"))
    assert program.read_text() == "changed\n" and set_id_files(folder) == []


WORK = {
    "git": """git config --global user.email a@b; git config --global user.name n
              git init -q a; cd a; echo 1 > f; chmod +x f; git add f; git commit -qm one; cd ..
              git clone -q a b; cd b; echo 2 > f; git commit -qam two; git push -q origin @:two
              git gc -q; git fsck; test $(git log --oneline | wc -l) = 2""",
    "tar": "mkdir -p t/u && echo x > t/u/f && chmod 750 t/u && tar cf t.tar t && rm -r t && "
           "tar xpf t.tar && test $(stat -c %a t/u) = 750",
    "gcc": "echo 'int main(void) { return 7; }' > m.c && gcc m.c -o m && { ./m || test $? = 7; }",
    "python3": "python3 -m venv --without-pip e && e/bin/python3 -c 'import ssl'",
    "npm": """mkdir -p p/lib && cd p && echo '{"name": "p", "version": "1.0.0", "bin": "x.js"}' \
              > package.json && echo '#!/usr/bin/env node' > x.js && npm pack --silent &&
              cd .. && mkdir q && cd q && npm install --offline --silent ../p/p-1.0.0.tgz &&
              test -x node_modules/p/x.js""",
    "cp": "mkdir -p s/t && touch s/f && mkfifo s/p && chmod 1777 s/t && cp -a s r && "
          "test $(stat -c %a r/t) = 1777 && mv r z && mv z /tmp/z && mv /tmp/z y && rm -r s y",
    "touch": """mkdir m; cd m; for i in $(seq 100); do mkdir $i; for j in 1 2 3 4 5 6 7 8 9; do
                echo $i > $i/$j; done; done; test $(find . -type f | wc -l) = 900
                chmod -R go-w .; find . -type f -name 5 -delete; rm -rf ../m""",
    "install": "echo x > i && install -D -m 755 i bin/i && test -x bin/i && ln bin/i h",
}


@pytest.mark.parametrize("tool", WORK)
def test_e10_ordinary_work_on_a_volume(tool, folder):
    """What is refused is in nobody's way."""
    if shutil.which(tool, path="/usr/local/bin:/usr/bin") is None:
        pytest.skip(f"{tool} is not in this host's /usr")
    support.ok(support.sh("set -e; cd /v; export HOME=/tmp; " + WORK[tool], "-v", f"{folder}:/v",
                          "--pids", "200"))


@as_root_only
def test_e8_names_from_outside_are_ids_of_nobody(folder):
    """Files of other owners in a volume show as nobody's, so that a sandbox learns and gets nothing
    by having an id with the same number."""
    for uid in (0, 1, 1000, 1234, 0x70000000):
        (folder / str(uid)).write_text("x")
        (folder / str(uid)).chmod(0o600)
        os.chown(folder / str(uid), uid, uid)
    os.chown(folder, 1234, 1234)
    for user in ("0", "1000"):
        seen = probe("""
            for name in os.listdir("/v"):
                report[name] = [os.stat("/v/" + name).st_uid, opens("/v/" + name)]
            """, "-v", f"{folder}:/v", "--user", user)
        assert seen.pop("1234") == [int(user), "ok"]
        assert {tuple(v) for v in seen.values()} == {(65534, "EACCES")}, seen


def root_of(path):
    """What the mount table of whoever has this folder mounted calls it: its place in its file system."""
    mounts = [line.split()[3:5] for line in open("/proc/self/mountinfo")][::-1]  # topmost first
    root, at = max((m for m in mounts if path.is_relative_to(m[1])), key=lambda m: len(m[1]))
    return str(Path(root) / path.relative_to(at))


def test_e9_the_mount_table_shows_no_path_of_ours(folder):
    """Neither the state folder, nor where the layers of the root are, nor anything else of this
    host is named in the mount table, but what the user shares himself."""
    out = support.ok(support.sh("cat /proc/self/mountinfo /proc/self/mounts /proc/1/mountinfo "
                                "/proc/1/mountstats 2>/dev/null; true", "-v", f"{folder}:/v"))
    assert str(support.state_dir()) not in out
    roots = {line.split()[3] for line in out.splitlines() if " - " in line}
    fixed = {"/", "/usr", "/local", "/void", "/none", "/shm", "/u", "/tmp", "/run", "/work"}
    fixed |= {f"/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty")}
    fixed |= {"/bus", "/fs", "/irq", "/sys", "/sys/kernel/domainname"}  # of our own /proc
    fixed |= {root_of(Path("/usr")), root_of(folder)}
    shared = roots - fixed
    assert not shared, shared
    for line in out.splitlines():
        if "overlay" in line and "lowerdir" in line:
            options = dict(o.partition("=")[::2] for o in line.split()[-1].split(","))
            layers = [v for k, v in options.items() if k.endswith("dir") or k == "lowerdir+"]
            assert set(layers) <= {"/", "/u", "/w", "l", "b/u", "b/w", "nofollow"}, line
