"""Daytona's control plane by raw HTTP: what SDKs send, and that answers are what strict ones read."""

import json
import os
import re
import time
import urllib.parse
from pathlib import Path

import pytest
import support
from daemons import serving_tcp
from launching import until
from test_keys import Client, make_key

SPECS = Path(os.environ.get("CAY_DAYTONA_SPECS", support.ROOT / "../shared/reference/daytona"))
# Without control groups a sandbox has to be asked for with a lower tier, for which Daytona's
# protocol has no word.
pytestmark = support.as_root_only
NEW, OLD, PAGES = "0.218.0", "0.21.5", "0.144.0"


# ---- a small validator ----

class Spec:
    """An OpenAPI file of Daytona's, if it is here."""

    def __init__(self, name):
        path = SPECS / name
        self.json = json.loads(path.read_text()) if path.exists() else None

    def schema(self, name):
        return self.json["components"]["schemas"][name]

    def check(self, name, value):
        if self.json:
            self.validate(self.schema(name), value, name)

    def validate(self, schema, value, where):
        if "$ref" in schema:
            return self.validate(self.schema(schema["$ref"].rsplit("/", 1)[1]), value, where)
        if value is None:
            assert schema.get("nullable"), f"{where} is null"
            return None
        for part in schema.get("allOf", []):
            self.validate(part, value, where)
        assert value in schema.get("enum", [value]), f"{where} is {value}"
        kind = schema.get("type")
        types = {"string": str, "boolean": bool, "number": (int, float), "integer": int,
                 "array": list, "object": dict}
        assert kind is None or isinstance(value, types[kind]), f"{where} is {value!r}, no {kind}"
        assert kind not in ("number", "integer") or not isinstance(value, bool), where
        if kind == "array":
            for i, item in enumerate(value):
                self.validate(schema["items"], item, f"{where}[{i}]")
        if kind == "object" or "properties" in schema:
            self.validate_object(schema, value, where)
        return None

    def validate_object(self, schema, value, where):
        for key in schema.get("required", []):
            assert key in value, f"{where} has no {key}"
        more = schema.get("additionalProperties")
        for key, item in value.items():
            if key in schema.get("properties", {}):
                self.validate(schema["properties"][key], item, f"{where}.{key}")
            elif isinstance(more, dict):
                self.validate(more, item, f"{where}.{key}")


API = Spec("api.json")


# ---- clients ----

class Sdk(Client):
    """A client that says which version it is."""

    def __init__(self, port, key, version=NEW):
        super().__init__(port, key)
        self.version = version

    def ask(self, method, path, body=None, **headers):
        headers.setdefault("X_Daytona_SDK_Version", self.version)
        return super().ask(method, "/api" + path, body, **headers)

    def make(self, **wishes):
        made = self.call("POST", "/sandbox", wishes)
        API.check("Sandbox", made)
        return made

    def look(self, who):
        found = self.call("GET", f"/sandbox/{who}")
        API.check("Sandbox", found)
        return found

    def post(self, who, path, body=None):
        answer = self.call("POST", f"/sandbox/{who}{path}", body)
        API.check("Sandbox", answer)
        return answer


@pytest.fixture(scope="module")
def daemon():
    with serving_tcp() as d:
        yield d


@pytest.fixture
def sdk(daemon):
    yield Sdk(daemon.port, daemon.key)
    for box in daemon.list():
        daemon.call("DELETE", f"/api/cay/sandbox/{box['id']}?force=true")


def refusal(client, status, *words):
    """Of a call that is refused: its error, which is as clients read it."""
    def check(method, path, body=None, **headers):
        answer = client.ask(method, path, body, **headers)
        error = answer.json()
        assert answer.status == status == error["statusCode"], answer.text
        assert error["path"].startswith("/api") and error["timestamp"].endswith("Z")
        assert error["error"] and error["code"] and "remedy" in error
        for word in words:
            assert word in error["message"], error
        return error
    return check


