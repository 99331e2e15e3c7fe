"""The audit: what is in it, what is not, and that damage to it shows."""

import concurrent.futures
import json
import sqlite3

import pytest
import support
from daemons import serving, serving_tcp
from launching import until
from test_keys import Client, cay, make_key


@pytest.fixture
def daemon(folder):
    with serving_tcp(folder) as d:
        yield d


def rows(daemon, query="?limit=10000"):
    return daemon.call("GET", "/api/cay/audit" + query)


def told(daemon):
    return [(row["who"], row["action"], row["object"], row["result"]) for row in rows(daemon)]


def verdict(daemon):
    return daemon.call("GET", "/api/cay/audit/verify")


def admin(daemon):
    return daemon.call("GET", "/api/cay/api-keys/current")["name"]


def test_who_did_what(daemon):
    me = admin(daemon)
    client = make_key(daemon, "ci", maxSandboxes=1)
    box = client.create(name="lab", memory="64m")["id"]
    client.ask("POST", "/api/cay/sandbox", {})
    with client.connect("lab") as c:
        c.exec("echo", "secret-argument")
        c.finish()
    client.call("POST", "/api/cay/sandbox/lab/rename", {"name": "den"})
    client.call("PUT", "/api/cay/sandbox/den/labels", {"labels": {"k": "v"}})
    client.call("POST", "/api/cay/sandbox/den/pause") if not support.USER else None
    client.call("POST", "/api/cay/sandbox/den/resume") if not support.USER else None
    client.call("POST", "/api/cay/sandbox/den/stop")
    client.call("POST", "/api/cay/sandbox/den/start")
    client.ask("DELETE", "/api/cay/sandbox/nobody")
    client.ask("GET", "/api/cay/api-keys")
    client.call("GET", f"/api/cay/sandbox/{box}")  # a look is not told
    Client(daemon.port, "wrong").ask("GET", "/api/cay/sandbox")
    daemon.call("DELETE", f"/api/cay/sandbox/{box}?force=true")
    daemon.call("DELETE", "/api/cay/api-keys/ci")
    expected = [(me, "key.create", "ci", "ok"),
                ("ci", "sandbox.create", box, "ok"),
                ("ci", "sandbox.create", "", "limit_reached"),
                ("ci", "sandbox.connect", box, "ok"),
                ("ci", "sandbox.rename", box, "ok"),
                ("ci", "sandbox.labels", box, "ok"),
                ("ci", "sandbox.pause", box, "ok"),
                ("ci", "sandbox.resume", box, "ok"),
                ("ci", "sandbox.stop", box, "ok"),
                ("ci", "sandbox.start", box, "ok"),
                ("ci", "sandbox.delete", "nobody", "not_found"),
                ("ci", "key.read", "", "forbidden"),
                ("-", "access", "", "unauthorized"),
                (me, "sandbox.delete", box, "ok"),
                (me, "key.delete", "ci", "ok")]
    if support.USER:
        expected = [row for row in expected if row[1] not in ("sandbox.pause", "sandbox.resume")]
    assert told(daemon) == expected
    text = json.dumps(rows(daemon))
    assert "secret-argument" not in text and client.key not in text
    found = verdict(daemon)
    assert found["ok"] and found["rows"] == found["last"] == len(expected)


def test_a_creation_with_progress_is_told_when_it_is_done(daemon):
    body = {"name": "lab", **({"tier": "basic"} if support.USER else {})}
    answer = daemon.ask("POST", "/api/cay/sandbox", body, X_Cay_Progress="lines")
    assert "done\n" in answer.text
    assert [(row["action"], row["detail"]) for row in rows(daemon)] == \
        [("sandbox.create", "name lab, image host")]


def test_what_the_daemon_does_by_itself(folder):
    with serving(folder, env={"CAY_MANAGER_CLEANUP_INTERVAL": "1"}) as daemon:
        box = daemon.create(autoDeleteInterval=0)["id"]
        daemon.call("POST", f"/api/cay/sandbox/{box}/stop")
        assert until(lambda: ("cay", "sandbox.delete", box, "ok") in told(daemon))


def test_a_flood_of_refusals_is_counted(daemon):
    stranger = Client(daemon.port, "wrong")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: stranger.ask("GET", "/api/cay/sandbox"), range(200)))
    assert 1 <= len(rows(daemon)) <= 40  # 20 in a minute, and a minute may end meanwhile


