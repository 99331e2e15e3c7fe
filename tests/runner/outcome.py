"""What tests did: counted by suite, and printed at the end."""

import dataclasses

SHORT_SECONDS = 5  # a file below that is not worth a line
REASON_LINES = 12  # of each failure in the summary, all that is seen of a run whose log was cut


@dataclasses.dataclass
class Test:
    """One test that has run. again(): runs it once more, and returns its tests; None: cannot."""

    suite: str
    name: str
    outcome: str  # passed, failed, skipped; flaky: it failed, then passed alone
    text: str = ""
    again: object = None
    file: str = ""  # where its seconds count, if it has some of its own
    seconds: float = 0.0
    cpu: float = 0.0


class Results:
    """All tests of a run, the seconds of each file, and the retries inside tests."""

    def __init__(self):
        self.tests = []
        self.seconds = {}  # file, or a whole suite of meson's: how long its tests took
        self.cpu = {}  # the same: how much CPU time they used
        self.retries = {}  # what was repeated: how often

    def add(self, tests, unit, seconds, cpu):
        self.tests += tests
        if not any(t.seconds for t in tests):
            self.seconds[unit], self.cpu[unit] = seconds, cpu
            return
        for t in tests:
            name = t.file or unit
            self.seconds[name] = self.seconds.get(name, 0.0) + t.seconds
            self.cpu[name] = self.cpu.get(name, 0.0) + t.cpu

    def having(self, *outcomes):
        return [t for t in self.tests if t.outcome in outcomes]

    def note_retry(self, what):
        self.retries[what] = self.retries.get(what, 0) + 1


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


def reason(output):
    """Why a test failed, in a few lines: what pytest marks as the error, or the last line."""
    marked = [line[1:].strip()[:300] for line in output.splitlines() if line.startswith("E  ")]
    return "\n    ".join(marked[:REASON_LINES]) if marked else last_line(output)[:300]


def print_suites(results, suites):
    print(f"\n{'suite':<20} {'passed':>7} {'failed':>7} {'flaky':>6} {'skipped':>8} {'seconds':>8}")
    for suite in suites:
        count = {o: sum(t.suite == suite and t.outcome == o for t in results.tests)
                 for o in ("passed", "failed", "flaky", "skipped")}
        seconds = sum(s for name, s in results.seconds.items() if name.split("/")[0] == suite)
        print(f"{suite:<20} {count['passed'] + count['flaky']:>7} {count['failed']:>7} "
              f"{count['flaky']:>6} {count['skipped']:>8} {seconds:>8.1f}")


def print_durations(results):
    print(f"\nseconds of each file, without those below {SHORT_SECONDS}:\n    wall      cpu")
    for name, seconds in sorted(results.seconds.items(), key=lambda item: -item[1]):
        if seconds >= SHORT_SECONDS:
            print(f"{seconds:8.1f} {results.cpu[name]:8.1f}  {name}")
    print(f"{sum(results.seconds.values()):8.1f} {sum(results.cpu.values()):8.1f}  all, without builds")


def print_list(title, lines):
    if lines:
        print(f"\n{title}:")
    for line in lines:
        print(f"  {line}")


def print_summary(results):
    """Everything but the last line."""
    print_list("skipped", [f"{t.suite}: {t.name}: {t.text}" for t in results.having("skipped")])
    print_list("repeated inside tests", [f"{n} x {what}" for what, n in results.retries.items()])
    print_list("flaky (failed at first, passed when run once more alone: a defect to be mended)",
               [f"{t.suite}: {t.name}: {reason(t.text)}" for t in results.having("flaky")])
    print_list("failed", [f"{t.suite}: {t.name}: {reason(t.text)}" for t in results.having("failed")])


def last_words(results):
    """The line that counts."""
    passed = len(results.having("passed", "flaky"))
    failed, skipped = len(results.having("failed")), len(results.having("skipped"))
    return f"{passed} passed, {failed} failed, {skipped} skipped"
