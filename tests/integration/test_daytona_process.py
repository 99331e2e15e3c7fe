"""The toolbox as Daytona's clients use it: commands, code, sessions, logs, terminals, by raw HTTP and
WebSocket, in the current protocol and in the old one."""

import base64
import json
import shutil
import threading
import time
from pathlib import Path

import pytest
from daemons import serving_alone
from launching import until
from support import USER, as_root_only, is_sanitized, needs_ids
from websocket import PING, NotUpgraded, open_unix

pytestmark = needs_ids

NEW, MIDDLE, OLD = "0.218.0", "0.144.0", "0.21.5"
EXIT_CONTROL = "X-Daytona-Pty-Exit-Control"


class Box:
    """A sandbox's toolbox."""

    def __init__(self, daemon, name, **wishes):
        self.daemon = daemon
        self.id = daemon.create(name=name, **wishes)["id"]
        self.base = f"/toolbox/{self.id}"

    def ask(self, method, path, body=None, version=NEW):
        return self.daemon.ask(method, self.base + path, body, X_Daytona_SDK_Version=version)

    def good(self, method, path, body=None, status=200, version=NEW):
        answer = self.ask(method, path, body, version)
        assert answer.status == status, answer.text
        return json.loads(answer.text) if answer.text else None

    def bad(self, method, path, body=None, status=400):
        """The error, which looks as Daytona's daemon writes it."""
        answer = self.ask(method, path, body)
        assert answer.status == status, (answer.status, answer.text)
        error = answer.json()
        assert error["statusCode"] == status and error["source"] == "DAYTONA_DAEMON"
        assert error["message"] and error["path"].startswith("/toolbox/") and error["timestamp"]
        return error

    def execute(self, command, **more):
        return self.good("POST", "/process/execute", {"command": command, **more})

    def open(self, path, protocols=(), **headers):
        headers.setdefault("X_Daytona_SDK_Version", NEW)
        return open_unix(self.daemon.socket, self.base + path, protocols, **headers)

    def processes(self, word):
        """How many processes inside have this word among theirs."""
        script = f"grep -lz '{word[0]}[{word[1]}]{word[2:]}' /proc/[0-9]*/cmdline 2>/dev/null | wc -l"
        return int(self.execute(script)["result"])

    def session(self, name):
        self.good("POST", "/process/session", {"sessionId": name}, status=201)
        return Session(self, name)


class Session:
    def __init__(self, box, name):
        self.box = box
        self.path = f"/process/session/{name}"

    def run(self, command, version=NEW):
        return self.box.good("POST", self.path + "/exec", {"command": command}, version=version)

    def begin(self, command, key="runAsync"):
        answer = self.box.good("POST", self.path + "/exec", {"command": command, key: True}, status=202)
        assert set(answer) == {"cmdId"}
        return answer["cmdId"]

    def command(self, number):
        return self.box.good("GET", f"{self.path}/command/{number}")

    def ended(self, number):
        assert until(lambda: "exitCode" in self.command(number))
        return self.command(number)["exitCode"]

    def logs(self, number, version=NEW):
        return self.box.ask("GET", f"{self.path}/command/{number}/logs", version=version)


@pytest.fixture(scope="module")
def daemon():
    with serving_alone() as daemon:
        yield daemon


@pytest.fixture(scope="module")
def box(daemon):
    return Box(daemon, "toolbox", env={"FROM_SANDBOX": "yes"})


# ---- commands ----


def test_execute(box):
    answer = box.execute("echo $FROM_SANDBOX $MORE; pwd", envs={"MORE": "it's $x"}, cwd="/tmp")
    assert answer == {"exitCode": 0, "result": "yes it's $x\n/tmp\n"}
    assert box.execute("exit 3") == {"exitCode": 3, "result": ""}
    assert box.execute("kill -9 $$") == {"exitCode": 137, "result": ""}


@as_root_only
def test_out_of_memory(daemon):
    """It is told where every client shows it; but not of a command that was killed otherwise."""
    small = Box(daemon, "small", memory="64m")
    hog = "x = bytearray(400 << 20)"
    told = small.execute(f"echo before; exec python3 -c '{hog}'")
    assert (told["exitCode"], told["oomKilled"]) == (137, True)
    assert told["result"].startswith("before\n") and "out of memory" in told["result"]
    told = small.good("POST", "/process/code-run", {"code": hog, "language": "python"})
    assert (told["exitCode"], told["oomKilled"]) == (137, True) and "out of memory" in told["result"]
    assert small.execute("kill -9 $$") == {"exitCode": 137, "result": ""}
    daemon.call("DELETE", f"/api/cay/sandbox/{small.id}?force=true")


