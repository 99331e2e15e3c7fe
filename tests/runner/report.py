"""A pytest plugin: one JSON line for each test as it ends.

Unlike JUnit's file it has the id by which a test can be run again, and it is complete up to the
last test even if pytest is killed. tests/conftest.py registers it when CAY_TEST_REPORT names a file.
"""

import json
import os
import pathlib

LANE_CPU = pathlib.Path("/sys/fs/cgroup/cpuacct/cpuacct.usage")  # nanoseconds, of the whole lane


def cpu_seconds():
    """CPU time so far, with that of daemons and sandboxes where a lane counts it."""
    if os.environ.get("IN_LANE") and LANE_CPU.exists():
        return int(LANE_CPU.read_text()) / 1e9
    return sum(os.times()[:4])


class Report:
    def __init__(self, path):
        self.path = path
        self.outcome = {}
        self.cpu = cpu_seconds()

    def write(self, **line):
        with open(self.path, "a") as f:
            f.write(json.dumps(line) + "\n")

    def retried(self, what):
        """A test repeated a step within itself."""
        self.write(retry=what)

    def pytest_runtest_logreport(self, report):
        """Called for set-up, call and tear-down: a failure in any of them is the test's."""
        outcome, text, seconds = self.outcome.get(report.nodeid, ("passed", "", 0.0))
        if report.failed:
            outcome, text = "failed", f"{text}{report.longreprtext}\n"
        elif report.skipped and outcome == "passed":
            outcome, text = "skipped", skip_reason(report)
        self.outcome[report.nodeid] = outcome, text, seconds + report.duration
        if report.when == "teardown":
            outcome, text, seconds = self.outcome.pop(report.nodeid)
            before, self.cpu = self.cpu, cpu_seconds()
            self.write(test=report.nodeid, outcome=outcome, text=text, seconds=round(seconds, 2),
                       cpu=round(self.cpu - before, 2))

    def pytest_collectreport(self, report):
        if report.failed:
            self.write(test=report.nodeid, outcome="failed", text=report.longreprtext, seconds=0)
        elif report.skipped:
            self.write(test=report.nodeid, outcome="skipped", text=skip_reason(report), seconds=0)


def skip_reason(report):
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return str(getattr(report, "wasxfail", "") or report.longrepr)
