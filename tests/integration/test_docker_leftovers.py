"""What is committed for a backup, a snapshot or an archive does not stay in Docker when somebody is
killed meanwhile; and what is not ours stays."""

import contextlib
import os
import signal

import pytest
import support
from daemons import Refused
from docking import make, opened  # noqa: F401
from engines import DockerEngine, PodmanEngine
from launching import until
from test_archive import imagers

pytestmark = pytest.mark.skipif(bool(support.USER), reason="dockerd needs root")

SOON = 60


@pytest.fixture(scope="module", params=[DockerEngine, PodmanEngine], ids=["docker", "podman"])
def engine(request):
    with opened(request.param) as found:
        yield found


def listed(engine, *options):
    """Podman gives up if an image goes while it lists them."""
    found = []

    def look():
        with contextlib.suppress(AssertionError):
            found.extend(engine.docker("images", *options).split())
            return True
        return False
    assert until(look, SOON)
    return found


def images(engine):
    """Also those without a name; an id for each name."""
    return sorted(listed(engine, "-aq", "--no-trunc"))


def names(engine):
    """Without the registry that podman puts before them."""
    found = listed(engine, "--format", "{{.Repository}}:{{.Tag}}")
    return {name.rsplit("/", 1)[-1] for name in found}


def notes(engine):
    return sorted(p.name for p in (engine.daemon.state / "docker").glob("passing-*"))


def backup_state(engine, box):
    with contextlib.suppress(OSError, Refused):
        return engine.daemon.call("GET", f"/api/sandbox/{box.id}")["backupState"]
    return ""


def is_over(engine, box):
    return backup_state(engine, box) in ("Completed", "Error")


def send(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def hold(engine, box):
    """Begins a backup, and holds who reads what Docker has committed for it."""
    for _ in range(100):
        engine.daemon.call("POST", f"/api/sandbox/{box.id}/backup")
        assert until(lambda: imagers(engine.daemon) or is_over(engine, box), SOON)
        held = imagers(engine.daemon)
        send(held, signal.SIGSTOP)
        if held and backup_state(engine, box) == "InProgress" and notes(engine):
            return held
        send(held, signal.SIGCONT)  # too late
        assert until(lambda: is_over(engine, box), SOON)
    pytest.fail("no backup could be held")


@pytest.mark.parametrize("victim", ["cay-docker", "daemon"])
def test_killed_after_a_commit(engine, make, victim):
    box = make()
    box.sh("head -c 20000000 /dev/urandom > /much; echo kept > /kept")
    before = images(engine)
    held = hold(engine, box)
    try:
        assert until(lambda: len(images(engine)) == len(before) + 1, SOON)
        if victim == "daemon":
            engine.daemon.kill()
            engine.daemon.start()
        else:
            engine.daemon.kill_child(victim)
    finally:
        send([*held, *imagers(engine.daemon)], signal.SIGCONT)
    assert until(lambda: images(engine) == before, SOON), names(engine)
    assert until(lambda: notes(engine) == [], SOON)
    assert until(lambda: backup_state(engine, box) == "Error", SOON)
    assert until(lambda: box.sh("cat /kept").out == b"kept\n", SOON)  # it goes on


def test_nothing_tells_of_the_way(engine, make):
    """Neither the names in Docker nor those in cay's store."""
    box = make()
    box.do("stop")
    support.ok(engine.cay("snapshot create", box.id, "of-leftovers"))
    try:
        found = engine.cay("image ls").stdout.decode()
        assert "of-leftovers" in found and "passing" not in found
        assert not any("passing" in name for name in names(engine)) and notes(engine) == []
    finally:
        support.ok(engine.cay("image rm", "of-leftovers"))


def plant(engine, token):
    """As one leaves it who was killed after he had asked for a commit."""
    (engine.daemon.state / "docker" / f"passing-{token}").touch()


def test_a_commit_that_ends_after_who_asked_for_it(engine, make):
    box = make()
    before = images(engine)
    plant(engine, "00000000000000aa")
    engine.daemon.kill_child("cay-docker")
    box.do("stop")  # the next one is there
    box.do("start")
    assert notes(engine) == ["passing-00000000000000aa"]
    engine.docker("commit", "--pause=false", f"cay-{box.id}", "cay-passing:00000000000000aa")
    assert until(lambda: images(engine) == before, SOON), names(engine)
    assert until(lambda: notes(engine) == [], SOON)


def test_what_is_not_ours_stays(engine, make):
    """Of another state folder's passing images nothing is known, of those without a name nothing at
    all; and one that has got another name since keeps that."""
    box = make()
    others, ours, named = "cay-passing:00000000000000bb", "cay-passing:00000000000000cc", "mine:kept"
    engine.docker("commit", "--pause=false", f"cay-{box.id}", others)
    bare = engine.docker("commit", "--pause=false", f"cay-{box.id}").strip()
    engine.docker("commit", "--pause=false", f"cay-{box.id}", ours)
    engine.docker("tag", ours, named)
    try:
        plant(engine, ours.split(":")[1])
        engine.daemon.stop()
        engine.daemon.start()
        make()  # which starts what looks after containers, if nothing has
        assert until(lambda: ours not in names(engine), SOON)
        assert until(lambda: notes(engine) == [], SOON)
        assert {others, named} <= names(engine) \
            and any(bare in image for image in images(engine))
    finally:
        engine.docker("rmi", others, bare, named)


def test_a_note_without_an_image_is_kept_for_a_day(engine, make):
    make()
    plant(engine, "00000000000000dd")
    plant(engine, "00000000000000ee")
    os.utime(engine.daemon.state / "docker/passing-00000000000000ee", (1, 1))
    engine.daemon.kill_child("cay-docker")
    try:
        assert until(lambda: notes(engine) == ["passing-00000000000000dd"], SOON), notes(engine)
    finally:
        (engine.daemon.state / "docker/passing-00000000000000dd").unlink()


def test_an_archive_that_did_not_come_to_its_end(engine, make):
    """The next one takes its name; what had it goes."""
    box = make()
    before = images(engine)
    # Podman 4 commits no second time what comes from an image without a history, as ours.
    for text in ("one", "two") if engine.name == "docker" else ("one",):
        box.sh(f"echo {text} > /kept")
        box.do("stop")
        (engine.daemon.state / "docker" / f"archive-{box.id}").touch()
        if text == "one":
            engine.docker("commit", f"cay-{box.id}", f"cay-archive:{box.id}")
        box.do("archive")
        box.do("start")
        assert box.says("cat /kept") == f"{text}\n"
    box.remove()
    assert images(engine) == before
