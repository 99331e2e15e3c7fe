"""`cay run` as its users see it: streams, exit codes, signals, who and where the command is, what
it may write, and what is told about it."""

import hashlib
import json
import os
import random
import re
import signal
import subprocess
import time

import pytest
from support import (CAY, TIER, USER, as_root_only, as_user, cay, given_time, is_sanitized, needs_ids, ok,
                     refused, run, sh, start)

MB = 1 << 20


# ---- streams ----

def test_streams_are_binary_safe():
    data = random.Random(1).randbytes(MB)
    done = run("--", "cat", input=data)
    assert done.returncode == 0 and done.stderr == b""
    assert done.stdout == data


def test_streams_are_separate():
    done = sh("printf 'a\\000b'; printf 'c\\000d' >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"a\0b", b"c\0d")


def test_streams_interleave_as_they_were_written():
    """Each is there before the next one is written, to the same pipe."""
    box = start("run", *TIER, "--", "sh", "-c",
                "for i in 1 2 3 4 5; do echo o$i; read x; echo e$i >&2; read x; done",
                stderr=subprocess.STDOUT)
    for expected in (f"{c}{i}\n" for i in range(1, 6) for c in "oe"):
        assert box.stdout.readline().decode() == expected
        box.stdin.write(b"\n")
        box.stdin.flush()
    assert box.communicate(timeout=60)[0] == b"" and box.returncode == 0


@pytest.mark.skipif(is_sanitized(), reason="a sanitizer's memory says nothing")
def test_large_output_does_not_grow_memory():
    size = 64 * MB
    box = start("run", *TIER, "--", "sh", "-c", f"head -c {size} /dev/zero; read x")
    got = 0
    while got < size:
        got += len(os.read(box.stdout.fileno(), MB))
    status = open(f"/proc/{box.pid}/status").read()
    _, rest = box.communicate(b"\n")
    assert got == size and box.returncode == 0, rest
    assert int(re.search(r"VmHWM:\s+(\d+)", status)[1]) < 8 * 1024


def test_large_input_and_output_at_once():
    data = random.Random(2).randbytes(32 * MB)
    assert hashlib.sha256(run("--", "cat", input=data).stdout).digest() == \
        hashlib.sha256(data).digest()


def test_slow_reader_gets_everything():
    box = start("run", *TIER, "--", "sh", "-c", "head -c 3000000 /dev/zero; echo end")
    time.sleep(0.3)
    out, err = box.communicate(timeout=60)
    assert len(out) == 3000004 and out.endswith(b"end\n") and box.returncode == 0, err


@pytest.mark.parametrize("given", [b"", b"x", b"x" * 200000])
def test_input_ends(given):
    assert ok(run("--", "wc", "-c", input=given)).strip() == str(len(given))


def test_input_from_nothing():
    assert ok(run("--", "wc", "-c", stdin=subprocess.DEVNULL)).strip() == "0"


def test_input_that_is_never_read_does_not_hold_up_the_end():
    begin = time.monotonic()
    assert ok(run("--", "true", input=b"x" * (8 * MB))) == ""
    assert time.monotonic() - begin < 60


def test_input_that_never_ends_does_not_hold_up_the_end():
    box = start("run", *TIER, "--", "echo", "done")
    assert box.wait(60) == 0
    assert box.communicate()[0] == b"done\n"


@pytest.mark.parametrize("command", [
    ["yes"],
    # A program that ignores SIGPIPE must see the write fail.
    ["sh", "-c", "trap '' PIPE; while echo x; do :; done 2>/dev/null; exit 141"],
])
def test_closed_output_ends_the_command(command):
    box = start("run", *TIER, "--", *command, stderr=subprocess.DEVNULL)
    assert os.read(box.stdout.fileno(), 1) != b""
    box.stdout.close()
    assert box.wait(60) == 141


def test_closed_output_in_a_shell_pipe():
    who, env = as_user()
    script = f"'{CAY}' run {' '.join(TIER)} -- yes | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, timeout=60, env=env, **who)
    assert done.stdout == b"y\n141\n"


def test_closed_error_output_does_not_stop_the_other():
    box = start("run", *TIER, "--", "sh", "-c",
                "trap '' PIPE; read x; echo lost >&2; sleep 0.1; echo kept")
    box.stderr.close()
    box.stdin.write(b"\n")
    box.stdin.close()
    assert box.stdout.read() == b"kept\n"
    assert box.wait(60) == 0


def test_output_of_a_background_process_is_not_waited_for():
    begin = time.monotonic()
    assert ok(sh("sleep 1000 & echo started", timeout=120)) == "started\n"
    assert time.monotonic() - begin < 100


# ---- exit codes ----

@pytest.mark.parametrize("command, code", [
    (["true"], 0),
    (["false"], 1),
    (["sh", "-c", "exit 2"], 2),
    (["sh", "-c", "exit 255"], 255),
    (["sh", "-c", "kill -TERM $$"], 143),
    (["sh", "-c", "kill -KILL $$"], 137),
    (["sh", "-c", "kill -SEGV $$"], 139),
    (["sh", "-c", "kill -HUP $$"], 129),
])
def test_exit_code(command, code):
    done = run("--", *command)
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")


@pytest.mark.parametrize("command, code, parts", [
    (["no-such-command"], 127, ["'no-such-command': command not found", "check the name"]),
    (["/no/such/file"], 127, ["'/no/such/file' cannot be executed", "No such file"]),
    (["/etc/passwd"], 126, ["'/etc/passwd' cannot be executed", "Permission denied", "chmod +x"]),
    (["/usr"], 126, ["'/usr' cannot be executed"]),
    ([""], 127, ["command not found"]),
    (["a/../b"], 127, ["No such file"]),
    (["x\n\x1b[31m"], 127, ["\\x0a\\x1b[31m"]),
])
def test_command_that_cannot_start(command, code, parts):
    refused(run("--", *command), *parts, code=code)


def test_script_without_interpreter(folder):
    (folder / "s").write_text("echo hi\n")
    (folder / "s").chmod(0o755)
    refused(run("-v", f"{folder}:/data", "--", "/data/s"), "no '#!' line", "sh /data/s", code=126)


def began(done):
    return done.stdout != b""


def test_limits_that_strike():
    done = given_time(lambda s: sh("echo before; sleep 600; echo after", "--timeout", s), began)
    assert (done.returncode, done.stdout) == (124, b"before\n")
    assert done.stderr == b"cay: ended: it ran longer than --timeout\n"
    done = given_time(lambda s: sh("echo before; sleep 600", "--idle-output-timeout", s), began)
    assert (done.returncode, done.stdout) == (124, b"before\n")
    assert b"printed nothing" in done.stderr


def test_timeout_ends_what_resists():
    script = "trap '' TERM HUP INT; (setsid sh -c 'trap \"\" TERM; sleep 600' &); sleep 600 & " \
             "echo before; while :; do sleep 1; done"
    done = given_time(lambda s: sh(script, "--timeout", s), began)
    assert (done.returncode, done.stdout) == (124, b"before\n")


def test_steady_output_is_not_idle():
    def steady(seconds):
        """For longer than the limit, with pauses that are far from it."""
        return sh(f"for i in 1 2 3 4 5 6; do echo $i; sleep {seconds / 5}; done",
                  "--idle-output-timeout", seconds)
    done = given_time(steady, lambda done: done.returncode == 0, (2, 6, 20))
    assert ok(done).split() == list("123456")


def test_output_limit():
    done = run("--output-max", "1000", "--", "yes")
    assert (done.returncode, done.stdout) == (124, b"y\n" * 500)
    assert done.stderr == b"cay: ended: it printed more than --output-max\n"
    done = sh("head -c 600 /dev/zero; head -c 600 /dev/zero >&2", "--output-max", "1000")
    assert done.returncode == 124 and len(done.stdout) + done.stderr.count(b"\0") == 1000
    assert ok(sh("head -c 999 /dev/zero", "--output-max", "1000")) == "\0" * 999


# ---- signals ----

def wait_for(box, word):
    line = box.stdout.readline()
    assert line.strip() == word.encode(), (line, box.poll())


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2"])
def test_signal_reaches_the_command(name):
    box = start("run", *TIER, "--", "sh", "-c",
                f"trap 'echo got; exit 7' {name}; echo ready; while :; do sleep 0.05; done")
    wait_for(box, "ready")
    box.send_signal(getattr(signal, "SIG" + name))
    out, err = box.communicate(timeout=60)
    assert (out, box.returncode) == (b"got\n", 7), err


@pytest.mark.parametrize("name, code", [("INT", 130), ("TERM", 143)])
def test_signal_ends_the_command(name, code):
    box = start("run", *TIER, "--", "sh", "-c", "echo ready; exec sleep 1000")
    wait_for(box, "ready")
    box.send_signal(getattr(signal, "SIG" + name))
    assert box.wait(60) == code


# ---- who and where ----

def test_work_folder():
    assert ok(run("--", "pwd")) == "/workspace\n"
    assert ok(run("-w", "/tmp/new/er", "--", "pwd")) == "/tmp/new/er\n"
    assert ok(run("-w", "/tmp//./x", "--", "pwd")) == "/tmp/x\n"


def test_environment_is_clean():
    done = run("--", "env", env={"SECRET": "x", "LD_PRELOAD": "", "TERM": "xterm"})
    names = {line.split("=")[0] for line in ok(done).splitlines()}
    assert names == {"PATH", "LANG", "HOME", "HOSTNAME"}


def test_environment_is_given():
    out = ok(run("-e", "A=1", "--env=B=x=y z", "-e", "PATH=/usr/bin", "-e", "EMPTY=", "-e",
                 "HOME=/tmp", "--", "env"))
    lines = out.splitlines()
    assert {"A=1", "B=x=y z", "PATH=/usr/bin", "EMPTY=", "HOME=/tmp"} <= set(lines)
    assert sum(line.startswith("PATH=") for line in lines) == 1


def test_entrypoint():
    assert ok(run("--entrypoint", "/bin/echo", "--", "a", "b")) == "a b\n"
    assert ok(run("--entrypoint", "", "--", "echo", "a")) == "a\n"
    refused(run("--entrypoint", ""), "no command given")


def test_what_is_given_last_counts():
    out = ok(run("-e", "A=1", "-e", "AB=2", "-e", "A=3", "--", "env")).splitlines()
    assert [line for line in out if line.startswith("A")] == ["AB=2", "A=3"]
    answer = json.loads(run("-l", "a=1", "-l", "b=2", "-l", "a=3", "-o", "json", "--", "true").stdout,
                        object_pairs_hook=list)
    assert dict(answer)["labels"] == [("b", "2"), ("a", "3")]


@pytest.mark.skipif(is_sanitized(), reason="a sanitizer needs the first stack")
def test_init_is_small():
    """The first stack is gone, and with it the page tables that only it needed."""
    status = ok(run("--", "cat", "/proc/1/status"))
    assert re.search(r"^Name:\s+cay-init$", status, re.M)
    assert re.search(r"^VmStk:\s+0 kB$", status, re.M), status
    assert int(re.search(r"^RssAnon:\s+(\d+) kB$", status, re.M)[1]) <= 64, status


@needs_ids
@pytest.mark.parametrize("user, expected", [
    ("0", "0:0:/root"), ("root", "0:0:/root"), ("user", "1000:1000:/home/user"),
    ("1000", "1000:1000:/home/user"), ("nobody", "65534:65534:"), ("1234:567", "1234:567:/"),
    ("user:root", "1000:0:/home/user"), ("65532", "65532:"),
])
def test_user(user, expected):
    assert ok(sh('echo "$(id -u):$(id -g):$HOME"', "--user", user)).startswith(expected)


@needs_ids
def test_user_writes_where_expected():
    script = 'cd; touch a; cd /workspace; touch b; touch /tmp/c; stat -c %U ~/a b /tmp/c'
    assert ok(sh(script, "-u", "user")).split() == ["user"] * 3


@pytest.mark.parametrize("user, parts", [
    ("who", ["no user 'who'"]), ("0:what", ["no group 'what'"]), ("", ["--user is empty"]),
    (":", ["not a user"]), ("99999999", ["no user"]), ("-1", ["no user"]),
    ("x" * 300, ["--user", "longer"]), ("a\nb\x1b", ["no user"]),
])
def test_unknown_user(user, parts):
    refused(run("--user=" + user, "--", "true"), *parts)


def test_name_is_hostname():
    out = ok(sh("hostname; cat /etc/hostname; getent hosts lab-1; uname -n; echo $HOSTNAME",
                "--name", "lab-1"))
    assert out.split() == ["lab-1", "lab-1", "127.0.1.1", "lab-1", "lab-1", "lab-1"]


def test_hostname_and_machine_id_differ():
    script = "hostname; cat /etc/machine-id /proc/sys/kernel/random/boot_id"
    one, two = ok(sh(script)).split(), ok(sh(script)).split()
    assert len(one) == 3 and all(a != b for a, b in zip(one, two))


# ---- files ----

def test_everything_is_fresh():
    ok(sh("echo x > /tmp/left; echo x > /etc/left; echo x > left; touch /root/left"))
    assert ok(sh("ls /tmp /workspace; ls /etc/left /root/left 2>/dev/null; true")) == \
        "/tmp:\n\n/workspace:\n"


def test_read_only():
    script = """for d in / /etc /usr /home /root /opt /var /srv /usr/local; do
            touch $d/x 2>/dev/null && echo "$d is writable"; done
        for d in /tmp /run /workspace /dev/shm /var/tmp; do
            touch $d/x || echo "$d is not writable"; done"""
    assert ok(sh(script, "--read-only")) == ""


def test_writable_by_default():
    script = "for d in / /etc /home /root /opt /usr/local /tmp /run /workspace /dev/shm; do " \
             "touch $d/x || echo $d; done; touch /usr/x /usr/bin/x 2>/dev/null && echo usr"
    assert sh(script).stdout == b""


def test_volume(folder):
    (folder / "in").write_text("from outside")
    os.chown(folder / "in", *os.stat(folder)[4:6])
    script = "cat /data/in; echo made > /data/out; mkdir /data/d; stat -c %u:%g /data/in /data/out"
    assert ok(sh(script, "-v", f"{folder}:/data")) == "from outside0:0\n0:0\n"
    assert (folder / "out").read_text() == "made\n"
    owner = os.stat(folder)
    for name in ("out", "d"):
        made = os.stat(folder / name)
        assert (made.st_uid, made.st_gid) == (owner.st_uid, owner.st_gid)


@as_root_only
@pytest.mark.parametrize("user", ["0", "1000", "1234", "1234:567", "user", "nobody", "user:root"])
def test_volume_belongs_to_its_owner_outside(user, folder):
    os.chown(folder, 4321, 8765)
    ok(sh("echo x > /data/new; chmod 600 /data/new", "-v", f"{folder}:/data", "--user", user))
    made = os.stat(folder / "new")
    assert (made.st_uid, made.st_gid, made.st_mode & 0o777) == (4321, 8765, 0o600)


def test_volume_read_only(folder):
    (folder / "f").write_text("x")
    done = sh("cat /data/f; touch /data/new", "-v", f"{folder}:/data:ro")
    assert done.returncode != 0 and done.stdout == b"x" and b"Read-only" in done.stderr
    assert not (folder / "new").exists()


def test_volume_of_a_file(folder):
    (folder / "f").write_text("one")
    os.chown(folder / "f", *os.stat(folder)[4:6])
    out = ok(sh("cat /etc/app.conf; echo two > /etc/app.conf", "-v", f"{folder}/f:/etc/app.conf"))
    assert out == "one" and (folder / "f").read_text() == "two\n"
    done = sh("echo no > /x/y/f", "-v", f"{folder}/f:/x/y/f:ro")
    assert done.returncode != 0 and (folder / "f").read_text() == "two\n"


def test_volumes_in_volumes_and_in_read_only_root(folder):
    for name in ("a", "b"):
        (folder / name).mkdir()
        os.chown(folder / name, *os.stat(folder)[4:6])
    out = ok(sh("touch /workspace/1 /workspace/b/2; ls /workspace", "--read-only",
                "-v", f"{folder}/a:/workspace", "-v", f"{folder}/b:/workspace/b"))
    assert out.split() == ["1", "b"]
    assert (folder / "a" / "1").exists() and (folder / "b" / "2").exists()


def test_set_user_id_is_void_in_a_volume(folder):
    (folder / "id").write_bytes(open("/usr/bin/id", "rb").read())
    (folder / "id").chmod(0o4755)
    assert ok(run("-v", f"{folder}:/data", "--", "/data/id", "-u")) == "0\n"
    assert "nosuid" in ok(sh("grep ' /data ' /proc/self/mountinfo", "-v", f"{folder}:/data"))


# ---- what is told ----

def test_json():
    done = sh("echo out; echo err >&2; exit 4", "-o", "json", "-l", "a=1", "--label", "b=x=y")
    assert done.returncode == 4 and done.stderr == b""
    answer = json.loads(done.stdout)
    assert answer["exit_code"] == 4
    assert (answer["stdout"], answer["stderr"]) == ("out\n", "err\n")
    assert answer["timed_out"] is False and answer["oom_killed"] is False
    assert 0 < answer["duration_ms"] < 60000
    assert set(answer["phases"]) == {"open_ms", "prepare_ms", "root_ms", "start_ms", "exec_ms",
                                     "run_ms", "end_ms"}
    assert all(value >= 0 for value in answer["phases"].values())
    assert answer["tier"] == ("basic" if USER else "full")
    assert answer["labels"] == {"a": "1", "b": "x=y"}


def test_json_of_any_bytes():
    done = run("-o", "json", "--", "cat", input=bytes(range(256)) * 10)
    assert len(json.loads(done.stdout.decode())["stdout"]) > 0 and done.returncode == 0


def test_json_of_a_timeout():
    answer = given_time(lambda s: json.loads(sh("echo x; sleep 1000", "-o", "json", "--timeout", s).stdout),
                        lambda answer: answer["stdout"] != "")
    assert (answer["exit_code"], answer["timed_out"], answer["stdout"]) == (124, True, "x\n")


@as_root_only
def test_json_of_out_of_memory():
    done = run("-o", "json", "-m", "32m", "--", "python3", "-c", "x = bytearray(200 << 20)")
    answer = json.loads(done.stdout)
    assert answer["oom_killed"] is True and answer["exit_code"] == done.returncode == 137


@pytest.mark.parametrize("options, code, name", [
    (["--", "no-such-command"], 127, "not_found"),
    (["--memory", "1", "--", "true"], 125, "invalid_argument"),
    (["--user", "who", "--", "true"], 125, "not_found"),
])
def test_json_of_a_failure(options, code, name):
    done = run("-o", "json", *options)
    answer = json.loads(done.stdout)
    assert done.returncode == answer["exit_code"] == code
    assert answer["error"]["code"] == name and answer["error"]["message"]


def test_timings():
    done = run("--timings", "--", "echo", "x")
    assert done.stdout == b"x\n" and done.returncode == 0
    rows = dict(re.findall(r"^  (\S.*?) +([0-9.]+) ms$", done.stderr.decode(), re.M))
    assert len(rows) == 8 and "total" in rows
    parts = sum(float(v) for k, v in rows.items() if k != "total")
    assert abs(parts - float(rows["total"])) < 0.1


def test_quiet():
    done = sh("sleep 1000", "-q", "--timeout", "200ms")
    assert (done.returncode, done.stdout, done.stderr) == (124, b"", b"")


def test_guard():
    done = run("--guard", "--", "rm", "-rf", "/")
    lines = done.stderr.decode().splitlines()
    assert done.returncode == 125 and len(lines) == 2, lines
    assert "guard" in lines[0] and "rm" in lines[0]
    assert lines[1].startswith("cay: refused by the guard")
    assert ok(sh("mkdir x; rm -rf /workspace/x; echo fine", "--guard")) == "fine\n"


# ---- profiles ----

def test_strict_has_no_rights_over_files():
    assert sh("touch f; chown 1000 f").returncode != 0
    assert sh("python3 -c 'import os; os.setuid(1000)'").returncode != 0
    assert ok(sh("grep Cap /proc/self/status | grep -v '0000000000000000$'; true")) == ""


@needs_ids
def test_build_has_rights_over_files():
    script = """set -e; touch f; chown 1000:1000 f; stat -c %u:%g f; chmod 000 f; cat f
        python3 -c 'import os; os.setgid(5); os.setuid(1000); print(os.getuid(), os.getgid())'
        grep CapBnd /proc/self/status"""
    lines = ok(sh(script, "--profile", "build")).splitlines()
    assert lines[:2] == ["1000:1000", "1000 5"]
    rights = int(lines[2].split()[1], 16)
    # chown, dac_override, fowner, fsetid, kill, setgid, setuid, setfcap: no other
    assert rights == sum(1 << n for n in (0, 1, 3, 4, 5, 6, 7, 31))


@needs_ids
def test_build_unpacks_a_package(folder):
    tree = folder / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "opt").mkdir()
    (tree / "opt" / "f").write_text("x")
    os.chown(tree / "opt" / "f", 1234, 0)
    (tree / "DEBIAN" / "control").write_text(
        "Package: tiny\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: tiny\n")
    subprocess.run(["dpkg-deb", "-b", tree, folder / "t.deb"], check=True, capture_output=True)
    script = """mkdir -p d/updates d/info i; touch d/status d/available
        dpkg --admindir=d --instdir=i --unpack /pkg/t.deb >/dev/null &&
        stat -c %u i/opt/f"""
    options = ["-v", f"{folder}:/pkg:ro"]
    assert ok(sh(script, "--profile", "build", *options)) == "1234\n"
    assert sh(script, *options).returncode != 0


def test_help_names_every_flag():
    text = ok(cay("run", "--help"))
    for flag in ("--memory", "--cpus", "--pids", "--disk", "--timeout", "--idle-output-timeout",
                 "--output-max", "--network", "--env", "--volume", "--workdir", "--user", "--name",
                 "--label", "--engine", "--tier", "--profile", "--read-only", "--tty", "--guard",
                 "--timings", "--image", "--output", "--quiet", "--state-dir", "--config"):
        assert flag in text, flag
    assert max(map(len, text.splitlines())) <= 100
