"""WebSockets of the toolbox over TLS: another thread passes their bytes there."""

import hashlib
import json
import socket
import struct

import pytest
from daemons import free_port, serving
from support import needs_ids
from test_daytona_process import CONNECTED, EXIT_CONTROL, NEW, drain, read_exit, read_until
from test_tls import https, make_certificate, settings, wrap
from test_tls import tls as certificates  # noqa: F401 a fixture
from websocket import PING, NotUpgraded, WebSocket

pytestmark = needs_ids


class Remote:
    """A sandbox's toolbox by way of TLS."""

    def __init__(self, daemon, port, ca):
        self.port, self.ca = port, ca
        self.key = "Bearer " + (daemon.state / "admin.key").read_text().strip()
        self.base = f"/toolbox/{daemon.create()['id']}"

    def ask(self, method, path, body=None, status=200):
        code, text, _ = https(self.port, self.ca, method, self.base + path,
                              None if body is None else json.dumps(body), Authorization=self.key,
                              X_Daytona_SDK_Version=NEW)
        assert code == status, text
        return json.loads(text) if text else None

    def open(self, path, protocols=(), key=None):
        return WebSocket(wrap(self.port, self.ca), self.base + path, protocols,
                         Authorization=key or self.key)


def bytes_received(sock):
    """Of the TCP connection, encrypted: tcpi_bytes_received of struct tcp_info."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return struct.unpack_from("<Q", info, 128)[0]


@pytest.fixture
def box(folder, certificates):  # noqa: F811
    port = free_port()
    cert, key = make_certificate(certificates, "toolbox", certificates)
    with serving(folder, "--listen", f"127.0.0.1:{port}", env=settings(cert, key)) as daemon:
        yield Remote(daemon, port, certificates)


def test_logs(box):
    box.ask("POST", "/process/session", {"sessionId": "s"}, 201)
    number = box.ask("POST", "/process/session/s/exec", {
        "command": "echo one; read x; seq 1 200000; echo end >&2", "runAsync": True,
        "suppressInputEcho": True}, 202)["cmdId"]
    path = f"/process/session/s/command/{number}"
    with box.open(path + "/logs?follow=true") as ws:
        assert ws.receive() == b"\1\1\1one\n"
        ws.send(b"there?", PING)
        assert ws.receive() == ("pong", b"there?")
        box.ask("POST", path + "/input", {"data": "x"}, 204)
        out, err = drain(ws)  # all of it, and its end
        want = "".join(f"{i}\n" for i in range(1, 200001)).encode()
        assert hashlib.sha256(out).digest() == hashlib.sha256(want).digest() and err == b"end\n"
        assert ws.closed == (1000, "")
        assert bytes_received(ws.sock) < 1.1 * len(out) + 20_000  # not in crumbs
    with pytest.raises(NotUpgraded) as refused:
        box.open(path + "/logs?follow=true", key="Bearer cay_wrong")
    assert refused.value.status == 401


def test_a_terminal(box):
    with box.open("/process/pty/create-connect?id=t&cols=90&rows=20", [EXIT_CONTROL]) as ws:
        assert ws.protocol == EXIT_CONTROL and ws.receive() == CONNECTED
        ws.send(b"stty -echo raw; echo rea\"\"dy; head -c 300000 | wc -c; stty sane; seq 1 30000; stty size\r")
        read_until(ws, b"ready")
        for _ in range(3):
            ws.send(b"x" * 100_000)
        seen = read_until(ws, b"20 90")
        assert b"300000" in seen and b"30000\r\n" in seen
        ws.send(b"exit 5\r")
        told, closed = read_exit(ws)
    assert told["exitCode"] == 5 and closed[0] == 1011 and json.loads(closed[1])["exitCode"] == 5
    with box.open("/process/pty/create-connect?id=u") as ws:
        assert ws.receive() == CONNECTED
    # who left without a word is gone, and the terminal is there
    with box.open("/process/pty/u/connect", [EXIT_CONTROL]) as ws:
        assert ws.receive() == CONNECTED
        box.ask("DELETE", "/process/pty/u")
        assert read_exit(ws)[0]["exitCode"] == 137
