"""What bad input gets: one line that begins with "cay: ", with the cause and what to do, the right
exit code, and nothing left on the host."""

import os
import subprocess
import tempfile

import pytest
from support import (CAY, HELPERS, TIER, USER, as_root_only, as_user, cay, given_time, host_state, is_sanitized,
                     left_over, need_cay, ok, refused, run, sh)

ODD = "a\n\x1b[31m\x07b"


@pytest.fixture(autouse=True, scope="module")
def nothing_left():
    """Over all cases together: each alone would cost a look at the whole host."""
    run("--", "true")
    before = host_state()
    yield
    assert left_over(before) == set()


# ---- the command line ----

@pytest.mark.parametrize("args, parts", [
    ([], ["no command given", "cay run [OPTIONS] -- COMMAND"]),
    (["--"], ["no command given"]),
    (["--memry", "5m", "--", "true"], ["unknown option '--memry'", "did you mean --memory?"]),
    (["--mem=5m", "--", "true"], ["'--mem'", "did you mean --memory?"]),
    (["--no-such-thing", "true"], ["unknown option", "see 'cay run --help'"]),
    (["-Z", "true"], ["unknown option '-Z'"]),
    (["-m"], ["'--memory' needs a value", "write --memory=SIZE"]),
    (["--image", "--rm", "true"], ["'--image' needs a value"]),
    (["--tty=yes", "true"], ["'--tty' takes no value"]),
    (["-o", "xml", "true"], ["'xml'", "table, json"]),
    (["--tier", "super", "true"], ["'super'", "full, rootless, basic"]),
    (["--profile", "x", "true"], ["'x'", "strict, build"]),
    (["--engine", "doker", "true"], ["no engine 'doker'", "--engine native"]),
    (["--engine", "docker", "true"], ["no host image", "--image"]),
    (["--image", "Debian:12", "true"], ["'Debian:12'", "'debian'"]),
    (["-q", "--image", "127.0.0.1:1/x", "true"], ["127.0.0.1:1", "x"]),
    (["--image", "x", "--pull", "never", "true"], ["'x:latest'", "never"]),
    (["--image", "x", "--pull", "often", "true"], ["'often'", "missing, always, never"]),
    (["--network", "bridge", "true"], ["'bridge'", "--network none"]),
    (["--config", "/no/such", "true"], ["'/no/such'", "No such file"]),
])
def test_flags(args, parts):
    text = refused(cay("run", *args), *parts)
    assert "; " in text


@pytest.mark.parametrize("args, parts", [
    (["rum"], ["'rum' is not a command", "did you mean 'cay run'?"]),
    (["docter"], ["did you mean 'cay doctor'?"]),
    (["xyzzy"], ["'xyzzy' is not a command", "see 'cay --help'"]),
    (["help", "xyzzy"], ["'xyzzy'"]),
    ([ODD], ["\\x0a\\x1b[31m\\x07"]),
    (["doctor", "x"], ["unexpected argument 'x'", "usage"]),
    (["version", "x"], ["unexpected argument 'x'"]),
    (["doctor", "--jsn"], ["unknown option"]),
])
def test_verbs(args, parts):
    refused(cay(*args), *parts, code=2)


SIZES = ["512x", "-1", "0", "", "1e3", "1.5.5", "nan", "0x10", " 5m", "5 m", "m", "1p",
         "99999999999999999999", "99999999999t"]


@pytest.mark.parametrize("flag", ["--memory", "--disk", "--output-max"])
def test_sizes(flag):
    for size in SIZES:
        text = refused(run(f"{flag}={size}", "--", "true"), flag)
        assert "such as 512m" in text


@pytest.mark.parametrize("flag", ["--timeout", "--idle-output-timeout"])
def test_durations(flag):
    for time in ["5x", "-1s", "", "x", " 5", "1e400", "99999999999999h", "1h30", "nan"]:
        assert "such as 30s" in refused(run(f"{flag}={time}", "--", "true"), flag)


@pytest.mark.parametrize("args, parts", [
    (["--cpus=0"], ["--cpus", "out of range"]), (["--cpus=-1"], ["--cpus", "out of range"]),
    (["--cpus=nan"], ["--cpus", "not a number"]), (["--cpus=inf"], ["--cpus", "not a number"]),
    (["--cpus=1e999"], ["--cpus"]), (["--cpus=0.001"], ["--cpus", "0.01"]),
    (["--cpus=4000"], ["--cpus", "more than this host has"]),
    (["--pids=0"], ["--pids", "out of range"]), (["--pids=-5"], ["--pids", "out of range"]),
    (["--pids=1.5"], ["--pids", "whole number"]), (["--pids=9999999999"], ["--pids"]),
    (["--pids=99999999999999999999"], ["--pids", "out of range"]),
    (["--memory=1"], ["--memory", "at least 4m"]),
    (["--memory=500t"], ["--memory", "more than this host has"]),
    (["--disk=1k"], ["--disk", "at least 64k"]),
    (["--disk=600m", "--memory=512m"], ["--disk", "raise --memory or lower --disk"]),
])
def test_limits(args, parts):
    assert "; " in refused(run(*args, "--", "true"), *parts)


