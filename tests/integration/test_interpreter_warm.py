"""Python contexts that begin as copies of a frozen interpreter: that they do, and that nobody notices. What
all contexts do is in test_interpreter.py, for both ways."""

import contextlib

import pytest
from daemons import serving_alone
from interpreting import Context, Interpreter
from launching import DONE, ERROR, SESSION_CREATE, SESSION_DELETE, fields_of, until
from support import needs_ids

pytestmark = needs_ids


@contextlib.contextmanager
def warm_daemon(*preload):
    with serving_alone(env={"CAY_PYTHON_PRELOAD": ",".join(preload)}) as d:
        assert until(lambda: d.call("POST", "/api/cay/python", {"code": "1"})["interpreter"]["warm"], 60)
        yield d


@pytest.fixture(scope="module")
def daemon():
    with warm_daemon("random", "uuid", "tempfile", "decimal") as d:
        yield d


@pytest.fixture(scope="module")
def box(daemon):
    return Interpreter(daemon, "warm", env={"FROM_SANDBOX": "yes"})


def begin(box, **wishes):
    """A context, and what is said of it."""
    answer = box.ask("POST", "/context", wishes)
    assert answer.status == 200, answer.text
    return Context(box.daemon, box.base, answer.json()["id"]), answer.headers["X-Cay-Python"]


def warm(box, **wishes):
    context, how = begin(box, **wishes)
    assert how == "warm"
    return context


@pytest.fixture(scope="module")
def pair(box):
    """A cold one and a warm one, in sandboxes that are alike but for what the cold one has more."""
    other = Interpreter(box.daemon, "cold", env={"FROM_SANDBOX": "yes", "PYTHONHASHSEED": "0"})
    cold, how = begin(other)
    assert how == "cold; the sandbox's environment changes how the interpreter starts"
    return cold, warm(box)


@pytest.mark.parametrize("code", [
    "sorted(set(globals()) - {'_'}), __name__, __spec__, __doc__, __annotations__",
    "import sys; sorted(set(sys.modules) & {'ast', 'collections.abc', 'enum', 're', 'signal', 'threading', 'traceback'})",
    "import collections.abc, traceback; collections.abc is traceback.collections.abc, issubclass(list, collections.abc.Sequence)",
    "import re, enum, tokenize, pickle; re.enum is enum, re.RegexFlag.I, pickle.loads(pickle.dumps(re.compile('a')))",
    "import sys; sys.argv, sys.orig_argv, sys.path, sys.executable, sys.prefix, sys.version",
    "import sys; sys.stdin.isatty(), sys.stdin.encoding, sys.stdout.encoding, sys.stderr.errors, sys.getrecursionlimit()",
    "import os; sorted(n for n in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + n))",
    "[line for line in open('/proc/self/status') if line.startswith(('SigBlk', 'SigIgn', 'SigCgt', 'Threads', 'Cap', 'Uid', 'Gid', 'Seccomp', 'NoNewPrivs'))]",
    "import os; os.getcwd(), os.getpgid(0) == os.getpid() == os.getsid(0), os.umask(0o22)",
    "import os; sorted(set(os.environ) - {'PYTHONHASHSEED'}), os.environ['FROM_SANDBOX'], os.environ['HOME']",
    "import os, time; time.tzname, time.localtime(0).tm_hour",
    "import signal; [signal.getsignal(n).__class__.__name__ for n in (signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD)]",
    "import threading; threading.main_thread() is threading.current_thread(), threading.active_count()",
    "import gc, atexit; gc.isenabled(), gc.get_threshold(), atexit._ncallbacks()",
    "import random, decimal; decimal.getcontext().prec, decimal.Decimal(1) / 7",
    "def f(): return g()\ndef g(): raise KeyError('x')\nf()",
    "exec('class Odd:\\n    def __repr__(self): return 1 / 0')\nOdd()",
    "def deep(n): return deep(n + 1)\ndeep(0)",
    "import asyncio\nasync def late(): return 5\nawait late()",
    "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as pool: made = list(pool.map(abs, range(99)))\nsum(made)",
    "import multiprocessing\nwith multiprocessing.get_context('fork').Pool(2) as pool: made = pool.map(len, ['a', 'bb'])\nmade",
    "import multiprocessing\nwith multiprocessing.get_context('spawn').Pool(1) as pool: made = pool.map(len, ['a', 'bb'])\nmade",
    "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(5)'], capture_output=True, close_fds=False)",
    "import os\nchild = os.fork()\nif child == 0: os._exit(7)\nos.waitstatus_to_exitcode(os.waitpid(child, 0)[1])",
    "import ctypes; ctypes.CDLL(None).getpid() == __import__('os').getpid()",
    "import sqlite3, json; json.dumps(sqlite3.connect(':memory:').execute('select 1').fetchall())",
    "import resource; resource.getrlimit(resource.RLIMIT_STACK), resource.getrlimit(resource.RLIMIT_NOFILE)",
    "input()",
])
def test_code_notices_nothing(pair, code):
    def told(run):
        kinds = [{k: v for k, v in m.items() if k != "text" or m["type"] != "control"} for m in run.messages]
        return run.out, run.err, [m for m in kinds if m["type"] in ("error", "result")], run.control
    numbers = [context.out("int(__import__('inspect').currentframe().f_code.co_filename[6:-1])", results=False)
               for context in pair]
    assert numbers[0] == numbers[1]  # of the code, which tracebacks tell
    cold, warm_ = [told(context.run(code)) for context in pair]
    assert warm_ == cold