# ---- making ----

def test_create_without_wishes(daemon, sdk):
    made = sdk.make(env={}, labels={"code-toolbox-language": "python"})
    assert made["state"] == made["desiredState"] == "started"
    assert made["toolboxProxyUrl"] == f"http://127.0.0.1:{daemon.port}/toolbox"
    assert made["labels"] == {"code-toolbox-language": "python"}
    assert made["env"] == {} or isinstance(made["env"], dict)
    assert made["networkBlockAll"] and not made["public"] and made["gpu"] == 0
    assert made["snapshot"] == "host" and made["user"] == "root" and made["autoDeleteInterval"] == -1
    assert sdk.look(made["id"]) == made


def test_create_with_every_wish(sdk):
    wishes = {"name": "lab", "buildInfo": {"dockerfileContent": "FROM host\n"},
              "env": {"FOO": "b=r"}, "labels": {"a": "1"}, "public": True, "cpu": 1, "memory": 1,
              "autoStopInterval": 0, "autoArchiveInterval": 1440, "autoDeleteInterval": 60,
              "ttlMinutes": 30, "target": "us", "volumes": [], "gpu": 0, "aNewKey": [1]}
    made = sdk.make(**wishes)
    assert made["name"] == "lab" and made["public"] and made["env"]["FOO"] == "b=r"
    assert (made["cpu"], made["memory"]) == (1, 1)
    assert made["autoStopInterval"] == 0 and made["autoArchiveInterval"] == 1440
    assert made["autoDeleteInterval"] == 60 and made["autoDestroyAt"] > made["createdAt"]
    assert sdk.look("lab")["id"] == made["id"]
    refusal(sdk, 409, "lab")("POST", "/sandbox", {"name": "lab"})


@pytest.mark.parametrize("body, status, word", [
    ("{", 400, "request body"),
    ("[]", 400, "object"),
    ({"name": "-x"}, 400, "name"),
    ({"cpu": 1.5}, 400, "cpu"),
    ({"memory": "1"}, 400, "memory"),
    ({"labels": {"a": 1}}, 400, "labels"),
    ({"snapshot": "Not A Name"}, 400, ""),
    ({"snapshot": "a", "buildInfo": {"dockerfileContent": "FROM b"}}, 400, "exclude"),
    ({"buildInfo": {"dockerfileContent": "FROM a\nRUN b", "contextHashes": ["0"]}}, 400,
     "contextHashes"),
    ({"networkAllowList": "a.com"}, 400, "networkAllowList"),
    ({"gpu": 1}, 501, "gpu"),
    ({"networkAllowList": "169.254.169.254"}, 400, "networkAllowList"),
    ({"volumes": [{"volumeId": "none", "mountPath": "/v"}]}, 400, "none"),
    ({"ttlMinutes": -5}, 400, "ttlMinutes"),
])
def test_bad_creates(sdk, body, status, word):
    refusal(sdk, status, word)("POST", "/sandbox", body)
    assert sdk.call("GET", "/sandbox")["items"] == []


# ---- its life ----

def test_life(sdk):
    who = sdk.make(name="lab")["id"]
    assert sdk.post("lab", "/stop?force=false")["state"] == "stopped"
    assert sdk.post(who, "/stop")["state"] == "stopped"
    assert sdk.post(who, "/start")["state"] == "started"
    assert sdk.post(who, "/start")["state"] == "started"
    assert sdk.post(who, "/stop?force=true")["state"] == "stopped"
    assert sdk.post(who, "/recover")["state"] == "started"
    gone = sdk.call("DELETE", f"/sandbox/{who}")
    API.check("Sandbox", gone)
    assert gone["state"] == "destroyed"
    refusal(sdk, 404, who)("GET", f"/sandbox/{who}")
    refusal(sdk, 404)("POST", f"/sandbox/{who}/start")
    refusal(sdk, 404)("DELETE", "/sandbox/lab")