def test_smallest_limits_work():
    options = ["--cpus", "0.01", "--pids", "1", "--disk", "64k"]
    if not is_sanitized():
        options += ["--memory", "4m"]
    ok(run(*options, "--", "true"))


@pytest.mark.parametrize("volume, parts", [
    ("/no/such:/x", ["'/no/such'", "No such file", "create the host folder"]),
    ("rel:/x", ["relative host path"]), ("/tmp", ["not HOST:BOX"]), ("", ["not HOST:BOX"]),
    ("/tmp:", ["not HOST:BOX"]), (":/x", ["not HOST:BOX"]), (":", ["not HOST:BOX"]),
    ("/tmp:/", ["cover the root"]), ("/tmp://", ["cover the root"]),
    ("/tmp:/./", ["cover the root"]),
    ("/tmp:/..", ["contains '..'"]), ("/tmp:/a/../../etc", ["contains '..'"]),
    ("/tmp:rel", ["not absolute"]), ("/tmp:/x:rx", ["not absolute"]),
    ("/tmp:/proc", ["in /proc, /dev or /sys"]), ("/tmp:/proc/sys/x", ["in /proc, /dev or /sys"]),
    ("/tmp:/dev/shm", ["in /proc, /dev or /sys"]), ("/tmp:/sys", ["in /proc, /dev or /sys"]),
    ("/tmp://proc//self", ["in /proc, /dev or /sys"]),
    ("/dev/null:/x", ["neither a folder nor a regular file"]),
    ("/tmp:/bin/x", ["a symlink or a file", "name the real folder"]),
    ("/tmp:/etc/passwd", ["a symlink or a file"]), ("/tmp:/etc/passwd/x", ["a symlink or a file"]),
    ("/etc/hostname:/workspace", ["Is a directory"]),
    ("/tmp:/usr/x", ["Read-only", "such as /workspace"]),
    ("/tmp:/" + "x" * 2000, ["too long"]), ("/tmp:/" + "x" * 300, ["too long"]),
    ("/" + "x" * 5000 + ":/x", ["too long"]),
    (f"/{ODD}:/x", ["\\x0a\\x1b[31m"]), (f"/tmp:{ODD}", ["\\x0a\\x1b[31m"]),
])
def test_volumes(volume, parts):
    assert "; " in refused(run("-v", volume, "--", "true"), *parts)


def test_volumes_together():
    refused(run("-v", "/tmp:/x", "-v", "/usr:/x", "--", "true"), "same target")
    refused(run("-v", "/tmp:/x", "-v", "/usr://x/.", "--", "true"), "same target")
    many = [part for i in range(40) for part in ("-v", f"/tmp:/x{i}")]
    refused(run(*many, "--", "true"), "more than 32 volumes")


def test_volume_in_a_read_only_volume(folder):
    done = run("-v", f"{folder}:/d:ro", "-v", "/tmp:/d/sub", "--", "true")
    refused(done, "'/d/sub'", "Read-only")
    assert not list(folder.iterdir())


def test_volume_target_through_a_link_in_a_volume(folder):
    """The link points outside the sandbox; nothing may be made where it leads."""
    aim = tempfile.mkdtemp(prefix="aim-", dir="/tmp")
    os.chmod(aim, 0o777)
    (folder / "link").symlink_to(aim)
    (folder / "up").symlink_to("../../../../../.." + aim)
    for name in ("link", "up"):
        refused(run("-v", f"{folder}:/d", "-v", f"/usr:/d/{name}/made", "--", "true"),
                "a symlink or a file")
    assert not os.listdir(aim)
    os.rmdir(aim)


def test_volume_source_may_be_a_link(folder):
    (folder / "real").mkdir()
    (folder / "real" / "f").write_text("x")
    (folder / "link").symlink_to(folder / "real")
    assert ok(run("-v", f"{folder}/link:/d:ro", "--", "cat", "/d/f")) == "x"


@as_root_only
def test_volume_that_others_may_not_read(folder):
    (folder / "f").write_text("x")
    folder.chmod(0o700)
    os.chown(folder, 4321, 4321)
    os.chown(folder / "f", 4321, 4321)
    assert ok(run("-v", f"{folder}:/d", "--", "cat", "/d/f")) == "x"


