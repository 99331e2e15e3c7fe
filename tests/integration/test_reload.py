"""SIGHUP: the configuration is read again while everything goes on. And what a daemon says of itself:
its health, and a log that does not grow for ever."""

import http.client
import json
import os
import signal
import subprocess

import pytest
import support
from daemons import Refused, end_background, serving
from launching import INPUT, Connection, until
from test_tls import common_name, free_port, make_certificate, tls, wrap  # noqa: F401


def write(path, text):
    path.write_text(text)
    support.own(path)
    return path


def told(daemon, words, times=1):
    return until(lambda: daemon.log.read_text().count(words) >= times)


def reload(daemon, words="the configuration was read again", times=1):
    """SIGHUP, until the log has the words so often."""
    daemon.process.send_signal(signal.SIGHUP)
    assert told(daemon, words, times), daemon.log.read_text()


def metric(daemon, name):
    return next(float(line.split()[1]) for line in daemon.get("/metrics").text.splitlines()
                if line.startswith(name + " "))


def config(sandboxes, more=""):
    return f"[manager]\npool_size = 0\nmax_sandboxes = {sandboxes}\n{more}"


def test_limits(folder, clean_host):
    file = write(folder / "cay.toml", config(1))
    with serving(folder, "--config", file) as daemon:
        front, launcher = daemon.front(), daemon.launcher()
        first = daemon.create(name="first")["id"]
        with pytest.raises(Refused) as refused:
            daemon.create()
        assert "(1) reached" in refused.value.error["message"]
        with daemon.connect(first) as c:  # a command that does not notice
            c.exec("sh", "-c", "read line; echo $line", STDIN=1)
            write(file, config(2, '[sandbox]\nmemory_limit = "99m"\n'
                                  '[server]\nsocket = "/run/other.sock"\n'))
            reload(daemon)
            assert told(daemon, "a change counts after a restart")
            assert "key=server.socket" in daemon.log.read_text()
            made = daemon.create(name="second")
            assert made["memory"] == 99 << 20
            c.send(INPUT, b"still here\n")
            assert c.finish()[:2] == (0, "still here\n")
        assert daemon.call("GET", "/api/cay/status")["limit"] == 2
        assert (daemon.front(), daemon.launcher()) == (front, launcher)
        assert metric(daemon, "cay_reloads_total") == 1
        daemon.kill_child("cayd-front")  # what was taken over counts for the next one too
        assert until(daemon.serves)
        assert daemon.call("GET", "/api/cay/status")["limit"] == 2


def test_a_broken_one(folder, clean_host):
    file = write(folder / "cay.toml", config(7))
    with serving(folder, "--config", file) as daemon:
        write(file, config(3, "max_sandboxen = 4\n"))
        reload(daemon, "the configuration stays as it was")
        log = daemon.log.read_text()
        assert f"{file}:4:1: unknown key in [manager]: 'max_sandboxen'" in log
        assert "did you mean 'max_sandboxes'?" in log
        file.unlink()
        reload(daemon, "the configuration stays as it was", 2)
        assert until(lambda: metric(daemon, "cay_reload_failures_total") == 2)
        assert daemon.call("GET", "/api/cay/status")["limit"] == 7
        write(file, config(8))
        reload(daemon)
        assert daemon.call("GET", "/api/cay/status")["limit"] == 8


def test_hosts_and_origins(folder, clean_host):
    port = free_port()
    file = write(folder / "cay.toml", config(1))

    def ask(**headers):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/metrics", headers=headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers.get("Access-Control-Allow-Origin")

    def toolbox():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/api/config")
        return json.loads(connection.getresponse().read())["proxyToolboxUrl"]

    page = "https://page.example"
    with serving(folder, "--config", file, "--listen", f"127.0.0.1:{port}") as daemon:
        assert ask(Host="box.example") == (403, None) and ask(Origin=page) == (401, None)
        assert toolbox() == f"http://127.0.0.1:{port}/toolbox"
        write(file, config(1, '[server]\nallowed_hosts = ["box.example"]\nmetrics_public = true\n'
                              f'public_url = "{page}"\nallowed_origins = ["{page}"]\n'))
        reload(daemon)
        assert ask(Host="box.example") == (200, None) and ask(Origin=page) == (200, page)
        assert toolbox() == page + "/toolbox"
        write(file, config(1))
        reload(daemon, times=2)
        assert toolbox() == f"http://127.0.0.1:{port}/toolbox"
        assert ask(Host="box.example") == (403, None) and ask(Origin=page) == (401, None)


