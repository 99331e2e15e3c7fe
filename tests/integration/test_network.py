"""What sandboxes reach: by a list of names and ranges, through a proxy outside, and never the host,
its loopback, link-local and metadata addresses, or what is private and not listed."""

import json

import pytest

import networks
import support
from networks import HOST, METADATA, PRIVATE, PUBLIC, net  # noqa: F401
from support import clean_host, ok, refused  # noqa: F401


def told(answer):
    """What the server on the internet saw."""
    code, body = answer
    assert code == 200, body
    seen = json.loads(body)
    assert seen["where"] == "internet"
    return seen


def test_a_listed_name_is_reached(net):
    seen = told(net.curl("allow=a.com", "http://a.com/x?y=1", "-d", "some text"))
    assert (seen["method"], seen["path"], seen["body"]) == ("POST", "/x?y=1", "some text")
    headers = {name.lower(): value for name, value in seen["headers"]}
    assert headers["host"] == "a.com" and headers["connection"] == "close"
    assert not [name for name in headers if name.startswith("proxy-")]


@pytest.mark.parametrize("network, url", [
    ("allow=*.a.com", "http://sub.a.com/"),
    ("allow=b.org,A.COM.", "http://a.com/"),
    ("allow=a.com:8080", "http://a.com:8080/"),
    ("allow=a.com:*", "http://a.com:8080/"),
    ("allow=*", "http://b.org/"),
    ("allow=*", f"http://{PUBLIC}/"),
    (f"allow={PUBLIC}", f"http://{PUBLIC}:8080/"),
    ("allow=11.0.0.0/24", "http://b.org/"),
    ("allow=10.9.0.0/16", f"http://{PRIVATE}/"),
    ("allow=inner.com,10.9.0.2/32", "http://inner.com/"),
    ("allow=0.0.0.0/0", f"http://{PUBLIC}/"),
])
def test_what_is_listed_is_open(net, network, url):
    told(net.curl(network, url))


@pytest.mark.parametrize("network, url, why", [
    ("allow=a.com", "http://b.org/", "b.org is not on this sandbox's network list"),
    ("allow=a.com", "http://sub.a.com/", "sub.a.com is not on"),
    ("allow=*.a.com", "http://a.com/", "a.com is not on"),
    ("allow=*.a.com", "http://xa.com/", "xa.com is not on"),
    ("allow=a.com", "http://a.com:8080/", "port 8080 is not"),
    ("allow=a.com", f"http://{PUBLIC}/", "is not on"),
    ("allow=a.com,10.9.0.0/24", f"http://{PUBLIC}/", "is not on"),
    ("allow=*", "http://inner.com/", "inner.com has a private address"),
    ("allow=*,0.0.0.0/0", f"http://{PRIVATE}/", f"{PRIVATE} has a private address"),
    ("allow=*", "http://meta.com/", "meta.com is the host itself, link-local"),
    ("allow=*,0.0.0.0/0", f"http://{METADATA}/", "which no sandbox reaches"),
    ("allow=*", "http://loop.com/", "loop.com is the host itself, link-local"),
    ("allow=*", "http://own.com/", "own.com is the host itself, link-local"),
    ("allow=*,11.0.0.0/8", f"http://{HOST}/", "the host itself"),
    ("allow=*,10.9.0.0/16", f"http://{networks.HOST_PRIVATE}:8080/", "the host itself"),
    ("allow=*,::/0", "http://[2001:470::1]/", "the host itself"),
    ("allow=*,::/0", "http://[::1]/", "which no sandbox reaches"),
    ("allow=*,::/0", "http://[::ffff:127.0.0.1]/", "which no sandbox reaches"),
    ("allow=*,::/0", f"http://[::ffff:{METADATA}]/", "which no sandbox reaches"),
    ("allow=*,::/0", "http://[64:ff9b::7f00:1]/", "which no sandbox reaches"),
    ("allow=*,::/0", "http://[::ffff:0:7f00:1]/", "which no sandbox reaches"),
    ("allow=*,::/0", "http://[fe80::1]/", "which no sandbox reaches"),
    ("allow=*", "http://0.0.0.0/", "which no sandbox reaches"),
    ("allow=*", "http://0x7f.1/", "which no sandbox reaches"),
    ("allow=*", "http://2852039166/", METADATA),  # the same as a number
])
def test_what_is_not_listed_is_closed_and_says_why(net, network, url, why):
    # --noproxy: curl itself would go to its own loopback without asking anybody
    code, body = net.curl(network, "-g", "--noproxy", "", "--path-as-is", url)
    assert code == 403 and body.startswith("cay: "), body
    assert why in body and len(body.splitlines()) == 2, body
    if ".com/" in url:  # what the host's resolver says is not for the sandbox to learn
        assert not any(address in body for address in (PRIVATE, METADATA, "127.0.0.1", "11.0.0.1")), body


def test_a_tunnel_for_tls_is_a_stream(net):
    seen = told(net.curl("allow=a.com", "--proxytunnel", "http://a.com:443/"))
    assert seen["path"] == "/"
    done = net.run("allow=a.com", "curl", "-sS", "-m", "20", "https://b.org/")
    assert done.returncode != 0 and b"403" in done.stderr


def test_a_name_is_looked_up_once(net):
    """The address that was checked is the one that is connected to."""
    for name in ("rebind.com", "rebound.com"):
        answers = [net.curl(f"allow={name}", f"http://{name}/") for _ in range(3)]
        codes = [code for code, _ in answers]
        assert sorted(set(codes)) == [200, 403], answers
        for answer in answers:
            if answer[0] == 200:
                told(answer)


def test_a_name_that_is_not_there(net):
    code, body = net.curl("allow=*", "http://nowhere.example/")
    assert code == 502 and "nowhere.example was not found" in body