@pytest.mark.parametrize("args, parts", [
    (["-w", "rel"], ["--workdir", "not absolute"]), (["-w", ""], ["--workdir"]),
    (["-w", "/a/../b"], ["--workdir", "contains '..'"]), (["-w", "/" + "x" * 5000], ["too long"]),
    (["-w", "/proc/1/x"], ["'/proc/1/x'", "choose a folder"]),
    (["-w", "/etc/passwd"], ["'/etc/passwd'", "Not a directory"]),
    (["-w", "/usr/made"], ["'/usr/made'"]),
    (["-e", "F-O"], ["'F-O' has no '='", "--env KEY=VALUE"]), (["-e", "=x"], ["'=x' has no '='"]),
    (["-e", ""], ["'' has no '='"]), (["-l", "x"], ["'x' has no '='", "--label KEY=VALUE"]),
    (["-l", "=x"], ["has no '='"]), (["--name", "a b"], ["--name", "letters, digits"]),
    (["--name", ""], ["--name"]), (["--name=-x"], ["--name"]), (["--name", "ä"], ["--name"]),
    (["--name", "x" * 64], ["--name", "63"]), (["--name", "../x"], ["--name"]),
    (["--state-dir", "rel"], ["--state-dir", "not absolute"]),
    (["--state-dir", "/etc/passwd"], ["--state-dir"]),
    (["--state-dir", "/proc/x"], ["--state-dir"]),
])
def test_names_and_paths(args, parts):
    assert "; " in refused(run(*args, "--", "true"), *parts)


FLAGS_WITH_TEXT = ["--image", "--memory", "--cpus", "--pids", "--disk", "--timeout",
                   "--idle-output-timeout", "--output-max", "--network", "--env", "--volume",
                   "--workdir", "--user", "--name", "--label", "--engine", "--tier", "--profile",
                   "--config", "--state-dir", "--output", "--no-such"]


@pytest.mark.parametrize("flag", FLAGS_WITH_TEXT)
def test_control_characters_do_not_come_out(flag):
    refused(run(f"{flag}={ODD}", "--", "true"))


def test_bytes_that_are_no_text():
    need_cay()
    who, env = as_user()
    for arg in (b"--name=\xff\xfe", b"--image=\xc3(", b"--\xff", b"-v\xff:/x", b"-\xff"):
        done = subprocess.run([CAY, "run", arg, "--", "true"], capture_output=True, env=env, **who)
        refused(done)


# ---- much ----

def test_many_arguments():
    words = [str(i) for i in range(50000)]
    assert ok(run("--", "sh", "-c", "echo $#", "sh", *words)) == "50000\n"


def test_arguments_beyond_every_limit():
    """10 MB: the kernel refuses to start cay at all, or cay or the kernel inside says so."""
    try:
        done = run("--", "echo", *["x" * 100000] * 100)
    except OSError as e:
        assert "too long" in str(e)
    else:
        refused(done, code=done.returncode)
        assert done.returncode in (125, 126)


def test_long_arguments():
    out = run("--", "printf", "%s", *["x" * 100000] * 15).stdout
    assert out == b"x" * 1500000


def test_long_environment():
    options = [part for i in range(10) for part in ("-e", f"V{i}=" + "x" * 100000)]
    assert ok(sh("env | wc -c", *options)).strip() > "1000000"


# ---- closed and full streams ----

def closed(*descriptors):
    def close():
        for fd in descriptors:
            os.close(fd)
    return close


def test_closed_streams():
    assert ok(run("--", "wc", "-c", stdin=None, preexec_fn=closed(0))).strip() == "0"
    assert sh("exit 3", stdout=None, preexec_fn=closed(1)).returncode == 3
    assert sh("echo lost >&2; exit 3", stderr=None, preexec_fn=closed(2)).returncode == 3
    done = run("--", "sh", "-c", "cat; echo y >&2; exit 4", stdin=None, stdout=None,
               stderr=None, preexec_fn=closed(0, 1, 2))
    assert done.returncode == 4
    assert run("--memory=1", "--", "true", stderr=None, preexec_fn=closed(2)).returncode == 125


def test_output_that_is_closed():
    for command in (["echo", "x"], ["sh", "-c", "echo x; exit 3"], ["yes"]):
        refused(run("--", *command, stdout=None, preexec_fn=closed(1)), "writing the command's output",
                "/dev/null")
    refused(run("-o", "json", "--", "true", stdout=None, preexec_fn=closed(1)), "standard output is closed")
    for verb in (["version"], ["completion", "bash"], ["--help"]):
        refused(cay(*verb, stdout=None, preexec_fn=closed(1)), "standard output is closed", code=2)


def test_output_that_cannot_be_written():
    with open("/dev/full", "wb") as full:
        for command in (["echo", "x"], ["sh", "-c", "echo x; exit 3"], ["yes"]):
            refused(run("--", *command, stdout=full), "writing the command's output", "No space")
        refused(run("-o", "json", "--", "true", stdout=full), "standard output", "No space")
        for verb in (["version"], ["completion", "bash"], ["--help"]):
            refused(cay(*verb, stdout=full), "standard output", code=6)


