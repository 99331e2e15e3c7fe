"""Metrics and the log: what an operator sees."""

import http.client
import math
import os
import re
import signal
import time

from daemons import free_port, serving
from launching import until

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABELS = {"class", "engine", "id", "kind", "le", "method", "name", "outcome", "place", "process", "reason",
          "route", "socket", "state", "status", "version"}
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')


def parse_labels(text):
    found = {}
    while text:
        match = LABEL.match(text)
        assert match, text
        assert match[1] not in found, text
        found[match[1]] = re.sub(r'\\(.)', lambda m: "\n" if m[1] == "n" else m[1], match[2])
        text = text[match.end():]
    return found


class Page:
    """Prometheus' text format, taken strictly: every family has HELP and TYPE once, in this order,
    its samples follow at once, and no sample is there twice."""

    def __init__(self, text):
        assert text.endswith("\n")
        self.types, self.samples = {}, {}
        family = helped = None
        for line in text[:-1].split("\n"):
            if match := re.fullmatch(rf"# HELP ({NAME}) (\S.*)", line):
                assert match[1] not in self.types, line
                helped = match[1]
            elif match := re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge|histogram)", line):
                assert match[1] == helped, line
                family = match[1]
                self.types[family] = match[2]
            else:
                self.sample(line, family)

    def sample(self, line, family):
        match = re.fullmatch(rf"({NAME})(?:\{{(.*)\}})? (\S+)", line)
        assert match, line
        name = match[1]
        suffixes = ("_bucket", "_sum", "_count") if self.types[family] == "histogram" else ("",)
        assert name in [family + s for s in suffixes], line
        key = (name, frozenset(parse_labels(match[2] or "").items()))
        assert key not in self.samples, line
        self.samples[key] = float(match[3])

    def value(self, name, /, **labels):
        return self.samples.get((name, frozenset(labels.items())))

    def all(self, name):
        return {key: value for key, value in self.samples.items() if key[0] == name}

    def check(self):
        for (name, labels), value in self.samples.items():
            assert math.isfinite(value), name
            if self.types.get(name) == "counter":
                assert value >= 0, name
        for family, kind in self.types.items():
            if kind == "histogram":
                self.check_histogram(family)
        self.check_names()

    def check_names(self):
        """Prometheus' conventions: our prefix, base units, and counters that say so."""
        for family, kind in self.types.items():
            assert re.match("(cay|process)_", family), family
            assert family.endswith("_total") == (kind == "counter"), family
            assert kind != "histogram" or family.endswith(("_seconds", "_bytes")), family
            assert not re.search("_(ms|us|milliseconds|kb|mb|percent)(_|$)", family), family
        for name, labels in self.samples:  # nothing of a client's choosing but a sandbox's own name
            for key, value in labels:
                assert key in LABELS and (key in ("id", "name") or len(value) < 80), (name, key)

    def check_histogram(self, family):
        series = {}
        for (_, labels), value in self.all(family + "_bucket").items():
            rest = frozenset(pair for pair in labels if pair[0] != "le")
            series.setdefault(rest, []).append((float(dict(labels)["le"]), value))
        assert len(series) >= 1 or family == "cay_http_request_seconds"
        for rest, buckets in series.items():
            buckets.sort()
            counts = [value for _, value in buckets]
            assert counts == sorted(counts), family
            assert len(buckets) <= 16 and buckets[-1][0] == math.inf, family
            assert counts[-1] == self.samples[(family + "_count", rest)], family
            assert (self.samples[(family + "_sum", rest)] > 0) == (counts[-1] > 0), family


def page(daemon):
    answer = daemon.get("/metrics")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = Page(answer.text)
    found.check()
    return found


