"""The verbs on sandboxes that stay, with a daemon of their own: what they print, their exit codes,
what they refuse, and copies in both directions."""

import contextlib
import hashlib
import io
import json
import os
import pty
import random
import re
import select
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

import pytest
from daemons import end_background, free_port
from launching import until
from support import (BUILD, SINGLE_ID, TIER, USER, as_root_only, cay, given_time, is_sanitized, need_cay, needs_ids, ok, own,
                     refused, start)
from test_run_image import Store, base
from test_tty import SLEEPER, Terminal

MB = 1 << 20
ID = re.compile(r"[0-9a-f]{16}")


# ---- a daemon, and a sandbox in it ----

def need_daemon():
    need_cay()
    if not (BUILD / "cayd").exists():
        pytest.skip("cayd is not built: ninja -C build")


def wait_for(path, seconds=60):
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"no {path}"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def state():
    """The state folder of a daemon that serves this file's tests."""
    need_daemon()
    path = Path(tempfile.mkdtemp(prefix="kept-", dir="/tmp"))
    own(path)
    daemon = start("serve", "--state-dir", path, stdout=subprocess.DEVNULL,
                   stderr=open(path / "serve.log", "wb"), stdin=subprocess.DEVNULL,
                   env={"CAY_MANAGER_VOLUME_FOLDERS": "/tmp"})
    try:
        wait_for(path / "daemon/cay.sock")
        yield path
    finally:
        names = cay("ls", "--state-dir", path, "-aq").stdout.decode().split()
        if names:
            cay("rm", "--state-dir", path, "-f", *names)
        daemon.terminate()
        daemon.wait(60)
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def verb(state):
    """verb("ls", "-a"): the verb, with the tests' daemon."""
    def run_verb(name, *args, **more):
        return cay(name, "--state-dir", state, *args, **more)
    return run_verb


@pytest.fixture(scope="module")
def create(verb):
    def create_one(*args):
        return ok(verb("create", *TIER, *args)).strip()
    return create_one


@pytest.fixture(scope="module")
def box(create):
    """A sandbox that the tests share."""
    return create("--name", "shared", "--env", "FROM=create", "--label", "team=a")


@pytest.fixture
def own_box(create, verb):
    name = create()
    yield name
    verb("rm", "-f", name)


@pytest.fixture
def sh(verb, box):
    def script(text, *options, **more):
        return verb("exec", *options, box, "--", "sh", "-c", text, **more)
    return script


# ---- create, ls, info ----

def test_create_prints_the_name_or_the_id(verb):
    name = ok(verb("create", *TIER)).strip()
    assert ID.fullmatch(name)  # the id, where no name was given
    ident = ok(verb("create", *TIER, "-q", "--name", "named")).strip()
    assert ID.fullmatch(ident)
    seen = json.loads(ok(verb("create", *TIER, "-o", "json", "--label", "a=b", "--memory", "64m",
                              "--cpus", "0.5", "--pids", "77", "--auto-stop", "2h",
                              "--auto-delete", "90s", "-e", "K=1", "-e", "K=2", "-w", "/tmp")))
    assert (seen["state"], seen["labels"], seen["memory"], seen["cpus"], seen["pids"]) == \
        ("started", {"a": "b"}, *((0, 0) if USER else (64 * MB, 0.5)), 77)  # 0: a limit that is not kept
    assert (seen["autoStopInterval"], seen["autoDeleteInterval"]) == (120, 2)
    assert (seen["env"], seen["workDir"]) == ({"K": "2"}, "/tmp")
    assert ok(verb("rm", name, "named", seen["name"])).split() == [name, "named", seen["name"]]


@pytest.mark.parametrize("args, parts, code", [
    (["--name", "a/b"], ["name"], 2),
    (["--name", "x" * 64], ["name"], 2),
    (["--env", "NO-VALUE"], ["--env", "KEY=VALUE"], 2),
    (["--env", "=x"], ["--env"], 2),
    (["--label", "a"], ["--label"], 2),
    (["--memory", "512x"], ["--memory"], 2),
    (["--memory", "1k"], ["memory"], 2),
    (["--cpus", "0"], ["--cpus"], 2),
    (["--pids", "0"], ["--pids"], 2),
    (["--auto-stop", "-1"], ["--auto-stop"], 2),
    (["--tier", "best"], ["--tier"], 2),
    (["-v", "/nonexistent-folder:/data"], ["/nonexistent-folder"], None),
    (["-v", "relative:/data"], [], None),
    (["--workdir", "relative"], [], 2),
    (["one", "unexpected"], ["unexpected"], 2),
    (["--namee", "x"], ["--name"], 2),
])
def test_create_refuses(verb, args, parts, code):
    done = verb("create", *TIER, *args)
    assert done.returncode != 0
    refused(done, *parts, code=code or done.returncode)
    assert done.stdout == b""