def test_pause_and_start(sdk):
    who = sdk.make()["id"]
    assert sdk.post(who, "/pause")["state"] == "paused"
    assert sdk.post(who, "/start")["state"] == "started"


def test_archive_and_start(sdk):
    who = sdk.make()["id"]
    sdk.post(who, "/stop")
    assert sdk.post(who, "/archive")["state"] == "archived"
    assert sdk.post(who, "/start")["state"] == "started"


def test_an_ephemeral_one_is_gone_when_it_stops(sdk):
    who = sdk.make(autoDeleteInterval=0)["id"]
    assert sdk.post(who, "/stop?force=true")["state"] in ("destroyed", "stopped")
    assert until(lambda: sdk.ask("GET", f"/sandbox/{who}").status == 404)


def test_a_removed_one_is_seen_by_old_clients_for_a_while(daemon, sdk):
    who = sdk.make(name="lab")["id"]
    other = make_key(daemon, "other")
    try:
        sdk.call("DELETE", f"/sandbox/{who}?force=true")
        for old in (OLD, "0.103.0"):
            seen = Sdk(daemon.port, daemon.key, old).look(who)
            assert (seen["state"], seen["name"]) == ("destroyed", "lab")
        assert sdk.ask("GET", f"/sandbox/{who}").status == 404
        assert Sdk(daemon.port, daemon.key, PAGES).ask("GET", f"/sandbox/{who}").status == 404
        assert Sdk(daemon.port, other.key, OLD).ask("GET", f"/sandbox/{who}").status == 404
    finally:
        daemon.ask("DELETE", "/api/cay/api-keys/other")


# ---- changes ----

def test_changes(sdk):
    who = sdk.make()["id"]
    assert sdk.post(who, "/autostop/30")["autoStopInterval"] == 30
    assert sdk.post(who, "/autoarchive/60")["autoArchiveInterval"] == 60
    assert sdk.post(who, "/autodelete/-1")["autoDeleteInterval"] == -1
    assert sdk.post(who, "/autodelete/9")["autoDeleteInterval"] == 9
    assert sdk.post(who, "/public/true")["public"] is True
    assert sdk.post(who, "/public/false")["public"] is False
    assert "autoDestroyAt" in sdk.post(who, "/ttl/60")
    assert "autoDestroyAt" not in sdk.post(who, "/ttl/0")
    assert sdk.post(who, "/network-settings", {"networkBlockAll": True})["networkBlockAll"]
    labels = {"b": "2", "c": "x=y"}
    answer = sdk.call("PUT", f"/sandbox/{who}/labels", {"labels": labels})
    API.check("SandboxLabels", answer)
    assert answer == {"labels": labels} and sdk.look(who)["labels"] == labels
    before = sdk.look(who)["lastActivityAt"]
    answer = sdk.ask("POST", f"/sandbox/{who}/last-activity", "{}")
    assert answer.status == 201 and answer.text == ""
    assert sdk.look(who)["lastActivityAt"] > before
    url = sdk.call("GET", f"/sandbox/{who}/toolbox-proxy-url")
    assert url == {"url": sdk.look(who)["toolboxProxyUrl"]}


