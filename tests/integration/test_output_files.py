"""Output that is too long to be told: a notice and the answer name a file of the sandbox that has all of it, by each
way that code and commands come in by. Neither much output nor a full disk harms what runs next."""

import json
from urllib.parse import quote

import pytest
from daemons import serving_alone
from interpreting import Interpreter
from support import cay, needs_ids

pytestmark = needs_ids

CODE_MAX, LOG_MAX = 10 << 20, 8 << 20
# numbers, so that nothing can be missing or doubled in between
COUNT = 1_600_000
ALL = "".join(f"{i}\n" for i in range(COUNT)).encode()
PYTHON = f"for i in range({COUNT // 1000}): print('\\n'.join(map(str, range(i * 1000, i * 1000 + 1000))))"
SHELL = f"seq 0 {COUNT - 1}"


class Box(Interpreter):
    def post(self, verb, **request):
        return self.daemon.ask("POST", f"{self.base}/process/{verb}", request)

    def code(self, code, language="python", **more):
        return self.post("code-run", code=code, language=language, **more)

    def read(self, path):
        answer = self.daemon.ask("GET", f"{self.base}/files/download?path={quote(path)}")
        assert answer.status == 200, answer.text
        return answer.text.encode()

    def sh(self, command):
        told = self.post("execute", command=command).json()
        assert told["exitCode"] == 0, told
        return told["result"]

    def take(self, path):
        """All of an output, which is removed then."""
        assert path.startswith("/tmp/cay-output-"), path
        assert self.sh(f"stat -c '%a %u' {path}") == "600 0\n"
        data = self.read(path)
        self.sh(f"rm {path}")
        return data

    def left(self):
        return self.sh("ls /tmp | grep cay-output || true").split()


@pytest.fixture(scope="module")
def daemon():
    with serving_alone() as made:
        yield made


@pytest.fixture(scope="module")
def box(daemon):
    return Box(daemon, "much")


@pytest.mark.parametrize("verb, request_", [
    ("code-run", {"code": PYTHON + "\nraise SystemExit(3)", "language": "python"}),
    ("code-run", {"code": SHELL, "language": "bash"}),
    ("execute", {"command": SHELL}),
], ids=["python", "bash", "execute"])
def test_all_of_the_output_is_in_a_file(box, verb, request_):
    told = box.post(verb, **request_).json()
    assert told["exitCode"] == (3 if "SystemExit" in str(request_) else 0) and told["outputTruncated"] is True
    assert told["result"].encode()[:CODE_MAX] == ALL[:CODE_MAX]
    notice = told["result"][CODE_MAX:]
    assert notice == f"\n[cay: what follows after 10 MB of output is left out; all of it is in {told['outputFile']}]\n"
    assert box.take(told["outputFile"]) == ALL


def test_output_that_is_told_leaves_no_file(box):
    for size in 1, 64 << 10, (64 << 10) + 1, CODE_MAX:
        told = box.code(f"import os\nos.chdir('/tmp')\nprint('x' * {size - 1})").json()
        assert len(told["result"]) == size and "outputFile" not in told and told["files"] == [], size
    run = box.default.run(f"print('x' * {LOG_MAX - 1})")
    assert len(run.out) == LOG_MAX and run.notices == ""
    assert box.left() == []


def print_until(box, enough):
    """The answer to a program that prints until its time is over, with as much time as it needs for enough."""
    for seconds in 1, 4, 16, 64:
        answer = box.code("while True: print('x' * 99999)", timeout=seconds)
        told = answer.json()
        if enough in told.get("result", "")[-200:]:
            break
        if told.get("outputFile"):
            box.sh(f"rm {told['outputFile']}")
    return answer


def test_the_file_of_a_program_that_its_time_ended(box):
    answer = print_until(box, "[cay: ")
    told = answer.json()
    assert answer.status == 408 and told["result"].startswith("x" * 99999 + "\n")
    assert told["outputTruncated"] is True and f" in {told['outputFile']}" in told["result"][CODE_MAX:]
    assert int(box.sh(f"stat -c %s {told['outputFile']}")) > CODE_MAX
    box.sh(f"rm {told['outputFile']}")


