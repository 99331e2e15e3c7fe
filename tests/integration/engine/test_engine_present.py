"""Which engines this machine has: the others are left out of the suite as a whole, and told of here."""

import pytest
from engines import ENGINES


@pytest.fixture(autouse=True)
def able():
    """In place of the suite's: this is about no engine that runs."""


@pytest.mark.parametrize("kind", ENGINES, ids=lambda e: e.name)
def test_the_machine_has(kind):
    why = kind.missing()
    if why:
        pytest.skip(f"{kind.name}: {why}")
