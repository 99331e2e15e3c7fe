"""Contexts: interpreters that stay, as clients of Daytona's code interpreter use them."""

import base64
import contextlib
import json
import shutil
import threading
import time
from pathlib import Path

import pytest
from daemons import serving_alone
from interpreting import Context, Interpreter
from launching import until
from support import amount, given_time, is_sanitized, needs_ids
from websocket import NotUpgraded

pytestmark = needs_ids


# The cold way is the simple one, and most of what differs is Python: a sanitizer finds no more in it.
@pytest.fixture(scope="module", params=["warm"] if is_sanitized() else ["cold", "warm"])
def daemon(request):
    """One whose Python contexts begin as python3 does, and one where they are copies of a frozen interpreter."""
    warm = request.param == "warm"
    with serving_alone(env={"CAY_PYTHON_WARM": str(warm).lower()}) as d:
        assert not warm or until(lambda: d.call("POST", "/api/cay/python", {"code": "1"})["interpreter"]["warm"], 60)
        yield d


@pytest.fixture(scope="module")
def box(daemon):
    return Interpreter(daemon, "contexts", env={"FROM_SANDBOX": "yes"})


@pytest.fixture
def python(box):
    context = box.create()
    yield context
    assert context.delete().status == 200


def has(module):
    """Whether the host's Python, which is the sandbox's, has it."""
    return any(Path(p).exists() for p in (f"/usr/lib/python3/dist-packages/{module}",))


needs_matplotlib = pytest.mark.skipif(not has("matplotlib"), reason="needs python3-matplotlib")
needs_pandas = pytest.mark.skipif(not has("pandas"), reason="needs python3-pandas")
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs nodejs")


# ---- what stays ----


def test_variables_stay(python):
    assert python.out("x = 20\nimport os") == ""
    assert python.out("def twice(n):\n    return 2 * n\nprint(twice(x), os.environ['FROM_SANDBOX'])") \
        == "40 yes\n"
    assert python.out("class A: pass\nimport pickle\npickle.loads(pickle.dumps(A())).__class__ is A") \
        == "True\n"


def test_the_default_context_needs_no_making(box):
    assert box.default.out("y = 1") == ""
    assert box.default.out("print(y + 1)") == "2\n"
    assert all(c["id"] != "default" for c in box.list())
    answer = box.ask("DELETE", "/context/default")
    assert answer.status == 400 and "default" in answer.json()["message"]


def test_contexts_do_not_see_each_other(box, python):
    other = box.create()
    python.out("secret = 1")
    run = other.run("secret")
    assert run.error["name"] == "NameError" and run.error["value"] == "name 'secret' is not defined"
    assert other.delete().status == 200


def test_creating_listing_deleting(box):
    made = box.ask("POST", "/context", {"cwd": "/tmp/here", "language": "python"}).json()
    assert set(made) == {"id", "cwd", "createdAt", "active", "language", "busy"}
    assert made["cwd"] == "/tmp/here" and made["active"] and made["language"] == "python"
    assert made["createdAt"].startswith("20") and made in box.list()
    context = Context(box.daemon, box.base, made["id"])
    assert context.out("import os; os.getcwd()") == "'/tmp/here'\n"
    assert context.delete().status == 200
    assert context.delete().status == 404
    assert made["id"] not in [c["id"] for c in box.list()]
    run = context.run("1")
    assert run.closed[0] == 1008 and "no context" in run.closed[1]


@pytest.mark.parametrize("folder, said", [
    ("/tmp/closed", "is closed to the user"),
    ("/tmp/closed/below", "is closed to the user"),
    ("/proc/nowhere", "is no folder, and none can be made there"),
    ("/etc/passwd", "is no folder, and none can be made there"),
])
def test_a_work_folder_that_cannot_be(box, python, folder, said):
    python.out("import os; os.makedirs('/tmp/closed', mode=0, exist_ok=True)")
    before = [c["id"] for c in box.list()]
    answer = box.ask("POST", "/context", {"cwd": folder, "language": "python"})
    assert answer.status == 400 and f"cwd: '{folder}' {said}" in answer.json()["message"]
    assert [c["id"] for c in box.list()] == before


