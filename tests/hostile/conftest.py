"""What every file of the hostile suite gets: a look at what it left on the host."""

import pytest
import support


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left():
    """F10: after the whole suite no process and no control group is left. Others may use this
    machine meanwhile, so mounts and files that are not ours do not count."""
    before = support.host_state()
    yield
    left = support.left_over(before, seconds=15)
    assert not [item for item in left if item[0] in ("groups", "processes")]
