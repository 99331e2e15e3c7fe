"""Language servers through the toolbox: a small one that we place in the sandbox, which can misbehave in
every way, and the real one of Debian where it is installed."""

import json
import threading
import urllib.parse
from pathlib import Path

import pytest
from launching import until
from support import needs_ids
from test_daytona_process import Box, daemon  # noqa: F401

pytestmark = needs_ids

FAKE = (Path(__file__).parent / "fake_lsp.py").read_bytes()


@pytest.fixture(scope="module")
def box(daemon):  # noqa: F811
    box = Box(daemon, "lsp")
    body = (b'--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n' + FAKE
            + b"\r\n--x--\r\n")
    connection = daemon.http()
    connection.request("POST", f"{box.base}/files/upload?path=/usr/local/bin/fake", body,
                       {"Content-Type": "multipart/form-data; boundary=x"})
    assert connection.getresponse().status == 200
    connection.close()
    box.execute("cd /usr/local/bin && chmod 755 fake && ln -s fake typescript-language-server")
    return box


class Project:
    def __init__(self, box, mode, language="typescript"):
        self.box, self.mode, self.folder = box, mode, f"/tmp/lsp-{mode}"
        self.place = {"languageId": language, "pathToProject": self.folder}
        box.execute(f"mkdir -p {self.folder}")

    def say(self, verb, path=None, status=200, **more):
        body = {**self.place, **more}
        if path is not None:
            body["uri"] = "file://" + path
        if status != 200:
            return self.box.bad("POST", f"/lsp/{verb}", body, status=status)
        return self.box.good("POST", f"/lsp/{verb}", body)

    def ask(self, verb, status=200, **query):
        path = f"/lsp/{verb}?{urllib.parse.urlencode({**self.place, **query})}"
        return self.box.good("GET", path) if status == 200 else self.box.bad("GET", path, status=status)

    def complete(self, path, status=200, **more):
        return self.say("completions", path, status, position={"line": 3, "character": 4}, **more)

    def heard(self):
        """What it was told: [[method, wants an answer, params]]."""
        text = self.box.execute(f"cat {self.folder}/log")["result"]
        return [json.loads(line) for line in text.splitlines()]

    def runs(self):
        script = f"ls -l /proc/[0-9]*/cwd 2>/dev/null | grep -c '> {self.folder}$'"
        return self.box.execute(script)["result"].strip() != "0"


def test_a_server_is_asked(box):
    p = Project(box, "plain")
    box.execute(f"echo one two > {p.folder}/a.ts; echo three > '{p.folder}/b c.ts'")
    p.say("start")
    p.say("start")  # it runs already
    p.say("did-open", f"{p.folder}/a.ts")
    p.say("did-open", f"{p.folder}/b c.ts")
    symbols = p.ask("document-symbols", uri=f"file://{p.folder}/a.ts")
    place = {"start": {"line": 1, "character": 2}, "end": {"line": 1, "character": 2}}
    uri = f"file://{p.folder}/a.ts"
    assert symbols == [{"name": n, "kind": 12, "location": {"uri": uri, "range": place}}
                       for n in ("one", "two")]
    encoded = f"file://{p.folder}/b%20c.ts"
    for spelling in (f"file://{p.folder}/b c.ts", encoded):
        assert [s["location"]["uri"] for s in p.ask("document-symbols", uri=spelling)] == [encoded]
    assert [s["name"] for s in p.ask("workspacesymbols", query="all")] == ["one", "two"]
    assert p.ask("workspacesymbols", query="none") == []
    list_ = p.complete(f"{p.folder}/a.ts", context={"triggerKind": 2, "triggerCharacter": "."})
    assert list_["isIncomplete"] is True and len(list_["items"]) == 2
    assert list_["items"][0] == {"label": "one two\n", "kind": 3, "detail": "d", "sortText": "s",
                                 "insertText": "n", "documentation": {"kind": "markdown", "value": "v"}}
    assert list_["items"][1] == {"label": json.dumps([
        {"line": 3, "character": 4}, {"triggerKind": 2, "triggerCharacter": "."}]), "documentation": "text"}
    box.execute(f"echo four > {p.folder}/a.ts")
    p.say("did-open", f"{p.folder}/a.ts")  # again: what is there now
    assert p.complete(f"{p.folder}/a.ts")["items"][0]["label"] == "four\n"
    p.say("did-close", f"{p.folder}/a.ts")
    p.say("did-close", f"{p.folder}/a.ts")  # nothing to close
    assert p.runs()
    p.say("stop")
    assert until(lambda: not p.runs())
    heard = p.heard()
    assert [h[0] for h in heard[:3]] == ["initialize", "initialized", "textDocument/didOpen"]
    assert heard[0][2]["rootUri"] == f"file://{p.folder}" and heard[0][2]["processId"] is None
    assert [h[0] for h in heard].count("textDocument/didClose") == 2 and heard[-1][0] == "shutdown"
    error = p.complete(f"{p.folder}/a.ts", status=400)
    assert error["code"] == "LSP_SERVER_NOT_INITIALIZED" and "start" in error["message"]
    p.say("stop", status=400)
    p.say("start")  # once more
    p.say("stop")