def test_a_session_of_the_same_name_is_another_thing(box, python):
    answer = box.daemon.ask("POST", box.base + "/process/session", {"sessionId": python.id})
    assert answer.status == 201
    python.out("z = 3")
    assert box.daemon.ask("DELETE", f"{box.base}/process/session/{python.id}").status == 204
    assert python.out("z") == "3\n"


# ---- one run ----


def test_the_last_expression_is_shown(python):
    run = python.run("1\n6 * 7")
    assert run.out == "42\n"
    assert [(r["isLast"], r["data"]) for r in run.results] == [(True, {"text/plain": "42"})]
    assert python.out("_ + 1") == "43\n"
    assert python.out("6 * 7;") == "" and python.out("None") == "" and python.out("a = 5") == ""
    run = python.run("[1, 'a']", results=True)
    assert run.out == "" and run.results[0]["data"]["text/plain"] == "[1, 'a']"


def test_display(python):
    code = """
class Page:
    def __repr__(self): return 'a page'
    def _repr_html_(self): return '<b>page</b>'
    def _repr_png_(self): return b'\\x89PNG'
    def _repr_json_(self): return {'a': [1, None]}
    def _repr_markdown_(self): raise ValueError
class Bundle:
    def _repr_mimebundle_(self, **_): return {'text/x': 'x', 'application/json': {'k': 1}}
display(Page(), 5)
Bundle()
"""
    first, second, third = python.run(code, results=True).results
    assert first == {"type": "result", "isLast": False, "data": {
        "text/plain": "a page", "text/html": "<b>page</b>",
        "image/png": base64.b64encode(b"\x89PNG").decode(), "application/json": '{"a": [1, null]}'}}
    assert second["data"] == {"text/plain": "5"}
    assert third["isLast"] and third["data"]["text/x"] == "x"
    assert json.loads(third["data"]["application/json"]) == {"k": 1}


def test_both_streams_come_while_it_runs(python):
    run = python.begin("import sys\nprint('one', end='')\nsys.stderr.write('two\\n')\n"
                       "while True: pass")
    run.until("one")
    run.until("two")
    assert python.interrupt().status == 200
    assert run.end().control == ["interrupted"] and run.error["name"] == "KeyboardInterrupt"
    assert run.error["traceback"].splitlines()[-2:] == ["    while True: pass", "KeyboardInterrupt"]


def test_characters_are_whole(python):
    run = python.run("import sys\nfor i in range(40000): sys.stdout.write('aä€😀')\n"
                     "sys.stdout.flush(); sys.stdout.buffer.write(b'\\xff')")
    assert run.out == "aä€😀" * 40000 + "�1\n"


def test_exceptions(python):
    run = python.run("print('before')\ndef f(n):\n    return 1 / n\nf(0)\nprint('never')")
    assert run.out == "before\n" and run.control == ["completed"]
    error = run.error
    assert (error["name"], error["value"]) == ("ZeroDivisionError", "division by zero")
    lines = error["traceback"].splitlines()
    assert lines[0] == "Traceback (most recent call last):" and lines[-1] == "ZeroDivisionError: division by zero"
    assert lines[1].endswith("line 4, in <module>") and lines[2] == "    f(0)"
    assert lines[3].endswith("line 3, in f") and "_cay" not in error["traceback"]
    assert python.out("print('after')") == "after\n"


@pytest.mark.parametrize("code, name, value", [
    ("def f(:\n  pass", "SyntaxError", "invalid syntax"),
    ("def f():\nreturn", "IndentationError", "expected an indented block"),
    ("raise SystemExit(3)", "SystemExit", "3"),
    ("import nothing_like_it", "ModuleNotFoundError", "No module named"),
    ("def f(): f()\nf()", "RecursionError", "maximum recursion depth"),
    ("class E(Exception):\n  def __str__(self): raise ValueError\nraise E", "E", ""),
    ("class R:\n  def __repr__(self): raise ValueError('no repr')\nR()", "ValueError", "no repr"),
    ("input()", "EOFError", "EOF when reading a line"),
    ("raise BaseException('\\0')", "BaseException", "?"),
])
def test_errors(python, code, name, value):
    run = python.run(code)
    assert run.error["name"] == name and run.error["value"].startswith(value), run.error
    assert run.control == ["completed"]
    assert python.out("1") == "1\n"


