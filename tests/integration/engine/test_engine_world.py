"""Who a command is, where it is, and what it sees of the world."""

import pytest
from launching import STARTED, until

needs = pytest.mark.needs


# ---- who, where, with what ----

def test_root_inside_by_default(box):
    assert box.says("id -u; id -g") == "0\n0\n"


def test_the_work_folder(box):
    assert box.says("pwd") == "/workspace\n"


def test_a_command_may_begin_elsewhere(box):
    assert box.says("pwd", CWD="/tmp") == "/tmp\n"


def test_a_work_folder_that_is_not_there_is_made(box):
    assert box.says("pwd", CWD="/workspace/made/for/it") == "/workspace/made/for/it\n"


def test_the_environment_of_the_sandbox(box):
    assert box.says('printf "%s" "$FROM_BOX"') == "a b"


def test_the_environment_of_a_command(box):
    assert box.says('printf "%s|%s" "$FROM_BOX" "$ONE"', env=["FROM_BOX=other", "ONE=x=y z\n"]) == \
        "other|x=y z\n"


def test_nothing_of_the_daemon_s_environment(box):
    names = {line.split("=")[0] for line in box.says("env").splitlines()}
    assert not names & {"XDG_STATE_HOME", "CAY_MANAGER_POOL_SIZE", "ASAN_OPTIONS", "DOCKER_HOST"}


def test_another_user_by_number(make):
    box = make(user="1234")
    assert box.says("id -u") == "1234\n"


@needs("ids")
def test_a_user_and_a_group_by_number(box):
    assert box.says("id -u; id -g", USER="1234:2345") == "1234\n2345\n"


@needs("ids")
def test_files_of_another_user(box):
    assert box.sh("echo x > /root/none", USER="1234").code != 0
    assert box.says("echo mine > /tmp/of-1234 && cat /tmp/of-1234", USER="1234") == "mine\n"


def test_an_unknown_user(box):
    done = box.run("true", USER="nobody-knows-him")
    assert "nobody-knows-him" in done.last["MESSAGE"] and not done.started


def test_the_hostname_is_its_own(box):
    with open("/proc/sys/kernel/hostname") as f:
        assert box.says("hostname") != f.read()


def test_the_loopback_has_a_name(box):
    """And nothing of the host's own list of names is seen."""
    name = box.says("hostname").strip()
    assert box.says("cat /etc/hosts").splitlines() == [
        "127.0.0.1 localhost", "::1 localhost ip6-localhost", f"127.0.1.1 {name}"]


def test_a_name(make):
    assert make(name="named-box").info()["name"] == "named-box"


def test_labels(box):
    assert box.info()["labels"] == {"suite": "engine"}


def test_work_dir_and_user_of_the_sandbox(make):
    box = make(workDir="/srv/app", user="0:0")
    assert box.says("pwd") == "/srv/app\n"


# ---- its own world ----

def test_pid_1_is_ours(box):
    assert box.says("cat /proc/1/comm") == "cay-init\n"


def test_processes_are_its_own(box):
    """A few, and none of the host's."""
    names = box.says("cat /proc/[0-9]*/comm").split()
    assert set(names) <= {"cay-init", "cay-op", "cat", "sh", "busybox", "sleep"}, names


def test_pid_1_cannot_be_killed(box):
    box.sh("kill -9 1; kill -TERM 1")
    assert box.says("echo here") == "here\n" and box.info()["state"] == "started"


def test_capabilities_are_none(box):
    seen = dict(line.split(":\t") for line in box.says("grep ^Cap /proc/self/status").splitlines())
    assert {int(seen[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {0}


def test_no_new_privileges(box):
    assert box.says("grep NoNewPrivs /proc/self/status").split() == ["NoNewPrivs:", "1"]


def test_a_seccomp_filter(box):
    assert "Seccomp:\t2\n" in box.says("grep Seccomp: /proc/self/status")


@pytest.mark.parametrize("path", ["/dev/sda", "/dev/vda", "/dev/mem", "/dev/kmsg", "/dev/loop0"])
def test_no_device_of_the_host(box, path):
    assert box.sh(f"test -e {path}").code == 1


@pytest.mark.parametrize("path", ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom",
                                  "/dev/tty", "/dev/ptmx", "/dev/shm", "/dev/fd", "/dev/stdin"])
def test_the_usual_devices(box, path):
    assert box.sh(f"test -e {path} || test -L {path}").code == 0


@pytest.mark.parametrize("script", [
    "mount -t tmpfs x /mnt", "mount -o remount,rw /proc", "chroot / true", "mknod /tmp/disk b 8 0",
    "echo 1 > /proc/sys/kernel/sysrq", "cat /proc/kcore | head -c 1 | grep .",
    "echo c > /proc/sysrq-trigger", "dmesg", "hostname changed",
])
def test_what_is_refused(box, script):
    assert box.sh(script).code != 0


def test_no_socket_of_an_engine(box):
    assert box.sh("ls /var/run/docker.sock /run/docker.sock /run/podman 2>/dev/null").text == ""


def test_two_sandboxes_do_not_see_each_other(box, make):
    other = make()
    box.says("echo secret > /tmp/mine")
    assert other.sh("cat /tmp/mine").code == 1
    with box.command("sleep", "12321") as c:
        c.expect(STARTED)
        assert (box.alive("12321"), other.alive("12321")) == (1, 0)


# ---- network ----

def test_the_loopback_works(box):
    port = "5123"
    with box.command("sh", "-c", f"echo listening | nc -l -p {port} 127.0.0.1 || "
                     f"echo listening | nc -l 127.0.0.1 {port}") if box.has("nc") else \
            box.command("python3", "-c", "import socket\ns = socket.create_server(('127.0.0.1', 5123))\n"
                        "c, _ = s.accept()\nc.sendall(b'listening\\n')") as c:
        c.expect(STARTED)
        ask = f"nc 127.0.0.1 {port} < /dev/null" if box.has("nc") else \
            "python3 -c \"import socket; print(socket.create_connection(('127.0.0.1', 5123))" \
            ".recv(99).decode(), end='')\""
        assert until(lambda: box.sh(ask + " 2>/dev/null").text == "listening\n")


def test_network_off_is_off(box):
    """Only the loopback is there, and no way to anywhere."""
    names = [line.split(":")[0].strip() for line in box.says("cat /proc/net/dev").splitlines()[2:]]
    assert set(names) <= {"lo", "sit0", "tunl0", "ip6tnl0", "gre0", "gretap0", "erspan0", "ip_vti0",
                          "ip6_vti0", "ip6gre0", "dummy0"}
    assert len(box.says("cat /proc/net/route").splitlines()) <= 1
