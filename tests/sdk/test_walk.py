"""Every operation of Daytona's documents is asked for: what cay does not have says so."""

import re

import pytest
import support
from openapi import Document
from replay import Client, needs_specs

pytestmark = needs_specs

ARGUMENTS = {"port": "4000", "interval": "30", "ttlMinutes": "60", "isPublic": "false"}
SOCKETS = ("/connect", "/create-connect", "/socket.io")  # these wait for an upgrade


def operations(document):
    return [(method.upper(), path) for path, methods in document.doc["paths"].items()
            for method in methods if method in ("get", "post", "put", "patch", "delete")]


def walk(client, top, document):
    """Those that answer what no client can work with."""
    wrong = []
    for method, path in operations(document):
        filled = re.sub(r"\{(\w+)\}", lambda m: ARGUMENTS.get(m[1], "none"), path)
        reply = client.send(method, top + filled, {} if method != "GET" else None)
        line = f"{method} {path} -> {reply.status} {reply.body[:120]!r}"
        if reply.status >= 500 and reply.status != 501:
            wrong.append(line)
        elif reply.status >= 400:
            says = reply.json()
            if says.get("statusCode") != reply.status or not says.get("message"):
                wrong.append(line)
    return wrong


@pytest.fixture
def client(service):
    return Client(service)


@pytest.fixture
def box(client):
    made = client.ask("POST", "/api/sandbox", {"env": {}, "volumes": []}, 200)
    client.finish()
    yield made["id"]
    client.send("DELETE", f"/api/sandbox/{made['id']}")


def test_control_plane(client):
    assert walk(client, "/api", client.documents["/api"]) == []


def test_toolbox(client, box):
    assert walk(client, f"/toolbox/{box}", client.documents["/toolbox"]) == []


def test_what_the_document_says_is_not_there(client, box):
    """501, not 404, which would say that the thing asked for does not exist."""
    page = (support.ROOT / "docs/daytona.md").read_text().partition("## What is not there")[2]
    rows = re.findall(r"^\| `(\w+) (\S+)` \|", page, re.M)
    assert len(rows) >= 10
    wrong = []
    for method, path in rows:
        reply = client.send(method, path.replace("{id}", box), {} if method != "GET" else None)
        if reply.status != 501 or "cay does not have" not in reply.json()["message"]:
            wrong.append(f"{method} {path} -> {reply.status} {reply.body[:120]!r}")
    assert wrong == []


def test_our_own_document(client):
    """What it lists is served: none of it is unknown, or absent."""
    document = Document(client.send("GET", "/openapi.json").json())
    listed = operations(document)
    assert ("POST", "/api/sandbox") in listed and ("GET", "/openapi.json") in listed
    wrong = []
    for method, path in listed:
        if path.endswith(SOCKETS) or path.startswith("/preview"):
            continue
        filled = re.sub(r"\{(\w+)\}", lambda m: ARGUMENTS.get(m[1], "none"), path)
        reply = client.send(method, filled, {} if method != "GET" else None)
        if reply.status in (405, 501) or b"nothing at this path" in reply.body:
            wrong.append(f"{method} {path} -> {reply.status} {reply.body[:120]!r}")
    assert wrong == []
