"""Which attack each layer of the walls stops: the table of docs/layers.md, from sandboxes that lack them.
Everyday runs try some of the rows, CAY_STRESS=full all of them."""

import os
import subprocess

import layers
import pytest
import support
from support import as_root_only

EVERYDAY = ("", "ids", "seccomp")

pytestmark = [as_root_only, pytest.mark.skipif(support.is_sanitized(), reason="it is about the ordinary build"),
              pytest.mark.skipif(not layers.PROGRAM.exists(), reason="cay_without is not built")]


def chosen():
    return layers.LAYERS if os.environ.get("CAY_STRESS") == "full" else EVERYDAY


def documented():
    """{layers that are left out: what that opens}"""
    rows = [line.split("|")[1:3] for line in layers.DOCUMENT.read_text().splitlines()
            if line.startswith("| ")][1:]
    return {first.strip().replace("`", "").replace(" and ", ",").replace("nothing", ""):
            [] if second.strip() == "nothing" else second.strip().split("; ") for first, second in rows}


@pytest.fixture(scope="module")
def host():
    made = layers.Host()
    with made.undo:
        yield made


@pytest.mark.parametrize("without", chosen())
def test_what_a_missing_layer_opens(host, without):
    assert layers.opened(host.attack(without)) == documented()[without]


def test_every_layer_is_documented():
    assert sorted(documented()) == sorted(layers.LAYERS)


def test_no_other_program_knows_the_variable():
    """Not even the text is in what is installed."""
    for name in ("cay", "cayd", "cay-launcher", "cay-init", "cay-image", "cay-egress", "cay-enter"):
        assert b"CAY_TEST_WITHOUT" not in (support.BUILD / name).read_bytes(), name
    assert b"CAY_TEST_WITHOUT" in layers.PROGRAM.read_bytes()


def test_an_unknown_layer_is_refused():
    done = subprocess.run([layers.PROGRAM, "version"], env={"CAY_TEST_WITHOUT": "seccom"}, capture_output=True)
    assert done.returncode < 0
