"""Sandboxes that stay, from images: what the image says reaches the commands, and a missing one is
fetched, with its progress told."""

import json

import pytest
import registry
import support
from daemons import serving
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