def test_create_refuses_a_name_that_is_taken(verb, box):
    refused(verb("create", *TIER, "--name", box), box, code=4)


def test_ls(verb, box, create):
    other = create("--label", "team=b")
    try:
        lines = ok(verb("ls")).splitlines()
        assert lines[0].split() == ["ID", "NAME", "STATE", "IMAGE", "MEMORY", "CPUS", "AGE"]
        assert any(line.split()[1:4] == [box, "started", "host"] for line in lines)
        assert {box, other} <= {line.split()[1] for line in lines[1:]}
        by_label = ok(verb("ls", "--label", "team=b")).splitlines()
        assert [line.split()[1] for line in by_label[1:]] == [other]
        ok(verb("stop", other))
        assert other not in ok(verb("ls")) and other in ok(verb("ls", "-a"))
        ids = ok(verb("ls", "-aq")).split()
        assert all(map(ID.fullmatch, ids)) and len(ids) >= 2
        assert {s["name"] for s in json.loads(ok(verb("ls", "-o", "json")))} >= {box, other}
    finally:
        verb("rm", "-f", other)
    refused(verb("ls", "--label", "x"), "KEY=VALUE", code=2)
    assert json.loads(ok(verb("ls", "-o", "json", "--label", "x=& ?=#%"))) == []


def test_info(verb, box):
    text = ok(verb("info", box))
    assert re.search(rf"^name +{box}$", text, re.M) and re.search(r"^state +started$", text, re.M)
    assert re.search(r"^labels +team=a$", text, re.M)
    one = json.loads(ok(verb("info", "-o", "json", box)))
    assert one["name"] == box and one["env"] == {"FROM": "create"}
    assert ok(verb("info", "-q", one["id"][:6])).strip() == one["id"]  # a prefix is enough


def test_info_goes_on_after_a_failure(verb, box):
    done = verb("info", "nosuch", box)
    assert done.returncode == 3 and b"nosuch" in done.stderr
    assert box.encode() in done.stdout


UNKNOWN = [["info"], ["stop"], ["start"], ["pause"], ["resume"], ["rm"], ["stats"]]


@pytest.mark.parametrize("words", UNKNOWN, ids=lambda w: w[0])
@pytest.mark.parametrize("name", ["nosuch", "../../healthz", "a b", "ä", "x" * 3000, "%2e", "?a=b"])
def test_an_unknown_sandbox(verb, words, name):
    done = verb(*words, name)
    refused(done, code=done.returncode)
    assert done.returncode in (2, 3)


@pytest.mark.parametrize("words", UNKNOWN, ids=lambda w: w[0])
def test_an_unknown_sandbox_in_json(verb, words):
    done = verb(*words, "-o", "json", "nosuch")
    assert done.returncode == 3 and done.stderr == b""
    error = json.loads(done.stdout)
    assert (error["code"], error["statusCode"]) == ("not_found", 404) and error["remedy"]


def test_an_empty_name(verb):
    refused(verb("stop", ""), "empty", code=2)


@pytest.mark.parametrize("words", [*UNKNOWN[:6], ["exec"], ["shell"], ["cp", "a"], ["rename", "a"]],
                         ids=lambda w: w[0])
def test_missing_words(verb, words):
    done = verb(*words)
    refused(done, code=125 if words[0] in ("exec", "shell") else 2)


def test_the_nearest_verb(verb):
    refused(cay("crate"), "cay create", code=2)


# ---- lifecycle ----

def test_life(verb, own_box):
    def state():
        return json.loads(ok(verb("info", "-o", "json", own_box)))["state"]

    ok(verb("exec", own_box, "--", "sh", "-c", "echo kept > /workspace/file; echo x > /root/r"))
    assert ok(verb("stop", own_box)).strip() == own_box and state() == "stopped"
    ok(verb("stop", own_box))  # stopped already is fine
    refused(verb("exec", own_box, "true"), "stopped", "cay start", code=125)
    assert ok(verb("start", own_box)).strip() == own_box and state() == "started"
    assert ok(verb("exec", own_box, "cat", "/workspace/file", "/root/r")) == "kept\nx\n"
    assert ok(verb("rename", own_box, own_box + "-new")).strip() == own_box + "-new"
    assert ok(verb("exec", own_box, "hostname"))  # by its id, still
    refused(verb("rename", own_box, "0123456789abcdef"), "id", code=2)


