"""Stops and restarts under traffic: clients with keep-alive connections, an oracle outside."""

import json
import signal
import socket
import subprocess
import threading

import pytest
import support
from daemons import CAYD, children, name_of, serving, serving_tcp
from launching import STDOUT, until
from stressing import amount, random_numbers
from traffic import Counts, Viewer, Wire, running, workers_for
from websocket import open_unix


@pytest.fixture
def daemon():
    support.need_cay()
    if not CAYD.exists():
        pytest.skip("cayd is not built: ninja -C build")
    with serving_tcp() as made:
        yield made


def no_damage(daemon):
    log = daemon.log.read_text(errors="replace")
    for word in ("damaged", "Assertion", "front has ended", "Sanitizer"):
        assert word not in log, log[-4000:]


def go_on(workers, counts, requests=40):
    """Waits until some more requests were answered."""
    goal = counts.answered + requests
    assert until(lambda: counts.answered > goal or any(w.wrong for w in workers)), str(counts)
    assert not any(w.wrong for w in workers), [w.wrong for w in workers if w.wrong]


def test_stops_under_keep_alive_traffic(daemon):
    """SIGTERM and a start, again and again: between both there is nobody to ask, and that is all."""
    seed = random_numbers().randrange(1 << 30)
    counts = Counts()
    boxes = [daemon.create(memory="64m", pids=64)["id"] for _ in range(2)]
    workers = workers_for(daemon, counts, amount(8, 50), seed, boxes)
    with running(workers):
        for _ in range(amount(6, 200)):
            go_on(workers, counts)
            daemon.stop()
            daemon.start()
    no_damage(daemon)
    for w in workers:
        w.check(daemon)
    assert counts.broken == 0 and counts.told > 0, str(counts)
    print(counts)
    assert sum(w.wire.reused for w in workers) > 0


def test_viewers_are_told_that_it_restarts(daemon):
    box = daemon.create(memory="64m", pids=64)["id"]
    pty = open_unix(daemon.socket, f"/toolbox/{box}/process/pty/create-connect?id=t")
    assert "connected" in pty.receive()
    daemon.stop()
    while pty.receive() is not None:
        pass
    assert pty.closed == (1012, "the daemon restarts")
    daemon.start()


def test_a_request_on_an_open_connection_is_told_to_wait(daemon):
    """While a command holds up the end, others are neither served nor kept waiting."""
    box = daemon.create(memory="64m", pids=64)["id"]
    idle, busy = Wire(path=daemon.socket), Wire(path=daemon.socket)
    assert idle.ask("GET", "/healthz").status == 200
    answers = []
    thread = threading.Thread(target=lambda: answers.append(busy.ask(
        "POST", f"/toolbox/{box}/process/execute", {"command": "touch began; sleep 2; echo done"})))
    thread.start()
    assert until(lambda: daemon.exec(box, "test", "-e", "/workspace/began")[0] == 0)
    daemon.process.terminate()
    answer = idle.ask("POST", "/api/cay/api-keys", {"name": "late", "permissions": ["read"]})
    while answer.status != 503:  # the signal has not been seen yet
        answer = idle.ask("GET", "/healthz")
    assert answer.headers["Retry-After"] == "1" and answer.headers["Connection"] == "close"
    assert answer.json()["code"] == "unavailable" and "nothing was done" in answer.text
    thread.join(60)
    assert answers[0].status == 200 and "done" in answers[0].text
    assert answers[0].headers["Connection"] == "close"
    assert daemon.process.wait(60) == 0
    daemon.start()


# ---- replacing ----

