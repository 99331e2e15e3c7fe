"""`cay run --engine docker`: a container for one command, made and removed without a daemon."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
import support
from docking import engine_of
from engines import DockerEngine, DockerRemoteEngine
from launching import until

pytestmark = pytest.mark.skipif(bool(support.USER), reason="dockerd needs root")


class WithoutDaemon:
    """No daemon: only Docker, which has the image, and a state folder with it."""

    def start(self):
        super().start()
        self.end_daemon()
        support.ok(self.cay("run", "--quiet", "--engine", "docker", "--image", self.main, "--", "true"))


class Local(WithoutDaemon, DockerEngine):
    pass


class Far(WithoutDaemon, DockerRemoteEngine):
    pass


engine = engine_of(Local)
far = engine_of(Far)


def containers(engine):
    return engine.docker("ps", "-aq").split()


def left(engine):
    """Containers, folders and sockets that are there still; "self" names the state folder."""
    folder = engine.daemon.state / "docker-run"
    return containers(engine) + [p.name for p in folder.glob("*") if p.name != "self"]


def words(engine, *args):
    return engine.command("cay", "run", "--state-dir", engine.daemon.state, "--engine", "docker",
                          "--image", engine.main, *args)


@pytest.fixture
def run(engine):
    def run_one(*args, **more):
        more.setdefault("timeout", 120)
        more.setdefault("input", b"")
        return subprocess.run(words(engine, *args), env=engine.env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, **more)
    yield run_one
    assert until(lambda: left(engine) == [])


@pytest.fixture
def begin(engine):
    """Starts one that goes on, and waits until its command runs and has done what comes first."""
    begun = []

    def begin_one(script, first=":"):
        process = subprocess.Popen(words(engine, "--", "sh", "-c", f"{first}; echo runs; {script}"),
                                   env=engine.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        begun.append(process)
        assert process.stdout.readline() == b"runs\n", process.communicate()
        return process
    yield begin_one
    for process in begun:
        process.kill()
        process.communicate()


def helper_of(process):
    """The cay-docker that a run has started."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return next(int(c) for c in children if Path(f"/proc/{c}/comm").read_text() == "cay-docker\n")


def test_output_input_and_exit_code(run):
    done = run("--", "sh", "-c", "cat; echo wrong >&2; exit 3", input=b"in\0put")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"in\0put", b"wrong\n")


@pytest.mark.parametrize("command, code", [(["/none"], 127), (["/etc/passwd"], 126),
                                           (["sh", "-c", "kill -TERM $$"], 143)])
def test_other_exit_codes(run, command, code):
    assert run("--", *command).returncode == code


def test_json(run):
    done = run("-o", "json", "--timings", "--label", "a=b", "-e", "K=v", "-w", "/some/where",
               "-u", "ann", "--name", "lab", "--",
               "sh", "-c", "echo $K $(pwd) $(id -u) $(hostname); exit 4")
    found = json.loads(done.stdout)
    assert (done.returncode, found["exit_code"]) == (4, 4)
    assert found["stdout"] == "v /some/where 1000 lab\n"
    assert (found["tier"], found["labels"]) == ("basic", {"a": "b"})
    assert found["phases"]["start_ms"] > 0 and found["phases"]["end_ms"] > 0


def test_a_timeout_keeps_the_output(run):
    done = support.given_time(lambda s: run("--timeout", f"{s}s", "--", "sh", "-c", "echo first; sleep 1000"),
                              lambda done: done.stdout != b"", (2, 10, 30))
    assert (done.returncode, done.stdout) == (124, b"first\n")


def test_limits_bite(run):
    done = run("-o", "json", "-m", "32m", "--", "sh", "-c", "dd if=/dev/zero of=/dev/null bs=64M count=1")
    found = json.loads(done.stdout)
    assert found["exit_code"] == 137 and found["oom_killed"], found
    assert b"fork" in run("--pids", "8", "--", "sh", "-c",
                          "for i in 1 2 3 4 5 6 7 8 9; do sleep 1000 & done").stderr


def test_volumes(run, engine):
    shared = engine.folder / "shared"
    shared.mkdir()
    (shared / "file").write_text("of the host")
    done = run("-v", f"{shared}:/data:ro", "--", "sh", "-c", "cat /data/file; echo x > /data/file")
    assert done.returncode == 1 and done.stdout == b"of the host"
    support.ok(run("-v", f"{shared}:/data", "--", "sh", "-c", "echo inside > /data/file"))
    assert (shared / "file").read_text() == "inside\n"