def test_an_error_of_code_that_has_no_file(python):
    run = python.run("exec('class Odd:\\n    def __repr__(self): return 1 / 0')\nOdd()")
    assert run.error["name"] == "ZeroDivisionError"
    assert [line for line in run.error["traceback"].splitlines() if "File" in line] == \
        ['  File "<string>", line 2, in __repr__']


def test_a_syntax_error_is_told_as_python_tells_it(python):
    told = python.run("x = 1\na = (").error["traceback"]
    assert told == "  File \"<code 1>\", line 2\n    a = (\n        ^\nSyntaxError: '(' was never closed\n"


def test_exit_ends_the_run_only(python):
    python.out("v = 1")
    assert python.run("exit()").error is None
    assert python.out("v") == "1\n"


def test_await(python):
    assert python.out("import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 7\nawait f()") \
        == "7\n"


def test_variables_of_one_run(python):
    code = "import os; print(os.environ.get('ONE'), os.environ.get('FROM_SANDBOX'))"
    assert python.out(code, envs={"ONE": "it's", "FROM_SANDBOX": "no"}) == "it's no\n"
    assert python.out(code) == "None yes\n"
    run = python.run(code, envs={"A-B": "1"})
    assert run.closed[0] == 1008 and "A-B" in run.closed[1]


def test_subprocesses_print_too(python):
    assert python.out("import subprocess\nsubprocess.run(['echo', 'child']).returncode") == "child\n0\n"
    assert python.out("import os\nif os.fork() == 0:\n    print('child', flush=True)\nelse:\n    os.wait()\n"
                      "    print('parent')") == "child\nparent\n"


def test_timeout_interrupts(python):
    run = given_time(lambda s: python.begin("t = 1\nprint('here')\nimport time\ntime.sleep(600)", timeout=s).end(),
                     lambda run: run.out != "", (5, 30))
    assert run.out == "here\n" and run.closed[0] == 4008
    assert python.out("t") == "1\n"  # what it had done stays


def test_code_that_does_not_stop_is_ended(python):
    deaf = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})\nwhile True: pass"
    run = given_time(lambda s: python.run(deaf, timeout=s), lambda run: "was ended" in run.closed[1], (2, 20))
    assert run.closed[0] == 4008 and "was ended" in run.closed[1]
    run = python.run("print(1)")
    assert run.out == "1\n" and "restarted" in run.control and "a new one" in run.err


def test_interrupt_by_the_same_socket(python):
    run = python.begin("import time\nprint('go')\ntime.sleep(600)")
    run.until("go")
    run.say(type="nonsense")
    run.socket.send("{")
    run.say(type="interrupt")
    assert run.end().control == ["interrupted"]
    assert python.out("print('on')") == "on\n"


def test_an_interrupt_of_what_does_not_run_changes_nothing(python):
    assert python.interrupt().status == 404  # nothing ran yet
    python.out("k = 1")
    assert python.interrupt().status == 200
    assert python.out("k") == "1\n"


# ---- what goes wrong ----


@pytest.mark.parametrize("code, value", [
    ("import os; os._exit(5)", "exit code 5"),
    ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed"),
    ("import ctypes; ctypes.string_at(0)", "signal 11"),
    ("import os; os.closerange(3, 1024)", "exit code"),
    ("import os\nfor fd in os.listdir('/proc/self/fd'):\n  try: os.write(int(fd), b'e 1 0 /\\ns 9\\n\\0\\xff')\n"
     "  except OSError: pass\nos._exit(1)", None),
    ("import os, sys\nos.closerange(0, 3)", None),
    ("import sys\nsys.stdout.close()\nsys.stderr.close()\nsys.stdout = None", None),
    ("import os\nos.chdir('/tmp'); os.mkdir('gone'); os.chdir('gone'); os.rmdir('/tmp/gone')", None),
    ("import builtins, os, sys, signal\nbuiltins.print = None\nsys.meta_path.clear()\ndel os.getcwd\n"
     "signal.signal(signal.SIGINT, signal.SIG_DFL)", None),
])
def test_an_interpreter_that_is_broken_is_replaced(python, code, value):
    run = python.run(f"print('first', flush=True)\n{code}")
    assert run.closed[0] == 1000, (run.messages, run.closed)
    if value is not None:
        assert run.out == "first\n" and value in run.error["value"]
        assert run.error["name"] == "InterpreterExit"
    run = python.run("import sys\nsys.stdout.write('second')")
    assert run.out.startswith("second"), run.messages
    assert ("restarted" in run.control) >= (value is not None) and run.control.count("restarted") <= 1