def test_both_streams_are_in_order(box):
    script = "for i in $(seq 200); do echo out$i; echo err$i >&2; done"
    lines = [f"{which}{i}" for i in range(1, 201) for which in ("out", "err")]
    assert box.execute(script)["result"].split() == lines


def test_relative_folders_begin_at_the_work_folder(box):
    work = box.good("GET", "/work-dir")["dir"]
    assert box.execute("pwd")["result"].strip() == work
    assert box.execute("pwd", cwd="below/it")["result"].strip() == f"{work}/below/it"
    assert box.good("GET", "/project-dir")["dir"] == work


def test_what_looks_difficult_to_a_shell(box):
    assert box.execute("cat <<'X'\na $b\nX\n")["result"] == "a $b\n"
    assert box.execute("# a comment\necho 1")["result"] == "1\n"
    assert box.execute("if true; then echo yes\nfi")["result"] == "yes\n"
    assert box.execute("echo a; cat")["result"] == "a\n"  # no input, rather than waiting for it
    answer = box.execute("echo 'unfinished")
    assert answer["exitCode"] != 0 and "unexpected EOF" in answer["result"]
    assert "not found" in box.execute("no-such-program-here")["result"]


def test_a_command_longer_than_an_argument_may_be(box):
    text = "x" * 300_000
    assert box.execute(f"v={text}; echo ${{#v}}; echo err >&2") == {"exitCode": 0,
                                                                  "result": "300000\nerr\n"}


def test_output_of_any_bytes(box):
    assert box.execute(r"printf 'a\0b\377\r\033[1m\n'")["result"] == "a\0b\ufffd\r\033[1m\n"
    many = box.execute("head -c 30000000 /dev/zero | tr '\\0' y; echo end >&2; exit 4")
    assert many["exitCode"] == 4 and many["result"].startswith("yyy")
    assert "left out" in many["result"][-200:] and len(many["result"]) < 11_000_000
    assert box.execute(f"tail -c 4 {many['outputFile']} && rm {many['outputFile']}")["result"] == "end\n"


def test_a_timeout_ends_the_whole_tree(box):
    script = "(setsid sleep 4711 &) ; nohup sleep 4711 & sleep 4711"
    began = time.monotonic()
    error = box.bad("POST", "/process/execute", {"command": script, "timeout": 1}, status=408)
    assert error["code"] == "PROCESS_EXECUTION_TIMEOUT" and "1 s" in error["message"]
    assert time.monotonic() - began < 60
    assert until(lambda: box.processes("4711") == 0)


def test_a_client_that_hangs_up_ends_its_command(box):
    connection = box.daemon.http()
    connection.request("POST", box.base + "/process/execute",
                       json.dumps({"command": "sleep 4712"}))
    assert until(lambda: box.processes("4712") > 0)
    connection.close()
    assert until(lambda: box.processes("4712") == 0)


def threads_of(pid):
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def test_clients_that_go_leave_nothing_behind(box):
    """In the middle of a file, of logs, of a terminal, of a command: whoever serves them ends too."""
    s = box.session("left")
    number = s.begin("echo here; sleep 4714")
    logs = f"{s.path}/command/{number}/logs?follow=true"
    assert box.execute("truncate -s 1G /tmp/large")["exitCode"] == 0
    front = box.daemon.front()
    streams = []
    for method, path, body in (("GET", "/files/download?path=/tmp/large", None),
                               ("POST", "/files/bulk-download", '{"paths": ["/tmp/large"]}'),
                               ("GET", logs, None)):
        connection = box.daemon.http()
        connection.request(method, box.base + path, body, {"X-Daytona-SDK-Version": NEW})
        answer = connection.getresponse()
        assert answer.status == 200 and answer.read(5)
        streams.append((connection, answer))
    sockets = [box.open(logs), box.open("/process/pty/create-connect?id=left")]
    assert sockets[0].receive() == b"\1\1\1here\n" and sockets[1].receive() == CONNECTED
    command = box.daemon.http()
    command.request("POST", box.base + "/process/execute", json.dumps({"command": "sleep 4713"}))
    assert until(lambda: box.processes("4713") > 0)
    serving = threads_of(front)
    command.close()
    for connection, answer in streams:
        answer.close()
        connection.close()
    for ws in sockets:
        ws.close()
    assert until(lambda: threads_of(front) <= serving - 6), (serving, threads_of(front))
    assert until(lambda: box.processes("4713") == 0)
    assert box.processes("4714") > 0  # what a session runs goes on
    box.good("DELETE", "/process/pty/left")
    box.good("DELETE", s.path, status=204)