def test_little_output_of_a_program_that_its_time_ended(box):
    for answer in (box.code("import time\nprint('x', flush=True)\ntime.sleep(99)", timeout=1),
                   box.post("execute", command="echo x; sleep 99", timeout=1)):
        told = answer.json()
        assert answer.status == 408 and told.get("result", "x\n") == "x\n", told  # if it came so far
        assert "outputFile" not in told and "outputTruncated" not in told


@pytest.mark.parametrize("language, code", [
    ("python", PYTHON + "\nimport sys; _ = sys.stderr.write('e' * (9 << 20))"),
    ("bash", SHELL + "; head -c 9437184 /dev/zero | tr '\\0' e >&2"),
], ids=["python", "bash"])
def test_all_that_a_context_printed_is_in_files(box, language, code):
    context = box.create(language=language)
    run = context.run(code)
    files = {m["stream"]: m["file"] for m in run.all("notice") if "file" in m}
    assert sorted(files) == ["stderr", "stdout"] and run.control == ["completed"]
    assert run.out.encode()[:LOG_MAX] == ALL[:LOG_MAX]
    for stream, text in ("stdout", run.out), ("stderr", run.err):
        assert text[LOG_MAX:] == f"\n[cay: output beyond 8 MiB is not told; all of it is in {files[stream]}]\n"
        assert f"all of it is in {files[stream]}" in run.notices
    assert box.take(files["stdout"]) == ALL
    assert box.take(files["stderr"]) == b"e" * (9 << 20)
    assert context.run("echo 42" if language == "bash" else "print(42)").out == "42\n"
    again = context.begin(attach=True).end()  # another run by now
    assert again.out == "42\n" and again.notices == ""
    context.delete()


def test_who_attaches_later_hears_of_the_file(box):
    context = box.create()
    first = context.run("print('x' * (9 << 20))")
    later = context.begin(attach=True).end()
    assert later.out == first.out and later.all("notice") == first.all("notice")
    box.take(later.all("notice")[0]["file"])
    context.delete()


def test_the_json_of_sessions_and_contexts(box):
    where = ["--state-dir", box.daemon.state, "-o", "json"]
    done = cay("context", "run", *where, "much", "notes", "-c", PYTHON)
    told = json.loads(done.stdout)
    assert told["output_truncated"] and told["stderr_file"] is None, told["stderr"]
    assert box.take(told["stdout_file"]) == ALL
    assert cay("session", "create", "--state-dir", box.daemon.state, "much", "s").returncode == 0
    told = json.loads(cay("session", "exec", *where, "much", "s", "--", SHELL).stdout)
    assert box.take(told["stdout_file"]) == ALL
    told = json.loads(cay("session", "exec", *where, "much", "s", "--", "echo 1").stdout)
    assert (told["stdout"], told["stdout_file"], told["output_truncated"]) == ("1\n", None, False)
    assert cay("session", "rm", "--state-dir", box.daemon.state, "much", "s").returncode == 0


def test_a_place_where_no_file_can_be_made(box):
    box.sh("mv /tmp /was; touch /tmp")
    told = box.code(PYTHON).json()
    assert told["exitCode"] == 0 and told["outputFile"] is None and told["outputTruncated"] is True
    assert told["result"].endswith("is left out; there is no room for a file with it]\n")
    run = box.default.run(PYTHON)
    assert run.out.endswith("is not told, and there is no room for a file]\n") and run.control == ["completed"]
    box.sh("rm /tmp; mv /was /tmp")
    assert box.left() == []


def test_a_disk_that_is_almost_full(daemon):
    box = Box(daemon, "small", disk="48m")
    told = print_until(box, "not kept]").json()
    assert "MB are in /tmp/cay-output-" in told["result"] and told["result"].endswith("and more is not kept]\n")
    assert told["outputTruncated"] is True and told["outputFile"] in told["result"][CODE_MAX:]
    run = box.default.run("for _ in range(400): print('x' * 99999)")  # 40 MB
    assert run.control == ["completed"] and "that file has the beginning only; more is not kept]" in run.out
    assert box.code("open('kept', 'w').write('x' * 1000000); print('room')").json()["result"] == "room\n"
    # with no room at all
    box.code("f = open('/tmp/fill', 'wb', 0)\ntry:\n    while True: f.write(bytes(4096))\nexcept OSError: print('full')")
    told = box.code("for _ in range(200): print('x' * 99999)").json()
    assert told["exitCode"] == 0 and told["outputTruncated"] is True and "not kept" in told["result"][-200:]
    assert box.sh("rm /tmp/fill /tmp/cay-output-*; echo fine") == "fine\n"


