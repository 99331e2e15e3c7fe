"""Sessions and contexts over restarts of the daemon: what runs in them goes on, keeps its state, and
loses no output, whether the daemon is replaced, stopped and started, or its front is killed."""

import contextlib
import json
import signal
import subprocess

import pytest
import support
from daemons import CAYD, serving_tcp
from interpreting import Context
from launching import until
from test_restart import replace
from test_sessions import Sessions
from traffic import Counts, running, workers_for

COUNT = 250  # lines, one each 10 ms
SHELL = f'i=0; while [ $i -lt {COUNT} ]; do i=$((i+1)); echo $i; sleep 0.01; done; exit_code=7; (exit 7)'
PYTHON = f"import time\nfor i in range(1, {COUNT + 1}):\n    print(i, flush=True)\n    time.sleep(0.01)\n"
NUMBERS = [str(i) for i in range(1, COUNT + 1)]


@pytest.fixture(scope="module")
def daemon():
    support.need_cay()
    if not CAYD.exists():
        pytest.skip("cayd is not built: ninja -C build")
    with serving_tcp() as made:
        yield made


@pytest.fixture
def box(daemon):
    made = daemon.create(memory="256m", pids=256)["id"]
    yield made
    daemon.call("DELETE", f"/api/cay/sandbox/{made}?force=true")


def stop_and_start(daemon):
    daemon.stop()
    daemon.start()


def crash(daemon):
    daemon.kill_child("cayd-front")
    assert until(daemon.serves, 60)


WAYS = {"replaced": replace, "restarted": stop_and_start, "crashed": crash}


@contextlib.contextmanager
def traffic(daemon, box):
    """Other clients meanwhile, for whom nothing may be lost either."""
    counts = Counts()
    workers = workers_for(daemon, counts, 2, 1, [box])
    with running(workers):
        yield
    assert counts.answered > 0


@pytest.mark.parametrize("way", WAYS)
def test_a_session_goes_on(daemon, box, way):
    session = Sessions(daemon, box).make("s")
    session.out("kept=here; cd /tmp")
    number = session.start_async(SHELL)
    with contextlib.nullcontext() if way == "crashed" else traffic(daemon, box):
        WAYS[way](daemon)
    assert session.wait()["exit_code"] == 7
    assert session.logs(str(number)).stdout.decode().split() == NUMBERS
    assert session.out("echo $kept $exit_code; pwd") == "here 7\n/tmp\n"


@pytest.mark.parametrize("way", WAYS)
def test_who_follows_a_session_follows_it_again(daemon, box, way):
    session = Sessions(daemon, box).make("s")
    number = session.start_async(SHELL)
    follower = session.all.begin("logs", "-f", *session.words, str(number))
    assert until(lambda: len(session.logs(str(number)).stdout.split()) > 20, 60)
    WAYS[way](daemon)
    out, err = follower.communicate(timeout=120)
    assert follower.returncode == 0, err
    assert out.decode().split() == NUMBERS  # each once


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("output", ["table", "json"])
def test_who_waits_for_a_command_gets_its_end(daemon, box, way, output):
    session = Sessions(daemon, box).make("s")
    run = session.begin(SHELL, "-o", output)
    assert until(lambda: session.status() and len(session.logs("1").stdout.split()) > 20, 60)
    WAYS[way](daemon)
    out, err = run.communicate(timeout=120)
    result = json.loads(out) if output == "json" else {"stdout": out.decode(), "exit_code": run.returncode}
    assert (run.returncode, result["exit_code"]) == (7, 7), err
    assert result["stdout"].split() == NUMBERS  # each once


def test_input_ends_where_the_daemon_did(daemon, box):
    session = Sessions(daemon, box).make("s")
    run = session.begin("read line; echo got $line; cat; echo end; (exit 3)", stdin=subprocess.PIPE)
    run.stdin.write(b"one\n")
    run.stdin.flush()
    assert until(lambda: session.status() and session.logs("1").stdout == b"got one\n", 60)
    crash(daemon)
    out, err = run.stdout.read(), run.stderr.read()
    assert run.wait(60) == 3, err
    assert out == b"got one\nend\n"
    assert b"its input has ended" in err


def test_a_signal_reaches_a_command_that_is_followed_again(daemon, box):
    session = Sessions(daemon, box).make("s")
    run = session.begin("trap 'exit 9' USR1; echo ready; while :; do sleep 0.1; done")
    assert until(lambda: session.status() and session.logs("1").stdout == b"ready\n", 60)
    crash(daemon)
    assert until(lambda: run.poll() is not None or run.send_signal(signal.SIGINT), 60)
    assert run.returncode == 130, run.stderr.read()


def test_a_command_whose_sandbox_stops_is_not_waited_for(daemon, box):
    session = Sessions(daemon, box).make("s")
    run = session.begin("echo ready; sleep 300")
    assert until(lambda: session.status() and session.logs("1").stdout == b"ready\n", 60)
    daemon.call("POST", f"/api/cay/sandbox/{box}/stop?force=true")
    _, err = run.communicate(timeout=60)
    assert run.returncode == 125
    assert b"the sandbox ended before its command did" in err


@pytest.mark.parametrize("way", WAYS)
def test_who_waits_for_code_gets_its_end(daemon, box, way):
    where = ("--state-dir", str(daemon.state))
    run = support.start("context", "run", *where, "-o", "json", box, "c", "-c", "open('/tmp/begun', 'w')\n" + PYTHON + "6 * 7\n")
    assert until(lambda: support.cay("exec", *where, box, "--", "test", "-e", "/tmp/begun").returncode == 0, 60)
    WAYS[way](daemon)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, (out, err)
    result = json.loads(out)
    assert result["stdout"].split() == NUMBERS
    assert "42" in json.dumps(result["results"]), result


def context_of(daemon, box):
    answer = daemon.ask("POST", f"/toolbox/{box}/process/interpreter/context", {})
    assert answer.status == 200, answer.text
    return Context(daemon, f"/toolbox/{box}", answer.json()["id"])


def output_of(run):
    """What came before its connection ended, however that was."""
    with contextlib.suppress(OSError, EOFError):
        run.end()
    return run.out


@pytest.mark.parametrize("way", WAYS)
def test_a_context_goes_on(daemon, box, way):
    context = context_of(daemon, box)
    context.out("kept = 'here'")
    first = context.begin(PYTHON + "done = True\n")
    first.until("20\n")
    WAYS[way](daemon)
    out = output_of(first)
    again = context.begin(attach=True)  # attaches to the run under way, and gets all of it
    assert output_of(again).split() == NUMBERS or out.split() == NUMBERS, (out[-200:], again.messages)
    assert until(lambda: context.run("print(kept, done)").out == "here True\n", 60)