def test_bad_requests(box):
    path = "/process/execute"
    for body in ("", "[]", "{", '{"command": 1}', '{"command": " \\n"}', "{}",
                 '{"command": "a", "timeout": -1}', '{"command": "a", "timeout": "1"}',
                 '{"command": "a", "envs": {"A=B": "c"}}', '{"command": "a", "envs": {"A": 1}}',
                 '{"command": "a", "envs": []}', '{"command": "a\\u0000b"}',
                 '{"command": "a", "cwd": "../x"}'):
        box.bad("POST", path, body)
    assert box.bad("GET", path, status=405)["code"] == "BAD_REQUEST"
    assert box.daemon.ask("POST", "/toolbox/nothing" + path, {"command": "a"}).status == 404


def test_the_old_place_of_the_toolbox(box):
    answer = box.daemon.ask("POST", f"/api/toolbox/{box.id}/toolbox/process/execute",
                            {"command": 'sh -c "echo ZWNobyBvbGQ= | base64 -d | sh"'},
                            X_Daytona_SDK_Version=OLD)
    assert answer.json() == {"exitCode": 0, "result": "old\n"}


# ---- code ----


def run_code(box, language, code, **more):
    return box.good("POST", "/process/code-run", {"language": language, "code": code, **more})


def test_python(box):
    answer = run_code(box, "python", "import sys, os\nprint(sys.argv[1:], os.environ['A'])",
                      argv=["x", "--help"], envs={"A": "b"})
    assert answer.pop("durationMs") > 0
    assert answer == {"exitCode": 0, "result": "['x', '--help'] b\n", "artifacts": {"charts": []}, "exception": None,
                      "files": [], "filesTruncated": False}
    failed = run_code(box, "python", "print(1)\nraise ValueError('oh')")
    assert failed["exitCode"] == 1
    assert failed["result"].startswith("1\n") and "ValueError: oh" in failed["result"]
    large = "x = '''" + "y" * 200_000 + "'''\nprint(len(x))\nimport sys\nprint(sys.argv[1:])"
    assert run_code(box, "python", large, argv=["z"])["result"] == "200000\n['z']\n"
    box.bad("POST", "/process/code-run", {"language": "python", "code": "while 1: pass",
                                          "timeout": 1}, status=408)


def test_javascript(box):
    body = {"language": "javascript", "code": "console.log(process.argv.slice(2).join(), 1 + 1)",
            "argv": ["--x", "y z"]}
    if shutil.which("node"):
        assert box.good("POST", "/process/code-run", body)["result"] == "--x,y z 2\n"
    else:
        assert "javascript" in box.bad("POST", "/process/code-run", body, status=501)["message"]


def test_typescript_needs_what_runs_it(box):
    body = {"language": "typescript", "code": "const n: number = 6; console.log(n * 7)"}
    answer = box.ask("POST", "/process/code-run", body)
    if answer.status == 200:
        assert answer.json()["result"] == "42\n"
    else:
        assert answer.status == 501 and "typescript" in answer.json()["message"]
    assert box.execute("ls -d /tmp/tmp.* 2>/dev/null")["result"] == ""  # nothing is left behind


def test_languages_of_the_table(box):
    answer = run_code(box, "bash", "echo $1 $A; echo e >&2; exit 3", argv=["x y"], envs={"A": "b"})
    assert answer.pop("durationMs") > 0
    assert answer == {"exitCode": 3, "result": "x y b\ne\n", "artifacts": {"charts": []}}
    assert run_code(box, "perl", "print 6 * 7")["result"] == "42"
    if shutil.which("gcc"):
        failed = run_code(box, "c", "int main(void) { return x; }")
        assert failed["exitCode"] == 1 and failed["result"].startswith("code.c: In function")
        assert run_code(box, "c", "int main(void) { return 7; }")["exitCode"] == 7
    for language, tools in ("ruby", ["ruby"]), ("go", ["go", "gccgo"]):
        if not any(map(shutil.which, tools)):
            assert language in box.bad("POST", "/process/code-run", {"language": language, "code": "x"},
                                       status=501)["message"]
    assert box.execute("ls -d /tmp/cay-* 2>/dev/null")["result"] == ""  # nothing is left behind


