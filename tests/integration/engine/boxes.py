"""A sandbox as a client sees it, whatever its engine: commands by the protocol of cay-init, files by
HTTP, folders by `cay cp`."""

import contextlib
import json
import time
import urllib.parse
from dataclasses import dataclass

import launching
from launching import CREDIT, DONE, ERROR, INPUT, INPUT_END, STARTED, STDERR, STDOUT, fields_of

CHUNK = 60000
TIMED_OUT = 124


@dataclass
class Done:
    """The end of a command."""

    code: int
    out: bytes
    err: bytes
    last: dict  # the fields of the last frame
    started: bool

    @property
    def text(self):
        return self.out.decode()


@dataclass
class Reply:
    status: int
    headers: dict
    body: bytes

    def json(self):
        return json.loads(self.body)


class Command(launching.Connection):
    """A command under way, with the defaults of its sandbox."""

    def __init__(self, daemon, who):
        sock, headers = daemon.upgrade(who)
        super().__init__(sock)
        pairs = [line.split(": ", 1) for line in headers]
        self.defaults = dict(pairs)
        self.env = [urllib.parse.unquote(value) for name, value in pairs if name == "X-Cay-Env"]

    def begin(self, argv, env=(), **fields):
        """Asks for it; fields are those of the protocol and go before the defaults."""
        defaults = {"USER": self.defaults.get("X-Cay-User"),
                    "CWD": self.defaults.get("X-Cay-Work-Dir")}
        fields = {**{k: v for k, v in defaults.items() if v}, **fields}
        given = {pair.split("=", 1)[0] for pair in env}
        base = [e for e in (self.env if any(e.startswith("PATH=") for e in self.env) else
                            ["PATH=/usr/local/bin:/usr/bin:/bin", *self.env])
                if e.split("=", 1)[0] not in given]
        self.request(launching.EXEC, *[("ARG", word) for word in argv],
                     *[("ENV", pair) for pair in [*base, *env]], *fields.items())

    def feed(self, data):
        """All of it; not more than the credit at the start allows. A command may end before that."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for at in range(0, len(data), CHUNK):
                self.send(INPUT, data[at:at + CHUNK])
            self.send(INPUT_END)

    def end(self):
        streams, started = {STDOUT: bytearray(), STDERR: bytearray()}, False
        while True:
            kind, payload = self.receive()
            if kind in streams:
                streams[kind] += payload
            elif kind == STARTED:
                started = True
            elif kind in (DONE, ERROR):
                last = fields_of(payload)
                return Done(last.get("EXIT"), *map(bytes, streams.values()), last, started)
            else:
                assert kind == CREDIT, "the connection broke off"


class Box:
    def __init__(self, engine, about):
        self.engine, self.daemon = engine, engine.daemon
        self.about = about
        self.id = about["id"]

    # ---- life ----

    def do(self, verb, query=""):
        return self.daemon.call("POST", f"/api/cay/sandbox/{self.id}/{verb}{query}", {})

    def info(self):
        return self.daemon.call("GET", f"/api/cay/sandbox/{self.id}")

    def stats(self):
        return self.daemon.call("GET", f"/api/cay/sandbox/{self.id}/stats")

    def remove(self):
        self.daemon.call("DELETE", f"/api/cay/sandbox/{self.id}?force=true")

    # ---- commands ----

    def command(self, *argv, env=(), **fields):
        c = Command(self.daemon, self.id)
        c.begin(argv, env, **fields)
        return c

    def run(self, *argv, input=None, env=(), **fields):
        if input is not None:
            fields["STDIN"] = 1
        with self.command(*argv, env=env, **fields) as c:
            if input is not None:
                c.feed(input)
            return c.end()

    def sh(self, script, **more):
        return self.run("sh", "-c", script, **more)

    def says(self, script, **more):
        """The output of a script that must succeed."""
        done = self.sh(script, **more)
        assert done.code == 0, done
        return done.text

    def alive(self, mark):
        """How many processes have this word in their arguments, our own search left out."""
        script = "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; echo; done 2>/dev/null"
        return sum(mark in line and "/proc/" not in line
                   for line in self.sh(script).text.splitlines())

    def gone(self, mark, seconds=60):
        return launching.until(lambda: self.alive(mark) == 0, seconds)

    def has(self, program):
        return self.sh(f"command -v {program}").code == 0

    # ---- files ----

    def http(self, method, path, body=None, **headers):
        connection = self.daemon.http(120)
        try:
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, f"/toolbox/{self.id}{path}", body, names)
            answer = connection.getresponse()
            return Reply(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def file(self, method, what, body=None, **query):
        return self.http(method, f"/files{what}?{urllib.parse.urlencode(query)}", body)

    def put(self, path, data):
        reply = self.file("POST", "/upload-v2", data, path=path)
        assert reply.status == 200, reply
        return reply

    def get(self, path):
        reply = self.file("GET", "/download", path=path)
        assert reply.status == 200, reply
        return reply.body

    def execute(self, command, **more):
        return self.http("POST", "/process/execute", json.dumps({"command": command, **more}),
                         Content_Type="application/json")

    def cp(self, source, target):
        return self.engine.cay("cp", source, target)


def seconds_of(function):
    began = time.monotonic()
    function()
    return time.monotonic() - began