def test_metrics(folder, clean_host):
    settings = {"CAY_MANAGER_SAMPLE_INTERVAL": "200ms"}
    with serving(folder, env=settings) as daemon:
        before = page(daemon)
        assert before.value("cay_sandboxes", state="started") == 0
        assert before.value("cay_sandbox_create_seconds_count") == 0
        box = daemon.create(name="lab")["id"]
        assert daemon.exec(box, "true")[0] == 0
        assert daemon.get("/api/cay/sandbox/nobody").status == 404
        assert daemon.ask("POST", f"/api/cay/sandbox/{box}/stop").status == 200
        assert daemon.ask("POST", f"/api/cay/sandbox/{box}/start").status == 200
        for name in ("cay_sandbox_memory_bytes", "cay_sandbox_cpu_seconds_total"):
            assert until(lambda: page(daemon).value(name, id=box, name="lab"))
        after = page(daemon)
        assert after.value("cay_sandboxes", state="started") == 1
        assert after.value("cay_sandboxes_limit") == 100
        assert after.value("cay_engine_sandboxes", engine="native") == 1
        assert after.value("cay_engine_sandboxes", engine="docker") == 0
        assert after.value("cay_sandbox_memory_limit_bytes", id=box, name="lab") == 512 << 20
        for name in ("cay_sandbox_create", "cay_sandbox_start", "cay_exec", "cay_exec_first_byte"):
            assert after.value(f"{name}_seconds_count") == 1, name
        assert after.value("cay_errors_total", **{"class": "not_found"}) == 1
        route = {"method": "GET", "route": "/api/cay/sandbox/{who}", "status": "404"}
        assert after.value("cay_http_requests_total", **route) == 1
        assert len(after.all("cay_build_info")) == 1
        assert after.value("process_open_fds") > 3
        assert after.value("process_resident_memory_bytes") > 1 << 20


def test_the_daemon_itself(folder, clean_host):
    """Its engines, disks, processes and connections."""
    with serving(folder) as daemon:
        began = page(daemon).value("process_start_time_seconds")
        assert abs(time.time() - began) < 3600 * 24
        assert until(lambda: page(daemon).value("cay_process_open_fds", process="launcher"))
        waiting = {"engine": "native"}  # it prepares sandboxes at first
        assert until(lambda: page(daemon).value("cay_engine_requests_waiting", **waiting) == 0)
        now = page(daemon)
        assert now.value("process_start_time_seconds") == began
        assert now.value("cay_engine_up", engine="native") == 1
        assert now.value("cay_engine_up", engine="docker") is None
        assert now.value("cay_engine_ping_seconds", engine="native") > 0
        info = os.statvfs(daemon.state)
        assert now.value("cay_disk_size_bytes", place="state") == info.f_blocks * info.f_frsize
        assert now.value("cay_disk_free_bytes", place="state") > 0
        assert now.value("cay_disk_free_inodes", place="state") is not None
        for process in ("supervisor", "front", "launcher"):
            assert now.value("cay_process_resident_memory_bytes", process=process) > 1 << 18
            fds = now.value("cay_process_open_fds", process=process)
            assert 3 <= fds < now.value("cay_process_max_fds", process=process)
            assert now.value("cay_process_cpu_seconds_total", process=process) >= 0
        assert now.value("cay_http_requests_in_flight") >= 1
        assert now.value("cay_http_connections", socket="unix") >= 1
        assert now.value("cay_http_connections", socket="tcp") == 0
        for _ in range(3):
            assert daemon.get("/api/cay/sandbox/no-such-one").status == 404
        route = {"method": "GET", "route": "/api/cay/sandbox/{who}"}
        assert until(lambda: page(daemon).value("cay_http_request_seconds_count", **route) == 3)
        assert "no-such-one" not in daemon.get("/metrics").text


def test_failures_and_outcomes(folder, clean_host):
    with serving(folder) as daemon:
        box = daemon.create(name="lab", onFailure="keep")["id"]
        assert daemon.ask("POST", "/api/cay/sandbox", {"name": "lab"}).status == 409
        for command in ("true", "false", "kill -9 $$"):
            body = {"command": f"sh -c '{command}'"}
            assert daemon.ask("POST", f"/toolbox/{box}/process/execute", body).status == 200
        body = {"command": "sleep 100", "timeout": 1}
        daemon.ask("POST", f"/toolbox/{box}/process/execute", body)
        now = page(daemon)
        assert now.value("cay_sandbox_create_failures_total", **{"class": "conflict"}) == 1
        for outcome, count in (("ok", 1), ("failed", 1), ("signal", 1), ("timeout", 1), ("lost", 0)):
            assert now.value("cay_commands_total", outcome=outcome) == count, outcome
        assert now.value("cay_sandbox_unexpected_ends_total", reason="other") == 0
        record = (daemon.state / "sandboxes" / box / "record").read_text()
        os.kill(int(re.search("^pid = (.*)$", record, re.M)[1]), signal.SIGKILL)
        assert until(lambda: page(daemon).value("cay_sandbox_unexpected_ends_total", reason="other"))


