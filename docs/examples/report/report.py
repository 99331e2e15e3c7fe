"""From a CSV file to a report with charts.

    cay python --code-type report -v "$PWD":/workspace report.py sales.csv

reads sales.csv, and leaves report.md and two charts beside it."""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

READERS = {".csv": pd.read_csv, ".json": pd.read_json, ".parquet": pd.read_parquet}


def load(name):
    data = READERS[Path(name).suffix](name)
    data["date"] = pd.to_datetime(data["date"])
    data["revenue"] = data["units"] * data["price"]
    return data


def table(frame):
    """Markdown, without a package for it."""
    head = "| " + " | ".join(map(str, frame.columns)) + " |\n|" + "---|" * len(frame.columns)
    rows = ("| " + " | ".join(map(str, row)) + " |" for row in frame.itertuples(index=False))
    return "\n".join([head, *rows])


def draw(series, title, name, kind):
    axes = series.plot(kind=kind, title=title, figsize=(8, 4))
    axes.set_ylabel("revenue")
    axes.figure.tight_layout()
    axes.figure.savefig(name)
    plt.close(axes.figure)


def outliers(data):
    """Days whose units are more than three deviations from the mean of their region."""
    groups = data.groupby("region")["units"]
    far = (data["units"] - groups.transform("mean")).abs() > 3 * groups.transform("std")
    return data[far][["date", "region", "product", "units"]]


def write(name):
    data = load(name)
    by_region = data.groupby("region")["revenue"].sum().sort_values(ascending=False)
    weekly = data.set_index("date")["revenue"].resample("W").sum()
    draw(by_region, "Revenue by region", "regions.png", "bar")
    draw(weekly, "Revenue by week", "weeks.png", "line")
    odd = outliers(data)
    change = weekly.iloc[-2] / weekly.iloc[1] - 1
    text = f"""# Sales report

## Overview

{len(data)} rows of {name}, from {data["date"].min():%Y-%m-%d} to {data["date"].max():%Y-%m-%d}: {data["region"].nunique()} regions
and {data["product"].nunique()} products. {int(data.isna().sum().sum())} values are missing. Total revenue is {data["revenue"].sum():,.2f}.

## Regions

{table(by_region.round(2).reset_index())}

![revenue by region](regions.png)

## Over time

Between the first and the last whole week revenue changed by {change:+.0%}.

![revenue by week](weeks.png)

## Outliers

{table(odd) if len(odd) else "There are none."}

## Conclusions

- {by_region.index[0]} is the strongest region, with {by_region.iloc[0] / by_region.sum():.0%} of the revenue.
- {len(odd)} days are far from the others of their region: look at them before you plan with these figures.
"""
    Path("report.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    write(sys.argv[1] if len(sys.argv) > 1 else "sales.csv")