def test_own_attributes(sdk):
    """What Daytona has no word for, at create and by PATCH: everything that is asked for, or nothing."""
    box = sdk.make(memoryBytes="200m", cpus=0.5, pidsLimit=77, onFailure="recreate", readOnly=True, workDir="/tmp",
                   labels={"a": "1", "b": "2"})
    who = box["id"]
    assert (box["memoryBytes"], box["memory"], box["cpus"], box["cpu"]) == (200 << 20, 1, 0.5, 1)
    assert (box["pidsLimit"], box["onFailure"], box["readOnly"], box["workDir"]) == (77, "recreate", True, "/tmp")
    assert (box["engine"], box["network"], box["mounts"]) == ("native", "none", [])
    changes = {"cpus": 1.5, "memory": 1, "onFailure": "keep", "autoStopInterval": 5, "ttlMinutes": 60, "public": True,
               "labels": {"a": None, "c": "3"}}
    box = sdk.call("PATCH", f"/sandbox/{who}", changes)
    assert (box["cpus"], box["memoryBytes"], box["onFailure"], box["autoStopInterval"]) == (1.5, 1 << 30, "keep", 5)
    assert box["labels"] == {"b": "2", "c": "3"} and box["public"] and "autoDestroyAt" in box
    assert (box["pidsLimit"], box["autoDeleteInterval"]) == (77, -1)  # as they were
    refusal(sdk, 400, "pidsLimit")("PATCH", f"/sandbox/{who}", {"onFailure": "remove", "pidsLimit": 0})
    refusal(sdk, 400, "'memory'")("PATCH", f"/sandbox/{who}", {"onFailure": "remove", "memmory": 1})
    assert sdk.look(who)["onFailure"] == "keep"


def test_resize(sdk):
    who = sdk.make(cpu=1, memory=1)["id"]
    changed = sdk.post(who, "/resize", {"cpu": 2, "memory": 2})
    assert (changed["cpu"], changed["memory"]) == (2, 2)
    refusal(sdk, 400, "memory")("POST", f"/sandbox/{who}/resize", {"memory": 0})


@pytest.mark.parametrize("method, path, body, status", [
    ("POST", "/autostop/never", None, 400),
    ("POST", "/autostop/-1", None, 400),
    ("POST", "/ttl/x", None, 400),
    ("POST", "/public/maybe", None, 400),
    ("PUT", "/labels", "{}", 400),
    ("PUT", "/labels", '{"labels": []}', 400),
    ("POST", "/network-settings", '{"domainAllowList": "10.0.0.0/8"}', 400),
    ("POST", "/network-settings", "x", 400),
    ("POST", "/resize", "[1]", 400),
    ("POST", "/stop?force=perhaps", None, 400),
    ("POST", "/ssh-access?expiresInMinutes=60", None, 501),
    ("POST", "/fork", '{"name": "x"}', 501),
    ("POST", "/autopause/5", None, 501),
    ("POST", "/snapshot", "{}", 400),
    ("POST", "/snapshot", '{"name": "x", "includeMemory": true}', 501),
    ("PATCH", "/labels", None, 405),
])
def test_bad_changes(sdk, method, path, body, status):
    sdk.make(name="lab")
    refusal(sdk, status)(method, "/sandbox/lab" + path, body)
    assert sdk.look("lab")["state"] == "started"


# ---- lists ----

def make_later(sdk, **wishes):
    """One whose time of making is not that of the one before."""
    time.sleep(0.002)
    return sdk.make(**wishes)


def names(answer):
    return [box["name"] for box in answer]


def listed(sdk, **query):
    answer = sdk.call("GET", "/sandbox?" + urllib.parse.urlencode(query, doseq=True))
    API.check("ListSandboxesResponse", answer)
    assert not any("env" in box for box in answer["items"])
    return answer


def test_lists(daemon, sdk):
    for name in ("one", "two", "three"):
        make_later(sdk, name=name, labels={"n": name, "all": "y"}, public=name == "two")
    sdk.post("three", "/stop?force=true")
    assert names(listed(sdk)["items"]) == ["three", "two", "one"]
    assert names(listed(sdk, order="asc")["items"]) == ["one", "two", "three"]
    assert names(listed(sdk, sort="name", order="asc")["items"]) == ["one", "three", "two"]
    assert names(listed(sdk, labels='{"n": "two", "all": "y"}')["items"]) == ["two"]
    assert names(listed(sdk, states=["started", "error"])["items"]) == ["two", "one"]
    assert names(listed(sdk, states="stopped,forking")["items"]) == ["three"]
    assert names(listed(sdk, name="T")["items"]) == ["three", "two"]
    assert names(listed(sdk, isPublic="true")["items"]) == ["two"]
    assert names(listed(sdk, minCpu=1, snapshots="host")["items"]) == ["three", "two", "one"]
    assert listed(sdk, snapshots="other")["items"] == listed(sdk, minCpu=4000)["items"] == []
    assert listed(sdk, autoDestroyAtBefore="2100-01-01T00:00:00Z")["items"] == []

    array = Sdk(daemon.port, daemon.key, OLD).call("GET", '/sandbox?labels={"n":"one"}')
    assert names(array) == ["one"] and "env" in array[0]
    page = Sdk(daemon.port, daemon.key, PAGES).call("GET", "/sandbox/paginated?page=2&limit=2")
    API.check("PaginatedSandboxes_deprecated", page)
    assert names(page["items"]) == ["one"]
    assert (page["total"], page["page"], page["totalPages"]) == (3, 2, 2)