def test_input_that_cannot_be_read():
    folder = os.open("/tmp", os.O_RDONLY | os.O_DIRECTORY)
    assert ok(run("--", "wc", "-c", stdin=folder)).strip() == "0"
    os.close(folder)


# ---- the state folder ----

def in_mount_namespace(script, *args):
    """A script in a mount namespace of its own, as root; $CAY is cay, as the tested user."""
    need_cay()
    _, env = as_user()
    become = "setpriv --reuid=$0 --regid=$(id -g $0) --clear-groups" if USER else ""
    prefix = f"set -e; cay() {{ {become} '{CAY}' \"$@\"; }}; "
    return subprocess.run(["unshare", "-m", "sh", "-c", prefix + script, USER or "root", *args],
                          capture_output=True, env=env, timeout=60)


def test_read_only_state_folder(folder):
    done = in_mount_namespace(f"mount -t tmpfs -o ro,mode=777 none {folder}; "
                              f"cay run {' '.join(TIER)} --state-dir {folder} -- true")
    refused(done, "Read-only file system", "--state-dir")


def test_full_state_folder(folder):
    """Full from the start, and full at each step of making the image."""
    for inodes in (1, 2, 4, 8, 40):
        done = in_mount_namespace(
            f"mount -t tmpfs -o nr_inodes={inodes},mode=777 none {folder}; "
            f"cay run {' '.join(TIER)} --state-dir {folder} -- true")
        refused(done, "No space left")
    done = in_mount_namespace(f"mount -t tmpfs -o size=32k,mode=777 none {folder}; "
                              f"cay run {' '.join(TIER)} --state-dir {folder} -- true")
    refused(done, "No space left")


def test_unwritable_state_folder():
    need_cay()
    done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", CAY,
                           "run", "--tier", "basic", "--state-dir", "/root/state", "--", "true"],
                          capture_output=True, env={"PATH": os.environ["PATH"]})
    refused(done, "'/root", "--state-dir")
    done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", CAY,
                           "run", "--tier", "basic", "--", "true"],
                          capture_output=True, env={"PATH": os.environ["PATH"]})
    refused(done, "neither HOME nor XDG_STATE_HOME", "--state-dir")


# ---- what the host does not give ----

@as_root_only
def test_without_the_right_to_administer():
    need_cay()
    lesser = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
    done = subprocess.run([*lesser, CAY, "run", "--", "true"], capture_output=True)
    refused(done, "cannot give tier full", "--tier basic")
    done = subprocess.run([*lesser, CAY, "run", "--tier", "basic", "--", "echo", "fine"],
                          capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"fine\n"), done.stderr


@as_root_only
def test_without_user_namespaces():
    need_cay()
    script = f"echo 0 > /proc/sys/user/max_user_namespaces; exec '{CAY}' run --tier basic -- true"
    done = subprocess.run(["unshare", "-U", "--map-root-user", "sh", "-c", script],
                          capture_output=True)
    refused(done, "user namespace", "user.max_user_namespaces")


@pytest.mark.parametrize("error", ["ENOSYS", "EPERM"])
@pytest.mark.parametrize("call", [
    "capset", "clone3", "close_range", "execveat", "fsconfig", "fsmount", "fsopen",
    "landlock_create_ruleset", "landlock_restrict_self", "memfd_create", "mount", "mount_setattr",
    "move_mount", "open_tree", "openat2", "pivot_root", "seccomp", "setns", "sethostname",
    "unshare"])
def test_without_a_system_call(call, error):
    deny = HELPERS / "deny"
    if not deny.exists():
        pytest.skip("deny is not built")
    who, env = as_user()
    need_cay()
    tier = ["--tier", "rootless"] if USER and call == "landlock_create_ruleset" else TIER
    done = subprocess.run([deny, call, error, CAY, "run", *tier, "--", "true"],
                          capture_output=True, env=env, timeout=60, **who)
    if (call, error) == ("openat2", "ENOSYS"):  # then paths are walked step by step
        assert done.returncode == 0, done.stderr
    else:
        assert "; " in refused(done)


@pytest.mark.parametrize("call", ["pidfd_open", "pidfd_send_signal"])
def test_without_an_optional_system_call(call):
    deny = HELPERS / "deny"
    if not deny.exists():
        pytest.skip("deny is not built")
    who, env = as_user()
    need_cay()
    done = given_time(lambda s: subprocess.run([deny, call, "ENOSYS", CAY, "run", *TIER, "--timeout", str(s), "--",
                                                "sh", "-c", "(setsid sleep 1000 &); echo x; sleep 1000"],
                                               capture_output=True, env=env, timeout=60, **who),
                      lambda done: done.stdout != b"")
    assert (done.returncode, done.stdout) == (124, b"x\n")