@pytest.mark.parametrize("language, remove, write, where", [
    ("python", "import os, shutil; shutil.rmtree(os.getcwd())", "open('a', 'w').close()", "print(os.getcwd(), os.listdir())"),
    pytest.param("javascript", "const fs = require('fs'); fs.rmSync(process.cwd(), {recursive: true}); 0",
                 "fs.writeFileSync('a', '')", "console.log(process.cwd(), fs.readdirSync('.'))", marks=needs_node),
])
def test_a_folder_that_was_removed_is_made_anew(box, language, remove, write, where):
    context = box.create(language=language, cwd="/tmp/mine/deep")
    context.run(remove)
    run = context.run(write, results=True)
    assert run.error is None and run.notices == "the work folder was removed; this runs in /tmp/mine/deep", run.messages
    run = context.run(where)
    assert run.notices == "" and run.out.startswith("/tmp/mine/deep ") and "'a'" in run.out, run.messages
    context.delete()


def test_a_folder_of_bash_that_was_removed_is_made_anew(box):
    bash = box.create(language="bash", cwd="/tmp/mine/bash")
    bash.out("rm -r /tmp/mine/bash")
    run = bash.run("pwd; echo > a; ls")
    assert (run.out, run.err) == ("/tmp/mine/bash\na\n", "[cay: the work folder was removed; this runs in /tmp/mine/bash]\n")
    bash.delete()


def test_an_interpreter_that_the_memory_ran_out_for(daemon):
    small = Interpreter(daemon, "hog", memory="64m")
    run = small.default.run("print('first', flush=True)\na = [bytearray(b'x') * (1 << 20) for _ in range(1 << 10)]")
    assert run.error["value"] == "the interpreter was killed: the sandbox is out of memory" and run.out == "first\n"
    how = "warm" if daemon.env["CAY_PYTHON_WARM"] == "true" else "cold; python.warm is false"
    assert run.all("control")[-1] == {"type": "control", "text": "completed", "exitCode": 137, "oomKilled": True, "python": how}
    run = small.default.run("print(2)")
    assert run.out == "2\n" and run.control == ["restarted", "completed"] and run.error is None
    assert "oomKilled" not in run.all("control")[-1]


def test_records_that_make_no_sense_are_the_end_of_results_only(python):
    code = """
import os, struct
def forge(data):
    for fd in map(int, os.listdir('/proc/self/fd')):
        try:
            if os.readlink(f'/proc/self/fd/{fd}').endswith('.rep'): os.write(fd, data)
        except OSError: pass
"""
    python.out(code)
    for data in (b"\xff" * 5, b"\x02\xff\xff\xff\xff", b"\x01\x03\0\0\0abc", b"\x02\x05\0\0\0\x01\xff\xff\xff\x7f",
                 b"\x09\0\0\0\0", b"\x02\0\0\0\0"):
        run = python.run(f"forge({data!r})\ndisplay(1)\nprint('on')", results=True)
        assert run.out == "on\n" and run.results == [] and run.control == ["completed"], (data, run.messages)
    forged = python.run("forge(b'\\x01\\x05\\0\\0\\0N\\0V\\0T')", results=True)
    assert forged.error == {"type": "error", "name": "N", "value": "V", "traceback": "T"}
    assert python.out("print(1)") == "1\n"


def test_much_output(python):
    run = python.run(f"import os\nfor _ in range({amount(100, 1 << 10)}): os.write(1, b'x' * (1 << 20))\nprint('end')", timeout=100)
    assert run.control == ["completed"] and run.out.startswith("x" * 1000)
    assert 8 << 20 <= len(run.out) < 9 << 20 and "[cay: output beyond 8 MiB is not told" in run.out[-200:]
    assert python.out("1") == "1\n"