def test_a_list_goes_on_behind_what_was_removed_meanwhile(sdk):
    for name in "abcd":
        make_later(sdk, name=name)
    for query in ({}, {"sort": "name", "order": "asc"}):
        first = listed(sdk, limit=2, **query)
        seen = names(first["items"])
        rest = listed(sdk, limit=2, cursor=first["nextCursor"], **query)
        assert sorted(seen + names(rest["items"])) == list("abcd") and rest["nextCursor"] is None
    first = listed(sdk, limit=1)
    sdk.call("DELETE", f"/sandbox/{first['items'][0]['id']}")
    assert names(listed(sdk, cursor=first["nextCursor"])["items"]) == ["c", "b", "a"]


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=x", "cursor=x", "cursor=1:x:y",
                                   "labels=x", "labels=[]", 'labels={"a":1}', "sort=x", "order=x",
                                   "isPublic=x", "createdAtAfter=x", "minCpu=x", "states=x",
                                   "states=started,x"])
def test_bad_lists(sdk, query):
    refusal(sdk, 400, query.split("=")[0])("GET", "/sandbox?" + query)


# ---- everything else ----

def test_what_clients_ask_first(daemon):
    nobody, sdk = Sdk(daemon.port, None), Sdk(daemon.port, daemon.key)
    config = nobody.call("GET", "/config")
    API.check("DaytonaConfiguration", config)
    assert config["proxyToolboxUrl"] == f"http://127.0.0.1:{daemon.port}/toolbox"
    assert nobody.ask("GET", "/health").status == 200
    for path in ("/sandbox", "/regions", "/users/me", "/health/ready", "/config/x"):
        assert nobody.ask("GET", path).status == 401
    for path, schema in (("/regions", "Region"), ("/shared-regions", "Region"),
                         ("/organizations", "Organization")):
        rows = sdk.call("GET", path)
        assert len(rows) == 1
        API.check(schema, rows[0])
        if path != "/shared-regions":
            assert sdk.call("GET", f"{path}/{rows[0]['id']}") == rows[0]
            refusal(sdk, 404)("GET", f"{path}/nowhere")
    API.check("User", sdk.call("GET", "/users/me"))
    API.check("ApiKeyList", sdk.call("GET", "/api-keys/current"))


def test_keys(daemon):
    sdk = Sdk(daemon.port, daemon.key)
    wish = {"name": "ci", "permissions": ["write:sandboxes", "delete:sandboxes"], "expiresAt": None}
    made = sdk.call("POST", "/api-keys", wish)
    try:
        API.check("ApiKeyResponse", made)
        assert "write:sandboxes" in made["permissions"]
        assert Sdk(daemon.port, made["value"]).ask("GET", "/sandbox").status == 200
        for key in (sdk.call("GET", "/api-keys/ci"), *sdk.call("GET", "/api-keys")):
            API.check("ApiKeyList", key)
            assert made["value"] not in json.dumps(key)
    finally:
        assert sdk.ask("DELETE", "/api-keys/ci").status == 204
    refusal(sdk, 404)("GET", "/api-keys/ci")


