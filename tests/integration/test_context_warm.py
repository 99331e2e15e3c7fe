"""`cay context` with a daemon that has a frozen interpreter: Python contexts begin as copies of it, or cold
with a reason. What contexts do is in test_context.py, what a copy is like in test_interpreter_warm.py."""

import json
import os
import socket
import subprocess

import pytest
import support
from daemons import serving_alone
from interpreting import Interpreter
from launching import until
from remotes import Foreign
from support import needs_ids

pytestmark = needs_ids

WARM = {"warm": True, "why_cold": None}
IS_WARM = "'kept\\0context' in open('/proc/self/cmdline').read()"


def cold(why):
    return {"warm": False, "why_cold": why}


class Shell:
    """cay context, at a daemon."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.where = ["--state-dir", str(daemon.state)]

    def argv(self, verb, *words):
        return [verb, *self.where, "-o", "json", *words]

    def __call__(self, verb, *words, code=0):
        result = support.cay("context", *self.argv(verb, *words))
        assert result.returncode == code, (result.stdout, result.stderr)
        return json.loads(result.stdout)

    def create(self, *words):
        return self("create", *words)["interpreter"]

    def value(self, *words):
        """Of the last expression."""
        return self("run", *words)["results"][-1]["data"]["text/plain"]

    def names(self, box):
        return [c["name"] for c in self("ls", box)]


def warm_up(daemon):
    assert until(lambda: daemon.call("POST", "/api/cay/python", {"code": "1"})["interpreter"]["warm"], 60)


@pytest.fixture(scope="module")
def daemon():
    with serving_alone() as d:
        warm_up(d)
        yield d


@pytest.fixture(scope="module")
def cay(daemon):
    daemon.create(name="lab")
    return Shell(daemon)


def test_who_is_made_and_who_is_made_by_a_run(cay):
    assert cay("create", "lab", "a") == {"name": "a", "interpreter": WARM}
    assert cay("run", "lab", "a", "-c", "x = 1")["interpreter"] is None  # it was there
    assert cay.value("lab", "a", "-c", f"x, {IS_WARM}") == "(1, True)"
    done = cay("run", "lab", "b", "-c", IS_WARM)
    assert done["interpreter"] == WARM and done["results"][0]["data"]["text/plain"] == "True"
    assert cay.create("--workdir", "/tmp/made/for/it", "lab", "c") == WARM
    assert cay.value("lab", "c", "-c", f"import os; os.getcwd(), {IS_WARM}") == "('/tmp/made/for/it', True)"
    result = support.cay("context", "create", *cay.where, "lab", "plain")
    assert (result.returncode, result.stdout, result.stderr) == (0, b"plain\n", b"")


def test_the_same_default_context_as_the_apis(daemon):
    shell = Shell(daemon)
    box = Interpreter(daemon, "both")
    assert shell("run", "both", "default", "-c", "x = 5")["interpreter"] == WARM
    run = box.default.run("x")
    assert run.out == "5\n" and "python" not in run.all("control")[-1]


def test_the_default_context_says_how_it_began(daemon):
    box = Interpreter(daemon, "told")
    told = [box.default.run(code).all("control") for code in ("1", "1")]
    assert told == [[{"type": "control", "text": "completed", "exitCode": 0, "python": "warm"}],
                    [{"type": "control", "text": "completed", "exitCode": 0}]]
    other = Interpreter(daemon, "told-cold", env={"PYTHONHASHSEED": "0"})
    run = other.default.run("1/0")
    assert run.all("control")[-1]["python"] == "cold; the sandbox's environment changes how the interpreter starts"


@pytest.mark.parametrize("words, how", [
    (("--env", "A=b"), cold("--env")),
    (("--user", "root"), cold("--user")),
    (("--language", "bash"), None),
])
def test_what_only_its_own_interpreter_has(cay, words, how):
    name = "own-" + words[0].strip("-")
    assert cay.create(*words, "lab", name) == how
    code = "echo $((6*7))" if how is None else "import os; print(42, os.getuid(), os.environ.get('A'))"
    out = cay("run", "lab", name, "-c", code)["stdout"].split()
    assert out[0] == "42" and (words[0] != "--env" or out[2] == "b")


def test_a_sandbox_that_has_another_python_by_now(daemon):
    shell = Shell(daemon)
    daemon.create(name="changed")
    change = ("import os, site\nfolder = site.getsitepackages()[0]\nos.makedirs(folder, exist_ok=True)\n"
              "open(folder + '/sitecustomize.py', 'w').write('import builtins; builtins.x = 5')")
    shell("run", "changed", "first", "-c", change)
    for name in ("found-out", "known"):
        assert shell.create("changed", name) == cold("the sandbox's Python is another by now")
        assert shell.value("changed", name, "-c", f"x, {IS_WARM}") == "(5, False)"


def test_a_sandbox_with_an_environment_of_its_own(daemon):
    shell = Shell(daemon)
    daemon.create(name="seeded", env={"PYTHONHASHSEED": "0"})
    done = shell("run", "seeded", "a", "-c", IS_WARM)
    assert done["interpreter"] == cold("the sandbox's environment changes how the interpreter starts")
    assert done["results"][0]["data"]["text/plain"] == "False"


def test_one_that_ended_is_started_anew_and_cold(cay):
    assert cay.create("lab", "ends") == WARM
    assert cay("run", "lab", "ends", "-c", "import os; os._exit(3)", code=3)["ended"]
    done = cay("run", "lab", "ends", "-c", IS_WARM)
    assert done["restarted"] and done["interpreter"] is None
    assert done["results"][0]["data"]["text/plain"] == "False"


def test_warm_interpreters_are_switched_off():
    with serving_alone(env={"CAY_PYTHON_WARM": "false"}) as d:
        d.create(name="lab")
        assert Shell(d).create("lab", "a") == cold("python.warm is false")


def test_a_new_daemon_finds_what_the_old_one_made():
    with serving_alone() as d:
        warm_up(d)
        shell = Shell(d)
        d.create(name="lab")
        assert shell.create("lab", "old") == WARM
        shell("run", "lab", "old", "-c", "x = 7")
        d.kill()
        d.start()
        assert shell.value("lab", "old", "-c", f"x, {IS_WARM}") == "(7, True)"
        how = shell.create("lab", "first")  # nobody waits for a new one to be frozen
        assert how in (WARM, cold("the warm interpreter is being made"))
        assert shell.value("lab", "first", "-c", "6*7") == "42"
        warm_up(d)
        assert shell.create("lab", "later") == WARM


@pytest.mark.parametrize("verb, more, codes", [("create", (), {0, 4}), ("run", ("-c", "n = 1"), {0, 125})])
def test_several_at_once_make_one(cay, verb, more, codes):
    """A run that comes while another one runs is refused, as ever, and be it that of the context's maker."""
    name = "race-" + verb
    argv = [str(support.BUILD / "cay"), "context", *cay.argv(verb, "lab", name, *more)]
    all_ = [subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ))
            for _ in range(4)]
    ended = [(process.communicate(timeout=120)[0], process.returncode) for process in all_]
    assert {code for _, code in ended} <= codes, ended
    made = [json.loads(out).get("interpreter") for out, _ in ended]
    assert [how for how in made if how is not None] == [WARM] and 0 in {code for _, code in ended}, ended
    assert cay.names("lab").count(name) == 1
    assert cay.value("lab", name, "-c", IS_WARM) == "True"