def test_certificate(folder, tls, clean_host):  # noqa: F811
    port = free_port()
    cert, key = make_certificate(tls, "first", tls)
    file = write(folder / "cay.toml", config(2, f'[server]\ntls_cert = "{cert}"\n'
                                                f'tls_key = "{key}"\n'))
    with serving(folder, "--config", file, "--listen", f"127.0.0.1:{port}") as daemon:
        bearer = (daemon.state / "admin.key").read_text().strip().encode()
        daemon.create(name="lab")
        assert common_name(port, tls) == "first"
        sock = wrap(port, tls)
        sock.sendall(b"GET /api/cay/sandbox/lab/connect HTTP/1.1\r\nHost: localhost\r\n"
                     b"Authorization: Bearer %s\r\nConnection: Upgrade\r\n"
                     b"Upgrade: cay-init\r\n\r\n" % bearer)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += sock.recv(1)
        with Connection(sock) as c:  # goes on with the certificate it began with
            c.exec("sh", "-c", "read line; echo $line", STDIN=1)
            for name, times in (("second", 1), ("third", 2)):
                other, other_key = make_certificate(tls, name, tls)
                write(cert, other.read_text())
                write(key, other_key.read_text())
                reload(daemon, times=times)
                assert common_name(port, tls) == name
            c.send(INPUT, b"still here\n")
            assert c.finish()[:2] == (0, "still here\n")
        write(key, make_certificate(tls, "fourth", tls)[1].read_text())  # of no use
        reload(daemon, "belong together")
        assert common_name(port, tls) == "third"
        write(key, other_key.read_text())
        reload(daemon, times=3)  # the same again
        assert common_name(port, tls) == "third"


def test_health(folder, clean_host):
    with serving(folder, env={"CAY_MANAGER_POOL_SIZE": "0"}) as daemon:
        file = daemon.state / "daemon/cay.db"
        file.rename(file.with_suffix(".away"))
        answer = daemon.get("/healthz")
        assert answer.status == 503 and "not there any more" in answer.json()["message"]
        assert daemon.get("/api/health/ready").status == 503
        assert daemon.get("/api/health").json() == {"status": "ok"}
        file.with_suffix(".away").rename(file)
        assert daemon.get("/healthz").text == "ok"
        assert daemon.get("/api/health/ready").json() == {"status": "ok"}


def test_log_is_bounded(folder, clean_host):
    state = folder / "background"
    state.mkdir()
    support.own(state)
    who, env = support.as_user()
    subprocess.run([support.BUILD / "cayd", "--state-dir", state, "--background"], check=True,
                   env={**env, "CAY_MANAGER_POOL_SIZE": "0"}, timeout=90,
                   stdin=subprocess.DEVNULL, **who)
    try:
        log, old = state / "daemon/log", state / "daemon/log.1"
        before = log.read_bytes()
        with open(log, "ab") as out:
            out.truncate((16 << 20) + 1)
        os.kill(int((state / "daemon/lock").read_text()), signal.SIGHUP)  # it looks when it wakes
        assert until(lambda: old.exists() and log.stat().st_size < 1 << 20)
        assert old.read_bytes().startswith(before)
        os.kill(int((state / "daemon/lock").read_text()), signal.SIGHUP)
        assert until(lambda: b"the configuration was read again" in log.read_bytes())
    finally:
        end_background(state)
