"""The audit is kept in sealed segments for as long as the configuration says, and its chain goes
through all of them."""

import hashlib
import re

import pytest
import support
from daemons import serving
from launching import until


@pytest.fixture(autouse=True)
def needs(clean_host):
    support.need_cay()


def verdict(daemon):
    return daemon.call("GET", "/api/cay/audit/verify")


def segments(daemon):
    return sorted((daemon.state / "daemon/audit").glob("*.tsv"))


def rows(daemon):
    return daemon.call("GET", "/api/cay/audit?limit=10000")


def add_rows(daemon, count):
    """By requests that change nothing, over one connection."""
    connection = daemon.http()
    for _ in range(count):
        connection.request("DELETE", "/api/cay/sandbox/nobody")
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 404
    connection.close()


def chain_of(path):
    """Recomputed as docs/operating.md says, by other means than the daemon's."""
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    assert lines[0][0] == "cay-audit-1" and lines[-1][0] == "sealed"
    before = bytes.fromhex(lines[0][2])
    for number, time, *texts, chain in lines[1:-1]:
        data = before + int(number).to_bytes(8, "big") + int(time).to_bytes(8, "big")
        for text in texts:
            data += len(text.encode()).to_bytes(8, "big") + text.encode()
        before = hashlib.sha256(data).digest()
        assert before.hex() == chain, number
    assert lines[-1][1:] == [lines[-2][0], before.hex()]
    return lines[0][2], before.hex()


def test_segments(folder):
    with serving(folder, env={"CAY_MANAGER_AUDIT_ROWS": "1000"}) as daemon:
        add_rows(daemon, 1100)
        assert until(lambda: len(segments(daemon)) == 1)
        add_rows(daemon, 700)
        assert until(lambda: len(segments(daemon)) == 2)
        first, second = (chain_of(path) for path in segments(daemon))
        assert first[0] == "0" * 64 and first[1] == second[0]
        whole = verdict(daemon)
        assert whole["ok"] and whole["first"] == 1 and whole["rows"] == whole["last"] > 1800
        sealed = [row for row in rows(daemon) if row["action"] == "audit.seal"]
        assert sealed[-1]["detail"] == second[1] and sealed[-1]["who"] == "cay"
        daemon.stop()
        daemon.start()
        assert verdict(daemon)["ok"]
        check_damage(daemon)
        daemon.call("DELETE", f"/api/cay/audit?through={rows(daemon)[0]['number']}")
        assert segments(daemon) == [] and verdict(daemon)["ok"]


def check_damage(daemon):
    """Of a sealed row, of a segment that is gone, and of one that is cut off."""
    last = segments(daemon)[1]
    before = last.read_text()
    lines = before.splitlines(keepends=True)
    number = int(lines[5].split("\t")[0])
    for text, bad in (("".join([*lines[:5], lines[5].replace("sandbox.delete", "sandbox.create"),
                                *lines[6:]]), number),
                      ("".join([*lines[:5], *lines[6:]]), number),
                      ("".join(lines[:-1]), None), ("".join(lines[:5]), None), ("", None)):
        last.write_text(text)
        found = verdict(daemon)
        assert not found["ok"] and found["why"], found
        assert bad is None or found["badRow"] == bad, found
    moved = last.rename(last.with_suffix(".away"))
    found = verdict(daemon)
    assert not found["ok"] and found["badRow"] == int(lines[1].split("\t")[0]), found
    moved.rename(last)
    last.write_text(before)
    assert verdict(daemon)["ok"]


def test_old_segments_are_removed(folder):
    """The oldest first; what is left still fits, and a row says what went."""
    settings = {"CAY_MANAGER_AUDIT_ROWS": "1000", "CAY_MANAGER_AUDIT_SIZE": "100k"}
    with serving(folder, env=settings) as daemon:
        add_rows(daemon, 1100)
        assert until(lambda: len(segments(daemon)) == 1)
        ends = {path.name[:19]: chain_of(path)[1] for path in segments(daemon)}
        add_rows(daemon, 700)
        assert until(lambda: [row for row in rows(daemon) if row["action"] == "audit.expire"])
        [expired] = [row for row in rows(daemon) if row["action"] == "audit.expire"]
        first = int(re.match(r"rows (\d+) to", expired["object"])[1])
        assert first == 1 and expired["detail"] == ends[f"{first:019}"]
        [left] = segments(daemon)
        assert chain_of(left)[0] == expired["detail"]
        found = verdict(daemon)
        assert found["ok"] and found["first"] == int(left.name[:19])
