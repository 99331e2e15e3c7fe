"""A WebSocket client of a few lines, for tests that look at frames."""

import base64
import os
import socket
import struct


def _head(sock):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = sock.recv(1)
        assert byte, head
        head += byte
    return head.decode()


def _request(sock, path, host, headers):
    key = base64.b64encode(os.urandom(16)).decode()
    more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\n"
                 f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                 f"Sec-WebSocket-Key: {key}\r\n{more}\r\n".encode())
    return _head(sock)


def _connect(port):
    return socket.create_connection(("127.0.0.1", port), 30)


def refused(port, path, host="localhost", **headers):
    """The status with which it does not become a WebSocket."""
    with _connect(port) as sock:
        return int(_request(sock, path, host, headers).split()[1])


class WebSocket:
    def __init__(self, port, path, host="localhost", headers=None, sock=None):
        self.sock = sock or _connect(port)
        self.head = _request(self.sock, path, host, headers or {})
        assert self.head.startswith("HTTP/1.1 101 "), self.head

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def _read(self, count):
        data = b""
        while len(data) < count:
            more = self.sock.recv(count - len(data))
            if not more:
                return None
            data += more
        return data

    def frame(self):
        """(opcode, payload), or None at the end of the connection."""
        head = self._read(2)
        if head is None:
            return None
        length = head[1] & 0x7f
        if length == 126:
            length, = struct.unpack(">H", self._read(2))
        elif length == 127:
            length, = struct.unpack(">Q", self._read(8))
        return head[0] & 0x0f, self._read(length) if length else b""

    def text(self):
        opcode, data = self.frame()
        assert opcode == 1, (opcode, data)
        return data.decode()

    def send(self, opcode, data):
        mask = os.urandom(4)
        size = len(data)
        head = bytes([0x80 | opcode])
        if size < 126:
            head += bytes([0x80 | size])
        elif size < 65536:
            head += bytes([0x80 | 126]) + struct.pack(">H", size)
        else:
            head += bytes([0x80 | 127]) + struct.pack(">Q", size)
        self.sock.sendall(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))

    def send_text(self, text):
        self.send(1, text.encode())

    def closed(self):
        """True if nothing but a close comes until the end."""
        try:
            while (frame := self.frame()) is not None:
                if frame[0] != 8:
                    return False
                self.send(8, b"")
        except (ConnectionResetError, BrokenPipeError):
            pass
        return True