def replace(daemon):
    """Lets the daemon become the installed program, which is itself; waits until it serves."""
    done = subprocess.run([CAYD, "--state-dir", daemon.state, "--replace"], capture_output=True,
                          text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr + daemon.log.read_text(errors="replace")[-4000:]


def retired(daemon):
    return [name_of(pid) for pid in children(daemon.process.pid)].count("cayd-retired")


def test_replacing_under_keep_alive_traffic(daemon):
    """The process, its sockets and its sandboxes stay: nobody is refused, nothing breaks."""
    seed = random_numbers().randrange(1 << 30)
    counts = Counts()
    boxes = [daemon.create(memory="64m", pids=64)["id"] for _ in range(2)]
    workers = workers_for(daemon, counts, amount(8, 50), seed, boxes)
    pid = daemon.process.pid
    with running(workers):
        for _ in range(amount(6, 200)):
            go_on(workers, counts)
            before = daemon.front()
            replace(daemon)
            assert daemon.process.poll() is None and daemon.front() not in (0, before)
        go_on(workers, counts)
    assert int((daemon.state / "daemon/lock").read_text()) == pid
    no_damage(daemon)
    for w in workers:
        w.check(daemon)
    print(counts)
    assert counts.broken == counts.unaccepted == counts.refused == 0, str(counts)
    assert sum(w.wire.reused for w in workers) > 0


def test_terminals_lose_nothing(daemon):
    """Viewers of terminals over replacements, and over a stop and a start."""
    box = daemon.create(memory="256m", pids=256)["id"]
    viewers = [Viewer(daemon, box, f"t{i}") for i in range(amount(2, 10))]
    rounds = amount(4, 100)
    for v in viewers:
        v.begin(1500)
    assert until(lambda: all(b":20\r" in v.seen for v in viewers))
    for i in range(rounds):
        if i == rounds // 2:
            daemon.stop()
            daemon.start()
        else:
            replace(daemon)
    assert until(lambda: all(v.has_all() or v.wrong for v in viewers), 120)
    for v in viewers:
        v.stop.set()
        v.thread.join(60)
        v.check()
        assert v.restarts >= 2, (v.restarts, v.broken, v.opened)


def test_the_program_does_not_notice(daemon):
    """cay asks again when it was told that nothing was done."""
    box = daemon.create(memory="64m", pids=64)["id"]
    over, done = threading.Event(), []

    def ask():
        while not over.is_set():
            done.append(support.cay("exec", "--host", f"unix://{daemon.socket}", box, "echo", "on"))

    thread = threading.Thread(target=ask)
    thread.start()
    for _ in range(amount(4, 20)):
        goal = len(done) + 2
        assert until(lambda: len(done) > goal)
        replace(daemon)
    over.set()
    thread.join(60)
    assert all(d.returncode == 0 and d.stdout == b"on\n" for d in done), \
        [d.stderr for d in done if d.returncode]


def test_what_lasts_outlives_the_front(daemon):
    """A command that runs does not notice; a connection that was idle is told to try again."""
    box = daemon.create(memory="64m", pids=64)["id"]
    idle = Wire(path=daemon.socket)
    assert idle.ask("GET", "/healthz").status == 200
    with daemon.connect(box) as command:
        command.exec("sh", "-c", "echo begun; until [ -e go ]; do sleep 0.1; done; echo end; exit 7")
        command.receive()  # that it has started
        assert command.expect(STDOUT) == b"begun\n"
        replace(daemon)
        assert idle.ask("GET", "/healthz").status == 503
        assert idle.ask("GET", "/healthz").status == 200  # on another connection
        assert retired(daemon) == 1
        assert daemon.exec(box, "touch", "go")[0] == 0
        assert command.finish()[:2] == (7, "end\n")
    assert until(lambda: retired(daemon) == 0)


def test_a_removed_key_ends_what_lasts_of_it(daemon):
    key = daemon.call("POST", "/api/cay/api-keys",
                      {"name": "k", "permissions": ["sandboxes"]})["value"]
    wire = Wire(port=daemon.port, key=key)
    box = json.loads(wire.ask("POST", "/api/cay/sandbox", {"memory": "64m"}).text)["id"]
    sock = socket.create_connection(("127.0.0.1", daemon.port), 60)
    sock.sendall(f"GET /api/cay/sandbox/{box}/connect HTTP/1.1\r\nHost: localhost\r\nAuthorization: "
                 f"Bearer {key}\r\nConnection: Upgrade\r\nUpgrade: cay-init\r\n\r\n".encode())
    assert b" 101 " in sock.recv(4096)
    wire.close()
    replace(daemon)
    assert retired(daemon) == 1
    daemon.call("DELETE", "/api/cay/api-keys/k")
    assert sock.recv(1) == b""
    assert until(lambda: retired(daemon) == 0)


def test_a_program_of_no_use_is_not_taken(daemon):
    """What is installed by then refuses its options: the daemon goes on as it was."""
    config = daemon.state / "broken.toml"
    daemon.stop()
    config.write_text("")
    daemon.options += ("--config", str(config))
    daemon.start()
    front = daemon.front()
    config.write_text("nonsense = = 1")
    daemon.process.send_signal(signal.SIGUSR2)
    assert until(lambda: "the daemon is not replaced" in daemon.log.read_text())
    assert daemon.front() == front and daemon.get("/healthz").status == 200


def test_replacing_where_nobody_serves_is_a_start(folder):
    support.need_cay()
    with serving(folder, "--replace") as daemon:
        front = daemon.front()
        replace(daemon)
        assert daemon.front() not in (0, front)