def test_who_is_told(box):
    assert begin(box, language="python")[1] == "warm"
    assert begin(box, language="bash")[1] is None
    assert begin(box, cwd="/tmp/there")[0].out("import os; print(os.getcwd())") == "/tmp/there\n"
    with serving_alone(env={"CAY_PYTHON_WARM": "false"}) as other:
        context, how = begin(Interpreter(other, "never"))
        assert how == "cold; python.warm is false"
        assert context.out("6*7") == "42\n"


def test_the_default_context_too(box):
    assert "cay-a" not in box.default.out("1")
    assert box.default.out("open('/proc/self/cmdline').read().split(chr(0))[2:4]") == "['kept', 'context']\n"


def test_each_has_its_own_chance(box):
    code = "import random, uuid, os; random.random(), uuid.uuid4(), os.urandom(8)"
    assert len({warm(box).out(code) for _ in range(4)}) == 4
    one = warm(box)
    assert one.out(code) != one.out(code)


def test_modules_that_are_preloaded_and_changed_are_the_contexts_own(box):
    one, other = warm(box), warm(box)
    one.out("import decimal; decimal.getcontext().prec = 3; decimal.mine = 1")
    assert one.out("decimal.Decimal(1) / 7") == "Decimal('0.143')\n"
    assert other.out("import decimal; decimal.Decimal(1) / 7, hasattr(decimal, 'mine')") == \
        "(Decimal('0.1428571428571428571428571429'), False)\n"


def test_one_that_ended_is_started_anew_and_cold(box):
    context = warm(box)
    context.out("x = 1")
    assert context.run("import os; os._exit(3)").error["name"] == "InterpreterExit"
    run = context.run("'x' in globals()")
    assert "restarted" in run.control and run.out == "False\n" and "a new one" in run.err
    assert context.out("open('/proc/self/cmdline').read().split(chr(0))[1]") == "'-c'\n"


def test_a_sandbox_whose_python_has_changed_starts_its_own(daemon):
    box = Interpreter(daemon, "changed")
    warm(box).out("import os, site\nfolder = site.getsitepackages()[0]\nos.makedirs(folder, exist_ok=True)\n"
                  "open(folder + '/sitecustomize.py', 'w').write('import builtins; builtins.x = 5')")
    for _ in range(2):  # found out inside; then it is known
        context, how = begin(box)
        assert how == "cold; the sandbox's Python is another by now"
        run = context.run("x")
        assert run.out == "5\n" and run.control == ["completed"], run.messages


def test_one_that_is_killed_while_it_wakes_is_replaced(daemon):
    """By whoever watches for it inside: then there is a cold one, or it was too late."""
    box = Interpreter(daemon, "hostile")
    watch = ("import os, signal, threading\n"
             "def watch():\n"
             "    while True:\n"
             "        for n in os.listdir('/proc'):\n"
             "            try:\n"
             "                if n.isdigit() and n != mine and b'kept\\0context' in open(f'/proc/{n}/cmdline', 'rb').read():\n"
             "                    os.kill(int(n), signal.SIGKILL)\n"
             "            except OSError: pass\n"
             "mine = str(os.getpid())\n"
             "threading.Thread(target=watch, daemon=True).start()\n")
    watcher = warm(box)
    watcher.out(watch)
    for _ in range(5):
        context, how = begin(box)
        assert how in ("warm", "cold; the warm interpreter could not be woken")
        if how != "warm":
            assert context.run("1+1").control == ["completed"]
    watcher.delete()


@pytest.mark.parametrize("words, count", [(0, 1), (1, 1), (3, 3), (3, 4), (20, 8), (3, 2 ** 63)])
def test_a_program_needs_a_driver_that_can_take_its_place(box, words, count):
    with box.daemon.connect(box.id) as c:
        c.request(SESSION_CREATE, ("NAME", "bad"), ("KIND", 1), ("TEXT", "python"), *[("ARG", "cat")] * words, ("PROGRAM", count))
        assert "without a driver" in fields_of(c.expect(ERROR))["MESSAGE"]


def test_a_program_that_did_not_come_along_is_replaced(box):
    """As where a connection takes no descriptors."""
    args = [("ARG", word) for word in ("sh", "-c", "cat", "python3", "cay-a")]
    with box.daemon.connect(box.id) as c:
        c.request(SESSION_CREATE, ("NAME", "alone"), ("KIND", 1), ("TEXT", "python"), *args, ("PROGRAM", 2))
        assert fields_of(c.expect(DONE)) == {}
    assert [found["active"] for found in box.list() if found["id"] == "alone"] == [True]
    with box.daemon.connect(box.id) as c:
        c.request(SESSION_DELETE, ("NAME", "alone"), ("KIND", 1))
        c.expect(DONE)


def test_figures_of_a_pyplot_that_is_there_from_the_start(daemon):
    """As one that is preloaded; here by a customization, and one that is quickly loaded."""
    box = Interpreter(daemon, "figures")
    warm(box).out("import os, site\nfolder = site.getsitepackages()[0]\nos.makedirs(folder, exist_ok=True)\n"
                  "text = '''import sys, types\n"
                  "pyplot = types.SimpleNamespace(Axes=type('Axes', (), {'bxp': None}), get_fignums=list,\n"
                  "                               show=lambda: print('on a display'))\n"
                  "sys.modules['matplotlib.pyplot'] = pyplot\n'''\n"
                  "open(folder + '/sitecustomize.py', 'w').write(text)")
    context, how = begin(box)
    assert how.startswith("cold; ")
    assert context.out("import sys; sys.modules['matplotlib.pyplot'].show(); print('shown')") == "shown\n"
