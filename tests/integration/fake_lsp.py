#!/usr/bin/python3
"""A language server for tests. It takes what it does from the name of the project: "/tmp/lsp-tree" answers as
a tree."""
import json, os, sys
mode = os.getcwd().rsplit("-", 1)[-1]
log = open("log", "a")

def read():
    length = 0
    while (line := sys.stdin.buffer.readline().strip()):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return json.loads(sys.stdin.buffer.read(length)) if length else None

def write(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()

def say(**message):
    text = json.dumps({"jsonrpc": "2.0", **message}).encode()
    write(b"Content-Type: x\r\ncontent-length: %d\r\n\r\n" % len(text) + text)

documents = {}

def symbols(uri):
    position = {"line": 1, "character": 2}
    area = {"start": position, "end": position}
    if mode == "tree":
        leaf = {"name": "method", "kind": 6, "range": area, "selectionRange": area}
        return [{"name": "class", "kind": 5, "range": area, "selectionRange": area, "children": [leaf]}]
    return [{"name": word, "kind": 12, "location": {"uri": uri, "range": area}, "containerName": None}
            for word in documents[uri].split()] + [{"name": 1, "kind": "x"}, "nonsense", None]

def answer(method, params):
    if method == "initialize":
        return {"capabilities": {}}
    if method == "textDocument/documentSymbol":
        return symbols(params["textDocument"]["uri"])
    if method == "workspace/symbol":
        return symbols(next(iter(documents))) if params["query"] == "all" else None
    if method == "textDocument/completion":
        items = [{"label": documents[params["textDocument"]["uri"]], "kind": 3, "detail": "d", "sortText": "s",
                  "documentation": {"kind": "markdown", "value": "v"}, "insertText": "n", "textEdit": {"newText": "t"}},
                 {"label": json.dumps([params["position"], params["context"]]), "kind": "x", "detail": 7,
                  "documentation": "text"}, {"kind": 1}, 17]
        return items if mode == "array" else {"isIncomplete": True, "items": items}
    return None

if mode == "garbage":
    write(b"Hello, I am no server\r\n\r\n")
if mode == "huge":
    write(b"Content-Length: 99999999999\r\n\r\n{")
if mode == "flood":
    while True:
        write(b"x" * 65536)
if mode == "dies":
    print("no licence for you", file=sys.stderr)
    sys.exit(3)
while (message := read()):
    method, params = message.get("method"), message.get("params")
    log.write(json.dumps([method, "id" in message, params]) + "\n")
    log.flush()
    if method == "textDocument/didOpen":
        document = params["textDocument"]
        documents[document["uri"]] = document["text"]
        say(method="textDocument/publishDiagnostics", params={"text": "d" * 300000})  # more than a pipe holds
    if method == "textDocument/didClose":
        del documents[params["textDocument"]["uri"]]
    if method is None or "id" not in message:
        continue
    if mode == "asks" and method != "initialize":
        say(id="mine", method="workspace/configuration", params={})
        assert read() == {"jsonrpc": "2.0", "id": "mine", "result": None}
        say(id=message["id"] + 1000, result="of nothing")
    if mode == "mute" and method == "textDocument/completion":
        continue
    if mode == "breaks" and method == "textDocument/completion":
        write(b"Content-Length: 7\r\n\r\n{\"a\": [")
        continue
    if mode == "unwilling":
        say(id=message["id"], error={"code": -32603, "message": "no compiler here"})
    elif mode == "refuses" and method.startswith("textDocument"):
        say(id=message["id"], error={"code": -32803, "message": "not today"})
    elif mode == "refuses" and method.startswith("workspace"):
        say(id=message["id"], error={"code": -32601, "message": "Method Not Found"})
    else:
        say(id=message["id"], result=answer(method, params))