def test_many_at_once_are_one_chain(daemon):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda _: daemon.ask("DELETE", "/api/cay/sandbox/none"), range(300)))
    found = verdict(daemon)
    assert found["ok"] and found["rows"] == 300


def fill(daemon, count=10):
    for number in range(count):
        daemon.ask("DELETE", f"/api/cay/sandbox/none-{number}")


# more kinds of it are in tests/unit/test_audit.c
@pytest.mark.parametrize("change, bad", [
    ("UPDATE audit SET object = object || char(0) || 'x' WHERE number = 4", 4),
    ("DELETE FROM audit WHERE number = 4", 4),
    ("DELETE FROM audit WHERE number > 8", 9),
    ("INSERT INTO audit SELECT 11, time_ms, who, action, object, result, detail, chain FROM audit "
     "WHERE number = 10", 11),
])
def test_damage_is_found(daemon, change, bad):
    fill(daemon)
    assert verdict(daemon)["ok"]
    daemon.stop()
    with sqlite3.connect(daemon.state / "daemon" / "cay.db") as db:
        db.executescript(change)
    db.close()
    for file in (daemon.state / "daemon").glob("cay.db*"):
        support.own(file)
    daemon.start()
    found = verdict(daemon)
    assert not found["ok"] and found["badRow"] == bad and found["why"]
    daemon.ask("DELETE", "/api/cay/sandbox/later")  # does not hide it
    assert verdict(daemon)["badRow"] == bad


def test_trimming(daemon):
    fill(daemon)
    sixth = rows(daemon)[5]
    daemon.call("DELETE", "/api/cay/audit?through=6")
    left = rows(daemon)
    assert [row["number"] for row in left] == [7, 8, 9, 10, 11]
    assert left[-1]["action"] == "audit.trim" and left[-1]["detail"] == sixth["chain"]
    assert verdict(daemon)["ok"]
    daemon.stop()
    daemon.start()
    assert verdict(daemon)["ok"] and verdict(daemon)["first"] == 7
    for query in ("", "?through=0", "?through=6", "?through=x", "?through=99"):
        assert daemon.ask("DELETE", "/api/cay/audit" + query).status in (400, 404), query


def test_bad_queries(daemon):
    for query in ("?limit=0", "?limit=x", "?limit=10001", "?after=-1", "?after=x",
                  "?since=yesterday", "?since=2027-02-30T00:00:00Z"):
        assert daemon.ask("GET", "/api/cay/audit" + query).status == 400, query


def test_pages(daemon):
    fill(daemon, 7)
    numbers = lambda query: [row["number"] for row in rows(daemon, query)]
    assert numbers("?limit=3") == [5, 6, 7]
    assert numbers("?limit=3&after=0") == [1, 2, 3]
    assert numbers("?after=5") == [6, 7]
    time = rows(daemon)[3]["time"]
    assert numbers(f"?since={time}")[-1] == 7 and 4 in numbers(f"?since={time}")
    assert numbers("?since=2999-01-01T00:00:00Z") == []


def test_cli(daemon):
    fill(daemon, 5)
    lines = cay(daemon, "audit").stdout.splitlines()
    assert lines[0].split()[:4] == ["NUMBER", "TIME", "WHO", "ACTION"] and len(lines) == 6
    assert len(cay(daemon, "audit", "-n", "2").stdout.splitlines()) == 3
    assert [row["number"] for row in json.loads(cay(daemon, "audit", "-n", "0", "-o", "json").stdout)] \
        == [1, 2, 3, 4, 5]
    assert json.loads(cay(daemon, "audit", "--since", "2999-01-01T00:00:00Z", "-o", "json").stdout) == []
    assert len(cay(daemon, "audit", "--since", "1h").stdout.splitlines()) == 6
    assert "no time" in cay(daemon, "audit", "--since", "noon", code=2).stderr
    cay(daemon, "audit", "--verify", "--follow", code=2)
    assert "5 rows" in cay(daemon, "audit", "--verify").stdout
    assert json.loads(cay(daemon, "audit", "--verify", "-o", "json").stdout)["ok"] is True
    daemon.stop()
    with sqlite3.connect(daemon.state / "daemon" / "cay.db") as db:
        db.execute("UPDATE audit SET result = 'ok' WHERE number = 2")
    db.close()
    for file in (daemon.state / "daemon").glob("cay.db*"):
        support.own(file)
    daemon.start()
    assert "row 2" in cay(daemon, "audit", "--verify", code=1).stderr
    assert json.loads(cay(daemon, "audit", "--verify", "-o", "json", code=1).stdout)["badRow"] == 2
