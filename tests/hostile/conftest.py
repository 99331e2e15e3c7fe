"""What every file of the hostile suite gets: a look at what it left on the host."""

import pytest

import support
from support import until


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left():
    """F10: after the whole suite no process and no control group is left. Others may use this
    machine meanwhile, so mounts and files that are not ours do not count."""
    before = support.host_state()
    yield

    def left():
        now = support.host_state()
        return (now["groups"] - before["groups"]) | (now["processes"] - before["processes"])

    assert until(lambda: not left()), left()
