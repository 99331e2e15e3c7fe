"""The conformance suite: what a sandbox promises, written once and run over each engine that this
machine has. CAY_ENGINES=native-root,docker chooses some of them.

    def test_it(box): …                     a sandbox that the module shares
    def test_it(make): box = make(pids=20)  one of its own
    @needs("memory")                        left out where the engine's probe says that it cannot
"""

import os
import sys
from pathlib import Path

import pytest
import support

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from boxes import Box  # noqa: E402
from engines import ENGINES  # noqa: E402

LEFT_OUT = []  # (engine, what, why, case)
SAMPLED = {}  # engine: how many cases are left to the engine that it shares its code with


def chosen():
    """Those of this machine; test_engine_present.py says why the others are not."""
    names = [n for n in os.environ.get("CAY_ENGINES", "").split(",") if n]
    unknown = set(names) - {e.name for e in ENGINES}
    if unknown:
        raise pytest.UsageError(f"CAY_ENGINES: no engine is called {sorted(unknown)}")
    if support.USER:  # this suite becomes an ordinary user by itself
        return []
    return [e for e in ENGINES if (not names or e.name in names) and not e.missing()]


def pytest_configure(config):
    config.addinivalue_line("markers", "needs(*what): what the engine must be able to do")


def is_in_sample(item, seen):
    """Whether an engine that runs a sample runs this; seen has what it has run already."""
    engine = getattr(item, "callspec", None) and item.callspec.params.get("engine")
    if not engine or engine.sample is None:
        return True
    name = item.originalname
    first = (engine, name) not in seen
    seen.add((engine, name))
    return first and name in engine.sample


def pytest_collection_modifyitems(config, items):
    if os.environ.get("CAY_ENGINES"):
        return
    seen = set()
    kept = [item for item in items if is_in_sample(item, seen)]
    left = [item for item in items if item not in set(kept)]
    for engine in {item.callspec.params["engine"].name for item in left}:
        SAMPLED[engine] = sum(item.callspec.params["engine"].name == engine for item in left)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


@pytest.fixture(scope="session", params=chosen(), ids=lambda e: e.name)
def engine(request):
    found = request.param()
    try:
        found.start()
        yield found
    finally:
        found.close()


@pytest.fixture(autouse=True)
def able(request, engine):
    """Leaves out a case that the engine says it cannot do, and remembers that for the report."""
    for mark in request.node.iter_markers("needs"):
        for what in mark.args:
            if what in engine.cannot:
                LEFT_OUT.append((engine.name, what, engine.cannot[what], request.node.name))
                pytest.skip(f"{engine.name} cannot '{what}': {engine.cannot[what]}")


def create(engine, **wishes):
    if engine.tier:
        wishes.setdefault("tier", engine.tier)
    wishes.setdefault("image", engine.main)
    return Box(engine, engine.daemon.call("POST", "/api/cay/sandbox", wishes))


@pytest.fixture(scope="module")
def box(engine):
    found = create(engine, env={"FROM_BOX": "a b"}, labels={"suite": "engine"})
    yield found
    found.remove()


@pytest.fixture
def make(engine):
    """Makes sandboxes that go with the case."""
    made = []

    def make_one(**wishes):
        made.append(create(engine, **wishes))
        return made[-1]
    yield make_one
    for one in made:
        if any(s["id"] == one.id for s in engine.daemon.list()):
            one.remove()


@pytest.fixture
def folder_of(engine, tmp_path_factory):
    """Makes folders of the host that the daemon's user owns and may reach."""
    def make_folder(name):
        path = engine.folder / f"{name}-{len(os.listdir(engine.folder))}"
        path.mkdir()
        return engine.own(path)
    return make_folder


def pytest_terminal_summary(terminalreporter):
    for engine, count in sorted(SAMPLED.items()):
        terminalreporter.write_line(f"{engine} runs a sample: {count} cases are left to the other engines "
                                    f"(all: CAY_ENGINES={engine})")
    for engine in sorted({row[0] for row in LEFT_OUT}):
        rows = [row for row in LEFT_OUT if row[0] == engine]
        terminalreporter.write_line(f"{engine} leaves out {len(rows)} cases:")
        for what, why in sorted({row[1:3] for row in rows}):
            count = sum(row[1] == what for row in rows)
            terminalreporter.write_line(f"    {what} ({count}): {why}")
