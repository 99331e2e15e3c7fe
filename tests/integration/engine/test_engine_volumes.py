"""Folders of the host and named volumes; images with little in them."""

import pytest
from daemons import Refused
from launching import until

needs = pytest.mark.needs


# ---- volumes ----

@needs("host-folders")
def test_a_volume_is_seen_live(make, folder_of):
    folder = folder_of("volume")
    (folder / "before").write_text("before")
    box = make(volumes=[f"{folder}:/data"])
    assert box.says("cat /data/before") == "before"
    (folder / "during").write_text("during")
    assert box.says("cat /data/during") == "during"
    box.says("echo inside > /data/inside")
    assert (folder / "inside").read_text() == "inside\n"


@needs("host-folders")
def test_a_read_only_volume(make, folder_of):
    folder = folder_of("volume")
    (folder / "file").write_text("safe")
    box = make(volumes=[f"{folder}:/data:ro"])
    assert box.says("cat /data/file") == "safe"
    assert box.sh("echo x > /data/file; echo x > /data/new; rm /data/file").code != 0
    assert (folder / "file").read_text() == "safe" and not (folder / "new").exists()


@needs("host-folders")
def test_volumes_outlast_the_sandbox(make, folder_of):
    folder = folder_of("volume")
    box = make(volumes=[f"{folder}:/data"])
    box.says("echo stays > /data/file")
    box.remove()
    assert (folder / "file").read_text() == "stays\n"


@needs("host-folders")
def test_a_volume_that_is_not_there(make, folder_of):
    with pytest.raises(Refused) as refused:
        make(volumes=[f"{folder_of('none')}/nothing:/data"])
    assert refused.value.status in (400, 404) and "nothing" in refused.value.error["message"]


@pytest.fixture
def named(engine):
    made = engine.daemon.call("POST", "/api/cay/volumes", {"name": "shared-data"})
    yield made
    assert until(lambda: engine.daemon.ask("DELETE", f"/api/cay/volumes/{made['id']}").status in
                 (204, 404), 20)


@needs("named-volumes")
def test_a_named_volume_is_shared(make, named):
    one = make(volumes=["shared-data:/data"])
    two = make(volumes=["shared-data:/other:ro"])
    one.says("echo shared > /data/file")
    assert two.says("cat /other/file") == "shared\n"
    assert two.sh("echo x > /other/file").code != 0
    one.remove()
    two.remove()


@needs("named-volumes")
def test_a_named_volume_outlasts_its_sandbox(make, named):
    one = make(volumes=["shared-data:/data"])
    one.says("echo lasts > /data/file")
    one.remove()
    two = make(volumes=["shared-data:/data"])
    assert two.says("cat /data/file") == "lasts\n"
    two.remove()


# ---- images ----

@needs("images")
def test_an_image_without_bash(make, engine):
    box = make(image=engine.shell)
    assert box.says("echo $FROM_IMAGE") == "yes\n"
    assert box.sh("command -v bash").code != 0
    assert box.execute("echo $((6*7))").json()["result"] == "42\n"


@needs("images")
def test_an_image_without_any_shell(make, engine):
    box = make(image=engine.silent)
    done = box.run("/echo", "no shell needed")
    assert (done.code, done.out) == (0, b"no shell needed\n")
    box.put("/workspace/file", b"files work")
    assert box.get("/workspace/file") == b"files work"
    reply = box.execute("echo x")
    assert reply.status >= 400 or reply.json()["exitCode"] == 127


@needs("images")
def test_a_user_of_the_image(make, engine):
    box = make(image=engine.shell, user="ann")
    assert box.says("id -un; id -g; pwd", CWD="/home") == "ann\n1001\n/home\n"


@needs("images")
def test_an_image_is_not_changed(make, engine):
    one = make(image=engine.shell)
    one.says("rm -rf /etc/passwd; echo x > /bin/new")
    assert make(image=engine.shell).says("test -e /etc/passwd && test ! -e /bin/new && echo whole") == \
        "whole\n"


def test_an_image_that_does_not_exist(make):
    with pytest.raises(Refused) as refused:
        make(image="127.0.0.1:1/no/such:image")
    assert refused.value.error["remedy"]
