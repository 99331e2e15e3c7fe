"""[images] prepull: the daemon has images ready before anybody asks."""

import os

import registry
from daemons import Daemon
from launching import until
from support import cay


def test_images_are_fetched_at_the_start(folder, tmp_path):
    registry.need_tools()
    with registry.plain() as server:
        server.push(registry.make_image(tmp_path / "image", [{"file": b"x"}]), "ahead")
        name, missing = server.name("ahead"), server.name("missing")
        config = folder / "cay.toml"
        config.write_text(f'[images]\nprepull = ["{missing}", "{name}"]\n')
        os.chmod(config, 0o644)
        daemon = Daemon(folder, "--config", config)
        try:
            inspect = ("image", "inspect", "--state-dir", daemon.state, name)
            assert until(lambda: cay(*inspect).returncode == 0, 60), daemon.log.read_text()
        finally:
            daemon.clean_up()
    # What cannot be had keeps nobody from the rest, and is told.
    assert "could not be fetched" in daemon.log.read_text() and missing in daemon.log.read_text()