def test_large_results_are_left_out_with_a_notice(python):
    run = python.run("'x' * (3 << 20)", results=True)
    assert run.results == [] and "is left out" in run.notices
    run = python.run("for i in range(150): display(i)", results=True)
    assert len(run.results) == 100 and "further results" in run.notices


@pytest.mark.parametrize("request_, reason", [
    ({"code": " \n"}, "empty"), ({}, "code"), ({"code": 5}, "code"), ({"code": "1", "timeout": -1}, "timeout"),
    ({"code": "1", "contextId": "no-such"}, "no context"), ({"code": "1", "envs": []}, "envs"),
])
def test_bad_requests(box, request_, reason):
    run = box.default.begin(**request_).end()
    assert run.closed[0] == 1008 and reason in run.closed[1]


def test_other_bad_requests(box):
    with contextlib.suppress(OSError):  # it may close before it has heard all of it
        assert box.default.begin("1 # " + "x" * (16 << 20)).end().closed[0] == 1009
    assert box.ask("POST", "/context", {"language": "cobol"}).status == 400
    assert box.ask("POST", "/context", {"cwd": 5}).status == 400
    before = len(box.list())
    for bad in "/proc/none", "/etc/passwd", "/etc/passwd/below":
        answer = box.ask("POST", "/context", {"cwd": bad})
        assert answer.status == 400 and bad in answer.json()["message"], answer.text
    assert len(box.list()) == before
    assert box.ask("POST", "/context/none/interrupt").status == 404
    assert box.ask("GET", "/execute").status == 426
    with pytest.raises(NotUpgraded) as refused:
        Context(box.daemon, "/toolbox/nobody").begin("1")
    assert refused.value.status == 404


# ---- connections and daemons that go ----

RESTART = 1012  # WebSocket's code for a service that restarts


def test_a_run_outlives_its_client(python):
    run = python.begin("import time, os\nprint('begun')\nwhile not os.path.exists('/tmp/go'): time.sleep(0.01)\n"
                       "os.unlink('/tmp/go')\nprint('done')\nw = 5\nw")
    run.until("begun")
    run.drop()
    again = python.begin(attach=True)
    again.until("begun")
    Context(python.daemon, python.base).out("open('/tmp/go', 'w').close()")
    assert again.end().out == "begun\ndone\n5\n" and again.results[0]["data"] == {"text/plain": "5"}
    assert python.out("w") == "5\n"
    assert python.begin(attach=True).end().out == "5\n"  # the last one, after its end


def test_a_daemon_is_killed_while_a_run_streams():
    with serving_alone() as daemon:
        box = Interpreter(daemon, "killed")
        context = box.create()
        context.out("q = 7")
        run = context.begin("import time, os\nprint('begun')\nwhile not os.path.exists('/tmp/go'): time.sleep(0.01)\n"
                            "print('done')")
        run.until("begun")
        daemon.kill()
        with contextlib.suppress(EOFError, OSError):  # its front may be ended before it can say so
            run.end()
            assert run.socket.closed[0] == RESTART and run.out == "begun\n"
        daemon.start()
        assert [c["busy"] for c in box.list()] == [True]
        again = context.begin(attach=True)
        again.until("begun")
        box.default.out("open('/tmp/go', 'w').close()")
        assert again.end().out == "begun\ndone\n"
        assert context.out("q") == "7\n"


def test_who_comes_while_it_is_busy_waits(python):
    first = python.begin("import time, os\nprint('begun')\nn = 0\nwhile not os.path.exists('/tmp/on'): time.sleep(0.01)")
    first.until("begun")
    second = python.begin("print('second', n)")
    Context(python.daemon, python.base).out("open('/tmp/on', 'w').close()")
    assert first.end().control == ["completed"]
    assert second.end().out == "second 0\n"


def test_fifty_clients(daemon):
    box = Interpreter(daemon, "many", memory="1g")
    contexts = [box.create() for _ in range(5)]
    for context in contexts:
        context.out("count = 0")
    failed = []

    def work(number):
        try:
            context = contexts[number % 5]
            for turn in range(3):
                out = context.out(f"count += 1\nprint('client {number} turn {turn}')")
                assert out == f"client {number} turn {turn}\n", out
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failed == [] and not any(t.is_alive() for t in threads)
    assert [c.out("count") for c in contexts] == ["30\n"] * 5