def test_other_languages(box):
    assert "python" in box.bad("POST", "/process/code-run", {"language": "cobol", "code": "x"})["message"]
    box.bad("POST", "/process/code-run", {"code": "x"})
    box.bad("POST", "/process/code-run", {"language": "python"})


# ---- sessions ----


def test_a_session_remembers(box):
    s = box.session("remembers")
    first = s.run("cd /tmp; export A=1; f() { echo f$1; }")
    assert first["exitCode"] == 0 and first["output"] == ""
    second = s.run("pwd; f $A; echo oops >&2; (exit 7)")
    assert (second["stdout"], second["stderr"], second["exitCode"]) == ("/tmp\nf1\n", "oops\n", 7)
    assert sorted(second["output"].split()) == ["/tmp", "f1", "oops"]
    assert s.run("cat")["stdout"] == ""  # the end of its input
    whole = box.good("GET", s.path)
    assert whole["sessionId"] == "remembers"
    assert [c["exitCode"] for c in whole["commands"]] == [0, 7, 0]
    assert whole["commands"][1]["command"].startswith("pwd;")
    assert s.command(second["cmdId"]) == whole["commands"][1]
    assert whole in box.good("GET", "/process/session")
    box.good("DELETE", s.path, status=204)
    box.bad("GET", s.path, status=404)
    assert whole not in box.good("GET", "/process/session")


def test_the_longest_answer_of_a_session(box):
    """As much as is kept of both streams, of a byte that takes six characters in JSON."""
    kept = 8 << 20
    answer = box.session("long").run(f"head -c {kept + 1} /dev/zero; head -c {kept + 1} /dev/zero >&2")
    assert [answer[name].count("\0") for name in ("stdout", "stderr")] == [kept, kept]
    assert answer["exitCode"] == 0 and answer["output"].count("\0") >= kept


def test_sessions_have_any_id(box):
    for name, path in (("my session", "my%20session"), ("a/b", "a%2Fb"), ("größe", "gr%C3%B6%C3%9Fe"),
                       ("b.xyz", "b.xyz")):
        box.good("POST", "/process/session", {"sessionId": name}, status=201)
        box.bad("POST", "/process/session", {"sessionId": name}, status=409)
        assert box.good("GET", "/process/session/" + path)["sessionId"] == name
        assert name in [s["sessionId"] for s in box.good("GET", "/process/session")]
        box.good("DELETE", "/process/session/" + path, status=204)
    for body in ({}, {"sessionId": ""}, {"sessionId": "x" * 65}, {"sessionId": 1}):
        box.bad("POST", "/process/session", body)


def test_a_command_that_is_not_waited_for(box):
    s = box.session("later")
    number = s.begin("read line; echo got $line; echo err >&2; exit 5")
    assert "exitCode" not in s.command(number)
    path = f"{s.path}/command/{number}"
    box.good("POST", path + "/input", {"data": "hello"}, status=204)
    assert s.ended(number) == 5
    out = "hello\ngot hello\n"  # what was typed, and the answer
    assert s.logs(number).json() == {"output": out + "err\n", "stdout": out, "stderr": "err\n"}
    error = box.bad("POST", path + "/input", {"data": "more"}, status=410)
    assert error["code"] == "COMMAND_ALREADY_COMPLETED"
    assert s.ended(s.begin("true", key="async")) == 0
    for wrong in ("0", "99", "x", "-1"):
        assert box.bad("GET", f"{s.path}/command/{wrong}", status=404)["code"] == "PROCESS_NOT_FOUND"
        box.bad("POST", f"{s.path}/command/{wrong}/input", {"data": "x"}, status=404)
        box.bad("GET", f"{s.path}/command/{wrong}/logs", status=404)
    box.good("DELETE", s.path, status=204)


