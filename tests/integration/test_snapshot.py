"""`cay snapshot create`: an image of a sandbox has what was changed in it, and nothing else moves."""

import json
import subprocess
import tarfile

import pytest
from support import TIER, USER, as_root_only, cay, is_sanitized, needs_ids, ok, refused
from test_run_image import base, entry
from test_sandboxes import state  # noqa: F401 (a fixture)

pytestmark = pytest.mark.skipif(is_sanitized(), reason="a sanitized cay-init needs libraries of the "
                                "host, which images lack")

# What it does to files of the image: each way that an overlay has to remember it.
CHANGES = """
rm -r /d && mkdir /d && echo new >/d/new
rm /f
mkdir -p /made/deep && echo one >/made/deep/one && ln -s one /made/deep/link
busybox ln /made/deep/one /made/hard
busybox mkfifo /made/fifo
busybox chmod 4750 /bin/set
echo more >>/low
"""


@pytest.fixture(scope="module")
def image(state):
    layer = base(entry("d", tarfile.DIRTYPE), entry("d/old", data=b"old"), entry("f", data=b"f"),
                 entry("low", data=b"low\n", mode=0o644), entry("bin/set", data=b"x"))
    ok(cay("image", "import", "--state-dir", state, "--change", "ENV WHO=base",
           "--change", "WORKDIR /d", "-", "snapshot-base", input=layer))
    return "snapshot-base"


@pytest.fixture
def box(state, image):
    name = ok(cay("create", *TIER, "--state-dir", state, "--image", image, "-q")).strip()
    yield name
    ok(cay("rm", "-f", "--state-dir", state, name))


def execute(state, box, script):
    return ok(cay("exec", "--state-dir", state, box, "--", "sh", "-c", script))


def in_image(state, image, script):
    return ok(cay("run", *TIER, "--state-dir", state, "--image", image, "--", "sh", "-c", script))


def snapshot(state, box, name):
    """Without a control group of its own, which this host does not give to users, a sandbox cannot
    be paused."""
    if USER:
        refused(cay("snapshot", "create", "--state-dir", state, box, name), "cay stop", code=7)
        ok(cay("stop", "--state-dir", state, box))
    ok(cay("snapshot", "create", "--state-dir", state, box, name))
    if USER:
        ok(cay("start", "--state-dir", state, box))


def files(text):
    return sorted(text.split())


def test_changes_are_in_the_image(state, box):
    execute(state, box, CHANGES)
    snapshot(state, box, "changed:one")
    assert files(in_image(state, "changed:one", "find /d /made")) == \
        ["/d", "/d/new", "/made", "/made/deep", "/made/deep/link", "/made/deep/one", "/made/fifo",
         "/made/hard"]
    text = in_image(state, "changed:one", "cat /low /made/deep/link; stat -c '%a %h' /bin/set "
                    "/made/hard; test ! -e /f && echo gone; echo $WHO; pwd")
    assert text == "low\nmore\none\n4750 1\n644 2\ngone\nbase\n/d\n"


@as_root_only
def test_sandbox_goes_on(state, box):
    """Its processes stand still meanwhile, and then they do not."""
    execute(state, box, "(while :; do echo x >>/ticks; busybox sleep 0.05; done) >/dev/null 2>&1 &")
    execute(state, box, "until [ -s /ticks ]; do busybox sleep 0.02; done")
    snapshot(state, box, "ticking")
    info = json.loads(ok(cay("info", "--state-dir", state, "-o", "json", box)))
    assert info["state"] == "started"
    count = "busybox wc -l </ticks"
    before = int(execute(state, box, count))
    assert int(execute(state, box, f"busybox sleep 0.5; {count}")) > before
    assert 0 < int(in_image(state, "ticking", count)) <= before


def test_what_comes_later_is_not_in_it(state, box):
    execute(state, box, "echo first >/file")
    snapshot(state, box, "early")
    execute(state, box, "echo second >/file; touch /later")
    assert in_image(state, "early", "cat /file; test -e /later || echo no") == "first\nno\n"


def test_stopped_sandbox(state, box):
    execute(state, box, "echo kept >/file")
    ok(cay("stop", "--state-dir", state, box))
    ok(cay("snapshot", "create", "--state-dir", state, box, "of-stopped"))
    assert in_image(state, "of-stopped", "cat /file") == "kept\n"
    info = json.loads(ok(cay("info", "--state-dir", state, "-o", "json", box)))
    assert info["state"] == "stopped"


def test_snapshot_of_a_snapshot_and_a_sandbox_from_it(state, box):
    execute(state, box, "echo 1 >/one")
    snapshot(state, box, "first")
    second = ok(cay("create", *TIER, "--state-dir", state, "--image", "first", "-q")).strip()
    try:
        execute(state, second, "rm /one; echo 2 >/two")
        snapshot(state, second, "second")
    finally:
        ok(cay("rm", "-f", "--state-dir", state, second))
    assert in_image(state, "second", "cat /two; test -e /one || echo no") == "2\nno\n"


@needs_ids
def test_owners(state, box):
    execute(state, box, "mkdir /tmp/o && busybox touch /tmp/o/root")
    ok(cay("exec", "--state-dir", state, "-u", "1000:1001", box, "--", "sh", "-c", "touch /tmp/ann"))
    snapshot(state, box, "owners")
    assert in_image(state, "owners", "stat -c '%u %g' /tmp/ann /tmp/o/root") == "1000 1001\n0 0\n"


def test_image_can_be_saved(state, box, folder):
    execute(state, box, CHANGES)
    snapshot(state, box, "saved")
    ok(cay("image", "save", "--state-dir", state, "-f", folder / "saved.tar", "saved"))
    shown = subprocess.run(["skopeo", "inspect", "--config", f"oci-archive:{folder}/saved.tar"],
                           capture_output=True)
    if shown.returncode == 127:
        pytest.skip("skopeo is not installed: scripts/setup --test")
    config = json.loads(shown.stdout)
    assert len(config["rootfs"]["diff_ids"]) == 2 and "WHO=base" in config["config"]["Env"]


def test_bad_input(state, box):
    create = ("snapshot", "create", "--state-dir", state)
    refused(cay(*create, "no-such-box", "x"), "no-such-box", code=3)
    refused(cay(*create, box), "argument", code=2)
    ok(cay("stop", "--state-dir", state, box))
    refused(cay(*create, box, "Upper"), "Upper", code=2)
    host = ok(cay("create", *TIER, "--state-dir", state, "-q")).strip()
    try:
        ok(cay("stop", "--state-dir", state, host))
        refused(cay(*create, host, "x"), "host image", "--image", code=7)
    finally:
        ok(cay("rm", "-f", "--state-dir", state, host))
