"""The network `bridge` of containers: a Docker in a network of its own, beside one that stands for the
internet. What must not be reached is reached without our walls, or the tests would say nothing."""

import ipaddress
import json
import shutil
import tempfile

import pytest
import support
from dockerd import Docker
from docking import Box, container, engine_of, make, refusal  # noqa: F401
from engines import DockerEngine
from networks import HOST, HOST_PRIVATE, METADATA, PRIVATE, PUBLIC, world

pytestmark = pytest.mark.skipif(bool(support.USER), reason="dockerd needs root")

NETWORK = "cay-bridge"
PROBE = support.BUILD / "tests" / "helpers" / "net_probe"


class BridgedDocker(Docker):
    network = ("--bridge=none", "--ip6tables=false")


class Bridged(DockerEngine):
    """The Docker and the daemon on the host of a world, whose name server has a private address; and a
    folder with the probe, where volumes may come from."""

    peer = BridgedDocker

    def start(self):
        self.world = self.undo.enter_context(world(name_server=PRIVATE))
        self.peer = type("Peer", (BridgedDocker,), {"prefix": self.world.prefix})
        self.probes = self.undo.enter_context(tempfile.TemporaryDirectory(prefix="probes-", dir="/tmp"))
        shutil.copy(PROBE, self.probes)
        super().start()

    def command(self, program, *args):
        return [*self.world.prefix, *super().command(program, *args)]


engine = engine_of(Bridged)


def make_box(engine):
    return Box(engine, engine.daemon.call("POST", "/api/cay/sandbox", {
        "image": engine.main, "network": "bridge", "volumes": [f"{engine.probes}:/probe:ro"]}))


@pytest.fixture(scope="module")
def box(engine):
    """One for all who only look."""
    made = make_box(engine)
    yield made
    made.remove()


def bridge_of(engine):
    """The address of the bridge, and the one that all on it have."""
    about = json.loads(engine.docker("network", "inspect", NETWORK))[0]["IPAM"]["Config"][0]
    return about["Gateway"], str(ipaddress.ip_network(about["Subnet"]).broadcast_address)


def probe(box, *words):
    done = box.run("/probe/net_probe", *words)
    assert done.code == 0, done
    return done.text.strip()


def address_of(engine, box):
    return container(engine, box)["NetworkSettings"]["Networks"][NETWORK]["IPAddress"]


def check_walls(engine, box, other):
    """All of what it reaches, and of what it does not."""
    gateway, everybody = bridge_of(engine)
    assert probe(box, "tcp", PUBLIC, "8080") == "open"
    assert probe(box, "udp", PUBLIC, "53") == "answer"
    assert probe(box, "tcp", f"::ffff:{PUBLIC}", "8080") == "open"  # which is IPv4
    assert probe(box, "ping", PUBLIC) == "answer"
    for words in [("tcp", f"::ffff:{HOST}", "80"), ("tcp", f"::ffff:{PRIVATE}", "80"), ("tcp", f"::ffff:{other}", "8000"),
                  ("ping", HOST), ("ping", gateway), ("ping", other), ("ping", METADATA),
                  ("tcp", HOST, "80"), ("tcp", HOST_PRIVATE, "80"), ("tcp", PRIVATE, "80"),
                  ("tcp", METADATA, "80"), ("tcp", other, "8000"), ("udp", gateway, "53"),
                  ("udp", HOST, "53"), ("udp", METADATA, "53"), ("udp", everybody, "53", "bound"),
                  ("udp", "255.255.255.255", "53", "bound"), ("udp", "224.0.0.1", "53", "bound")]:
        assert probe(box, *words) in ("EPERM", "EHOSTUNREACH", "EACCES"), words


def test_what_is_reached_and_what_is_not(engine, make, box):
    assert box.info()["network"] == "bridge"
    other = make(network="bridge")
    check_walls(engine, box, address_of(engine, other))
    box.do("stop")
    box.do("start")
    check_walls(engine, box, address_of(engine, other))


@pytest.mark.parametrize("where", ["2001:470::1", "2001:470::2", f"64:ff9b::{HOST}", "2002:b00:1::1", f"::{HOST}",
                                   "fe80::1", "fd00:ec2::254"])
def test_nothing_of_ipv6_is_reached(box, where):
    assert probe(box, "tcp", where, "80") in ("EACCES", "EHOSTUNREACH", "ENETUNREACH", "EADDRNOTAVAIL", "EINVAL",
                                              "EAFNOSUPPORT")


