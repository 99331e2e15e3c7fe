"""Runs of code in contexts, over the WebSocket that Daytona's clients use."""

import json

from websocket import open_unix


class Run:
    """One run: what came of it."""

    def __init__(self, daemon, base, request):
        self.socket = open_unix(daemon.socket, base + "/process/interpreter/execute")
        self.socket.send(json.dumps(request))
        self.messages = []

    def next(self):
        """The next message, or None at the end."""
        text = self.socket.receive()
        if text is None:
            return None
        self.messages.append(json.loads(text))
        return self.messages[-1]

    def until(self, wanted):
        """Reads until the output so far holds a text."""
        while wanted not in self.out + self.err:
            assert self.next() is not None, self.messages

    def end(self):
        while self.next() is not None:
            pass
        self.socket.close()
        return self

    def say(self, **message):
        self.socket.send(json.dumps(message))

    def drop(self):
        self.socket.close()

    def all(self, kind):
        return [m for m in self.messages if m["type"] == kind]

    def text(self, kind):
        return "".join(m["text"] for m in self.all(kind))

    @property
    def out(self):
        return self.text("stdout")

    @property
    def err(self):
        return self.text("stderr")

    @property
    def error(self):
        assert len(self.all("error")) <= 1
        return next(iter(self.all("error")), None)

    @property
    def results(self):
        return self.all("result")

    @property
    def notices(self):
        return self.text("notice")

    @property
    def control(self):
        return [m["text"] for m in self.all("control")]

    @property
    def closed(self):
        return self.socket.closed


class Context:
    """A context of a sandbox; id None: the default one."""

    def __init__(self, daemon, base, id_=None):
        self.daemon = daemon
        self.base = base
        self.id = id_

    def begin(self, code=None, **more):
        request = {"code": code} if code is not None else {}
        if self.id is not None:
            request["contextId"] = self.id
        return Run(self.daemon, self.base, {**request, **more})

    def run(self, code, **more):
        return self.begin(code, **more).end()

    def out(self, code, **more):
        """What good code prints."""
        run = self.run(code, **more)
        assert run.error is None and run.control[-1] == "completed", run.messages
        return run.out

    def interrupt(self):
        return self.daemon.ask("POST", f"{self.base}/process/interpreter/context/{self.id}/interrupt")

    def delete(self):
        return self.daemon.ask("DELETE", f"{self.base}/process/interpreter/context/{self.id}")


class Interpreter:
    """The contexts of one sandbox."""

    def __init__(self, daemon, name, **wishes):
        self.daemon = daemon
        self.id = daemon.create(name=name, **wishes)["id"]
        self.base = f"/toolbox/{self.id}"
        self.default = Context(daemon, self.base)

    def ask(self, method, path, body=None):
        return self.daemon.ask(method, self.base + "/process/interpreter" + path, body)

    def create(self, **wishes):
        answer = self.ask("POST", "/context", wishes)
        assert answer.status == 200, answer.text
        return Context(self.daemon, self.base, answer.json()["id"])

    def list(self):
        answer = self.ask("GET", "/context")
        assert answer.status == 200, answer.text
        return answer.json()["contexts"]
