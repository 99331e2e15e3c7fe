# What a matplotlib figure shows, as data: kind, titles, labels, series. The names are those that
# clients of Daytona know.


def _cay_watch_charts(pyplot, show):
    """Told once pyplot is there: show() gives figures to us, and boxes are remembered."""
    axes = pyplot.Axes
    original = axes.bxp

    def bxp(self, bxpstats, positions=None, *args, **named):
        bxpstats = list(bxpstats)
        places = range(1, len(bxpstats) + 1) if positions is None else positions
        self.__dict__.setdefault("_cay_boxes", []).extend(zip(bxpstats, places))
        drawn = original(self, bxpstats, positions, *args, **named)
        self.__dict__.setdefault("_cay_box_parts", []).extend(a for part in drawn.values() for a in part)
        return drawn

    axes.bxp = bxp
    pyplot.show = show


def _cay_chart_of(figure):
    """A chart as a dictionary for JSON, and whether something of it was left out."""
    import math
    POINTS_MAX, ELEMENTS_MAX, AXES_MAX, TEXT_MAX = 5000, 500, 32, 500
    cut = False

    def limited(items, limit):
        nonlocal cut
        items = list(items)
        cut = cut or len(items) > limit
        return items[:limit]

    def text(value):
        return str(value)[:TEXT_MAX]

    def numbers(values):
        return [float(v) for v in values if math.isfinite(float(v))]

    def points_of(xs, ys):
        pairs = ((float(x), float(y)) for x, y in zip(xs, ys))
        return limited(([x, y] for x, y in pairs if math.isfinite(x) and math.isfinite(y)),
                       POINTS_MAX)

    def label_of(artist):
        label = text(artist.get_label() or "")
        return "" if label.startswith("_") else label

    def ticks_of(axis, chart, name):
        low, high = sorted(axis.get_view_interval())
        places = [(t, l) for t, l in zip(axis.get_majorticklocs(), axis.get_majorticklabels())
                  if low <= t <= high]
        places = limited(places, ELEMENTS_MAX)
        chart[name + "_ticks"] = numbers(t for t, _ in places)
        chart[name + "_tick_labels"] = [text(l.get_text()) for _, l in places]
        chart[name + "_scale"] = text(axis.get_scale())

    def namer(axis):
        """What a place of an axis is called. Bars side by side have the name that is below them."""
        from matplotlib.category import StrCategoryLocator
        from matplotlib.ticker import FixedLocator, ScalarFormatter
        ticks = [(float(t), text(l.get_text()))
                 for t, l in zip(axis.get_majorticklocs(), axis.get_majorticklabels())]
        near = 1e-6
        if isinstance(axis.get_major_formatter(), ScalarFormatter):
            ticks = []  # numbers are their own names
        elif isinstance(axis.get_major_locator(), (FixedLocator, StrCategoryLocator)):
            near = min((b - a for (a, _), (b, _) in zip(ticks, ticks[1:])), default=1) / 2

        def name(place):
            away, label = min(((abs(t - place), l) for t, l in ticks if l), default=(1, ""))
            return label if label and away <= near else "%.10g" % place
        return name

    def wedges(ax):
        from matplotlib.patches import Wedge
        return [{"label": label_of(w), "angle": abs(float(w.theta2) - float(w.theta1)),
                 "radius": float(w.r)} for w in ax.patches if isinstance(w, Wedge)]

    def boxes(ax):
        found = []
        named = [namer(axis) for axis in (ax.xaxis, ax.yaxis)]
        for box, place in getattr(ax, "_cay_boxes", ()):
            number = "%.10g" % place
            label = next((n for n in (name(place) for name in named) if n != number),
                         box.get("label", number))
            found.append({"label": text(label), "min": float(box["whislo"]),
                          "first_quartile": float(box["q1"]), "median": float(box["med"]),
                          "third_quartile": float(box["q3"]), "max": float(box["whishi"]),
                          "outliers": limited(numbers(box.get("fliers", ())), POINTS_MAX)})
        return found

    def bars(ax):
        from matplotlib.container import BarContainer
        found = []
        for group in (c for c in ax.containers if isinstance(c, BarContainer)):
            flat = group.orientation == "horizontal"
            name = namer(ax.yaxis if flat else ax.xaxis)
            label = label_of(group) or (label_of(group.patches[0]) if group.patches else "")
            for bar in group.patches:
                middle = bar.get_y() + bar.get_height() / 2 if flat else \
                    bar.get_x() + bar.get_width() / 2
                size = bar.get_width() if flat else bar.get_height()
                found.append({"label": name(float(middle)), "group": label,
                              "value": "%.15g" % size})
        return found

    def dots(ax):
        from matplotlib.collections import PathCollection
        found = []
        for one in (c for c in ax.collections if isinstance(c, PathCollection)):
            places = one.get_offsets()
            found.append({"label": label_of(one),
                          "points": points_of([p[0] for p in places], [p[1] for p in places])})
        return found

    def series_of(line):
        return {"label": label_of(line),
                "points": points_of(line.get_xdata(orig=False), line.get_ydata(orig=False))}

    def lines(ax):
        return [series_of(line) for line in limited(ax.lines, ELEMENTS_MAX)]

    def more_lines(ax):
        """Those beside another kind of chart: not its own parts, and not marks such as axhline()."""
        from matplotlib.container import ErrorbarContainer
        parts = set(map(id, getattr(ax, "_cay_box_parts", ())))
        for group in (c for c in ax.containers if isinstance(c, ErrorbarContainer)):
            parts.update(map(id, group.lines[1]))
        found = (line for line in ax.lines
                 if id(line) not in parts and line.get_transform() == ax.transData)
        return [s for s in map(series_of, limited(found, ELEMENTS_MAX)) if s["points"]]

    kinds = (("pie", wedges), ("box_and_whisker", boxes), ("bar", bars), ("scatter", dots))

    def described(ax, kind, elements):
        chart = {"type": kind, "title": text(ax.get_title()), "elements": elements}
        if kind != "pie":
            chart["x_label"], chart["y_label"] = text(ax.get_xlabel()), text(ax.get_ylabel())
        if kind in ("line", "scatter"):
            ticks_of(ax.xaxis, chart, "x")
            ticks_of(ax.yaxis, chart, "y")
        return chart

    def chart_of(ax):
        found = [(kind, limited(find(ax), ELEMENTS_MAX)) for kind, find in kinds]
        found = [(kind, elements) for kind, elements in found if elements]
        series = more_lines(ax) if found else lines(ax)
        if series:
            found.append(("line", series))
        charts = [described(ax, kind, elements) for kind, elements in found]
        if len(charts) > 1:
            return {"type": "composite_chart", "title": text(ax.get_title()), "elements": charts}
        return charts[0] if charts else described(ax, "unknown", [])

    charts = [chart_of(ax) for ax in limited(figure.axes, AXES_MAX)]
    charts = [c for c in charts if c["elements"]] or charts[:1]
    heading = getattr(figure, "_suptitle", None)
    if len(charts) < 2:
        whole = charts[0] if charts else {"type": "unknown", "title": "", "elements": []}
        whole["title"] = whole["title"] or (text(heading.get_text()) if heading else "")
    else:
        whole = {"type": "composite_chart", "title": text(heading.get_text()) if heading else "",
                 "elements": charts}
    return whole, cut
