"""Remotes for tests: a daemon with TLS, and the same as if it were a Daytona of somebody else."""

import contextlib
import socket
import threading

import support


class Foreign:
    """In front of a daemon: passes Daytona's protocol on, and has never heard of cay's own paths.
    Each connection is one request. What was asked is kept."""

    def __init__(self, port):
        self.port = port
        self.begin(socket.create_server(("127.0.0.1", 0), backlog=64))
        self.url = "http://127.0.0.1:%d/api" % self.listener.getsockname()[1]

    def begin(self, listener):
        self.asked = []
        self.listener = listener
        threading.Thread(target=self.accept, daemon=True).start()

    def knows(self, line):
        return not line.split()[1].startswith((b"/api/cay", b"/openapi"))

    def dial(self):
        return socket.create_connection(("127.0.0.1", self.port), 60)

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, near):
        with near, contextlib.suppress(OSError):
            data = b""
            while b"\r\n\r\n" not in data:
                piece = near.recv(65536)
                if not piece:
                    return
                data += piece
            head, rest = data.split(b"\r\n\r\n", 1)
            line, *fields = head.split(b"\r\n")
            self.asked.append(line.decode().rsplit(" ", 1)[0])
            if not self.knows(line):
                body = b'{"statusCode":404,"message":"Cannot GET","error":"Not Found"}'
                near.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\n"
                             b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                return
            if not any(f.lower().startswith(b"upgrade:") for f in fields):
                fields = [f for f in fields if not f.lower().startswith(b"connection:")]
                fields.append(b"Connection: close")
            self.carry(near, b"\r\n".join([line, *fields]) + b"\r\n\r\n" + rest)

    def carry(self, near, first):
        with self.dial() as far:
            far.sendall(first)
            back = threading.Thread(target=pass_on, args=(far, near), daemon=True)
            back.start()
            pass_on(near, far)
            back.join()

    def close(self):
        # a blocked accept() hears of it by shutdown, not by close
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def pass_on(source, sink):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


class Remote:
    """cay with the options that lead to a remote."""

    def __init__(self, daemon, url, key_file, env=None):
        self.daemon = daemon
        self.url = url
        self.key_file = key_file
        self.options = ["--host", url, "--key-file", key_file]
        self.env = env or {}
        self.tier = [] if url.startswith("http://") else support.TIER

    def __call__(self, *args, **more):
        return support.cay(*self.options, *args, env={**self.env, **more.pop("env", {})}, **more)

    def ok(self, *args, **more):
        return support.ok(self(*args, **more))
