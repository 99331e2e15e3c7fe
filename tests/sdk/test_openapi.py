"""The validator itself: it must complain of what strict clients refuse, and of nothing else."""

import json
import re
import urllib.request

import pytest
import support
from openapi import Document

BOX = {
    "type": "object", "required": ["id", "size", "why"],
    "properties": {
        "id": {"type": "string"}, "size": {"type": "integer", "minimum": 0},
        "why": {"type": "string", "nullable": True}, "load": {"type": "number"},
        "state": {"allOf": [{"$ref": "#/definitions/State"}]},
        "at": {"type": "string", "format": "date-time"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "parts": {"type": "array", "items": {"$ref": "#/definitions/Part"}},
        "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
    },
}
DOC = Document({
    "definitions": {"Box": BOX, "State": {"type": "string", "enum": ["on", "off"]},
                    "Part": {"required": ["n"], "properties": {"n": {"type": "integer"}}}},
    "paths": {
        "/box/{id}": {"get": {"responses": {"200": {"schema": {"$ref": "#/definitions/Box"}}}},
                      "delete": {"responses": {"204": {"description": "gone"}}}},
        "/box/all": {"get": {"responses": {"200": {"content": {"application/json": {"schema": {
            "type": "array", "items": {"$ref": "#/definitions/Box"}}}}}}}},
    },
})
GOOD = {"id": "a", "size": 1, "why": None}


@pytest.mark.parametrize("more", [
    {}, {"load": 1}, {"load": 1.5}, {"state": "on"}, {"at": "2026-01-02T03:04:05Z"},
    {"at": "2026-01-02T03:04:05.678+02:00"}, {"labels": {}}, {"labels": {"a": "b"}},
    {"parts": [{"n": 1}]}, {"parts": None}, {"unknown": [1]}, {"either": 1}, {"either": "x"},
])
def test_nothing_to_complain_of(more):
    assert DOC.complaints("GET", "/box/x", 200, {**GOOD, **more}) == []


@pytest.mark.parametrize("more, words", [
    ({"id": 7}, "answer.id is 7, no string"), ({"id": None}, "answer.id is null"),
    ({"size": "1"}, "no integer"), ({"size": True}, "no integer"), ({"size": 1.5}, "no integer"),
    ({"size": -1}, "below 0"), ({"state": "odd"}, "none of"), ({"at": "yesterday"}, "no time"),
    ({"at": "2026-01-02T03:04:05"}, "no time"), ({"labels": {"a": 1}}, "answer.labels.a is 1"),
    ({"labels": []}, "no object"), ({"parts": [{"n": 1}, {}]}, "answer.parts[1].n is missing"),
    ({"parts": {}}, "no array"), ({"either": []}, "alternatives"),
])
def test_complaints(more, words):
    found = DOC.complaints("GET", "/box/x", 200, {**GOOD, **more})
    assert len(found) == 1 and words in found[0], found


def test_what_is_missing():
    assert DOC.complaints("GET", "/box/x", 200, {"id": "a", "why": None}) == [
        "answer.size is missing"]
    assert DOC.complaints("GET", "/box/x", 200, {"id": "a", "size": 1}) == ["answer.why is missing"]


def test_paths_and_codes():
    assert DOC.complaints("GET", "/box/all", 200, [GOOD]) == []
    assert DOC.complaints("GET", "/box/all", 200, GOOD)
    assert DOC.complaints("DELETE", "/box/x", 204, None) == []
    assert "200" in DOC.complaints("DELETE", "/box/x", 200, {})[0]
    assert DOC.complaints("DELETE", "/box/x", 404, {"message": "?"}) == []
    assert DOC.complaints("PUT", "/box/x", 200, {}) == ["PUT /box/x is in no document"]
    assert DOC.complaints("GET", "/box/x/y", 200, {}) == ["GET /box/x/y is in no document"]


# ---- our own document ----

@pytest.fixture(scope="module")
def ask(service):
    """Sends a request; its status, and the JSON of the answer or None."""
    def send(method, path, body=None):
        request = urllib.request.Request(
            f"http://127.0.0.1:{service.port}{path}", method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {service.key}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            data = answer.read()
            return answer.status, json.loads(data) if data else None
    return send


@pytest.fixture(scope="module")
def own(ask):
    return Document(ask("GET", "/openapi.json")[1])


def operations(document):
    return [operation for methods in document.doc["paths"].values()
            for name, operation in methods.items() if name != "parameters"]


def references(value):
    if isinstance(value, dict):
        yield from [value["$ref"]] if "$ref" in value else []
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from references(item)


def test_our_own_is_whole(own):
    """Each reference leads somewhere, each shape is used, and each row of the table is served."""
    used = set(references(own.doc))
    known = {f"#/components/schemas/{name}" for name in own.doc["components"]["schemas"]}
    assert used == known
    table = (support.ROOT / "src/api/openapi_calls.c").read_text()
    rows = len(re.findall(r'^    \{"[A-Z]+",', table, re.M))
    described = [o for o in operations(own) if any(s.isdigit() for s in o["responses"])]
    assert len(described) == rows > 120
    assert len(described) > 0.7 * len(operations(own))


def test_our_own_answers(own, ask):
    """Those that Daytona's documents know are held against ours too, where they are replayed."""
    wrong = []

    def look(method, path, body=None):
        status, answer = ask(method, path, body)
        assert own.describes(method, path.partition("?")[0]), path
        wrong.extend(f"{method} {path}: {c}" for c in
                     own.complaints(method, path.partition("?")[0], status, answer))
        return answer

    box = look("POST", "/api/cay/sandbox", {"labels": {"a": "b"}})["id"]
    for path in ("", "/stats", "/events"):
        look("GET", f"/api/cay/sandbox/{box}{path}")
    for path in ("stop", "start", "pause", "resume", "autostop/5"):
        look("POST", f"/api/cay/sandbox/{box}/{path}")
    look("POST", f"/api/cay/sandbox/{box}/rename", {"name": "described"})
    look("PUT", f"/api/cay/sandbox/{box}/labels", {"labels": {"c": "d"}})
    look("GET", f"/api/sandbox/{box}/signing-key")
    volume = look("POST", "/api/cay/volumes", {"name": "described"})["id"]
    look("GET", f"/api/cay/volumes/{volume}")
    look("POST", "/api/cay/api-keys", {"name": "described"})
    for path in ("sandbox", "status", "volumes", "api-keys", "api-keys/described", "audit",
                 "audit/verify"):
        look("GET", f"/api/cay/{path}")
    look("DELETE", f"/api/cay/sandbox/{box}?force=true")
    look("DELETE", f"/api/cay/volumes/{volume}")
    look("DELETE", "/api/cay/api-keys/described")
    assert wrong == []
