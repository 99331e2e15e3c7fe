"""`cay python`: programs as python3 would run them, and what is told about them afterwards."""

import base64
import json
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from daemons import serving
from launching import until
from support import TIER, as_root_only, cay, folder, given_time, needs_ids, own, refused, start, told_by  # noqa: F401

MB = 1 << 20


def execute(*args, **more):
    return cay("python", *TIER, *args, **more)


def result(*args, **more):
    """The JSON of a run."""
    return told_by(execute("-o", "json", *args, **more))


def code(text, *options, **more):
    return result(*options, "-c", text, **more)


# ---- where the program comes from ----

def test_code_on_the_command_line():
    done = execute("-c", "import sys; print(sys.argv, __name__, sys.path[0] == '')", "a", "-b")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"['-c', 'a', '-b'] __main__ True\n"


def test_a_file_with_arguments_and_input(folder):
    (folder / "prog.py").write_text("import sys, os\nprint(os.path.basename(__file__), sys.argv[1:])"
                                    "\nprint(input(), sys.stdin.read())\n")
    done = execute(folder / "prog.py", "x", "--y", input=b"first\nrest")
    assert done.stdout == b"prog.py ['x', '--y']\nfirst rest\n", done.stderr


@pytest.mark.parametrize("name", ["<hot>", "<string>", "a b'\n.py"])
def test_a_file_with_an_odd_name_is_a_program_too(folder, name):
    (folder / name).write_text("print(1)")
    assert execute(name, cwd=folder).stdout == b"1\n"


def test_standard_input_as_the_program():
    done = execute("-", "a", input=b"import sys\nprint(sys.argv, sys.stdin.read() == '')")
    assert done.stdout == b"['-', 'a'] True\n", done.stderr


def test_main_runs_and_holds_nothing_of_ours():
    told = code("if __name__ == '__main__': print(sorted(globals()))")
    assert told["stdout"] == ("['__annotations__', '__builtins__', '__doc__', '__loader__', "
                              "'__name__', '__package__', '__spec__']\n")


def test_no_descriptor_is_in_the_way():
    assert code("print(open('/dev/null').fileno())")["stdout"] == "3\n"


def test_a_file_that_is_missing_and_no_program_at_all():
    refused(execute("/nonexistent.py"), "/nonexistent.py", "No such file")
    refused(execute(), "no program given", "-c CODE")


def test_an_image_option_with_a_sandbox_that_stays_is_refused():
    refused(execute("--in", "x", "--memory", "1g", "-c", "1"), "--memory", "--in")


# ---- how it ended ----

@pytest.mark.parametrize("text, exit_code", [
    ("", 0), ("import sys; sys.exit(3)", 3), ("import sys; sys.exit('why')", 1),
    ("import os; os._exit(4)", 4), ("raise ValueError", 1), ("raise SystemExit", 0),
    ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 143),
    ("import ctypes; ctypes.string_at(0)", 139), ("raise KeyboardInterrupt", 130), ("(", 1)])
def test_exit_codes(text, exit_code):
    assert code(text)["exit_code"] == exit_code


def test_an_exception_has_type_message_and_lines():
    told = code("print('before')\ndef f(x):\n    return 1 / x\nf(0)")
    assert told["stdout"] == "before\n"
    error = told["exception"]
    assert (error["type"], error["message"]) == ("ZeroDivisionError", "division by zero")
    assert [(f["line"], f["function"], f["source"]) for f in error["frames"]] == [
        (4, "<module>", "f(0)"), (3, "f", "return 1 / x")]
    assert error["traceback"].startswith("Traceback") and "return 1 / x" in error["traceback"]
    assert "_cay" not in told["stderr"] and told["stderr"].endswith("division by zero\n")


def test_an_exception_with_a_nul_is_told_to_its_end():
    error = code("raise type('A', (Exception,), {'__qualname__': 'A\\0B'})('a\\0b')")["exception"]
    assert (error["type"], error["message"]) == ("A?B", "a?b")
    assert error["traceback"].endswith("A?B: a?b\n"), error


def test_an_exception_of_a_module_has_its_name():
    assert code("import json; json.loads('{')")["exception"]["type"] == \
        "json.decoder.JSONDecodeError"


def test_a_syntax_error_says_where():
    told = code("x = 1\ny = (")
    assert told["exception"]["type"] == "SyntaxError"
    assert told["exception"]["frames"][-1]["line"] == 2
    assert told["exception"]["frames"][-1]["source"] == "y = ("
    assert told["stderr"].startswith('  File "<string>", line 2\n')