@pytest.mark.skipif(bool(TIER), reason="freezing needs a control group")
def test_pause_holds_what_runs(verb, own_box, state):
    run = start("exec", "--state-dir", state, own_box, "--", "sh", "-c",
                "while [ ! -e /tmp/go ]; do echo x; sleep 0.05; done; echo end")
    assert run.stdout.readline() == b"x\n"
    ok(verb("pause", own_box))
    assert json.loads(ok(verb("info", "-o", "json", own_box)))["state"] == "paused"
    refused(verb("exec", own_box, "true"), "paused", "cay resume", code=125)
    speaks = lambda: select.select([run.stdout], [], [], 1)[0] and os.read(run.stdout.fileno(), 65536)
    assert until(lambda: not speaks())  # what was under way has come, and then nothing for a while
    ok(verb("resume", own_box))
    assert until(speaks)
    ok(verb("exec", own_box, "touch", "/tmp/go"))
    assert run.communicate(timeout=60)[0].split()[-1] == b"end" and run.returncode == 0


def test_rename_refuses(verb, own_box, box):
    refused(verb("rename", own_box, box), code=4)
    refused(verb("rename", own_box, "a b"), code=2)


def test_rm(verb, create):
    names = [create() for _ in range(3)]
    done = verb("rm", names[0], "nosuch", names[1])
    assert done.returncode == 3 and done.stdout.decode().split() == names[:2]
    assert ok(verb("rm", "-q", names[2])) == ""
    refused(verb("info", names[0]), code=3)


def test_rm_waits_for_force_while_something_is_done(verb, create, state):
    name = create()
    busy = start("exec", "--state-dir", state, name, "--", "sh", "-c", "echo up; sleep 1000")
    assert busy.stdout.readline() == b"up\n"
    refused(verb("rm", name), code=4)
    assert ok(verb("rm", "-f", name)).strip() == name
    assert busy.wait(60) == 125
    busy.communicate()


def test_prune(verb, create, box):
    stopped = [create(), create()]
    ok(verb("stop", *stopped))
    assert set(ok(verb("prune", "--dry-run")).split()) == set(stopped)
    refused(verb("prune"), "removes 2 stopped sandboxes", "--force", code=2)
    assert set(json.loads(ok(verb("prune", "--force", "-o", "json")))["removed"]) == set(stopped)
    assert ok(verb("prune")) == "" and box in ok(verb("ls"))


def test_prune_asks_on_a_terminal(verb, create, state):
    name = create()
    ok(verb("stop", name))
    for answer, code in (("n\n", 4), ("\n", 4), ("y\n", 0)):
        with Terminal(words=["prune", "--state-dir", state]) as terminal:
            terminal.expect(r"all files in it\? \[y/N\] ")
            terminal.type(answer)
            assert terminal.end() == code
        assert (name in ok(verb("ls", "-a"))) == (code != 0)


def test_stats(verb, box):
    lines = ok(verb("stats", box)).splitlines()
    assert lines[0].startswith("NAME") and lines[1].split()[0] == box
    assert box in ok(verb("stats"))
    seen = json.loads(ok(verb("stats", "-o", "json", box)))
    assert {"memoryBytes", "cpuMicros", "pids"} <= set(seen)


def test_stats_go_on_until_they_are_ended(state, box):
    watch = start("stats", "--state-dir", state, "--watch", box)
    seen = [watch.stdout.readline() for _ in range(4)]  # twice, in two seconds
    watch.send_signal(signal.SIGINT)
    watch.communicate(timeout=60)
    assert seen[1].split()[2] == b"s" and seen[3].split()[2] == b"%", seen


# ---- exec ----

def test_exec_streams_are_binary_safe(verb, box):
    data = random.Random(1).randbytes(4 * MB)
    done = verb("exec", box, "cat", input=data)
    assert (done.returncode, done.stderr) == (0, b"") and done.stdout == data