def test_at_most_so_many_contexts(daemon):
    box = Interpreter(daemon, "limit")
    for _ in range(64):
        box.create(language="bash")
    answer = box.ask("POST", "/context", {"language": "bash"})
    assert answer.status == 429 and "64" in answer.json()["message"]
    assert len(box.list()) == 64


def test_nothing_is_left_of_a_context(box):
    context = box.create()
    context.run("import subprocess\nsubprocess.Popen(['sleep', '98765'], start_new_session=True)")
    assert context.delete().status == 200
    out = box.default.out("import glob\nfor p in glob.glob('/proc/[0-9]*/cmdline'):\n"
                          "    try: print(open(p).read().replace('\\0', ' '))\n    except OSError: pass\n"
                          f"print(glob.glob('/dev/shm/*{context.id}*'), glob.glob('/run/cay-session/*{context.id}*'))")
    assert "98765" not in out and out.endswith("[] []\n")


# ---- other languages ----


def test_bash(box):
    bash = box.create(language="bash")
    assert bash.out("cd /tmp; x=5; f() { echo f$1; }") == ""
    assert bash.out("f $x; pwd; echo $HERE", envs={"HERE": "it's $x"}) == "f5\n/tmp\nit's $x\n"
    assert bash.out("echo \"[$HERE]\"") == "[]\n"
    run = bash.run("echo out; echo err >&2; false")
    assert (run.out, run.err, run.error) == ("out\n", "err\n", None)
    assert run.all("control") == [{"type": "control", "text": "completed", "exitCode": 1}]
    run = bash.run("exit 3")
    assert run.error["value"].endswith("exit code 3")
    assert "restarted" in bash.run("true").control
    assert bash.delete().status == 200


@needs_node
def test_javascript(box):
    node = box.create(language="javascript")
    assert node.out("let x = 5; const f = (n) => n * 2; var y = 1") == ""
    run = node.run("console.log('hi'); console.error('err'); ({a: f(x)})")
    assert (run.out, run.err) == ("hi\n{ a: 10 }\n", "err\n")
    assert run.results[0]["data"] == {"text/plain": "{ a: 10 }", "application/json": '{"a":10}'}
    error = node.run("null.x").error
    assert error["name"] == "TypeError" and "Cannot read properties of null" in error["value"]
    assert node.out("new Promise((done) => setTimeout(() => done(process.env.ONE), 5))", envs={"ONE": "1"}) == "'1'\n"
    run = node.run("import('fs').then((fs) => typeof fs.readFileSync)")
    assert (run.out, run.err) == ("'function'\n", "")
    for code in ("console.log('go'); for (;;);", "new Promise(() => setTimeout(() => console.log('go'), 1))"):
        run = node.begin(code)
        run.until("go")
        assert node.interrupt().status == 200
        assert run.end().control == ["interrupted"]
    assert node.out("x") == "5\n"
    error = node.run("throw new RangeError('a\\0b')").error
    assert (error["name"], error["value"]) == ("RangeError", "a?b") and "RangeError: a?b" in error["traceback"]
    assert "exit code 4" in node.run("process.exit(4)").error["value"]
    assert "restarted" in node.run("1").control
    assert node.delete().status == 200


@pytest.mark.parametrize("language, keep, code, see", [
    ("python", "k = 1", "while True: pass", "print(k)"),
    ("bash", "k=1", "while :; do :; done", "echo $k"),
    pytest.param("javascript", "let k = 1", "for (;;);", "console.log(k)", marks=needs_node),
    pytest.param("javascript", "let k = 1", "new Promise(() => {})", "console.log(k)", marks=needs_node),
    pytest.param("javascript", "let k = 1", "await new Promise(() => {})", "console.log(k)", marks=needs_node),
])
def test_an_interrupt_of_code_that_just_begins(box, language, keep, code, see):
    context = box.create(language=language)
    context.run(keep)
    turns = amount(7, 60)
    for i in range(turns):
        run = context.begin(code)
        time.sleep(i / turns * .006)
        run.say(type="interrupt")
        assert run.end().control == ["interrupted"], (i, run.messages)
        assert context.out(see) == "1\n"
    assert context.delete().status == 200


