"""What the tests of the Docker engine share: an engine for the module, and sandboxes of it that are
removed afterwards.

    from docking import engine_of, make  # noqa: F401
    engine = engine_of(DockerEngine)
"""

import contextlib
import json
import sys
from pathlib import Path

import pytest
from daemons import Refused

sys.path.insert(0, str(Path(__file__).resolve().parent / "engine"))

from boxes import Box  # noqa: E402


@contextlib.contextmanager
def opened(kind):
    """This engine, with its daemon."""
    why = kind.missing()
    if why:
        pytest.skip(why)
    found = kind()
    try:
        found.start()
        yield found
    finally:
        found.close()


def engine_of(kind):
    """A fixture of the module that has one."""
    @pytest.fixture(scope="module")
    def engine():
        with opened(kind) as found:
            yield found
    return engine


@pytest.fixture
def make(engine):
    made = []

    def make_one(**wishes):
        wishes = {"image": engine.main, **wishes}
        made.append(Box(engine, engine.daemon.call("POST", "/api/cay/sandbox", wishes)))
        return made[-1]
    yield make_one
    for box in made:
        with contextlib.suppress(Refused):
            box.remove()


def container(engine, box):
    """What Docker says of it."""
    return json.loads(engine.docker("inspect", f"cay-{box.id}"))[0]


def refusal(function, *args, **more):
    """Status, message and remedy."""
    with pytest.raises(Refused) as refused:
        function(*args, **more)
    error = refused.value.error
    assert error["remedy"], error
    return refused.value.status, error["message"], error["remedy"]