def test_exec_streams_are_separate(sh):
    done = sh("printf 'a\\000b'; printf 'c\\000d' >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"a\0b", b"c\0d")


def test_exec_large_output(verb, box):
    done = verb("exec", box, "--", "head", "-c", str(64 * MB), "/dev/zero")
    assert len(done.stdout) == 64 * MB


def test_exec_options_end_at_the_name(verb, box):
    assert ok(verb("exec", box, "echo", "-t", "--timeout", "--")) == "-t --timeout --\n"


def test_exec_defaults(sh):
    text = ok(sh("echo $FROM $HOSTNAME $HOME; pwd; id -un"))
    assert text == "create shared /root\n/workspace\nroot\n"


def test_exec_choices(sh):
    text = ok(sh("echo $FROM $NEW; pwd", "-e", "FROM=exec", "-e", "NEW=a b", "-w", "/tmp/made"))
    assert text == "exec a b\n/tmp/made\n"


@needs_ids
def test_exec_as_another_user(sh):
    assert ok(sh("id -un; pwd", "-u", "nobody", "-w", "/tmp")) == "nobody\n/tmp\n"


@pytest.mark.parametrize("script, code", [("exit 0", 0), ("exit 255", 255), ("kill -9 $$", 137),
                                          ("kill -TERM $$", 143)])
def test_exec_exit_codes(sh, script, code):
    assert sh(script).returncode == code


def test_exec_what_cannot_be_executed(verb, box):
    refused(verb("exec", box, "nosuch-command"), code=127)
    refused(verb("exec", box, "/etc/passwd"), code=126)
    refused(verb("exec", "nosuch", "true"), code=125)
    refused(verb("exec", box), "no command", code=125)
    refused(verb("exec", "-u", "nosuchuser", box, "true"), code=125)
    refused(verb("exec", "-u", "", box, "true"), code=125)
    refused(verb("exec", "-w", "relative", box, "true"), code=125)
    refused(verb("exec", "-e", "X-Y", box, "true"), code=125)
    refused(verb("exec", "-t", box, "true"), "terminal", code=125)


def test_exec_limits(sh):
    def began(done):
        return done.stdout != b""
    done = given_time(lambda s: sh("echo begun; sleep 600", "--timeout", s), began)
    assert (done.returncode, done.stdout) == (124, b"begun\n") and b"--timeout" in done.stderr
    done = given_time(lambda s: sh("echo begun; sleep 600", "--idle-output-timeout", s), began)
    assert (done.returncode, done.stdout) == (124, b"begun\n")
    done = sh("yes", "--output-max", "100", "-q")
    assert (done.returncode, done.stderr) == (124, b"") and len(done.stdout) <= 100


def test_exec_json(sh):
    done = sh("echo out; echo err >&2; exit 4", "-o", "json")
    seen = json.loads(done.stdout)
    assert done.returncode == 4 and done.stderr == b""
    assert (seen["exit_code"], seen["stdout"], seen["stderr"]) == (4, "out\n", "err\n")
    seen = json.loads(sh("sleep 1000", "-o", "json", "--timeout", "200ms").stdout)
    assert seen["timed_out"] is True and seen["exit_code"] == 124


@as_root_only
def test_exec_out_of_memory(verb, create):
    name = create("--memory", "64m")
    hog = ("python3", "-c", "x = bytearray(400 << 20)")
    seen = json.loads(verb("exec", "-o", "json", name, "--", *hog).stdout)
    assert seen["exit_code"] == 137 and seen["oom_killed"] is True
    done = verb("exec", name, "--", *hog)
    assert done.returncode == 137 and b"out of memory" in done.stderr
    seen = json.loads(verb("exec", "-o", "json", name, "--", "sh", "-c", "kill -9 $$").stdout)
    assert seen["exit_code"] == 137 and seen["oom_killed"] is False  # that was before
    verb("rm", "-f", name)


def test_exec_json_of_a_failure(verb):
    done = verb("exec", "-o", "json", "nosuch", "true")
    seen = json.loads(done.stdout)
    assert done.returncode == 125 and seen["error"]["code"] == "not_found"


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 9), (signal.SIGTERM, 8),
                                          (signal.SIGHUP, 7)])
def test_exec_passes_signals_on(state, box, number, code):
    run = start("exec", "--state-dir", state, box, "--", "sh", "-c",
                "trap 'exit 9' INT; trap 'exit 8' TERM; trap 'exit 7' HUP; echo up;"
                "while :; do sleep 0.1; done")
    assert run.stdout.readline() == b"up\n"
    run.send_signal(number)
    assert run.wait(60) == code
    run.communicate()


def test_a_command_ends_with_its_client(state, verb, box):
    run = start("exec", "--state-dir", state, box, "--", "sh", "-c", "echo up; exec sleep 4321")
    assert run.stdout.readline() == b"up\n"
    run.kill()
    run.communicate()
    deadline = time.monotonic() + 60
    while "4321" in ok(verb("exec", box, "--", "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")):
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_many_commands_at_once(state, box):
    runs = [start("exec", "--state-dir", state, box, "--", "sh", "-c", f"sleep 0.2; echo {i}")
            for i in range(20)]
    assert [run.communicate(timeout=60) for run in runs] == \
        [(f"{i}\n".encode(), b"") for i in range(20)]


# ---- terminals ----

def test_exec_on_a_terminal(state, box):
    with Terminal(words=["exec", "--state-dir", state, "-t", box, "sh", "-c",
                         "stty size; trap 'echo got; exit 5' INT; echo up; sleep 1000 & wait"]) as t:
        t.expect(r"30 90\r\nup\r\n")
        t.type("\x03")
        t.expect("got")
        assert t.end() == 5


