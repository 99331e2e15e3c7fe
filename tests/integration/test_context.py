"""`cay context`: interpreters that stay, from a shell."""

import json
import os
import signal
import subprocess

import pytest
import support
from daemons import serving_alone
from support import given_time, needs_ids

pytestmark = needs_ids


@pytest.fixture(scope="module")
def cay():
    with serving_alone() as daemon:
        def run(verb, *words, code=0, **more):
            result = support.cay("context", verb, "--state-dir", str(daemon.state), *words, **more)
            assert result.returncode == code, (result.stdout, result.stderr)
            return result.stdout.decode(), result.stderr.decode()

        run.state = daemon.state
        daemon.create(name="lab")
        yield run


def told(cay, *words, code=0):
    return json.loads(cay("run", "-o", "json", *words, code=code)[0])


def test_code_finds_what_was_before(cay):
    assert cay("run", "lab", "a", "-c", "x = 5") == ("", "")
    assert cay("run", "lab", "a", "-c", "x + 1") == ("6\n", "")
    assert cay("run", "lab", "a", "-", input=b"print(x)\n")[0] == "5\n"
    assert cay("run", "-e", "K=v", "lab", "a", "-c", "import os; os.environ['K']")[0] == "'v'\n"
    out, err = cay("run", "lab", "a", "-c", "print(1)\n1/0", code=1)
    assert out == "1\n" and err.startswith("Traceback") and err.endswith("division by zero\n")
    assert cay("run", "--attach", "lab", "a", code=1)[0] == "1\n"


def test_making_listing_removing(cay):
    assert cay("create", "--language", "bash", "--workdir", "/tmp/w", "lab", "sh")[0] == "sh\n"
    assert cay("run", "lab", "sh", "-c", "pwd; exit 3", code=3)[0] == "/tmp/w\n"
    rows = [line.split() for line in cay("ls", "lab")[0].splitlines()]
    assert rows[0] == ["NAME", "LANGUAGE", "STATE", "FOLDER"] and ["sh", "bash", "ended", "/tmp/w"] in rows
    one, = [c for c in json.loads(cay("ls", "-o", "json", "lab")[0]) if c["name"] == "sh"]
    assert (one["language"], one["alive"], one["busy"]) == ("bash", False, False)
    out, err = cay("run", "lab", "sh", "-c", "echo on")
    assert out == "on\n" and "a new one" in err
    assert cay("rm", "lab", "sh")[0] == "sh\n"
    assert "no context" in cay("rm", "lab", "sh", code=3)[1]


def test_results_as_json(cay):
    result = told(cay, "lab", "j", "-c", "display('a')\nprint(2)\n{'b': 1}")
    assert (result["exit_code"], result["stdout"], result["exception"]) == (0, "2\n", None)
    assert [(r["is_last"], r["data"]["text/plain"]) for r in result["results"]] == \
        [(False, "'a'"), (True, "{'b': 1}")]
    result = told(cay, "lab", "j", "-c", "raise KeyError('k')", code=1)
    assert result["exception"]["type"] == "KeyError" and result["exception"]["message"] == "'k'"
    result = told(cay, "lab", "j", "-c", "import os; os._exit(7)", code=7)
    assert result["ended"] and not result["restarted"]
    assert told(cay, "lab", "j", "-c", "1")["restarted"]
    result = given_time(lambda s: told(cay, "--timeout", str(s), "lab", "j", "-c", "print('x')\nwhile True: pass", code=124),
                        lambda result: result["stdout"] != "")
    assert result["timed_out"] and result["stdout"] == "x\n" and not result["ended"]


def test_a_type_that_a_result_has_twice_is_told_once(cay):
    """Which only code that forges reports brings about; objects of JSON have a key once."""
    code = """
import os, struct
items = [b'text/plain\\0first', b'text/plain\\0second', b'text/html\\0<b>']
data = b'\\1' + b''.join(struct.pack('<I', len(i)) + i for i in items)
for fd in os.listdir('/proc/self/fd'):
    try:
        if os.readlink(f'/proc/self/fd/{fd}').endswith('.rep'):
            os.write(int(fd), b'\\2' + struct.pack('<I', len(data)) + data)
    except OSError: pass
"""
    text = cay("run", "-o", "json", "lab", "twice", "-c", code)[0]
    found = []
    json.loads(text, object_pairs_hook=lambda pairs: found.append(pairs) or dict(pairs))
    assert [("text/plain", "first"), ("text/html", "<b>")] in found, text


