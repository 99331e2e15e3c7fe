"""Python in the daemon: programs in fresh sandboxes, where an interpreter may wait already, and code in
sandboxes that stay, by a copy of their image's interpreter."""

import http.client
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from daemons import LocalHTTP, serving_alone
from launching import until
from support import given_time, is_sanitized, needs_ids
from test_python_same import PROGRAMS, neutral, on_host

pytestmark = needs_ids


class Python:
    """A daemon whose interpreter has been made, and waits."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.wait()

    def run(self, code, **more):
        return self.daemon.call("POST", "/api/cay/python", {"code": code, **more})

    def metric(self, name):
        for line in self.daemon.get("/metrics").text.splitlines():
            if line.startswith(f"cay_python_{name} "):
                return float(line.split()[1])
        raise AssertionError(name)

    def wait(self, count=None):
        """Until as many wait as shall."""
        assert until(lambda: self.run("pass")["interpreter"]["warm"], 60), self.daemon.log.read_text()
        self.wait_for_all(count)

    def wait_for_all(self, count=None):
        count = self.metric("waiting_target") if count is None else count
        assert until(lambda: self.metric("waiting") == count, 60)


@pytest.fixture(scope="module")
def python():
    with serving_alone() as daemon:
        yield Python(daemon)


@pytest.fixture(scope="module")
def box(python):
    made = python.daemon.create(name="python-box")["id"]

    def run(code, **more):
        answer = python.daemon.ask("POST", f"/toolbox/{made}/process/code-run",
                                   {"code": code, "language": "python", **more})
        assert answer.status == 200, answer.text
        done = answer.json()
        return answer.headers["X-Cay-Python"], done["exitCode"], done["result"]

    return run


# ---- fresh sandboxes ----

def test_a_program(python):
    told = python.run("import sys\nprint(sys.argv[1:])\nopen('a', 'w').write('x')\n1/0", argv=["b", "c"])
    assert (told["exit_code"], told["stdout"]) == (1, "['b', 'c']\n")
    assert told["exception"]["type"] == "ZeroDivisionError"
    assert told["exception"]["frames"][-1]["source"] == "1/0"
    assert [file["path"] for file in told["files"]] == ["a"]
    assert told["interpreter"]["warm"] is True and told["interpreter"]["why_cold"] is None


def test_it_runs_where_one_waits_and_each_is_used_once(python):
    python.wait()
    hits, misses = python.metric("hits_total"), python.metric("misses_total")
    names = set()
    for _ in range(8):
        python.wait_for_all()
        names.add(python.run("print(open('/proc/sys/kernel/random/boot_id').read())")["stdout"])
    assert python.metric("hits_total") >= hits + 8
    assert python.metric("misses_total") == misses
    assert len(names) == 8  # of eight sandboxes


DEL = "class A:\n    def __del__(self): print('gone')\n"
ENDS = (  # of programs: what is left is taken apart as by python3, though the interpreter is not
    DEL + "a = A()",
    DEL + "a = A(); a.me = a",
    DEL + "a = A(); a.me = a; a.many = [[] for _ in range(5000)]",
    DEL + "a = A(); a.me = a\nimport gc\ngc.collect(); gc.collect()",
    DEL + "a = A(); a.me = a\nimport gc\ngc.freeze(); gc.unfreeze()",
    DEL + "import weakref\nb = A(); b.me = b; weakref.finalize(b, print, 'final')",
    "def f(): return g\ndef g(): return f\nf.x: int = 1\nprint(f.__globals__ is globals())",
    DEL + "import atexit\natexit.register(print, 'exit')\nall = [open('/dev/null', 'w'), A()]\n"
    "all.append(all); all[0].write('kept')",
    "import sys; sys.stdout.write('no line'); sys.stderr.write('nor here'); sys.exit(300)",
)


def test_programs_end_as_those_of_python3_where_one_waits(python):
    hits = python.metric("hits_total")
    for code in ENDS:
        python.wait_for_all()
        told = python.run(code)
        bare = subprocess.run(["/usr/bin/python3", "-u", "-c", code], capture_output=True, text=True)
        assert (told["stdout"], told["stderr"], told["exit_code"]) == \
            (bare.stdout, bare.stderr, bare.returncode), code
    assert python.metric("hits_total") == hits + len(ENDS)


def test_programs_give_the_same_where_one_waits(python, tmp_path):
    """Some of those that test_python_same.py compares where none waits."""
    hits, programs = python.metric("hits_total"), PROGRAMS[::36 if is_sanitized() else 9]
    for number, program in enumerate(programs):
        work = tmp_path / str(number)
        work.mkdir()
        file = work / "program.py"
        file.write_text(program.partition("\n")[2])
        code, out, errors = on_host(file, work)
        python.wait_for_all()
        told = python.run(file.read_text(), name=file.name)
        assert (told["exit_code"], told["stdout"]) == (code, out.decode(errors="replace")), program
        said = told["stderr"].replace(f"/tmp/cay-2/{file.name}", "PROGRAM")
        assert neutral(said.encode()) == errors, program
    assert python.metric("hits_total") == hits + len(programs)


def test_what_differs_from_what_waits_is_made(python):
    told = python.run("import os; print(os.environ['A'], os.getcwd())", envs={"A": "b"}, cwd="/tmp/x")
    assert told["stdout"] == "b /tmp/x\n" and told["interpreter"]["warm"]
    told = python.run("print(1)", envs={"PYTHONHASHSEED": "1"})
    assert told["stdout"] == "1\n" and "envs" in told["interpreter"]["why_cold"]


def began(told):
    return told["stdout"] != ""


def test_limits_count_from_the_program_on(python):
    python.wait()
    told = given_time(lambda s: python.run("import time\nprint('begun')\ntime.sleep(600)", timeout=s), began, (2, 6, 25))
    assert told["timed_out"] and told["exit_code"] == 124 and told["stdout"] == "begun\n"
    assert told["duration_ms"] > 1900


def test_silence_ends_it(python):
    told = given_time(lambda s: python.run("import time\nprint('begun')\ntime.sleep(1000)", idle_output_timeout=s),
                      began, (4, 8, 25))
    assert told["idle_output"] and told["exit_code"] == 124, told
    assert told["stdout"] == "begun\n" and told["duration_ms"] >= 3900


def test_code_run_tells_the_exception(python, box):
    base = f"/toolbox/{python.daemon.list()[0]['id']}/process/code-run"
    for envs in {}, {"PYTHONX": "1"}:  # warm, and cold
        told = python.daemon.call("POST", base, {"code": "print(1)\nx = {}\nx['k']", "language": "python", "envs": envs})
        assert told["exitCode"] == 1 and told["result"].startswith("1\nTraceback") and told["durationMs"] > 0, told
        assert (told["exception"]["type"], told["exception"]["message"]) == ("KeyError", "'k'")
        assert (told["exception"]["frames"][0]["line"], told["exception"]["frames"][0]["source"]) == (3, "x['k']")
    assert python.daemon.call("POST", base, {"code": "1", "language": "python"})["exception"] is None
    assert "exception" not in python.daemon.call("POST", base, {"code": "true", "language": "bash"})


def test_code_run_tells_the_files(python, box):
    base = f"/toolbox/{python.daemon.list()[0]['id']}/process/code-run"
    make = ("import os\nos.makedirs('told/deep', exist_ok=True)\nopen('told/deep/new', 'w').write('1234')\n"
            "open('told/old', 'a').write('x')")
    for envs in {}, {"PYTHONX": "1"}:  # warm, and cold
        body = {"code": "import shutil; shutil.rmtree('told', ignore_errors=True)\nimport os; os.mkdir('told')\n"
                        "open('told/old', 'w').close()\nopen('told/same', 'w').close()", "language": "python"}
        assert python.daemon.call("POST", base, body)["exitCode"] == 0
        told = python.daemon.call("POST", base, {"code": make, "language": "python", "envs": envs})
        assert sorted((f["path"], f["size"], f["created"]) for f in told["files"]) == [
            ("told/deep/new", 4, True), ("told/old", 1, False)], told
        assert told["filesTruncated"] is False
    body = {"code": "for i in range(1001): open(f'told/{i}', 'w').close()", "language": "python"}
    told = python.daemon.call("POST", base, body)
    assert len(told["files"]) == 1000 and told["filesTruncated"]
    python.daemon.call("POST", base, {"code": "import shutil; shutil.rmtree('told')", "language": "python"})


SHOWN = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"


@pytest.mark.skipif(not Path("/usr/lib/python3/dist-packages/matplotlib").exists(), reason="needs python3-matplotlib")
def test_figures_as_svg_on_request(python, box):
    base = f"/toolbox/{python.daemon.list()[0]['id']}/process/code-run"
    for more in {}, {"svg": True}:
        figures = python.run(SHOWN, **more)["figures"]
        assert len(figures) == 1 and ("svg" in figures[0]) is bool(more)
        charts = python.daemon.call("POST", base, {"code": SHOWN, "language": "python", **more})["artifacts"]["charts"]
        assert len(charts) == 1 and ("svg" in charts[0]) is bool(more) and charts[0]["png"]
        assert not more or ("<svg" in figures[0]["svg"] and "<svg" in charts[0]["svg"])


LAST_WORD = "import os, time\nos.write(200, bytes([0, 1, 0, 0, 0, 7]))\n"


@pytest.mark.parametrize("more", [{}, {"cwd": "/tmp"}])
def test_a_program_that_says_that_it_has_ended_is_ended(python, more):
    told = python.run("print('a')\n" + LAST_WORD + "time.sleep(1000)", timeout=120, **more)
    assert (told["exit_code"], told["stdout"], told["timed_out"]) == (7, "a\n", False)
    assert python.run("print(1)")["stdout"] == "1\n"


@pytest.mark.parametrize("exits, at_exit", [("atexit.register(print, 'atexit')", "atexit\n"), ("pass", "")])
def test_all_that_a_program_leaves_is_told(python, exits, at_exit):
    """Its answer does not wait for it to exit, but for this."""
    python.wait()
    code = ("import atexit, threading, time\nkept = open('kept', 'w')\nkept.write('x' * 5)\n"
            "class Last:\n    def __del__(self):\n        print('del')\nlast = Last()\n"
            "threading.Thread(target=lambda: (time.sleep(0.01), print('thread'))).start()\n"
            f"{exits}\nprint('end')")
    told = python.run(code)
    assert told["stdout"] == f"end\nthread\n{at_exit}del\n" and told["exit_code"] == 0
    assert [(file["path"], file["size"]) for file in told["files"]] == [("kept", 5)]


def test_more_at_once_than_wait(python):
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda n: python.run(f"print({n})"), range(24)))
    assert [t["stdout"] for t in told] == [f"{n}\n" for n in range(24)]
    assert all(t["interpreter"]["warm"] for t in told)


PLANT = """
import os, json, sys, builtins
secret = bytes(reversed(b"-dneirf-nollem")) * 1000
json.secret = sys.secret = builtins.secret = secret
os.environ["SECRET"] = secret.decode()
for place in "/tmp", "/dev/shm", "/workspace", "/run", "/var/tmp":
    open(place + "/planted", "wb").write(secret)
