"""Bad input over every way that Python code comes in by: `cay python`, fresh and in a sandbox that stays, a request
for a fresh sandbox, the toolbox's code-run, and a context."""

import json
import shutil
import tempfile
from collections import namedtuple
from pathlib import Path

import pytest
from daemons import Daemon
from interpreting import Interpreter
from support import TIER, cay, given_time, needs_ids, own
from websocket import open_unix

pytestmark = needs_ids

WAYS = "fresh", "inside", "request", "code-run", "context"
MB = 1 << 20

# exit_code: None if nobody tells it; words: all that was printed, and the exception; oom: killed for want of memory
Told = namedtuple("Told", "exit_code words oom", defaults=[False])


def words_of(told):
    exception = told["exception"] or {"type": "", "message": ""}
    return f"{told['stdout']}{told['stderr']}\n{exception['type']}: {exception['message']}"


class Ways:
    """Each runs a program, with an end to its time, and says how that went."""

    def __init__(self, folder):
        self.folder = folder
        self.daemon = Daemon(folder)
        self.box = Interpreter(self.daemon, "ways")

    def by_file(self, code, timeout, *options):
        name = self.folder / "program.py"
        name.write_bytes(code if isinstance(code, bytes) else code.encode())
        done = cay("python", *options, "-o", "json", "--timeout", str(timeout), name)
        assert done.stderr == b"", done.stderr
        told = json.loads(done.stdout)
        assert told["exit_code"] == done.returncode and "error" not in told, told
        return Told(told["exit_code"], words_of(told), told["oom_killed"])

    def fresh(self, code, timeout=60):
        return self.by_file(code, timeout, *TIER)

    def inside(self, code, timeout=60):
        return self.by_file(code, timeout, "--state-dir", self.daemon.state, "--in", "ways")

    def request(self, code, timeout=60):
        told = self.daemon.call("POST", "/api/cay/python", {"code": code, "timeout": timeout})
        return Told(told["exit_code"], words_of(told), told["oom_killed"])

    def code_run(self, code, timeout=60):
        answer = self.box.daemon.ask("POST", f"{self.box.base}/process/code-run",
                                     {"code": code, "language": "python", "timeout": timeout})
        told = answer.json()
        if answer.status == 408:
            return Told(124, answer.text)
        assert answer.status == 200, told
        return Told(told["exitCode"], told["result"], told.get("oomKilled", False))

    def context(self, code, timeout=60):
        run = self.box.default.begin(code, timeout=timeout).end()
        if run.closed[0] == 4008:
            return Told(124, run.out + run.err)
        assert run.closed[0] == 1000, run.closed
        error = run.error or {"name": "", "value": ""}
        end = [m for m in run.all("control") if "exitCode" in m][-1]
        exit_code = None if error["name"] == "InterpreterExit" else end["exitCode"]
        words = f"{run.out}{run.err}\n{error['name']}: {error['value']}"
        return Told(exit_code, words, end.get("oomKilled", False))

    def run(self, way, code, **more):
        return getattr(self, way.replace("-", "_"))(code, **more)


@pytest.fixture(scope="module")
def ways():
    folder = Path(tempfile.mkdtemp(prefix="cay-ways-", dir="/tmp"))
    folder.chmod(0o755)
    own(folder)
    made = Ways(folder)
    try:
        yield made
    finally:
        made.daemon.clean_up()
        shutil.rmtree(folder, ignore_errors=True)


# ---- what bad programs get ----

