"""The alert rules and the dashboard use metrics that exist, and each alert has its section in the
runbook."""

import json
import re
import shutil
import subprocess

import pytest
import support
from daemons import serving
from test_metrics import page

ROOT = support.ROOT
RULES = ROOT / "deploy/prometheus/cay.rules.yml"
DASHBOARD = ROOT / "deploy/grafana/cay.json"
METRIC = re.compile(r"\b(?:cay|process)_[a-z0-9_]+")


def expressions():
    """Of every rule and every panel."""
    text = RULES.read_text()
    found = re.findall(r"^        expr: (?!>-)(.*)$", text, re.M)
    found += re.findall(r"^        expr: >-\n((?:          .*\n)+)", text, re.M)
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        found += [target["expr"] for target in panel.get("targets", [])]
    return found


def alerts():
    return re.findall(r"^      - alert: (\w+)$", RULES.read_text(), re.M)


def test_every_metric_exists(folder, clean_host):
    support.need_cay()
    with serving(folder) as daemon:
        daemon.create()
        page(daemon)  # so that there is a request of which the page can tell
        known = {name for name, _ in page(daemon).samples} | set(page(daemon).types)
    used = {name for text in expressions() for name in METRIC.findall(text)}
    assert len(used) > 30
    assert used - known == set()


def test_every_alert_has_its_runbook():
    assert len(alerts()) == len(set(alerts())) > 10
    sections = re.findall(r"^#### (\w+)$", (ROOT / "docs/operating.md").read_text(), re.M)
    assert sections == alerts()
    links = re.findall(r'runbook: "docs/operating.md#(\w+)"', RULES.read_text())
    assert links == [name.lower() for name in alerts()]


def test_the_dashboard():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24 and panel["title"]


def test_promtool():
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not installed: it is in the package prometheus")
    done = subprocess.run([tool, "check", "rules", RULES], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