print("planted")
"""
FIND = """
import os, json, sys, builtins
needle = bytes(reversed(b"-dneirf-nollem"))
found = [p for p in ("/tmp", "/dev/shm", "/workspace", "/run", "/var/tmp") if os.path.exists(p + "/planted")]
found += [m for m in (json, sys, builtins) if hasattr(m, "secret")] + [n for n in os.environ if n == "SECRET"]
hits = 0
with open("/proc/self/mem", "rb", 0) as memory:
    for line in open("/proc/self/maps"):
        start, end = (int(x, 16) for x in line.split()[0].split("-"))
        if line.split()[1][0] == "r" and "[v" not in line:
            memory.seek(start)
            try:
                hits += memory.read(end - start).count(needle)
            except OSError:
                pass
print(found, hits < 100)
"""


def test_nothing_of_one_program_is_found_by_another(python):
    for _ in range(3):
        assert python.run(PLANT)["stdout"] == "planted\n"
        assert python.run(FIND)["stdout"] == "[] True\n"


BAD = {
    "a syntax error": ("a = (", "SyntaxError", 1),
    "an exit past everything": ("import os; print('x'); os._exit(7)", None, 7),
    "a segmentation fault": ("import ctypes; ctypes.string_at(0)", None, 139),
    "the end of its parent": ("import os, signal; os.kill(os.getppid(), signal.SIGKILL)",
                              "PermissionError", 1),
    "a read of standard input": ("import sys; print(repr(sys.stdin.read()))", None, 0),
    "closed streams": ("import os\nfor n in 0, 1, 2: os.close(n)", None, None),
    "a closed report": ("import os; os.close(200); print(1)", None, 0),
    "lies in the report": ("import os; os.write(200, b'\\xff' * 4000); print(1)", None, 0),
    "no work folder": ("import os, shutil; os.chdir('/'); shutil.rmtree('/workspace', True)", None, 0),
    "bytes that are no text": ("import sys; sys.stdout.buffer.write(bytes(range(256)))", None, 0),
    "recursion without end": ("def f(): f()\nf()", "RecursionError", 1),
}


@pytest.mark.parametrize("name", BAD)
def test_what_bad_programs_get(python, name):
    code, exception, exit_code = BAD[name]
    for more in {}, {"envs": {"PYTHONUTF8": "1"}}:  # warm, and cold
        answer = python.daemon.ask("POST", "/api/cay/python", {"code": code, **more})
        told = answer.json()
        assert answer.status == 200, told
        assert exit_code is None or told["exit_code"] == exit_code, told
        assert (told["exception"] or {}).get("type") == exception, told
        assert told["interpreter"]["warm"] is (more == {})
    assert python.run("print(1)")["stdout"] == "1\n"


def test_a_memory_hog_and_a_fork_bomb(python):
    told = python.run("print('x', flush=True)\na = []\nwhile True: a.append(bytearray(1 << 24))")
    assert told["oom_killed"] or told["exception"]["type"] == "MemoryError", told
    told = python.run("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", timeout=1)
    assert told["timed_out"] or told["exit_code"] != 0, told
    assert python.run("print(1)")["stdout"] == "1\n"


def test_output_without_end_is_cut(python):
    told = python.run("import sys\nfor _ in range(64): sys.stdout.write('x' * (1 << 20))\nprint('end')")
    assert told["output_truncated"] and told["exit_code"] == 0
    assert told["stdout"].startswith("x" * (1 << 20) + "\n[cay: what follows after 1 MB of output is left out; all of it")


@pytest.mark.parametrize("body, status", [
    ("{", 400), ("[]", 400), ("{}", 400), ('{"code": 1}', 400), ('{"code": "1", "timeout": -1}', 400),
    ('{"code": "1\\u0000"}', 400), ('{"code": "1", "argv": "x"}', 400), ('{"code": "1", "cwd": "x"}', 400),
    ('{"code": "1", "envs": {"A=B": "x"}}', 400), ('{"code": "1", "svg": 1}', 400),
    ('{"code": "1", "idle_output_timeout": -1}', 400),
])
def test_bad_requests(python, body, status):
    answer = python.daemon.ask("POST", "/api/cay/python", body)
    assert answer.status == status, answer.text
    assert answer.json()["remedy"] or answer.json()["message"]


def test_a_launcher_that_dies_takes_only_what_waits(python):
    python.wait()
    dropped = python.metric("dropped_total")
    python.daemon.kill_child("cay-launcher")
    # Programs may still meet one that has not ended yet.
    assert until(lambda: python.daemon.ask("POST", "/api/cay/python", {"code": "pass"}).status == 200
                 and python.metric("dropped_total") > dropped)
    python.wait()


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def memory_kb(pid):
    return int(next(line for line in open(f"/proc/{pid}/status") if line.startswith("VmRSS")).split()[1])


def test_many_in_a_row_leave_nothing(python):
    """10,000 with CAY_STRESS=full."""
    rounds = 10000 if os.environ.get("CAY_STRESS") == "full" else 60 if is_sanitized() else 200
    front, launcher = python.daemon.front(), python.daemon.launcher()
    client = LocalHTTP(python.daemon.socket)
    body = json.dumps({"code": "import sys, threading; print(len(sys.modules), threading.active_count())"})

    def one():
        client.request("POST", "/api/cay/python", body)
        return json.loads(client.getresponse().read())["stdout"]

    def figures():
        return open_files(front), open_files(launcher), memory_kb(launcher), \
            0 if is_sanitized() else memory_kb(front)

    def batch():
        for _ in range(rounds // 5):
            assert one() == first
        python.wait()
        return figures()

    first = one()
    seen = [batch() for _ in range(6)]
    client.close()
    # How many sandboxes and threads there were at once is chance, and their places are kept, so a
    # figure may jump; a leak would be a descriptor for each program, in every batch of them.
    fewest = [min(now[i] - was[i] for was, now in zip(seen, seen[1:])) for i in range(2)]
    assert max(fewest) < rounds // 10, seen
    assert all(seen[-1][i] <= seen[0][i] + 16384 for i in (2, 3)), seen


# ---- sandboxes that stay ----

def test_code_is_run_by_a_copy(box):
    code = "import sys\nprint(1)\nprint(2, file=sys.stderr)\nprint(3, sys.argv)\nraise SystemExit(4)"
    assert box(code, argv=["a"]) == ("warm", 4, "1\n2\n3 ['-c', 'a']\n")
    kind, code, text = box("def f():\n    raise ValueError('x')\nf()")
    assert (kind, code) == ("warm", 1)
    assert text == ('Traceback (most recent call last):\n  File "<string>", line 3, in <module>\n'
                    '  File "<string>", line 2, in f\nValueError: x\n')


def test_code_that_was_ended_tells_what_it_printed(python):
    made = python.daemon.create(name="ended")["id"]
    answer = given_time(lambda s: python.daemon.ask("POST", f"/toolbox/{made}/process/code-run", {
        "code": "print('begun', flush=True)\nwhile True: pass", "language": "python", "timeout": s}),
        lambda answer: "begun" in answer.text, (5, 25))
    assert (answer.status, answer.json()["result"]) == (408, "begun\n"), answer.text


def test_code_with_variables(box):
    assert box("import os; print(os.environ['A'])", envs={"A": "b"}) == ("warm", 0, "b\n")
    kind, code, text = box("print(1)", envs={"PYTHONX": "1"})
    assert kind.startswith("cold; envs") and (code, text) == (0, "1\n")


def test_long_code_and_no_input(box):
    long = "#" * 300000 + "\nimport sys; print(repr(sys.stdin.read()), __name__)"
    assert box(long) == ("warm", 0, "'' __main__\n")


def test_code_has_ended_when_it_is_told(box):
    assert box("try:\n    exec(%r)\nexcept OSError:\n    pass\nraise SystemExit(3)" % LAST_WORD)[1] == 3
    bind = "import socket\nkept = socket.create_server(('127.0.0.1', 4000), reuse_port=False)\nprint(1)"
    for _ in range(10):  # whoever comes next finds the port free
        assert box(bind) == ("warm", 0, "1\n")


def test_a_sandbox_whose_python_has_changed_starts_its_own(python):
    made = python.daemon.create(name="changed")["id"]

    def run(code):
        answer = python.daemon.ask("POST", f"/toolbox/{made}/process/code-run",
                                   {"code": code, "language": "python"})
        return answer.headers["X-Cay-Python"], answer.json()["result"]

    assert run("print(1)") == ("warm", "1\n")
    install = ("import os, site\nfolder = site.getsitepackages()[0]\nos.makedirs(folder, exist_ok=True)\n"
               "open(folder + '/sitecustomize.py', 'w').write('import builtins; builtins.x = 5')")
    assert run(install) == ("warm", "")
    kind, text = run("print(x)")
    assert kind.startswith("cold; ") and text == "5\n"


def test_a_copy_has_its_libraries_in_it(box):
    """No file is mapped, and nothing can be written to and executed."""
    code = ("lines = [line.split() for line in open('/proc/self/maps')]\n"
            "print([line[-1] for line in lines if line[-1][:5] == '/usr/'],"
            " [line for line in lines if 'w' in line[1] and 'x' in line[1]], len(lines) < 100)")
    assert box(code) == ("warm", 0, "[] [] True\n")


def test_one_client_hears_of_the_other_way_too(python):
    """Over one connection: fresh, kept, fresh."""
    client = LocalHTTP(python.daemon.socket)
    for _ in range(3):
        client.request("POST", "/api/cay/python", json.dumps({"code": "print(1)"}))
        answer = client.getresponse()
        assert answer.status == http.client.OK and json.loads(answer.read())["stdout"] == "1\n"
    client.close()
