"""What the Python SDK asks, and whether its models would take the answers."""

import time

import pytest
import support
from replay import Client, needs_specs, upload_form

pytestmark = needs_specs


@pytest.fixture
def client(service):
    client = Client(service)
    yield client
    client.finish()


@pytest.fixture(scope="module")
def shared(service):
    """A sandbox for all tests here, by its toolbox."""
    client = Client(service)
    made = client.ask("POST", "/api/sandbox", {
        "labels": {"code-toolbox-language": "python"}, "env": {}, "volumes": []}, 200)
    client.finish()
    yield f"/toolbox/{made['id']}", made["id"]
    client.send("DELETE", f"/api/sandbox/{made['id']}")


@pytest.fixture
def toolbox(shared):
    return shared[0]


def test_a_life(client):
    made = client.ask("POST", "/api/sandbox", {
        "name": "replay", "user": "root", "env": {"A": "b"}, "volumes": [], "public": False,
        "labels": {"code-toolbox-language": "python"}, "autoStopInterval": 15,
        "autoArchiveInterval": 1440, "networkBlockAll": True}, 200)
    assert made["state"] == "started" and made["env"] == {"A": "b"}
    who = f"/api/sandbox/{made['id']}"
    assert client.ask("GET", who, status=200)["id"] == made["id"]
    assert client.ask("GET", "/api/sandbox/replay", status=200)["id"] == made["id"]
    page = client.ask("GET", "/api/sandbox", status=200, query={
        "limit": 1, "labels": '{"code-toolbox-language": "python"}', "states": ["started"]})
    assert len(page["items"]) == 1 and "env" not in page["items"][0]
    labels = {"code-toolbox-language": "python", "x": "y"}
    assert client.ask("PUT", f"{who}/labels", {"labels": labels}, 200) == {"labels": labels}
    for path in ("autostop/30", "autoarchive/60", "autodelete/-1", "public/true", "public/false"):
        client.ask("POST", f"{who}/{path}", status=200)
    client.ask("POST", f"{who}/last-activity", status=201)
    client.ask("POST", f"{who}/resize", {"cpu": 1, "memory": 2}, 200)
    assert "url" in client.ask("GET", f"{who}/toolbox-proxy-url", status=200)
    assert client.ask("GET", f"{who}/ports/8080/preview-url", status=200)["token"]
    assert client.ask("POST", f"{who}/stop", status=200)["state"] == "stopped"
    assert client.ask("POST", f"{who}/start", status=200)["state"] == "started"
    stopped = client.ask("POST", f"{who}/stop", status=200, query={"force": "true"})
    assert stopped["state"] == "stopped"
    client.ask("POST", f"{who}/archive", status=200)
    client.ask("DELETE", who, status=200)
    client.ask("GET", who, status=404)


def test_what_is_asked_at_the_start(client):
    client.ask("GET", "/api/config", status=200)
    client.ask("GET", "/api/health", status=200)
    client.ask("GET", "/api/api-keys/current", status=200)
    client.ask("GET", "/api/regions", status=200)


def test_a_list_of_versions_between(client):
    """0.128 to 0.167 ask for pages by number."""
    page = client.ask("GET", "/api/sandbox/paginated", status=200, query={"page": 1, "limit": 10},
                      X_Daytona_SDK_Version="0.144.0")
    assert page["page"] == 1 and page["total"] == len(page["items"])


def test_process(client, toolbox):
    got = client.ask("POST", f"{toolbox}/process/execute",
                     {"command": "echo $A; exit 3", "cwd": "/tmp", "envs": {"A": "b"},
                      "timeout": 10}, 200)
    assert got == {"exitCode": 3, "result": "b\n"}
    got = client.ask("POST", f"{toolbox}/process/code-run",
                     {"code": "print(1)", "language": "python", "argv": [], "envs": {}}, 200)
    assert got["result"] == "1\n"
    client.ask("POST", f"{toolbox}/process/execute", {"command": "sleep 1000", "timeout": 1}, 408)