def test_there_is_no_other_way_out(net):
    script = f"""
import socket
for family, address in ((socket.AF_INET, ("{PUBLIC}", 80)), (socket.AF_INET, ("{HOST}", 80)),
                        (socket.AF_INET6, ("2001:470::2", 80))):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.settimeout(5)
    print(s.connect_ex(address) != 0)
with open("/proc/net/dev") as f:
    print([line.split(":")[0].strip() for line in f if ":" in line])
"""
    assert ok(net.run("allow=*", "python3", "-c", script)) == "True\n" * 3 + "['lo']\n"


RAW = r"""
import socket, sys
for text in sys.argv[1:]:
    s = socket.create_connection(("127.0.0.1", 3128), 10)
    s.sendall(text.encode("latin1").decode("unicode_escape").encode("latin1"))
    got = b""
    while piece := s.recv(65536):
        got += piece
    print(got.split(b"\r\n")[0].decode())
"""


def test_what_two_readers_could_read_differently_is_refused(net):
    cases = [
        r"GET / HTTP/1.1\r\nHost: a.com\r\n\r\n",
        r"GET http://a.com/ HTTP/1.1\nHost: a.com\n\n" + r"x\r\n\r\n",
        r"GET http://a.com@b.org/ HTTP/1.1\r\n\r\n",
        r"GET http://a.com\x00.b.org/ HTTP/1.1\r\n\r\n",
        r"GET http://a.com/ HTTP/1.1\r\nA: b\r\n continued\r\n\r\n",
        r"GET http://a.com/ HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        r"GET http://a.com/ HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
        r"GET http://a.com/ HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n",
        r"GET http://a.com/ HTTP/1.1\r\nContent-Length : 3\r\n\r\n",
        r"GET http://a.com/ HTTP/2.0\r\n\r\n",
        r"CONNECT a.com HTTP/1.1\r\n\r\n",
        r"CONNECT a.com:0 HTTP/1.1\r\n\r\n",
        r"CONNECT a.com:443/x HTTP/1.1\r\n\r\n",
        r"GET ftp://a.com/ HTTP/1.1\r\n\r\n",
        "A" * 40000,
    ]
    lines = ok(net.run("allow=a.com", "python3", "-c", RAW, *cases)).splitlines()
    assert len(lines) == len(cases)
    for line, case in zip(lines, cases):
        assert line.startswith("HTTP/1.1 400 cay: "), (case[:80], line)


def test_the_host_that_is_told_is_the_one_that_was_checked(net):
    seen = told(net.curl("allow=a.com", "-H", "Host: b.org", "-H", "Proxy-Authorization: x",
                         "http://a.com/"))
    headers = {name.lower(): value for name, value in seen["headers"]}
    assert headers["host"] == "a.com" and "proxy-authorization" not in headers


def test_connections_are_bounded(net):
    script = r"""
import socket
held = [socket.create_connection(("127.0.0.1", 3128), 10) for _ in range(64)]
s = socket.create_connection(("127.0.0.1", 3128), 10)
print(s.recv(100).split(b"\r\n")[0].decode())
held.pop().close()
line = "503"
while "503" in line:  # until its end was noticed; the run has a limit of its own
    s = socket.create_connection(("127.0.0.1", 3128), 10)
    try:
        s.sendall(b"GET http://a.com/ HTTP/1.1\r\n\r\n")
        line = s.recv(100).split(b"\r\n")[0].decode()
    except ConnectionError:  # refused before it was asked
        line = "503"
print(line)
"""
    first, last = ok(net.run("allow=a.com", "python3", "-c", script)).splitlines()
    assert first.startswith("HTTP/1.1 503 cay: ") and last == "HTTP/1.1 200 OK", (first, last)


def test_the_environment_names_the_proxy_unless_the_caller_does(net):
    script = "printf '%s ' \"$HTTP_PROXY\" \"$https_proxy\" \"$ALL_PROXY\" \"$NO_PROXY\""
    assert ok(net.run("allow=a.com", "sh", "-c", script)).split() == \
        ["http://127.0.0.1:3128"] * 3 + ["localhost,127.0.0.1,::1"]
    done = net.cay("run", *support.TIER, "--network", "allow=a.com", "--env", "HTTP_PROXY=mine",
                   "--", "sh", "-c", "echo $HTTP_PROXY $http_proxy")
    assert ok(done) == "mine http://127.0.0.1:3128\n"
    assert ok(net.run("none", "sh", "-c", "env | grep -ci proxy; true")) == "0\n"


def test_nothing_is_left(net, clean_host):  # noqa: F811
    told(net.curl("allow=a.com", "http://a.com/"))
    process = net.popen(support.CAY, "run", *support.TIER, "--network", "allow=a.com", "--", "sh",
                        "-c", "echo; sleep 1000")
    process.stdout.readline()
    process.kill()
    process.communicate()


@pytest.mark.parametrize("network, parts", [
    ("allow=", ["empty entry"]),
    ("allow=a.com,,b.org", ["empty entry"]),
    ("allow=a b.com", ["neither a domain nor a range"]),
    ("allow=a.com:0", ["port"]),
    ("allow=10.0.0.0/33", ["no range of addresses"]),
    ("allow=127.0.0.0/8", ["never opened"]),
    ("allow=169.254.169.254", ["never opened"]),
    ("allow=a.*.com", ["neither a domain nor a range"]),
    ("allow=http://a.com/", ["port"]),
    ("everything", ["no network 'everything'", "allow="]),
    ("allow=" + "a" * 3000, ["longer than"]),
])
def test_a_wrong_list_is_refused(network, parts):
    refused(support.run("--network", network, "--", "true"), *parts)