@needs_node
@pytest.mark.parametrize("before", [
    "process.on('SIGINT', () => {})", "process.once('SIGINT', () => {})", "process.removeAllListeners('SIGINT')",
    "const f = () => {}; process.on('SIGINT', f); process.off('SIGINT', f)", "Object.preventExtensions(globalThis)",
])
def test_javascript_that_changes_who_hears_interrupts(box, before):
    node = box.create(language="javascript")
    node.out("let k = 1; globalThis._ = 0")
    node.out(before + "; undefined")
    for code in ("console.log('go'); for (;;);", "setTimeout(() => console.log('go'), 1); new Promise(() => {})"):
        run = node.begin(code)
        run.until("go")
        run.say(type="interrupt")
        assert run.end().control == ["interrupted"], run.messages
    assert node.out("k") == "1\n"
    assert node.delete().status == 200


# ---- tables and figures ----


@needs_pandas
def test_tables(python):
    run = python.run("import pandas as pd\ndf = pd.DataFrame({'a': [1, 2], 'b': ['x', None]})\ndf", results=True)
    data = run.results[0]["data"]
    assert data["text/plain"].splitlines()[1].split() == ["0", "1", "x"]
    assert "<table" in data["text/html"]
    assert json.loads(data["application/json"]) == {"columns": ["a", "b"], "index": [0, 1],
                                                    "data": [[1, "x"], [2, None]]}
    run = python.run("pd.DataFrame({'a': range(2000)})", results=True)
    assert len(json.loads(run.results[0]["data"]["application/json"])["data"]) == 1000
    assert "first 1000 rows of 2000" in run.notices
    assert json.loads(python.run("df['a']", results=True).results[0]["data"]["application/json"])["data"] == [1, 2]


@needs_matplotlib
def test_figures(python):
    run = python.run("""
import matplotlib.pyplot as plt
plt.plot([1, 2, 3], [1, 4, 9], label='squares')
plt.title('T'); plt.xlabel('X'); plt.ylabel('Y')
plt.show()
print('shown')
fig, (a, b) = plt.subplots(1, 2)
a.bar(['p', 'q'], [3, 4], label='g')
b.pie([1, 3], labels=['u', 'v'])
fig.suptitle('both');
""", timeout=100)
    assert run.error is None and run.err == "", run.messages
    line, both = run.results
    assert base64.b64decode(line["data"]["image/png"]).startswith(b"\x89PNG\r\n")
    assert "<svg" in line["data"]["image/svg+xml"]
    chart = line["chart"]
    assert (chart["type"], chart["title"], chart["x_label"], chart["y_label"]) == ("line", "T", "X", "Y")
    assert chart["elements"] == [{"label": "squares", "points": [[1, 1], [2, 4], [3, 9]]}]
    assert len(chart["x_ticks"]) == len(chart["x_tick_labels"]) > 2 and chart["x_scale"] == "linear"
    assert both["chart"]["type"] == "composite_chart" and both["chart"]["title"] == "both"
    bar, pie = both["chart"]["elements"]
    assert bar["type"] == "bar" and bar["elements"] == [{"label": "p", "group": "g", "value": "3"},
                                                        {"label": "q", "group": "g", "value": "4"}]
    assert pie["type"] == "pie" and [e["label"] for e in pie["elements"]] == ["u", "v"]
    assert [round(e["angle"]) for e in pie["elements"]] == [90, 270]
    run = python.run("print(plt.get_fignums())\nfig, ax = plt.subplots()\nax.boxplot([[1, 2, 3, 4, 100]])\nfig")
    assert run.out == "[]\n" and len(run.results) == 1 and run.results[0]["isLast"]
    box, = run.results[0]["chart"]["elements"]
    assert run.results[0]["chart"]["type"] == "box_and_whisker"
    assert (box["min"], box["median"], box["max"], box["outliers"]) == (1, 3, 4, [100])
    run = python.run("plt.scatter([1, float('nan')], [2, 3]); plt.scatter(range(9000), range(9000));")
    first, second = run.results[0]["chart"]["elements"]
    assert first["points"] == [[1, 2]] and len(second["points"]) == 5000 and "is cut" in run.notices
    run = python.run("plt.plot([1])\n1 / 0")
    assert run.error["name"] == "ZeroDivisionError" and len(run.results) == 1