def test_volumes(sdk):
    made = sdk.call("POST", "/volumes", {"name": "data"})
    try:
        API.check("VolumeDto", made)
        assert made["state"] == "ready"
        assert sdk.call("GET", "/volumes") == [made]
        assert sdk.call("GET", "/volumes/by-name/data") == made == sdk.call("GET",
                                                                            f"/volumes/{made['id']}")
        refusal(sdk, 409)("POST", "/volumes", {"name": "data"})
        box = sdk.make(volumes=[{"volumeId": made["id"], "mountPath": "/data"}])
        assert box["volumes"] == [{"volumeId": made["id"], "mountPath": "/data"}]
        refusal(sdk, 409)("DELETE", f"/volumes/{made['id']}")
        sdk.call("DELETE", f"/sandbox/{box['id']}")
    finally:
        assert sdk.ask("DELETE", f"/volumes/{made['id']}").status == 200
    refusal(sdk, 404)("GET", "/volumes/by-name/data")


def run(sdk, who, command):
    """What a command prints, in a sandbox."""
    client = Client(sdk.port, sdk.key)
    done = client.call("POST", f"/toolbox/{who}/process/execute", {"command": command})
    return done["exitCode"], done["result"]


def test_a_folder_in_a_volume(sdk):
    """One that is not there is made; a link that a sandbox left leads nowhere."""
    made = sdk.call("POST", "/volumes", {"name": "parts"})
    part = {"volumeId": made["id"], "mountPath": "/part", "subpath": "a/b"}
    one = sdk.make(volumes=[part], user="0")
    assert one["volumes"] == [part]
    assert run(sdk, one["id"], "echo kept >/part/x; stat -c '%u %a' /part") == (0, "0 755\n")
    whole = sdk.make(volumes=[{"volumeId": "parts", "mountPath": "/all"}])
    script = "cat /all/a/b/x; ln -s /etc /all/link; ln -s .. /all/up; echo >/all/file"
    assert run(sdk, whole["id"], script) == (0, "kept\n")
    for path, words in (("link", "link"), ("up/x", "up"), ("file", "file"), ("a/b/x", "a/b/x")):
        answer = sdk.ask("POST", "/sandbox", {"volumes": [{**part, "subpath": path}]})
        assert 400 <= answer.status < 600 and words in answer.json()["message"], answer.text
    for path in ("..", "a/../..", "a//b", "./a", "a/", "/a", "a:b"):
        refusal(sdk, 400)("POST", "/sandbox", {"volumes": [{**part, "subpath": path}]})
    assert sdk.post(one["id"], "/stop")["state"] == "stopped"
    refusal(sdk, 409)("DELETE", f"/volumes/{made['id']}")
    assert sdk.post(one["id"], "/start")["volumes"] == [part]
    assert run(sdk, one["id"], "cat /part/x") == (0, "kept\n")
    for box in (one, whole):
        sdk.ask("DELETE", f"/sandbox/{box['id']}")
    assert sdk.ask("DELETE", f"/volumes/{made['id']}").status == 200


def test_a_key_sees_its_own(daemon, sdk):
    sdk.make(name="mine")
    other = Sdk(daemon.port, make_key(daemon, "other").key)
    try:
        assert other.call("GET", "/sandbox")["items"] == []
        refusal(other, 404)("GET", "/sandbox/mine")
        refusal(other, 404)("DELETE", "/sandbox/mine")
        refusal(other, 403, "images")("POST", "/snapshots", {"name": "a", "imageName": "b"})
        refusal(other, 403, "admin")("GET", "/api-keys")
    finally:
        daemon.ask("DELETE", "/api/cay/api-keys/other")


def test_the_toolbox_of_old_clients_is_the_same(daemon, sdk):
    who = sdk.make()["id"]
    old = Sdk(daemon.port, daemon.key, OLD)
    answers = [old.ask("GET", f"/toolbox/{who}/toolbox/no/such/thing").json(),
               Client(daemon.port, daemon.key).ask("GET", f"/toolbox/{who}/no/such/thing").json()]
    for answer in answers:
        assert answer.pop("timestamp") and answer["source"] == "DAYTONA_DAEMON"
    assert answers[0] == answers[1]