def test_sessions(client, toolbox):
    top = f"{toolbox}/process/session"
    client.ask("POST", top, {"sessionId": "r"}, 201)
    client.ask("POST", top, {"sessionId": "r"}, 409)
    got = client.ask("POST", f"{top}/r/exec", {"command": "echo a; echo b >&2"}, 200)
    assert (got["stdout"], got["stderr"], got["exitCode"]) == ("a\n", "b\n", 0)
    late = client.ask("POST", f"{top}/r/exec", {"command": "echo c", "runAsync": True}, 202)
    command = f"{top}/r/command/{late['cmdId']}"
    end = time.monotonic() + 60
    while client.ask("GET", command, status=200).get("exitCode") is None:
        assert time.monotonic() < end
        time.sleep(0.02)
    assert client.ask("GET", f"{command}/logs", status=200)["stdout"] == "c\n"
    client.ask("POST", f"{command}/input", {"data": "x"}, 410)
    assert len(client.ask("GET", f"{top}/r", status=200)["commands"]) == 2
    client.ask("GET", top, status=200)
    client.ask("GET", f"{top}/entrypoint", status=200)
    client.ask("GET", f"{top}/entrypoint/logs", status=200)
    client.ask("DELETE", f"{top}/r", status=204)
    client.ask("GET", f"{top}/r", status=404)


def test_language_servers(client, toolbox):
    fake = (support.ROOT / "tests/integration/fake_lsp.py").read_text()
    body, kind = upload_form({"/usr/local/bin/typescript-language-server": fake.encode(),
                              "/tmp/lsp-replay/a.ts": b"word"})
    assert client.send("POST", f"{toolbox}/files/bulk-upload", body, Content_Type=kind).status == 200
    client.ask("POST", f"{toolbox}/files/permissions", status=200, query={
        "path": "/usr/local/bin/typescript-language-server", "mode": "755"})
    place = {"languageId": "typescript", "pathToProject": "/tmp/lsp-replay"}
    document = {**place, "uri": "file:///tmp/lsp-replay/a.ts"}
    client.ask("POST", f"{toolbox}/lsp/completions",
               {**document, "position": {"line": 0, "character": 0}}, 400)
    client.ask("POST", f"{toolbox}/lsp/start", place, 200)
    client.ask("POST", f"{toolbox}/lsp/did-open", document, 200)
    got = client.ask("POST", f"{toolbox}/lsp/completions",
                     {**document, "position": {"line": 0, "character": 0}}, 200)
    assert got["items"][0]["label"] == "word"
    assert len(client.ask("GET", f"{toolbox}/lsp/document-symbols", status=200, query=document)) == 1
    symbols = client.ask("GET", f"{toolbox}/lsp/workspacesymbols", status=200,
                         query={**place, "query": "all"})
    assert symbols[0]["name"] == "word"
    client.ask("POST", f"{toolbox}/lsp/did-close", document, 200)
    client.ask("POST", f"{toolbox}/lsp/stop", place, 200)


def test_logs_of_older_versions(client, toolbox):
    """Text without marks up to 0.26, with marks up to 0.166, JSON since."""
    top = f"{toolbox}/process/session"
    client.ask("POST", top, {"sessionId": "era"}, 201)
    command = client.ask("POST", f"{top}/era/exec", {"command": "echo a; echo b >&2"}, 200)["cmdId"]
    path = f"{top}/era/command/{command}/logs"
    old = client.send("GET", path, X_Daytona_SDK_Version="0.21.8")
    assert old.headers.get_content_type() == "text/plain" and sorted(old.body) == sorted(b"a\nb\n")
    marked = client.send("GET", path, X_Daytona_SDK_Version="0.144.0")
    assert b"\1\1\1a\n" in marked.body and b"\2\2\2b\n" in marked.body
    client.ask("DELETE", f"{top}/era", status=204)