EVERY_FD = "import os\nfor fd in range(3, 256):\n    try: os.{}\n    except OSError: pass\n"
BAD = {  # the program; how it ends, if that is certain; what is told
    "a syntax error": ("print(1)\na = (", 1, "SyntaxError: '(' was never closed"),
    "an exception": ("print('before')\nraise ValueError('why')", 1, "ValueError: why"),
    "bytes that are no text": ("import os; os.write(1, b'a\\xff\\xc3b')", 0, "a\N{REPLACEMENT CHARACTER}"),
    "a read of standard input": ("print(repr(input()))", 1, "EOFError"),
    "all of standard input": ("import sys; print(repr(sys.stdin.read()))", 0, "''"),
    "an exit past everything": ("import os; os.write(1, b'said'); os._exit(7)", 7, "said"),
    "an exit": ("import sys; print('said'); sys.exit(3)", 3, "said"),
    "a segmentation fault": ("import ctypes; print('said', flush=True); ctypes.string_at(0)", 139, "said"),
    "the end of its parent": ("import os, signal; os.kill(os.getppid(), signal.SIGKILL)", 1, "PermissionError"),
    "the end of all that it can": ("import os, signal; print('said', flush=True); os.kill(-1, signal.SIGTERM)", None,
                                   "said"),
    "a module of ours": ("for name in '_cay_run', '_cay_freeze', '_cay_context', 'cay', 'freeze':\n"
                         "    try: __import__(name)\n    except ImportError: print('none')", 0, "none\n" * 5),
    "a name of ours": ("print([n for n in globals() if 'cay' in n])", 0, "[]"),
    "reports that are none": (EVERY_FD.format("write(fd, b'\\x02\\xff\\xff\\xff\\xffjunk')"), None, ""),
    "descriptors that are closed": ("print('said', flush=True)\n" + EVERY_FD.format("close(fd)"), None, "said"),
    "streams that are closed": ("import os\nos.write(1, b'said')\nos.closerange(0, 3)", None, "said"),
    "another work folder": ("import os; os.chdir('/'); print(os.getcwd())", 0, "/"),
    "no work folder": ("import os\nos.mkdir('/tmp/gone'); os.chdir('/tmp/gone'); os.rmdir('/tmp/gone')\nprint('said')",
                       0, "said"),
    "recursion without end": ("def f(): f()\nf()", 1, "RecursionError"),
    "a huge integer": ("print(len(str(10 ** 5000)))", 1, "ValueError"),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_bad_programs_get(ways, way):
    for name, (code, exit_code, words) in BAD.items():
        told = ways.run(way, code)
        if exit_code is not None and told.exit_code is not None:
            assert told.exit_code == exit_code, (name, told)
        assert words in told.words, (name, told)  # and the one before has changed nothing
    assert "42" in ways.run(way, "print(6 * 7)").words


@pytest.mark.parametrize("way", WAYS)
def test_a_module_that_is_called_as_one_of_ours(ways, way):
    code = ("import os, sys\nos.makedirs('/tmp/mine', exist_ok=True)\nsys.path.insert(0, '/tmp/mine')\n"
            "for name in 'freeze', '_cay_run', 'python_runner':\n"
            "    open(f'/tmp/mine/{name}.py', 'w').write('print(\"mine\")')\n    __import__(name)")
    assert "mine\nmine\nmine\n" in ways.run(way, code).words
    assert ways.run(way, "print(1)").words.startswith("1\n")


@pytest.mark.parametrize("way", ["inside", "code-run", "context"])  # the others have tests of their own
def test_a_fork_bomb_keeps_what_was_printed(ways, way):
    bomb = "import os\nprint('begun', flush=True)\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    told = given_time(lambda s: ways.run(way, bomb, timeout=s), lambda told: "begun" in told.words, (1, 6, 25))
    assert told.exit_code in (None, 124) and "begun" in told.words
    assert "42" in ways.run(way, "print(6 * 7)").words  # though the dead may not all be gone yet


@pytest.mark.parametrize("way", WAYS)
def test_a_memory_hog(ways, way):
    # page by page, so that it is the kernel that ends it
    told = ways.run(way, "print('begun', flush=True)\nhog = []\nwhile True: hog.append(bytearray(b'x') * (8 << 20))")
    assert told.oom and told.exit_code in (None, 137) and "begun" in told.words, told
    after = ways.run(way, "print(len(bytearray(64 << 20)), 'hog' in globals())")
    assert "67108864 False" in after.words and not after.oom


@pytest.mark.parametrize("way", ["code-run", "context"])  # the others have tests of their own
def test_a_loop_without_end(ways, way):
    told = given_time(lambda s: ways.run(way, "print('begun', flush=True)\nwhile True: pass", timeout=s),
                      lambda told: "begun" in told.words, (1, 6, 25))
    assert told.exit_code == 124 and "begun" in told.words and not told.oom, told
    assert "42" in ways.run(way, "print(6 * 7)").words


@pytest.mark.parametrize("way", WAYS)
def test_a_work_folder_that_is_removed(ways, way):
    ways.run(way, "import os\nos.chdir('/workspace')")  # contexts stay where they are
    told = ways.run(way, "import os, shutil\nopen('left', 'w').close()\nshutil.rmtree('/workspace')\nprint('said')")
    assert told.exit_code == 0 and "said" in told.words, told
    after = ways.run(way, "import os\nprint(os.getcwd(), os.listdir(), open('made', 'w').write('x'))")
    assert after.exit_code == 0 and "/workspace [] 1" in after.words, after


@pytest.mark.parametrize("way", WAYS)
def test_much_output(ways, way):
    told = ways.run(way, "import sys\nfor _ in range(20): sys.stdout.write('x' * (1 << 20))\nprint('end')")
    assert told.exit_code in (0, 124) and told.words.startswith("x" * 1000), told.exit_code
    assert "42" in ways.run(way, "print(6 * 7)").words


# ---- much code ----

HUGE = ("#" * 79 + "\n") * (10 * MB // 80) + "print(len(''))\nprint('huge')\n"


@pytest.mark.parametrize("way", WAYS)
def test_ten_megabytes_of_code(ways, way):
    told = ways.run(way, HUGE)
    assert told.exit_code == 0 and told.words.startswith("0\nhuge\n"), told.words[:2000]
    assert ways.run(way, "print(1)").words.startswith("1\n")


def test_a_failure_in_ten_megabytes_says_its_line(ways):
    line = HUGE.count("\n") + 1
    told = ways.daemon.call("POST", "/api/cay/python", {"code": HUGE + "1 / 0\n"})
    assert told["exception"]["frames"][-1]["line"] == line and told["exception"]["frames"][-1]["source"] == "1 / 0"
    error = ways.box.default.run(HUGE + "1 / 0\n").error
    assert f"line {line}," in error["traceback"] and "1 / 0" in error["traceback"]


@pytest.mark.parametrize("language, last", [("bash", "echo 0"), ("perl", "print 0")])
def test_ten_megabytes_of_another_language(ways, language, last):
    code = ("#" * 1023 + "\n") * (10 << 10) + last
    told = ways.daemon.call("POST", f"{ways.box.base}/process/code-run", {"code": code, "language": language})
    assert (told["exitCode"], told["result"].strip()) == (0, "0")


def test_more_code_than_is_taken(ways):
    body = json.dumps({"code": "#" * (16 * MB), "language": "python"})
    for place in "/api/cay/python", f"{ways.box.base}/process/code-run":
        answer = ways.daemon.ask("POST", place, body)
        assert answer.status == 413, answer.text
        assert str(16 * MB) in answer.text and "files of their own" in answer.text
    small = ways.daemon.ask("POST", f"{ways.box.base}/process/execute", {"command": "#" * (2 * MB)})
    assert small.status == 413 and str(MB) in small.text


def test_more_code_than_a_context_takes(ways):
    socket = open_unix(ways.daemon.socket, ways.box.base + "/process/interpreter/execute")
    try:
        socket.send(json.dumps({"code": "#" * (16 * MB)}))
        while socket.receive() is not None:
            pass
    except OSError:
        pass  # it closes before it has heard all of it
    else:
        assert socket.closed[0] == 1009
    socket.close()
    name = ways.folder / "long.py"
    name.write_bytes(b"#" * (16 * MB + 1))
    done = cay("context", "run", "--state-dir", ways.daemon.state, "ways", "a", name)
    assert done.returncode == 125 and str(16 * MB).encode() in done.stderr, done
    name.write_bytes(HUGE.encode())
    done = cay("context", "run", "--state-dir", ways.daemon.state, "ways", "a", name)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"0\nhuge\n", b"")


def test_a_context_is_busy_while_much_code_comes(ways):
    context = ways.box.create()
    busy = context.begin("import time\nprint('begun')\ntime.sleep(3600)")
    busy.until("begun")
    after = context.begin(HUGE)  # waits for its turn
    assert context.interrupt().status == 200
    assert busy.end().control == ["interrupted"]
    assert after.end().out == "0\nhuge\n"
    context.delete()


# ---- NUL ----

@pytest.mark.parametrize("way", ["fresh", "inside"])
def test_nul_in_a_file(ways, way):
    told = ways.run(way, b"print(1)\n\0")
    assert told.exit_code == 1 and "SyntaxError: source code cannot contain null bytes" in told.words


@pytest.mark.parametrize("member", ["code", "name", "cwd", "argv", "envs", "packages", "network"])
def test_nul_in_a_request(ways, member):
    bad = {"argv": ["a\0"], "packages": ["a\0"], "envs": {"A": "b\0"}}.get(member, "a\0")
    answer = ways.daemon.ask("POST", "/api/cay/python", {"code": "print(1)", member: bad})
    assert answer.status == 400 and "\\u0000" in answer.json()["message"], answer.text
    if member in ("code", "argv", "envs"):
        request = {"code": "print(1)", "language": "python", member: bad}
        answer = ways.daemon.ask("POST", f"{ways.box.base}/process/code-run", request)
        assert answer.status == 400 and "\\u0000" in answer.text, answer.text
    if member in ("code", "envs"):
        run = ways.box.default.begin(**{"code": "1", member: bad}).end()
        assert run.closed[0] == 1008 and "\\u0000" in run.closed[1], run.closed


def test_nul_in_names_of_variables_and_files(ways):
    answer = ways.daemon.ask("POST", "/api/cay/python", {"code": "1", "envs": {"A\0B": "x"}})
    assert answer.status == 400, answer.text
    answer = ways.daemon.ask("GET", f"{ways.box.base}/files/download?path=%2Ftmp%2Fa%00b")
    assert answer.status == 400, answer.text
    answer = ways.daemon.ask("POST", f"{ways.box.base}/files/folder?path=%2Ftmp%2Fa%00b&mode=755")
    assert answer.status == 400, answer.text


@pytest.mark.parametrize("options", [[], ["--in", "ways"]], ids=["fresh", "inside"])
def test_nul_in_standard_input(ways, options):
    where = ["--state-dir", ways.daemon.state] if options else TIER
    code = "import sys; print(sys.stdin.buffer.read())"
    done = cay("python", *where, *options, "-c", code, input=b"a\0b\xff\0")
    assert done.stdout == b"b'a\\x00b\\xff\\x00'\n", done
    done = cay("python", *where, *options, "-", input=b"print(1)\0\n")
    assert done.returncode == 1 and b"null bytes" in done.stderr, done


def test_nul_in_code_for_a_context(ways):
    name = ways.folder / "nul.py"
    name.write_bytes(b"print(1)\0")
    done = cay("context", "run", "--state-dir", ways.daemon.state, "ways", "a", name)
    assert done.returncode == 125 and b"NUL" in done.stderr, done
