"""The socket of events, frame by frame as SDKs speak it: who gets in, and what is heard."""

import json

import pytest
import support
from daemons import serving_tcp
from test_keys import Client, make_key
from test_tls import make_certificate, settings, wrap
from test_tls import tls as certificates  # noqa: F401 a fixture
from websockets_raw import WebSocket, refused

PATH = "/api/socket.io/?source=sdk&sdkVersion=0.218.0&EIO=4&transport=websocket"
pytestmark = support.as_root_only


@pytest.fixture(scope="module")
def daemon():
    with serving_tcp() as d:
        yield d


class Viewer(WebSocket):
    def __init__(self, daemon, token, sock=None):
        super().__init__(daemon.port, PATH, sock=sock)
        hello = self.text()
        assert hello[0] == "0"
        hello = json.loads(hello[1:])
        assert hello["pingInterval"] == 25000 and hello["upgrades"] == [] and hello["sid"]
        self.send_text("40" + json.dumps({"token": token}))
        self.welcome = self.text()

    def event(self):
        frame = self.text()
        assert frame.startswith("42"), frame
        return json.loads(frame[2:])

    def states(self, count):
        """(id, old, new) of the next changes of states."""
        heard = []
        while len(heard) < count:
            name, value = self.event()
            if name == "sandbox.state.updated":
                assert value["sandbox"]["state"] == value["newState"]
                heard.append((value["sandbox"]["id"], value["oldState"], value["newState"]))
        return heard


@pytest.fixture
def ann(daemon):
    client = make_key(daemon, "ann", permissions=["sandboxes"])
    yield client
    for box in daemon.list():
        daemon.call("DELETE", f"/api/cay/sandbox/{box['id']}?force=true")
    daemon.ask("DELETE", "/api/cay/api-keys/ann")


def test_the_life_of_a_sandbox(daemon, ann):
    with Viewer(daemon, ann.key) as viewer:
        assert viewer.welcome.startswith('40{"sid":"')
        box = ann.create(name="lab")
        name, value = viewer.event()
        assert name == "sandbox.created"
        assert value["id"] == box["id"] and value["name"] == "lab" and "toolboxProxyUrl" in value
        assert viewer.states(1)[0][2] == "started"
        ann.call("POST", f"/api/cay/sandbox/{box['id']}/stop")
        assert viewer.states(2) == [(box["id"], "started", "stopping"),
                                    (box["id"], "stopping", "stopped")]
        ann.call("DELETE", f"/api/cay/sandbox/{box['id']}")
        assert viewer.states(2) == [(box["id"], "stopped", "destroying"),
                                    (box["id"], "destroying", "destroyed")]


def test_only_what_the_key_sees(daemon, ann):
    bob = make_key(daemon, "bob", permissions=["sandboxes"])
    with Viewer(daemon, bob.key) as other, Viewer(daemon, ann.key) as own:
        box = ann.create()
        assert own.event()[1]["id"] == box["id"]
        mine = bob.create()
        name, value = other.event()  # the first that is heard is his own
        assert (name, value["id"]) == ("sandbox.created", mine["id"])
    daemon.ask("DELETE", "/api/cay/api-keys/bob")


@pytest.mark.parametrize("first", ['40{"token":"cay_wrong"}', "40", '40{"token":7}', "40{", "2",
                                   '40{"token":""}', "x" * 70000],
                         ids=["wrong", "none", "number", "broken", "ping", "empty", "long"])
def test_without_a_key_nothing_is_heard(daemon, first):
    with WebSocket(daemon.port, PATH) as ws:
        assert ws.text()[0] == "0"
        ws.send_text(first)
        assert ws.text() == '44{"message":"Unauthorized"}'
        assert ws.closed()


def test_a_removed_key_hears_nothing_more(daemon):
    eve = make_key(daemon, "eve", permissions=["read"])
    with Viewer(daemon, eve.key) as viewer:
        assert viewer.welcome.startswith("40{")
        daemon.ask("DELETE", "/api/cay/api-keys/eve")
        assert viewer.closed()


def test_what_is_no_socket(daemon):
    anybody = Client(daemon.port, None)
    assert anybody.ask("GET", PATH).status == 426
    assert anybody.ask("GET", "/api/socket.io/?EIO=4&transport=polling").status == 400
    assert anybody.ask("GET", "/api/socket.io/").status == 400
    assert refused(daemon.port, PATH, host="evil.example") == 403


def test_a_goodbye_ends_it(daemon, ann):
    with Viewer(daemon, ann.key) as viewer:
        viewer.send_text("41")
        assert viewer.closed()


def test_viewers_do_not_hold_up_the_end(folder):
    with serving_tcp(folder) as d:
        key = make_key(d, "ann", permissions=["read"])

        def end():
            if d.process.poll() is not None:
                d.start()
            with Viewer(d, key.key) as viewer:
                assert viewer.welcome.startswith("40{")
                return d.stop()

        assert support.takes_less(end, 9)  # others would get 10 s


def test_over_tls(folder, certificates):  # noqa: F811
    cert, key = make_certificate(certificates, "first", certificates)
    with serving_tcp(folder, env=settings(cert, key)) as d:
        with Viewer(d, d.key, sock=wrap(d.port, certificates)) as viewer:
            box = d.create()
            name, value = viewer.event()
            assert (name, value["id"]) == ("sandbox.created", box["id"])
            assert value["toolboxProxyUrl"] == "https://localhost/toolbox"