def test_terminals(client, toolbox):
    top = f"{toolbox}/process/pty"
    client.ask("POST", top, {"id": "t", "cols": 90, "rows": 20, "cwd": "/tmp",
                             "envs": {"A": "b"}}, 201)
    assert client.ask("GET", f"{top}/t", status=200)["cols"] == 90
    assert client.ask("POST", f"{top}/t/resize", {"cols": 91, "rows": 21}, 200)["rows"] == 21
    client.ask("GET", top, status=200)
    client.ask("DELETE", f"{top}/t", status=200)
    client.ask("DELETE", f"{top}/none", status=404)


def test_files(client, toolbox):
    files = {"/tmp/r/a b": b"one", "/tmp/r/\u00e9": b"\r\n--0123456789abcde\r\n"}
    form, kind = upload_form(files)
    client.ask("POST", f"{toolbox}/files/bulk-upload", form, 200, Content_Type=kind)
    reply = client.send("POST", f"{toolbox}/files/bulk-download",
                        {"paths": [*files, "/tmp/r/none"]})
    assert reply.status == 200
    parts = reply.parts()
    assert {content for name, _, _, content in parts if name == "file"} == set(files.values())
    assert [part.get_content_type() for name, _, part, _ in parts if name == "error"] == \
        ["application/json"]
    query = {"path": "/tmp/r"}
    names = [f["name"] for f in client.ask("GET", f"{toolbox}/files", status=200, query=query)]
    assert sorted(names) == ["a b", "\u00e9"]
    one = {"path": "/tmp/r/a b"}
    assert client.ask("GET", f"{toolbox}/files/info", status=200, query=one)["size"] == 3
    assert client.send("GET", f"{toolbox}/files/download?path=/tmp/r/a%20b").body == b"one"
    client.ask("POST", f"{toolbox}/files/folder", status=201,
               query={"path": "/tmp/r/f", "mode": "0755"})
    client.ask("POST", f"{toolbox}/files/permissions", status=200, query={**one, "mode": "600"})
    client.ask("POST", f"{toolbox}/files/move", status=200,
               query={"source": "/tmp/r/a b", "destination": "/tmp/r/c"})
    assert client.ask("GET", f"{toolbox}/files/find", status=200,
                      query={**query, "pattern": "one"})[0]["line"] == 1
    assert len(client.ask("GET", f"{toolbox}/files/search", status=200,
                          query={**query, "pattern": "c"})["files"]) == 1
    client.ask("POST", f"{toolbox}/files/replace",
               {"files": ["/tmp/r/c"], "pattern": "one", "newValue": "two"}, 200)
    client.ask("DELETE", f"{toolbox}/files", status=204, query={**query, "recursive": "true"})
    client.ask("GET", f"{toolbox}/files/info", status=404, query=query)


def test_git(client, toolbox):
    path = {"path": "/tmp/g"}
    client.ask("POST", f"{toolbox}/git/init", {**path, "initial_branch": "main"}, 201)
    form, kind = upload_form({"/tmp/g/file": b"x"})
    client.ask("POST", f"{toolbox}/files/bulk-upload", form, 200, Content_Type=kind)
    client.ask("POST", f"{toolbox}/git/add", {**path, "files": ["."]}, 200)
    made = client.ask("POST", f"{toolbox}/git/commit", {
        **path, "message": "m", "author": "A", "email": "a@example.org", "allow_empty": False}, 200)
    assert len(made["hash"]) == 40
    status = client.ask("GET", f"{toolbox}/git/status", status=200, query=path)
    assert status["currentBranch"] == "main"
    client.ask("POST", f"{toolbox}/git/branches", {**path, "name": "b"}, 201)
    client.ask("GET", f"{toolbox}/git/branches", status=200, query=path)
    client.ask("POST", f"{toolbox}/git/checkout", {**path, "branch": "b"}, 200)
    client.ask("POST", f"{toolbox}/git/checkout", {**path, "branch": "main"}, 200)
    client.ask("DELETE", f"{toolbox}/git/branches", {**path, "name": "b"}, 204)
    assert len(client.ask("GET", f"{toolbox}/git/history", status=200, query=path)) == 1
    client.ask("GET", f"{toolbox}/git/remotes", status=200, query=path)


