"""The data of charts that matplotlib drew, as contexts tell it."""

from pathlib import Path

import pytest
from daemons import serving_alone
from interpreting import Interpreter
from support import needs_ids

PACKAGES = Path("/usr/lib/python3/dist-packages")  # the host's, which are the sandbox's
pytestmark = [needs_ids, *(pytest.mark.skipif(not (PACKAGES / name).exists(), reason=f"needs python3-{name}")
                           for name in ("matplotlib", "pandas"))]


@pytest.fixture(scope="module")
def python():
    with serving_alone() as daemon:
        context = Interpreter(daemon, "charts").create()
        context.run("import matplotlib.pyplot as plt, numpy as np, pandas as pd", timeout=100)
        yield context


def chart_of(python, code):
    run = python.run(code, timeout=100)
    assert run.error is None and len(run.results) == 1, run.messages
    return run.results[0]["chart"]


def seen(chart):
    """The kind of a chart, and of its elements what is looked at."""
    if chart["type"] == "composite_chart":
        return [seen(one) for one in chart["elements"]]
    return chart["type"], [tuple(e[part] for part in PARTS[chart["type"]]) for e in chart["elements"]]


# the code; the kind of chart; its elements, as far as they are looked at
CHARTS = {
    "bars that lie": ("plt.barh(['p', 'q'], [1234567.25, 2]);", "bar", [("p", "", "1234567.25"), ("q", "", "2")]),
    "bars side by side": (
        "x = np.arange(2); plt.bar(x - .2, [1, 2], .4, label='m'); plt.bar(x + .2, [3, 4], .4, label='w'); "
        "plt.xticks(x, ['G', 'H']);", "bar",
        [("G", "m", "1"), ("H", "m", "2"), ("G", "w", "3"), ("H", "w", "4")]),
    "bars of a table": ("pd.DataFrame({'a': [1, 2], 'b': [3, 4]}, index=['x', 'y']).plot.bar();", "bar",
                        [("x", "a", "1"), ("y", "a", "2"), ("x", "b", "3"), ("y", "b", "4")]),
    "a histogram": ("plt.hist([1, 1, 2, 3, 3, 3], bins=[.5, 1.5, 2.5, 3.5]);", "bar",
                    [("1", "", "2"), ("2", "", "1"), ("3", "", "3")]),
    "two histograms": ("plt.hist([[1, 1], [2]], bins=[.5, 1.5, 2.5], label=['u', 'v'], stacked=True);", "bar",
                       [("1", "u", "2"), ("2", "u", "0"), ("1", "v", "0"), ("2", "v", "1")]),
    "boxes of a table": ("pd.DataFrame({'a': [1, 2, 3], 'b': [4, 5, 6]}).plot.box();", "box_and_whisker",
                         [("a", 1, 2, 3), ("b", 4, 5, 6)]),
    "boxes that lie": ("plt.boxplot([[1, 2, 3], [4, 5, 6]], labels=['a', 'b'], vert=False);", "box_and_whisker",
                       [("a", 1, 2, 3), ("b", 4, 5, 6)]),
    "a line of a table": ("pd.DataFrame({'a': [1, 2]}).plot();", "line", [("a", [[0, 1], [1, 2]])]),
    "dots": ("plt.scatter([1, 2], [3, 4], label='s');", "scatter", [("s", [[1, 3], [2, 4]])]),
    "a pie": ("plt.pie([1, 1], labels=['u', 'v']);", "pie", [("u", 180, 1), ("v", 180, 1)]),
    "nothing": ("plt.figure();", "unknown", []),
    "a picture": ("plt.imshow([[1, 2], [3, 4]]);", "unknown", []),
}
PARTS = {"bar": ("label", "group", "value"), "box_and_whisker": ("label", "min", "median", "max"),
         "line": ("label", "points"), "scatter": ("label", "points"), "pie": ("label", "angle", "radius"), "unknown": ()}


@pytest.mark.parametrize("code, kind, elements", CHARTS.values(), ids=CHARTS.keys())
def test_one_kind(python, code, kind, elements):
    assert seen(chart_of(python, code)) == (kind, elements)


BARS = ("bar", [("1", "", "3"), ("2", "", "4")])
LINE = ("line", [("l", [[1, 5], [2, 6]])])
BOX = ("box_and_whisker", [("1", 1, 2, 3)])
MIXED = {
    "bars and a line": ("plt.bar([1, 2], [3, 4]); plt.plot([1, 2], [5, 6], label='l');", [BARS, LINE]),
    "the line first": ("plt.plot([1, 2], [5, 6], label='l'); plt.bar([1, 2], [3, 4]);", [BARS, LINE]),
    "dots and a line": ("plt.scatter([1], [2], label='s'); plt.plot([1, 2], [5, 6], label='l');",
                        [("scatter", [("s", [[1, 2]])]), LINE]),
    "bars, dots and a line": ("plt.bar([1, 2], [3, 4]); plt.scatter([1], [2]); plt.plot([1, 2], [5, 6], label='l');",
                              [BARS, ("scatter", [("", [[1, 2]])]), LINE]),
    "a box and a line": ("plt.boxplot([[1, 2, 3, 9, 2, 1]]); plt.boxplot([[1, 2, 3]]); plt.plot([1, 2], [5, 6], label='l');",
                         [("box_and_whisker", [("1", 1, 2, 3), ("1", 1, 2, 3)]), LINE]),
    "an axis of its own": ("plt.bar([1, 2], [3, 4]); plt.twinx().plot([1, 2], [5, 6], label='l');", [BARS, LINE]),
    "two axes": ("f, (a, b) = plt.subplots(2); a.bar([1, 2], [3, 4]); a.plot([1, 2], [5, 6], label='l'); b.bar([1, 2], [3, 4]);",
                 [[BARS, LINE], BARS]),
    # what is no chart beside another
    "a mark at bars": ("plt.bar([1, 2], [3, 4]); plt.axhline(3); plt.axvline(1); plt.axline((1, 1), slope=1);", BARS),
    "an empty line": ("plt.bar([1, 2], [3, 4]); plt.plot([], []); plt.plot([1], [float('nan')]);", BARS),
    "errors of bars": ("plt.bar([1, 2], [3, 4], yerr=[1, 1], capsize=3);", BARS),
    "a box alone": ("plt.boxplot([[1, 2, 3]], showmeans=True, notch=True);", BOX),
}


@pytest.mark.parametrize("code, charts", MIXED.values(), ids=MIXED.keys())
def test_several_kinds(python, code, charts):
    assert seen(chart_of(python, code)) == charts


def test_each_of_several_kinds_is_whole(python):
    whole = chart_of(python, "plt.bar(['a', 'b'], [3, 4]); plt.plot([5, 6]);"
                             "plt.title('T'); plt.xlabel('X'); plt.ylabel('Y');")
    assert (whole["type"], whole["title"]) == ("composite_chart", "T")
    bar, line = whole["elements"]
    assert all((c["title"], c["x_label"], c["y_label"]) == ("T", "X", "Y") for c in (bar, line))
    assert [e["label"] for e in bar["elements"]] == ["a", "b"]
    names = dict(zip(line["x_ticks"], line["x_tick_labels"]))
    assert [names[x] for x, _ in line["elements"][0]["points"]] == ["a", "b"]