def test_deep_recursion_tells_its_beginning_and_its_end():
    told = code("def f(): f()\nf()")
    assert told["exception"]["type"] == "RecursionError"
    assert told["exception"]["frames"][0]["source"] == "f()"
    assert 10 < len(told["exception"]["frames"]) <= 64


def test_an_exception_that_cannot_be_shown_still_ends_the_program():
    told = code("class E(Exception):\n    def __str__(self): raise RuntimeError\nraise E")
    assert told["exit_code"] == 1 and "E" in told["stderr"]


def began(told):
    return told["stdout"] != ""


def test_a_limit_of_time_keeps_what_was_printed():
    told = given_time(lambda s: code("print('half', end='')\nwhile True: pass", "--timeout", str(s)), began)
    assert (told["exit_code"], told["timed_out"], told["stdout"]) == (124, True, "half")


def test_silence_ends_it():
    told = given_time(lambda s: code("import time\nprint('x')\ntime.sleep(600)", "--idle-output-timeout", str(s)), began)
    assert told["exit_code"] == 124 and told["timed_out"] and told["idle_output"]
    assert told["stdout"] == "x\n"


@as_root_only
def test_out_of_memory_is_told():
    told = code("print('x')\nx = b'x' * (1 << 30)", "--memory", "64m")
    assert told["oom_killed"] and told["exit_code"] == 137 and told["stdout"] == "x\n"


def test_an_interrupt_reaches_the_program():
    box = start("python", *TIER, "-c", "import time\ntry:\n    print('up')\n"
                "    time.sleep(1000)\nexcept KeyboardInterrupt: print('caught')")
    assert box.stdout.readline() == b"up\n"
    box.send_signal(signal.SIGINT)
    out, err = box.communicate(timeout=60)
    assert (out, err, box.returncode) == (b"caught\n", b"", 0)


# ---- output ----

def test_long_output_is_in_a_file(folder):
    told = code("print('a' * 1000 + 'z')", "--capture", "100", env={"TMPDIR": str(folder)})
    assert told["stdout"].startswith("a" * 50 + "\n[cay: 902 bytes left out here")
    assert told["stdout"].endswith("az\n")
    file = Path(told["stdout_file"])
    assert file.read_text() == "a" * 1000 + "z\n" and file.stat().st_mode & 0o077 == 0
    assert told["stderr_file"] is None and os.listdir(folder) == [file.name]


def test_short_output_leaves_no_file(folder):
    assert code("print(1)", env={"TMPDIR": str(folder)})["stdout_file"] is None
    assert os.listdir(folder) == []


def test_too_much_output_ends_it():
    told = code("while True: print('x' * 10000)", "--output-max", "1m")
    assert told["exit_code"] == 124 and told["output_truncated"] and len(told["stdout"]) <= MB


def test_output_that_is_no_text():
    assert code("import sys; sys.stdout.buffer.write(b'a\\xffb')")["stdout"] == "a�b"


# ---- files and figures ----

def test_files_made_and_changed(folder):
    (folder / "old").write_text("1")
    (folder / "same").write_text("1")
    folder.chmod(0o777)
    (folder / "old").chmod(0o666)
    told = code("open('old', 'a').write('2')\nimport os\nos.mkdir('d')\n"
                "open('d/new', 'w').write('123')\nopen('/tmp/elsewhere', 'w').write('x')",
                "-v", f"{folder}:/workspace")
    assert sorted((f["path"], f["size"], f["created"]) for f in told["files"]) == [
        ("d/new", 3, True), ("old", 2, False)]
    assert told["files_truncated"] is False


def test_files_are_told_after_a_crash_too():
    told = code("open('x', 'w').write('1')\nimport os; os._exit(9)")
    assert [f["path"] for f in told["files"]] == ["x"]


def test_more_files_than_are_told():
    told = code("for i in range(1500): open(str(i), 'w')")
    assert told["files_truncated"] and len(told["files"]) == 1000


FAKE_PYPLOT = """
import sys, types
plt = types.ModuleType("matplotlib.pyplot")
class Figure:
    def savefig(self, out, format): out.write(b"\\x89PNG" + bytes(range(256)))
plt.get_fignums = lambda: [1, 2]
plt.figure = lambda n: Figure()
sys.modules["matplotlib.pyplot"] = plt
"""


def test_figures_are_captured(folder):
    """What a program leaves open; the module is played by one with the two functions used."""
    told = code(FAKE_PYPLOT + "raise ValueError")
    assert [f["format"] for f in told["figures"]] == ["png", "png"]
    assert base64.b64decode(told["figures"][0]["data"]) == b"\x89PNG" + bytes(range(256))
    folder.chmod(0o777)
    done = execute("--figures", folder / "out", "-c", FAKE_PYPLOT)
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(folder / "out")) == ["figure-1.png", "figure-2.png"]