def test_input_is_in_the_logs_unless_it_is_not_wanted_there(box):
    s = box.session("echo")
    script = {"command": "read a; echo first; read b; echo second", "runAsync": True}
    logs = []
    for silent in ({}, {"suppressInputEcho": False}, {"suppressInputEcho": True}):
        number = box.good("POST", s.path + "/exec", {**script, **silent}, status=202)["cmdId"]
        path = f"{s.path}/command/{number}"
        for line in ("one", "two\n"):
            box.good("POST", path + "/input", {"data": line}, status=204)
            assert until(lambda: ("first" if line == "one" else "second") in s.logs(number).text)
        assert s.ended(number) == 0
        logs.append(s.logs(number).json()["stdout"])
    assert logs == ["one\nfirst\ntwo\nsecond\n"] * 2 + ["first\nsecond\n"]
    assert s.run("read x; echo \"<$x>\"")["stdout"] == "<>\n"  # one that is waited for has no input
    box.bad("POST", s.path + "/exec", {**script, "suppressInputEcho": "no"})
    number = s.begin("exec >&-; read x")  # nobody can print any more, but the log is there
    box.good("POST", f"{s.path}/command/{number}/input", {"data": "x"}, status=204)
    s.ended(number)
    box.good("DELETE", s.path, status=204)


def test_a_busy_session_is_waited_for(box):
    s = box.session("busy")
    number = s.begin("read line; echo first $line")
    error = box.bad("POST", s.path + "/exec", {"command": "true", "runAsync": True}, status=409)
    assert "busy" in error["message"]
    answers = []
    waiter = threading.Thread(target=lambda: answers.append(s.run("echo second")))
    waiter.start()
    box.good("POST", f"{s.path}/command/{number}/input", {"data": "go\n"}, status=204)
    waiter.join(60)
    assert answers[0]["stdout"] == "second\n"
    assert s.logs(number).json()["stdout"] == "go\nfirst go\n"
    box.good("DELETE", s.path, status=204)


def test_bad_session_requests(box):
    s = box.session("bad")
    for body in ("", "{}", '{"command": ""}', '{"command": 1}', '{"command": "a", "runAsync": 1}'):
        box.bad("POST", s.path + "/exec", body)
    box.bad("POST", "/process/session/none/exec", {"command": "a"}, status=404)
    box.bad("DELETE", "/process/session/none", status=404)
    box.bad("GET", f"{s.path}/command/1/logs?follow=perhaps")
    box.good("DELETE", s.path, status=204)


def test_sessions_of_older_clients(box):
    s = box.session("old")
    script = "echo out; echo err >&2"
    plain = s.run(script, version=OLD)
    assert sorted(plain["output"].split()) == ["err", "out"]
    marked = s.run(script, version=MIDDLE)
    assert marked["output"].count("\1\1\1out\n") == 1 and "\2\2\2err\n" in marked["output"]
    assert "stdout" not in marked
    logs = s.logs(plain["cmdId"], version=OLD)
    assert logs.headers["Content-Type"].startswith("text/plain")
    assert sorted(logs.text.split()) == ["err", "out"]
    assert "\1\1\1out\n" in s.logs(plain["cmdId"], version=MIDDLE).text
    box.good("DELETE", s.path, status=204)


def test_logs_are_followed_by_http(box):
    s = box.session("stream")
    number = s.begin("echo one; read x; echo two")
    connection = box.daemon.http()
    connection.request("GET", f"{box.base}{s.path}/command/{number}/logs?follow=true",
                       headers={"X-Daytona-SDK-Version": OLD})
    answer = connection.getresponse()
    assert answer.headers["Transfer-Encoding"] == "chunked"
    assert answer.read1() == b"one\n"
    box.good("POST", f"{s.path}/command/{number}/input", {"data": ""}, status=204)
    assert answer.read() == b"\ntwo\n"
    connection.close()
    box.good("DELETE", s.path, status=204)


def drain(ws):
    """Everything of each stream up to the end."""
    parts = {1: b"", 2: b""}
    while (message := ws.receive()) is not None:
        mark, data = message[:3], message[3:]
        assert mark in (b"\1\1\1", b"\2\2\2") and data
        parts[mark[0]] += data
    return parts[1], parts[2]