def test_what_cannot_be_is_told_as_ever_and_leaves_nothing(cay):
    for words, code, said in [
            (("lab", "a b"), 2, "no name of a context"),
            (("lab", "x" * 65), 2, "no name of a context"),
            (("nobody", "a"), 3, "nobody"),
            (("--workdir", "/etc/passwd", "lab", "lost"), 2, "--workdir: '/etc/passwd' is no folder"),
            (("--workdir", "relative", "lab", "lost"), 2, "--workdir")]:
        error = cay("create", *words, code=code)["error"]
        assert said in error["message"], error
    assert cay.create("lab", "twice") == WARM
    assert "twice" in cay("create", "lab", "twice", code=4)["error"]["message"]
    assert "lost" not in cay.names("lab")


class Older(Foreign):
    """As a daemon of another version: it knows nothing of making contexts."""

    def __init__(self, daemon):
        self.behind = str(daemon.socket)
        self.path = daemon.state / "older.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.path))
        os.chmod(self.path, 0o666)
        listener.listen(16)
        self.begin(listener)

    def knows(self, line):
        return not line.startswith(b"PUT ")

    def dial(self):
        far = socket.socket(socket.AF_UNIX)
        far.connect(self.behind)
        return far

    def close(self):
        super().close()
        self.path.unlink()


def test_a_daemon_of_another_version(daemon, cay):
    shell = Shell(daemon)
    older = Older(daemon)
    shell.where = ["--host", f"unix://{older.path}"]
    try:
        assert shell.create("--workdir", "/tmp/older", "lab", "older") == cold("the daemon has no warm interpreters")
        assert shell.value("lab", "older", "-c", f"import os; os.getcwd(), {IS_WARM}") == "('/tmp/older', False)"
        assert shell("run", "lab", "older-run", "-c", "1")["interpreter"]["warm"] is False
    finally:
        older.close()
    assert sum(line.startswith("PUT ") for line in older.asked) == 2


@pytest.mark.parametrize("path, status", [
    ("lab/context/a%20b", 400), ("lab/context/a%2fb", 400), ("lab/context/" + "x" * 65, 400), ("lab/context/%2e%2e%2f", 400),
    ("none/context/a", 404), ("lab/context/", 404), ("lab/context/a/b", 404),
])
def test_names_that_are_none(cay, path, status):
    before = cay.names("lab")
    assert cay.daemon.ask("PUT", "/api/cay/sandbox/" + path, {}).status == status
    assert cay.names("lab") == before


def test_the_request_behind_it(cay):
    def put(name, body):
        answer = cay.daemon.ask("PUT", "/api/cay/sandbox/lab/context/" + name, body)
        return answer.status, answer.headers["X-Cay-Python"], answer.json()
    assert put("api", None) == (200, "warm", {"name": "api", "warm": True, "whyCold": None})
    assert put("api", None)[0] == 409
    assert put("api-sh", {"language": "bash"}) == (200, None, {"name": "api-sh", "warm": False, "whyCold": None})
    for bad in ({"language": "cobol"}, {"cwd": 5}, {"cwd": "/etc/passwd"}, "[]", "{"):
        assert put("api-bad", bad)[0] == 400, bad
    assert "api-bad" not in cay.names("lab")