def test_other_shapes_of_answers(box):
    for mode in ("tree", "array", "asks"):
        p = Project(box, mode)
        box.execute(f"echo word > {p.folder}/a.ts")
        p.say("start")
        p.say("did-open", f"{p.folder}/a.ts")
        names = [s["name"] for s in p.ask("document-symbols", uri=f"file://{p.folder}/a.ts")]
        assert names == (["class", "method"] if mode == "tree" else ["word"]), mode
        assert p.complete(f"{p.folder}/a.ts")["isIncomplete"] is (mode != "array")
        p.say("stop")


def test_paths_begin_at_the_work_folder(box):
    work = box.good("GET", "/work-dir")["dir"]
    box.execute("mkdir -p rel-plain && echo word > rel-plain/a.ts")
    p = Project(box, "unused")
    p.place["pathToProject"] = "rel-plain/"
    p.say("start")
    p.say("did-open", "rel-plain/a.ts")
    p.place["pathToProject"] = f"{work}/rel-plain"  # the same one
    assert p.complete("rel-plain/a.ts")["items"][0]["label"] == "word\n"
    p.say("stop")


@pytest.mark.parametrize("mode", ["garbage", "huge", "flood", "dies", "unwilling"])
def test_a_server_that_is_none(box, mode):
    p = Project(box, mode)
    error = p.say("start", status=503)
    if mode == "dies":
        assert "exit code 3" in error["message"] and "no licence" in error["message"]
    if mode == "unwilling":
        assert "no compiler here" in error["message"] and "install" in error["remedy"]
    assert until(lambda: not p.runs())
    p.complete(f"{p.folder}/a.ts", status=400)


def test_a_server_that_breaks_off(box):
    p = Project(box, "breaks")
    box.execute(f"echo word > {p.folder}/a.ts")
    p.say("start")
    p.say("did-open", f"{p.folder}/a.ts")
    p.complete(f"{p.folder}/a.ts", status=503)
    assert p.complete(f"{p.folder}/a.ts", status=400)["code"] == "LSP_SERVER_NOT_INITIALIZED"
    assert until(lambda: not p.runs())


def test_a_server_that_refuses(box):
    p = Project(box, "refuses")
    box.execute(f"echo word > {p.folder}/a.ts")
    p.say("start")
    p.say("did-open", f"{p.folder}/a.ts")
    assert "not today" in p.complete(f"{p.folder}/a.ts", status=400)["message"]
    p.ask("workspacesymbols", status=501, query="x")
    p.say("stop")


def test_a_client_that_goes_does_not_hold_it(box):
    p = Project(box, "mute")
    box.execute(f"echo word > {p.folder}/a.ts")
    p.say("start")
    p.say("did-open", f"{p.folder}/a.ts")
    connection = box.daemon.http()
    connection.request("POST", f"{box.base}/lsp/completions", json.dumps(
        {**p.place, "uri": f"file://{p.folder}/a.ts", "position": {"line": 0, "character": 0}}))
    assert until(lambda: p.heard()[-1][0] == "textDocument/completion")
    connection.close()
    assert len(p.ask("document-symbols", uri=f"file://{p.folder}/a.ts")) == 1  # well before its 30 s
    p.say("stop")