def test_shell(state, box):
    with Terminal(words=["shell", "--state-dir", state, box]) as t:
        t.type("echo $0 $((6*7)); pwd; tty\n")
        t.expect(r"[\r\n]-?(bash|sh) 42\r\n.*/workspace\r\n.*/dev/pts/")
        t.resize(20, 70)
        t.type("until [ \"$(stty size)\" = '20 70' ]; do sleep 0.05; done; echo re''sized\n")
        t.expect("resized")
        t.type(SLEEPER)
        t.expect(r"up-\d+\r\n")
        t.type("\x03")
        t.type("exit 6\n")
        assert t.end() == 6


def test_shell_without_a_terminal_reads_a_script(verb, box):
    done = verb("shell", box, input=b"echo $((2+3))\nexit 4\n")
    assert (done.returncode, done.stdout) == (4, b"5\n")


# ---- cp ----

ODD = ["plain", "with space", "new\nline", "tab\t", "ünï", "-dash", "a:b", "'quote\"", "*", "\\x",
       "x" * 255]


def make_tree(top):
    """A folder with all that a copy has to keep."""
    (top / "empty").mkdir(parents=True)
    (top / "deep/er").mkdir(parents=True)
    for i, name in enumerate(ODD):
        (top / name).write_bytes(random.Random(i).randbytes(i * 1000))
    (top / os.fsdecode(b"latin\xff")).write_bytes(b"no utf-8")
    (top / "nothing").touch()
    (top / "hole").write_bytes(b"\0" * 200000 + b"end")
    (top / "script").write_text("#!/bin/sh\n")
    (top / "script").chmod(0o755)
    (top / "private").write_text("x")
    (top / "private").chmod(0o600)
    os.link(top / "plain", top / "hard")
    (top / "link").symlink_to("plain")
    (top / "dangling").symlink_to("/nonexistent/target")
    (top / "to-folder").symlink_to("deep")
    os.utime(top / "script", ns=(0, 981173106_123456789))
    (top / "deep").chmod(0o750)
    os.utime(top / "deep", ns=(0, 981173107_000000001))
    os.utime(top / "link", ns=(0, 981173108_5), follow_symlinks=False)


def describe(top):
    """Everything of a tree that a copy must keep."""
    seen, first = {}, {}
    for path in sorted(top.rglob("*")):
        st = path.lstat()
        name = str(path.relative_to(top))
        if path.is_symlink():
            what = os.readlink(path)
        elif path.is_file():
            what = hashlib.sha256(path.read_bytes()).hexdigest(), \
                first.setdefault(st.st_ino, name)
        else:
            what = "folder"
        when = st.st_mtime_ns if path.name in ("script", "deep", "link") else None
        seen[name] = (oct(st.st_mode), what, when)
    return seen


def as_owner(folder):
    """The tested user must be able to read what the test made."""
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            own(path)


def test_cp_round_trip(verb, own_box, folder):
    make_tree(folder / "tree")
    as_owner(folder)
    ok(verb("cp", folder / "tree", f"{own_box}:"))
    ok(verb("cp", f"{own_box}:tree", folder / "back"))
    assert describe(folder / "back") == describe(folder / "tree")
    assert ok(verb("exec", own_box, "cat", "tree/private")) == "x"


