"""The validator itself: it must complain of what strict clients refuse, and of nothing else."""

import pytest
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