def test_many_at_once(box):
    p = Project(box, "many")
    box.execute(f"echo word > {p.folder}/a.ts")
    answers = []

    def work():
        p.say("start")
        p.say("did-open", f"{p.folder}/a.ts")
        answers.append(p.complete(f"{p.folder}/a.ts")["items"][0]["label"])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert answers == ["word\n"] * 8
    assert [h[0] for h in p.heard()].count("initialize") == 1
    p.say("stop")


def test_there_are_not_too_many(box):
    projects = [Project(box, f"{i}-plain") for i in range(9)]  # a sandbox has 8
    for p in projects[:8]:
        p.say("start")
    assert "stop some" in projects[8].say("start", status=429)["message"]
    projects[0].say("stop")
    projects[8].say("start")
    for p in projects[1:]:
        p.say("stop")


def test_it_ends_with_its_sandbox(box):
    p = Project(box, "ends")
    p.say("start")
    box.daemon.ask("POST", f"/api/cay/sandbox/{box.id}/stop")
    box.daemon.ask("POST", f"/api/cay/sandbox/{box.id}/start")
    box.execute(f"mkdir -p {p.folder}")
    assert p.complete(f"{p.folder}/a.ts", status=400)["code"] == "LSP_SERVER_NOT_INITIALIZED"
    p.say("start")
    p.say("stop")


def test_bad_requests(box):
    p = Project(box, "plain")
    p.say("start", status=400, languageId="cobol")
    p.say("start", status=404, pathToProject="/none")
    p.say("start", status=400, pathToProject="/etc/passwd")
    for body in ({}, {"languageId": "python"}, {"pathToProject": "/tmp"}, {**p.place, "languageId": 1}, []):
        box.bad("POST", "/lsp/start", body)
    p.say("start")
    p.say("did-open", f"{p.folder}/none.ts", status=404)
    p.say("did-open", p.folder, status=400)
    p.say("did-open", "/dev/zero", status=400)
    for uri in ("", "file://", "http://x/y", "/tmp/x"):
        p.say("did-open", status=400, uri=uri)
    for position in (None, 1, {"line": 1}, {"line": -1, "character": 0}, {"line": "1", "character": 1}):
        p.say("completions", f"{p.folder}/a.ts", status=400, position=position)
    p.complete(f"{p.folder}/a.ts", status=400, context={"triggerKind": 9})
    p.ask("document-symbols", status=400)
    p.say("stop")


def test_an_image_without_one(box):
    p = Project(box, "plain")
    box.execute("mv /usr/local/bin/typescript-language-server /usr/local/bin/away")
    error = p.say("start", status=501)
    assert "no language server for typescript" in error["message"] and "install" in error["message"]
    box.execute("mv /usr/local/bin/away /usr/local/bin/typescript-language-server")


def test_the_real_one(box):
    if box.execute("command -v pylsp")["exitCode"] != 0:
        pytest.skip("needs python3-pylsp: scripts/setup --test")
    p = Project(box, "real", "python")
    box.execute(f"printf 'import os\\ndef greet(name):\\n    return os.pa\\n' > {p.folder}/a.py")
    p.say("start")
    p.say("did-open", f"{p.folder}/a.py")
    symbols = p.ask("document-symbols", uri=f"file://{p.folder}/a.py")
    greet = [s for s in symbols if s["name"] == "greet"]
    assert len(greet) == 1 and greet[0]["location"]["range"]["start"]["line"] == 1
    list_ = p.say("completions", f"{p.folder}/a.py", position={"line": 2, "character": 16})
    assert "path" in [item["label"] for item in list_["items"]]
    p.say("did-close", f"{p.folder}/a.py")
    p.say("stop")
    assert until(lambda: not p.runs())