# ---- snapshots ----

@pytest.fixture(scope="module")
def image(daemon):
    from test_run_image import base
    support.ok(support.cay("image", "import", "--state-dir", daemon.state, "-", "base:1",
                           input=base()))
    return "base:1"


@support.needs_ids
def test_snapshots(sdk, image):
    page = sdk.call("GET", "/snapshots?page=1&limit=10")
    API.check("PaginatedSnapshots", page)
    assert [s["name"] for s in page["items"]] == [image] and page["total"] == 1
    made = sdk.call("POST", "/snapshots", {"name": "team/mine", "imageName": image})
    API.check("SnapshotDto", made)
    assert (made["name"], made["state"]) == ("team/mine", "active")
    quoted = urllib.parse.quote("team/mine", safe="")
    assert sdk.call("GET", f"/snapshots/{quoted}") == made
    assert sdk.call("POST", f"/snapshots/{quoted}/activate") == made
    refusal(sdk, 409, "team/mine")("POST", "/snapshots", {"name": "team/mine", "imageName": image})
    refusal(sdk, 501)("POST", "/snapshots", {"name": "x", "imageName": image, "cpu": 1})
    refusal(sdk, 400)("POST", "/snapshots", {"name": "x"})
    refusal(sdk, 400)("POST", "/snapshots", {"name": "Not A Name", "imageName": image})
    refusal(sdk, 501)("POST", f"/snapshots/{quoted}/deactivate")
    assert sdk.ask("DELETE", f"/snapshots/{quoted}").status == 200
    refusal(sdk, 404, "not found")("GET", f"/snapshots/{quoted}")
    refusal(sdk, 404)("DELETE", f"/snapshots/{quoted}")
    assert sdk.call("GET", f"/snapshots/{image}")["name"] == image


@support.needs_ids
@pytest.mark.skipif(support.is_sanitized(), reason="a sanitized cay-init needs libraries of the host")
def test_a_snapshot_of_a_sandbox(daemon, sdk, image):
    who = sdk.make(snapshot=image)["id"]
    assert daemon.exec(who, "/bin/sh", "-c", "echo kept >/tmp/kept")[0] == 0
    assert sdk.post(who, "/snapshot", {"name": "kept"})["state"] == "started"
    refusal(sdk, 409)("POST", f"/sandbox/{who}/snapshot", {"name": "kept"})
    second = sdk.make(snapshot="kept")
    assert second["snapshot"] == "kept"
    assert daemon.exec(second["id"], "/bin/cat", "/tmp/kept") == (0, "kept\n")
    sdk.call("DELETE", f"/sandbox/{second['id']}")
    assert sdk.ask("DELETE", "/snapshots/kept").status == 200


# ---- the whole list ----

def operations(name, prefix):
    spec = Spec(name).json
    for path, ops in (spec["paths"] if spec else {}).items():
        for method in ops:
            if method in ("get", "post", "put", "patch", "delete"):
                yield method.upper(), prefix + re.sub(r"\{[^}]*\}", "none", path)


@pytest.mark.skipif(API.json is None, reason="Daytona's OpenAPI files are not here")
def test_every_operation_of_daytona_is_answered(daemon):
    client = Client(daemon.port, daemon.key)
    every = [*operations("api.json", "/api"), *operations("toolbox.json", "/toolbox/none")]
    assert len(every) > 250
    wrong = []
    for method, path in every:
        answer = client.ask(method, path, "{}" if method in ("POST", "PUT", "PATCH") else None)
        lost = "nothing at this path" in answer.text
        if lost or answer.status in (405, 500, 502, 503) or (answer.status >= 400 and
                                                             "message" not in answer.json()):
            wrong.append((method, path, answer.status, answer.text))
    assert not wrong
