"""Sandboxes for untrusted code: a client of the cay daemon.

    from cay import Sandbox

    with Sandbox() as box:
        print(box.run("uname -a").stdout)
        box.write("data.csv", "a,b\\n1,2\\n")
        print(box.python("import csv; list(csv.reader(open('data.csv')))").text)

This file needs Python 3.10 or newer and nothing but its standard library. It talks to the daemon of
this machine over its unix socket, and starts that daemon if none runs; CAY_HOST and CAY_API_KEY name
a daemon elsewhere (http://, https:// or unix://). AsyncSandbox has the same methods as coroutines.
docs/clients.md describes both.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import contextvars
import functools
import hashlib
import http.client
import io
import json
import os
import posixpath
import select
import signal as signals
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Concatenate, ParamSpec, TypeVar, Union
from urllib.parse import quote, unquote, urlencode, urlsplit

__all__ = ["AsyncSandbox", "CayError", "Client", "CommandError", "CommandResult", "ConflictError",
           "CodeError", "Context", "FileInfo", "ForbiddenError", "InvalidArgumentError", "LimitReachedError",
           "NotFoundError", "Process", "PythonError", "PythonResult", "Sandbox", "Session",
           "TimeoutExceededError", "UnauthorizedError", "UnavailableError", "UnsupportedError",
           "Volume", "create_volume", "delete_volume", "run", "run_python",
           "volumes"]

Command = Union[str, Sequence[str]]
Data = Union[str, bytes]
Json = dict[str, Any]


# ---- errors ----


class CayError(Exception):
    """What the daemon refused or could not do. `remedy` says what to do about it, or is empty."""

    def __init__(self, message: str, *, code: str = "internal", remedy: str = "", status: int = 0,
                 retry_after: float | None = None):
        super().__init__(f"{message}; {remedy}" if remedy else message)
        self.message = message
        self.code = code
        self.remedy = remedy
        self.status = status
        self.retry_after = retry_after


class NotFoundError(CayError):
    """There is no such sandbox, file, image or volume, or it belongs to another key."""


class ConflictError(CayError):
    """It exists already, or its state does not allow this."""


class InvalidArgumentError(CayError):
    """The request is wrong."""


class LimitReachedError(CayError):
    """A limit is reached. `retry_after` is the number of seconds to wait, if waiting helps."""


class TimeoutExceededError(CayError):
    """It took longer than allowed."""


class UnsupportedError(CayError):
    """The engine, the image or the daemon cannot do this."""


class UnauthorizedError(CayError):
    """The key is missing or invalid."""


class ForbiddenError(CayError):
    """The key may not do this."""


class UnavailableError(CayError):
    """The daemon cannot be reached, or cannot do its work now."""


class CommandError(CayError):
    """A command failed, and the caller asked for an exception. `result` has its output."""

    def __init__(self, result: CommandResult):
        last = (result.stderr or result.stdout).strip().rpartition("\n")[2]
        super().__init__(f"exit code {result.exit_code}" + (f": {last}" if last else ""), code="command")
        self.result = result


class PythonError(CayError):
    """Code raised an exception, and the caller asked for it. `result` has its output."""

    def __init__(self, result: PythonResult):
        name, value = (result.error.name, result.error.value) if result.error else ("no result", "")
        super().__init__(f"{name}: {value}", code="python")
        self.result = result


_CLASSES: dict[str, type[CayError]] = {
    "not_found": NotFoundError, "conflict": ConflictError, "invalid_argument": InvalidArgumentError,
    "limit_reached": LimitReachedError, "timeout": TimeoutExceededError,
    "unsupported": UnsupportedError, "unauthorized": UnauthorizedError,
    "forbidden": ForbiddenError, "unavailable": UnavailableError,
}
_CODES = {400: "invalid_argument", 401: "unauthorized", 403: "forbidden", 404: "not_found",
          408: "timeout", 409: "conflict", 429: "limit_reached", 501: "unsupported",
          503: "unavailable", 504: "timeout", 507: "resource_exhausted"}
_WIRE_CODES = ["ok", "not_found", "conflict", "invalid_argument", "limit_reached", "timeout",
               "resource_exhausted", "unsupported", "unauthorized", "forbidden", "unavailable",
               "internal"]


def _error(code: str, message: str, **more: Any) -> CayError:
    return _CLASSES.get(code, CayError)(message, code=code, **more)


def _http_error(status: int, body: bytes, retry_after: str | None = None) -> CayError:
    """Error codes of the toolbox differ from those of the API; the status gives the class."""
    code = _CODES.get(status, "internal")
    text = body.decode(errors="replace").strip()
    try:
        answer = json.loads(text)
        message, remedy = str(answer["message"]), str(answer.get("remedy") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        message, remedy = text[:500] or f"HTTP status {status}", ""
    message = message.removesuffix("; " + remedy) if remedy else message
    seconds = float(retry_after) if retry_after and retry_after.isdigit() else None
    return _error(code, message, remedy=remedy, status=status, retry_after=seconds)


# ---- connections ----


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float | None):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(self.timeout)
        try:
            sock.connect(self.path)
        except OSError:
            sock.close()
            raise
        self.sock = sock


# The connection that the current call uses, so that AsyncSandbox can cut it off.
_in_use: contextvars.ContextVar[list[socket.socket] | None] = contextvars.ContextVar("in_use",
                                                                                    default=None)


def _announce(sock: socket.socket) -> None:
    holder = _in_use.get()
    if holder is not None:
        holder[:] = [sock]


def _state_dir() -> str:
    given = os.environ.get("CAY_STATE_DIR")
    if given:
        return os.path.abspath(given)
    if os.geteuid() == 0:
        return "/var/lib/cay"
    state = os.environ.get("XDG_STATE_HOME", "")
    return os.path.join(state, "cay") if state.startswith("/") \
        else os.path.expanduser("~/.local/state/cay")


class Client:
    """A daemon, and keep-alive connections to it. Threads may share one.

    host: unix:///path, http://host:port or https://host; CAY_HOST, or this machine's own daemon.
    key: an API key; CAY_API_KEY. The unix socket needs none.
    ca_file: certificates to trust instead of the system's.
    timeout: seconds without a byte after which a request fails; None waits.
    grace: seconds beyond the time limit of a command after which a sandbox that ignores it is hung up on.
    """

    def __init__(self, host: str | None = None, key: str | None = None, *,
                 ca_file: str | None = None, timeout: float | None = None, grace: float = 30.0):
        given = host or os.environ.get("CAY_HOST")
        self.is_own = given is None
        self.host = given or f"unix://{_state_dir()}/daemon/cay.sock"
        self.key = key if key is not None else os.environ.get("CAY_API_KEY", "")
        self.timeout = timeout
        self.grace = grace
        self._url = urlsplit(self.host)
        if self._url.scheme not in ("unix", "http", "https"):
            raise InvalidArgumentError(f"invalid host '{self.host}'", code="invalid_argument",
                                       remedy="give unix:///PATH, http://HOST:PORT or https://HOST")
        self._tls = ssl.create_default_context(cafile=ca_file) if self._url.scheme == "https" else None
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def _new(self) -> http.client.HTTPConnection:
        url = self._url
        if url.scheme == "unix":
            return _UnixConnection(url.path, self.timeout)
        if self._tls is not None:
            return http.client.HTTPSConnection(url.hostname or "", url.port, timeout=self.timeout,
                                               context=self._tls)
        return http.client.HTTPConnection(url.hostname or "", url.port, timeout=self.timeout)

    def _connect(self) -> http.client.HTTPConnection:
        connection = self._new()
        try:
            connection.connect()
        except (FileNotFoundError, ConnectionRefusedError) as e:
            if not self.is_own:
                raise self._unreachable(e) from e
            self._start_daemon()
            connection.connect()
        except OSError as e:
            raise self._unreachable(e) from e
        return connection

    def _unreachable(self, e: OSError) -> CayError:
        return _error("unavailable", f"cannot connect to {self.host}: {e}",
                      remedy="start it with 'cay serve', or correct CAY_HOST")

    def _start_daemon(self) -> None:
        """Any verb starts the daemon and waits until it serves."""
        program = os.environ.get("CAY_PROGRAM", "cay")
        try:
            done = subprocess.run([program, "ls"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        except OSError as e:
            raise _error("unavailable", f"no daemon runs, and '{program}' cannot be started: {e}",
                         remedy="install cay, or name its program in CAY_PROGRAM") from e
        if done.returncode != 0:
            raise _error("unavailable", done.stderr.strip().removeprefix("cay: ") or "cay failed",
                         remedy="start the daemon with 'cay serve'")

    def _headers(self, more: Mapping[str, str]) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        return {**headers, **more}

    def close(self) -> None:
        """Closes idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def open(self, method: str, path: str, body: Any = None, *, query: Mapping[str, Any] | None = None,
             headers: Mapping[str, str] | None = None) -> "_Answer":
        """Sends a request; its answer is read by the caller, who closes it. Raises CayError."""
        if query:
            path += "?" + urlencode({k: v for k, v in query.items() if v is not None})
        more = dict(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            more["Content-Type"] = "application/json"
        is_repeatable = method in ("GET", "HEAD", "PUT", "DELETE") and not hasattr(body, "read")
        while True:
            connection = self._take_idle()
            is_kept = connection is not None
            if connection is None:
                connection = self._connect()
            _announce(connection.sock)
            try:
                connection.request(method, path, body, self._headers(more))
                answer = connection.getresponse()
            except (OSError, http.client.HTTPException) as e:
                connection.close()
                if is_kept and is_repeatable and isinstance(e, ConnectionError):
                    continue  # the daemon closed an idle connection just now
                raise self._failed(e) from e
            if answer.status >= 400:
                text = answer.read()
                self._keep(connection, answer)
                raise _http_error(answer.status, text, answer.headers.get("Retry-After"))
            return _Answer(self, connection, answer)

    def _failed(self, e: Exception) -> CayError:
        if isinstance(e, TimeoutError):
            return _error("timeout", f"no answer from {self.host} within {self.timeout} s")
        return _error("unavailable", f"{self.host} closed the connection before it answered: {e}",
                      remedy="look whether the request was carried out before you repeat it")

    def _take_idle(self) -> http.client.HTTPConnection | None:
        """A kept connection that the daemon has not closed."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            readable, _, _ = select.select([connection.sock], [], [], 0)
            if not readable:
                return connection
            connection.close()

    def _keep(self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> None:
        if answer.will_close or not answer.isclosed():
            connection.close()
            return
        with self._lock:
            self._idle.append(connection)

    def call(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """What a request answers: decoded JSON, or None if it has no content."""
        with self.open(method, path, body, **more) as answer:
            text = answer.read()
        return json.loads(text) if text.strip() else None

    def upgrade(self, path: str, headers: Mapping[str, str]) \
            -> tuple[socket.socket, bytes, http.client.HTTPMessage]:
        """A new connection that speaks another protocol: socket, first bytes, headers."""
        connection = self._connect()
        sock = connection.sock
        _announce(sock)
        try:
            lines = [f"GET {path} HTTP/1.1", f"Host: {self._url.netloc or 'localhost'}"]
            lines += [f"{k}: {v}" for k, v in self._headers({"Connection": "Upgrade", **headers}).items()]
            sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
            data = b""
            while b"\r\n\r\n" not in data:
                more = sock.recv(65536)
                if not more or len(data) > 4 << 20:
                    raise _error("unavailable", f"{self.host} closed the connection")
                data += more
            head, _, rest = data.partition(b"\r\n\r\n")
            first, _, fields = head.partition(b"\r\n")
            parsed = http.client.parse_headers(io.BytesIO(fields + b"\r\n\r\n"))
            status = int(first.split()[1])
            if status != 101:
                length = int(parsed.get("Content-Length") or 0)
                while len(rest) < min(length, 1 << 20):
                    more = sock.recv(65536)
                    if not more:
                        break
                    rest += more
                raise _http_error(status, rest, parsed.get("Retry-After"))
            return sock, rest, parsed
        except BaseException:
            sock.close()
            raise


class _Answer:
    """An answer whose body is still to be read."""

    def __init__(self, client: Client, connection: http.client.HTTPConnection,
                 response: http.client.HTTPResponse):
        self.client = client
        self.connection = connection
        self.response = response
        self.headers = response.headers

    def read(self, size: int | None = None) -> bytes:
        try:
            return self.response.read() if size is None else self.response.read(size)
        except (http.client.IncompleteRead, OSError) as e:
            raise _error("unavailable", f"the answer of {self.client.host} was cut off") from e

    def __enter__(self) -> "_Answer":
        return self

    def __exit__(self, *_: object) -> None:
        self.client._keep(self.connection, self.response)


class _Late(Exception):
    """The sandbox did not keep a time limit."""


class _Deadline:
    """The host's own end of a command: its time limit and the client's grace; None: there is no limit."""

    def __init__(self, client: Client, timeout: float | None):
        self.limit = client.timeout
        self.at = None if timeout is None else time.monotonic() + timeout + client.grace

    def receive(self, sock: socket.socket, size: int) -> bytes:
        """As recv(), or _Late."""
        if self.at is None:
            return sock.recv(size)
        left = self.at - time.monotonic()
        if left <= 0:
            raise _Late
        sock.settimeout(left if self.limit is None else min(left, self.limit))
        try:
            return sock.recv(size)
        except TimeoutError:
            if time.monotonic() < self.at:
                raise
            raise _Late from None


class _WebSocket:
    """A client of RFC 6455."""

    TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
    MAX = 64 << 20

    def __init__(self, client: Client, path: str, timeout: float | None = None):
        self._deadline = _Deadline(client, timeout)
        key = base64.b64encode(os.urandom(16)).decode()
        self.sock, self.buffer, headers = client.upgrade(path, {
            "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key})
        self.close_code = 1006
        self.close_reason = ""
        proof = hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
        if headers.get("Sec-WebSocket-Accept") != base64.b64encode(proof).decode():
            self.sock.close()
            raise _error("unavailable", f"{client.host} does not speak WebSocket")

    def _take(self, count: int) -> bytes:
        while len(self.buffer) < count:
            data = self._deadline.receive(self.sock, 65536)
            if not data:
                raise _error("unavailable", "the daemon closed the connection")
            self.buffer += data
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def send(self, text: str | bytes, opcode: int = TEXT) -> None:
        data = text.encode() if isinstance(text, str) else text
        length = struct.pack(">B", 0x80 | len(data)) if len(data) < 126 else \
            struct.pack(">BH", 0x80 | 126, len(data)) if len(data) < 65536 else \
            struct.pack(">BQ", 0x80 | 127, len(data))
        # A mask protects proxies from scripts of browsers; zeros are a valid one.
        self.sock.sendall(bytes([0x80 | opcode]) + length + bytes(4) + data)

    def messages(self) -> Iterator[bytes]:
        whole = b""
        while True:
            first, second = self._take(2)
            length = second & 0x7F
            if length > 125:
                length = int.from_bytes(self._take(2 if length == 126 else 8), "big")
            if length + len(whole) > self.MAX:
                raise _error("unavailable", "the daemon sent a message that is too long")
            data = self._take(length)
            opcode = first & 0x0F
            if opcode == self.PING:
                self.send(data, self.PONG)
            elif opcode == self.CLOSE:
                self.close_code = int.from_bytes(data[:2], "big") if data else 1005
                self.close_reason = data[2:].decode(errors="replace")
                with contextlib.suppress(OSError):
                    self.send(data[:2], self.CLOSE)
                return
            elif opcode != self.PONG:
                whole += data
                if first & 0x80:
                    yield whole
                    whole = b""

    def close(self) -> None:
        self.sock.close()


# ---- commands ----


@dataclass
class CommandResult:
    """How a command ended, and what it printed."""

    exit_code: int
    stdout_bytes: bytes = b""
    stderr_bytes: bytes = b""
    timed_out: bool = False
    truncated: bool = False
    signal: int = 0
    seconds: float = 0.0

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode(errors="replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode(errors="replace")

    def check(self) -> "CommandResult":
        """Itself, or CommandError if the exit code is not 0."""
        if self.exit_code != 0:
            raise CommandError(self)
        return self


class _Wire:
    """Frames and fields of docs/protocol.md."""

    REQUEST, INPUT, INPUT_END, SIGNAL = 1, 2, 3, 4
    STARTED, STDOUT, STDERR, DONE, ERROR, CREDIT = 16, 17, 18, 20, 21, 22
    TAGS = {"version": 1, "op": 2, "user": 3, "arg": 4, "env": 5, "cwd": 6, "stdin": 10,
            "timeout_ms": 11, "output_max": 13, "count": 27, "signal": 29, "exit": 31, "reason": 32,
            "code": 33, "message": 35, "remedy": 36, "truncated": 39, "elapsed_us": 42}
    NAMES = {number: name for name, number in TAGS.items()}
    STRINGS = {"user", "arg", "env", "cwd", "message", "remedy"}
    CREDIT_START = 256 * 1024
    DATA_MAX = 64 * 1024
    MESSAGE_MAX = 4 << 20

    @classmethod
    def field(cls, name: str, value: str | int) -> bytes:
        data = value.encode(errors="surrogateescape") + b"\0" if isinstance(value, str) \
            else struct.pack("<Q", value)
        return struct.pack("<HI", cls.TAGS[name], len(data)) + data

    @classmethod
    def fields(cls, payload: bytes) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while payload:
            if len(payload) < 6:
                raise _error("unavailable", "the sandbox sent a malformed answer")
            tag, length = struct.unpack_from("<HI", payload)
            value, payload = payload[6:6 + length], payload[6 + length:]
            name = cls.NAMES.get(tag)
            if name in cls.STRINGS:
                found[name] = value[:-1].decode(errors="replace")
            elif name is not None:
                found[name] = int.from_bytes(value, "little")
        return found

    @staticmethod
    def frame(kind: int, payload: bytes = b"") -> bytes:
        return struct.pack("<IB3x", len(payload), kind) + payload


class Process:
    """A command that runs. Iterate over it for its output as it comes: ("stdout" or "stderr", bytes).

    It ends with this connection: leave the `with` block, or close(), and it is killed.
    """

    def __init__(self, client: Client, who: str, command: Command, *, cwd: str | None = None,
                 env: Mapping[str, str] | None = None, user: str | None = None,
                 timeout: float | None = None, output_max: int = 0, stdin: bool = False):
        self.sock, self._buffer, headers = client.upgrade(
            f"/api/cay/sandbox/{quote(who, safe='')}/connect", {"Upgrade": "cay-init"})
        self.result: CommandResult | None = None
        self._credit = _Wire.CREDIT_START
        self._output_max = output_max
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._deadline = _Deadline(client, timeout)
        try:
            self._request(headers, command, cwd, env, user, timeout, output_max, stdin)
        except BaseException:
            self.close()
            raise

    def _request(self, headers: http.client.HTTPMessage, command: Command, cwd: str | None,
                 env: Mapping[str, str] | None, user: str | None, timeout: float | None,
                 output_max: int, stdin: bool) -> None:
        """The daemon names the sandbox's defaults in its answer; what the caller gives comes first."""
        values = dict(unquote(entry).partition("=")[::2] for entry in headers.get_all("X-Cay-Env") or [])
        values.update(env or {})
        user = user or unquote(headers.get("X-Cay-User") or "")
        default = unquote(headers.get("X-Cay-Work-Dir") or "")
        cwd = posixpath.join(default or "/", cwd) if cwd else default
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        payload = _Wire.field("version", 1) + _Wire.field("op", 2)
        payload += b"".join(_Wire.field("arg", word) for word in argv)
        payload += b"".join(_Wire.field("env", f"{k}={v}") for k, v in values.items())
        if user:
            payload += _Wire.field("user", user)
        if cwd:
            payload += _Wire.field("cwd", cwd)
        if timeout is not None:
            payload += _Wire.field("timeout_ms", max(1, round(timeout * 1000)))
        if output_max:
            payload += _Wire.field("output_max", output_max)
        payload += _Wire.field("stdin", int(stdin))
        self._send(_Wire.REQUEST, payload)

    def _send(self, kind: int, payload: bytes = b"") -> None:
        with self._writing:
            self.sock.sendall(_Wire.frame(kind, payload))

    def write(self, data: Data) -> None:
        """Writes to the standard input; waits while the command does not read.

        Somebody has to read the output meanwhile: another thread, or run(input=…)."""
        data = data.encode() if isinstance(data, str) else data
        while data:
            with self._changed:
                self._changed.wait_for(lambda: self._credit > 0 or self.result is not None)
                if self.result is not None:
                    raise BrokenPipeError("the command has ended")
                part = data[:min(self._credit, _Wire.DATA_MAX)]
                self._credit -= len(part)
            self._send(_Wire.INPUT, part)
            data = data[len(part):]

    def close_stdin(self) -> None:
        self._send(_Wire.INPUT_END)

    def kill(self, signal: int = signals.SIGTERM) -> None:
        """Sends a signal to the process group of the command."""
        self._send(_Wire.SIGNAL, _Wire.field("signal", int(signal)))

    def _frame(self) -> tuple[int, bytes]:
        def take(count: int) -> bytes:
            while len(self._buffer) < count:
                data = self._deadline.receive(self.sock, 262144)
                if not data:
                    raise _error("unavailable", "the sandbox or its daemon ended before the command did")
                self._buffer += data
            data, self._buffer = self._buffer[:count], self._buffer[count:]
            return data
        length, kind = struct.unpack("<IB3x", take(8))
        if length > _Wire.MESSAGE_MAX:
            raise _error("unavailable", "the sandbox sent a frame that is too long")
        return kind, take(length)

    def _finish(self, payload: bytes) -> None:
        done = _Wire.fields(payload)
        with self._changed:
            self.result = CommandResult(done.get("exit", 0), timed_out=done.get("reason") in (2, 3),
                                        truncated=bool(done.get("truncated")),
                                        signal=done.get("signal", 0),
                                        seconds=done.get("elapsed_us", 0) / 1e6)
            self._changed.notify_all()
        self.close()

    def _give_up(self) -> None:
        with self._changed:
            self.result = CommandResult(124, timed_out=True)
        self.close()

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        while self.result is None:
            try:
                kind, payload = self._frame()
            except _Late:
                self._give_up()
                return
            except BaseException:
                self.close()
                raise
            if kind == _Wire.STDOUT:
                yield "stdout", payload
            elif kind == _Wire.STDERR:
                yield "stderr", payload
            elif kind == _Wire.CREDIT:
                with self._changed:
                    self._credit += _Wire.fields(payload).get("count", 0)
                    self._changed.notify_all()
            elif kind == _Wire.DONE:
                self._finish(payload)
            elif kind == _Wire.ERROR:
                self.close()
                self._fail(_Wire.fields(payload))

    def _fail(self, said: dict[str, Any]) -> None:
        """A command that cannot be started is the shell's 126 or 127, not an exception."""
        if said.get("exit") in (126, 127):
            with self._changed:
                self.result = CommandResult(said["exit"], stderr_bytes=(said.get("message", "") + "\n").encode())
                self._changed.notify_all()
            return
        number = said.get("code", 11)
        code = _WIRE_CODES[number] if number < len(_WIRE_CODES) else "internal"
        raise _error(code, said.get("message", "the sandbox failed"), remedy=said.get("remedy", ""))

    def wait(self, input: Data | None = None,
             on_output: Callable[[str, bytes], None] | None = None) -> CommandResult:
        """Reads to the end. `input` is written meanwhile, and then the standard input is closed.

        The sandbox keeps output_max; one that does not is hung up on."""
        feeder = None
        if input is not None:
            feeder = threading.Thread(target=self._feed, args=(input,), daemon=True)
            feeder.start()
        parts: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        size = 0
        for stream, data in self:
            parts[stream].append(data)
            size += len(data)
            if self._output_max and size > self._output_max + _Wire.MESSAGE_MAX:
                self.close()
                raise _error("unavailable", "the sandbox sent more output than allowed")
            if on_output is not None:
                on_output(stream, data)
        if feeder is not None:
            feeder.join()
        assert self.result is not None
        self.result.stdout_bytes += b"".join(parts["stdout"])
        self.result.stderr_bytes += b"".join(parts["stderr"])
        return self.result

    def _feed(self, data: Data) -> None:
        with contextlib.suppress(OSError):  # a command need not read all of it
            self.write(data)
            self.close_stdin()

    def close(self) -> None:
        """Hangs up, which kills the command if it still runs."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        with self._changed:
            if self.result is None:
                self.result = CommandResult(137, signal=int(signals.SIGKILL))
            self._changed.notify_all()

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# ---- Python ----


@dataclass
class CodeError:
    """An exception that code raised."""

    name: str
    value: str
    traceback: str


@dataclass
class Result:
    """A value that code showed: its last expression, display(), a figure.

    `data` maps MIME types to text, or bytes of images."""

    data: dict[str, Any]
    chart: Json | None = None

    @property
    def png(self) -> bytes | None:
        return self.data.get("image/png")

    @property
    def text(self) -> str:
        return self.data.get("text/plain", "")


@dataclass
class PythonResult:
    """What came of a piece of code."""

    stdout: str = ""
    stderr: str = ""
    error: CodeError | None = None
    results: list[Result] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    exit_code: int = 0
    timed_out: bool = False
    oom_killed: bool = False

    @property
    def text(self) -> str:
        """The text of the last value, as a notebook shows it, or an empty string."""
        return self.results[-1].text if self.results else ""

    @property
    def figures(self) -> list[bytes]:
        """Figures as PNG."""
        return [r.png for r in self.results if r.png is not None]

    def check(self) -> "PythonResult":
        """Itself, or PythonError if the code raised or was ended."""
        if self.error is not None or self.exit_code != 0:
            raise PythonError(self)
        return self


class Context:
    """An interpreter that keeps its variables: Python, JavaScript or bash."""

    def __init__(self, sandbox: "Sandbox", id: str | None):
        self.sandbox = sandbox
        self.id = id

    def run(self, code: str, *, timeout: float | None = None, env: Mapping[str, str] | None = None,
            on_output: Callable[[str, str], None] | None = None) -> PythonResult:
        """Runs code. `on_output` is called with "stdout" or "stderr" and the text, as it is printed."""
        request: Json = {"code": code, "results": True, "envs": dict(env or {})}
        if self.id is not None:
            request["contextId"] = self.id
        if timeout is not None:
            request["timeout"] = timeout
        socket_ = _WebSocket(self.sandbox.client, self.sandbox._box("/process/interpreter/execute"), timeout)
        result = PythonResult()
        try:
            socket_.send(json.dumps(request))
            for message in socket_.messages():
                self._take(json.loads(message), result, on_output)
        except _Late:
            result.exit_code, result.timed_out = 124, True
            return result
        finally:
            socket_.close()
        if socket_.close_code == 1008:
            raise _error("invalid_argument", socket_.close_reason or "the request was refused")
        result.timed_out = socket_.close_code == 4008
        return result

    @staticmethod
    def _take(message: Json, result: PythonResult, on_output: Callable[[str, str], None] | None) -> None:
        kind = message.get("type")
        if kind in ("stdout", "stderr"):
            setattr(result, kind, getattr(result, kind) + message["text"])
            if on_output is not None:
                on_output(kind, message["text"])
        elif kind == "error":
            result.error = CodeError(message["name"], message["value"], message["traceback"])
        elif kind == "result":
            data = {name: base64.b64decode(value) if name.startswith("image/") and name != "image/svg+xml"
                    else value for name, value in message["data"].items()}
            result.results.append(Result(data, message.get("chart")))
        elif kind == "notice":
            result.notices.append(message["text"])
        elif kind == "control":
            result.exit_code = message.get("exitCode", result.exit_code)
            result.oom_killed = bool(message.get("oomKilled"))

    def interrupt(self) -> None:
        """Raises KeyboardInterrupt in what runs."""
        self.sandbox._tool("POST", f"/process/interpreter/context/{self.id}/interrupt")

    def delete(self) -> None:
        self.sandbox._tool("DELETE", f"/process/interpreter/context/{self.id}")


# ---- sessions ----


class Session:
    """A shell that keeps its folder, variables and functions between commands."""

    def __init__(self, sandbox: "Sandbox", id: str):
        self.sandbox = sandbox
        self.id = id

    def _path(self, rest: str = "") -> str:
        return f"/process/session/{quote(self.id, safe='')}{rest}"

    def run(self, command: str) -> CommandResult:
        """Runs a command and waits for its end."""
        done = self.sandbox._tool("POST", self._path("/exec"), {"command": command}, headers=_SPLIT)
        return CommandResult(done.get("exitCode", 0), (done.get("stdout") or "").encode(),
                             (done.get("stderr") or "").encode())

    def start(self, command: str) -> str:
        """Starts a command in the background; its id."""
        wishes = {"command": command, "runAsync": True, "suppressInputEcho": True}
        return self.sandbox._tool("POST", self._path("/exec"), wishes)["cmdId"]

    def logs(self, command_id: str) -> CommandResult:
        """The output so far, and the exit code: -1 while the command runs."""
        state = self.sandbox._tool("GET", self._path(f"/command/{command_id}"))
        text = self.sandbox._tool("GET", self._path(f"/command/{command_id}/logs"), headers=_SPLIT)
        code = state.get("exitCode")
        return CommandResult(-1 if code is None else code, (text.get("stdout") or "").encode(),
                             (text.get("stderr") or "").encode())

    def follow(self, command_id: str) -> Iterator[tuple[str, bytes]]:
        """The output of a command from its beginning, until it ends."""
        path = self.sandbox._box(self._path(f"/command/{command_id}/logs?follow=true"))
        socket_ = _WebSocket(self.sandbox.client, path)
        try:
            for message in socket_.messages():
                yield ("stderr" if message[:3] == b"\2\2\2" else "stdout"), message[3:]
        finally:
            socket_.close()

    def send(self, command_id: str, line: str) -> None:
        """Gives a command that was started with start() a line of input."""
        self.sandbox._tool("POST", self._path(f"/command/{command_id}/input"), {"data": line})

    def delete(self) -> None:
        """Ends the shell and everything that runs in it."""
        self.sandbox._tool("DELETE", self._path())


_SPLIT = {"X-Daytona-Split-Output": "true"}


# ---- sandboxes ----


@dataclass
class FileInfo:
    name: str
    path: str
    size: int
    is_dir: bool
    mode: str
    owner: str
    modified: str

    @classmethod
    def _of(cls, raw: Json) -> "FileInfo":
        return cls(raw["name"], raw.get("path", raw["name"]), raw["size"], raw["isDir"],
                   raw.get("permissions", ""), raw.get("owner", ""), raw.get("modTime", ""))


@dataclass
class Volume:
    """A folder that outlives sandboxes and can be mounted into several."""

    id: str
    name: str


_default_client: Client | None = None


def _client(given: Client | None) -> Client:
    """One client for all who name none, so that they share its connections."""
    global _default_client
    if given is not None:
        return given
    if _default_client is None:
        _default_client = Client()
    return _default_client


class Sandbox:
    """A sandbox. Creating one starts it; leaving its `with` block removes it.

    memory and disk take sizes such as "512m"; network is "none" (the default), "full" or
    "allow=HOST,…"; volumes are "NAME:/path" or "NAME:/path:ro".
    """

    def __init__(self, image: str | None = None, *, name: str | None = None,
                 memory: str | int | None = None, cpus: float | None = None,
                 disk: str | int | None = None, pids: int | None = None, network: str | None = None,
                 env: Mapping[str, str] | None = None, labels: Mapping[str, str] | None = None,
                 volumes: Sequence[str] | None = None, user: str | None = None,
                 work_dir: str | None = None, auto_stop: int | None = None,
                 auto_delete: int | None = None, client: Client | None = None, **more: Any):
        wishes = {"image": image, "name": name, "memory": memory, "cpus": cpus, "disk": disk, "pids": pids,
                  "network": network, "env": dict(env) if env else None,
                  "labels": dict(labels) if labels else None, "volumes": list(volumes) if volumes else None,
                  "user": user, "workDir": work_dir, "autoStopInterval": auto_stop,
                  "autoDeleteInterval": auto_delete, **more}
        self.client = _client(client)
        self._raw: Json = self.client.call("POST", "/api/cay/sandbox",
                                           {k: v for k, v in wishes.items() if v is not None})

    @classmethod
    def _from(cls, raw: Json, client: Client) -> "Sandbox":
        box = cls.__new__(cls)
        box.client = client
        box._raw = raw
        return box

    @classmethod
    def get(cls, name: str, *, client: Client | None = None) -> "Sandbox":
        """An existing one, by name or id."""
        client = _client(client)
        return cls._from(client.call("GET", f"/api/cay/sandbox/{quote(name, safe='')}"), client)

    @classmethod
    def list(cls, *, label: str | None = None, client: Client | None = None) -> Iterator["Sandbox"]:
        """All, oldest first, read page by page. `label` is NAME=VALUE."""
        client = _client(client)
        cursor: str | None = None
        while True:
            query = {"label": label, "limit": 500, "cursor": cursor}
            with client.open("GET", "/api/cay/sandbox", query=query) as answer:
                rows = json.loads(answer.read())
                cursor = answer.headers.get("X-Cay-Next-Cursor")
            for raw in rows:
                yield cls._from(raw, client)
            if cursor is None:
                return

    # ---- what it is ----

    @property
    def id(self) -> str:
        return self._raw["id"]

    @property
    def name(self) -> str:
        return self._raw["name"]

    @property
    def state(self) -> str:
        """As of the last answer; refresh() asks."""
        return self._raw["state"]

    @property
    def info(self) -> Json:
        """Every attribute, as in docs/api.md."""
        return self._raw

    def __repr__(self) -> str:
        return f"<Sandbox {self.name} {self.state}>"

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_: object) -> None:
        self.delete()

    def _api(self, rest: str = "") -> str:
        return f"/api/cay/sandbox/{self.id}{rest}"

    def _box(self, rest: str) -> str:
        return f"/toolbox/{self.id}{rest}"

    def _tool(self, method: str, rest: str, body: Any = None, **more: Any) -> Any:
        return self.client.call(method, self._box(rest), body, **more)

    def _change(self, rest: str, body: Any = None, **more: Any) -> "Sandbox":
        self._raw = self.client.call("POST", self._api(rest), body, **more)
        return self

    # ---- its life ----

    def refresh(self) -> "Sandbox":
        self._raw = self.client.call("GET", self._api())
        return self

    def start(self) -> "Sandbox":
        return self._change("/start")

    def stop(self, *, force: bool = False) -> "Sandbox":
        return self._change("/stop", query={"force": "true"} if force else None)

    def pause(self) -> "Sandbox":
        return self._change("/pause")

    def resume(self) -> "Sandbox":
        return self._change("/resume")

    def archive(self) -> "Sandbox":
        return self._change("/archive")

    def resize(self, /, **limits: Any) -> "Sandbox":
        """New limits: memory, cpus, disk, pids."""
        return self._change("/resize", limits)

    def update(self, /, **changes: Any) -> "Sandbox":
        """Any attribute that may change, by its name in docs/api.md."""
        return self._change("/update", changes)

    def snapshot(self, name: str) -> str:
        """Makes an image of it; the image's name."""
        self._change("/snapshot", {"name": name})
        return name

    def delete(self) -> None:
        """Removes it and everything in it. One that is gone already is fine."""
        with contextlib.suppress(NotFoundError):
            self.client.call("DELETE", self._api(), query={"force": "true"})

    def stats(self) -> Json:
        return self.client.call("GET", self._api("/stats"))

    def events(self, after: int = 0) -> Sequence[Json]:
        return self.client.call("GET", self._api("/events"), query={"after": after})

    # ---- commands and code ----

    def run(self, command: Command, *, input: Data | None = None, cwd: str | None = None,
            env: Mapping[str, str] | None = None, user: str | None = None,
            timeout: float | None = None, output_max: int = 64 << 20, check: bool = False,
            on_output: Callable[[str, bytes], None] | None = None) -> CommandResult:
        """Runs a command and waits: a string by sh, a list without a shell.

        The command is ended after `timeout` seconds or `output_max` bytes of output. With check,
        an exit code other than 0 raises CommandError."""
        with self.process(command, cwd=cwd, env=env, user=user, timeout=timeout, output_max=output_max,
                          stdin=input is not None) as process:
            result = process.wait(input, on_output)
        return result.check() if check else result

    def process(self, command: Command, *, cwd: str | None = None, env: Mapping[str, str] | None = None,
                user: str | None = None, timeout: float | None = None, output_max: int = 0,
                stdin: bool = False) -> Process:
        """Starts a command whose output is read as it comes:

            with box.process("make") as make:
                for stream, data in make:
                    print(stream, data)
        """
        return Process(self.client, self.id, command, cwd=cwd, env=env, user=user, timeout=timeout,
                       output_max=output_max, stdin=stdin)

    def python(self, code: str, *, timeout: float | None = None, env: Mapping[str, str] | None = None,
               check: bool = False, on_output: Callable[[str, str], None] | None = None) -> PythonResult:
        """Runs code in the sandbox's own interpreter, which keeps its variables."""
        result = Context(self, None).run(code, timeout=timeout, env=env, on_output=on_output)
        return result.check() if check else result

    def context(self, language: str = "python", *, cwd: str | None = None) -> Context:
        """A further interpreter: python, javascript or bash."""
        wishes = {"language": language, **({"cwd": cwd} if cwd else {})}
        return Context(self, self._tool("POST", "/process/interpreter/context", wishes)["id"])

    def session(self, id: str) -> Session:
        """A new shell that stays."""
        self._tool("POST", "/process/session", {"sessionId": id})
        return Session(self, id)

    # ---- files ----

    def write(self, path: str, data: Data | BinaryIO) -> None:
        """Writes a file: text, bytes, or something with read(). It appears whole or not at all."""
        body = data.encode() if isinstance(data, str) else data
        self._tool("POST", "/files/upload-v2", body, query={"path": path},
                   headers={"Content-Type": "application/octet-stream"})

    def read(self, path: str) -> bytes:
        with self.client.open("GET", self._box("/files/download"), query={"path": path}) as answer:
            return answer.read()

    def read_text(self, path: str) -> str:
        return self.read(path).decode(errors="replace")

    def upload(self, local: str | os.PathLike[str], path: str) -> None:
        """Copies a file of this machine into the sandbox, in constant memory."""
        with open(local, "rb") as file:
            self.write(path, file)

    def download(self, path: str, local: str | os.PathLike[str]) -> None:
        """Copies a file out, in constant memory. `local` appears when it is complete."""
        part = Path(f"{os.fspath(local)}.part")
        try:
            with self.client.open("GET", self._box("/files/download"), query={"path": path}) as answer, \
                    open(part, "wb") as file:
                while data := answer.read(1 << 20):
                    file.write(data)
            os.replace(part, local)
        finally:
            part.unlink(missing_ok=True)

    def files(self, path: str = ".") -> Sequence[FileInfo]:
        return [FileInfo._of(raw) for raw in self._tool("GET", "/files", query={"path": path})]

    def stat(self, path: str) -> FileInfo:
        return FileInfo._of(self._tool("GET", "/files/info", query={"path": path}))

    def exists(self, path: str) -> bool:
        try:
            self.stat(path)
            return True
        except NotFoundError:
            return False

    def mkdir(self, path: str, mode: str = "0755") -> None:
        """With its parents."""
        self._tool("POST", "/files/folder", query={"path": path, "mode": mode})

    def move(self, source: str, destination: str) -> None:
        self._tool("POST", "/files/move", query={"source": source, "destination": destination})

    def remove(self, path: str, *, recursive: bool = False) -> None:
        self._tool("DELETE", "/files", query={"path": path, "recursive": str(recursive).lower()})

    def search(self, pattern: str, path: str = ".") -> Sequence[str]:
        """Files whose name matches a glob."""
        return self._tool("GET", "/files/search", query={"path": path, "pattern": pattern})["files"]

    def find(self, text: str, path: str = ".") -> Sequence[Json]:
        """Lines with a text: file, line, content."""
        return self._tool("GET", "/files/find", query={"path": path, "pattern": text})

    # ---- ports ----

    def preview(self, port: int, *, signed: float | None = None) -> str:
        """The address of a port. With `signed`, one that needs no key, valid for so many seconds."""
        base = f"/api/sandbox/{self.id}/ports/{port}"
        if signed is None:
            return self.client.call("GET", base + "/preview-url")["url"]
        return self.client.call("GET", base + "/signed-preview-url",
                                query={"expiresInSeconds": int(signed)})["url"]

    def ports(self) -> Sequence[int]:
        """Ports from 3000 to 9999 on which something listens."""
        return self._tool("GET", "/port")["ports"]


# ---- without a sandbox of one's own ----


def run(command: Command, *, image: str | None = None, client: Client | None = None,
        timeout: float | None = None, input: Data | None = None, **wishes: Any) -> CommandResult:
    """Runs a command in a sandbox that is removed afterwards."""
    with Sandbox(image, client=client, **wishes) as box:
        return box.run(command, timeout=timeout, input=input)


def run_python(code: str, *, client: Client | None = None, **wishes: Any) -> Json:
    """Runs a program in a fresh sandbox, by the fastest way; the document of docs/python.md."""
    return _client(client).call("POST", "/api/cay/python", {"code": code, **wishes})


def volumes(client: Client | None = None) -> list[Volume]:
    return [Volume(raw["id"], raw["name"]) for raw in _client(client).call("GET", "/api/cay/volumes")]


def create_volume(name: str, client: Client | None = None) -> Volume:
    raw = _client(client).call("POST", "/api/cay/volumes", {"name": name})
    return Volume(raw["id"], raw["name"])


def delete_volume(name: str, client: Client | None = None) -> None:
    _client(client).call("DELETE", f"/api/cay/volumes/{quote(name, safe='')}")


# ---- async ----

_P = ParamSpec("_P")
_T = TypeVar("_T")
_threads = ThreadPoolExecutor(max_workers=512, thread_name_prefix="cay")


async def _in_thread(function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
    """Calls a function in a thread. When the task is cancelled its connection is cut, which also ends
    the command that the daemon runs for it."""
    holder: list[socket.socket] = []

    def call() -> _T:
        _in_use.set(holder)
        return function(*args, **kwargs)

    future = asyncio.wrap_future(_threads.submit(call))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        future.add_done_callback(lambda ended: ended.exception())  # nobody else asks for it
        for sock in holder:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        raise


def _async(method: Callable[Concatenate[Sandbox, _P], _T]) -> \
        Callable[Concatenate["AsyncSandbox", _P], Awaitable[_T]]:
    @functools.wraps(method)
    async def call(self: "AsyncSandbox", /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await _in_thread(method, self.sandbox, *args, **kwargs)
    return call


class AsyncSandbox:
    """A Sandbox whose methods are coroutines:

        async with await AsyncSandbox.create() as box:
            print((await box.run("uname -a")).stdout)

    `sandbox` is the Sandbox behind it. Contexts and sessions have no coroutines of their own:
    use asyncio.to_thread() for them.
    """

    def __init__(self, sandbox: Sandbox):
        self.sandbox = sandbox

    @classmethod
    async def create(cls, *args: Any, **wishes: Any) -> "AsyncSandbox":
        """Takes what Sandbox() takes."""
        return cls(await _in_thread(Sandbox, *args, **wishes))

    @classmethod
    async def get(cls, name: str, *, client: Client | None = None) -> "AsyncSandbox":
        return cls(await _in_thread(Sandbox.get, name, client=client))

    @property
    def id(self) -> str:
        return self.sandbox.id

    @property
    def name(self) -> str:
        return self.sandbox.name

    @property
    def state(self) -> str:
        return self.sandbox.state

    async def __aenter__(self) -> "AsyncSandbox":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.delete()

    async def stream(self, command: Command, **more: Any) -> AsyncIterator[tuple[str, bytes]]:
        """The output of a command as it comes. Leaving the loop kills the command."""
        process = await _in_thread(self.sandbox.process, command, **more)
        parts = iter(process)
        try:
            while True:
                part: tuple[str, bytes] | None = await _in_thread(next, parts, None)
                if part is None:
                    return
                yield part
        finally:
            process.close()

    refresh = _async(Sandbox.refresh)
    start = _async(Sandbox.start)
    stop = _async(Sandbox.stop)
    pause = _async(Sandbox.pause)
    resume = _async(Sandbox.resume)
    archive = _async(Sandbox.archive)
    resize = _async(Sandbox.resize)
    update = _async(Sandbox.update)
    snapshot = _async(Sandbox.snapshot)
    delete = _async(Sandbox.delete)
    stats = _async(Sandbox.stats)
    events = _async(Sandbox.events)
    run = _async(Sandbox.run)
    python = _async(Sandbox.python)
    context = _async(Sandbox.context)
    session = _async(Sandbox.session)
    write = _async(Sandbox.write)
    read = _async(Sandbox.read)
    read_text = _async(Sandbox.read_text)
    upload = _async(Sandbox.upload)
    download = _async(Sandbox.download)
    files = _async(Sandbox.files)
    stat = _async(Sandbox.stat)
    exists = _async(Sandbox.exists)
    mkdir = _async(Sandbox.mkdir)
    move = _async(Sandbox.move)
    remove = _async(Sandbox.remove)
    search = _async(Sandbox.search)
    find = _async(Sandbox.find)
    preview = _async(Sandbox.preview)
    ports = _async(Sandbox.ports)