needs_matplotlib = pytest.mark.skipif(not Path("/usr/lib/python3/dist-packages/matplotlib").exists(),
                                      reason="needs python3-matplotlib")
PLOTS = """
import matplotlib.pyplot as plt
plt.plot([1, 2, 3], [1, 4, 9], label="squares")
plt.title("T")
plt.show()
plt.show()  # nothing has changed
plt.close()
fig, ax = plt.subplots()
ax.boxplot([[1, 2, 3, 4, 100]])
other, axes = plt.subplots(1, 2)
axes[0].bar(["p", "q"], [3, 4])
axes[1].pie([1, 3], labels=["u", "v"])
assert plt.gcf() is other
plt.figure(fig.number)
plt.show()
assert plt.gcf() is fig
ax.set_title("\u00e9")
class Last:
    def __del__(self): print("end")
last = Last()
"""


@needs_matplotlib
@pytest.mark.parametrize("options", [[], ["--cold"]], ids=["warm", "cold"])
def test_what_figures_show(options):
    told = code(PLOTS, *options)
    assert (told["exit_code"], told["stdout"], told["stderr"]) == (0, "end\n", ""), told
    line, box, both, changed = [f["chart"] for f in told["figures"]]
    assert all(base64.b64decode(f["data"]).startswith(b"\x89PNG") for f in told["figures"])
    assert (line["type"], line["title"]) == ("line", "T")
    assert line["elements"] == [{"label": "squares", "points": [[1, 1], [2, 4], [3, 9]]}]
    assert box["type"] == "box_and_whisker" and box["elements"][0]["outliers"] == [100]
    assert [c["type"] for c in both["elements"]] == ["bar", "pie"]
    assert changed == {**box, "title": "\u00e9"}
    assert all("svg" not in f for f in told["figures"])


@needs_matplotlib
@pytest.mark.parametrize("options", [[], ["--cold"]], ids=["warm", "cold"])
def test_figures_as_svg_on_request(options, folder):
    told = code(PLOTS, "--svg", "--figures", folder / "out", *options)
    assert told["exit_code"] == 0 and len(told["figures"]) == 4, told
    for figure in told["figures"]:
        assert figure["format"] == "png" and base64.b64decode(figure["data"]).startswith(b"\x89PNG")
        assert "<svg" in figure["svg"] and figure["svg"].rstrip().endswith("</svg>") and figure["chart"]
    assert sorted(os.listdir(folder / "out")) == [f"figure-{n}.{form}" for n in range(1, 5) for form in ("png", "svg")]
    assert (folder / "out" / "figure-1.svg").read_text() == told["figures"][0]["svg"]


# ---- bad programs ----

def test_nul_bytes_and_bad_encoding(folder):
    for number, data in enumerate([b"print(1)\0", b"x = '\xff'\n"]):
        (folder / f"{number}.py").write_bytes(data)
        told = result(folder / f"{number}.py")
        assert told["exit_code"] == 1 and told["exception"]["type"] == "SyntaxError"


def test_ten_megabytes_of_program(folder):
    (folder / "big.py").write_text(("#" * 79 + "\n") * 131072 + "print(7)\n")
    told = result(folder / "big.py")
    assert told["stdout"] == "7\n", told


@pytest.mark.parametrize("attack", [
    "import os; os.closerange(0, 1024)",
    "import os\nfor fd in range(3, 256):\n    try: os.write(fd, b'\\x02\\xff\\xff\\xff\\xffjunk' * 9)"
    "\n    except OSError: pass",
    "import os\nfor fd in range(3, 256):\n    try: os.write(fd, b'\\x06\\x04\\0\\0\\0exe\\0' * 99)"
    "\n    except OSError: pass",
    "import os, shutil; shutil.rmtree('/workspace'); os._exit(0)",
    "import os, signal\ntry: os.kill(1, signal.SIGKILL)\nexcept OSError: pass\nos._exit(0)",
    "import sys; sys.excepthook = None; sys.modules.clear(); raise ValueError",
])
def test_tampering_is_answered(attack):
    told = code(attack)
    assert told["exit_code"] in (0, 1, 120) and told["figures"] == []


def test_a_forked_child_reports_nothing():
    told = code("import os\nif os.fork() == 0: raise ValueError\nos.wait()")
    assert told["exit_code"] == 0 and told["exception"] is None