def test_information(client, toolbox):
    for path in ("user-home-dir", "work-dir", "version", "port", "system/metrics"):
        client.ask("GET", f"{toolbox}/{path}", status=200)
    assert client.ask("GET", f"{toolbox}/port/4000/in-use", status=200) == {"isInUse": False}


def test_volumes(client):
    made = client.ask("POST", "/api/volumes", {"name": "replayed"}, 200)
    client.ask("GET", "/api/volumes", status=200)
    assert client.ask("GET", "/api/volumes/by-name/replayed", status=200)["id"] == made["id"]
    client.ask("GET", f"/api/volumes/{made['id']}", status=200)
    client.ask("DELETE", f"/api/volumes/{made['id']}", status=200)
    client.ask("GET", "/api/volumes/by-name/replayed", status=404)


def test_snapshots(client, image):
    made = client.ask("POST", "/api/snapshots", {"name": "replayed", "imageName": image}, 200)
    client.ask("GET", "/api/snapshots", status=200, query={"page": 1, "limit": 10})
    assert client.ask("GET", "/api/snapshots/replayed", status=200)["id"] == made["id"]
    client.ask("DELETE", f"/api/snapshots/{made['id']}", status=200)
    client.ask("GET", "/api/snapshots/replayed", status=404)


def test_errors_have_their_fields(client, toolbox):
    fields = {"path": str, "timestamp": str, "statusCode": int, "error": str, "message": str}
    answer = client.ask("GET", "/api/sandbox/nobody", status=404)
    assert {name: type(answer.get(name)) for name in fields} == fields
    fields = {"statusCode": int, "message": str, "code": str, "source": str, "timestamp": str,
              "path": str, "method": str}
    answer = client.ask("GET", f"{toolbox}/files/info", status=404, query={"path": "/none"})
    assert {name: type(answer.get(name)) for name in fields} == fields
    assert answer["source"] == "DAYTONA_DAEMON" and answer["statusCode"] == 404
    bare = client.send("GET", "/api/sandbox", Authorization="Bearer wrong")
    assert bare.status == 401 and bare.json()["statusCode"] == 401


def test_another_key_sees_nothing(client, service, shared):
    """Whoever has not made a sandbox is told the same as of one that does not exist."""
    toolbox, who = shared
    made = client.ask("POST", "/api/api-keys", {"name": "stranger", "permissions": []}, 201)
    stranger = Client(service, Authorization=f"Bearer {made['value']}")
    api = f"/api/sandbox/{who}"
    asked = [("GET", api), ("DELETE", api), ("POST", f"{api}/stop"), ("POST", f"{api}/public/true"),
             ("GET", f"{api}/ports/80/preview-url"), ("GET", f"{api}/signing-key"),
             ("GET", f"{toolbox}/files"), ("GET", f"{toolbox}/files/download?path=/etc/passwd"),
             ("GET", f"{toolbox}/process/session"), ("GET", f"{toolbox}/process/pty"),
             ("GET", f"{toolbox}/work-dir"), ("GET", f"{toolbox}/git/status?path=/tmp"),
             ("POST", f"{toolbox}/process/execute")]
    try:
        wrong = []
        for method, path in asked:
            reply = stranger.send(method, path, {"command": "id"} if method == "POST" else None)
            unknown = stranger.send(method, path.replace(who, "0" * len(who)),
                                    {"command": "id"} if method == "POST" else None)
            same = reply.json()["message"].replace(who, "X") == \
                unknown.json()["message"].replace("0" * len(who), "X")
            if reply.status != 404 or unknown.status != 404 or not same:
                wrong.append(f"{method} {path} -> {reply.status} {reply.body[:150]!r}")
        assert wrong == []
        page = stranger.ask("GET", "/api/sandbox", status=200)
        assert page["items"] == []
        stranger.finish()
    finally:
        client.ask("DELETE", "/api/api-keys/stranger", status=204)
