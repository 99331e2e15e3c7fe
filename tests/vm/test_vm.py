"""The test machine itself: what tests/vm/run-vm promises to the tests that run inside it."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
REPO = HERE.parent.parent
RUN_VM = HERE / "run-vm"
SKIPPED = 77

# Runs inside; gathers all facts in one boot.
FACTS = r"""
import json, os, subprocess, sys
def read(path):
    with open(path) as f:
        return f.read()
def refused(call):
    try:
        call()
    except OSError as e:
        return e.errno
os.makedirs("/mnt/again")
subprocess.run(["mount", "-t", "virtiofs", "host", "/mnt/again"], check=True)
open("/etc/hostname", "w").write("changed inside\n")
os.remove("tests/vm/run-vm")
open("made-inside", "w").close()
print(json.dumps({
    "release": os.uname().release,
    "cgroup_type": subprocess.getoutput("stat -fc %T /sys/fs/cgroup"),
    "controllers": read("/sys/fs/cgroup/cgroup.controllers").split(),
    "enabled": read("/sys/fs/cgroup/cgroup.subtree_control").split(),
    "own_cgroup": read("/proc/self/cgroup").strip(),
    "cwd": os.getcwd(),
    "ids": os.getresuid(),
    "argv": sys.argv[1:],
    "pty": bool(os.openpty()),
    "write_root": refused(lambda: open("/mnt/again/root" + os.getcwd() + "/made-inside", "w")),
    "write_layer": refused(lambda: open("/mnt/again/layer/made-inside", "w")),
    "remove_root": refused(lambda: os.rmdir("/mnt/again/root/usr")),
}))
"""


def run_vm(*arguments, env=None, timeout=280):
    began = time.monotonic()
    result = subprocess.run([RUN_VM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            stdin=subprocess.DEVNULL, timeout=timeout,
                            env={**os.environ, **(env or {})})
    if result.returncode == SKIPPED:
        pytest.skip(result.stderr.decode().strip().splitlines()[-1])
    durations.append(time.monotonic() - began)
    return result


durations = []  # of the machines so far, by what else this host does


def time_to_boot():
    """Seconds in which a machine of today has long begun with its command."""
    return int(max(20, 2 * max(durations[-2:], default=30)))


def processes_naming(text):
    """Command lines of all processes that name `text`."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line:
            found.append(line)
    return found