FILL = """import os
with open('/tmp/fill', 'wb', 0) as f:
    while (s := os.statvfs('/tmp')).f_bavail * s.f_frsize > 12 << 20: f.write(bytes(65536))"""


def test_a_disk_that_has_no_room_for_what_was_told(daemon):
    """There is some for a log, but half of what is left then is less: the file has not even that."""
    box = Box(daemon, "smaller", disk="48m")
    assert box.code(FILL).json()["exitCode"] == 0
    run = box.default.run(PYTHON)
    assert run.control == ["completed"]
    assert run.out.endswith("\n[cay: that file has the beginning only; more is not kept]\n"), run.out[LOG_MAX:]
    assert "or as much as there was room for" in run.notices
    kept = box.take(next(m["file"] for m in run.all("notice") if "file" in m))
    assert 0 < len(kept) < LOG_MAX and kept == ALL[:len(kept)]


# ---- in a sandbox that is gone afterwards ----

PLACE = "/api/cay/python/output/"


def test_all_that_a_program_of_a_request_printed(daemon):
    told = daemon.call("POST", "/api/cay/python", {"code": PYTHON + "\nimport sys; sys.stderr.write('e' * 2000000)"})
    assert told["exit_code"] == 0 and told["output_truncated"]
    assert told["stdout"].encode()[:1 << 20] == ALL[:1 << 20] and told["stdout_file"].startswith(PLACE)
    for stream in "stdout", "stderr":
        assert told[stream][1 << 20:] == ("\n[cay: what follows after 1 MB of output is left out; all of it is kept for "
                                          f"some minutes: GET {told[stream + '_file']}]\n")
    answer = daemon.ask("GET", told["stdout_file"])
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.text.encode() == ALL and daemon.ask("GET", told["stderr_file"]).text == "e" * 2000000
    head = daemon.ask("HEAD", told["stdout_file"])
    assert (head.status, head.headers["Content-Length"], head.text) == (200, str(len(ALL)), "")
    assert daemon.ask("DELETE", told["stdout_file"]).status == 405


def test_what_was_told_is_in_no_file(daemon):
    told = daemon.call("POST", "/api/cay/python", {"code": f"print('x' * {(1 << 20) - 1})"})
    assert len(told["stdout"]) == 1 << 20
    assert (told["stdout_file"], told["stderr_file"], told["output_truncated"]) == (None, None, False)


def test_output_that_is_more_than_is_kept(daemon):
    code = "b = 'x' * (1 << 20)\nfor _ in range(300): print(b, end='')"
    told = daemon.call("POST", "/api/cay/python", {"code": code})
    assert told["exit_code"] == 0 and "; its first 256 MB are kept for some minutes" in told["stdout"][1 << 20:]
    assert daemon.call("POST", "/api/cay/python", {"code": "print(1)"})["stdout"] == "1\n"
    kept = sum(f.stat().st_size for f in (daemon.state / "daemon" / "outputs").iterdir())
    assert kept <= 512 << 20


@pytest.mark.parametrize("wrong", ["0" * 16, "..%2Fcay.db", "x", "%00", "0" * 300, ""])
def test_an_output_that_there_is_not(daemon, wrong):
    assert daemon.ask("GET", PLACE + wrong).status in (400, 404)


def test_files_of_outputs_do_not_outlive_the_daemon(daemon):
    place = daemon.call("POST", "/api/cay/python", {"code": "print('x' * 2000000)"})["stdout_file"]
    assert (daemon.state / "daemon" / "outputs" / place.rsplit("/", 1)[1]).exists()
    daemon.stop()
    daemon.start()
    assert daemon.ask("GET", place).status == 404 and list((daemon.state / "daemon" / "outputs").iterdir()) == []