def test_a_read_only_root(run):
    done = run("--read-only", "--", "sh", "-c", "echo x > /workspace/f && cat /workspace/f; echo y > /etc/f")
    assert done.stdout == b"x\n" and done.returncode != 0


def test_a_list_of_what_it_reaches(run):
    """By the proxy, which says what it refuses; there is no other way out."""
    done = run("--network", "allow=a.com", "--", "sh", "-c",
               r"printf 'GET http://b.org/ HTTP/1.0\r\n\r\n' | nc 127.0.0.1 ${http_proxy##*:}; "
               "cat /proc/net/route")
    assert b" 403 " in done.stdout and b"b.org is not on" in done.stdout, done
    assert done.stdout.splitlines()[-1].startswith(b"Iface"), done


@pytest.mark.parametrize("options, said, remedy", [
    (["--disk", "1g"], "limits no disks", "--engine native"),
    (["--disk", "1m"], "too little", "16m"),
    (["--tier", "full"], "tier full", "--tier basic"),
    (["--image", "host"], "host image", "--image"),
    (["--engine", "other"], "other", "docker"),
    (["--user", "nobody-here"], "nobody-here", ""),
    (["--volume", "/none:/x"], "/none", ""),
])
def test_what_is_refused(run, options, said, remedy):
    done = run(*options, "--", "true")
    assert done.returncode in (2, 125) and said in done.stderr.decode() and remedy in done.stderr.decode()


def test_docker_is_not_there(run, engine):
    env = {**engine.env, "DOCKER_HOST": "unix:///none"}
    done = subprocess.run(words(engine, "--", "true"), env=env, stdin=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 125 and b"/none" in done.stderr and b"dockerd" in done.stderr, done


def test_the_configuration_names_the_engine(run, engine):
    """And then a terminal's Ctrl-C, which is the command's."""
    done = subprocess.run(engine.command("cay", "run", "--state-dir", engine.daemon.state, "--image",
                                         engine.main, "--", "sh", "-c", "ls -d /.cay"),
                          env=engine.env, input=b"", stdout=subprocess.PIPE, timeout=60)
    assert done.stdout == b"/.cay\n"


def test_an_interrupt_is_the_command_s(run, begin):
    process = begin("while :; do sleep 0.05; done", first="trap 'echo told; exit 5' INT")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (5, b"told\n")


def test_it_is_killed(run, begin):
    """Then its helper removes the container."""
    begin("sleep 1000").kill()


def test_all_are_killed(run, begin, engine):
    """Then the next run removes what they left; that of one which lives stays."""
    lives, dies = begin("read x < /dev/zero; sleep 1000"), begin("sleep 1000")
    helper = helper_of(dies)
    os.kill(helper, signal.SIGSTOP)  # so that it does not see the end of the other
    dies.kill()
    dies.wait()
    os.kill(helper, signal.SIGKILL)
    assert len(containers(engine)) == 2
    support.ok(run("--", "true"))
    assert until(lambda: len(containers(engine)) == 1)
    assert lives.poll() is None
    lives.send_signal(signal.SIGTERM)
    lives.wait(60)


def test_the_container_is_killed(run, begin, engine):
    process = begin("sleep 1000")
    engine.docker("kill", containers(engine)[0])
    assert process.wait(60) == 125
    assert b"sandbox" in process.stderr.read()


def test_many_at_once(run, engine):
    all_of_them = [subprocess.Popen(words(engine, "--", "echo", str(i)), env=engine.env,
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
                   for i in range(4)]
    assert [p.communicate(timeout=120)[0] for p in all_of_them] == [b"%d\n" % i for i in range(4)]


def test_on_another_machine(far):
    done = subprocess.run(words(far, "--", "sh", "-c", "cat; exit 7"), env=far.env, input=b"there",
                          stdout=subprocess.PIPE, timeout=120)
    assert (done.returncode, done.stdout) == (7, b"there")
    refused = subprocess.run(words(far, "-v", f"{far.folder}:/x", "--", "true"), env=far.env,
                             stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=120)
    assert refused.returncode == 125 and b"another machine" in refused.stderr
    refused = subprocess.run(words(far, "--network", "allow=*", "--", "true"), env=far.env,
                             stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=120)
    assert refused.returncode == 125 and b"network list" in refused.stderr
    assert left(far) == []