def test_restarts_are_counted(folder, clean_host):
    with serving(folder) as daemon:
        daemon.kill_child("cay-launcher")
        assert until(lambda: page(daemon).value("cay_launcher_restarts_total") == 1)
        daemon.kill_child("cayd-front")
        assert until(daemon.serves)
        assert page(daemon).value("cay_front_restarts_total") == 1
        assert page(daemon).value("cay_launcher_restarts_total") == 2


def test_metrics_on_tcp(folder, clean_host):
    port = free_port()

    def status(path, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status

    with serving(folder, "--listen", f"127.0.0.1:{port}") as daemon:
        key = (daemon.state / "admin.key").read_text().strip()
        assert status("/metrics") == 401
        assert status("/metrics", Authorization=f"Bearer {key}") == 200
        daemon.stop()
        daemon.env["CAY_SERVER_METRICS_PUBLIC"] = "true"
        daemon.start()
        assert status("/metrics") == 200
        assert status("/metrics", Host="evil.example") == 403
        assert status("/api/cay/status") == 401


def test_a_sandbox_near_its_limit_is_warned_of_once(folder, clean_host):
    settings = {"CAY_MANAGER_SAMPLE_INTERVAL": "200ms", "CAY_MANAGER_WARN_AFTER": "1s"}
    with serving(folder, env=settings) as daemon:
        box = daemon.create(name="hot", memory=400 << 20)["id"]

        def warnings():
            return [line for line in daemon.log.read_text().splitlines()
                    if "near its limit" in line and "what=memory" in line]

        with daemon.connect(box) as c:
            c.exec("python3", "-c", "import time; b = b'x' * (364 << 20); time.sleep(1000)")
            assert until(warnings)
            assert not until(lambda: len(warnings()) > 1, 1)
        line = warnings()[0]
        assert f"sandbox={box}" in line and "name=hot" in line and "level=warn" in line


LINE = re.compile(r'time=\S+ level=(?:error|warn|info|debug) event=(?:\S+|"[^"]*")'
                  r'(?: \w+=(?:[^" ]\S*|"(?:[^"\\]|\\.)*"))*')


def test_the_log(folder, clean_host):
    with serving(folder, "--log-level", "debug") as daemon:
        answer = daemon.get("/api/cay/sandbox/no%22body", X_Request_Id="from-me_1.2")
        assert answer.headers["X-Request-Id"] == "from-me_1.2"
        for bad in ("a b", "x" * 65, "ü".encode().decode("latin-1"), 'q"'):
            made = daemon.get("/healthz", X_Request_Id=bad).headers["X-Request-Id"]
            assert re.fullmatch("[0-9a-f]{16}", made), bad
        box = daemon.create(name="lab", env={"SECRET": "hunter2"})["id"]
        daemon.exec(box, "true")
        assert until(lambda: "/connect" in daemon.log.read_text())
        lines = daemon.log.read_text().splitlines()
        for line in lines:
            assert LINE.fullmatch(line), line
        assert "hunter2" not in "".join(lines)
        mine = [line for line in lines if "request=from-me_1.2" in line]
        assert len(mine) == 1
        for part in ("method=GET", 'route=/api/cay/sandbox/{who}', "status=404", "level=info", "ms=",
                     "caller=uid:", 'sandbox="no\\"body"'):
            assert part in mine[0], (part, mine[0])


def test_a_quieter_log(folder, clean_host):
    with serving(folder, env={"CAY_SERVER_LOG_LEVEL": "warn"}) as daemon:
        daemon.create()
        assert "event=request" not in daemon.log.read_text()
