"""`cay doctor` tells the truth about this host."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from support import CAY, HELPERS, TIER, USER, as_user, cay, host_state, left_over, ok, run

TIERS = ["none", "basic", "rootless", "full"]


def facts(*args, **more):
    return json.loads(ok(cay("doctor", "-o", "json", *args, **more)))


def test_tier_follows_from_the_walls():
    answer = facts()
    lacking = [TIERS.index(w["needed_for"]) for w in answer["walls"] if not w["ok"]]
    assert answer["tier"] == TIERS[min(lacking) - 1 if lacking else 3]
    assert len(answer["walls"]) >= 12
    for wall in answer["walls"]:
        assert wall["detail"] and bool(wall["remedy"]) != wall["ok"], wall


def test_tier_is_what_a_run_gets():
    tier = facts()["tier"]
    answer = json.loads(run("-o", "json", "--", "true").stdout)
    assert answer["tier"] == tier
    assert run("--tier", tier, "--", "true").returncode == 0
    for more in TIERS[TIERS.index(tier) + 1:]:
        assert cay("run", "--tier", more, "--", "true").returncode == 125


def test_sysctls_are_the_hosts():
    """Also for an ordinary user, who sees them from a user namespace of his own."""
    settings = facts()["sysctls"]
    assert len(settings) >= 10
    for setting in settings:
        path = Path("/proc/sys") / setting["name"].replace(".", "/")
        assert setting["present"] == path.exists()
        if setting["present"] and not USER:
            assert setting["value"] == int(path.read_text().split()[0])
    limit = next(s for s in settings if s["name"] == "user.max_user_namespaces")
    assert limit["ok"] and limit["value"] > 0


def test_text_says_the_same():
    text, answer = ok(cay("doctor")), facts()
    assert f"This host gives tier {answer['tier']}." in text
    for wall in answer["walls"]:
        state = "ok" if wall["ok"] else "missing"
        assert re.search(rf"^  {state} +{re.escape(wall['name'])} +{re.escape(wall['detail'])}$",
                         text, re.M), wall
        assert wall["remedy"] in text
    for setting in answer["sysctls"]:
        if setting["present"]:
            state = "ok" if setting["ok"] else "weak"
            assert re.search(rf"^  {state} +{re.escape(setting['name'])} = {setting['value']}",
                             text, re.M), setting


def test_missing_landlock_is_told():
    if not (HELPERS / "deny").exists():
        pytest.skip("deny is not built")
    who, env = as_user()
    deny = [HELPERS / "deny", "landlock_create_ruleset", "ENOSYS", CAY]
    done = subprocess.run([*deny, "doctor", "-o", "json"], capture_output=True, env=env, **who)
    answer = json.loads(done.stdout)
    wall = next(w for w in answer["walls"] if w["name"] == "Landlock")
    assert not wall["ok"] and "kernel" in wall["remedy"] and answer["tier"] == "basic"
    done = subprocess.run([*deny, "run", "--tier", "basic", "--", "echo", "weaker"],
                          capture_output=True, env=env, **who)
    assert (done.returncode, done.stdout) == (0, b"weaker\n"), done.stderr


def test_leaves_nothing():
    run("--", "true")
    before = host_state()
    for _ in range(5):
        facts()
    assert left_over(before) == set()


def test_default_tier():
    """Root gets all or is told; an ordinary user is asked to accept less by name."""
    done = cay("run", "--", "true")
    if facts()["tier"] == "full" or not TIER:
        assert done.returncode == 0
    else:
        assert done.returncode == 125 and b"tier rootless" in done.stderr
        assert b"--tier basic" in done.stderr


def test_there_is_no_docker(folder):
    """Which is no failure: it is a choice of engines."""
    if not (Path(CAY).parent / "cay-docker").exists():
        pytest.skip("cay-docker is not beside this cay")
    env = {"DOCKER_HOST": f"unix://{folder}/none.sock"}
    found = facts(env=env)["docker"]
    assert [row["name"] for row in found] == ["docker"] and not found[0]["ok"]
    assert "there is no Docker" in found[0]["detail"] and "native" in found[0]["remedy"]
    text = ok(cay("doctor", env=env))
    assert "Docker engine\n  missing  docker" in text and found[0]["remedy"] in text