def wait_until(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


@pytest.fixture
def work():
    """A folder for run-vm's temporary files, which must be empty and unused afterwards."""
    with tempfile.TemporaryDirectory(prefix="cvt.") as folder:
        yield folder
        assert os.listdir(folder) == []
        assert processes_naming(folder) == []
        assert folder not in pathlib.Path("/proc/self/mounts").read_text()


ALL_BYTES = bytes(range(256)) * 4096
# One boot for all that a machine shows and says: facts, exact output, a process that stays behind, an
# output that is opened again, a command that ends by a signal.
SHOW = r"""
sleep 500 &
python3 -c "$FACTS" "$@" >/tmp/facts || exit 9
printf '\0err\r\n\377' >&2
python3 -c 'import sys; sys.stdout.buffer.write(bytes(range(256)) * 4096)'
echo again >/dev/stdout
cat /tmp/facts
kill -9 $$
"""


def test_machine_host_and_output(work):
    hostname = pathlib.Path("/etc/hostname").read_bytes()
    run_vm_bytes = RUN_VM.read_bytes()
    arguments = ["", "two words", "new\nline", "'\"$HOME`", "ünï"]
    result = run_vm("--timeout", "250", "--", "env", f"FACTS={FACTS}", "bash", "-c", SHOW, "show", *arguments,
                    env={"TMPDIR": work})
    assert (result.returncode, result.stderr) == (137, b"\x00err\r\n\xff")
    assert result.stdout.startswith(ALL_BYTES + b"again\n")
    facts = json.loads(result.stdout[len(ALL_BYTES + b"again\n"):])
    assert facts["release"].startswith("6.1.")
    assert facts["cgroup_type"] == "cgroup2fs"
    assert {"memory", "cpu", "pids", "io"} <= set(facts["controllers"])
    assert {"memory", "cpu", "pids", "io"} <= set(facts["enabled"])
    assert facts["own_cgroup"] == "0::/user.slice/session.scope"
    assert facts["cwd"] == str(REPO)
    assert facts["ids"] == [0, 0, 0]
    assert facts["argv"] == arguments
    assert facts["pty"]
    for name in ("write_root", "write_layer", "remove_root"):
        assert facts[name] == 30, f"{name}: the host's files are not read-only"
    assert pathlib.Path("/etc/hostname").read_bytes() == hostname
    assert RUN_VM.read_bytes() == run_vm_bytes
    assert not (REPO / "made-inside").exists()


def test_user_has_a_delegated_cgroup(work):
    script = """
        set -e
        cd /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)
        mkdir leaf box
        echo $$ >leaf/cgroup.procs
        echo '+memory +pids +cpu' >cgroup.subtree_control
        echo 1048576 >box/memory.max
        cat box/memory.max
        if echo $$ >/sys/fs/cgroup/cgroup.procs; then echo escaped; fi 2>/dev/null
        unshare --user --map-root-user --map-auto cat /proc/self/uid_map | tr -s ' '
        id -u; id -G; echo ok >/dev/stdout; exit 201
    """
    result = run_vm("--user", "--", "bash", "-c", script, env={"TMPDIR": work})
    assert result.stderr == b""
    assert result.stdout.decode() == (
        "1048576\n 0 1000 1\n 1 100000 65535\n1000\n1000\nok\n")
    assert result.returncode == 201


def test_timeout_keeps_what_was_printed(work):
    seconds = time_to_boot()
    result = run_vm("--timeout", str(seconds), "--", "bash", "-c", "echo before; sleep 600",
                    env={"TMPDIR": work})
    assert result.returncode == 124
    assert result.stdout == b"before\n"
    assert f"ended after {seconds} s" in result.stderr.decode()


@pytest.mark.parametrize("number,expected", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_leaves_nothing(work, number, expected):
    with subprocess.Popen([RUN_VM, "--", "sleep", "600"], env={**os.environ, "TMPDIR": work},
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        wait_until(lambda: processes_naming(f"path={work}") or process.poll() is not None, 60)
        if process.poll() == SKIPPED:
            pytest.skip(process.stderr.read().decode().strip())
        process.send_signal(number)
        assert process.wait(timeout=60) == expected


def test_killed_run_ends_the_machine():
    with tempfile.TemporaryDirectory(prefix="cvt.") as folder:
        with subprocess.Popen([RUN_VM, "--", "sleep", "600"], env={**os.environ, "TMPDIR": folder},
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            wait_until(lambda: processes_naming(f"path={folder}") or process.poll() is not None, 60)
            if process.poll() == SKIPPED:
                pytest.skip(process.stderr.read().decode().strip())
            process.kill()
            process.wait()
        wait_until(lambda: not processes_naming(folder), 60)


@pytest.mark.parametrize("arguments,message", [
    ([], "no command given"),
    (["--"], "no command given"),
    (["echo", "hi"], "unknown option 'echo'"),
    (["--timeout", "0", "--", "true"], "not a number of seconds"),
    (["--timeout", "5m", "--", "true"], "not a number of seconds"),
    (["--timeout"], "needs a value"),
    (["--kernel", "../../etc", "--", "true"], "not a kernel release"),
])
def test_bad_options(arguments, message):
    result = run_vm(*arguments)
    assert result.returncode == 125
    assert message in result.stderr.decode()


def test_cache_of_another_user_is_refused(work):
    target = pathlib.Path(work, "elsewhere")
    target.mkdir()
    link = pathlib.Path(work, "cache")
    link.symlink_to(target)
    try:
        result = run_vm("--", "true", env={"TMPDIR": work, "CAY_VM_CACHE": str(link)})
    finally:
        link.unlink()
        assert list(target.iterdir()) == []
        target.rmdir()
    assert result.returncode == 125
    assert "not a folder of ours" in result.stderr.decode()


def test_host_without_virtiofsd_is_skipped():
    result = subprocess.run([RUN_VM, "--", "true"], capture_output=True, text=True,
                            env={**os.environ, "CAY_VIRTIOFSD": "/nonexistent"}, check=False)
    assert result.returncode == SKIPPED
    assert result.stderr.startswith("run-vm: skipped: ")
