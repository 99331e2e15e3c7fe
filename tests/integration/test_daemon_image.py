"""Sandboxes that stay, from images: what the image says reaches the commands, and a missing one is
fetched, with its progress told."""

import contextlib
import json
import threading

import pytest
import registry
import support
from daemons import LocalHTTP, children, name_of, serving
from launching import until
from test_run_image import Store, base


pytestmark = pytest.mark.skipif(support.is_sanitized(),
                                reason="cay-init with a sanitizer needs libraries of the host")


@pytest.fixture
def daemon(folder):
    with serving(folder) as found:
        yield found


def defaults(daemon, who):
    """What the answer to an upgrade says: names, and all of X-Cay-Env."""
    sock, headers = daemon.upgrade(who)
    sock.close()
    pairs = [line.split(": ", 1) for line in headers]
    env = [value for name, value in pairs if name == "X-Cay-Env"]
    return dict(pairs), env


def test_what_the_image_says(daemon):
    store = Store(daemon.state)
    store.load("said", [base()], env=["A=image", "B=image", "PATH=/bin", "ODD=a b%é"],
               User="ann", WorkingDir="/home")
    made = daemon.create(image="said", env={"B": "mine"})
    assert (made["image"], made["user"], made["workDir"]) == ("said", "ann", "/home")
    assert made["env"] == {"A": "image", "B": "mine", "PATH": "/bin", "ODD": "a b%é"}
    fields, env = defaults(daemon, made["id"])
    assert (fields["X-Cay-User"], fields["X-Cay-Work-Dir"]) == ("ann", "/home")
    assert sorted(env) == ["A=image", "B=mine", "ODD=a%20b%25%C3%A9", "PATH=/bin"]
    assert daemon.exec(made["id"], "/bin/ls", "/")[0] == 0
    daemon.stop()
    daemon.start()
    assert defaults(daemon, made["id"])[1] == env


def test_what_one_asks_for_comes_first(daemon):
    Store(daemon.state).load("said", [base()], User="ann", WorkingDir="/home")
    made = daemon.create(image="said", user="0", workDir="/tmp")
    assert (made["user"], made["workDir"]) == ("0", "/tmp")


def test_an_image_that_says_nothing(daemon):
    Store(daemon.state).load("plain", [base()])
    made = daemon.create(image="plain")
    assert (made["user"], made["workDir"], made["env"]) == ("", "/workspace", {})
    assert "X-Cay-User" not in defaults(daemon, made["id"])[0]


def test_aliases(folder):
    with serving(folder, env={"CAY_IMAGES_ALIASES": "other=plain"}) as daemon:
        Store(daemon.state).load("plain", [base()])
        made = daemon.create(image="other")
        assert made["image"] == "other"
        assert daemon.exec(made["id"], "/bin/echo", "alias") == (0, "alias\n")


# ---- fetching ----

def test_a_missing_image_is_fetched_and_its_progress_told(daemon, folder):
    (folder / "image").mkdir()
    image = registry.make_image(folder / "image", [base()], env=["FETCHED=yes"])
    with registry.fake(image) as server:
        wishes = {"image": server.name("box:1"), **({"tier": "basic"} if support.USER else {})}
        answer = daemon.ask("POST", "/api/cay/sandbox", wishes, X_Cay_Progress="lines")
        *told, done, made, rest = answer.text.split("\n")
        assert (answer.status, done, rest) == (200, "done", ""), answer.text
        assert told and all(line.startswith("progress ") for line in told)
        made = json.loads(made)
        assert made["env"] == {"FETCHED": "yes"}
        assert daemon.exec(made["id"], "/bin/echo", "here") == (0, "here\n")
        server.requests.clear()
        daemon.create(image=server.name("box:1"))
        assert server.requests == []  # it is here


class Held:
    """The blobs of a registry, which come when they may."""

    def __init__(self):
        self.may = threading.Event()
        self.server = None

    def __call__(self, request):
        self.may.wait(60)
        with contextlib.suppress(OSError):  # who hung up does not take them
            self.server.blob(request)


@pytest.fixture
def held(folder):
    (folder / "image").mkdir()
    image = registry.make_image(folder / "image", [base()])
    blobs = Held()
    with registry.fake(image, blob=blobs) as server:
        blobs.server = server
        server.held = blobs
        yield server
        blobs.may.set()


def ask_for(daemon, image, **headers):
    """A client who waits for a sandbox of the image."""
    client = LocalHTTP(daemon.socket)
    wishes = {"image": image, **({"tier": "basic"} if support.USER else {})}
    client.request("POST", "/api/cay/sandbox", json.dumps(wishes), headers)
    return client


def pulls(daemon):
    return [pid for pid in children(daemon.process.pid) if name_of(pid) == "cay-image"]


def is_asked_for_blobs(server):
    return any("/blobs/" in path for path in server.paths())


@pytest.mark.parametrize("headers", [{}, {"X-Cay-Progress": "lines"}], ids=["at once", "with progress"])
def test_who_hangs_up_gives_the_pull_up(daemon, held, headers):
    client = ask_for(daemon, held.name("slow:1"), **headers)
    assert until(lambda: is_asked_for_blobs(held) and pulls(daemon), 60)
    client.sock.close()
    client.close()
    assert until(lambda: not pulls(daemon), 60)
    assert until(lambda: held.name("slow:1") not in [box["image"] for box in daemon.list()], 60)


def test_who_hangs_up_leaves_the_pull_to_others(daemon, held):
    first = ask_for(daemon, held.name("slow:2"))
    assert until(lambda: is_asked_for_blobs(held) and pulls(daemon), 60)
    second = ask_for(daemon, held.name("slow:2"))
    assert until(lambda: len(pulls(daemon)) == 2, 60)
    first.sock.close()
    first.close()
    assert until(lambda: len(pulls(daemon)) == 1, 60)
    held.held.may.set()
    answer = second.getresponse()
    assert answer.status == 200, answer.read()
    made = json.loads(answer.read())
    assert daemon.exec(made["id"], "/bin/echo", "here") == (0, "here\n")
