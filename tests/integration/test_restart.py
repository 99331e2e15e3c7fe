"""Stops and restarts under traffic: clients with keep-alive connections, an oracle outside."""

import threading

import pytest
import support
from daemons import CAYD, serving_tcp
from launching import until
from stressing import amount, random_numbers
from traffic import Counts, Wire, running, workers_for
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
