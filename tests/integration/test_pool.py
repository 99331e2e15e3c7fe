"""The warm pool: what was made ahead is nobody's until it is taken, and is taken once."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from daemons import Refused, serving
from keeping import processes_of
from launching import until


def status(daemon):
    return daemon.call("GET", "/api/cay/status")


def is_full(daemon, size):
    return until(lambda: status(daemon)["poolSize"] == size)


def folders(daemon):
    return {path.name for path in (daemon.state / "sandboxes").iterdir() if len(path.name) == 16}


@pytest.fixture
def pooled(folder, clean_host):
    settings = {"CAY_MANAGER_POOL_SIZE": "2", "CAY_MANAGER_MAX_SANDBOXES": "3"}
    with serving(folder, env=settings) as daemon:
        assert is_full(daemon, 2), daemon.log.read_text()
        yield daemon


def test_a_pooled_sandbox_is_not_to_be_seen(pooled):
    [one, *_] = folders(pooled)
    assert pooled.list() == [] and status(pooled)["sandboxes"] == 0
    for method, path in (("GET", f"/api/cay/sandbox/{one}"), ("GET", f"/api/cay/sandbox/{one[:8]}"),
                         ("DELETE", f"/api/cay/sandbox/{one}"), ("POST", f"/api/cay/sandbox/{one}/stop"),
                         ("GET", f"/api/cay/sandbox/{one}/stats"),
                         ("GET", f"/api/cay/sandbox/{one}/connect")):
        headers = {"Connection": "Upgrade", "Upgrade": "cay-init"}
        assert pooled.ask(method, path, **headers).status == 404, (method, path)


def test_what_is_taken_is_what_was_asked_for(pooled):
    before = folders(pooled)
    made = pooled.create(name="lab", memory=100 << 20, cpus=0.5, pids=50, labels={"a": "b"},
                         env={"WHO": "me"}, autoStopInterval=7)
    assert made["id"] in before and made["name"] == "lab" and made["state"] == "started"
    assert made["labels"] == {"a": "b"} and made["autoStopInterval"] == 7
    assert status(pooled)["poolHits"] == 1 and status(pooled)["poolMisses"] == 0
    stats = pooled.call("GET", "/api/cay/sandbox/lab/stats")
    assert stats["memoryLimit"] == 100 << 20
    assert pooled.exec("lab", "hostname")[1].strip() == made["id"]
    assert [box["name"] for box in pooled.list()] == ["lab"]
    with pytest.raises(Refused) as refused:
        pooled.create(name="lab")
    assert refused.value.status == 409
    assert status(pooled)["poolHits"] == 1  # which took nothing
    pooled.call("DELETE", "/api/cay/sandbox/lab?force=true")
    assert is_full(pooled, 2) and made["id"] not in folders(pooled)


def test_the_limit_counts_what_is_taken(pooled):
    for _ in range(3):
        pooled.create()
    with pytest.raises(Refused) as refused:
        pooled.create()
    assert refused.value.error["message"] == "Maximum number of sandboxes (3) reached"


def test_what_the_pool_does_not_have_is_made(pooled):
    made = pooled.create(disk=1 << 30)
    assert made["disk"] == 1 << 30 and pooled.exec(made["id"], "true")[0] == 0
    assert status(pooled)["poolHits"] == 0 and status(pooled)["poolMisses"] == 1


def test_many_at_once(folder, clean_host):
    with serving(folder, env={"CAY_MANAGER_POOL_SIZE": "3"}) as daemon:
        assert is_full(daemon, 3)
        with ThreadPoolExecutor(12) as pool:
            made = list(pool.map(lambda _: daemon.create()["id"], range(12)))
        assert len(set(made)) == 12
        found = status(daemon)
        assert found["poolHits"] + found["poolMisses"] == 12 and found["poolHits"] >= 3
        assert all(daemon.exec(box, "true")[0] == 0 for box in made)


def test_one_that_has_died_is_not_given_out(pooled):
    before = folders(pooled)
    for box in before:
        os.kill(processes_of(pooled.state)[box], signal.SIGKILL)
    assert until(lambda: not folders(pooled) & before), pooled.log.read_text()
    assert is_full(pooled, 2)
    made = pooled.create()["id"]
    assert made not in before and pooled.exec(made, "true")[0] == 0


def test_the_pool_survives_a_crash_and_not_the_end(pooled):
    mine = pooled.create()["id"]
    assert is_full(pooled, 2)
    before = folders(pooled)
    pooled.kill_child("cayd-front")
    assert until(pooled.serves) and is_full(pooled, 2)
    assert folders(pooled) == before
    assert [box["id"] for box in pooled.list()] == [mine]
    made = pooled.create(memory=200 << 20)["id"]
    assert made in before
    pooled.stop()
    assert folders(pooled) == {mine, made}
    pooled.start()
    assert {box["id"] for box in pooled.list()} == {mine, made}