def test_images_are_saved(cay, tmp_path):
    code = "class P:\n  def _repr_png_(self): return b'png'\n  def _repr_svg_(self): return '<svg/>'\nP()"
    cay("run", "--figures", str(tmp_path / "out"), "lab", "f", "-c", code)
    assert (tmp_path / "out/figure-1.png").read_bytes() == b"png"
    assert (tmp_path / "out/figure-1.svg").read_text() == "<svg/>"


def test_interrupts(cay):
    argv = [str(support.BUILD / "cay"), "context", "run", "--state-dir", str(cay.state), "lab", "i", "-c",
            "k = 1\nprint('go')\nwhile True: pass"]
    for how in (lambda p: p.send_signal(signal.SIGINT), lambda _: cay("interrupt", "lab", "i")):
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=dict(os.environ)) as process:
            assert process.stdout.readline() == b"go\n"
            how(process)
            assert process.wait(60) == 130
            assert process.stderr.read().endswith(b"KeyboardInterrupt\n")
    assert cay("run", "lab", "i", "-c", "k")[0] == "1\n"


@pytest.mark.parametrize("words, code, said", [
    (("lab", "a"), 125, "no code given"),
    (("lab", "a", "-c", "1", "file"), 125, "twice"),
    (("lab", "a", "/no/such/file"), 125, "opening"),
    (("nobody", "a", "-c", "1"), 125, "nobody"),
    (("", "a", "-c", "1"), 125, "the name of the sandbox is empty; see 'cay ls -a'"),
    (("lab", "a b", "-c", "1"), 125, "no name of a context"),
    (("--language", "cobol", "lab", "new", "-c", "1"), 125, "python, javascript or bash"),
    (("--attach", "lab", "none"), 125, "no context"),
    (("--figures", "/proc/none", "lab", "a", "-c", "1"), 125, "saving figures"),
])
def test_bad_words(cay, words, code, said):
    assert said in cay("run", *words, code=code)[1]


@pytest.mark.parametrize("language", ["python", "bash"])
@pytest.mark.parametrize("folder", ["/proc/nowhere", "/etc/passwd", "/etc/passwd/x"])
def test_a_work_folder_that_cannot_be(cay, language, folder):
    _, err = cay("create", "--language", language, "--workdir", folder, "lab", "lost", code=2)
    assert f"'{folder}' is no folder, and none can be made there; choose a folder" in err
    assert "lost" not in cay("ls", "-q", "lab")[0].split()
    assert cay("create", "--language", language, "--workdir", "/tmp/to/be/made", "lab", "lost")[0] == "lost\n"
    code = "pwd" if language == "bash" else "import os; print(os.getcwd())"
    assert cay("run", "lab", "lost", "-c", code)[0] == "/tmp/to/be/made\n"
    cay("rm", "lab", "lost")


@pytest.mark.parametrize("language", ["python", "bash"])
def test_a_work_folder_that_is_closed(cay, language):
    cay("run", "lab", "closing", "-c", "import os; os.makedirs('/tmp/closed', mode=0, exist_ok=True)")
    _, err = cay("create", "--language", language, "--workdir", "/tmp/closed", "lab", "lost", code=2)
    assert "--workdir: '/tmp/closed' is closed to the user; choose a folder" in err
    assert "lost" not in cay("ls", "-q", "lab")[0].split()


def test_who_exists_already_is_not_removed(cay):
    cay("create", "--language", "bash", "lab", "stays")
    cay("run", "lab", "stays", "-c", "kept=1")
    cay("create", "--language", "bash", "--workdir", "/proc/nowhere", "lab", "stays", code=4)
    assert cay("run", "lab", "stays", "-c", "echo $kept")[0] == "1\n"
    cay("rm", "lab", "stays")