def test_logs_are_followed_by_websocket(box):
    s = box.session("follow")
    number = s.begin("echo one; read x; echo err >&2; echo two")
    path = f"{s.path}/command/{number}/logs?follow=true"
    with box.open(path) as first, box.open(path, ["X-Daytona-SDK-Version~0.218.0"]) as second:
        assert first.protocol is None and second.protocol == "X-Daytona-SDK-Version~0.218.0"
        assert first.receive() == b"\1\1\1one\n"
        first.send(b"are you there", PING)
        assert first.receive() == ("pong", b"are you there")
        box.good("POST", f"{s.path}/command/{number}/input", {"data": "\n"}, status=204)
        assert drain(first) == (b"\ntwo\n", b"err\n")
        assert drain(second) == (b"one\n\ntwo\n", b"err\n")
        assert first.closed == second.closed == (1000, "")
    with box.open(path) as again:  # from the beginning, also when it is over
        assert drain(again) == (b"one\n\ntwo\n", b"err\n")
    with pytest.raises(NotUpgraded) as refused:
        box.open(f"{s.path}/command/99/logs?follow=true")
    assert refused.value.status == 404
    box.good("DELETE", s.path, status=204)


def rss(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def test_following_takes_no_memory(box):
    s = box.session("much")
    before = rss(box.daemon.front())
    number = s.begin("head -c 7000000 /dev/zero | tr '\\0' x; head -c 7000000 /dev/zero | tr '\\0' y >&2")
    with box.open(f"{s.path}/command/{number}/logs?follow=true") as ws:
        out, err = drain(ws)
    assert (len(out), len(err)) == (7_000_000, 7_000_000)
    if not is_sanitized():
        assert rss(box.daemon.front()) - before < 10_000_000  # of 14
    box.good("DELETE", s.path, status=204)


def test_a_deleted_session_ends_its_followers(box):
    s = box.session("gone")
    number = s.begin("echo here; sleep 1000")
    with box.open(f"{s.path}/command/{number}/logs?follow=true") as ws:
        assert ws.receive() == b"\1\1\1here\n"
        box.good("DELETE", s.path, status=204)
        while ws.receive() is not None:
            pass
        assert ws.closed[0] in (1000, 1011)


def test_there_is_no_entrypoint(box):
    assert box.good("GET", "/process/session/entrypoint") == {"sessionId": "entrypoint",
                                                              "commands": []}
    assert box.good("GET", "/process/session/entrypoint/logs") == {"output": "", "stdout": "",
                                                                   "stderr": ""}
    with box.open("/process/session/entrypoint/logs?follow=true") as ws:
        assert ws.receive() is None and ws.closed == (1000, "")


# ---- terminals ----

CONNECTED = '{"type":"control","status":"connected"}'


def read_until(ws, text):
    seen = b""
    while text not in seen:
        message = ws.receive()
        assert isinstance(message, bytes), (message, seen, ws.closed)
        seen += message
    return seen


def read_exit(ws):
    """The control message at the end, or None, and how it was closed."""
    told = None
    while (message := ws.receive()) is not None:
        if isinstance(message, str):
            told = json.loads(message)
    return told, ws.closed


def test_a_terminal_is_made_and_used_at_once(box):
    envs = base64.urlsafe_b64encode(b'{"GREETING":"hi there"}').decode().rstrip("=")
    offers = [f"X-Daytona-Pty-Envs~{envs}", EXIT_CONTROL]
    with box.open("/process/pty/create-connect?id=p1&cols=101&rows=31&cwd=%2Ftmp", offers) as ws:
        assert ws.protocol == EXIT_CONTROL
        assert ws.receive() == CONNECTED
        ws.send(b"stty size; pwd; echo \"<$GREETING>\"\r")
        seen = read_until(ws, b"<hi there>")
        assert b"31 101" in seen and b"/tmp" in seen
        info = box.good("GET", "/process/pty/p1")
        assert {k: info[k] for k in ("id", "cwd", "cols", "rows", "active", "lazyStart")} == {
            "id": "p1", "cwd": "/tmp", "cols": 101, "rows": 31, "active": True, "lazyStart": False}
        assert info["envs"] == {} and info["createdAt"].endswith("Z")
        with pytest.raises(NotUpgraded) as refused:
            box.open("/process/pty/create-connect?id=p1", [EXIT_CONTROL])
        assert refused.value.status == 409
        ws.send("exit 3\r")  # a text is typed too
        told, closed = read_exit(ws)
    assert told == {"type": "control", "status": "exited", "exitCode": 3,
                    "exitReason": "non-zero exit"}
    assert closed[0] == 1011 and json.loads(closed[1]) == {"exitCode": 3,
                                                          "exitReason": "non-zero exit"}
    assert box.good("GET", "/process/pty/p1")["active"] is False
    box.bad("POST", "/process/pty/p1/resize", {"cols": 10, "rows": 10}, status=410)
    box.good("POST", "/process/pty", {"id": "p1"}, status=201)  # its id is free again
    box.good("DELETE", "/process/pty/p1")


def test_a_terminal_outlives_its_viewers(box):
    made = box.good("POST", "/process/pty", {"id": "p 2", "cols": 90, "rows": 20,
                                             "envs": {"A": "b"}}, status=201)
    assert made == {"sessionId": "p 2"}
    path = "/process/pty/p%202"
    with box.open(path + "/connect", [EXIT_CONTROL]) as ws:
        assert ws.receive() == CONNECTED
        ws.send(b"echo first-$A\r")
        read_until(ws, b"first-b")
    with box.open(path + "/connect", [EXIT_CONTROL]) as one, box.open(path + "/connect") as two:
        assert two.protocol is None
        read = [ws.receive() for ws in (one, two)]
        assert read == [CONNECTED, CONNECTED]
        read_until(two, b"first-b")  # what was shown before
        assert box.good("POST", path + "/resize", {"cols": 50, "rows": 12})["cols"] == 50
        one.send(b"stty size\r")
        read_until(two, b"12 50")
        listed = box.good("GET", "/process/pty")["sessions"]
        assert [t["id"] for t in listed if t["active"]] == ["p 2"]
        box.good("DELETE", path)
        told, closed = read_exit(one)
        assert told["exitCode"] == 137 and closed[0] == 1011
        told, closed = read_exit(two)  # who does not offer it is not told by a message
        assert told is None and json.loads(closed[1])["exitCode"] == 137
    box.bad("GET", path, status=404)
    box.bad("DELETE", path, status=404)
    box.bad("POST", path + "/resize", {"cols": 1, "rows": 1}, status=404)
    with pytest.raises(NotUpgraded) as refused:
        box.open(path + "/connect", [EXIT_CONTROL])
    assert refused.value.status == 404


def test_a_lazy_terminal_starts_with_its_first_viewer(box):
    made = {"id": "lazy", "cwd": "/tmp", "envs": {"LAZY": "b"}, "lazyStart": True}
    started = "grep -lz ^LAZY=b$ /proc/[0-9]*/environ 2>/dev/null | wc -l"
    box.good("POST", "/process/pty", made, status=201)
    box.bad("POST", "/process/pty", made, status=409)
    path = "/process/pty/lazy"
    info = box.good("GET", path)
    assert (info["lazyStart"], info["active"], info["cwd"]) == (True, False, "/tmp")
    assert box.execute(started)["result"] == "0\n"
    assert box.good("POST", path + "/resize", {"cols": 77, "rows": 11})["cols"] == 77
    with box.open(path + "/connect", [EXIT_CONTROL]) as ws:
        assert ws.receive() == CONNECTED
        assert box.good("GET", path)["active"] is True
        assert until(lambda: box.execute(started)["result"] != "0\n")
        ws.send(b"echo \"<$(stty size) $PWD $LAZY>\"\r")
        read_until(ws, b"<11 77 /tmp b>")
    assert box.good("POST", path + "/resize", {"cols": 78, "rows": 12})["rows"] == 12
    with box.open(path + "/connect", [EXIT_CONTROL]) as ws:
        assert ws.receive() == CONNECTED
        ws.send(b"echo \"<$(stty size)>\"; exit 7\r")  # a size that was set while nobody looked
        seen = read_until(ws, b"<12 78>")
        assert b"<11 77" in seen
        assert read_exit(ws)[0]["exitCode"] == 7
    info = box.good("GET", path)
    assert (info["lazyStart"], info["active"]) == (True, False)
    box.bad("POST", path + "/resize", {"cols": 10, "rows": 10}, status=410)
    box.good("POST", "/process/pty", made, status=201)  # its id is free again
    box.good("DELETE", path)  # also before anything has started
    box.bad("GET", path, status=404)


def test_a_good_end_of_a_terminal(box):
    with box.open("/process/pty/create-connect?id=good", [EXIT_CONTROL]) as ws:
        assert ws.receive() == CONNECTED
        ws.send(b"exit 0\r")
        told, closed = read_exit(ws)
    assert told["exitCode"] == 0 and "exitReason" not in told
    assert closed[0] == 1000 and json.loads(closed[1]) == {"exitCode": 0}
    box.good("DELETE", "/process/pty/good")


def test_much_is_typed_and_shown(box):
    with box.open("/process/pty/create-connect?id=much", [EXIT_CONTROL]) as ws:
        assert ws.receive() == CONNECTED
        ws.send(b"stty -echo raw; echo rea\"\"dy; head -c 400000 | wc -c; stty sane; echo do\"\"ne\r")
        read_until(ws, b"ready")
        for _ in range(4):
            ws.send(b"x" * 100_000)
        assert b"400000" in read_until(ws, b"done")
        ws.send(b"seq 1 60000; echo en\"\"d\r")
        read_until(ws, b"60000\r\nend")
        ws.send(b"exit\r")
        read_exit(ws)
    box.good("DELETE", "/process/pty/much")


def test_terminals_that_have_ended_make_room(box):
    for i in range(34):  # a sandbox has 32
        box.good("POST", "/process/pty", {"id": f"many{i}"}, status=201)
        with box.open(f"/process/pty/many{i}/connect") as ws:
            ws.send(b"exit\r")
            read_exit(ws)
    listed = box.good("GET", "/process/pty")["sessions"]
    assert "many33" in [t["id"] for t in listed] and not any(t["active"] for t in listed)
    for t in listed:
        box.good("DELETE", f"/process/pty/{t['id']}")


def test_bad_terminal_requests(box):
    for body in ("", '{"id": 1}', '{"cols": -1}', '{"cols": 2000}', '{"envs": {"a b": "c"}}',
                 '{"cwd": "../../x"}', json.dumps({"id": "x" * 70})):
        box.bad("POST", "/process/pty", body)
    made = box.good("POST", "/process/pty", {}, status=201)["sessionId"]
    path = f"/process/pty/{made}"
    for body in ("", "{}", '{"cols": 0, "rows": 5}', '{"cols": 5}', '{"cols": 5, "rows": 1001}'):
        box.bad("POST", path + "/resize", body)
    assert box.ask("GET", path + "/connect").status == 426
    assert box.ask("GET", "/process/pty/create-connect?id=never").status == 426
    box.bad("GET", "/process/pty/never", status=404)
    for query, offer in (("cols=x", EXIT_CONTROL), ("rows=-1", EXIT_CONTROL),
                         ("id=z", "X-Daytona-Pty-Envs~!!"), ("id=z", "X-Daytona-Pty-Envs~W10"),
                         ("id=z", "X-Daytona-Pty-Envs~eyJhIjoxfQ")):
        with pytest.raises(NotUpgraded) as refused:
            box.open(f"/process/pty/create-connect?{query}", [offer])
        assert refused.value.status == 400, query
    box.good("DELETE", path)


# ---- what a sandbox says about itself ----


def test_information(box):
    assert box.good("GET", "/user-home-dir")["dir"] == box.execute("echo ~")["result"].strip()
    assert box.good("GET", "/version")["version"]
    m = box.good("GET", "/system/metrics")
    assert m["cpuCount"] >= 1 and m["cpuUsedPct"] >= 0 and m["memUsed"] >= 0
    assert USER or 0 < m["memUsed"] <= m["memTotal"]  # an ordinary user may have no figures
    assert m["diskFree"] <= m["diskTotal"] and m["timestampUnix"] > 1_700_000_000


def test_the_environment_changes_for_what_follows(box):
    box.good("POST", "/env", {"set": {"LATER": "1", "TOKEN": "secret:x", "KEPT": "k"}})
    assert box.execute("echo $LATER-$TOKEN-$KEPT")["result"] == "1-secret:x-k\n"
    box.good("POST", "/env", {"unset": ["LATER", "NONE"], "unsetValuePrefix": "secret:"})
    assert box.execute("echo $LATER-$TOKEN-$KEPT-$FROM_SANDBOX")["result"] == "--k-yes\n"
    s = box.session("env")
    assert s.run("echo $KEPT")["stdout"] == "k\n"
    box.good("DELETE", s.path, status=204)
    for body in ("", '{"set": {"1A": "x"}}', '{"set": []}', '{"unset": {}}', '{"unset": [1]}'):
        box.bad("POST", "/env", body)


def test_a_stopped_sandbox_says_so(daemon):
    other = Box(daemon, "stopped")
    daemon.call("POST", f"/api/cay/sandbox/{other.id}/stop")
    error = other.bad("POST", "/process/execute", {"command": "true"}, status=409)
    assert "stopped" in error["message"]
    with pytest.raises(NotUpgraded) as refused:
        other.open("/process/pty/create-connect?id=x", [EXIT_CONTROL])
    assert refused.value.status == 409