def test_cp_large_file(verb, own_box, folder):
    size = 100 * MB
    with open(folder / "large", "wb") as f:
        block = random.Random(3).randbytes(MB)
        for i in range(size // MB):
            f.write(i.to_bytes(8, "big") + block[8:])
    own(folder / "large")
    ok(verb("cp", folder / "large", f"{own_box}:/tmp/large"))
    ok(verb("cp", f"{own_box}:/tmp/large", folder / "again"))
    digests = [hashlib.sha256((folder / n).read_bytes()).hexdigest() for n in ("large", "again")]
    assert digests[0] == digests[1]


def put(folder, name, text):
    (folder / name).write_text(text)
    return own(folder / name)


def test_cp_names_as_cp_does(verb, own_box, folder):
    def inside(path):
        return ok(verb("exec", own_box, "cat", path))

    put(folder, "f", "1")
    ok(verb("cp", folder / "f", f"{own_box}:"))
    ok(verb("cp", folder / "f", f"{own_box}:g"))
    ok(verb("cp", folder / "f", f"{own_box}:/tmp"))
    ok(verb("cp", folder / "f", f"{own_box}:/tmp/"))
    assert [inside(p) for p in ("f", "g", "/tmp/f")] == ["1"] * 3
    put(folder, "f", "2")
    ok(verb("cp", folder / "f", f"{own_box}:g"))  # replaced
    assert inside("g") == "2"
    ok(verb("cp", f"{own_box}:g", folder / "out"))
    ok(verb("cp", f"{own_box}:g", folder))
    assert (folder / "out").read_text() == (folder / "g").read_text() == "2"


def test_cp_folders_as_cp_does(verb, own_box, folder):
    (folder / "d/sub").mkdir(parents=True)
    put(folder, "d/f", "1")
    as_owner(folder)
    ok(verb("cp", folder / "d", f"{own_box}:new"))        # as a new name
    ok(verb("cp", folder / "d", f"{own_box}:new"))        # into it, now
    ok(verb("cp", f"{folder}/d/.", f"{own_box}:content")) # what is in it
    ok(verb("cp", f"{folder}/d/.", f"{own_box}:content"))
    seen = ok(verb("exec", own_box, "find", "new", "content")).split()
    assert sorted(seen) == sorted(["new", "new/f", "new/sub", "new/d", "new/d/f", "new/d/sub",
                                   "content", "content/f", "content/sub"])
    ok(verb("cp", f"{own_box}:new", folder / "a"))
    ok(verb("cp", f"{own_box}:new/.", folder / "b"))
    ok(verb("cp", f"{own_box}:new/.", folder / "b"))
    assert sorted(p.name for p in (folder / "a").iterdir()) == ["d", "f", "sub"]
    assert sorted(p.name for p in (folder / "b").iterdir()) == ["d", "f", "sub"]


def test_stats_are_live_on_a_terminal(state, box, create, verb):
    with Terminal(words=["stats", "--state-dir", state]) as t:
        t.expect(rf"{box} .* s ", 30)
        other = create()
        t.expect(other, 30)
        t.expect(rf"{other} +[0-9.]+ %", 30)  # the share since the look before
        ok(verb("rm", "-f", other))
        t.expect(rf"PIDS[^P]*{box}[^P]*\x1b", 30)
        os.kill(t.process.pid, signal.SIGINT)
        assert t.process.wait(60) == -signal.SIGINT
    with Terminal(words=["stats", "--state-dir", state, "--once"]) as t:
        t.expect(box, 30)
        assert t.process.wait(60) == 0


@pytest.mark.parametrize("options, shown", [([], True), (["--quiet"], False)])
def test_cp_shows_how_far_it_is(state, own_box, options, shown):
    """On a terminal, and only where it takes long enough for somebody to wonder."""
    master, slave = pty.openpty()
    try:
        copy = start("cp", "--state-dir", state, *options, "-", f"{own_box}:slow", stderr=slave)
        os.set_blocking(master, False)
        seen = b""

        def more(size):
            nonlocal seen
            copy.stdin.write(b"x" * size)
            copy.stdin.flush()
            with contextlib.suppress(BlockingIOError):
                seen += os.read(master, 65536)
            return b"B/s" in seen

        more(MB)
        if shown:
            assert until(lambda: more(1000))
        else:
            time.sleep(0.7)
        more(MB)
        copy.stdin.close()
        assert copy.wait(60) == 0
        with contextlib.suppress(BlockingIOError):
            while True:
                seen += os.read(master, 65536)
        assert (b"B/s" in seen) == shown
        assert not shown or seen.endswith(b"\r\x1b[K")  # and leaves nothing
    finally:
        os.close(master)
        os.close(slave)


def test_cp_json(verb, own_box, folder):
    (folder / "d").mkdir()
    put(folder, "d/f", "1")
    as_owner(folder)
    for words in ([folder / "d", f"{own_box}:d"], [f"{own_box}:d", folder / "e"]):
        told = json.loads(ok(verb("cp", "-o", "json", *words)))
        assert told.pop("bytes") > 1 and told == {"members": 2, "note": None}
    done = verb("cp", "-o", "json", "-", f"{own_box}:f", input=b"x")
    assert json.loads(ok(done))["members"] == 1
    assert ok(verb("cp", "-o", "json", f"{own_box}:f", "-")) == "x"


@pytest.mark.parametrize("source, target, code", [
    ("{folder}/nosuch", "{box}:", 3),
    ("{box}:nosuch", "{folder}", 3),
    ("{folder}/f", "{box}:nosuch/", 2),
    ("{folder}/f", "{box}:no/such", 3),
    ("{folder}", "{box}:/etc/passwd", 2),
    ("{box}:/etc", "{folder}/f", 2),
    ("{box}:/etc/passwd", "{folder}/no/such", 3),
    ("{box}:/etc/passwd", "{folder}/no/", 2),
    ("{folder}/f", "{folder}/g", 2),
    ("{box}:a", "{box}:b", 2),
    ("{folder}/f", "nosuch:", 3),
    ("{folder}/f", ":x", 2),
    ("-", "-", 2),
    ("{folder}/f", "{box}:" + "x" * 5000, 2),
])
def test_cp_refuses(verb, box, folder, source, target, code):
    put(folder, "f", "1")
    before = sorted(folder.rglob("*"))
    refused(verb("cp", source.format(box=box, folder=folder),
                 target.format(box=box, folder=folder)), code=code)
    assert sorted(folder.rglob("*")) == before


def test_cp_standard_streams(verb, own_box, folder):
    data = random.Random(5).randbytes(3 * MB)
    ok(verb("cp", "-", f"{own_box}:data", input=data))
    assert verb("cp", f"{own_box}:data", "-").stdout == data
    tar = verb("cp", f"{own_box}:/workspace", "-").stdout
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        assert archive.extractfile("workspace/data").read() == data
    ok(verb("cp", "-", f"{own_box}:/tmp", input=tar))
    assert ok(verb("exec", own_box, "cmp", "/tmp/workspace/data", "data")) == ""


def test_cp_leaves_out_what_is_no_file(verb, own_box, folder):
    ok(verb("exec", own_box, "mkfifo", "pipe"))
    done = verb("cp", f"{own_box}:.", folder / "out")
    assert done.returncode == 0 and b"left out 1" in done.stderr
    os.mkfifo(folder / "fifo")
    own(folder / "fifo")
    done = verb("cp", folder, f"{own_box}:in")
    assert done.returncode == 0 and b"left out 1" in done.stderr


def test_cp_to_a_full_disk_says_so(verb, create, folder):
    if USER:
        refused(verb("create", *TIER, "--disk", "16m"), "disk limit", "loop devices", code=7)
        return
    name = create("--disk", "16m")
    try:
        (folder / "large").write_bytes(b"x" * 40 * MB)
        own(folder / "large")
        refused(verb("cp", folder / "large", f"{name}:"), "large", "No space left", "disk", code=6)
        assert "16.0 MB" in ok(verb("stats", name))
        ok(verb("exec", name, "--", "rm", "-f", "large"))
        ok(verb("cp", "/etc/hostname", f"{name}:"))
    finally:
        verb("rm", "-f", name)


@pytest.mark.skipif(bool(USER), reason="volumes are mapped to the command's user as root only")
def test_a_volume_belongs_to_the_sandbox_s_user(verb, create, folder):
    os.chown(folder, 4711, 4712)
    name = create("--user", "1234:1235", "-v", f"{folder}:/data")
    try:
        ok(verb("exec", name, "--", "sh", "-c", "stat -c %u:%g /data | grep 1234:1235 && : > /data/x"))
        assert ((folder / "x").stat().st_uid, (folder / "x").stat().st_gid) == (4711, 4712)
    finally:
        verb("rm", "-f", name)


def test_info_tells_of_the_disk_limit(verb, own_box):
    text = next(line for line in ok(verb("info", own_box)).splitlines() if line.startswith("disk"))
    assert text.split(None, 1)[1] == ("no limit" if USER else "5.0 GB")


def test_cp_out_writes_nothing_beside_its_target(verb, own_box, folder):
    """A sandbox whose files try to lead out of the destination."""
    ok(verb("exec", own_box, "--", "sh", "-c",
            "mkdir -p evil; ln -s /etc evil/etc; ln -s .. evil/up; chmod u+s,g+s evil;"
            "cp /bin/true evil/setuid; chmod 6755 evil/setuid"))
    ok(verb("cp", f"{own_box}:evil", folder / "safe"))
    assert sorted(p.name for p in folder.iterdir()) == ["safe"]
    assert os.readlink(folder / "safe/etc") == "/etc"
    assert (folder / "safe/setuid").stat().st_mode & 0o7777 == 0o755
    # a link that is there already is not followed by a later copy
    (folder / "target").mkdir()
    own(folder / "target")
    ok(verb("exec", own_box, "--", "sh", "-c", "rm evil/up; mkdir evil/up; echo x > evil/up/file"))
    (folder / "safe/up").unlink()
    (folder / "safe/up").symlink_to(folder / "target")
    done = verb("cp", f"{own_box}:evil/.", folder / "safe")
    assert done.returncode != 0 and list((folder / "target").iterdir()) == []


# ---- finding the daemon ----

def test_host_by_flag_and_environment(state, box):
    url = f"unix://{state}/daemon/cay.sock"
    other = tempfile.mkdtemp(prefix="box-", dir="/tmp")
    own(other)
    try:
        assert box in ok(cay("ls", "--state-dir", other, "--host", url))
        assert box in ok(cay("ls", "--state-dir", other, env={"CAY_HOST": url}))
        assert os.listdir(other) == []  # none was started
    finally:
        shutil.rmtree(other)


@pytest.mark.parametrize("host, code, part", [
    ("unix:///nonexistent/cay.sock", 10, "not running"),
    ("http://127.0.0.1:1", 10, "not running"),
    ("https://127.0.0.1:1", 10, "cannot reach"),
    ("http://127.0.0.1:1/api", 10, "cannot reach"),
    ("ftp://x", 2, "unix://"),
    ("http://127.0.0.1:99999", 2, "http://"),
])
def test_a_host_that_is_not_there(folder, host, code, part):
    refused(cay("ls", "--state-dir", folder, "--host", host), part, code=code)
    refused(cay("exec", "--state-dir", folder, "--host", host, "x", "true"), part, code=125)


def test_a_verb_starts_the_daemon(folder):
    need_daemon()
    try:
        refused(cay("ls", "--state-dir", folder, "--names"), code=10)
        assert not (folder / "daemon").exists()  # completion starts none
        starts = [start("ls", "--state-dir", folder, "-q") for _ in range(4)]
        for one in starts:
            out, err = one.communicate(timeout=60)
            assert (one.returncode, out, err) == (0, b"", b"")
        name = ok(cay("create", "--state-dir", folder, *TIER)).strip()
        ok(cay("rm", "--state-dir", folder, "-f", name))
    finally:
        end_background(folder)


def test_a_daemon_that_cannot_start_is_told(folder):
    need_daemon()
    bad = folder / "config.toml"
    bad.write_text("[server]\nsocket = \"/nonexistent/folder/cay.sock\"\n")
    own(bad)
    refused(cay("ls", "--state-dir", folder / "state", "--config", bad), code=10)


def test_a_daemon_over_tcp(folder):
    need_daemon()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    elsewhere = own(Path(tempfile.mkdtemp(prefix="box-", dir="/tmp")))
    daemon = start("serve", "--state-dir", folder, "--listen", f"127.0.0.1:{port}",
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    try:
        wait_for(folder / "daemon/cay.sock")
        ok(cay("ls", "--state-dir", folder))  # answered when both sockets are served
        key = (folder / "admin.key").read_text().strip()
        here = ["--state-dir", folder, "--host", url]
        there = ["--state-dir", elsewhere, "--host", url]
        name = ok(cay("create", *here, *TIER)).strip()  # with the key of the state folder
        refused(cay("ls", *there), code=8)
        refused(cay("ls", *there, env={"CAY_API_KEY": "wrong"}), code=8)
        refused(cay("ls", *there, env={"CAY_API_KEY": "a\nb"}), "CAY_API_KEY", code=2)
        assert name in ok(cay("ls", *there, env={"CAY_API_KEY": key}))
        data = random.Random(7).randbytes(MB)
        done = cay("exec", *there, name, "cat", env={"CAY_API_KEY": key}, input=data)
        assert done.stdout == data and done.returncode == 0
        ok(cay("rm", *here, "-f", name))
    finally:
        daemon.terminate()
        daemon.wait(60)
        shutil.rmtree(elsewhere)


# ---- images ----

@pytest.mark.skipif(is_sanitized(), reason="a sanitized cay-init needs the host's C library")
def test_an_image_says_how_commands_run(state, verb):
    store = Store(state)
    image = store.load("kept-image", [base()], env=["A=image", "B=image", "PATH=/bin"],
                       WorkingDir="/srv", User="" if SINGLE_ID else "ann")
    name = ok(verb("create", *TIER, "--image", image, "-e", "B=create")).strip()
    try:
        seen = ok(verb("exec", "-e", "C=exec", name, "--", "sh", "-c", "echo $A $B $C $PATH; pwd; id -u"))
        assert seen == f"image create exec /bin\n/srv\n{0 if SINGLE_ID else 1000}\n"
        assert ok(verb("exec", "-u", "root", name, "id", "-u")) == "0\n"
        ok(verb("stop", name))
        ok(verb("start", name))
        assert ok(verb("exec", name, "pwd")) == "/srv\n"
    finally:
        verb("rm", "-f", name)


def test_an_image_that_cannot_be_fetched(verb):
    done = verb("create", *TIER, "--image", "localhost:1/no/such:image")
    refused(done, "localhost:1", code=done.returncode)
    refused(verb("create", *TIER, "--image", "No Such"), code=2)


def test_progress_is_shown_on_a_terminal(state):
    with Terminal(words=["create", "--state-dir", state, *TIER, "--image",
                         "localhost:1/no/such:image"]) as t:
        t.expect("cay: .*localhost:1")
        assert t.end(30) != 0


# ---- completion and help ----

def test_names_complete(verb, box):
    assert box in ok(verb("ls", "--names")).split()


def test_help_of_every_verb():
    for name in ("create", "ls", "info", "exec", "shell", "cp", "stats", "stop", "start", "pause",
                 "resume", "rename", "rm", "prune", "serve"):
        text = ok(cay(name, "--help"))
        assert f"cay {name}" in text and max(map(len, text.splitlines())) <= 100