def test_the_walls_are_what_keeps_it_in(engine, box):
    """A container of somebody else on the same bridge reaches the host."""
    gateway, everybody = bridge_of(engine)
    image = container(engine, box)["Image"]
    words = [f"tcp {HOST} 80", f"tcp {PRIVATE} 80", f"tcp {METADATA} 80", f"udp {gateway} 53",
             f"udp {everybody} 53 bound"]
    said = engine.docker("run", "--rm", "--network", NETWORK, "-v", f"{engine.probes}:/probe:ro", image, "sh", "-c",
                         "; ".join(f"/probe/net_probe {w}" for w in words))
    assert said.split() == ["open", "open", "open", "answer", "answer"]


def test_names_are_found(engine, box):
    """By Docker, of a name server that has a private address: its port 53 is open, and no other."""
    done = box.run("wget", "-q", "-O", "-", "http://a.com:8080/x")
    assert done.code == 0 and json.loads(done.out)["path"] == "/x", done
    assert probe(box, "udp", PRIVATE, "53") == "answer"
    assert b"127.0.0.11" in box.run("cat", "/etc/resolv.conf").out


def test_the_walls_stay(engine, box):
    assert probe(box, "unwall") in ("EPERM", "EACCES", "EPROTONOSUPPORT", "EAFNOSUPPORT")
    assert box.run("ip", "route", "add", PRIVATE, "dev", "eth0").code != 0
    assert "CapEff:\t0000000000000000" in box.run("cat", "/proc/self/status").text


def test_a_build_cannot_change_them(engine):
    """What root may in the profile that has capabilities."""
    done = engine.cay("run", "--engine", "docker", "--network", "bridge", "--profile", "build", "--image",
                      engine.main, "--", "cat", "/proc/self/status")
    bounds = next(line for line in done.stdout.decode().splitlines() if line.startswith("CapBnd"))
    assert int(bounds.split()[1], 16) & (1 << 12 | 1 << 13) == 0, bounds  # NET_ADMIN, NET_RAW


def test_no_proxy_is_named(box):
    assert b"PROXY" not in box.run("env").out.upper()


def test_a_single_command(engine):
    done = engine.cay("run", "--engine", "docker", "--network", "bridge", "--image", engine.main, "-v",
                      f"{engine.probes}:/probe:ro", "--", "sh", "-c",
                      f"/probe/net_probe tcp {PUBLIC} 80; /probe/net_probe tcp {HOST} 80")
    assert done.stdout == b"open\nEHOSTUNREACH\n", done


def test_a_network_that_was_removed_is_made_again(engine, box):
    box.do("stop")
    engine.docker("network", "rm", NETWORK)
    box.do("start")
    assert probe(box, "tcp", PUBLIC, "80") == "open" and probe(box, "tcp", HOST, "80") == "EHOSTUNREACH"


def test_another_network_of_that_name_is_not_used(engine, make, box):
    box.do("stop")
    engine.docker("network", "rm", NETWORK)
    engine.docker("network", "create", NETWORK)
    try:
        status, message, remedy = refusal(make, network="bridge")
        assert status == 409 and NETWORK in message and "docker network rm" in remedy
    finally:
        engine.docker("network", "rm", NETWORK)
    assert len(engine.docker("ps", "-aq").split()) == 1
    box.do("start")


def test_a_network_that_nobody_asked_for_is_found(engine, make, box):
    """One that somebody else gave to the container, for which there are no walls."""
    other = make(readOnly=True)
    other.do("stop")
    engine.docker("network", "disconnect", "none", f"cay-{other.id}")
    engine.docker("network", "connect", NETWORK, f"cay-{other.id}")
    status, message, remedy = refusal(other.do, "start")
    assert status == 409 and "did not ask for" in message and "network disconnect" in remedy


def test_it_is_for_new_sandboxes_of_docker(engine, make, box):
    other = make()
    change = "/api/cay/sandbox/{}/update"
    for which, network in ((box, "none"), (box, "allow=a.com"), (other, "bridge")):
        status, message, _ = refusal(engine.daemon.call, "POST", change.format(which.id),
                                     {"network": network})
        assert status == 501 and "bridge" in message
    engine.daemon.call("POST", change.format(box.id), {"network": "bridge"})
    status, message, remedy = refusal(make, network="bridge", engine="native", image="host")
    assert status == 501 and "bridge" in message and "allow=*" in remedy
