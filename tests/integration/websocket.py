"""A client of WebSockets (RFC 6455), with nothing but the standard library, for tests."""

import base64
import contextlib
import hashlib
import os
import socket
import struct

MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class NotUpgraded(Exception):
    def __init__(self, status, body):
        super().__init__(status, body)
        self.status = status
        self.body = body


class WebSocket:
    """One connection over a socket that is connected already."""

    def __init__(self, sock, path, protocols=(), **headers):
        self.sock = sock
        self.buffer = b""
        self.closed = None  # (code, reason) when the other side has said so
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [f"GET {path} HTTP/1.1", "Host: localhost", "Connection: Upgrade",
                 "Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}"]
        if protocols:
            lines.append("Sec-WebSocket-Protocol: " + ", ".join(protocols))
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        self.protocol = self.accept(key)

    def accept(self, key):
        """Reads the head of the answer; the subprotocol that it names, or None."""
        while b"\r\n\r\n" not in self.buffer:
            self.more()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        first, *lines = head.decode().split("\r\n")
        headers = {n.lower(): v for n, v in (line.split(": ", 1) for line in lines)}
        status = int(first.split()[1])
        if status != 101:
            length = int(headers.get("content-length", 0))
            while len(self.buffer) < length:
                self.more()
            self.sock.close()
            raise NotUpgraded(status, self.buffer[:length].decode())
        proof = base64.b64encode(hashlib.sha1((key + MAGIC).encode()).digest()).decode()
        assert headers["sec-websocket-accept"] == proof
        return headers.get("sec-websocket-protocol")

    def more(self):
        data = self.sock.recv(65536)
        if not data:
            raise EOFError("the connection ended")
        self.buffer += data

    def take(self, count):
        while len(self.buffer) < count:
            self.more()
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def frame(self):
        """(opcode, payload) of the next frame; ours are never fragmented."""
        first, second = self.take(2)
        assert first & 0x80 and not first & 0x70 and not second & 0x80
        length = second & 0x7F
        if length == 126:
            length = struct.unpack(">H", self.take(2))[0]
        elif length == 127:
            length = struct.unpack(">Q", self.take(8))[0]
        return first & 0x0F, self.take(length)

    def send(self, data, opcode=None):
        if isinstance(data, str):
            data, opcode = data.encode(), opcode or TEXT
        head = bytes([0x80 | (opcode or BINARY)])
        if len(data) < 126:
            head += bytes([0x80 | len(data)])
        elif len(data) < 65536:
            head += bytes([0x80 | 126]) + struct.pack(">H", len(data))
        else:
            head += bytes([0x80 | 127]) + struct.pack(">Q", len(data))
        self.sock.sendall(head + bytes(4) + data)  # a mask of zeros is a mask

    def receive(self):
        """The next message: text as str, binary as bytes, None at the end."""
        while True:
            opcode, data = self.frame()
            if opcode == TEXT:
                return data.decode()
            if opcode == BINARY:
                return data
            if opcode == PING:
                self.send(data, PONG)
            elif opcode == PONG:
                return ("pong", data)
            elif opcode == CLOSE:
                code = struct.unpack(">H", data[:2])[0] if data else 1005
                self.closed = (code, data[2:].decode())
                with contextlib.suppress(OSError):  # it may have left already
                    self.send(data, CLOSE)
                return None

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def open_unix(path, target, protocols=(), timeout=60, **headers):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(timeout)
    sock.connect(str(path))
    return WebSocket(sock, target, protocols, **headers)