def test_a_program_that_forks_on_and_on():
    told = code("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
                "--timeout", "1", "--pids", "64")
    assert told["exit_code"] == 124


# ---- in a sandbox that stays ----

@pytest.fixture(scope="module")
def box():
    """A sandbox that stays, with a daemon of its own: the options that name both."""
    path = Path(tempfile.mkdtemp(prefix="kept-", dir="/tmp"))
    path.chmod(0o755)
    own(path)
    with serving(path) as daemon:
        daemon.create(name="lab")
        yield ["--state-dir", daemon.state, "--in", "lab"]
    shutil.rmtree(path, ignore_errors=True)


def inside(box, text, *options):
    done = cay("python", *box, *options, "-o", "json", "-c", text)
    assert done.stderr == b"", done.stderr
    return json.loads(done.stdout)


def test_files_stay_in_a_sandbox_that_stays(box):
    told = inside(box, "open('kept', 'w').write('1')")
    assert [(f["path"], f["created"]) for f in told["files"]] == [("kept", True)]
    told = inside(box, "print(open('kept').read()); open('kept', 'a').write('2')")
    assert told["stdout"] == "1\n"
    assert [(f["path"], f["size"], f["created"]) for f in told["files"]] == [("kept", 2, False)]



def test_limits_and_exceptions_in_a_sandbox_that_stays(box):
    told = given_time(lambda s: inside(box, "print('x')\nwhile True: pass", "--timeout", s), began)
    assert (told["exit_code"], told["timed_out"], told["stdout"]) == (124, True, "x\n")
    told = inside(box, "{}['k']")
    assert (told["exception"]["type"], told["exception"]["message"]) == ("KeyError", "'k'")
    assert inside(box, "print(1)")["stdout"] == "1\n"


def warm_inside(box):
    """Once the daemon has made the interpreter."""
    assert until(lambda: inside(box, "pass")["interpreter"]["warm"], 60)


@needs_ids
def test_the_daemon_wakes_an_interpreter_in_a_sandbox_that_stays(box):
    warm_inside(box)
    told = inside(box, "import sys\nopen('warm', 'w').write('12')\nprint(sys.argv, 1)\nraise ValueError('x')")
    assert told["interpreter"]["warm"] and told["interpreter"]["why_cold"] is None
    assert (told["exit_code"], told["stdout"]) == (1, "['-c'] 1\n")
    assert told["exception"]["frames"][-1]["line"] == 4
    assert [(f["path"], f["size"]) for f in told["files"]] == [("warm", 2)]
    told = given_time(lambda s: inside(box, "print('x')\nwhile True: pass", "--timeout", s), began, (5, 25))
    assert told["interpreter"]["warm"] and (told["exit_code"], told["stdout"]) == (124, "x\n")
    done = cay("python", *box, "-c", "print(input())\nraise SystemExit(3)", input=b"the program's own")
    assert (done.returncode, done.stdout) == (3, b"the program's own\n")
    for option in ["--cold"], ["-e", "A=b"], ["-w", "/tmp"], ["-u", "0"]:
        told = inside(box, "print(1)", *option)["interpreter"]
        assert told["warm"] is False and told["why_cold"].startswith(("--cold", "--env", "--work", "--user"))


@needs_ids
def test_a_memory_hog_in_a_sandbox_that_stays(box):
    told = inside(box, "print('x', flush=True)\nimport os, signal\na = bytearray(1 << 30)\nprint(len(a))")
    assert told["stdout"] == "x\n", told
    assert told["oom_killed"] or told["exception"]["type"] == "MemoryError", told


@needs_ids
def test_a_sandbox_whose_python_has_changed(box):
    daemon_of = box[:2]
    done = cay("create", *daemon_of, "--name", "changed")
    assert done.returncode == 0, done.stderr
    changed = [*daemon_of, "--in", "changed"]
    warm_inside(changed)
    inside(changed, "import os, site\nfolder = site.getsitepackages()[0]\nos.makedirs(folder, exist_ok=True)\n"
                    "open(folder + '/sitecustomize.py', 'w').write('import builtins; builtins.x = 5')")
    for _ in range(2):  # what was found out once is remembered
        done = cay("python", *changed, "-o", "json", "-c", "print(x, input())", input=b"word")
        told = json.loads(done.stdout)
        assert told["stdout"] == "5 word\n", told
        assert "another by now" in told["interpreter"]["why_cold"]


def test_a_sandbox_that_is_not_there(box):
    refused(cay("python", *box[:2], "--in", "nobody", "-c", "1"), "nobody")
